"""The proof of a cell out of a saved run, as lines of text: what was asked, found, and where it was read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_vmstorage.baseline import Baseline, load_baseline
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.circumstances import detail_lines
from pytest_vmstorage.results import Failure, Measurement, Proof, Run
from pytest_vmstorage.units import format_about

_HEADER = ("field", "asked", "found", "status", "where read")


def newest_run(folder: Path) -> Baseline:
    """The run saved last below pytest-benchmark's folder that holds figures of ours; raises ConfigError."""
    saved = []
    for path in sorted(folder.rglob("*.json")):
        try:
            saved.append(load_baseline(str(path), folder))
        except ConfigError:
            # saved without this plugin, or by a newer one
            continue
    if not saved:
        raise ConfigError(
            f"no saved run of pytest-vmstorage lies below {folder}.",
            hint="Save one with `pytest --benchmark-save=NAME`, or name a file that --vm-report=FILE.json wrote.",
        )
    return max(saved, key=lambda one: one.run.started)


def show_cell(run: Run, cell: str, source: str) -> Sequence[str]:
    """The lines to print for every measurement and failure of that cell; raises ConfigError where there is none."""
    measured = {(m.config.label, m.host, m.proof): m for m in run.measurements if _is_named(m, cell)}
    failed = {(f.config.label, f.host, f.reason): f for f in run.failures if _is_named(f, cell)}
    if not measured and not failed:
        there = dict.fromkeys([str(m.config) for m in run.measurements] + [str(f.config) for f in run.failures])
        raise ConfigError(f"{source} has no cell {cell!r}.", hint=f"It has: {', '.join(there) or 'none'}.")
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
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADER))]
    return _aligned(rows, widths, ["", *(p.why for p in proofs)])


LAYERS = (
    ("guest's disk", "guest_read_bytes", "guest_written_bytes"),
    ("QEMU's block layer", "layer_read_bytes", "layer_written_bytes"),
    ("QEMU on the host", "host_read_bytes", "host_written_bytes"),
    ("host's device, by whomever", "device_read_bytes", "device_written_bytes"),
)
"""The layers that a byte passes, and IoCounters' names of what they moved."""


def _layer_lines(measured: Sequence[Measurement]) -> Iterator[str]:
    """What each layer moved in the rounds of each workload, side by side."""
    for m in measured:
        moved = m.moved
        pairs = [(name, getattr(moved, read), getattr(moved, written)) for name, read, written in LAYERS]
        known = [(name, read, written) for name, read, written in pairs if read is not None and written is not None]
        if not known:
            continue
        yield ""
        yield f"{m.config.label} on {m.host}, {m.workload}, moved in {len(m.samples)} round(s)"
        rows = [("layer", "read", "written")]
        rows += [(name, format_about(read), format_about(written)) for name, read, written in known]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        yield from _aligned(rows, widths, [""] * len(rows))
        flushes = [("the guest asked for", moved.layer_flushes), ("the host's device completed", moved.host_flushes)]
        told = [f"{who} {number}" for who, number in flushes if number is not None]
        if told:
            yield f"  flushes: {', '.join(told)}"


def _aligned(rows: Sequence[Sequence[str]], widths: Sequence[int], reasons: Sequence[str]) -> Iterator[str]:
    for row, why in zip(rows, reasons, strict=True):
        yield "  " + "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        if why:
            yield f"      {why}"
