"""outcomes.md and exit-status.md: what becomes of a test, what verdicts mean, and how a run ends."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from pytest_vmstorage import errors
from pytest_vmstorage.analysis import ratios
from pytest_vmstorage.analysis.gate.kinds import KINDS
from pytest_vmstorage.plugin import gate
from pytest_vmstorage.results.run import Outcome
from reference_pages.markdown import code, fill, first_paragraph, read_sections, table

_LEAF = re.compile(r"^[│├└─ ]+(\w+Error) .*?-> (.+)$", re.MULTILINE)
_BRANCH = re.compile(r"^[│├└─ ]+(\w+Error) ", re.MULTILINE)


def outcomes_page() -> str:
    """The page of outcomes and verdicts."""
    outcomes, verdicts = read_sections("outcome_texts.md"), read_sections("verdict_texts.md")
    return fill(
        "outcomes.md",
        outcomes=table(
            ("outcome", "mark beside a figure", "when", "the run's exit status"),
            ((code(name), *outcomes[name].splitlines()) for name in get_args(Outcome) if name),
        ),
        verdicts=table(
            ("verdict", "what it says", "its test"),
            ((code(kind.value), *verdicts[kind.value].splitlines()) for kind in KINDS),
        ),
        assertions=table(
            ("outcome", "what it says", "its test"),
            ((code(one.value), *verdicts[f"assertion {one.value}"].splitlines()) for one in ratios.Outcome),
        ),
        errors=table(("error", "what it says", "what becomes of it"), _errors()),
    )


def _errors() -> list[tuple[str, str, str]]:
    """Each error with its outcome, which one that has none of its own takes from the one above it in the tree."""
    said = errors.__doc__ or ""
    ends, rows = dict(_LEAF.findall(said)), []
    for name in _BRANCH.findall(said):
        kind = getattr(errors, name)
        above = [one.__name__ for one in kind.__mro__ if one.__name__ in ends]
        if above:
            rows.append((code(name), first_paragraph(kind), ends[above[0]]))
    return rows


def exit_status_page() -> str:
    """The page of exit statuses."""
    told = read_sections("exit_texts.md")
    bisect = (("0", gate.GOOD), ("1", gate.BAD), ("125", gate.SKIP), ("130", gate.ABORT))
    return fill(
        "exit-status.md",
        pytest=table(
            ("status", "in pytest's words", "when"),
            ((code(one), pytest.ExitCode(int(one)).name, told[one]) for one in PYTEST_STATUSES),
        ),
        bisect=table(("status", "when"), ((code(status), told[f"bisect {name}"]) for name, status in bisect)),
        command=table(("status", "when"), ((code(name), told[f"vmstorage {name}"]) for name in STATUSES)),
    )


PYTEST_STATUSES = ("0", "1", "2", "3", "4", "5")
"""Those that a run here can end with; some versions of pytest have more."""

STATUSES = ("0", "1", "2", "130", "141")
"""What `vmstorage` ends with, `run` and `exec` apart."""
