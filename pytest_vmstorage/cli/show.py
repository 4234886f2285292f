"""A cell of a saved run, as lines of text: its figures, what proves it, and what each layer moved."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_vmstorage.config.user_input import read_user_text
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.details import detail_lines
from pytest_vmstorage.results.journal import read_timelines
from pytest_vmstorage.results.run import Failure, Measurement, Proof, Run
from pytest_vmstorage.results.saved import Baseline, load_baseline
from pytest_vmstorage.results.timeline import Timeline
from pytest_vmstorage.units import format_about

_HEADER = ("field", "asked", "found", "status", "where read")


def newest_run(folder: Path) -> Baseline:
    """The run saved last below pytest-benchmark's folder that holds figures of ours; raises ConfigError."""
    saved = []
    for path in sorted(folder.rglob("*.json")):
        try:
            saved.append(load_baseline(str(path), folder))
        except ConfigError:
            # a file saved without this plugin, or by a newer version
            continue
    if not saved:
        raise ConfigError(
            f"no saved run of pytest-vmstorage lies below {folder}.",
            hint="Save one with `pytest --benchmark-save=NAME`, or name a file that --vm-report=FILE.json wrote.",
            code="VM247",
        )
    return max(saved, key=lambda one: one.run.started)


def timed_run(name: str | None, saved: Path, journals: Path) -> tuple[str, Sequence[Timeline]]:
    """A run's file and timelines: of that saved run or journal, or of the newest of both.

    Raises ConfigError where there is none, or where a version wrote it that timed nothing.
    """
    path = Path(name) if name is not None and name.endswith(".jsonl") else None
    if name is None:
        newest = max(journals.glob("*.jsonl"), key=lambda one: one.stat().st_mtime, default=None)
        try:
            run = newest_run(saved)
        except ConfigError:
            run = None
        if newest is None and run is None:
            raise ConfigError(
                f"no run lies below {saved} or {journals}.",
                hint="Run this in the folder that pytest was run in, or name a saved run or a journal.",
                code="VM247",
            )
        if run is None or (newest is not None and newest.stat().st_mtime > run.path.stat().st_mtime):
            path = newest
        else:
            name = str(run.path)
    timelines: Sequence[Timeline]
    if path is not None:
        timelines = read_timelines(read_user_text(path, f"the journal {path}").splitlines())
    else:
        found = load_baseline(str(name), saved)
        path, timelines = found.path, found.run.timelines
    if not timelines:
        raise ConfigError(
            f"{path} does not say where the time went.", hint="It was saved by an earlier version.", code="VM249"
        )
    return str(path), timelines


def raw_outputs(run: Run, cell: str, source: str) -> Sequence[str]:
    """What the tools printed in each round of that cell, in the order measured; raises ConfigError where it is none."""
    outputs = [output for m in run.measurements if _is_named(m, cell) for output in m.raw]
    if outputs:
        return outputs
    if any(_is_named(f, cell) for f in run.failures):
        raise ConfigError(
            f"{source} has no round of {cell!r}: it failed.", hint="Leave --raw out to see why.", code="VM248"
        )
    raise _no_such(run, cell, source)


def _no_such(run: Run, cell: str, source: str) -> ConfigError:
    there = dict.fromkeys([str(m.config) for m in run.measurements] + [str(f.config) for f in run.failures])
    return ConfigError(f"{source} has no cell {cell!r}.", hint=f"It has: {', '.join(there) or 'none'}.", code="VM248")


WIDEST = 10_000
"""A width in which no row is wrapped, for grep and the like."""


def show_cell(run: Run, cell: str, source: str, width: int = WIDEST) -> Sequence[str]:
    """The lines to print for every measurement and failure of that cell, figures first; `width` is the terminal's.

    Raises ConfigError where there is no such cell.
    """
    named = [m for m in run.measurements if _is_named(m, cell)]
    failed = {(f.config.label, f.host, f.reason): f for f in run.failures if _is_named(f, cell)}
    if not named and not failed:
        raise _no_such(run, cell, source)
    lines = [f"{source}, run of {run.started}"]
    for m in named:
        lines += ["", f"{m.config.label} on {m.host}, {m.workload}", *_figure_lines(m, width)]
    for f in failed.values():
        lines += ["", f"{f.config.label} on {f.host}, {f.outcome}", *_wrapped(f.reason, width)]
    for m in {(m.config.label, m.host, m.proof): m for m in named}.values():
        lines += ["", f"{m.config.label} on {m.host}, measured", *_proof_lines(m.proof, width)]
    for m in named:
        lines += _layer_lines(m, width)
    for m in named:
        details = [part for line in detail_lines(m) for part in _wrapped(line, width)]
        lines += ["", f"{m.config.label} on {m.host}, {m.workload}, beside the figure", *details] if details else []
    return lines


def _is_named(one: Measurement | Failure, cell: str) -> bool:
    return cell in (str(one.config), one.config.label, one.nodeid)


def _figure_lines(m: Measurement, width: int) -> Iterator[str]:
    """A row for each metric, those that the matrix shows first."""
    if not m.samples:
        yield "  no rounds"
        return
    names = dict.fromkeys([m.primary, *m.shown, *(metric.name for metric in m.metrics)])
    rows = [("metric", "median", "spread")]
    rows += [(name, str(figure), figure.spread) for name in names for figure in [m.figure(name)]]
    yield from _aligned(rows, width)


def _proof_lines(proofs: Sequence[Proof], width: int) -> Iterator[str]:
    if not proofs:
        yield "  no proof was stored with it"
        return
    rows = [_HEADER, *((p.field, p.asked, p.found, p.status, p.where or "-") for p in proofs)]
    yield from _aligned(rows, width, ["", *(p.why for p in proofs)])


LAYERS = (
    ("guest's disk", "guest_read_bytes", "guest_written_bytes"),
    ("QEMU's block layer", "layer_read_bytes", "layer_written_bytes"),
    ("QEMU on the host", "host_read_bytes", "host_written_bytes"),
    ("host's device, by whomever", "device_read_bytes", "device_written_bytes"),
)
"""The layers that a byte passes, and IoCounters' names of what they moved."""


def _layer_lines(m: Measurement, width: int) -> Iterator[str]:
    """The bytes that each layer moved in the rounds of a workload."""
    moved = m.moved
    pairs = [(name, getattr(moved, read), getattr(moved, written)) for name, read, written in LAYERS]
    known = [(name, *map(format_about, pair)) for name, *pair in pairs if None not in pair]
    if not known:
        return
    yield ""
    yield f"{m.config.label} on {m.host}, {m.workload}, moved in {len(m.samples)} round(s)"
    yield from _aligned([("layer", "read", "written"), *known], width)
    flushes = [("the guest asked for", moved.layer_flushes), ("the host's device completed", moved.host_flushes)]
    told = [f"{who} {number}" for who, number in flushes if number is not None]
    if told:
        yield f"  flushes: {', '.join(told)}"


_INDENT = "  "
_GAP = "  "
_NARROWEST = 8
"""Below this a column is no longer read; the lines then are wider than the terminal."""


def _wrapped(text: str, width: int) -> Sequence[str]:
    return textwrap.wrap(
        text, width, initial_indent=_INDENT, subsequent_indent=_INDENT * 2, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def _aligned(rows: Sequence[Sequence[str]], width: int, reasons: Sequence[str] = ()) -> Iterator[str]:
    """The rows in columns that fit into the width, words below each other where they do not; a reason below its row."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = width - len(_INDENT) - len(_GAP) * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    for number, row in enumerate(rows):
        cells = [textwrap.wrap(text, size) or [""] for text, size in zip(row, widths, strict=True)]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            padded = (part.ljust(size) for part, size in zip(parts, widths, strict=True))
            yield (_INDENT + _GAP.join(padded)).rstrip()
        if reasons and reasons[number]:
            yield from textwrap.wrap(reasons[number], width, initial_indent=" " * 6, subsequent_indent=" " * 6)
