"""The recipe of the other side of a pair: read from its text, and made of a cell."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.variant import parse_recipe
from pytest_vmstorage.errors import ConfigError

QCOW2 = StorageConfig(format="qcow2")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("cache=unsafe", {"cache": "unsafe"}),
        (" cache = none , io = native ", {"cache": "none", "io": "native"}),
        ("cluster_size=128k", {"cluster_size": "128k"}),
        ("cluster_size=default", {"cluster_size": None}),
        ("iothread=yes", {"iothread": True}),
        ("iothread=False", {"iothread": False}),
        ("vcpus=2", {"vcpus": 2}),
    ],
)
def test_a_recipe_is_values_of_axes(text: str, values: dict[str, object]) -> None:
    """As a test would write them; the text stays as the user wrote it."""
    found = parse_recipe(text)
    assert (found.text, found.values) == (text, values)


def test_the_other_side_is_the_cell_with_those_values() -> None:
    """All others stay; the cell itself too."""
    assert parse_recipe("cluster_size=128k,cache=none").of(StorageConfig(format="qcow2", cache="unsafe")) == (
        StorageConfig(format="qcow2", cluster_size=128 * 1024)
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "--vm-against=: '' is not AXIS=VALUE. Write for example cache=none,io=native."),
        ("cache", "--vm-against=cache: 'cache' is not AXIS=VALUE."),
        ("cache=", "--vm-against=cache=: 'cache=' is not AXIS=VALUE."),
        ("cache=none,", "--vm-against=cache=none,: '' is not AXIS=VALUE."),
        ("colour=red", "--vm-against=colour=red: colour is not an axis. There are: "),
        ("iothread=maybe", "--vm-against: iothread=maybe is neither yes nor no. Write iothread=yes."),
        ("cache=none,cache=unsafe", "has cache twice. Take one of them away."),
    ],
)
def test_a_slip_is_told_in_one_sentence(text: str, sentence: str) -> None:
    """With the text as it was given, and what to do."""
    with pytest.raises(ConfigError) as caught:
        parse_recipe(text)
    assert sentence in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "config", "sentence"),
    [
        ("cache=sometimes", QCOW2, "--vm-against=cache=sometimes of qcow2-none-virtio-blk-off: "),
        ("format=raw", StorageConfig(format="qcow2", cluster_size="128k"), "--vm-against=format=raw of qcow2-"),
        ("cache=none", QCOW2, "--vm-against=cache=none changes nothing in qcow2-none-virtio-blk-off, which would be"
         " measured against itself. Name another value, or deselect the cell with -k."),
    ],
)  # fmt: skip
def test_what_cannot_be_the_other_side_is_refused(text: str, config: StorageConfig, sentence: str) -> None:
    """With the rule of the cell that it would be, and what to do."""
    with pytest.raises(ConfigError) as caught:
        parse_recipe(text).of(config)
    assert sentence in str(caught.value)
    assert caught.value.hint
