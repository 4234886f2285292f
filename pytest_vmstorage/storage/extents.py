"""Extents: contiguous parts of a disk or a file, and those of which filefrag says that a file has them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pytest_vmstorage.errors import ProvisionError


class Extent(NamedTuple):
    """A contiguous part of a disk or a file, in bytes."""

    offset_bytes: int
    length_bytes: int

    @property
    def end_bytes(self) -> int:
        """The offset of the first byte behind it."""
        return self.offset_bytes + self.length_bytes


class FileExtent(NamedTuple):
    """A contiguous part of a file, and its place on the device; the flags are filefrag's words."""

    at: Extent
    place: Extent
    flags: frozenset[str]

    @property
    def is_unwritten(self) -> bool:
        """Whether it is allocated, and reads as zeros because nothing was written there."""
        return "unwritten" in self.flags


_BLOCK = re.compile(r"^File size of .* \(\d+ blocks? of (\d+) bytes\)$", re.MULTILINE)
# they begin with their number; the file's path, in a line before, may hold any word
_EXTENT = re.compile(r"^ *\d+: +(\d+)\.\. *\d+: +(\d+)\.\. *\d+: +(\d+):(?: +\d+:)?(.*)$", re.MULTILINE)
_PLAIN = {"last", "eof"}


def file_extents(listing: str) -> Iterator[FileExtent]:
    """The extents that `filefrag -v` lists, of one file or of several of the same block size.

    Raises ProvisionError where it has extents and does not say how large a block is.

    Source: filefrag(8) of e2fsprogs 1.47; its numbers are blocks of the size in its first lines.
    """
    block = _BLOCK.search(listing)
    for *numbers, flags in _EXTENT.findall(listing):
        if block is None:
            raise ProvisionError("filefrag does not say how large its blocks are.", code="VM443")
        unit = int(block[1])
        logical, physical, length = (int(one) * unit for one in numbers)
        words = frozenset(flags.strip().split(",")) - {""}
        yield FileExtent(Extent(logical, length), Extent(physical, length), words)


def filled_places(listing: str, filled_bytes: int) -> tuple[Extent, ...]:
    """Places on the disk of a file's first `filled_bytes`, from `filefrag -v`, in the file's order.

    The result is () unless exactly those bytes have blocks, and all these blocks are written, without another flag.
    """
    try:
        extents, end = list(file_extents(listing)), 0
    except ProvisionError:
        return ()
    for one in extents:
        if one.at.offset_bytes != end or not one.flags <= _PLAIN:
            return ()
        end = one.at.end_bytes
    return tuple(one.place for one in extents) if end == filled_bytes else ()


def union_bytes(parts: Iterable[Extent]) -> int:
    """The bytes that lie in at least one of the parts."""
    covered, reached = 0, 0
    for part in sorted(parts):
        covered += max(0, part.end_bytes - max(part.offset_bytes, reached))
        reached = max(reached, part.end_bytes)
    return covered


def without(parts: Iterable[Extent], taken: Iterable[Extent]) -> Iterator[Extent]:
    """The parts, which do not overlap, without whatever of them lies in `taken`; in the order of their offsets."""
    gone = sorted((one.offset_bytes, one.end_bytes) for one in taken)
    for part in sorted(parts, key=lambda one: one.offset_bytes):
        begin = part.offset_bytes
        for first, end in [*gone, (part.end_bytes, part.end_bytes)]:
            last = min(first, part.end_bytes)
            if begin < last:
                yield Extent(begin, last - begin)
            begin = max(begin, end)


def cut(parts: Iterable[Extent], most_bytes: int) -> Iterator[Extent]:
    """The parts in pieces of that size, the last piece of each with what is left of it."""
    for part in parts:
        for begin in range(part.offset_bytes, part.end_bytes, most_bytes):
            yield Extent(begin, min(most_bytes, part.end_bytes - begin))
