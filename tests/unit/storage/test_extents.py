"""Extents: what filefrag tells of files, and arithmetic with parts of a disk."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.storage.extents import Extent, cut, file_extents, filled_places, union_bytes, without

MIB = 2**20

# in the form of filefrag 1.47.0, without its trailing blanks: a file of 24 MiB whose first 3 MiB were written
FILEFRAG = """\
Filesystem type is: ef53
File size of /mnt/vmstorage/test is 25165824 (6144 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..     511:        768..      1279:    512:
   1:      512..     767:        256..       511:    256:       1280: last
/mnt/vmstorage/test: 2 extents found
"""


def test_extents_are_told_in_bytes_and_in_the_files_order() -> None:
    """As they lie on the disk."""
    assert filled_places(FILEFRAG, 3 * MIB) == (Extent(3 * MIB, 2 * MIB), Extent(MIB, MIB))


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        (FILEFRAG, 2 * MIB),
        (FILEFRAG, 4 * MIB),
        (FILEFRAG.replace("1280: last", "1280: last,unwritten,eof"), 3 * MIB),
        (FILEFRAG.replace("     512..     767", "    1024..    1279"), 3 * MIB),
        (FILEFRAG.replace(" of 4096 bytes", ""), 3 * MIB),
        ("", 3 * MIB),
        ("", 0),
    ],
)
def test_a_file_that_is_not_all_written_has_none(text: str, filled: int) -> None:
    """More or less than was filled, unwritten blocks, a hole, a block of unknown size, no file."""
    assert filled_places(text, filled) == ()


def test_extents_without_the_size_of_a_block_are_an_error() -> None:
    """No size is guessed; a file without extents needs none."""
    with pytest.raises(ProvisionError, match="how large its blocks are"):
        list(file_extents(FILEFRAG.replace(" of 4096 bytes", "")))
    assert list(file_extents("")) == []


PARTS = st.lists(st.builds(Extent, st.integers(0, 40), st.integers(1, 12)), max_size=6)


def covered(*parts: Extent) -> set[int]:
    """The bytes of some parts, one by one."""
    return {byte for part in parts for byte in range(part.offset_bytes, part.end_bytes)}


@given(parts=PARTS)
def test_bytes_that_several_parts_have_count_once(parts: list[Extent]) -> None:
    """However they overlap."""
    assert union_bytes(parts) == len(covered(*parts))


@given(size=st.integers(1, 60), taken=PARTS, most=st.integers(1, 20))
def test_what_is_left_of_a_disk_lies_in_pieces(size: int, taken: list[Extent], most: int) -> None:
    """They hold each byte that was not taken, once, in order, and none is larger than asked."""
    left = list(without([Extent(0, size)], taken))
    pieces = list(cut(left, most))
    assert sorted(covered(*left)) == [byte for piece in pieces for byte in range(piece.offset_bytes, piece.end_bytes)]
    assert covered(*left) == set(range(size)) - covered(*taken)
    assert all(0 < piece.length_bytes <= most for piece in pieces)
