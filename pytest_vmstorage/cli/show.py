"""The proof of a cell in a saved run, as lines of text: each field as asked and as found, and where it was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
        raise ConfigError(f"{path} does not say where the time went.", hint="It was saved by an earlier version.")
    return str(path), timelines


def raw_outputs(run: Run, cell: str, source: str) -> Sequence[str]:
    """What the tools printed in each round of that cell, in the order measured; raises ConfigError where it is none."""
    outputs = [output for m in run.measurements if _is_named(m, cell) for output in m.raw]
    if outputs:
        return outputs
    if any(_is_named(f, cell) for f in run.failures):
        raise ConfigError(f"{source} has no round of {cell!r}: it failed.", hint="Leave --raw out to see why.")
    raise _no_such(run, cell, source)


def _no_such(run: Run, cell: str, source: str) -> ConfigError:
    there = dict.fromkeys([str(m.config) for m in run.measurements] + [str(f.config) for f in run.failures])
    return ConfigError(f"{source} has no cell {cell!r}.", hint=f"It has: {', '.join(there) or 'none'}.")


def show_cell(run: Run, cell: str, source: str) -> Sequence[str]:
    """The lines to print for every measurement and failure of that cell; raises ConfigError where there is none."""
    measured = {(m.config.label, m.host, m.proof): m for m in run.measurements if _is_named(m, cell)}
    failed = {(f.config.label, f.host, f.reason): f for f in run.failures if _is_named(f, cell)}
    if not measured and not failed:
        raise _no_such(run, cell, source)
    lines = [f"{source}, run of {run.started}"]
    for m in measured.values():
        lines += ["", f"{m.config.label} on {m.host}, measured", *_proof_lines(m.proof)]
    named = [m for m in run.measurements if _is_named(m, cell)]
    lines += _layer_lines(named)
    for m in named:
        details = [f"  {line}" for line in detail_lines(m)]
        lines += ["", f"{m.config.label} on {m.host}, {m.workload}, beside the figure", *details] if details else []
    for f in failed.values():
        lines += ["", f"{f.config.label} on {f.host}, {f.outcome}", f"  {f.reason}"]
    return lines


def _is_named(one: Measurement | Failure, cell: str) -> bool:
    return cell in (str(one.config), one.config.label, one.nodeid)


def _proof_lines(proofs: Sequence[Proof]) -> Iterable[str]:
    if not proofs:
        return ["  no proof was stored with it"]
    rows = [_HEADER, *((p.field, p.asked, p.found, p.status, p.where or "-") for p in proofs)]
    return _aligned(rows, ["", *(p.why for p in proofs)])


LAYERS = (
    ("guest's disk", "guest_read_bytes", "guest_written_bytes"),
    ("QEMU's block layer", "layer_read_bytes", "layer_written_bytes"),
    ("QEMU on the host", "host_read_bytes", "host_written_bytes"),
    ("host's device, by whomever", "device_read_bytes", "device_written_bytes"),
)
"""The layers that a byte passes, and IoCounters' names of what they moved."""


def _layer_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """The bytes that each layer moved in the rounds of each workload."""
    for m in measured:
        moved = m.moved
        pairs = [(name, getattr(moved, read), getattr(moved, written)) for name, read, written in LAYERS]
        known = [(name, *map(format_about, pair)) for name, *pair in pairs if None not in pair]
        if not known:
            continue
        yield ""
        yield f"{m.config.label} on {m.host}, {m.workload}, moved in {len(m.samples)} round(s)"
        rows = [("layer", "read", "written"), *known]
        yield from _aligned(rows, [""] * len(rows))
        flushes = [("the guest asked for", moved.layer_flushes), ("the host's device completed", moved.host_flushes)]
        told = [f"{who} {number}" for who, number in flushes if number is not None]
        if told:
            yield f"  flushes: {', '.join(told)}"


def _aligned(rows: Sequence[Sequence[str]], reasons: Sequence[str]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, why in zip(rows, reasons, strict=True):
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        if why:
            yield f"      {why}"
