"""The matrix as a value: rows, columns, marks, changes, failures, and the sections below.

Tests of `report.table` and `analysis.columns`.
"""

from __future__ import annotations

import math
import shlex
from pathlib import Path

import pytest

from pytest_vmstorage.analysis.columns import Column, spread_text
from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.config.cell import StorageConfig, axis_text
from pytest_vmstorage.report.table import BEST, WORST, Table, build_table
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.run import Measurement, Metric, Run
from pytest_vmstorage.results.saved import Baseline
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.fio.fio import Fio

RAW, QCOW2 = StorageConfig(), StorageConfig(format="qcow2")


def texts(table: Table) -> list[list[str]]:
    """The cells' texts, row by row, after the row's axes."""
    return [[*row.axes, *(cell.text for cell in row.cells)] for row in table.rows]


def against(run: Run, then: Run) -> Comparison:
    """The run compared with a baseline "main" whose days differ by a hundredth."""
    return compare(run, Baseline(name="main", path=Path("x"), run=then), GatePolicy(day_spread=0.01))


def section(table: Table, title: str) -> tuple[str, ...]:
    """The lines below that title."""
    return next(found.lines for found in table.sections if found.title == title)


def test_rows_are_configurations_and_columns_are_metrics() -> None:
    """Only axes that vary are columns; rows stand in the order of the axes' values, not of measuring."""
    table = build_table(
        make_run(
            make_measurement(QCOW2, iops=(10000, 10300, 10600), clat=(0.002, 0.002, 0.002)),
            make_measurement(RAW, iops=(14000, 14000), clat=(0.001, 0.001)),
        )
    )
    assert table.caption == "all rows: none, virtio-blk, preallocation off, size 1G"
    assert table.axes == ("format",)
    assert [column.heading for column in table.columns] == [
        ("fio randwrite 4k qd32", "iops [IOPS]", "higher is better"),
        ("fio randwrite 4k qd32", "clat [s]", "lower is better"),
    ]
    assert texts(table) == [["raw", "14k IOPS ±0 % ▲", "1 ms ±0 % ▲"], ["qcow2", "10.3k IOPS ±3 % ▼", "2 ms ±0 % ▼"]]


def test_hosts_are_not_set_against_each_other() -> None:
    """A figure of another machine says nothing of a cell: each host has a best and a worst of its own."""
    hosts = [make_host("lab01"), make_host("lab02")]
    rows = [
        make_measurement(config, host=host, iops=(iops, iops + 0.5))
        for host, config, iops in [("lab01", RAW, 90), ("lab01", QCOW2, 80), ("lab02", RAW, 9), ("lab02", QCOW2, 8)]
    ]
    table = build_table(make_run(*rows, hosts=hosts))
    assert [row.cells[0].mark for row in table.rows] == [BEST, WORST, BEST, WORST]
    assert f"{BEST} best and {WORST} worst of its column and host in every round" in table.legend


@pytest.mark.parametrize(
    ("rounds", "marks"),
    [
        ([(90, 95), (80, 85), (70, 75)], [BEST, "", WORST]),
        # the two best overlap by a round, the worst stands out
        ([(90, 95), (85, 91), (70, 75)], ["", "", WORST]),
        ([(90, 95), (85, 90), (70, 75)], ["", "", WORST]),
        ([(90, 95), (70, 80), (75, 75)], [BEST, "", ""]),
        ([(60, 95), (70, 90), (65, 99)], ["", "", ""]),
        # one round has no spread to be beyond
        ([(90,), (80, 85), (70, 75)], ["", "", ""]),
        ([(90,), (80,), (70,)], ["", "", ""]),
    ],
)
def test_what_cannot_be_told_apart_is_neither_best_nor_worst(rounds: list[tuple[float, ...]], marks: list[str]) -> None:
    """A mark stands where every round is beyond every round of all others; of a time the lowest is best."""
    configs = (RAW, QCOW2, StorageConfig(format="vdi"))
    pairs = list(zip(configs, rounds, strict=True))
    rates = build_table(make_run(*(make_measurement(config, iops=values) for config, values in pairs)))
    assert [row.cells[0].mark for row in rates.rows] == marks
    times = build_table(
        make_run(*(make_measurement(config, clat=[1 / value for value in values]) for config, values in pairs))
    )
    assert [row.cells[0].mark for row in times.rows] == marks


def test_nothing_is_best_where_all_are_equal_or_alone() -> None:
    """A mark says that there was something to compare."""
    alone = build_table(make_run(make_measurement(RAW, iops=(5,))))
    equal = build_table(make_run(make_measurement(RAW, iops=(5,)), make_measurement(QCOW2, iops=(5,))))
    assert {cell.mark for table in (alone, equal) for row in table.rows for cell in row.cells} == {""}
    assert alone.caption == "one row: raw, none, virtio-blk, preallocation off, size 1G"


@pytest.mark.parametrize(
    ("values", "text"),
    [((100,), "n=1"), ((97, 103), "±3 %"), ((99.6, 100.4), "±0.4 %"), ((99.04, 100.96), "±1 %"), ((0, 0), "n=2")],
)
def test_the_spread_is_half_the_range(values: tuple[float, ...], text: str) -> None:
    """In percent of the median, with no more digits than it deserves."""
    assert spread_text(make_measurement(iops=values).iops) == text


def test_a_failed_cell_shows_its_reason_in_every_column_of_its_test() -> None:
    """But not in columns of other tests; a test that failed everywhere has a column of its own."""
    table = build_table(
        make_run(
            make_measurement(RAW, test="t.py::test_a", iops=(5,)),
            make_measurement(RAW, test="t.py::test_b", workload="dd", bw=(5, 5)),
            make_measurement(QCOW2, test="t.py::test_b", workload="dd", bw=(6, 6)),
            failures=[
                make_failure(QCOW2, test="t.py::test_a", reason="No boot.\nconsole"),
                make_failure(RAW, test="t.py::test_c", reason="No disk."),
            ],
        )
    )
    assert [column.heading[0] for column in table.columns] == ["fio randwrite 4k qd32", "dd", "test_c"]
    assert texts(table) == [
        ["raw", "5 IOPS n=1", "5 MiB/s ±0 % ▼", "failed: No disk."],
        ["qcow2", "failed: No boot.", "6 MiB/s ±0 % ▲", "-"],
    ]
    assert section(table, "failed cells") == (
        "test_a on qcow2-none-virtio-blk-off 1G, local: No boot.\nconsole",
        "test_c on raw-none-virtio-blk-off 1G, local: No disk.",
    )


def test_a_figure_stays_where_its_test_failed_afterwards() -> None:
    """A threshold's failure hides no figure."""
    table = build_table(make_run(make_measurement(iops=(5,)), failures=[make_failure(reason="Too slow.")]))
    assert texts(table) == [["5 IOPS n=1"]]
    assert section(table, "failed cells")


@pytest.mark.parametrize(
    ("nodeids", "names"),
    [
        (("t.py::a", "t.py::b"), ["a", "b"]),
        (("t.py::a", "t.py::a"), ["", "#2"]),
        (("t.py::a[x-{0}]", "t.py::a[y-{0}]"), ["a [x]", "a [y]"]),
        (("t.py::a", "u.py::a"), ["t.py::a", "u.py::a"]),
    ],
)
def test_equal_workloads_of_one_cell_do_not_overwrite_each_other(nodeids: tuple[str, str], names: list[str]) -> None:
    """The column names the test by as little as tells the two apart."""
    first, second = (nodeid.format(RAW) for nodeid in nodeids)
    table = build_table(make_run(make_measurement(nodeid=first, iops=(5,)), make_measurement(nodeid=second, iops=(6,))))
    assert [column.test for column in table.columns] == names
    assert texts(table) == [["5 IOPS n=1", "6 IOPS n=1"]]


def test_workloads_of_one_name_that_ran_otherwise_have_columns_of_their_own() -> None:
    """Named by what differs: a second of I/O and a minute after ten seconds of ramp are no figures of one column."""

    def of(config: StorageConfig, test: str, iops: float, **options: object) -> Measurement:
        job = Fio(rw="randread", **options)
        # of each cell the disk has another name and place
        place = Target(path=f"/dev/{config.format}", size_bytes=2**30, offset_bytes=int(iops))
        made = make_measurement(config, workload=job.label, test=f"t.py::{test}", iops=(iops,))
        return made.model_copy(update={"command": shlex.join(job.argv(place))})

    brief = [of(RAW, "test_a", 1, runtime=1), of(QCOW2, "test_a", 2, runtime=1)]
    table = build_table(make_run(*brief))
    assert [column.heading[0] for column in table.columns] == ["fio randread 4k qd1"]
    whole = of(QCOW2, "test_c", 4)
    long = of(RAW, "test_b", 3, runtime=60, ramp_time=10, time_based=True)
    table = build_table(make_run(brief[0], long, whole))
    assert [column.heading[0] for column in table.columns] == [
        "fio randread 4k qd1 runtime=1",
        "fio randread 4k qd1 runtime=60 ramp_time=10 time_based",
        "fio randread 4k qd1",
    ]
    assert [[cell.figure for cell in row.cells] for row in table.rows] == [["1 IOPS", "3 IOPS", ""], ["", "", "4 IOPS"]]


@pytest.mark.parametrize(
    ("field", "values"),
    [("total_iops_sec", (None, 200)), ("emulator", ("/opt/7/qemu", "/opt/9/qemu")), ("iothread", (False, True))],
)
def test_a_column_is_that_of_every_value_of_an_axis(field: str, values: tuple[object, ...]) -> None:
    """Also where the value stands in the id with the axis's name before it."""
    measured = [
        make_measurement(StorageConfig(**{field: value}), nodeid=f"t.py::test_x[{axis_text(field, value)}-{depth}]")
        for value in values
        for depth in ("shallow", "deep")
    ]
    table = build_table(make_run(*measured))
    assert [column.test for column in table.columns] == ["test_x [shallow]", "test_x [deep]"]
    assert len(table.rows) == 2


def test_a_parameter_of_the_tests_own_that_equals_the_cells_value_is_kept() -> None:
    """In all columns of its function, whether or not that axis is swept beside it; so is what failed."""
    own = [make_measurement(RAW, nodeid=f"t.py::test_x[{kind}]") for kind in ("raw", "qcow2")]
    table = build_table(make_run(*own))
    assert [column.test for column in table.columns] == ["test_x [raw]", "test_x [qcow2]"]
    swept = [
        make_measurement(cell, nodeid=f"t.py::test_x[{cell.format}-{kind}]")
        for cell in (RAW, QCOW2)
        for kind in ("none", "qcow2", "raw")
    ]
    assert [column.test for column in build_table(make_run(*swept)).columns] == [
        *("test_x [none]", "test_x [qcow2]", "test_x [raw]"),
    ]
    failed = make_failure(RAW).model_copy(update={"nodeid": "t.py::test_x[writeback]"})
    others = [make_measurement(RAW, nodeid=f"t.py::test_x[{kind}]") for kind in ("none", "unsafe")]
    assert [column.test for column in build_table(make_run(*others, failures=[failed])).columns] == [
        *("test_x [none]", "test_x [unsafe]"),
    ]


def test_a_baseline_puts_its_change_beside_each_figure() -> None:
    """A word where the gate has one; a cell that either side lacks is shown or listed."""
    unsafe, sata = StorageConfig(cache="unsafe"), StorageConfig(bus="sata")
    then = make_run(
        make_measurement(RAW, iops=(1000, 1001), clat=(0.001, 0.001)),
        make_measurement(unsafe, iops=(1000, 1001), clat=(0.001, 0.001)),
        make_measurement(sata),
    )
    now = make_run(
        make_measurement(RAW, iops=(871, 871, 871), clat=(0.002,) * 3, boots=("1", "2", "3"), fresh=2),
        make_measurement(unsafe, iops=(1500, 1501), clat=(0.001, 0.001)),
        make_measurement(QCOW2, iops=(900,), clat=(0.001,)),
    )
    table = build_table(now, against(now, then))
    assert [row.cells[0].change for row in table.rows] == ["-12.9 % REGRESSED", "+50.0 % IMPROVED", "no baseline"]
    assert [row.cells[1].change for row in table.rows] == ["+100.0 %", "+0.0 %", "no baseline"]
    assert section(table, "measured before and not in this run") == (
        "fio randwrite 4k qd32 on raw-none-sata-off 1G, local (test_random_write)",
    )
    assert section(table, "against baseline 'main'") == ("1 REGRESSED, 1 INCONCLUSIVE, 1 IMPROVED, 1 missing",)
    assert len(section(table, "regressed")) == 1
    assert "the baseline has no such cell" in section(table, "inconclusive")[0]


def test_what_is_no_number_is_shown_and_never_marked() -> None:
    """A NaN round is visible in the cell and in the list, and is neither best nor worst."""
    run = make_run(make_measurement(RAW, iops=(math.nan, 5)), make_measurement(QCOW2, iops=(6,)))
    table = build_table(run, against(run, make_run()))
    assert table.rows[0].cells[0].text == "no number INVALID"
    assert table.rows[1].cells[0].mark == ""
    assert len(section(table, "invalid figures")) == 1


def test_emulated_rows_are_marked_and_never_ranked_with_others() -> None:
    """Each row says its acceleration; best and worst hold within one."""
    hosts = [make_host("lab", accel="kvm"), make_host("vm", accel="tcg")]
    rows = [
        make_measurement(config, host=host, iops=(iops, iops))
        for host, config, iops in [("lab", RAW, 90), ("lab", QCOW2, 80), ("vm", RAW, 9), ("vm", QCOW2, 8)]
    ]
    table = build_table(make_run(*rows, hosts=hosts))
    assert table.axes == ("host", "format", "accel")
    assert f"{BEST} best and {WORST} worst of its column, host and acceleration" in table.legend
    assert texts(table) == [
        ["lab", "raw", "kvm", "90 IOPS ±0 % ▲"],
        ["lab", "qcow2", "kvm", "80 IOPS ±0 % ▼"],
        ["vm", "raw", "tcg", "9 IOPS ±0 % ▲"],
        ["vm", "qcow2", "tcg", "8 IOPS ±0 % ▼"],
    ]
    assert "say nothing about performance" in section(table, "host vm")[-1]
    assert not any("no statement" in line for line in section(table, "host lab"))


def test_emulation_is_said_in_the_row_even_when_all_rows_have_it() -> None:
    """A row copied out of the table still tells that its figure means little."""
    table = build_table(make_run(make_measurement(iops=(5,)), hosts=[make_host(accel="tcg")]))
    assert texts(table) == [["tcg", "5 IOPS n=1"]]


def test_sizes_and_states_are_axes_where_they_differ() -> None:
    """Rows of different size do not fall together; a state that is not the default is said."""
    small, large = StorageConfig(size=2**28, state="fresh"), StorageConfig(state="fresh")
    table = build_table(make_run(make_measurement(large, iops=(5,)), make_measurement(small, iops=(6,))))
    assert (table.axes, [row.axes for row in table.rows]) == (("size",), [("256M",), ("1G",)])
    assert table.caption == "all rows: raw, none, virtio-blk, preallocation off, state fresh"


def test_what_is_better_neither_way_is_not_ranked() -> None:
    """Its heading says of no way that it is better."""
    metric = Metric(name="runtime", unit="s", better="neither")
    both = [
        make_measurement(config, runtime=(seconds,)).model_copy(update={"metrics": (metric,)})
        for config, seconds in ((RAW, 5.0), (QCOW2, 5.1))
    ]
    table = build_table(make_run(*both))
    assert table.columns[0].heading == ("fio randwrite 4k qd32", "runtime [s]")
    assert [row.cells[0].mark for row in table.rows] == ["", ""]


def test_data_rates_in_mb() -> None:
    """Figures, curves and sentences alike, with the unit in the heading; all else is as it was, and so is the run."""
    run = make_run(
        make_measurement(RAW, workload="dd", bw=(100.0, 100.0), seconds=(2.0, 2.0)),
        make_measurement(QCOW2, workload="dd", bw=(190 / 1.048576, 190 / 1.048576), seconds=(1.0, 1.0)),
        make_measurement(StorageConfig(backing="native"), workload="dd", bw=(400.0, 400.0), seconds=(0.5, 0.5)),
    )
    table = build_table(run, against(run, run), si=True)
    assert [column.heading[1] for column in table.columns] == ["bw [MB/s]", "seconds [s]"]
    assert [row.cells[0].figure for row in table.rows] == ["105 MB/s", "190 MB/s", "419 MB/s"]
    assert [row.cells[1].figure for row in table.rows] == ["2 s", "1 s", "500 ms"]
    assert table.rows[0].cells[0].change.startswith("+0.0 %")
    assert any(
        "bw 105 MB/s against 419 MB/s" in line for line in section(table, "against the native row of the same device")
    )
    assert [row.cells[0].figure for row in build_table(run).rows] == ["100 MiB/s", "181 MiB/s", "400 MiB/s"]


def test_rows_of_whole_images_have_nothing_of_a_guest() -> None:
    """Bus, cache, memory and whatever else their cell names of one: no guest was part of them."""
    image = make_measurement(QCOW2, workload="image operations 64M", seconds=(3.0,)).model_copy(
        update={"on_host": True}
    )
    other = make_measurement(StorageConfig(cache="unsafe", memory="1G", bus="sata"), iops=(5,))
    table = build_table(make_run(image, other, make_measurement(RAW, iops=(6,)), hosts=[make_host(accel="tcg")]))
    assert table.axes == ("format", "cache", "bus", "memory", "accel")
    assert [row.axes for row in table.rows] == [
        ("raw", "none", "virtio-blk", "512M", "tcg"),
        ("raw", "unsafe", "sata", "1G", "tcg"),
        ("qcow2", "-", "-", "-", "native"),
    ]
    alone = build_table(make_run(image))
    assert alone.caption == "one row: qcow2, preallocation off, size 1G"


def test_a_native_row_on_a_device_has_no_file_to_preallocate() -> None:
    """One on a file has: its blocks are as the cell says."""
    device, file = StorageConfig(backing="native:fast"), StorageConfig(backing="native")
    full = StorageConfig(preallocation="full")
    table = build_table(make_run(*(make_measurement(config, iops=(5,)) for config in (device, file, full, RAW))))
    values = {row.axes[table.axes.index("backing")]: row.axes[table.axes.index("preallocation")] for row in table.rows}
    assert (values["native:fast"], values["native"]) == ("-", "off")


def test_under_it_stands_what_the_rows_were_measured_on() -> None:
    """Host, CPU, kernel, QEMU, libvirt, tools, acceleration with its reason, folder, hygiene."""
    measured = make_measurement(guest={"kernel": "6.1", "fio": "3.33"}, hygiene={"host cache": "dropped"})
    other = make_measurement(QCOW2, guest={"kernel": "6.1", "fio": "3.33"}, hygiene={"host cache": "bypassed"})
    table = build_table(make_run(measured, other))
    assert section(table, "host local") == (
        "Example CPU 3.0 GHz, 2 cores, 8 GiB memory, governor unknown",
        "kernel 6.1.0, QEMU 7.2.9, libvirt 9.0.0",
        "acceleration kvm (asked: auto; a guest booted under it)",
        "disks in /srv/vm on ext4, device unknown",
    )
    assert section(table, "guest") == ("kernel 6.1, fio 3.33",)
    assert section(table, "before each round") == ("host cache: dropped / bypassed",)


def test_a_run_without_cells_is_a_table_too() -> None:
    """Nothing measured is said, and nothing breaks."""
    assert build_table(make_run()).caption == "nothing was measured"


def test_the_layer_that_served_the_rounds_is_named() -> None:
    """Reads from the host's page cache are no reads of the disk, and the report says so."""
    sample = make_measurement(iops=(9000.0,)).samples[0]
    cached = IoCounters(guest_read_bytes=2**30, layer_read_bytes=2**30, host_read_bytes=2**24)
    measured = make_measurement(iops=(9000.0,)).model_copy(
        update={"samples": (sample.model_copy(update={"moved": cached}),)}
    )
    (line,) = section(build_table(make_run(measured)), "which layer served the rounds")
    assert line.endswith(": 98% of reads came from the host's page cache (raw-none-virtio-blk-off)")


def test_equal_columns_are_one_key() -> None:
    """Also where they were read twice; those of one name with two units are two."""
    first, again, other = (
        Column(workload="fio", metric=Metric(name="bw", unit=unit, better="higher"))
        for unit in ("MiB/s", "MiB/s", "MB/s")
    )
    assert {first: 1, other: 2} == {again: 1, other: 2}


def test_each_row_has_its_name_among_all() -> None:
    """The acceleration is named where rows differ in it."""
    hosts = [make_host("a"), make_host("b", accel="tcg")]
    run = make_run(*(make_measurement(cell, host=host.name) for cell in (RAW, QCOW2) for host in hosts), hosts=hosts)
    table = build_table(run)
    assert table.names == ["a raw kvm", "a qcow2 kvm", "b raw tcg", "b qcow2 tcg"]
    assert [table.name_of(row) for row in table.rows] == table.names
