"""What became of the tests that measured: how many passed and failed, and why some failed; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pytest_vmstorage.plain_text import plain_line
from pytest_vmstorage.report.columns import function_of
from pytest_vmstorage.results import Measurement, Run
from pytest_vmstorage.verdict import Comparison, Verdict

_ORDER = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")

_MARKS = {"failed": "FAIL", "error": "ERROR", "skipped": "SKIP", "xfailed": "XFAIL", "xpassed": "XPASS"}

LEGENDS = {
    "FAIL": "FAIL its test failed",
    "ERROR": "ERROR its test failed in set-up or teardown",
    "SKIP": "SKIP its test was skipped after it had measured",
    "XFAIL": "XFAIL its test failed, as its mark expects",
    "XPASS": "XPASS its test passed, and its mark expects otherwise",
}
"""What the marks mean, for below the matrix."""


def mark_of(m: Measurement, verdict: Verdict | None) -> str:
    """What stands beside figures whose test did not simply pass: "FAIL"; else "".

    A test that was skipped or expected to fail by the gate bears the word of its primary metric's verdict already.
    """
    by_gate = verdict is not None and (verdict.is_open or verdict.waiver is not None)
    return "" if by_gate and m.outcome in ("skipped", "xfailed") else _MARKS.get(m.outcome, "")


def tally(run: Run) -> str:
    """How many tests of the run passed, failed and so on: "46 passed, 2 failed"; "" where nobody knows.

    Tests that measured, or were to; a cell without a figure is what its reason makes it.
    """
    found: dict[str, str] = {failure.nodeid: failure.outcome for failure in run.failures}
    found |= {m.nodeid: m.outcome for m in run.measurements if m.outcome or m.nodeid not in found}
    counts = Counter(found.values())
    if run.measurements and not any(m.outcome for m in run.measurements):
        return ""
    said = [_counted(counts[name], name) for name in _ORDER if counts[name]]
    return ", ".join([*said, *([f"{counts['']} not reported"] if counts[""] else [])])


def _counted(number: int, name: str) -> str:
    return f"{number} errors" if name == "error" and number > 1 else f"{number} {name}"


def failed_lines(run: Run, comparison: Comparison | None) -> Iterator[str]:
    """A line for each test that failed although it measured, with the reason; not where the comparison gives it."""
    told = {plain_line(verdict.reason) for verdict in comparison.gated} if comparison else set()
    shown = dict.fromkeys(
        (function_of(m.nodeid), m.config.label, m.host, m.message)
        for m in run.measurements
        if m.outcome in ("failed", "error") and m.message not in told
    )
    for function, label, host, message in shown:
        yield f"{function} on {label}, {host}: {message}"
