"""Figures of a storage test as its properties, where JUnit files and other reporting plugins look for them."""

from __future__ import annotations

import html
import importlib
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vmstorage.analysis.gate.kinds import KINDS
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.results.saved import keyed
from pytest_vmstorage.text import plain_line

if TYPE_CHECKING:
    from pytest_vmstorage.analysis.gate.verdicts import Verdict
    from pytest_vmstorage.config.cell import StorageConfig
    from pytest_vmstorage.results.host import HostFacts
    from pytest_vmstorage.results.run import Measurement

Property = tuple[str, str | float]

_OURS: pytest.StashKey[list[Property]] = pytest.StashKey()
"""On an item: those of its properties that are ours."""


def properties_of(
    cell: StorageConfig, measured: Sequence[Measurement], verdicts: Sequence[Verdict], host: HostFacts | None
) -> list[Property]:
    """The properties of a test in that cell by name, such as ("vmstorage.fio randread 4k.iops", 15623.3).

    The value of a primary figure is its median, unrounded in the metric's unit; its unit, spread and verdict stand
    under its name with a suffix. A workload that the test measured again is "#2". `vmstorage.verdict` is the most
    urgent of the test's. All else is text.
    """
    gated = {(verdict.workload, verdict.nth): verdict for verdict in verdicts if verdict.gates}
    found: list[Property] = [("cell", cell.label)]
    if measured and host is not None:
        accel = dict.fromkeys(host.accel_of(m.config, on_host=m.on_host) for m in measured)
        found += [("host", host.name), ("accel", ", ".join(accel))]
        found += [("caution", EMULATED)] if "tcg" in accel else []
    if gated:
        found.append(("verdict", _said(min(gated.values(), key=lambda verdict: list(KINDS).index(verdict.kind)))))
    for key, m in keyed(measured):
        name = f"{key.workload}{f' #{key.nth + 1}' if key.nth else ''}.{m.primary}"
        found += _figure(name, m, gated.get((key.workload, key.nth)))
    return [
        (plain_line(f"vmstorage.{name}"), plain_line(value) if isinstance(value, str) else value)
        for name, value in found
    ]


def _figure(name: str, m: Measurement, verdict: Verdict | None) -> Iterator[Property]:
    figure = m.figure(m.primary)
    # JSON has no word for what is no number
    is_number = all(map(math.isfinite, figure.values))
    yield name, float(figure) if is_number else "no number"
    yield f"{name}.unit", figure.metric.unit
    yield f"{name}.spread", figure.spread if is_number else "no number"
    if verdict is not None:
        yield f"{name}.verdict", _said(verdict)


def _said(verdict: Verdict) -> str:
    return f"{verdict.kind} (waived)" if verdict.waiver else verdict.kind.value


def set_properties(item: pytest.Item, report: pytest.TestReport, found: list[Property]) -> None:
    """Give them to the test and its report, in place of those that an earlier phase or run of it had.

    pytest-html and allure-pytest show no properties of tests: the last report has them in a form that they do show.
    """
    before = item.stash.get(_OURS, [])
    of_others = [one for one in item.user_properties if not any(one is mine for mine in before)]
    item.user_properties[:] = [*of_others, *found]
    report.user_properties = list(item.user_properties)
    item.stash[_OURS] = found
    if report.when != "teardown":
        return
    if item.config.getoption("htmlpath", None):
        lines = "".join(f"<div>{html.escape(f'{name}: {value}')}</div>" for name, value in found)
        extra = {"format_type": "html", "content": lines, "name": None, "mime_type": None, "extension": None}
        tied: Any = report
        tied.extras = [*getattr(report, "extras", []), extra]
    if item.config.pluginmanager.has_plugin("allure_listener"):
        allure: Any = importlib.import_module("allure")
        for name, value in found:
            # a figure tells a run from another, and no test from another
            allure.dynamic.parameter(name, value, excluded=True)
