"""Which cells `cell(...)` names, and what it refuses."""

from __future__ import annotations

import pytest

from pytest_vmstorage import CellSelector, cell
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError

QCOW2 = StorageConfig(format="qcow2", cluster_size="64k", iothread=True, size="2G")


@pytest.mark.parametrize(
    ("selector", "text"),
    [
        (cell("qcow2"), "format=qcow2"),
        (cell("none", "qcow2", bus="virtio-blk"), "format=qcow2 cache=none bus=virtio-blk"),
        (cell("off"), "preallocation=off"),
        (cell("zstd"), "compression=zstd"),
        (cell("lvm:vg0"), "backing=lvm:vg0"),
        (cell(cluster_size="64k", size="2G", iothread=True), "iothread=yes cluster_size=64k size=2G"),
        (cell(cluster_size="default"), "cluster_size=default"),
    ],
)
def test_values_alone_and_by_name(selector: CellSelector, text: str) -> None:
    """A value alone is of the one axis that it stands bare in an id of; its text has the axes' order."""
    assert str(selector) == text


@pytest.mark.parametrize(
    ("selector", "is_meant"),
    [
        (cell("qcow2"), True),
        (cell("qcow2", "none"), True),
        (cell("qcow2", "writeback"), False),
        (cell(cluster_size="64k"), True),
        (cell(cluster_size="default"), False),
        (cell(size="2G", iothread=True), True),
        (cell("file"), True),
        (cell("lvm"), False),
    ],
)
def test_a_cell_has_all_the_values(selector: CellSelector, is_meant: bool) -> None:
    """Written as a test writes them, compared as the cell holds them."""
    assert selector.matches(QCOW2) is is_meant


def test_a_kind_of_backing_is_each_of_that_kind() -> None:
    """And a named one is that one."""
    volume = StorageConfig(backing="lvm:vg0")
    assert cell("lvm").matches(volume)
    assert cell(backing="lvm:vg0").matches(volume)
    assert not cell(backing="lvm:vg1").matches(volume)


def test_a_cell_has_no_value_of_what_it_lacks() -> None:
    """The native row is not raw, although that is its field's default; nor has the null row a format."""
    native, null = StorageConfig(backing="native"), StorageConfig(backing="null")
    assert not cell("raw").matches(native)
    assert not cell("raw").matches(null)
    assert not cell(bus="virtio-blk").matches(native)
    assert cell(bus="virtio-blk").matches(null)
    assert cell(backing="native").matches(native)


@pytest.mark.parametrize(
    ("values", "fields", "sentence"),
    [
        (
            ("native",),
            {},
            "cell('native') is a value of io, backing. Write cell(io='native') or cell(backing='native').",
        ),
        (("ext4",), {}, "cell('ext4') is a value of host_fs, guest_fs."),
        (("qcwo2",), {}, "no axis has such a value by name. Did you mean 'qcow2'?"),
        ((4,), {}, "cell(4): no axis has such a value by name. Write which axis it is of"),
        (("raw", "qcow2"), {}, "cell('raw', 'qcow2') names format twice."),
        (("raw",), {"format": "qcow2"}, "cell('raw', format='qcow2') names format twice."),
        ((), {}, "cell() names no value"),
        ((), {"fmt": "raw"}, "a cell has no field 'fmt'. It has: format,"),
        ((), {"cache": "wb"}, "cache='wb' is not known."),
        ((), {"backing": "tape"}, "backing='tape' is not known. backing is one of: file,"),
        ((), {"size": "10X"}, "'10X' is not a size."),
    ],
)
def test_a_slip_is_one_sentence(values: tuple[str, ...], fields: dict[str, str], sentence: str) -> None:
    """When the selector is made, and not when nothing is found."""
    with pytest.raises(ConfigError) as caught:
        cell(*values, **fields)
    assert sentence in str(caught.value)
