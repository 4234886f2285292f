"""Reports as files: the format follows from the suffix, and a path is checked before any test."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.config.cell import FIELDS
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.leftovers import write_whole
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.pull_request import render_summary
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.packed import json_lines, pack_evidence
from pytest_vmstorage.results.run import Failure, Measurement, Run
from pytest_vmstorage.results.saved import keyed, name_of, saved_files, saved_runs

if TYPE_CHECKING:
    from pytest_vmstorage.analysis.history.history import BaselineHistory

_SHOWN = 80


def check_report_path(path: Path) -> None:
    """Raises ConfigError, one sentence, for a path with an unknown suffix or in a place not writable."""
    if path.suffix not in RENDERERS:
        raise ConfigError(
            f"the report format of {path.suffix or path.name!r} is not known.",
            hint=f"The file's name ends with one of: {', '.join(RENDERERS)}.",
            code="VM213",
        )
    check_writable(path, "the report")


def check_writable(path: Path, what: str) -> None:
    """Raises ConfigError, one sentence that begins with `what`, for a file that cannot be written there."""
    try:
        if path.is_dir():
            raise ConfigError(f"{what} {path} is a folder.", hint="Name a file in it.", code="VM214")
        # lstat raises for a name that is too long or has a NUL
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()
        place = path if path.exists() else path.absolute().parent
        while not place.exists():
            place = place.parent
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it has a NUL byte"
        hint = "Name another file."
        raise ConfigError(
            f"{what} {str(path)[:_SHOWN]} cannot be written: {reason}.", hint=hint, code="VM214"
        ) from None
    if not os.access(place, os.W_OK) or not (place == path or place.is_dir()):
        raise ConfigError(
            f"{what} {path} cannot be written: {place} is not writable or no folder.",
            hint="Name another file.",
            code="VM214",
        )


def saved_history(name: str, folder: Path, policy: GatePolicy) -> BaselineHistory | None:
    """The history of a baseline by its name, for a page; None where it has fewer than two saved days.

    Raises ConfigError for a saved run that cannot be read.
    """
    # most reports are no page
    from pytest_vmstorage.analysis.history.history import HistoryScope, tell_history

    if not any(name_of(path) == name for path in saved_files(folder)):
        return None
    found = tell_history(saved_runs(name, folder), HistoryScope(name), policy)
    return found if found.days > 1 else None


def write_report(
    path: Path,
    run: Run,
    comparison: Comparison | None = None,
    *,
    si: bool = False,
    beside: Sequence[Path] = (),
    history: BaselineHistory | None = None,
) -> None:
    """Write the run in the format of the suffix, making its folder; raises ConfigError as `check_report_path` does.

    With `si` data rates for people are in MB/s; CSV and JSON always have base units. `beside` are the run's other
    report files: Markdown shows the first picture among them. A page has a part for `history`. The file is replaced as
    a whole: a reader finds the old report or the new one.
    """
    check_report_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = [other for other in beside if other.suffix == ".svg"]
    if path.suffix == ".md" and pictures:
        link = os.path.relpath(pictures[0].absolute(), path.absolute().parent)
        text = render_markdown(build_table(run, comparison, si=si), Path(link).as_posix())
    elif path.suffix == ".html":
        text = _html(run, comparison, si, history)
    else:
        text = RENDERERS[path.suffix](run, comparison, si)
    write_whole(path, text)


def append_summary(path: Path, run: Run, comparison: Comparison | None = None, *, si: bool = False) -> None:
    """Append the summary for reviewers, as Markdown, to the file that GITHUB_STEP_SUMMARY names."""
    with path.open("a", encoding="utf-8") as file:
        file.write(render_summary(run, comparison, si=si))


def render_json(run: Run, comparison: Comparison | None = None) -> str:
    """The run as versioned JSON, a row a line, readable by `Run.model_validate` and as a baseline.

    Raw outputs, proofs and timelines are packed (see `results.packed`). In addition, a measurement that was compared
    has the `verdict` on its primary metric and its sentence. For fields of its cell that it does not have, `config` has
    null, and `cell` the values of its test.
    """
    document = run.model_dump(mode="json")
    for name in ("measurements", "failures", "against"):
        rows: Sequence[Measurement | Failure] = getattr(run, name)
        for one, said in zip(rows, document[name], strict=True):
            nothing = {field: None for field in FIELDS if one.lacks(field)}
            said.update({"cell": said["config"], "config": said["config"] | nothing} if nothing else {})
    for (key, m), said in zip(keyed(run.measurements), document["measurements"], strict=True):
        verdict = comparison.of(key, m.host, m.primary) if comparison else None
        if verdict is not None:
            said.update(verdict=verdict.kind.value, verdict_reason=verdict.reason, change=verdict.change)
            said.update({"waiver": str(verdict.waiver)} if verdict.waiver else {})
    return json_lines(pack_evidence(document))


def _html(run: Run, comparison: Comparison | None, si: bool, history: BaselineHistory | None = None) -> str:
    # its modules are many, and most runs make no page
    from pytest_vmstorage.report.html.history import history_part
    from pytest_vmstorage.report.html.page import render_html

    more = [] if history is None else [history_part(history, len(run.measurements))]
    with _uncollected():
        return render_html(run, comparison, si, more=more)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """A context without garbage collection: a page has no cycles, and all of a large run is looked through for them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _svg(run: Run, comparison: Comparison | None, si: bool) -> str:
    # most runs draw no picture
    from pytest_vmstorage.report.matrix_picture import render_matrix_picture

    return render_matrix_picture(run, comparison, si=si)


RENDERERS: Mapping[str, Callable[[Run, Comparison | None, bool], str]] = {
    ".md": lambda run, comparison, si: render_markdown(build_table(run, comparison, si=si)),
    ".svg": _svg,
    ".csv": lambda run, comparison, _si: render_csv(run, comparison),
    ".json": lambda run, comparison, _si: render_json(run, comparison),
    ".html": _html,
}
"""The renderer of each format by its suffix; the last argument says whether data rates are in MB/s."""
