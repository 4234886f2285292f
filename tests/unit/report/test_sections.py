"""A comparison in few lines, and as Markdown by `report.pull_request`."""

from __future__ import annotations

import pytest

from pytest_vmstorage.analysis.gate.by_pairs import compare_pairs
from pytest_vmstorage.analysis.gate.policy import GatePolicy, ToleranceRule, Tolerated, Waiver
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.pull_request import render_summary
from pytest_vmstorage.report.sections import summary_lines
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run

BUSES = ("virtio-blk", "virtio-scsi")


def measured(config: StorageConfig, level: float, pairs: int = 18) -> Measurement:
    """A cell whose rounds differ by a percent."""
    return make_measurement(config, iops=[level * (1 + 0.01 * (place % 3)) for place in range(pairs)])


def a_run(slow: str = "virtio-scsi", **fields: object) -> Run:
    """Two formats on two buses; those on the slow one took twice as long, and fresh pairs say so too."""
    configs = [StorageConfig(format=name, bus=bus) for name in ("raw", "qcow2") for bus in BUSES]
    now = [measured(one, 500 if one.bus == slow else 1000) for one in configs]
    now = [one.model_copy(update={"fresh": 12 if one.config.bus == slow else 0}) for one in now]
    run = make_run(*now, against=[measured(one, 1000) for one in configs], recipe="cache=writeback")
    return run.model_copy(update=fields)


def test_what_regressions_share_is_said() -> None:
    """The first thing that somebody who has six of them asks."""
    lines = list(summary_lines(compare_pairs(a_run(), GatePolicy())))
    assert lines[0] == "2 REGRESSED, 2 PASS"
    assert lines[1].startswith("all 2 regressions have bus=virtio-scsi")
    assert "format does not matter" in lines[1]


def test_without_a_regression_nothing_is_shared() -> None:
    """A green run has one line."""
    assert list(summary_lines(compare_pairs(a_run(slow="none"), GatePolicy()))) == ["4 PASS"]


def test_a_summary_begins_with_what_is_red() -> None:
    """Cells, figures, the loss with its interval; reasons and the matrix are folded."""
    run = a_run(failures=(make_failure(reason="guest ended: QEMU was killed."),))
    text = render_summary(run, compare_pairs(run, GatePolicy()))
    assert text.startswith("## VM storage: 1 test FAILED; 2 REGRESSED, 2 PASS against the same with cache=writeback\n")
    cell = "raw-none-virtio-scsi-off 1G"
    row = f"| 🔴 REGRESSED | fio randwrite 4k qd32 | {cell} | 1010 IOPS | 505 IOPS | +100 % (+100 % to"
    assert row in text
    assert text.index(row) < text.index("<summary>🟢 2 passed</summary>") < text.index("The whole matrix")
    assert "- test\\_random\\_write on raw-none-virtio-blk-off 1G: guest ended: QEMU was killed." in text
    assert text.count("<details>") == text.count("</details>")


def test_a_waiver_is_counted_apart() -> None:
    """It is neither red nor a pass."""
    waiver = Waiver(cell="*virtio-scsi*", reason="known", owner="jane", expires="2999-01-01")
    lines = list(summary_lines(compare_pairs(a_run(), GatePolicy(waivers=(waiver,)))))
    assert lines[0] == "2 waived, 2 PASS"


def test_what_is_open_has_its_reason() -> None:
    """A cell without pairs of its own says why."""
    run = a_run(against=())
    text = render_summary(run, compare_pairs(run, GatePolicy()))
    assert "4 INCONCLUSIVE" in text.splitlines()[0]
    assert "<summary>⚪ 4 inconclusive, and why</summary>" in text


def test_emulation_is_marked() -> None:
    """Whoever reads the table reads that first."""
    run = a_run(hosts=(make_host("local", accel="tcg"),))
    assert "**Guests ran under software emulation (TCG)" in render_summary(run, None)


@pytest.mark.parametrize("tolerated", [0.1, 2.0])
def test_a_tolerated_loss_stands_beside_the_loss(tolerated: float) -> None:
    """What is tolerated in one cell need not be in another."""
    policy = GatePolicy(rules=(ToleranceRule(cell="*", tolerated=Tolerated(fraction=tolerated)),))
    text = render_summary(a_run(), compare_pairs(a_run(), policy))
    assert f"| {tolerated * 100:g} % |" in text
