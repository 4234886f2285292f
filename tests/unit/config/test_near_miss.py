"""Parameters that are nearly an axis are found, and a test's own parameters are left alone."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.cell import ALLOWED, AXES
from pytest_vmstorage.config.near_miss import COMMON_WORDS, near_miss, refusal

MISSES = {
    ("fromat", ("raw", "qcow2")): "format",
    ("Formats", ("raw",)): "format",
    ("fromat", ("raw", "qcow3")): "format",
    ("cahce", ("none",)): "cache",
    ("prealloc", ("off", "full")): "preallocation",
    ("buses", ("ide", "sata")): "bus",
    ("io_thread", (True, False)): "iothread",
    ("cpus", (1, 2)): "vcpus",
    ("queue", (1, 4)): "queues",
    ("snapshot", (0, 3)): "snapshots",
    ("total_iops", (1000,)): "total_iops_sec",
    ("clustersize", ("64k", "2M")): "cluster_size",
    ("backings", ("native", "device:nvme0")): "backing",
    ("hostmkfs", ("-d agcount=64",)): "host_mkfs",
    ("kind", ("none", "writeback")): "cache",
    ("image", ("raw", "qcow2")): "format",
    ("controller", ("virtio-blk",)): "bus",
    ("fs", ("ext4", "xfs")): "host_fs or guest_fs",
    ("elevator", ("none", "bfq")): "scheduler",
}


@pytest.mark.parametrize(("given", "axis"), MISSES.items(), ids=["-".join(map(str, (n, *v))) for n, v in MISSES])
def test_a_parameter_that_was_meant_to_be_an_axis(given: tuple[str, tuple[object, ...]], axis: str) -> None:
    """By its name with one value that fits, or by all its values."""
    name, values = given
    assert near_miss(name, values) == axis


OWN: tuple[tuple[str, tuple[object, ...]], ...] = (
    ("size", (4096, 65536)),
    ("size", ("1G",)),
    ("sizes", ("64M", "128M")),
    ("mode", ("none", "full")),
    ("mode", ("on", "off")),
    ("count", (1, 2)),
    ("depth", (1, 8, 32)),
    ("queue_depth", (1, 8)),
    ("direct", (True, False)),
    ("snapshot", (True, False)),
    ("thread", (1, 4)),
    ("threads", (1, 4)),
    ("bs", ("4k", "1M")),
    ("ios", (1, 2)),
    ("formats", ("json", "csv")),
    ("formats", ()),
    ("states", (None, object(), [1], {"a": 1}, 1.5)),
    ("caches", (float("nan"),)),
    ("queue", (True, False)),
    ("queue", ("default", "fast")),
    ("memory_mb", (512, 1024)),
    ("guest_mode", ("a", "b")),
    ("status", ("fresh", "filled and mounted")),
    ("output", ("raw", "json")),
    ("output", ("raw",)),
    ("engine", ("io_uring", "threads")),
    ("algorithm", ("zlib", "zstd")),
    ("device", ("nvme", "floppy")),
    ("kind", ("none", None)),
    ("_private", ("raw", "qcow2")),
    ("format", ("raw", "qcow2")),
)


@pytest.mark.parametrize(("name", "values"), OWN)
def test_a_parameter_of_the_tests_own(name: str, values: tuple[object, ...]) -> None:
    """Numbers, truth values, and words that much else has, say nothing under a name of their own."""
    assert near_miss(name, values) == ""


def test_an_axis_that_is_swept_already_was_not_meant() -> None:
    """A test may compare what it sweeps with an expectation, or convert to another format."""
    assert near_miss("expected", ("raw", "qcow2"), swept=("format",)) == ""
    assert near_miss("formats", ("raw", "qcow2"), swept=("format",)) == ""
    assert near_miss("fs", ("ext4", "xfs"), swept=("guest_fs",)) == "host_fs"


def test_what_a_fixture_reads_is_for_the_fixture() -> None:
    """Its values show nothing; a misspelt name with words of its axis does."""
    assert near_miss("image", ("raw", "qcow2"), of_fixture=True) == ""
    assert near_miss("cpus", (1, 2), of_fixture=True) == ""
    assert near_miss("fromat", ("raw", "qcow2"), of_fixture=True) == "format"


def test_the_size_is_meant_where_the_test_takes_no_such_argument() -> None:
    """As `size` itself is the disk's only there."""
    assert near_miss("sise", ("1G", "4G"), is_argument=False) == "size"
    assert near_miss("sise", ("1G", "4G")) == ""


@pytest.mark.parametrize("axis", [name for name in AXES if name in ALLOWED])
def test_every_axis_with_words_is_found_by_them(axis: str) -> None:
    """By all of them together, whatever the name, and under each name that lacks a letter by any of them."""
    words = ALLOWED[axis]
    if not COMMON_WORDS.issuperset(words):
        assert near_miss("x", words) == axis
    if len(axis) > 3:
        for place in range(len(axis)):
            assert near_miss(axis[:place] + axis[place + 1 :], words[:1]) == axis


def test_the_sentence_names_the_parameter_its_values_the_axis_and_the_remedy() -> None:
    """Few of many values."""
    assert refusal("fromat", ("raw", "qcow2", "vdi", "qed"), "format").told == (
        "the parameter fromat ('raw', 'qcow2', 'vdi', ...) is no axis, so it changes nothing of the disk. Did you mean "
        "format? Rename it, or, where it is a parameter of the test's own, name it in the ini file: "
        "vm_not_axes = fromat."
    )
