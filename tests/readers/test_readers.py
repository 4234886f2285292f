"""What `vmstorage export` writes is read back by the readers of those whom it is for: `tox -e readers`."""

from __future__ import annotations

import datetime
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from line_protocol_parser import parse_line
from otava.config import load_config_from_file
from otava.data_selector import DataSelector
from otava.importer import CsvImporter
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.exports.influxdb import render_influxdb
from pytest_vmstorage.report.exports.openmetrics import render_openmetrics
from pytest_vmstorage.report.exports.otava import render_otava
from pytest_vmstorage.report.exports.rows import ExportRow, gather
from pytest_vmstorage.results.run import Metric, Run
from pytest_vmstorage.testing.builders import make_host, make_measurement, make_run

TODAY = datetime.datetime.now(datetime.UTC).replace(hour=0, minute=0, second=0, microsecond=0)
# what a text of a user or a guest may hold; names of metrics and units as well
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
POSITIVE = st.floats(min_value=1e-12, max_value=1e15)


def run_of(days_ago: int, *figures: float, name: str = "iops", unit: str = "IOPS", text: str = "fio") -> Run:
    """A run of that day with two cells, one of them in a text of its own."""
    began = (TODAY - datetime.timedelta(days=days_ago)).isoformat()
    # any text can be a metric's name, also one of the builder's own parameters
    made = make_measurement(iops=figures, guest={"kernel": text})
    samples = tuple(
        sample.model_copy(update={"started": began, "figures": {name: sample.figures["iops"]}})
        for sample in made.samples
    )
    metrics = (Metric(name=name, unit=unit, better="lower"),)
    renamed = {"metrics": metrics, "primary": name, "shown": (name,)}
    one = made.model_copy(update={"samples": samples, **renamed})
    other = one.model_copy(
        update={"config": StorageConfig(format="qcow2"), "workload": text, "nodeid": text, "host": "other"}
    )
    hosts = [make_host(accel="tcg"), make_host("other", kernel=text)]
    return make_run(one, other, started=began, hosts=hosts)


def rows_of(*runs: Run) -> tuple[ExportRow, ...]:
    """The rows of these runs."""
    return gather(runs).rows


@settings(deadline=None)
@given(st.lists(POSITIVE, min_size=1, max_size=3), TEXT.filter(bool), TEXT, TEXT)
def test_prometheus_reads_every_figure(figures: list[float], name: str, unit: str, text: str) -> None:
    """Its parser of OpenMetrics: names, units, labels, times, and no family or series twice."""
    rows = rows_of(run_of(2, *figures, name=name, unit=unit, text=text), run_of(1, 7, name=name, unit=unit, text=text))
    families = list(text_string_to_metric_families(render_openmetrics(rows)))
    found = {
        (tuple(sample.labels.items()), float(sample.timestamp)): sample.value
        for family in families
        for sample in family.samples
        if family.documentation.startswith("Median")
    }
    assert found == {(row.series, row.when.timestamp()): row.values[0].median for row in rows}
    assert all(family.type == "gauge" for family in families if family.name != "vmstorage_software")


def test_prometheus_gets_the_unit_the_spread_and_the_mark_of_emulation() -> None:
    """In the place that each has in OpenMetrics."""
    rows = rows_of(run_of(1, 2, 1, 4, name="bw", unit="MiB/s"))
    families = {one.name: one for one in text_string_to_metric_families(render_openmetrics(rows))}
    numbers = {
        name: (families[name].unit, families[name].samples[0].value)
        for name in ("vmstorage_bw_bytes_per_second", "vmstorage_bw_round_max_bytes_per_second")
    }
    assert list(numbers.values()) == [("bytes_per_second", 2.0 * 2**20), ("bytes_per_second", 4.0 * 2**20)]
    emulated, other = families["vmstorage_bw_bytes_per_second"].samples
    assert (emulated.labels["accel"], emulated.labels["emulated"]) == ("tcg", "yes")
    assert (other.labels["accel"], other.labels["emulated"], other.labels["format"]) == ("kvm", "no", "qcow2")


@settings(deadline=None)
@given(st.lists(POSITIVE, min_size=1, max_size=3), TEXT.filter(bool), TEXT, TEXT)
def test_influxdb_reads_every_figure(figures: list[float], name: str, unit: str, text: str) -> None:
    """A parser of its line protocol: a line is one row, with the same labels, figures and time."""
    rows = rows_of(run_of(1, *figures, name=name, unit=unit, text=text))
    lines = render_influxdb(rows).splitlines()
    for line, row in zip(lines, rows, strict=True):
        read = parse_line(line)
        assert read["tags"] == {name: text.replace("\\", "/") for name, text in row.labels.items() if text}
        numbers = {name: value for name, value in read["fields"].items() if isinstance(value, float)}
        assert numbers == dict(row.values[0].numbers)
        assert (read["fields"]["rounds_taken"], read["measurement"]) == (row.rounds, "vmstorage")
        assert {name: read["fields"][name] for name in row.facts} == dict(row.facts)
        assert math.isclose(read["time"] / 1e9, row.when.timestamp(), rel_tol=1e-15)


@pytest.mark.parametrize("text", ["fio", 'a "b", c=d\\\ne{}', "=1+1", "'", "#", "%{x}"])
def test_otava_imports_every_day(tmp_path: Path, text: str) -> None:
    """Its configuration names the tests, and its importer of CSV reads their lines, directions and attributes."""
    rows = rows_of(*(run_of(ago, 10 * ago, text=text) for ago in (4, 3, 2, 1)))
    for name, content in render_otava(rows, str(tmp_path)).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    tests = load_config_from_file(str(tmp_path / "otava.yaml")).tests
    assert len(tests) == 2
    for test in tests.values():
        series = CsvImporter().fetch_data(test, DataSelector())
        assert series.data == {"iops_operations_per_second": [40.0, 30.0, 20.0, 10.0]}
        assert series.time == [int((TODAY - datetime.timedelta(days=ago)).timestamp()) for ago in (4, 3, 2, 1)]
        assert series.metrics["iops_operations_per_second"].direction == -1
        assert series.attributes["host_qemu"] == ["7.2.9"] * 4


def test_otava_finds_a_step_in_what_was_written(tmp_path: Path) -> None:
    """From the first day of the new level."""
    levels = [100 + (ago % 3) for ago in range(40, 20, -1)] + [150 + (ago % 3) for ago in range(20, 0, -1)]
    rows = rows_of(*(run_of(ago, level) for ago, level in zip(range(40, 0, -1), levels, strict=True)))
    for name, content in render_otava(rows, str(tmp_path)).items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    test, _ = load_config_from_file(str(tmp_path / "otava.yaml")).tests.values()
    found = CsvImporter().fetch_data(test, DataSelector()).analyze().change_points_by_time
    assert [int(one.time) for one in found] == [int((TODAY - datetime.timedelta(days=20)).timestamp())]
