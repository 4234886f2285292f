"""The run in long form: a row for each metric of each workload in each cell, to load into a data frame."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping

from pytest_vmstorage.baseline import CellKey, host_of, keyed
from pytest_vmstorage.config import AXES, StorageConfig
from pytest_vmstorage.gate import Comparison
from pytest_vmstorage.results import Failure, Measurement, Run
from pytest_vmstorage.rules.ground import ON_THE_HOST

_Record = Mapping[str, object]

_HOST = (
    "cpu",
    "cores",
    "memory_bytes",
    "kernel",
    "qemu",
    "libvirt",
    "accel_requested",
    "file_system",
    "governor",
)

HEADER = (
    *(
        "nodeid",
        "host",
        "accel",
        *AXES,
        "size_bytes",
        "workload",
        "tool",
        "metric",
        "unit",
        "better",
        "primary",
    ),
    *("median", "min", "max", "rounds", "baseline", "change", "verdict", "failure"),
    *("command", "guest_kernel", "tool_version", *(f"host_{name}" for name in _HOST), "started"),
)
"""The columns, always all of them; after them `round_1` and so on, the figure of each round."""


def render_csv(run: Run, comparison: Comparison | None = None) -> str:
    """CSV with a header; figures unrounded in the metric's base unit, empty where there is none.

    A failed cell is a row with `failure` and no metric; a metric that was left out is one with `failure` and no figure.
    """
    rounds = max((len(m.samples) for m in run.measurements), default=0)
    out = io.StringIO()
    fields = [*HEADER, *(f"round_{number}" for number in range(1, rounds + 1))]
    writer = csv.DictWriter(out, fields, restval="", lineterminator="\n")
    writer.writeheader()
    for key, measurement in keyed(run.measurements):
        writer.writerows(_measured(run, key, measurement, comparison))
    for f in run.failures:
        writer.writerow(
            {
                **_cell(run, f),
                "failure": f.reason if f.outcome == "failed" else f"{f.outcome}: {f.reason}",
            }
        )
    return out.getvalue()


def _measured(run: Run, key: CellKey, m: Measurement, comparison: Comparison | None) -> Iterable[_Record]:
    common = {
        **_cell(run, m),
        "workload": m.workload,
        "tool": m.tool,
        "command": m.command,
        "guest_kernel": m.guest.get("kernel", ""),
        "tool_version": m.guest.get(m.tool, ""),
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
            **{f"round_{number}": value for number, value in enumerate(values, 1)},
        }
    for one in m.left_out:
        name, unit, better = one.metric.name, one.metric.unit, one.metric.better
        yield {**common, "metric": name, "unit": unit, "better": better, "failure": f"left out: {one.why}"}


def _cell(run: Run, one: Measurement | Failure) -> dict[str, object]:
    facts = host_of(run, one.host)
    return {
        "nodeid": one.nodeid,
        "host": one.host,
        "accel": facts.accel_of(one.config, on_host=one.on_host),
        **{name: _axis(one.config, name) for name in AXES},
        "size_bytes": one.config.size,
        **{f"host_{name}": getattr(facts, name) for name in _HOST},
        "started": run.started,
    }


def _axis(config: StorageConfig, name: str) -> object:
    """The axis's value; None in a native row for what only a guest has."""
    return None if config.is_native and name not in ON_THE_HOST else getattr(config, name)
