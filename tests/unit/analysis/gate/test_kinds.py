"""The table of verdicts: it has all of them, and reports show each from its line there."""

from __future__ import annotations

import pytest

from pytest_vmstorage.analysis.gate.kinds import KINDS, Kind
from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.pull_request import render_summary
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.testing.builders import make_measurement, make_run


def test_each_verdict_has_its_line() -> None:
    """The table's order is that of reports, and no verdict is missing in it."""
    assert set(KINDS) == set(Kind)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.SHOWN])
def test_reports_show_a_verdict_by_its_line_alone(kind: Kind) -> None:
    """Counted in the summary, in the pull request's table or folded below it, and in a section where it has a title."""
    run = make_run(make_measurement(iops=(1000.0,)))
    (measured,) = run.measurements
    verdict = Verdict(
        kind=kind,
        nodeid=measured.nodeid,
        config=StorageConfig(),
        host=measured.host,
        workload=measured.workload,
        nth=0,
        metric="iops",
        unit="IOPS",
        gates=True,
        now=1000.0,
        reason="the reason of this verdict",
    )
    comparison = Comparison(against="baseline 'main'", verdicts=(verdict,))
    text, record = render_summary(run, comparison), KINDS[kind]
    assert f"1 {kind}" in text.splitlines()[0]
    assert f"| {kind.sign} {kind} |" in text or "- the reason of this verdict" in text
    assert (f"<summary>{kind.sign} 1 {record.folded}</summary>" in text) is bool(record.folded)
    titles = [section.title for section in build_table(run, comparison).sections]
    assert (record.title in titles) is bool(record.title)
