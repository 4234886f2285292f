"""JSON of github-action-benchmark's tools customBiggerIsBetter and customSmallerIsBetter, a file for each; pure.

Source: its README, and `BenchmarkResult` in its src/extract.ts. A range is read where it is "±" and a number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.exports.rows import ExportRow, ExportValue
from pytest_vmstorage.results.host import EMULATED

TOOLS = {"higher": "customBiggerIsBetter", "lower": "customSmallerIsBetter"}
"""Its tool for figures of which that is better."""


def render_github_action_benchmark(rows: Sequence[ExportRow]) -> str:
    """An entry for each figure of one run; all of them are better in the same direction.

    Raises ConfigError where they are not, as it keeps each direction apart.
    """
    directions = {value.better for row in rows for value in row.values}
    if len(directions) > 1 or "neither" in directions:
        raise ConfigError(
            "github-action-benchmark reads a file for each direction, and these figures have several.",
            hint=" ".join(f"Give --better={better} for its tool {tool}." for better, tool in TOOLS.items()),
            code="VM337",
        )
    entries = [_entry(row, value) for row in rows for value in row.values]
    return json.dumps(entries, indent=1, ensure_ascii=False) + "\n"


def _entry(row: ExportRow, value: ExportValue) -> dict[str, object]:
    lines = [
        f"rounds {row.rounds}: {value.smallest!r} to {value.largest!r} {value.unit.symbol}".rstrip(),
        f"measured {row.when.isoformat()}",
        *(f"{name} {text}" for name, text in {**row.labels, **row.facts}.items()),
        *([EMULATED] if row.is_emulated else []),
    ]
    return {
        "name": f"{value.metric} of {row.name}",
        "unit": value.unit.symbol,
        "value": value.median,
        "range": f"± {(value.largest - value.smallest) / 2:.6g}",
        "extra": "\n".join(lines),
    }
