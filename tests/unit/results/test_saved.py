"""Finding and reading a saved run among pytest-benchmark's files."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.results.packed import json_lines, pack_run, unpack
from pytest_vmstorage.results.run import SCHEMA, Run
from pytest_vmstorage.results.saved import PROMOTED, keyed, load_baseline
from pytest_vmstorage.results.series import Series
from pytest_vmstorage.testing.builders import make_baseline, make_measurement, make_run

RECORDING = Path(__file__).parents[1] / "recordings" / "saved-0.1.0.json"
"""A file that version 0.1.0 saved; saved-0.1.0.md says how."""


PACKED = RECORDING.with_name("saved-form-2.json")
"""The first file whose run is packed; saved-form-2.md says how it was made."""


def save(
    path: Path,
    iops: float = 100.0,
    saved: str = "2026-01-01T00:00:00+00:00",
    *,
    promoted: bool = False,
    **block: object,
) -> Path:
    """A file as pytest-benchmark writes it, with our block; `block` replaces fields of it."""
    run = make_run(make_measurement(iops=(iops,))).model_dump(mode="json")
    path.parent.mkdir(parents=True, exist_ok=True)
    mark = {PROMOTED: {"at": saved}} if promoted else {}
    path.write_text(json.dumps({"benchmarks": [], "datetime": saved, "vmstorage": {**run, **block}, **mark}))
    return path


def days(name: str, folder: Path) -> list[float]:
    """The figures of all runs of the baseline of that name, the newest last."""
    baseline = load_baseline(name, folder)
    return [float(run.measurements[0].iops) for run in (*baseline.earlier, baseline.run)]


def day(number: int) -> str:
    """That day of January."""
    return f"2026-01-{number:02}T00:00:00+00:00"


def iops(name: str, folder: Path) -> float:
    """The only figure of the baseline of that name."""
    return float(load_baseline(name, folder).run.measurements[0].iops)


@pytest.mark.parametrize("name", ["main", "0001", "1", "01", "0001_main", "main.json", "0001_main.json"])
def test_a_run_is_found_by_name_and_by_number(tmp_path: Path, name: str) -> None:
    """All the ways in which pytest-benchmark's own options name a file."""
    path = save(tmp_path / "Linux-CPython" / "0001_main.json")
    save(tmp_path / "Linux-CPython" / "0002_not_main.json", 7)
    baseline = load_baseline(name, tmp_path)
    assert (baseline.path, baseline.name) == (path, name)
    assert iops(name, tmp_path) == 100


def test_the_newest_of_a_name_wins_whatever_its_number(tmp_path: Path) -> None:
    """Numbers count within one machine's folder; the time in the file tells across folders."""
    save(tmp_path / "a" / "0009_main.json", 1, "2026-01-01T00:00:00+00:00")
    save(tmp_path / "b" / "0002_main.json", 2, "2026-02-01T00:00:00+00:00")
    save(tmp_path / "b" / "0003_main.json", 3, "2026-02-01T00:00:00+00:00")
    assert iops("main", tmp_path) == 3


def test_runs_of_one_name_are_its_days(tmp_path: Path) -> None:
    """Oldest first, by the time in the file; those of other names are none."""
    save(tmp_path / "a" / "0009_main.json", 1, day(1))
    save(tmp_path / "b" / "0001_main.json", 3, day(3))
    save(tmp_path / "a" / "0010_main.json", 2, day(2))
    save(tmp_path / "a" / "0011_other.json", 4, day(4))
    assert days("main", tmp_path) == days("main.json", tmp_path) == [1, 2, 3]


@pytest.mark.parametrize("name", ["0002", "0002_main", "0002_main.json"])
def test_a_number_names_one_run(tmp_path: Path, name: str) -> None:
    """Whoever writes a number wants that run, and no history."""
    for number in (1, 2, 3):
        save(tmp_path / "a" / f"000{number}_main.json", number, day(number))
    assert days(name, tmp_path) == [2]
    assert days(str(tmp_path / "a" / "0002_main.json"), tmp_path) == [2]


def test_a_name_that_looks_like_a_number_is_a_name(tmp_path: Path) -> None:
    """Its days are those that were saved under it, and not the run of that number."""
    save(tmp_path / "a" / "2026_main.json", 1, day(1))
    save(tmp_path / "a" / "2027_2026.json", 2, day(2))
    save(tmp_path / "a" / "2028_2026.json", 3, day(3))
    assert days("2026", tmp_path) == [2, 3]
    # as with any name, the newest wins, and a run of that number has no history
    save(tmp_path / "b" / "2026_main.json", 4, day(4))
    assert days("2026", tmp_path) == [4]


@pytest.mark.parametrize(("promoted", "left"), [((1,), [1, 2, 3]), ((2,), [2, 3]), ((3,), [3]), ((1, 2), [2, 3])])
def test_a_name_begins_anew_with_the_last_run_that_was_promoted(
    tmp_path: Path, promoted: tuple[int, ...], left: list[float]
) -> None:
    """What was saved before it is of another time; the file it came from stays where it is."""
    for number in (1, 2, 3):
        save(tmp_path / "a" / f"000{number}_main.json", number, day(number), promoted=number in promoted)
    assert days("main", tmp_path) == left


def test_earlier_runs_without_figures_of_ours_are_no_days(tmp_path: Path) -> None:
    """They were saved under that name before this plugin was there; one that is damaged is loud."""
    save(tmp_path / "a" / "0002_main.json", 2, day(2))
    save(tmp_path / "a" / "0003_main.json", 3, day(3))
    (tmp_path / "a" / "0001_main.json").write_text(json.dumps({"benchmarks": [], "datetime": day(1)}))
    assert days("main", tmp_path) == [2, 3]
    save(tmp_path / "a" / "0002_main.json", 2, day(2), measurements="none")
    with pytest.raises(ConfigError, match=r"0002_main\.json is damaged"):
        load_baseline("main", tmp_path)


def test_a_cell_is_found_in_each_run_by_host() -> None:
    """Its newest measurement of any host where its own has none, its history of its own host alone."""
    lab1, lab2 = (make_measurement(host=name, iops=(number,)) for number, name in enumerate(("lab1", "lab2"), 1))
    key = keyed([lab1])[0][0]
    baseline = make_baseline(make_run(lab1, lab2), make_run(), make_run(lab1))
    assert baseline.find(key, "lab2") == baseline.find(key, "lab1") == lab1
    assert [(run, found.host) for run, found in baseline.history(key, "lab2")] == [(baseline.earlier[0], "lab2")]
    assert [found for _, found in baseline.history(key, "lab1")] == [lab1, lab1]
    assert baseline.find(key._replace(nth=1), "lab1") is None
    assert baseline.history(key._replace(nth=1), "lab1") == []


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    """A file outside the storage folder, and a JSON report of ours, serve as well."""
    assert iops(str(save(tmp_path / "elsewhere.json", 5)), tmp_path / "none") == 5
    report = tmp_path / "report.json"
    report.write_text(render_json(make_run(make_measurement(iops=(float("nan"), 6)))))
    assert load_baseline(str(report), tmp_path).run.measurements[0].values("iops")[1] == 6


def test_an_unknown_name_lists_those_there_are(tmp_path: Path) -> None:
    """And says how to save one where there is none."""
    with pytest.raises(ConfigError, match=r"no baseline 'x' in .*\. Save one with --vm-save=NAME\."):
        load_baseline("x", tmp_path)
    save(tmp_path / "m" / "0001_main.json")
    save(tmp_path / "m" / "0002_main.json")
    save(tmp_path / "m" / "0003_old.json")
    with pytest.raises(ConfigError, match=r"There are: main \(0001, 0002\), old \(0003\)\."):
        load_baseline("4", tmp_path)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not JSON"),
        ('{"benchmarks": []}', "was saved without pytest-vmstorage"),
        ("[]", "was saved without pytest-vmstorage"),
        (json.dumps({"vmstorage": {"schema_version": SCHEMA + 1}}), f"has version {SCHEMA + 1}"),
        ('{"vmstorage": {"schema_version": 1}}', "is damaged: started cannot be read. Save it again."),
        (
            '{"vmstorage": {"started": "", "failures": [{"config": {"size": "10X"}}]}}',
            "is damaged: '10X' is not a size. Save it again.",
        ),
        ('{"vmstorage": {"started": "", "hosts": [{"stated": {"a\\nb": 1}}]}}', "hosts.0.name cannot be read."),
        (
            '{"vmstorage": {"started": "", "packed": "x"}}',
            "is damaged: its packed part cannot be read. Save it again.",
        ),
        (
            '{"vmstorage": {"started": "", "hosts": [{"name": "h", "stated": {"a\\nb": 1}}]}}',
            "is damaged: hosts.0.stated.a b cannot be read. Save it again.",
        ),
    ],
)
def test_a_file_that_is_none_of_ours_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    """One sentence with the file, never a traceback of json or pydantic."""
    path = tmp_path / "m" / "0001_main.json"
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_baseline("main", tmp_path)
    assert sentence in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_0_1_0_saved_is_read_as_before(tmp_path: Path) -> None:
    """Its figures, guests, order, failure and time are those of the recorded run."""
    path = tmp_path / "Linux-CPython-3.11-64bit" / "0001_main.json"
    path.parent.mkdir()
    shutil.copy(RECORDING, path)
    run = load_baseline("main", tmp_path).run
    native, raw, qcow2 = run.measurements
    assert (native.config.is_native, native.workload, native.tool) == (True, "dd read 1M buffered count=64", "dd")
    assert native.values("bw") == (199.01522849291325, 200.85009488833214)
    assert raw.nodeid == "test_disk.py::test_random_write[raw]"
    assert raw.values("iops") == (9868.857312338849, 10104.227329773246)
    assert float(raw.iops) == pytest.approx(9986.542321)
    assert (str(qcow2.config), qcow2.config.size, str(qcow2.iops)) == ("qcow2-none-virtio-blk-off", 2**28, "7996 IOPS")
    assert [(sample.order, sample.boot) for sample in qcow2.samples] == [(6, "00000002"), (7, "00000002")]
    assert (qcow2.point, qcow2.shown) == ({"iodepth": 32.0, "numjobs": 1.0}, ("iops", "clat_p99"))
    assert (qcow2.guest, qcow2.outcome) == ({"kernel": "6.1.0-fake", "fio": "fio-3.33"}, "passed")
    (failure,) = run.failures
    assert failure.reason == "The guest of raw-unsafe-virtio-blk-off did not answer within 5 s."
    assert [(host.name, host.cpu, host.qemu, host.accel) for host in run.hosts] == [
        ("fakehost", "Fake CPU", "7.2", "kvm")
    ]
    assert [(one.process, one.wall_s, len(one.spans)) for one in run.timelines] == [("pytest", 0.885516, 110)]


def with_later_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """A saved row with the fields that came later, and their defaults."""
    return {**row, "code": "", "samples": [{**one, "series": None, "warm_ups": []} for one in row["samples"]]}


def test_what_0_1_0_saved_is_saved_again_as_it_was() -> None:
    """No field of the saved form has another name, type or default; those that came later have their defaults."""
    block = json.loads(RECORDING.read_text())["vmstorage"]
    later = [{"test_outcome": "", "code": ""}] * len(block["failures"])
    failures = [failure | added for failure, added in zip(block["failures"], later, strict=True)]
    measured = [with_later_fields(one) for one in block["measurements"]]
    hosts = [{**one, "calibration": "", "calibrated": ""} for one in block["hosts"]]
    added = {"measurements": measured, "failures": failures, "hosts": hosts, "rowless": []}
    assert Run.model_validate(block).model_dump(mode="json") == block | added


def test_a_packed_run_is_read(tmp_path: Path) -> None:
    """Its figures, raw outputs with their histograms, proofs and times are those of the recorded run of real guests."""
    run = load_baseline(str(PACKED), tmp_path).run
    first = run.measurements[0]
    assert (run.schema_version, len(run.measurements)) == (2, 8)
    assert repr(first) == (
        "<fio randwrite 4k qd32 size=64M on raw-none-virtio-blk-off 128M, vm:"
        " iops 6544 IOPS (2366 IOPS to 7484 IOPS in 3 rounds)>"
    )
    outputs = [json.loads(output)["jobs"][0] for m in run.measurements for output in m.raw]
    assert all(output["write"]["clat_ns"]["bins"] for output in outputs)
    assert len({m.proof for m in run.measurements}) == 4
    assert {proof.status for m in run.measurements for proof in m.proof if proof.field == "format"} == {"proven"}
    assert len(run.timelines[0].spans) == 404


def test_what_was_packed_is_packed_again_as_it_was() -> None:
    """No field of the saved form has another name, type or default; those that came later have their defaults."""
    block = json.loads(PACKED.read_text())["vmstorage"]
    again = pack_run(Run.model_validate(block).model_dump(mode="json"))
    packed = {**unpack(block["packed"]), "rowless": [], "series": []}
    packed["hosts"] = [{**one, "calibration": "", "calibrated": ""} for one in packed["hosts"]]
    packed["failures"] = [one | {"code": ""} for one in packed["failures"]]
    packed["measurements"] = [with_later_fields(one) for one in packed["measurements"]]
    assert {**block, "packed": packed} == {**again, "packed": unpack(again["packed"])}


def test_a_saved_run_has_five_kilobytes_a_round() -> None:
    """With all that fio printed, its histograms of 1,500 lines: 47 kB a round."""
    content = json.loads(PACKED.read_text())
    run = Run.model_validate(content["vmstorage"])
    rounds = [sample for m in run.measurements for sample in m.samples]
    assert sum(len(sample.raw) for sample in rounds) / len(rounds) > 40_000
    assert size_of(run, content) / len(rounds) < 4500
    assert len(render_json(run).encode()) / len(rounds) < 6500


def size_of(run: Run, content: Mapping[str, Any]) -> int:
    """The bytes of the file in which the run is saved beside the other content."""
    return len(json_lines({**content, "vmstorage": pack_run(run.model_dump(mode="json"))}).encode())


def moved(chance: random.Random, steps: int) -> Series:
    """A series with numbers of as many digits as those of a disk that reads and writes, none of which repeats."""
    usual = {"reads": 3000, "writes": 3000, "flushes": 20, "read_us": 6e6, "write_us": 9e6, "flush_us": 4e4}
    columns = {
        name: tuple(round(level * chance.uniform(0.7, 1.3)) for _ in range(steps)) for name, level in usual.items()
    }
    reads, writes = ([4096 * count for count in columns[name]] for name in ("reads", "writes"))
    lengths = [500 + chance.randint(-2, 2) for _ in range(steps)]
    return Series.model_validate({"steps_ms": lengths, "read_bytes": reads, "written_bytes": writes, **columns})


@pytest.mark.parametrize(("steps", "limit"), [(4, 4100), (240, 10_800)])
def test_series_are_saved_short(steps: int, limit: int) -> None:
    """Of windows of two seconds in the run above, a warm-up for each cell; and of windows of two minutes or longer."""
    content = json.loads(PACKED.read_text())
    run, chance = Run.model_validate(content["vmstorage"]), random.Random(24)
    rows = []
    for row in run.measurements:
        first, *others = (sample.model_copy(update={"series": moved(chance, steps)}) for sample in row.samples)
        first = first.model_copy(update={"warm_ups": (moved(chance, steps),)})
        rows.append(row.model_copy(update={"samples": (first, *others)}))
    rounds = sum(len(row.samples) for row in rows)
    assert size_of(run.model_copy(update={"measurements": tuple(rows)}), content) / rounds < limit
