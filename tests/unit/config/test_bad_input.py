"""Bad input of all kinds at every door: one sentence of ours with a remedy, never another exception, never a hang.

Tests also of `config.user_input`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage import (
    AioStress,
    Dd,
    Fio,
    Hdparm,
    ImageOperations,
    Ioping,
    Iozone,
    Postmark,
    Sqlite,
    StorageConfig,
    Tar,
    Tiobench,
    Web,
    Workload,
)
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.gate.policy_file import load_gate_file
from pytest_vmstorage.config.cell import make_config
from pytest_vmstorage.config.inventory_file import load_inventory, read_inventory
from pytest_vmstorage.config.matrix import load_matrix
from pytest_vmstorage.config.user_input import read_user_text
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.formats import check_report_path
from pytest_vmstorage.results.journal import read_history
from pytest_vmstorage.results.saved import load_baseline, saved_files
from pytest_vmstorage.units import parse_duration, parse_percent, parse_size

WRONG: tuple[Any, ...] = (
    None, [], {}, (), set(), object(), len, b"bytes", True, False, -1, 10**30, 10**5000, 1.5, float("nan"),
    float("inf"),
    "", " ", "\n", "a\nb", "a\x00b", "\x00", "\x1b[31m", "$(touch /tmp/pwned)", "; touch /tmp/pwned", "`id`",
    "../../etc/passwd", "x" * 100_000, "9" * 5000, "1e999", "-5", "nosuch", "١٢٣", "²",
)  # fmt: skip
"""Wrong for nearly every field; what one takes is its own affair."""

WORKLOADS: Mapping[type[Workload], Mapping[str, Any]] = {
    Fio: {"rw": "randwrite"}, Dd: {"rw": "write"}, Hdparm: {"reads": "device"}, Ioping: {}, Iozone: {}, Postmark: {},
    Sqlite: {}, Tar: {}, Web: {}, Tiobench: {}, AioStress: {}, ImageOperations: {},
}  # fmt: skip


def refused_or_taken(call: Callable[[], object]) -> str:
    """The sentence that refuses it, "" where it is taken; any other exception is the failure that is looked for."""
    try:
        call()
    except ConfigError as error:
        said = str(error)
        assert said.isprintable(), said[:200]
        assert len(said) <= 2000, said[:200]
        return said
    return ""


@pytest.mark.parametrize("field", sorted(StorageConfig.model_fields))
def test_no_value_of_an_axis_is_another_exception(field: str) -> None:
    """All of them, in every field; most are refused."""
    said = [refused_or_taken(lambda value=value: make_config({field: value})) for value in WRONG]  # type: ignore[misc]
    assert len([one for one in said if one]) >= len(WRONG) // 2


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, field) for kind in WORKLOADS for field in sorted(kind.model_fields)],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_no_value_of_a_workloads_option_is_another_exception(kind: type[Workload], field: str) -> None:
    """Nor where it is run later: its label and its command can be made of what was taken."""
    known = WORKLOADS[kind]
    said = [
        refused_or_taken(lambda value=value: kind(**{**known, field: value}))  # type: ignore[misc]
        for value in WRONG
    ]
    assert any(said)


@pytest.mark.parametrize("parse", [parse_size, parse_duration, parse_percent])
@pytest.mark.parametrize("value", WRONG, ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "int")
def test_numbers_of_any_length_are_read_or_refused(parse: Callable[[object], float], value: object) -> None:
    """5,000 digits are no size, and Python does not even write them."""
    refused_or_taken(lambda: parse(value))


DEEP = ("a = " + "[" * 5000, "a = " + "{a=" * 3000, "a = " + "9" * 5000, "[" * 100_000, "\x00", 'a = "\x1b"')


@pytest.mark.parametrize("text", DEEP, ids=range(len(DEEP)))
def test_a_toml_file_that_no_reader_holds_is_refused(text: str) -> None:
    """In each of the three files."""
    loads: tuple[Callable[[], object], ...] = (
        lambda: load_inventory(text, "f.toml"),
        lambda: load_matrix(text, "f.toml"),
        lambda: load_gate_file(text, "f.toml", GatePolicy()),
    )
    for load in loads:
        assert refused_or_taken(load).startswith("f.toml")


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "folder", "circle", "absent", "latin-1", "NUL"])
def test_what_is_no_text_file_is_told_at_once(kind: str, tmp_path: Path) -> None:
    """A pipe was waited for, and /dev/zero read without end."""
    path = tmp_path / "file"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "/dev/zero":
            path = Path(kind)
        case "folder":
            path.mkdir()
        case "circle":
            path.symlink_to(path)
        case "latin-1":
            path.write_bytes(b"\xe9")
        case "NUL":
            path = tmp_path / "a\x00b"
    for read in (lambda: read_user_text(path, "the file"), lambda: read_inventory(path, "the file")):
        assert refused_or_taken(read).startswith("the file cannot be read: ")


BROKEN_RUNS = {
    "nested": "[" * 100_000,
    "no JSON": "{",
    "a number": "5",
    "no run": '{"vmstorage": {"schema_version": 1}}',
    "no version": '{"vmstorage": {"schema_version": "x"}}',
    "thousands of digits": '{"vmstorage": {"schema_version": ' + "9" * 5000 + "}}",
}


@pytest.mark.parametrize("name", BROKEN_RUNS)
def test_a_saved_run_that_is_damaged_is_told(name: str, tmp_path: Path) -> None:
    """Named by its file, or found by its name."""
    folder = tmp_path / ".benchmarks" / "machine"
    folder.mkdir(parents=True)
    (folder / "0001_main.json").write_text(BROKEN_RUNS[name])
    for asked in ("main", "0001", str(folder / "0001_main.json")):
        said = refused_or_taken(lambda asked=asked: load_baseline(asked, tmp_path / ".benchmarks"))  # type: ignore[misc]
        assert "0001_main.json" in said


def test_stray_files_beside_saved_runs_are_nobodys_matter(tmp_path: Path) -> None:
    """One of them stopped every comparison of the project."""
    for name in ("0x_main.json", "0²_main.json", "main.json", "1" * 30 + "_main.json", "notes_1.json"):
        (tmp_path / name).write_text("{}")
    os.mkfifo(tmp_path / "0002_main.json")
    assert saved_files(tmp_path) == []
    assert "there is no baseline 'main'" in refused_or_taken(lambda: load_baseline("main", tmp_path))


def test_a_damaged_journal_tells_what_it_can() -> None:
    """A line nested too deeply, or with a time that is none, stopped every plan."""
    line = '{{"nodeid": "t.py::t", "workload": "fio", "sample": {{"seconds": {}, "started": "2026-01-01"}}}}'
    lines = [
        "[" * 100_000,
        "{",
        "5",
        "null",
        "\x00",
        *(line.format(one) for one in ("NaN", "1e999", "-1", '"x"', "null")),
    ]
    assert read_history([lines]).tests == {}
    assert list(read_history([[*lines, line.format("2.5")]]).tests) == ["t.py::t"]


@pytest.mark.parametrize("name", ["x" * 300 + ".md", "a\x00b.md", "/dev/null/x.md"])
def test_a_report_that_cannot_be_written_is_told_before_any_test(name: str, tmp_path: Path) -> None:
    """And not after all has been measured."""
    assert " cannot be written: " in refused_or_taken(lambda: check_report_path(tmp_path / name))
