"""The run in long form: a row for each metric of each workload in each cell, to load into a data frame."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from pytest_vmstorage.analysis.gate.verdicts import Comparison
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.config.cell import AXES
from pytest_vmstorage.report.details import share_of
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.run import Failure, Measurement, Run
from pytest_vmstorage.results.saved import CellKey, host_of, keyed
from pytest_vmstorage.text import plain_cell

_Record = Mapping[str, object]

_APART = ("name", "accel", "accel_reason", "folder", "device", "calibrated", "stated", "is_machine")
"""Fields of a host that have a column of their own, or are no fact to compare rows by."""

_HOST = tuple(name for name in HostFacts.model_fields if name not in _APART)

HEADER = (
    *("nodeid", "host", "accel", *AXES, "size_bytes"),
    *("workload", "curve", "tool", "metric", "unit", "better", "primary"),
    *("median", "min", "max", "rounds", "baseline", "change", "verdict"),
    *("native", "of_native", "null", "of_null", "outcome", "message", "failure", "code"),
    *("command", "guest_kernel", "emulator_version", "tool_version"),
    *(*(f"host_{name}" for name in _HOST), "stated", "notes", "started"),
)
"""The columns, always all of them; after them `round_1` and so on, the figure of each round, and `at_iodepth` and such.

`native` and `null` are the medians of the row's native and null rows, `of_native` and `of_null` its fractions of them.
`stated` is the label of a foreign machine ("format=vmfs bus=pvscsi"), which nothing proves.
`notes` come from the test's marks, with "; " between them.
`emulator_version` is that of the QEMU that the cell names; other rows run under the host's own, `host_qemu`.
`outcome` is the test's, in pytest's words, and `message` the first line of its reason.
`code` is that of the refusal in it, which `vmstorage explain` knows.
`command` is on one line: the line ends of a script are written as \\n; the JSON report has the command as it was run.
Measurements of one `curve` in one cell are its points; `at_iodepth` is the position of each.
"""


def render_csv(run: Run, comparison: Comparison | None = None) -> str:
    """CSV with a header; figures unrounded in the metric's base unit, empty where there is none.

    A failed cell is a row with `failure` and no metric; a metric that was left out is one with `failure` and no figure.
    A test that has neither is a row with `nodeid`, `outcome`, `message` and `started`.
    """
    rounds = max((len(m.samples) for m in run.measurements), default=0)
    out = io.StringIO()
    swept = dict.fromkeys(f"at_{name}" for m in run.measurements for name in m.point)
    fields = [*HEADER, *(f"round_{number}" for number in range(1, rounds + 1)), *swept]
    writer = csv.DictWriter(out, fields, restval="", lineterminator="\n")
    writer.writeheader()
    rows = Yardsticks(run.measurements)
    for key, measurement in keyed(run.measurements):
        writer.writerows(map(_plain, _measured(run, key, measurement, comparison, rows)))
    for f in run.failures:
        reason = f.reason if f.outcome == "failed" else f"{f.outcome}: {f.reason}"
        first = f.reason.partition("\n")[0]
        told = {"outcome": f.test_outcome or f.outcome, "message": first, "failure": reason, "code": f.code}
        writer.writerow(_plain({**_cell(run, f), **told}))
    for test in run.rowless:
        writer.writerow(_plain({**test.model_dump(), "started": run.started}))
    return out.getvalue()


def _plain(record: _Record) -> _Record:
    """The record with foreign texts made harmless to a spreadsheet; figures are numbers."""
    return {name: plain_cell(value) if isinstance(value, str) else value for name, value in record.items()}


def _measured(
    run: Run, key: CellKey, m: Measurement, comparison: Comparison | None, rows: Yardsticks
) -> Iterable[_Record]:
    common = {
        **_cell(run, m),
        "workload": m.workload,
        "curve": m.shape if m.point else "",
        **{f"at_{name}": f"{value:g}" for name, value in m.point.items()},
        "tool": m.tool,
        # the line ends of a script must not end the row
        "command": m.command.replace("\n", r"\n"),
        "guest_kernel": m.guest.get("kernel", ""),
        "emulator_version": m.guest.get("qemu", ""),
        "tool_version": m.guest.get(m.tool, ""),
        "outcome": m.outcome,
        "message": m.message,
        "code": m.code,
        "notes": "; ".join(m.notes),
    }
    for metric in m.metrics:
        values = m.values(metric.name)
        verdict = comparison.of(key, m.host, metric.name) if comparison else None
        yield {
            **common,
            "metric": metric.name,
            "unit": metric.unit,
            "better": metric.better,
            "primary": metric.name == m.primary,
            "median": float(m.figure(metric.name)),
            "min": min(values),
            "max": max(values),
            "rounds": len(values),
            "baseline": verdict.then if verdict else None,
            "change": verdict.change if verdict else None,
            "verdict": verdict.kind.value if verdict else None,
            **_beside(m, metric.name, "native", rows.native_of(m)),
            **_beside(m, metric.name, "null", rows.null_of(m)),
            **{f"round_{number}": value for number, value in enumerate(values, 1)},
        }
    for one in m.left_out:
        name, unit, better = one.metric.name, one.metric.unit, one.metric.better
        yield {**common, "metric": name, "unit": unit, "better": better, "failure": f"left out: {one.why}"}


def _beside(m: Measurement, name: str, which: str, other: Measurement | None) -> _Record:
    """The other row's figure of that metric, and which fraction of it this one is."""
    if other is None or not any(metric.name == name for metric in other.metrics):
        return {}
    return {which: float(other.figure(name)), f"of_{which}": share_of(m, other, name)}


def _cell(run: Run, one: Measurement | Failure) -> dict[str, object]:
    facts = host_of(run, one.host)
    return {
        "nodeid": one.nodeid,
        "host": one.host,
        "accel": facts.accel_of(one.config, on_host=one.on_host),
        **{name: None if one.lacks(name) else getattr(one.config, name) for name in AXES},
        "size_bytes": one.config.size,
        **{f"host_{name}": getattr(facts, name) for name in _HOST},
        "stated": " ".join(f"{name}={value}" for name, value in facts.stated.items()),
        "started": run.started,
    }
