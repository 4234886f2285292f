"""What becomes of tests by their reports, in one process and as they come from workers of xdist."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vmstorage.results.run import Outcome


_REASON = "reason: "
_SKIPPED = "Skipped: "


class Outcomes:
    """The outcome and its reason of each test that is being reported.

    A test has a report for each of its phases; a plugin that runs it again begins anew with that of its set-up, and
    subtests have some of their own before that of the call.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], tuple[Outcome, str]] = {}

    def note(self, report: pytest.TestReport) -> None:
        """Take a phase's report."""
        place = _place(report)
        if report.when == "setup":
            self._found.pop(place, None)
        found = _outcome_of(report)
        before = self._found.get(place, ("passed", ""))[0]
        # what failed first is why; a phase that went well takes nothing back
        if found and (before == "passed" or (found == "failed" and before in ("xfailed", "xpassed", "skipped"))):
            self._found[place] = (found, _message(report) if found != "passed" else "")

    def take(self, report: pytest.TestReport) -> tuple[Outcome, str]:
        """What became of the test whose last report this is."""
        return self._found.pop(_place(report), ("", ""))

    def of(self, nodeid: str) -> tuple[Outcome, str]:
        """What became of a test that came to no last report, such as one whose worker was killed."""
        return next((told for (other, _), told in self._found.items() if other == nodeid), ("", ""))


def _place(report: pytest.TestReport) -> tuple[str, str]:
    # with xdist's --dist=each several workers run one test
    return report.nodeid, str(getattr(report, "worker_id", ""))


def _outcome_of(report: pytest.TestReport) -> Outcome:
    """What the phase makes of its test, "" where it says nothing, as of a run that another plugin takes back."""
    if report.failed:
        return "error" if report.when in ("setup", "teardown") else "failed"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    if report.passed and report.when == "call":
        return "xpassed" if hasattr(report, "wasxfail") else "passed"
    return ""


def _message(report: pytest.TestReport) -> str:
    """The first line of what the test failed with, or of why it was skipped."""
    from pytest_vmstorage.text import plain_line

    why = getattr(report, "wasxfail", None)
    if why is None:
        longrepr = report.longrepr
        crash = getattr(longrepr, "reprcrash", None)
        why = longrepr[2] if isinstance(longrepr, tuple) else crash.message if crash else str(longrepr or "")
    first = next((line for line in str(why).splitlines() if line.strip()), "")
    return plain_line(first.removeprefix(_REASON).removeprefix(_SKIPPED))
