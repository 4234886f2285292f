"""Workloads that make files of their own: each has a folder on the file system under test, gone after each round."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from pytest_vmstorage.workloads.base import Target, Workload

Many = Annotated[int, Field(ge=1, le=10**7)]
"""How many files or operations: a tool that makes more of them has its list in memory, and guests have little."""


class FileWorkload(Workload):
    """A tool that works on files of its own, in a folder beside the test file; it reads only what it made itself."""

    needs_folder: ClassVar[bool] = True

    def place(self, target: Target) -> str:
        """Its folder on the file system under test."""
        return f"{target.folder}/vmstorage-{self.tool}"

    def beside(self, target: Target) -> str:
        """A file or folder of its own in the scratch folder, for what is no I/O of the disk, as the tool's settings."""
        # a native row's scratch folder is the one in which its files are made
        return f"{target.scratch}/vmstorage-{self.tool}.own"

    def set_aside(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Its files stay, under another name."""
        rename = 'n=1; while [ -e "$1.$n" ]; do n=$((n + 1)); done; mv "$1" "$1.$n"; rm -rf "$2"'
        return (("/bin/sh", "-c", rename, "sh", self.place(target), self.beside(target)),)

    def cleanup(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Remove both."""
        return (("rm", "-rf", self.place(target), self.beside(target)),)
