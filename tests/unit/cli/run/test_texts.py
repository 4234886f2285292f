"""Texts of a command line become what a test file would have."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from pytest_vmstorage import Dd, Fio, Hdparm, Ioping, Iozone, Postmark, StorageConfig
from pytest_vmstorage.cli.run.texts import field_value, field_values, fio_values, parse_options
from pytest_vmstorage.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("rw=randwrite bs=4k", {"rw": "randwrite", "bs": "4k"}),
        ("--rw=randwrite  --time-based", {"rw": "randwrite", "time_based": None}),
        ("-t -T", {"t": None, "T": None}),
        ("if='/my file' conv=", {"if": "/my file", "conv": ""}),
        ("bssplit=4k/50:8k/50", {"bssplit": "4k/50:8k/50"}),
        ("", {}),
    ],
)
def test_options_of_a_text(text: str, options: dict[str, str | None]) -> None:
    """As fio's job files and command lines have them, and dd's, and switches."""
    assert parse_options(text) == options


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("rw='read", '"rw=\'read" has a quote that does not end. Close it.'),
        ("bs=4k bs=8k", "bs is given twice. Give it once."),
        ("=4k", "'=4k' is no option. Write NAME=VALUE, or NAME for a switch."),
        ("--", "'--' is no option."),
    ],
)
def test_what_is_no_option(text: str, sentence: str) -> None:
    """One sentence each."""
    with pytest.raises(ConfigError) as refused:
        parse_options(text)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize(
    ("kind", "name", "text", "value"),
    [
        (Fio, "iodepth", "32", 32),
        (Fio, "size", "256M", "256M"),
        (Fio, "runtime", "1.5", "1.5"),
        (Fio, "rwmixread", "70", 70),
        (Fio, "percentile_list", "50", "50"),
        (Fio, "time_based", None, True),
        (Fio, "direct", "0", False),
        (Fio, "nosuch", "1", 1),
        (Fio, "shown", "iops, usr_cpu", ("iops", "usr_cpu")),
        (Hdparm, "t", "YES", True),
        (Ioping, "count", "20", 20),
        (Iozone, "tests", "0,1", (0, 1)),
        (Postmark, "size", "512,64k", (512, "64k")),
        (StorageConfig, "iothread", "no", False),
        (StorageConfig, "queues", "default", "default"),
        (StorageConfig, "queues", "4", 4),
        (StorageConfig, "detect_zeroes", "on", "on"),
        (StorageConfig, "emulator", "7", "7"),
    ],
)
def test_a_field_has_the_value_that_a_test_file_would_have(
    kind: type[BaseModel], name: str, text: str | None, value: Any
) -> None:
    """Numbers, truth values and tuples by the field's type; all else stays a text for the model to judge."""
    found = field_value(kind, name, text)
    assert (found, type(found)) == (value, type(value))


def test_a_name_that_python_keeps_has_an_underscore() -> None:
    """dd's `if`."""
    assert field_values(Dd, {"if": "/dev/urandom", "count": "4"}) == {"if_": "/dev/urandom", "count": 4}


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("direct", "maybe", "direct=maybe is neither yes nor no. Write direct=yes or direct=no."),
        ("bs", None, "bs has no value. Write bs=VALUE."),
    ],
)
def test_what_a_field_cannot_be(name: str, text: str | None, sentence: str) -> None:
    """Before the model sees it."""
    with pytest.raises(ConfigError) as refused:
        field_value(Fio, name, text)
    assert refused.value.told == sentence


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("rw=read  blocksize=4k", {"rw": "read", "bs": "4k"}),
        ("--rw=read --pre_read --direct=0", {"rw": "read", "pre_read": True, "direct": False}),
        ("rw=read shown=iops,bw", {"rw": "read", "shown": ("iops", "bw")}),
        (
            "rw=read dedupe_percentage=50 allrandrepeat cpus_allowed=0-1",
            {"rw": "read", "extra": {"dedupe_percentage": 50, "allrandrepeat": 1, "cpus_allowed": "0-1"}},
        ),
    ],
)
def test_options_as_fio_writes_them(text: str, values: dict[str, Any]) -> None:
    """By fio's other names too; what has no field goes to `extra`, and Fio takes it all."""
    assert fio_values(Fio, text, "--fio") == values
    assert Fio(**values).rw == "read"


def test_a_name_that_is_nearly_a_fields_is_no_extra() -> None:
    """It would be told by fio itself, but not with what was meant."""
    with pytest.raises(ConfigError) as refused:
        fio_values(Fio, "rw=read iodepht=4", "--fio")
    assert refused.value.told == "fio has no option 'iodepht'. Did you mean 'iodepth'?"
