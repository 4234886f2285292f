"""The text that each program gets; tests/readers holds it against those programs.

They are `report.exports.openmetrics`, `report.exports.influxdb`, `report.exports.bencher`,
`report.exports.github_action_benchmark` and `report.exports.otava`.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence

import jsonschema
import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.exports.bencher import render_bencher
from pytest_vmstorage.report.exports.github_action_benchmark import render_github_action_benchmark
from pytest_vmstorage.report.exports.influxdb import render_influxdb
from pytest_vmstorage.report.exports.openmetrics import render_openmetrics
from pytest_vmstorage.report.exports.otava import render_otava
from pytest_vmstorage.report.exports.rows import ExportRow, gather
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import make_host, make_measurement, make_run

QCOW2 = StorageConfig(format="qcow2")
HOSTILE = 'a "b", c=d\\\ne\x1b[31m,{}=`'


def on_day(day: int, *measured: Measurement, **more: object) -> Run:
    """A run of that day of a month."""
    began = f"2026-03-{day:02}T04:05:06.500000+00:00"
    dated = (
        m.model_copy(update={"samples": tuple(s.model_copy(update={"started": began}) for s in m.samples)})
        for m in measured
    )
    return make_run(*dated, started=began, **more)  # type: ignore[arg-type]


def rows(*runs: Run, patterns: Sequence[str] = ()) -> tuple[ExportRow, ...]:
    """The rows of these runs."""
    return gather(runs, patterns).rows


def two_days() -> tuple[ExportRow, ...]:
    """Two cells on two days, the second under TCG."""
    raw, qcow2 = make_measurement(iops=(1, 3, 2)), make_measurement(QCOW2, bw=(5, 5, 5))
    return rows(on_day(1, raw, qcow2, hosts=[make_host(accel="tcg")]), on_day(2, raw, hosts=[make_host(accel="tcg")]))


def test_openmetrics_has_a_series_for_each_edge_of_the_spread() -> None:
    """A family is named after its unit, its samples stand together with their times, and the text has its end."""
    lines = render_openmetrics(two_days()).splitlines()
    smallest = [line for line in lines if line.startswith("vmstorage_iops_round_min_operations_per_second{")]
    assert [line.rpartition("}")[2] for line in smallest] == [" 1.0 1772337906.500", " 1.0 1772424306.500"]
    assert 'host="local",accel="tcg",emulated="yes"' in smallest[0]
    assert lines[:3] == [
        "# TYPE vmstorage_iops_operations_per_second gauge",
        "# UNIT vmstorage_iops_operations_per_second operations_per_second",
        "# HELP vmstorage_iops_operations_per_second Median of the rounds of iops, higher is better; rows with"
        " emulated=yes say nothing about performance",
    ]
    assert lines[-1] == "# EOF"


def test_openmetrics_keeps_a_users_metric_apart_from_our_own_families() -> None:
    """`rounds` is how many there were."""
    made = make_measurement(rounds=(7,))
    unit_free = made.metrics[0].model_copy(update={"unit": ""})
    text = render_openmetrics(rows(make_run(made.model_copy(update={"metrics": (unit_free,)}))))
    found = re.findall(r"^(vmstorage_\w+)\{.*\} (\S+) ", text, re.MULTILINE)
    assert dict(found) | {"vmstorage_software_info": "1"} == {
        "vmstorage_figure_rounds": "7.0",
        "vmstorage_rounds_round_min": "7.0",
        "vmstorage_rounds_round_max": "7.0",
        "vmstorage_rounds": "1",
        "vmstorage_software_info": "1",
    }


def test_influxdb_has_a_line_for_each_row() -> None:
    """Labels as tags in order, figures and facts as fields, nanoseconds."""
    first = render_influxdb(two_days()).splitlines()[0]
    assert first == (
        "vmstorage,accel=tcg,bus=virtio-blk,cache=none,cell=raw-none-virtio-blk-off,emulated=yes,format=raw,host=local,"
        "nodeid=tests/test_disk.py::test_random_write[raw-none-virtio-blk-off],preallocation=off,size=1G,"
        "workload=fio\\ randwrite\\ 4k\\ qd32 "
        "iops_operations_per_second=2.0,iops_round_min_operations_per_second=1.0,iops_round_max_operations_per_second=3.0,"
        'rounds_taken=3i,run="2026-03-01T04:05:06.500000+00:00",host_kernel="6.1.0",host_qemu="7.2.9",'
        'host_libvirt="9.0.0" 1772337906500000000'
    )


BMF = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                ".+": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "number"},
                        "lower_value": {"type": "number"},
                        "upper_value": {"type": "number"},
                    },
                    "required": ["value"],
                }
            },
        }
    },
}
"""https://bencher.dev/bmf.json, as published in November 2026."""


def test_bencher_has_a_measure_between_its_outermost_rounds() -> None:
    """By its own schema, under names no longer than it keeps, which stay apart when they are cut."""
    long = [make_measurement(iops=(1, 3, 2), test=f"t.py::{'x' * 1100}{end}") for end in "ab"]
    named = make_measurement(QCOW2, **{"m" * 70: (1,)})
    document = json.loads(render_bencher(rows(make_run(*long, named))))
    jsonschema.validate(document, BMF)
    assert len(document) == 3
    assert max(map(len, document)) == 1024
    assert max(len(name) for measures in document.values() for name in measures) == 64
    first = next(iter(document.values()))
    assert first == {"iops_operations_per_second": {"value": 2.0, "lower_value": 1.0, "upper_value": 3.0}}


def test_bencher_has_the_acceleration_in_a_benchmarks_name() -> None:
    """Figures of an emulated guest are a benchmark of their own."""
    names = list(json.loads(render_bencher(two_days()[:2])))
    assert names[0] == (
        "fio randwrite 4k qd32, raw-none-virtio-blk-off 1G on local (tcg, emulated), "
        "tests/test_disk.py::test_random_write[raw-none-virtio-blk-off]"
    )


def test_github_action_benchmark_reads_its_entries() -> None:
    """What `BenchmarkResult` asks for, and the range where `extractRangeInfo` finds a number.

    https://github.com/benchmark-action/github-action-benchmark/blob/c38cce98215cf75e178ecd5a0c1a1ab215e93006/src/extract.ts
    and extractRangeInfo.ts beside it.
    """
    (entry,) = json.loads(render_github_action_benchmark(two_days()[:1]))
    assert (entry["unit"], entry["value"]) == ("ops/s", 2.0)
    found = re.search(r"(?P<prefix>(\+-|±)\s*)(?P<value>\d.*)", entry["range"])
    assert found is not None
    assert float(found["value"]) == 1.0
    assert entry["name"].startswith(
        "iops of fio randwrite 4k qd32, raw-none-virtio-blk-off 1G on local (tcg, emulated)"
    )
    lines = entry["extra"].splitlines()
    assert lines[0] == "rounds 3: 1.0 to 3.0 ops/s"
    assert "host_qemu 7.2.9" in lines
    assert lines[-1] == EMULATED


def test_github_action_benchmark_takes_one_direction() -> None:
    """It has a tool for each, and a loss that it took for a gain would be worse than a refusal."""
    with pytest.raises(ConfigError, match="--better=lower for its tool customSmallerIsBetter"):
        render_github_action_benchmark(rows(make_run(make_measurement(iops=(1,), clat=(1,)))))


def test_otava_has_a_file_for_each_series_and_a_line_for_each_run() -> None:
    """It takes no empty cell: a metric that one day lacks stands apart from the others."""
    both = make_measurement(iops=(1, 3, 2), clat=(0.1, 0.2, 0.3))
    one = make_measurement(iops=(4,))
    files = render_otava(rows(on_day(1, both), on_day(2, one)), "exported")
    tables = {name: list(csv.DictReader(io.StringIO(text))) for name, text in files.items() if name != "otava.yaml"}
    assert [[(row["time"][:10], row["rounds"], row["emulated"]) for row in table] for table in tables.values()] == [
        [("2026-03-01", "3", "no"), ("2026-03-02", "1", "no")],
        [("2026-03-01", "3", "no")],
    ]
    rates, latencies = tables.values()
    assert [row["iops_operations_per_second"] for row in rates] == ["2.0", "4.0"]
    assert (latencies[0]["clat_seconds"], latencies[0]["clat_round_max_seconds"]) == ("0.2", "0.3")
    first, second = tables
    config = files["otava.yaml"]
    assert f'file: "exported/{first}"' in config
    assert f'file: "exported/{second}"' in config
    assert "iops_operations_per_second: {direction: 1}" in config
    assert "clat_seconds: {direction: -1}" in config


def test_a_hostile_text_makes_no_line_of_its_own() -> None:
    """A test id, a workload and a version that try."""
    made = make_measurement(nodeid=HOSTILE, workload=HOSTILE, guest={"kernel": HOSTILE, HOSTILE: HOSTILE})
    mine = rows(make_run(made))
    plain = rows(make_run(make_measurement(guest={"kernel": "6.1", "fio": "3.33"})))
    for render in (render_openmetrics, render_influxdb):
        assert len(render(mine).splitlines()) == len(render(plain).splitlines())
        assert "\x1b" not in render(mine)
    files = render_otava(mine)
    assert all(re.fullmatch(r"[A-Za-z0-9.-]+", name) for name in files)
    assert [len(text.splitlines()) for text in files.values()] == [
        len(text.splitlines()) for text in render_otava(plain).values()
    ]
