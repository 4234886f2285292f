"""Images that nobody made: what qemu-img and qemu-io of 7.2 would answer of them."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pytest_vmstorage.host.shell import CommandResult
from pytest_vmstorage.testing.shell import Asked, FakeShell

_EMPTY_BYTES = 262144


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
        """What `qemu-img info` tells of it."""
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
        """What `qemu-img check` counts in it; as the real one it leaves out what there is none of."""
        disks = min(self.written, self.size)
        counts = {
            "allocated-clusters": -(-disks // self.cluster),
            "compressed-clusters": self.compressed // self.cluster,
        }
        end = _EMPTY_BYTES + self.written
        whole = {"image-end-offset": end, "total-clusters": -(-self.size // self.cluster), "check-errors": 0}
        return whole | {name: count for name, count in counts.items() if count}


class Images:
    """The images of a fake host: made, filled and told of by the commands that a FakeShell is asked to run."""

    def __init__(self, shell: FakeShell) -> None:
        self._shell = shell
        self._there: dict[str, _Image] = {}
        shell.do(re.compile(r"^qemu-img create "), self._create)
        shell.do(re.compile(r"^qemu-img info "), self._info)
        shell.do(re.compile(r"^qemu-img check "), self._check)
        shell.do(re.compile(r"^qemu-img snapshot "), self._snapshot)
        # nothing is counted of what fills a disk as its guest would
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
        return said(asked)

    def _chain(self, image: _Image) -> Iterator[_Image]:
        yield image
        if image.below:
            yield from self._chain(self._there[image.below])

    def _info(self, asked: Asked) -> CommandResult:
        return said(asked, json.dumps([one.info() for one in self._chain(self._of(asked))]))

    def _check(self, asked: Asked) -> CommandResult:
        return said(asked, json.dumps(self._of(asked).check()))

    def _snapshot(self, asked: Asked) -> CommandResult:
        self._of(asked).snapshots.append(dict(itertools.pairwise(asked.argv))["-c"])
        return said(asked)

    def _write(self, asked: Asked) -> CommandResult:
        image = self._of(asked)
        for line in (asked.stdin or b"").decode().splitlines():
            length = int(line.split()[-1])
            image.written += length
            image.compressed += length if " -c " in line else 0
        return said(asked)

    def _stat(self, asked: Asked) -> CommandResult:
        image = self._of(asked)
        is_whole = image.preallocation in ("falloc", "full")
        is_long = image.kind == "raw" or image.preallocation != "off" or image.options.get("subformat") == "fixed"
        return said(asked, f"{image.size if is_long else 196616} {image.size // 512 if is_whole else 8} 512\n")

    def _extents(self, asked: Asked) -> CommandResult:
        flags = "last,unwritten,eof" if self._of(asked).preallocation == "falloc" else "last,eof"
        return said(asked, f"   0:        0..    2047:    3918848..   3920895:   2048:             {flags}\n")


def said(asked: Asked, stdout: str = "") -> CommandResult:
    """A command's success, with what it said."""
    return CommandResult(argv=asked.argv, returncode=0, stdout=stdout, stderr="", seconds=0.0)
