"""Reports as files: the form follows from the suffix, and a path is checked before any test."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.config.cell import FIELDS
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.leftovers import write_whole
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.pull_request import render_summary
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.report.trace_events import trace_events
from pytest_vmstorage.results.run import Failure, Measurement, Run
from pytest_vmstorage.results.saved import keyed
from pytest_vmstorage.results.timeline import Timeline

_SHOWN = 80
SUFFIXES = (".md", ".csv", ".json")


def check_report_path(path: Path) -> None:
    """Raises ConfigError, one sentence, for a path with an unknown suffix or in a place not writable."""
    if path.suffix not in SUFFIXES:
        raise ConfigError(
            f"a report of the form {path.suffix or path.name!r} is not known.",
            hint=f"The file's name ends with one of: {', '.join(SUFFIXES)}.",
        )
    check_writable(path, "the report")


def check_writable(path: Path, what: str) -> None:
    """Raises ConfigError, one sentence that begins with `what`, for a file that cannot be written there."""
    try:
        if path.is_dir():
            raise ConfigError(f"{what} {path} is a folder.", hint="Name a file in it.")
        # what a name too long or one with NUL is told by
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.lstat()
        place = path if path.exists() else path.absolute().parent
        while not place.exists():
            place = place.parent
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it has a NUL byte"
        hint = "Name another file."
        raise ConfigError(f"{what} {str(path)[:_SHOWN]} cannot be written: {reason}.", hint=hint) from None
    if not os.access(place, os.W_OK) or not (place == path or place.is_dir()):
        raise ConfigError(f"{what} {path} cannot be written: {place} is not writable or no folder.")


def write_report(path: Path, run: Run, comparison: Comparison | None = None, *, si: bool = False) -> None:
    """Write the run as .md, .csv or .json, making its folder; raises ConfigError as `check_report_path` does.

    With `si` data rates in Markdown are in MB/s; CSV and JSON have base units whatever is asked for.
    The file is replaced as a whole: a reader finds the old report or the new one.
    """
    check_report_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _render(path.suffix, run, comparison, si=si))


def write_timeline(path: Path, timelines: Sequence[Timeline]) -> None:
    """Write where the time went in the Trace Event format, making the file's folder; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(trace_events(timelines)) + "\n")


def append_summary(path: Path, run: Run, comparison: Comparison | None = None, *, si: bool = False) -> None:
    """Append what a reviewer wants to know, as Markdown, to the file that GITHUB_STEP_SUMMARY names."""
    with path.open("a", encoding="utf-8") as file:
        file.write(render_summary(run, comparison, si=si))


def render_json(run: Run, comparison: Comparison | None = None) -> str:
    """The run as versioned JSON, readable by `Run.model_validate` and as a baseline.

    Beside that each measurement has the `verdict` on its primary metric and its sentence, where it was compared. Of a
    field of its cell that had no part in it `config` has null, and `cell` what its test asked for.
    """
    document = run.model_dump(mode="json")
    parts: dict[str, Sequence[Measurement | Failure]] = {
        "measurements": run.measurements,
        "failures": run.failures,
        "against": run.against,
    }
    for name, rows in parts.items():
        for one, said in zip(rows, document[name], strict=True):
            nothing = {field: None for field in FIELDS if one.lacks(field)}
            said.update({"cell": said["config"], "config": said["config"] | nothing} if nothing else {})
    for (key, m), said in zip(keyed(run.measurements), document["measurements"], strict=True):
        verdict = comparison.of(key, m.host, m.primary) if comparison else None
        if verdict is not None:
            said.update(verdict=verdict.kind.value, verdict_reason=verdict.reason, change=verdict.change)
            said.update({"waiver": str(verdict.waiver)} if verdict.waiver else {})
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _render(suffix: str, run: Run, comparison: Comparison | None, *, si: bool) -> str:
    if suffix == ".json":
        return render_json(run, comparison)
    if suffix == ".csv":
        return render_csv(run, comparison)
    return render_markdown(build_table(run, comparison, si=si))
