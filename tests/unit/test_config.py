"""StorageConfig: one cell, its id, and what cannot exist."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from pytest_vmstorage.config import AXES, FIELDS, StorageConfig, make_config, refusal
from pytest_vmstorage.errors import ConfigError


def test_a_cell_is_its_id() -> None:
    """str() is the axes in one order; the state stands there only where it is not the usual one."""
    assert str(StorageConfig()) == "raw-none-virtio-blk-off"
    config = make_config({"format": "qcow2", "cache": "writeback", "bus": "virtio-scsi", "preallocation": "full"})
    assert str(config) == "qcow2-writeback-virtio-scsi-full"
    assert str(StorageConfig(state="fresh")) == "raw-none-virtio-blk-off-fresh"


def test_a_label_tells_the_size_too() -> None:
    """Two cells that differ in size only have one id and two labels."""
    assert StorageConfig(size="512M").label == "raw-none-virtio-blk-off 512M"


def test_cells_are_values() -> None:
    """Equal fields make equal cells, whichever way the size was written; none can be changed."""
    assert {StorageConfig(size="1G"), StorageConfig(size=2**30)} == {StorageConfig()}
    with pytest.raises(ValidationError):
        StorageConfig().format = "qcow2"


def test_every_axis_is_a_field_and_size_is_no_axis() -> None:
    """The marker takes all fields; parametrize names are the axes."""
    assert set(AXES) == set(FIELDS) - {"size"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("format", "qcow3"), ("cache", "writethru"), ("bus", "nvme"), ("preallocation", "fill"), ("state", "old")],
)
def test_an_unknown_value_is_refused_with_those_there_are(name: str, value: str) -> None:
    """One sentence: the axis, the value, the values it can have."""
    with pytest.raises(ConfigError) as caught:
        make_config({name: value})
    allowed = StorageConfig.model_fields[name].annotation.__args__
    assert str(caught.value) == f"{name}={value!r} is not known. {name} is one of: {', '.join(allowed)}."


@pytest.mark.parametrize("value", [["raw"], None, 3, {"raw"}])
def test_a_value_of_another_type_is_refused_like_an_unknown_one(value: object) -> None:
    """A list in place of a name is a sentence too, and no TypeError."""
    with pytest.raises(ConfigError, match=r"^format=.* is not known"):
        make_config({"format": value})


def test_an_unknown_field_is_refused_with_those_there_are() -> None:
    """A slip in a marker's keyword is found before any test."""
    with pytest.raises(
        ConfigError, match=r"no field 'chache'\. It has: format, cache, bus, preallocation, state, size"
    ):
        make_config({"chache": "none"})


@pytest.mark.parametrize("size", ["1023k", "0", "1048577", "1.5M1"])
def test_a_size_that_no_disk_can_have_is_refused(size: str) -> None:
    """At least a MiB and whole sectors."""
    with pytest.raises(ConfigError, match=r"multiple of 512 bytes|is not a size"):
        make_config({"size": size})


def test_raw_has_no_metadata_to_preallocate() -> None:
    """qemu-img refuses it; here it is refused before any test, with the reason and a way out."""
    with pytest.raises(ConfigError, match="raw-none-virtio-blk-metadata cannot exist: raw has no metadata") as caught:
        make_config({"preallocation": "metadata"})
    assert "deselect" in caught.value.hint
    assert not refusal(make_config({"format": "qcow2", "preallocation": "metadata"}))


def test_a_saved_cell_reads_back() -> None:
    """What the journal and the saved file hold is the same cell again."""
    config = make_config({"format": "qcow2", "size": "3G", "state": "fresh"})
    assert StorageConfig.model_validate_json(config.model_dump_json()) == config
