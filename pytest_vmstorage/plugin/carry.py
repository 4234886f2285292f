"""Lets a test's report carry what the test measured, or why it measured nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_vmstorage.plugin.keys import CONFIG, FAILED, MAKING, MEASURED, SESSION
from pytest_vmstorage.plugin.recorder import ATTRIBUTE


def load_report(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Set the report's attribute; plain JSON values only, so that xdist can send it.

    Figures go with the teardown's report: it comes after all that may measure, also where a fixture did it and
    then failed, and what it takes is not taken again when another plugin runs the test anew.
    """
    session = item.config.stash.get(SESSION, None)
    if session is None or CONFIG not in item.stash:
        return
    if report.when == "call" and not report.passed and item.stash.get(MAKING, False):
        # a guest that cannot be made is an error, and no failure of the test, whenever it is made
        report.when = "setup"
    carried: dict[str, Any] = {}
    if report.failed:
        session.note_failure()
    reason = _reason(item, report, call)
    if reason:
        outcome = "skipped" if report.skipped else "failed"
        carried = {"failure": session.failure(item, reason, outcome), "hosts": session.hosts()}
    if report.when == "teardown":
        session.reported.add(item.nodeid)
        measured = item.stash.get(MEASURED, [])
        if measured:
            carried = {
                "measurements": [one.model_dump(mode="json") for one in measured],
                "against": [one.model_dump(mode="json") for one in session.turns.others(item.nodeid, session.order)],
                "verdicts": [one.model_dump(mode="json") for one in session.verdicts(item)],
                "hosts": session.hosts(),
            }
        item.stash[MEASURED] = []
        item.stash[FAILED] = ""
    if carried:
        setattr(report, ATTRIBUTE, carried)


def _reason(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    """Why the cell has no figure: our own error's sentence, or the first line of the test's."""
    if report.passed or report.when == "teardown":
        return ""
    if item.stash.get(FAILED, ""):
        return item.stash[FAILED]
    if report.failed and not item.stash.get(MEASURED, []) and call.excinfo is not None:
        return call.excinfo.exconly().splitlines()[0]
    return ""
