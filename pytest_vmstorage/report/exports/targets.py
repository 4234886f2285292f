"""The programs that figures are exported to: how each wants its file, and whether that holds several runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from pytest_vmstorage.report.exports.bencher import render_bencher
from pytest_vmstorage.report.exports.github_action_benchmark import render_github_action_benchmark
from pytest_vmstorage.report.exports.influxdb import render_influxdb
from pytest_vmstorage.report.exports.openmetrics import render_openmetrics
from pytest_vmstorage.report.exports.otava import render_otava
from pytest_vmstorage.report.exports.rows import ExportRow


class ExportFormat(NamedTuple):
    """A format: its renderer, or the renderer of a folder's files, and whether it takes the rows of several runs."""

    render: Callable[[Sequence[ExportRow]], str] | None = None
    render_folder: Callable[[Sequence[ExportRow], str], Mapping[str, str]] | None = None
    has_history: bool = True


TARGETS: Final[Mapping[str, ExportFormat]] = MappingProxyType(
    {
        "openmetrics": ExportFormat(render_openmetrics),
        "influxdb": ExportFormat(render_influxdb),
        "github-action-benchmark": ExportFormat(render_github_action_benchmark, has_history=False),
        "bencher": ExportFormat(render_bencher, has_history=False),
        "otava": ExportFormat(render_folder=render_otava),
    }
)
"""The formats by the names that `vmstorage export --format` takes."""
