"""`vmstorage history`: the options as a request, and the history of a baseline as text for it."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

from pytest_vmstorage.analysis.gate.policy import GATE_FILE, GatePolicy
from pytest_vmstorage.analysis.gate.policy_file import load_gate_file
from pytest_vmstorage.analysis.history.history import BaselineHistory, HistoryScope, tell_history
from pytest_vmstorage.config.user_input import close_to, read_user_text
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.formats import check_writable
from pytest_vmstorage.report.history import HISTORY_RENDERERS, HISTORY_SUFFIXES, history_lines
from pytest_vmstorage.results.saved import saved_runs
from pytest_vmstorage.text import quoted


class HistoryRequest(NamedTuple):
    """What is asked of a history, in which form, and the file that it goes to, None for the terminal."""

    asked: HistoryScope
    form: str
    path: Path | None
    gate: Path | None
    storage: Path

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Self:
        """The request of a command line; raises ConfigError, one sentence, for a value that cannot be."""
        path = Path(arguments.output) if arguments.output else None
        form = _form(arguments.format, path)
        if path is not None:
            check_writable(path, "the history")
        asked = HistoryScope(arguments.name, arguments.cell, _date(arguments.since), arguments.metric)
        return cls(asked, form, path, Path(arguments.gate) if arguments.gate else None, Path(arguments.storage))


_FORMS = (*HISTORY_RENDERERS, "html")


def _form(given: str | None, path: Path | None) -> str:
    if given is not None and given not in _FORMS:
        raise ConfigError(
            f"--format={quoted(given)} is not known.",
            hint=f"{close_to(given, _FORMS)}It is one of: {', '.join(_FORMS)}.",
            code="VM332",
        )
    if given is None and path is not None and path.suffix not in HISTORY_SUFFIXES:
        raise ConfigError(
            f"a history in the form of {quoted(path.suffix or path.name)} is not known.",
            hint=f"The file's name ends with one of: {', '.join(HISTORY_SUFFIXES)}; or say --format.",
            code="VM332",
        )
    return given or (HISTORY_SUFFIXES[path.suffix] if path is not None else "text")


def _date(given: str | None) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(given) if given else None
    except ValueError:
        raise ConfigError(
            f"--since={quoted(given)} is no date.", hint="Write for example --since=2026-11-01.", code="VM333"
        ) from None


def read_history(request: HistoryRequest) -> BaselineHistory:
    """The history that is asked for; raises ConfigError where there is no such baseline, or no such day in it."""
    policy = gate_policy(request.gate)
    found = tell_history(saved_runs(request.asked.name, request.storage), request.asked, policy)
    if found.lines:
        return found
    asked = request.asked
    parts = {"--cell": asked.cell, "--since": asked.since, "--metric": asked.metric}
    given = " ".join(f"{name}={value}" for name, value in parts.items() if value)
    raise ConfigError(
        f"no saved day of {asked.name!r} has a figure{f' for {given}' if given else ''}.",
        hint=_hint(request),
        code="VM334",
    )


def _hint(request: HistoryRequest) -> str:
    """What there is in place of what was asked for."""
    everything = tell_history(
        saved_runs(request.asked.name, request.storage), HistoryScope(request.asked.name), GatePolicy()
    )
    cells = _listed(str(line.config) for line in everything.lines)
    metrics = _listed(line.metric.name for line in everything.lines)
    return f"It has the cells {cells} from {everything.first} to {everything.last}, and the primary metrics {metrics}."


_LISTED = 8


def _listed(names: Iterable[str]) -> str:
    found = list(dict.fromkeys(names))
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"{', '.join(found[:_LISTED]) or 'none'}{more}"


def gate_policy(given: Path | None = None) -> GatePolicy:
    """The policy of a gate file, of the folder's own without a name; raises ConfigError for one that cannot be read."""
    policy = GatePolicy(today=datetime.datetime.now(datetime.UTC).date())
    path = given or Path(GATE_FILE)
    if given is None and not path.is_file():
        return policy
    return load_gate_file(read_user_text(path, f"the gate file {path}", hint="Name a TOML file."), str(path), policy)


def render_history(history: BaselineHistory, request: HistoryRequest, width: int) -> str:
    """The text of that form; that for a terminal fits its width, and has each cell's days where cells are named."""
    if request.form == "html":
        # a terminal needs no page
        from pytest_vmstorage.report.html.history import render_html_history

        return render_html_history(history)
    if request.form != "text":
        return HISTORY_RENDERERS[request.form](history)
    return "\n".join(history_lines(history, width, every_line=bool(request.asked.cell))) + "\n"


def has_failed(history: BaselineHistory) -> bool:
    """Whether a cell became slower and nobody answers for it, or an acceptance lapsed."""
    return bool(history.lapsed) or any(one.is_open and one.way == "slower" for one in history.findings)
