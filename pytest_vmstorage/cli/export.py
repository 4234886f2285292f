"""Saved runs written for another program: read, laid out in its format, and put where the user wants them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pytest_vmstorage.cli.show import newest_run
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.leftovers import write_whole
from pytest_vmstorage.report.exports.rows import ExportRow, gather
from pytest_vmstorage.report.exports.targets import TARGETS, ExportFormat
from pytest_vmstorage.report.formats import check_writable
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.results.run import Better, Run
from pytest_vmstorage.results.saved import load_baseline

_MOST_NAMED = 10
"""So many of what is left out are named, and the others counted."""


class Exported(NamedTuple):
    """The text for standard output, "" where files were written, and the sentences for the user."""

    text: str
    says: Sequence[str]


def export(
    names: Sequence[str], target: str, saved: Path, *, output: str | None, metrics: str, better: Better | None
) -> Exported:
    """Lay out these saved runs, by default the newest, for that program; a file or folder is written where named.

    A name stands for all days that were saved under it, a number or a file for one run. `metrics` are names and
    patterns with commas between them, "" for those of the matrix. Raises ConfigError, one sentence.
    """
    form = TARGETS[target]
    if form.render_folder is not None and output is None:
        raise ConfigError(
            f"{target} reads a file for each series.", hint="Name a folder for them with -o FOLDER.", code="VM338"
        )
    runs, says = list(_runs(names, saved)), []
    if not form.has_history and len(runs) > 1:
        runs = [max(runs, key=lambda run: run.started)]
        says.append(f"{target} takes one run at a time: written is the newest, of {runs[0].started}")
    rows, left_out = gather(runs, metrics.replace(",", " ").split(), better)
    says += _left_out(left_out)
    if not rows:
        because = f": {left_out[0]}" if left_out else ""
        raise ConfigError(
            f"there is no figure to export{because}.", hint="Name other runs, metrics or directions.", code="VM339"
        )
    says += [EMULATED] if any(row.is_emulated for row in rows) else []
    if output is None:
        return Exported("".join(text for _, text in _files(form, rows, "")), says)
    for path, text in _files(form, rows, output):
        _write(path, text)
    return Exported("", [*says, f"wrote {output}: {_count(rows)}"])


def _files(form: ExportFormat, rows: Sequence[ExportRow], output: str) -> Iterator[tuple[Path, str]]:
    if form.render is not None:
        yield Path(output), form.render(rows)
    if form.render_folder is not None:
        yield from ((Path(output) / name, text) for name, text in form.render_folder(rows, output).items())


def _runs(names: Sequence[str], saved: Path) -> Iterator[Run]:
    if not names:
        yield newest_run(saved).run
    for name in names:
        found = load_baseline(name, saved)
        yield from (*found.earlier, found.run)


def _left_out(sentences: Sequence[str]) -> Iterator[str]:
    for sentence in sentences[:_MOST_NAMED]:
        yield f"left out: {sentence}"
    if len(sentences) > _MOST_NAMED:
        yield f"left out: {len(sentences) - _MOST_NAMED} more"


def _write(path: Path, text: str) -> None:
    check_writable(path, "the export")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    except OSError as error:
        raise ConfigError(
            f"the export {path} cannot be written: {error.strerror}.", hint="Name another file.", code="VM214"
        ) from None


def _count(rows: Sequence[ExportRow]) -> str:
    figures = sum(len(row.values) for row in rows)
    runs = len({row.facts.get("run") for row in rows})
    return f"{figures} figures in {len(rows)} rows of {runs} run{'s' if runs > 1 else ''}"
