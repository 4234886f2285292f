"""Finding and reading a saved run among pytest-benchmark's files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_vmstorage.baseline import load_baseline
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.files import render_json
from pytest_vmstorage.results import SCHEMA
from pytest_vmstorage.testing import make_measurement, make_run


def save(path: Path, iops: float = 100.0, saved: str = "2026-01-01T00:00:00+00:00", **block: object) -> Path:
    """A file as pytest-benchmark writes it, with our block; `block` replaces fields of it."""
    run = make_run(make_measurement(iops=(iops,))).model_dump(mode="json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmarks": [], "datetime": saved, "vmstorage": {**run, **block}}))
    return path


def iops(name: str, folder: Path) -> float:
    """The only figure of the baseline of that name."""
    return float(load_baseline(name, folder).run.measurements[0].iops)


@pytest.mark.parametrize("name", ["main", "0001", "0001_main", "main.json", "0001_main.json"])
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


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    """A file outside the storage folder, and a JSON report of ours, serve as well."""
    assert iops(str(save(tmp_path / "elsewhere.json", 5)), tmp_path / "none") == 5
    report = tmp_path / "report.json"
    report.write_text(render_json(make_run(make_measurement(iops=(float("nan"), 6)))))
    assert load_baseline(str(report), tmp_path).run.measurements[0].values("iops")[1] == 6


def test_an_unknown_name_lists_those_there_are(tmp_path: Path) -> None:
    """And says how to save one where there is none."""
    with pytest.raises(ConfigError, match=r"no baseline 'x' in .*\. Save one with --benchmark-save=NAME\."):
        load_baseline("x", tmp_path)
    save(tmp_path / "m" / "0001_main.json")
    save(tmp_path / "m" / "0002_main.json")
    save(tmp_path / "m" / "0003_old.json")
    with pytest.raises(ConfigError, match=r"There are: main, old\."):
        load_baseline("x", tmp_path)


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
