"""What the verdicts of a run make of its exit status, and of cells that no test was run for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vmstorage.plugin import gate_options

if TYPE_CHECKING:
    from pytest_vmstorage.results import Run
    from pytest_vmstorage.verdict import Comparison

GOOD, BAD, SKIP, ABORT = 0, 1, 125, 130
"""What `git bisect run` takes them for; above 127 it ends."""


def bisect_status(status: int, run: Run | None, comparison: Comparison | None) -> int:
    """The exit status for `git bisect run`: 1 where something regressed, 0 where nothing did, 125 where none can say.

    A test that failed by an assertion of its own is as bad as a regression; a cell without a figure says nothing.
    """
    if status == pytest.ExitCode.INTERRUPTED:
        return ABORT
    verdicts = comparison.gated if comparison is not None else ()
    if any(verdict.fails for verdict in verdicts):
        return BAD
    is_open = any(verdict.is_open for verdict in verdicts) or not verdicts
    if is_open or run is None or run.failures or status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return SKIP
    return BAD if status == pytest.ExitCode.TESTS_FAILED else GOOD


def fail_missing(session: pytest.Session, comparison: Comparison | None) -> None:
    """With --vm-missing=fail each cell that the run lacks is a failed test, in JUnit and in the exit status too."""
    missing = comparison.missing if comparison is not None else ()
    if not missing or gate_options.policy(session.config).missing != "fail":
        return
    for cell in missing:
        sentence = f"{cell.about} was measured before and is not in this run (--vm-missing=fail)."
        path = cell.nodeid.partition("::")[0]
        for when, outcome in (("setup", "passed"), ("call", "failed"), ("teardown", "passed")):
            report = pytest.TestReport(
                nodeid=f"{cell.nodeid} ({cell.workload}) missing",
                location=(path, None, cell.nodeid.partition("::")[2]),
                keywords={},
                outcome=outcome,  # type: ignore[arg-type]
                longrepr=sentence if outcome == "failed" else None,
                when=when,  # type: ignore[arg-type]
            )
            session.config.hook.pytest_runtest_logreport(report=report)
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
