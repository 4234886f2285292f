"""A bench of fakes: a host on which image operations take half a second each and do what they ought to."""

from __future__ import annotations

import re
import shlex

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.host.shell import CommandResult
from pytest_vmstorage.measure.image_operations import Bench
from pytest_vmstorage.storage.operations.files import FileImage
from pytest_vmstorage.testing.host import FOLDER, answer_of, make_host_shell
from pytest_vmstorage.testing.shell import Asked, FakeShell
from pytest_vmstorage.workloads.image_operations import ImageOperations

_PART = re.compile(r"^part (\w+) run ", re.MULTILINE)
_CREATED = re.compile(r"^qemu-img create .*$", re.MULTILINE)


class ImageHost:
    """Image operations on a fake host: `data` is the image's content now, `done` the operations so far, in order.

    `idle` are operations that succeed and do nothing; `failing` has the error of each that fails.
    """

    def __init__(self, shell: FakeShell) -> None:
        self.shell = shell
        self.done: list[str] = []
        self.data = ""
        self.idle: set[str] = set()
        self.failing: dict[str, str] = {}
        self._blocks = 0
        self._made: list[str] = []
        self.shell.do(re.compile(r"^env LC_ALL=C bash -c "), self._operate)
        self.shell.do(re.compile(r"^sh -c .* qemu-io .*/images-"), self._write)
        self.shell.do(re.compile(r"^qemu-io -r "), lambda asked: answer_of(asked, f"qemu-io> 00000000:  {self.data}\n"))
        self.shell.do(re.compile(r"^find .*printf"), lambda asked: answer_of(asked, f"{self._blocks}\n"))
        self.shell.answer(re.compile(r"^find .*filefrag"))
        self.shell.answer(re.compile(r"^sh -c 'printf %4096s x"), returncode=1)
        self.shell.answer(re.compile(r"mindepth 1 -delete"))
        self.shell.answer(re.compile(r"^sh -c 'rm -f"))

    def _operate(self, asked: Asked) -> CommandResult:
        found = _PART.search(asked.argv[4])
        assert found, asked.line
        operation = found[1]
        self.done.append(operation)
        if operation in self.failing:
            error = self.failing[operation]
            return CommandResult(argv=asked.argv, returncode=1, stdout="", stderr=f"{error}\n", seconds=0.5)
        if operation not in self.idle:
            self._do(operation, asked.argv[4])
        return answer_of(asked, f"part {operation} 100.0 100.5\n").model_copy(update={"seconds": 0.6})

    def _do(self, operation: str, script: str) -> None:
        made = _CREATED.search(script)
        if operation == "create" and made:
            # for the images that the shell knows
            self.data, self._made = "", shlex.split(made[0])
            self.shell.run(self._made)
        if operation == "resize":
            self.shell.run([*self._made[:-1], str(2 * int(self._made[-1]))])
        if operation == "rollback":
            self.data = "first"
        self._blocks = 0 if operation == "delete" else self._blocks + 8

    def _write(self, asked: Asked) -> CommandResult:
        self.data = "second" if self.data and "snapshot" not in self.idle else "first"
        return answer_of(asked)


def make_bench(
    config: StorageConfig, workload: ImageOperations, *, shares_blocks: bool = False
) -> tuple[Bench, ImageHost]:
    """A bench for the cell in a folder on ext4, or on an xfs that shares blocks, and its host."""
    host = ImageHost(make_host_shell())
    kind = "xfs" if shares_blocks else "ext4"
    place = FileImage(config, f"{FOLDER}/images-1", workload, kind=kind, shares_blocks=shares_blocks)
    return Bench(shell=host.shell, config=config, host="local", place=place, scratch=FOLDER), host
