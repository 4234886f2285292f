"""Apache Otava's CSV, a file for each series with a line a run, and the otava.yaml that names them; pure.

Source: docs/CSV.md and `CsvImporter` of Otava 0.8. It takes no empty cell, so that metrics which not all runs have
stand in a file of their own.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_vmstorage.report.exports.rows import ExportRow, ExportValue
from pytest_vmstorage.results.run import Better
from pytest_vmstorage.text import plain_cell

CONFIG = "otava.yaml"
"""The name of its configuration."""

_DIRECTIONS: Mapping[Better, int] = {"higher": 1, "lower": -1, "neither": 0}
"""A change against its direction is a regression to Otava; with 0 none is."""

_LONGEST = 120
_ATTRIBUTES = ("emulated", "rounds", "run", "host_kernel", "host_qemu", "host_libvirt", "guest_kernel")


def render_otava(rows: Sequence[ExportRow], folder: str = "") -> Mapping[str, str]:
    """The files by their names; `folder` is where they will lie, as seen from where Otava runs."""
    files: dict[str, str] = {}
    tests = ["tests:"]
    for name, there, metrics in _tables(rows):
        files[f"{name}.csv"] = _table(there, metrics)
        tests += _test(name, f"{folder}/{name}.csv" if folder else f"{name}.csv", there, metrics)
    return {CONFIG: "\n".join(tests) + "\n", **files}


def _tables(rows: Sequence[ExportRow]) -> Iterator[tuple[str, Sequence[ExportRow], Sequence[str]]]:
    """The name of each file, its rows, and the metrics that all of these have."""
    series: dict[object, list[ExportRow]] = {}
    for row in rows:
        series.setdefault(row.series, []).append(row)
    for mine in series.values():
        names = dict.fromkeys(value.named() for row in mine for value in row.values)
        bundles: dict[tuple[int, ...], list[str]] = {}
        for name in names:
            have = tuple(place for place, row in enumerate(mine) if name in _by_name(row))
            bundles.setdefault(have, []).append(name)
        for have, metrics in bundles.items():
            apart = "" if len(bundles) == 1 else metrics[0]
            yield _file_name(mine[0], apart), [mine[place] for place in have], metrics


def _by_name(row: ExportRow) -> Mapping[str, ExportValue]:
    return {value.named(): value for value in row.values}


def _file_name(row: ExportRow, apart: str) -> str:
    """A name for the shell: workload, cell and host, and a hash of all that tells the series from others."""
    told = "-".join(filter(None, (row.labels["workload"], row.labels["cell"], row.labels["host"], apart)))
    digest = hashlib.sha256(repr((row.series, apart)).encode()).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', told).strip('-')[:_LONGEST]}-{digest}"


def _table(rows: Sequence[ExportRow], metrics: Sequence[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    values = [[_by_name(row)[name].numbers for name in metrics] for row in rows]
    writer.writerow(["time", *_ATTRIBUTES, *(name for numbers in values[0] for name in numbers)])
    for row, mine in zip(rows, values, strict=True):
        writer.writerow([row.when.isoformat(), *_attributes(row), *(n for numbers in mine for n in numbers.values())])
    return out.getvalue()


def _attributes(row: ExportRow) -> Iterator[str]:
    told = {**row.facts, **row.labels, "rounds": str(row.rounds)}
    return (plain_cell(told.get(name, "unknown")) for name in _ATTRIBUTES)


def _test(name: str, path: str, rows: Sequence[ExportRow], metrics: Sequence[str]) -> Iterator[str]:
    """The lines of its test; text in JSON's quotes is YAML too."""
    newest = _by_name(rows[-1])
    yield f"  {name}:"
    yield "    type: csv"
    yield f"    file: {json.dumps(path, ensure_ascii=False)}"
    yield "    time_column: time"
    yield f"    attributes: [{', '.join(_ATTRIBUTES)}]"
    yield "    metrics:"
    for metric in metrics:
        yield f"      {metric}: {{direction: {_DIRECTIONS[newest[metric].better]}}}"
