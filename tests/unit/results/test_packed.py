"""The packed form of a run: nothing is lost in it, a shell can read it, and damage is told in a sentence."""

from __future__ import annotations

import base64
import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.packed import (
    check_lzma,
    json_lines,
    pack,
    pack_evidence,
    pack_output,
    pack_run,
    unpack,
    unpack_output,
    unpacked,
    without_evidence,
)
from pytest_vmstorage.results.run import Measurement, Proof, Run
from pytest_vmstorage.results.series import Series
from pytest_vmstorage.results.timeline import Span, Timeline
from pytest_vmstorage.testing.builders import make_failure, make_measurement, make_run

PROOF = Proof(field="format", asked="raw", found="raw", status="proven", where="qemu-img info")
SERIES = Series(steps_ms=(500, 400), reads=(3, 4), read_us=(5, 6))
SIZED = SERIES.model_copy(update={"read_bytes": (12288, 16384), "writes": (0, 1)})
UNSIZED = SERIES.model_copy(update={"read_bytes": (12288, 16385), "written_bytes": (0, 1)})
TIMELINE = Timeline(process="pytest", began="2026-01-02T03:04:05+00:00", wall_s=9.0, spans=())


def measured(label: str, *outputs: str, asked: str = "raw") -> Measurement:
    """A measurement with these raw outputs and a proof of its format."""
    one = make_measurement(StorageConfig(format="qcow2"), workload=label, iops=tuple(range(1, len(outputs) + 1)))
    samples = [sample.model_copy(update={"raw": raw}) for sample, raw in zip(one.samples, outputs, strict=True)]
    return one.model_copy(update={"samples": tuple(samples), "proof": (PROOF.model_copy(update={"asked": asked}),)})


def with_series(one: Measurement, *warm_ups: Series) -> Measurement:
    """The measurement, the first of whose samples has no series, and the last one warm-ups before it."""
    first, *middle, last = one.samples
    series = [SERIES.model_copy(update={"lost": place}) for place in range(len(middle) + 1)]
    samples = [each.model_copy(update={"series": made}) for each, made in zip((*middle, last), series, strict=True)]
    samples[-1] = samples[-1].model_copy(update={"warm_ups": warm_ups})
    return one.model_copy(update={"samples": (first, *samples)})


ROWS = (
    with_series(measured("fio a", "a1", "a\N{SNOWMAN}\n")),
    with_series(measured("fio b", "a1", "\ud800"), SIZED, UNSIZED),
    measured("fio c", "", asked="x"),
)
RUN = make_run(*ROWS, failures=[make_failure()], against=[measured("fio a", "b1")], recipe="cache=none").model_copy(
    update={"timelines": (TIMELINE.model_copy(update={"spans": (Span(step="boot", begin_s=1, seconds=2, own_s=2),)}),)}
)
DOCUMENT = RUN.model_dump(mode="json")

FORMS = pytest.mark.parametrize("form", [pack_run, pack_evidence])


@FORMS
def test_nothing_is_lost(form: Callable[[Any], dict[str, Any]]) -> None:
    """By way of a file and back the run is the same, and so is its plain document."""
    document = json.loads(json_lines(form(DOCUMENT)))
    assert unpacked(document) == DOCUMENT
    assert Run.model_validate(document) == RUN == Run.model_validate_json(json.dumps(document))


@pytest.mark.parametrize("form", [pack_run, pack_evidence, dict], ids=["saved", "report", "plain"])
def test_a_run_without_its_evidence_is_a_run(form: Callable[[Any], dict[str, Any]]) -> None:
    """Of each form; figures are there, and what is packed is not."""
    run = Run.model_validate(without_evidence(json.loads(json.dumps(form(RUN.model_dump(mode="json"))))))
    assert [[one.figures for one in m.samples] for m in run.measurements] == [
        [one.figures for one in m.samples] for m in RUN.measurements
    ]
    assert any(one.series for m in RUN.measurements for one in m.samples)
    assert not any(one.series or one.warm_ups or one.raw for m in run.measurements for one in m.samples)


def test_rows_stay_readable() -> None:
    """Where the evidence alone is packed: figures as they were, outputs by their hashes, a proof for each cell."""
    document = pack_evidence(DOCUMENT)
    assert [row["proof"] for row in document["measurements"]] == [0, 0, 1]
    first, second = document["measurements"][0]["samples"]
    assert (first["series"], second["series"], second["warm_ups"]) == (None, 0, [])
    assert [sample["warm_ups"] for sample in document["measurements"][1]["samples"]] == [[], [2, 3]]
    assert first == {**DOCUMENT["measurements"][0]["samples"][0], "raw": first["raw"]}
    assert first["raw"] == "sha256:f55ff16f66f43360266b95db6f8fec01d76031054306ae4a4b380598f6cfd114"
    assert second["raw"] == document["measurements"][0]["samples"][1]["raw"] != first["raw"]
    assert document["failures"] == DOCUMENT["failures"]
    evidence = unpack(document["packed"])
    assert [proof[0]["asked"] for proof in evidence["proofs"]] == ["raw", "x"]
    assert evidence["series"][0] == {"steps_ms": [500, 400], "reads": [3, 4], "read_us": [5, 6]}
    assert evidence["series"][2]["read_bytes"] == 4096
    assert evidence["series"][3]["read_bytes"] == [12288, 16385]
    assert list(evidence["outputs"].values()) == [["a1"], ["a\N{SNOWMAN}\n"], ["\ud800"], [""], ["b1"]]


def test_rows_can_be_taken_out_of_a_document() -> None:
    """As with jq: each finds its own output and proof all the same."""
    document = pack_evidence(DOCUMENT)
    run = Run.model_validate({**document, "measurements": document["measurements"][:0:-1]})
    assert run.measurements == ROWS[:0:-1]


def test_a_saved_run_says_its_version_and_time_in_plain_words() -> None:
    """All else is in one text: a reader finds out by the version that it is too old for it."""
    assert list(pack_run(DOCUMENT)) == ["schema_version", "started", "packed"]


def test_a_plain_document_is_left_alone() -> None:
    """As earlier versions saved it, and as processes hand it to each other."""
    assert unpacked(DOCUMENT) is DOCUMENT


def test_a_journal_of_an_earlier_version_is_read() -> None:
    """It had xz; today's has gzip, which any shell can read too."""
    assert unpack(pack(["a"])) == unpack(pack(["a"], quick=True)) == ["a"]
    assert gzip.decompress(base64.b64decode(pack(["a"], quick=True))) == b'["a"]'


def test_a_shell_can_read_it() -> None:
    """With base64 and xz alone."""
    done = subprocess.run(
        ["sh", "-c", "base64 -d | xz -d"], input=pack_run(DOCUMENT)["packed"].encode(), capture_output=True, check=True
    )
    assert json.loads(done.stdout)["measurements"][0]["workload"] == "fio a"


RECORDINGS = sorted((Path(__file__).parents[1] / "recordings").glob("*.json"))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_recorded_outputs_are_as_they_were(path: Path) -> None:
    """Byte for byte; and the histograms of fio, of each version that is read, are taken out."""
    raw = path.read_text()
    assert unpack_output(pack_output(raw)) == raw
    if path.name.startswith("fio-") and '"bins" : {\n' in raw:
        assert unpack(pack_output(raw))["histograms"][0]


BINS = '{\n   "5" : 1,\n   "7" : 20,\n   "10" : 3\n}\n'
STEPS, COUNTS = [3, 5, 2, 3], [1, 20, 3]


@pytest.mark.parametrize(
    ("raw", "pieces", "steps", "counts"),
    [
        (BINS, ["{\n", 0, "}\n"], [STEPS], [COUNTS]),
        (f"{BINS}{BINS}", ["{\n", 0, "}\n{\n", 1, "}\n"], [STEPS, STEPS], [COUNTS, COUNTS]),
        (BINS.replace("10", "6"), ["{\n", 0, "}\n"], [[3, 5, 2, -1]], [COUNTS]),
        (BINS.replace("\n}", ",\n}"), None, [], []),
        (BINS.replace('"5"', '"05"'), None, [], []),
        (BINS.replace('   "7"', '    "7"'), None, [], []),
        (BINS.replace("\n", "\r\n"), None, [], []),
        (BINS.replace("1,", "1"), None, [], []),
        (BINS.replace("20", "2.0"), None, [], []),
        (BINS.replace("20", "2" * 5000), None, [], []),
        (BINS.replace("   ", " " * 101), None, [], []),
        (BINS + BINS.replace("1,", "1"), None, [], []),
        ("", [""], [], []),
        ("\n\n", ["\n\n"], [], []),
    ],
)
def test_a_histogram_is_taken_out_where_it_can_be_put_in_again(
    raw: str, pieces: object, steps: object, counts: object
) -> None:
    """Any other text stays one: commas, digits and spaces that fio does not print would be lost."""
    assert unpack(pack_output(raw)) == {"output": pieces or [raw], "histograms": [steps, counts]}
    assert unpack_output(pack_output(raw)) == raw


@pytest.mark.parametrize(
    "content",
    [
        5,
        [],
        {"output": ["a"]},
        {"output": 5, "histograms": [[], []]},
        {"output": [0], "histograms": [[], []]},
        {"output": [0], "histograms": [[[3, 1]], [[1, 2]]]},
        {"output": [0], "histograms": [[["3", 1]], [[2]]]},
        {"output": [0], "histograms": [[[10**12, 1]], [[2]]]},
        {"output": [0], "histograms": [[[]], [[2]]]},
        {"output": [0], "histograms": [[[3]]]},
    ],
)
def test_what_is_no_output_is_told(content: object) -> None:
    """A journal can be damaged like any other file."""
    with pytest.raises(ConfigError, match=r"its packed part cannot be read\."):
        unpack_output(pack(content))


PACKED, QUICK = pack({"a": 1}), pack({"a": 1}, quick=True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("?", "its packed part cannot be read."),
        ("", "its packed part is cut short, or larger than 1 GiB."),
        (PACKED[:-8], "its packed part is cut short, or larger than 1 GiB."),
        (PACKED[:28] + "AAAA" + PACKED[32:], "its packed part cannot be read."),
        (base64.b64encode(b"this is no text of xz").decode(), "its packed part cannot be read."),
        (QUICK[:-8], "its packed part is cut short, or larger than 1 GiB."),
        (QUICK[:16] + "AAAA" + QUICK[20:], "its packed part cannot be read."),
    ],
)
def test_damage_is_told(text: str, sentence: str) -> None:
    """In one sentence, and not by an error of lzma, base64 or json."""
    with pytest.raises(ConfigError) as caught:
        unpack(text)
    assert caught.value.what == sentence


@pytest.mark.parametrize("content", ["{", b"\xff", "[" * 100_000])
def test_text_that_is_no_json_is_told(content: str | bytes) -> None:
    """The compressed text may be anything."""
    import lzma

    raw = content if isinstance(content, bytes) else content.encode()
    for compressed in (lzma.compress(raw), gzip.compress(raw)):
        with pytest.raises(ConfigError, match=r"its packed part cannot be read\."):
            unpack(base64.b64encode(compressed).decode())


def test_more_than_a_run_can_have_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some kilobytes of xz or gzip can hold all memory."""
    monkeypatch.setattr("pytest_vmstorage.results.packed._LARGEST_BYTES", 1000)
    for quick in (False, True):
        assert unpack(pack("a" * 900, quick=quick)) == "a" * 900
        with pytest.raises(ConfigError, match=r"larger than 1 GiB"):
            unpack(pack("a" * 1001, quick=quick))


@pytest.mark.parametrize(
    "change",
    [
        {"packed": pack([])},
        {"packed": pack({})},
        {"packed": pack({"outputs": {}, "proofs": []})},
        {"packed": pack({"outputs": {"sha256:0": 1}, "proofs": [], "histograms": [[], []]})},
        {"packed": pack({"outputs": {"sha256:0": [0]}, "proofs": [], "histograms": [[], []]})},
        {"packed": pack({"outputs": {"sha256:0": [0]}, "proofs": [], "histograms": [[3, 1, 2], [2]]})},
        {"measurements": 5},
        {"measurements": ["x"]},
        {"measurements": [{"samples": [{}], "proof": 0}]},
    ],
)
def test_rows_that_do_not_go_with_the_packed_part(change: dict[str, Any]) -> None:
    """As where two files were mixed by hand."""
    with pytest.raises(ConfigError, match=r"its packed part does not go with its rows\."):
        unpacked({**pack_evidence(DOCUMENT), **change})


def test_an_output_that_was_changed_is_told() -> None:
    """Its hash is that of what was measured."""
    document = pack_evidence(DOCUMENT)
    evidence = unpack(document["packed"])
    name = next(iter(evidence["outputs"]))
    evidence["outputs"][name] = ["a2"]
    with pytest.raises(ConfigError, match=r"a raw output in it is not what was measured: its SHA-256 is another\."):
        unpacked({**document, "packed": pack(evidence)})


def test_a_python_without_lzma_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that was built where its headers were missing has none."""
    check_lzma()
    monkeypatch.setitem(sys.modules, "lzma", None)
    for call in (check_lzma, lambda: pack(1), lambda: unpack(PACKED)):
        with pytest.raises(ConfigError, match=r"this Python has no lzma module, .* Install liblzma-dev"):
            call()


def test_a_document_has_a_row_a_line(tmp_path: Path) -> None:
    """So that a diff of two files shows rows, and their text is as short as can be."""
    text = json_lines({"a": 1, "b": [{"c": 1, "d": [2, 3]}, {}], "e": []})
    assert text == '{\n"a": 1,\n"b": [\n{"c":1,"d":[2,3]},\n{}\n],\n"e": []\n}\n'
