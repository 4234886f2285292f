"""The long form: one row for each metric, ready for a data frame."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.saved import Baseline
from pytest_vmstorage.testing.builders import make_failure, make_measurement, make_run


def rows(run: Run, baseline: Run | None = None) -> list[dict[str, str]]:
    """What a reader of the CSV gets."""
    comparison = compare(run, Baseline(name="b", path=Path("b"), run=baseline), GatePolicy()) if baseline else None
    return list(csv.DictReader(io.StringIO(render_csv(run, comparison))))


def pick(row: dict[str, str], names: str) -> list[str]:
    """Some fields of a row."""
    return [row[name] for name in names.split()]


def test_a_row_for_each_metric_with_every_round() -> None:
    """Base units and unrounded figures; rows with fewer rounds leave cells empty."""
    first, second, third = rows(
        make_run(
            make_measurement(iops=(1, 3, 2.5), clat=(0.1, 0.2, 0.3), guest={"kernel": "6.1", "fio": "3.33"}),
            make_measurement(StorageConfig(format="qcow2"), workload="dd", bw=(7,)),
        )
    )
    names = "format workload metric unit better primary median min max rounds round_1 round_2 round_3"
    assert pick(first, names) == [
        *("raw", "fio randwrite 4k qd32", "iops", "IOPS", "higher", "True"),
        *("2.5", "1.0", "3.0", "3", "1.0", "3.0", "2.5"),
    ]
    assert pick(second, "metric unit better primary median") == ["clat", "s", "lower", "False", "0.2"]
    assert pick(third, "format metric rounds round_1 round_2") == ["qcow2", "bw", "1", "7.0", ""]
    assert pick(first, "host accel host_qemu host_cpu size_bytes guest_kernel tool_version") == [
        *("local", "kvm", "7.2.9", "Example CPU 3.0 GHz", str(2**30), "6.1", "3.33")
    ]


def test_a_row_has_the_version_of_a_qemu_of_its_own() -> None:
    """Any other was run by the host's."""
    config = StorageConfig(emulator="/opt/qemu-9/bin/qemu")
    own, other = rows(
        make_run(make_measurement(iops=(1,)), make_measurement(config, iops=(1,), guest={"qemu": "9.2.0"}))
    )
    assert pick(own, "emulator emulator_version host_qemu") == ["", "", "7.2.9"]
    assert pick(other, "emulator emulator_version host_qemu") == ["/opt/qemu-9/bin/qemu", "9.2.0", "7.2.9"]


def test_what_had_no_part_in_a_row_is_empty() -> None:
    """A guest's bus, cache and memory where the host worked on whole images; null in JSON, with the cell beside it."""
    config = StorageConfig(format="qcow2", cache="unsafe", bus="sata")
    image = make_measurement(config, iops=(1,)).model_copy(update={"on_host": True})
    failed = make_failure(config).model_copy(update={"on_host": True})
    native = make_measurement(StorageConfig(backing="native:fast"), iops=(1,))
    run = make_run(image, native, failures=[failed])
    first, second, third = rows(run)
    for row in (first, third):
        assert pick(row, "format preallocation cache bus memory vcpus") == ["qcow2", "off", "", "", "", ""]
    assert pick(second, "backing preallocation") == ["native:fast", ""]
    document = json.loads(render_json(run))
    for said in (document["measurements"][0], document["failures"][0]):
        assert [said["config"][name] for name in ("format", "bus", "cache", "memory")] == ["qcow2", None, None, None]
        assert said["cell"]["cache"] == "unsafe"
    assert document["measurements"][1]["config"]["preallocation"] is None
    # as a baseline it is what it was
    assert Run.model_validate_json(render_json(run)) == run


def test_a_script_of_many_lines_is_one_line() -> None:
    """A row is a line of the file, for grep and for who counts lines."""
    script = make_measurement(iops=(1,)).model_copy(update={"command": "bash -c 'set -e\ntar -cf x tree'"})
    text = render_csv(make_run(script))
    assert text.count("\n") == 2
    assert rows(make_run(script))[0]["command"] == r"bash -c 'set -e\ntar -cf x tree'"


def test_the_verdict_stands_beside_the_figure() -> None:
    """The change is a signed fraction of the figure."""
    (row,) = rows(make_run(make_measurement(iops=(50,))), make_run(make_measurement(iops=(100,))))
    assert pick(row, "baseline change verdict") == ["100.0", "-0.5", "SUSPECT"]


def test_a_failed_cell_is_a_row_without_a_metric() -> None:
    """Nothing is dropped, and reasons with commas and line ends survive."""
    (row,) = rows(make_run(failures=[make_failure(reason='No, "none".\nconsole')]))
    assert pick(row, "format metric median failure") == ["raw", "", "", 'No, "none".\nconsole']
