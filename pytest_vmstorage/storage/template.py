"""Templates: what a disk holds once its guest has made a file system on it and filled the test file there.

From a template the host makes the disks of other cells of a run. The file system is copied as the guest left it, and
blocks that hold nothing but zeros are allocated where the guest had them allocated; the data of the test file is
written anew, so that no two disks share a block of it. Making a file system and filling a file takes an emulated guest
a second, most of it for the start of programs.
"""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.host.folders import folder_facts
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.storage.extents import Extent, file_extents, without
from pytest_vmstorage.storage.space import space_needed

FILE_SYSTEMS = ("ext3", "ext4", "xfs")
"""File systems of which filefrag tells where on the disk a file lies; btrfs has addresses of its own."""

SOURCES = ("raw", "qcow2")
"""Formats of which filefrag or `qemu-img map` tells what is allocated, in pieces of a block or a cluster."""

MOST_EXTENTS = 16
"""Each extent is one more source on the command line of qemu-img; a file in more pieces is left to its guest."""

_COPY_S = 600.0


class Template(BaseModel):
    """A raw file with all that a disk holds but the test file's data, which lies in `extents`, in the file's order.

    Of the parts that are allocated and hold zeros, `written` were written so, and `zeroed` by a request for zeros.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    extents: tuple[Extent, ...]
    written: tuple[Extent, ...] = ()
    zeroed: tuple[Extent, ...] = ()

    @property
    def filled_bytes(self) -> int:
        """Bytes of the test file, from its start, that are written."""
        return sum(one.length_bytes for one in self.extents)


class Templates:
    """The templates of one run, in its folder on the host."""

    def __init__(self, shell: Shell, folder: str) -> None:
        self._shell = shell
        self._folder = folder
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._taken: dict[StorageConfig, Template | None] = {}

    def find(self, config: StorageConfig, filled_bytes: int) -> Template | None:
        """The template for that cell's disk with so much of its test file written; None where there is none."""
        # a raw file tells best what was written
        found = (self._taken.get(_kind(config, source)) for source in ("raw", config.format))
        return next((one for one in found if one is not None and one.filled_bytes == filled_bytes), None)

    def is_wanted(self, config: StorageConfig, others: Iterable[StorageConfig]) -> bool:
        """Whether disks of other cells can be made from that cell's, and there is no template for them yet."""
        if config.format not in SOURCES or config.preallocation != "off":
            return False
        own = _kind(config, config.format)
        kinds = ({_kind(one, "raw"), _kind(one, one.format)} for one in others)
        return any(own in both and not both & self._taken.keys() for both in kinds)

    def take(self, config: StorageConfig, path: str, extents: Sequence[Extent]) -> None:
        """Copy that cell's disk, on which nothing is written meanwhile; without room or means there is no template."""
        own = _kind(config, config.format)
        with self._lock:
            if own in self._taken:
                return
            self._taken[own] = None
        # the copy has the file system alone, but it may be most of the disk
        if len(extents) > MOST_EXTENTS or folder_facts(self._shell, self._folder).free_bytes < space_needed(config) * 2:
            return
        copy = f"{self._folder}/template-{next(self._numbers)}.raw"
        try:
            made = self._copied(config, path, extents, copy)
        except ProvisionError:
            # guests make their own, as on a host whose qemu-img is older than 5.0
            self._shell.run(["rm", "-f", "--", copy])
        else:
            self._taken[own] = made

    def _copied(self, config: StorageConfig, path: str, extents: Sequence[Extent], copy: str) -> Template:
        """Copy all but those extents of the disk; raises ProvisionError."""

        def run(*argv: str) -> str:
            return check(self._shell.run(argv, timeout_s=_COPY_S), f"copying {path}").stdout

        run("truncate", "-s", str(config.size), "--", copy)
        image = {"driver": config.format, "file": {"driver": "file", "filename": path}}
        parts = [(json_part(image, one), one) for one in without([Extent(0, config.size)], extents)]
        parts += [(json_nothing(one.length_bytes), one) for one in extents]
        sources = [source for source, _ in sorted(parts, key=itemgetter(1))]
        # -U: the guest has the image open, and writes nothing
        run("qemu-img", "convert", "-U", "-n", "--target-is-zero", "-O", "raw", *sources, copy)
        # nothing of it is to be written back during a round
        run("sync", "--", copy)
        if config.format == "raw":
            there = [(one.at, not one.is_unwritten) for one in file_extents(run("filefrag", "-v", path))]
        else:
            told = json.loads(run("qemu-img", "map", "-U", "-f", config.format, "--output=json", path))
            there = [(_place(one), one["data"]) for one in told if one["present"]]
        told = json.loads(run("qemu-img", "map", "-f", "raw", "--output=json", copy))
        known = [*extents, *(_place(one) for one in told if one["data"])]
        written, zeroed = (
            tuple(without((part for part, is_data in there if is_data is kind), known)) for kind in (True, False)
        )
        return Template(path=copy, extents=tuple(extents), written=written, zeroed=zeroed)


def _kind(config: StorageConfig, source: str) -> StorageConfig:
    """All that the disks made from one template have in common; `source` is the format of the disk it was taken of.

    A guest sees nothing of the rest but whether there is a write cache, on which no file system depends.
    """
    same = {"cache": "none", "io": "threads", "preallocation": "off", "format": source}
    return config.model_copy(update=same)


def _place(told: Mapping[str, int]) -> Extent:
    """The part of a disk that an item of `qemu-img map --output=json` is about."""
    return Extent(told["start"], told["length"])


def json_part(node: Mapping[str, object], part: Extent) -> str:
    """qemu-img's name of a part of what that node of QEMU's has."""
    window = {"driver": "raw", "offset": part.offset_bytes, "size": part.length_bytes, "file": node}
    return f"json:{json.dumps(window)}"


def json_nothing(size_bytes: int) -> str:
    """qemu-img's name of so many bytes that are no data, and read as zeros."""
    return f"json:{json.dumps({'driver': 'null-co', 'size': size_bytes, 'read-zeroes': True})}"
