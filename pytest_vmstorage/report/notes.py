"""What tests say of their own rows by the mark `storage_note`: each text once, with the tests whose rows bear it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_vmstorage.report.columns import function_of
from pytest_vmstorage.results import Measurement


def note_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """A line for each text: the tests, how many of their rows where it is not of all, and the text."""
    rows: dict[str, dict[str, int]] = {}
    of_test: dict[str, int] = {}
    for m in measured:
        test = function_of(m.nodeid)
        of_test[test] = of_test.get(test, 0) + 1
        for note in m.notes:
            tests = rows.setdefault(note, {})
            tests[test] = tests.get(test, 0) + 1
    for note, tests in rows.items():
        named = (
            test if count == of_test[test] else f"{test} ({count} of {of_test[test]} rows)"
            for test, count in tests.items()
        )
        yield f"{', '.join(named)}: {note}"
