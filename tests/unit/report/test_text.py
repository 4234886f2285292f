"""The matrix on a terminal: exact text, and no line wider than asked."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.table import Table, build_table
from pytest_vmstorage.report.text import render_text
from pytest_vmstorage.results.failures import OUTCOMES
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.saved import Baseline
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run

SMALL = """\
host local, tcg (emulated: figures say nothing about speed), QEMU 7.2.9
all rows: none, virtio-blk, preallocation off, size 1G; ↑ higher, ↓ lower is
better; ± half of smallest to largest round, in % of the median

format  fio randwrite 4k
        qd32
                  clat_p99
        IOPS ↑    ms ↓
------  ------------------
raw     14200 ±3  1.84 ±1
qcow2   failed: The guest…

failed cells:
  test_random_write on qcow2-none-virtio-blk-off 1G, local: The guest did not
    answer within 60 s.

host local:
  Example CPU 3.0 GHz, 2 cores, 8 GiB memory, governor unknown
  kernel 6.1.0, QEMU 7.2.9, libvirt 9.0.0
  acceleration tcg (asked: auto; no /dev/kvm)
  disks in /srv/vm on ext4, device unknown
  Guests ran under software emulation (TCG): these figures say nothing about
    performance.
"""


def test_a_small_run_at_80() -> None:
    """The whole text, as a reader sees it."""
    measured = make_measurement(iops=(13800, 14200, 14600), clat_p99=(0.00182, 0.00184, 0.00186))
    failed = make_failure(StorageConfig(format="qcow2"))
    run = make_run(measured, failures=[failed], hosts=[make_host(accel="tcg", accel_reason="no /dev/kvm")])
    assert render_text(build_table(run), 80) == SMALL


def test_parts_of_a_column_stand_below_each_other() -> None:
    """Figures and spreads are right-aligned, marks and changes left-aligned."""
    qcow2 = StorageConfig(format="qcow2")
    run = make_run(make_measurement(iops=(13800, 14600)), make_measurement(qcow2, iops=(900, 1100)))
    then = make_run(make_measurement(iops=(14000,)), make_measurement(qcow2, iops=(1001,)))
    comparison = compare(run, Baseline(name="main", path=Path("x"), run=then), GatePolicy(day_spread=0.02))
    lines = render_text(build_table(run, comparison), 80).splitlines()
    assert lines[6:11] == [
        "format  fio randwrite 4k qd32",
        "        IOPS ↑",
        "------  -------------------------------",
        "raw     14200  ±3 ▲ +1.4 % INCONCLUSIVE",
        "qcow2    1000 ±10 ▼ -0.1 % INCONCLUSIVE",
    ]


@pytest.mark.parametrize("name", OUTCOMES)
def test_the_name_of_a_failure_stands_in_the_cell_in_full(name: str) -> None:
    """In both forms of the matrix; the sentence and its evidence stand below it."""
    failed = make_failure(StorageConfig(format="qcow2"), reason=f"{name}: fio failed: (its agent answers).")
    table = build_table(make_run(make_measurement(iops=(1,), clat_p99=(0.002,)), failures=[failed]))
    text = render_text(table, 80)
    assert f"qcow2   failed: {name}" in text
    assert max(map(len, text.splitlines())) <= 80
    assert f"local: {name}: fio failed: (its agent answers)." in " ".join(text.split())
    assert f"| failed: {name}: " in render_markdown(table)


def big_run() -> Run:
    """16 configurations, three workloads, a failed cell, emulated."""
    cells = [
        StorageConfig(format=f, cache=c, bus=b, preallocation=p)  # type: ignore[arg-type]
        for f, c, b, p in product(
            ("raw", "qcow2"), ("none", "writeback"), ("virtio-blk", "virtio-scsi"), ("off", "full")
        )
    ]
    measured = [
        measurement
        for n, cell in enumerate(cells[1:])
        for measurement in (
            make_measurement(cell, iops=(14000.0 + n,) * 3, clat_p99=(0.002 - n / 1e6,) * 3),
            make_measurement(cell, workload="dd write 1M", bw=(350.0 + n,) * 3),
            make_measurement(cell, workload="hdparm -t", buffered_read=(1300.0 + n,)),
        )
    ]
    return make_run(*measured, failures=[make_failure(cells[0])], hosts=[make_host(accel="tcg")])


@pytest.mark.parametrize(("width", "blocks"), [(40, 2), (60, 2), (80, 1), (100, 1), (160, 1)])
def test_no_line_is_wider_than_the_terminal(width: int, blocks: int) -> None:
    """What does not fit is split by columns into few blocks; every block repeats its rows."""
    text = render_text(build_table(big_run()), width)
    assert max(map(len, text.splitlines())) <= width
    assert text.partition("what moves what:")[0].count("hdparm -t") == 1
    assert sum(line.startswith("--") for line in text.splitlines()) == blocks


@cache
def big_table() -> Table:
    """The table of `big_run`."""
    return build_table(big_run())


@cache
def big_text(width: int) -> str:
    """The table of `big_run` in that width."""
    return render_text(big_table(), width)


def test_every_width_is_kept_to() -> None:
    """Also those at which a column only just fits, or only just does not."""
    assert [w for w in range(28, 170) if max(map(len, big_text(w).splitlines())) > w] == []


def test_on_a_very_narrow_terminal_rows_are_numbered() -> None:
    """The axes stand in tables of their own, each with its name above, and no figure is cut."""
    text = render_text(build_table(big_run()), 28)
    assert max(map(len, text.splitlines())) <= 28
    assert "#   format  cache" in text
    assert "16  qcow2   writeback" in text
    assert "16  14014 ±0 ▲" in text


MANY = (
    StorageConfig(format="qcow2"),
    StorageConfig(bus="virtio-scsi", iothread=True, queues=2, vcpus=2),
    StorageConfig(format="qcow2", cluster_size=2**21, lazy_refcounts=True),
    StorageConfig(format="qcow2", extended_l2=True, cluster_size=2**17),
    StorageConfig(format="qcow2", compression="zstd"),
    StorageConfig(format="qcow2", encryption="luks", backing_chain=2),
    StorageConfig(io="native", queue_size=64),
    StorageConfig(guest_fs="xfs", guest_mkfs="-m crc=0", scheduler="none"),
)
"""Cells that differ in sixteen axes."""


def above_sections(text: str) -> str:
    """What stands above the first section: the tables."""
    return text.partition("what moves what:")[0].partition("host local:")[0]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_names_of_many_axes_stand_in_the_table(width: int) -> None:
    """A value that is none of the four that everybody knows stands behind its name, a usual one above the table."""
    cells = [make_measurement(cell, iops=(14000.0 + n,), clat_p99=(0.002,)) for n, cell in enumerate(MANY)]
    table = build_table(make_run(*cells, hosts=[make_host(accel="tcg")]))
    text = render_text(table, width)
    assert max(map(len, text.splitlines())) <= width
    assert len(table.axes) == 16 + len(("accel",))
    tables = " ".join(above_sections(text).split())
    # the acceleration, which all rows share, stands in the line on the host
    assert [name for name in table.axes[:-1] if not re.search(rf"\b{name}\b", tables)] == []
    assert "unless a row says otherwise: io=threads, iothread=no, queues=default, queue_size=default," in tables
    unusual = ("guest_fs=xfs", 'guest_mkfs="-m', 'crc=0"', "io=native", "encryption=luks", "cluster_size=2M")
    assert [word for word in unusual if word not in tables] == []


def test_names_of_axes_stand_at_every_width() -> None:
    """Of few axes in columns of their own, in one column with their names above, or with rows that are numbered."""
    table = build_table(big_run())
    for width in range(30, 130):
        text = big_text(width)
        # a name may be broken in two above its column
        tables = above_sections(text).replace("preallo-", "preallocation")
        assert [name for name in table.axes[:-1] if name not in tables] == [], width


def test_a_run_without_cells() -> None:
    """Says so and draws no empty table."""
    assert render_text(build_table(make_run()), 80) == "nothing was measured\n"
