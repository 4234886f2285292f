"""The proof of a cell in the report and in `vmstorage show`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.cli.show import newest_run, show_cell
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.run import IDLE, Measurement, Proof, Run
from pytest_vmstorage.testing.builders import make_failure, make_measurement, make_run

RAW, QCOW2 = StorageConfig(), StorageConfig(format="qcow2", l2_cache_size="1M")
FORMAT = Proof(field="format", asked="raw", found="raw", status="proven", where="live XML")
CACHE = Proof(field="cache", asked="none", found="write back", status="proven", where="guest sysfs")
SILENT = Proof(
    field="cache", asked="none", found="unknown", status="unprovable", where="guest sysfs", why="it hides it"
)
IDLE_L2 = Proof(
    field="l2_cache_size", asked="1M", found="1M", status="unprovable", where="qemu-img info", why=f"{IDLE}: too large"
)


def proven(config: StorageConfig, *proofs: Proof) -> Measurement:
    """A measurement with that proof."""
    return make_measurement(config).model_copy(update={"proof": proofs})


def section(run: Run) -> tuple[str, ...]:
    """What the report says of proofs."""
    return next((one.lines for one in build_table(run).sections if one.title.startswith("proof")), ())


def test_the_report_says_what_was_proven_in_every_row() -> None:
    """One line, and no more where nothing is left open; a field proven by one source is proven."""
    run = make_run(proven(RAW, FORMAT, CACHE, SILENT), proven(QCOW2, FORMAT, CACHE))
    assert section(run) == ("proven: format, cache",)


def test_the_report_says_what_could_not_be_proven_and_why() -> None:
    """With how many measurements it concerns, and what cannot make a difference there."""
    run = make_run(proven(RAW, FORMAT, SILENT), proven(QCOW2, FORMAT, CACHE, IDLE_L2))
    assert section(run) == (
        "proven: format",
        "not provable here: cache (it hides it) [1 of 2 measurements]",
        f"l2_cache_size: {IDLE}: too large [1 of 2 measurements]",
    )


def test_a_native_row_leaves_what_only_guests_have_to_the_others() -> None:
    """It has no cache mode to prove, and the guests' proof of theirs is said all the same."""
    backing = Proof(field="backing", asked="native", found="a regular file", status="proven", where="host")
    native = proven(StorageConfig(backing="native"), backing)
    file = backing.model_copy(update={"asked": "file"})
    assert section(make_run(native, proven(RAW, FORMAT, CACHE, file))) == ("proven: backing, format, cache",)
    assert section(make_run(native, proven(RAW, FORMAT, CACHE))) == ("proven: format, cache",)


def test_a_run_without_proofs_has_no_section_of_them() -> None:
    """As those have that were saved by an earlier version."""
    assert section(make_run(make_measurement())) == ()


def test_a_proof_reads_back_from_json() -> None:
    """It is stored with its row."""
    run = make_run(proven(RAW, FORMAT, SILENT))
    assert Run.model_validate_json(run.model_dump_json()) == run


def test_a_cell_is_shown_field_by_field() -> None:
    """Behind its figures: asked, found, status, where read; why, where something is open."""
    lines = show_cell(make_run(proven(RAW, FORMAT, SILENT)), str(RAW), "run.json", 116)
    assert lines[6:] == [
        "raw-none-virtio-blk-off 1G on local, measured",
        "  field   asked  found    status      where read",
        "  format  raw    raw      proven      live XML",
        "  cache   none   unknown  unprovable  guest sysfs",
        "      it hides it",
    ]


def test_the_figures_come_first() -> None:
    """A row for each metric, beginning with those of the matrix; then the proof."""
    made = make_measurement(RAW, iops=(1000, 1100, 900))
    lines = show_cell(make_run(made), str(RAW), "run.json", 116)
    assert lines[2:6] == [
        "raw-none-virtio-blk-off 1G on local, fio randwrite 4k qd32",
        "  metric  median     spread",
        "  iops    1000 IOPS  900 IOPS to 1100 IOPS in 3 rounds",
        "",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_it_fits_the_terminal(width: int) -> None:
    """Words that have no room stand below each other in their column; nothing is cut."""
    where = "QMP query-named-block-nodes of the node that the guest's device has, and libvirt's live XML"
    found = "/var/tmp/pytest-vmstorage-someone/run-0123456789abcdef/disk.raw"
    backing = Proof(field="backing", asked="file", found=found, status="proven", where=where)
    silent = SILENT.model_copy(update={"why": "the host hides it from everybody who asks, " * 4})
    lines = show_cell(make_run(proven(RAW, backing, silent)), str(RAW), "r.json", width)
    assert max(map(len, lines)) <= width
    assert "".join("".join(lines).split()).count("everybodywhoasks") == 4
    header = next(n for n, line in enumerate(lines) if line.startswith("  field"))
    end = next(n for n, line in enumerate(lines) if line.startswith("  cache"))
    begins = [lines[header].index(name) for name in ("found", "status", "where")]
    rows = lines[header + 1 : end]
    assert "".join("".join(row[begins[0] : begins[1]] for row in rows).split()) == found
    assert "".join("".join(row[begins[2] :] for row in rows).split()) == "".join(where.split())


@pytest.mark.parametrize("name", ["raw-none-virtio-blk-off", "raw-none-virtio-blk-off 1G", "t.py::test[x]"])
def test_a_cell_is_named_by_its_id_its_label_or_its_test(name: str) -> None:
    """Whatever the report showed."""
    run = make_run(proven(RAW, FORMAT).model_copy(update={"nodeid": "t.py::test[x]"}))
    assert show_cell(run, name, "run.json", 116)[2].startswith("raw-none-virtio-blk-off 1G")


def test_tests_of_one_guest_show_its_proof_once() -> None:
    """A cell measured by three tests has one proof."""
    run = make_run(proven(RAW, FORMAT), proven(RAW, FORMAT), proven(RAW, CACHE))
    assert sum("measured" in line for line in show_cell(run, str(RAW), "run.json", 116)) == 2


def test_a_cell_that_failed_shows_why() -> None:
    """A contradiction has no figure, and its sentence has both values."""
    reason = "cache was asked to be writethrough but is write back."
    lines = show_cell(make_run(failures=[make_failure(RAW, reason=reason)]), str(RAW), "run.json", 116)
    assert lines[-2:] == ["raw-none-virtio-blk-off 1G on local, failed", f"  {reason}"]


def test_a_row_without_a_proof_says_so() -> None:
    """It was measured by an earlier version."""
    assert show_cell(make_run(make_measurement(RAW)), str(RAW), "x", 116)[-1] == "  no proof was stored with it"


def test_an_unknown_cell_is_an_error_that_lists_those_there_are() -> None:
    """One sentence."""
    with pytest.raises(ConfigError) as caught:
        show_cell(make_run(make_measurement(RAW), make_measurement(RAW)), "raw", "run.json", 116)
    assert caught.value.told == "run.json has no cell 'raw'. It has: raw-none-virtio-blk-off."


def save(path: Path, run: Run, started: str) -> None:
    """Save a run as pytest-benchmark does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    block = run.model_copy(update={"started": started}).model_dump(mode="json")
    path.write_text(json.dumps({"benchmarks": [], "vmstorage": block}))


def test_the_newest_saved_run_is_the_one_that_began_last(tmp_path: Path) -> None:
    """Its own time counts, not the file's; files of others are passed over."""
    save(tmp_path / "a" / "0001_x.json", make_run(make_measurement(RAW)), "2026-01-03")
    save(tmp_path / "a" / "0002_y.json", make_run(make_measurement(QCOW2)), "2026-01-02")
    (tmp_path / "a" / "0003_z.json").write_text('{"benchmarks": []}')
    assert newest_run(tmp_path).path.name == "0001_x.json"
    with pytest.raises(ConfigError, match=r"no saved run .* lies below .*none\. Save one with"):
        newest_run(tmp_path / "none")


def test_the_command_shows_the_newest_run_or_the_file_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A --vm-report=FILE.json is as good as a saved run; what is not there is one sentence and exit status 1."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / ".benchmarks" / "m" / "0001_x.json", make_run(proven(RAW, FORMAT)), "2026-01-03")
    assert main(["show", str(RAW)]) == 0
    assert "format  raw    raw    proven  live XML" in capsys.readouterr().out
    (tmp_path / "m.json").write_text(make_run(proven(QCOW2, IDLE_L2)).model_dump_json())
    assert main(["show", str(QCOW2), "m.json"]) == 0
    assert IDLE in capsys.readouterr().out
    assert main(["show", "nothing"]) == 1
    assert "has no cell 'nothing'" in capsys.readouterr().err


def test_raw_outputs_of_a_cell_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of each round, for jq or fio's own tools; a cell that failed has none."""
    monkeypatch.chdir(tmp_path)
    made = make_measurement(RAW, iops=(1, 2))
    samples = [one.model_copy(update={"raw": raw}) for one, raw in zip(made.samples, ("{\n}", "[]"), strict=True)]
    run = make_run(
        made.model_copy(update={"samples": tuple(samples)}), make_measurement(QCOW2), failures=[make_failure(RAW)]
    )
    (tmp_path / "r.json").write_text(render_json(run))
    assert main(["show", str(RAW), "r.json", "--raw"]) == 0
    assert capsys.readouterr().out == "{\n}\n[]\n"
    assert main(["show", "nothing", "r.json", "--raw"]) == 1
    assert "has no cell 'nothing'" in capsys.readouterr().err
    (tmp_path / "r.json").write_text(render_json(make_run(failures=[make_failure(RAW)])))
    assert main(["show", str(RAW), "r.json", "--raw"]) == 1
    assert f"has no round of '{RAW}': it failed. Leave --raw out to see why." in capsys.readouterr().err


def test_what_each_layer_moved_stands_side_by_side() -> None:
    """Guest, block layer, QEMU and the host's device, with flushes; a layer that could not be asked is left out."""
    moved = IoCounters(
        guest_read_bytes=0, guest_written_bytes=2**20, layer_read_bytes=0, layer_written_bytes=2**20,
        layer_flushes=3, host_flushes=5, device_read_bytes=0, device_written_bytes=3 * 2**20,
    )  # fmt: skip
    made = proven(RAW, FORMAT)
    made = made.model_copy(update={"samples": (made.samples[0].model_copy(update={"moved": moved}),)})
    text = "\n".join(show_cell(make_run(made), str(RAW), "x.json", 116))
    assert f"{RAW.label} on local, {made.workload}, moved in 1 round(s)" in text
    assert re.search(r"guest's disk +0 B +1 MiB\n +QEMU's block layer +0 B +1 MiB\n +host's device", text)
    assert "flushes: the guest asked for 3, the host's device completed 5" in text
    assert "QEMU on the host" not in text
