"""pytest runs on the laboratory's controller."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from laboratory import Laboratory, children
from machine import INVENTORY, Machine

TEST = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.storage(size="64M")
def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=1), rounds=2, warmup=0)
"""
"""Two rounds of one cell."""


class Project:
    """A folder with a test file, for pytest runs on the controller."""

    def __init__(self, lab: Laboratory, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.write(TEST)

    def write(self, test: str, **files: str) -> None:
        """Put a test file there, and others by their names without .py."""
        for name, text in {"test_it": test, **files}.items():
            (self.folder / f"{name}.py").write_text(text)

    def argv(self, *options: str) -> list[str]:
        """A pytest run as a user starts it; emulated, as no test here is about KVM."""
        return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--vm-accel=tcg", *options]

    def run(self, *options: str, timeout_s: float = 240) -> tuple[int, str]:
        """A finished run: its return code and its output."""
        return self.lab.run(self.argv(*options), self.folder, timeout_s)

    @contextmanager
    def going(self, *options: str) -> Iterator[Run]:
        """A run that goes on meanwhile, and is killed if it still does afterwards."""
        with (self.folder / "output").open("w") as output:
            run = Run(self.folder, self.lab.start(self.argv(*options), self.folder, output))
        try:
            yield run
        finally:
            run.kill()


def project_on(machine: Machine) -> Project:
    """A project for runs on that machine, with its group and its dataset listed."""
    folder = Path(tempfile.mkdtemp(prefix="project-", dir=machine.lab.folder))
    project = Project(machine.lab, folder)
    (project.folder / "vmstorage.toml").write_text(INVENTORY)
    return project


class Run:
    """A run that goes on. Its tests make files NAME.mark when they are somewhere, and may wait for NAME.go."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        self._folder = folder
        self._process = process

    @property
    def output(self) -> str:
        """What it has printed so far."""
        return (self._folder / "output").read_text()

    def wait_for_mark(self, name: str, seconds: float = 90) -> None:
        """Wait until one of its tests is there; a RuntimeError has its output."""
        self._wait_for((self._folder / f"{name}.mark").exists, name, seconds)

    def wait_for_words(self, pattern: str, seconds: float = 90) -> None:
        """Wait until it has printed what matches that; a RuntimeError has its output."""
        words = re.compile(pattern)
        self._wait_for(lambda: words.search(self.output), repr(pattern), seconds)

    def _wait_for(self, happened: Callable[[], object], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            if self._process.poll() is not None and not happened():
                raise RuntimeError(f"the run ended before {what}:\n{self.output}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} did not come within {seconds:.0f} s:\n{self.output}")
            time.sleep(0.05)

    def go_on(self, name: str) -> None:
        """Let it go on from there."""
        (self._folder / f"{name}.go").touch()

    def ended(self, timeout_s: float = 120) -> tuple[int, str]:
        """Its return code and all that it printed, when it has ended."""
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"no end after {timeout_s} s:\n{self.output}") from None
        return self._process.returncode, self.output

    def kill(self) -> None:
        """SIGKILL for pytest itself, and nobody else."""
        for pid in children(self._process.pid) if self._process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        self._process.wait()
