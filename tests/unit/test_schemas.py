"""docs/reference/schemas: what is really written and read is valid by them, and slips are not."""

from __future__ import annotations

import base64
import gzip
import json
import lzma
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.results.journal import Journal
from pytest_vmstorage.results.packed import unpacked
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.saved import load_baseline
from pytest_vmstorage.testing.builders import make_failure, make_measurement, make_run

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "docs" / "reference" / "schemas"
if not SCHEMAS.is_dir():
    pytest.skip("documents are not here", allow_module_level=True)
jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in tox's environments")

SAVED = Path(__file__).parent / "recordings" / "saved-form-2.json"


def flaws(name: str, document: object) -> list[str]:
    """What a validator says of a document."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return [f"{one.json_path}: {one.message}" for one in jsonschema.Draft202012Validator(schema).iter_errors(document)]


def tables(text: str) -> Any:
    """TOML as JSON has it: dates are texts."""
    return json.loads(json.dumps(tomllib.loads(text), default=str))


def documented() -> Iterator[tuple[str, str]]:
    """The TOML blocks of all documents, each with the schema of what it is."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        for block in re.findall(r"^```toml\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            keys = {*tomllib.loads(block)}
            kinds = {
                "vmstorage-toml": {"hosts", "machines", "images"},
                "matrix": {"axes"},
                "gate": {"waivers", "cells"},
            }
            for name, own in kinds.items():
                if keys & own:
                    yield name, block


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.stem)
def test_a_schema_is_one(path: Path) -> None:
    """Of its own dialect; pydantic's titles are not in it."""
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["title"]


def test_a_saved_run_is_valid() -> None:
    """A recorded file of a real run, as it is and in plain form."""
    assert flaws("saved-run", json.loads(SAVED.read_text())) == []
    plain = load_baseline(str(SAVED), SAVED.parent).run.model_dump(mode="json")
    assert flaws("run", plain) == []


def test_a_report_is_valid() -> None:
    """That of the recorded run, and one with cells that lack fields, failures and other sides."""
    run = load_baseline(str(SAVED), SAVED.parent).run
    assert flaws("report", json.loads(render_json(run))) == []
    native, null = (StorageConfig(backing=kind) for kind in ("native", "null"))
    made = make_run(
        make_measurement(native, iops=(1, 2)),
        make_measurement(null, iops=(3, 4)),
        failures=[make_failure(native)],
        against=[make_measurement(iops=(5, 6))],
        recipe="cache=none",
    )
    document = json.loads(render_json(made))
    assert document["measurements"][0]["config"]["cache"] is None
    assert flaws("report", document) == []


def test_a_journal_is_valid(tmp_path: Path) -> None:
    """Lines of samples and of spans, as they are written."""
    spans = iter([[{"process": "pytest", "began": "2026-01-02T03:04:05+00:00", "span": {"step": "boot"}}], []])
    journal = Journal(tmp_path / "one.jsonl", lambda: next(spans))
    measured = make_measurement(iops=(1,))
    journal.write("test_it.py::test_it", measured.workload, measured.config, "local", measured.samples[0])
    journal.close()
    lines = (tmp_path / "one.jsonl").read_text().splitlines()
    assert [flaws("journal", json.loads(line)) for line in lines] == [[], []]


def test_toml_that_documents_show_is_valid() -> None:
    """Inventories, matrix files and gate files of all pages."""
    shown = list(documented())
    assert {name for name, _ in shown} == {"vmstorage-toml", "matrix", "gate"}
    assert [(block, found) for name, block in shown if (found := flaws(name, tables(block)))] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vmstorage-toml", "[hosts.lab01.devices.fast]\nallow_destroy = true\n"),
        ("vmstorage-toml", '[hosts.lab01]\ncolour = "red"\n'),
        ("matrix", '[axes]\nformat = "raw"\n'),
        ("matrix", '[axes]\ncache = ["writebak"]\n'),
        ("matrix", '[axes]\nbus = ["ide"]\n[[exclude]]\ncolour = "red"\n'),
        ("gate", "tolerated = 0.1\n"),
        ("gate", '[[waivers]]\ncell = "*"\nreason = "x"\nowner = "y"\n'),
    ],
)
def test_a_slip_is_seen(name: str, text: str) -> None:
    """A missing key, an unknown one, a misspelt value, a number for a percentage."""
    assert flaws(name, tables(text)) != []


def test_a_report_of_another_form_is_seen() -> None:
    """A field that no version has, and a raw output in its sample's place."""
    document = json.loads(render_json(make_run(make_measurement(iops=(1,)))))
    assert flaws("report", document | {"colour": "red"}) != []
    document["measurements"][0]["samples"][0]["raw"] = "{}"
    assert flaws("report", document) != []


def test_what_is_packed_can_be_read_as_the_page_says() -> None:
    """`jq -r .packed FILE | base64 -d | xz -d`, for report and saved run."""
    document = json.loads(render_json(make_run(make_measurement(iops=(1,)))))
    packed = json.loads(lzma.decompress(base64.b64decode(document["packed"])))
    assert packed.keys() >= {"outputs", "proofs", "timelines"}
    assert Run.model_validate(unpacked(document)).measurements
    saved = json.loads(SAVED.read_text())["vmstorage"]
    assert json.loads(lzma.decompress(base64.b64decode(saved["packed"]))).keys() >= {"measurements", "hosts"}


def test_a_line_of_a_journal_can_be_read_as_the_page_says(tmp_path: Path) -> None:
    """`jq -r .packed | base64 -d | gzip -d`, for the line of a round and that of its spans."""
    span = {"process": "", "began": "2026-01-02T03:04:05+00:00", "span": {"name": "window"}}
    journal = Journal(tmp_path / "run.jsonl", spans=lambda: [span])
    sample = make_measurement(iops=(1,)).samples[0]
    journal.write("t.py::test", "fio", StorageConfig(), "local", sample.model_copy(update={"raw": "said"}))
    journal.close()
    lines = [json.loads(line) for line in journal.path.read_text().splitlines()]
    said, spans, *_ = [json.loads(gzip.decompress(base64.b64decode(line["packed"]))) for line in lines]
    assert said["output"] == ["said"]
    assert spans == [span["span"]]
