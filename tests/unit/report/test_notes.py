"""Notes of tests on their rows: once in the sections below the matrix, and with each row in the files."""

from __future__ import annotations

import csv
import io
import json

import pytest

from pytest_vmstorage.cli.show import show_cell
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.sections import note_lines
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.report.text import render_text
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import make_measurement, make_run

RAW, QCOW2 = StorageConfig(), StorageConfig(format="qcow2")


def row(*notes: str, test: str = "test_a", config: StorageConfig = RAW) -> Measurement:
    """A row of that test with these notes."""
    return make_measurement(config, test=f"t.py::{test}").model_copy(update={"notes": notes})


def test_each_text_stands_once_with_its_tests() -> None:
    """And with how many of a test's rows where it is not all."""
    rows = [row("x", "y"), row("x", config=QCOW2), row("x", test="test_b"), row(test="test_c")]
    assert list(note_lines(rows)) == ["test_a, test_b: x", "test_a (1 of 2 rows): y"]


def test_without_notes_nothing_is_said() -> None:
    """There is no section then."""
    assert "notes" not in [section.title for section in build_table(make_run(row())).sections]


@pytest.mark.parametrize(
    "render", [lambda run: render_text(build_table(run), 120), lambda run: render_markdown(build_table(run))]
)
def test_they_stand_below_the_matrix(render: object) -> None:
    """In the terminal and in Markdown."""
    assert callable(render)
    text = render(make_run(row("its log is 64 MiB")))
    assert "test_a: its log is 64 MiB".replace("_", "\\_" if "##" in text else "_") in text


def test_they_stand_with_each_row_in_the_files() -> None:
    """In CSV, and in JSON, from which they are read again."""
    run = make_run(row("x", "y"), row(config=QCOW2))
    assert [line["notes"] for line in csv.DictReader(io.StringIO(render_csv(run)))] == ["x; y", ""]
    saved = json.loads(render_json(run))
    assert Run.model_validate(saved).measurements[0].notes == ("x", "y")
    del saved["measurements"][0]["notes"]
    assert Run.model_validate(saved).measurements[0].notes == ()


def test_show_has_them() -> None:
    """Beside the figure of their cell."""
    lines = show_cell(make_run(row("x")), "raw-none-virtio-blk-off", "run")
    assert "  note: x" in lines
