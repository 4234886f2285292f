"""A healthy host without hardware: answers of its commands, and of qemu-img and qemu-io 7.2 about images."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import PurePosixPath

from pytest_vmstorage.host.shell import CommandResult
from pytest_vmstorage.testing.shell import Asked, FakeShell

_EMPTY_BYTES = 262144

CONSOLE = "[    1.2] virtio_blk virtio1: 1/0/0 queues\n[    1.9] init: ready\n"
"""The end of every guest's console."""

QEMU_VERSION = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\n"
"""The version of every QEMU on a fake host."""

FOLDER = "/srv/vm"
"""The folder for disks of a fake host."""


@dataclass
class _Image:
    """An image by the options it was made with; `written` is in bytes, of the whole and of what was compressed."""

    path: str
    kind: str
    options: Mapping[str, str]
    size: int
    below: str = ""
    written: int = 0
    compressed: int = 0
    snapshots: list[str] = field(default_factory=list)

    @property
    def preallocation(self) -> str:
        return self.options.get("preallocation", "off")

    @property
    def cluster(self) -> int:
        return int(self.options.get("cluster_size", 65536))

    def info(self) -> Mapping[str, object]:
        """The answer of `qemu-img info`."""
        known: dict[str, object] = {"virtual-size": self.size, "format": self.kind, "filename": self.path}
        if self.kind == "qcow2":
            known |= {"cluster-size": self.cluster, "format-specific": {"type": "qcow2", "data": self._of_qcow2()}}
            known |= {"encrypted": True} if "encrypt.format" in self.options else {}
            known |= {"snapshots": [{"name": name} for name in self.snapshots]} if self.snapshots else {}
        if self.kind == "vmdk":
            kind = self.options.get("subformat", "monolithicSparse")
            extents = [{"filename": self.path, **({"compressed": True} if kind == "streamOptimized" else {})}]
            known["format-specific"] = {"type": "vmdk", "data": {"create-type": kind, "extents": extents}}
        return known

    def _of_qcow2(self) -> Mapping[str, object]:
        names = ("lazy-refcounts", "extended-l2")
        flags = {name: self.options.get(name.replace("-", "_")) == "on" for name in names}
        crypt = {"encrypt": {"format": self.options["encrypt.format"]}} if "encrypt.format" in self.options else {}
        kind = self.options.get("compression_type", "zlib")
        return {"compat": self.options["compat"], "compression-type": kind, **flags, **crypt}

    def check(self) -> Mapping[str, object]:
        """The counts of `qemu-img check`, which leaves out zeros."""
        disks = min(self.written, self.size)
        counts = {
            "allocated-clusters": -(-disks // self.cluster),
            "compressed-clusters": self.compressed // self.cluster,
        }
        end = _EMPTY_BYTES + self.written
        whole = {"image-end-offset": end, "total-clusters": -(-self.size // self.cluster), "check-errors": 0}
        return whole | {name: count for name, count in counts.items() if count}


class Images:
    """The images of a fake host, which the commands on its FakeShell make, fill and describe."""

    def __init__(self, shell: FakeShell) -> None:
        self._shell = shell
        self._there: dict[str, _Image] = {}
        shell.do(re.compile(r"^qemu-img create "), self._create)
        shell.do(re.compile(r"^qemu-img info "), self._info)
        shell.do(re.compile(r"^qemu-img check "), self._check)
        shell.do(re.compile(r"^qemu-img snapshot "), self._snapshot)
        # a disk that is filled as its guest would fill it is not counted
        shell.answer(re.compile(r"^qemu-img convert -n "))
        shell.answer(re.compile(r"^sh -c 'head -c .* /dev/urandom "))
        shell.do(re.compile(r"^sh -c .* qemu-io "), self._write)
        shell.do(re.compile(r"^stat "), self._stat)
        shell.do(re.compile(r"^filefrag "), self._extents)

    def _of(self, asked: Asked) -> _Image:
        name = asked.argv[-1]
        return self._there[json.loads(name[5:])["file"]["filename"] if name.startswith("json:") else name]

    def _create(self, asked: Asked) -> CommandResult:
        *_, path, size = asked.argv
        words = dict(itertools.pairwise(asked.argv))
        options = dict(word.split("=", 1) for word in words.get("-o", "").split(",") if word)
        self._there[path] = _Image(path, words["-f"], options, int(size), words.get("-b", ""))
        self._shell.files[path] = b""
        return answer_of(asked)

    def _chain(self, image: _Image) -> Iterator[_Image]:
        yield image
        if image.below:
            yield from self._chain(self._there[image.below])

    def _info(self, asked: Asked) -> CommandResult:
        return answer_of(asked, json.dumps([one.info() for one in self._chain(self._of(asked))]))

    def _check(self, asked: Asked) -> CommandResult:
        return answer_of(asked, json.dumps(self._of(asked).check()))

    def _snapshot(self, asked: Asked) -> CommandResult:
        self._of(asked).snapshots.append(dict(itertools.pairwise(asked.argv))["-c"])
        return answer_of(asked)

    def _write(self, asked: Asked) -> CommandResult:
        image = self._of(asked)
        for line in (asked.stdin or b"").decode().splitlines():
            length = int(line.split()[-1])
            image.written += length
            image.compressed += length if " -c " in line else 0
        return answer_of(asked)

    def _stat(self, asked: Asked) -> CommandResult:
        image = self._of(asked)
        is_whole = image.preallocation in ("falloc", "full")
        is_long = image.kind == "raw" or image.preallocation != "off" or image.options.get("subformat") == "fixed"
        return answer_of(asked, f"{image.size if is_long else 196616} {image.size // 512 if is_whole else 8} 512\n")

    def _extents(self, asked: Asked) -> CommandResult:
        flags = "last,unwritten,eof" if self._of(asked).preallocation == "falloc" else "last,eof"
        head = f"File size of {asked.argv[-1]} is 8388608 (2048 blocks of 4096 bytes)\n"
        return answer_of(
            asked, f"{head}   0:        0..    2047:    3918848..   3920895:   2048:             {flags}\n"
        )


def answer_of(asked: Asked, stdout: str = "") -> CommandResult:
    """The result of a command that succeeded."""
    return CommandResult(argv=asked.argv, returncode=0, stdout=stdout, stderr="", seconds=0.0)


def own_folder(asked: Asked) -> CommandResult:
    """The folder for disks exists and is root's own; nobody else may write to it or above it."""
    path = asked.argv[-2]
    folders = (path, *map(str, PurePosixPath(path).parents))
    return answer_of(asked, "user 0 0 root root none\n" + "".join(f"folder 0 0 711 root {one}\n" for one in folders))


def make_host_shell(*, free_bytes: int = 100 * 2**30) -> FakeShell:
    """A healthy host: qemu-img makes images, df, stat and filefrag describe them, rm removes them."""
    shell = FakeShell()
    Images(shell)

    def remove(asked: Asked) -> CommandResult:
        gone = asked.argv[-1]
        for path in [path for path in shell.files if path == gone or path.startswith(f"{gone}/")]:
            del shell.files[path]
        return answer_of(asked)

    def look(asked: Asked) -> CommandResult:
        return answer_of(asked, QEMU_VERSION)

    def run(asked: Asked) -> CommandResult:
        return answer_of(asked, f"{asked.argv[4]}\nsame\nbinary\n{QEMU_VERSION}")

    shell.do(re.compile(r"^rm "), remove)
    # any QEMU that a cell names is there, and runs its guest
    shell.do(re.compile(r"exec \"\$1\" --version"), look)
    shell.do(re.compile(r"/proc/\$\{pid:-none\}/exe"), run)
    root = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    shell.do(re.compile(r"readlink .*mountinfo"), lambda asked: answer_of(asked, f"{asked.argv[-1]}\n{root}"))
    shell.answer(re.compile(r"^test -b "), returncode=1)
    # no image has extents in further files
    shell.answer(re.compile(r"^sh -c 'ls "), returncode=2)
    shell.answer(re.compile(r"^df "), f"Type Avail Filesystem\next4 {free_bytes} /dev/vda\n")
    shell.answer(re.compile(r"^tail "), CONSOLE)
    shell.do(re.compile(r"vmstorage-write-test"), own_folder)
    shell.answer(re.compile(r"^sh -c 'for one; do dd "))
    shell.answer(re.compile(r"^(mkdir|sync|chmod) "))
    shell.answer(re.compile(r"blockdev --flushbufs|^/bin/sh -c 'sync; "))
    shell.answer(re.compile(r"drop_caches"), "dropped\n")
    shell.do(
        re.compile(r"sha256sum"), lambda asked: answer_of(asked, f"{sha256(asked.argv[-1].encode()).hexdigest()}  -\n")
    )
    shell.do(re.compile(r"^readlink -f "), lambda asked: answer_of(asked, f"{asked.argv[-1]}\n"))
    shell.answer(re.compile(r"stat -L -c "), "file\n")
    shell.answer(re.compile(r"^du "), "0\t/srv/vm\n")
    # all tools are there
    shell.answer(re.compile(r"command -v"))
    # and take all options
    shell.answer(re.compile(r"^fio --parse-only -$"))
    shell.answer(re.compile(r"uname -r"), "kernel=6.1.0-18-amd64\ncpus=2\n")
    shell.answer(re.compile(r"fio --version"), "fio=3.33\ncoreutils=9.1\n")
    shell.answer(re.compile(r"qemu-img --version"), "qemu-img=7.2.22\ncoreutils=9.1\n")
    # no loop device is in use
    shell.answer(re.compile(r"loop/backing_file"), returncode=1)
    return shell
