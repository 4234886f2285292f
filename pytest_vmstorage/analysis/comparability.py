"""Rules for comparing two measurements of a cell: the facts that must be the same, and those that may differ; pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

from pytest_vmstorage.config.settings import matters
from pytest_vmstorage.results.host import FACTS, HostFacts
from pytest_vmstorage.results.run import Figure, Measurement, Metric
from pytest_vmstorage.units import format_about, format_figure

_HOST = tuple((fact.words, name) for name, fact in FACTS.items() if fact.must_match)
"""Facts of the host that must be the same: a figure of another machine says nothing about a change."""

_STACK = tuple((fact.words, name) for name, fact in FACTS.items() if not fact.must_match)
"""Facts of the host that may differ, because comparisons are made for them; reports name the differences."""

_UNKNOWN = ("unknown", 0, "")

_MEMORY = 1 / 16
"""A host's memory may differ by this fraction: each kernel keeps another part of it for itself."""


def flaw(figure: Figure) -> str:
    """A clause why the figure is impossible, or an empty text."""
    if not all(math.isfinite(value) for value in figure.values):
        return "a round gave no number"
    # metrics in % and in bytes may be zero or negative
    if figure.metric.unit not in ("%", "B") and min(figure.values) <= 0:
        return f"a round gave {format_figure(min(figure.values), figure.metric.unit)}"
    return ""


def no_ratio(figure: Figure) -> str:
    """A clause why its rounds have no ratio to others, or an empty text."""
    least = min(figure.values)
    if least > 0:
        return ""
    return f"a round gave {format_figure(least, figure.metric.unit)}, and a change from there has no percentage"


def obstacle(then: Measurement, now: Measurement, before: HostFacts, today: HostFacts, metric: Metric) -> str:
    """A clause why `now` cannot be compared with the saved `then`, or an empty text.

    `before` and `today` are the hosts they were measured on.
    """
    if found := next(_of_hosts(then, now, before, today), "") or next(_of_tools(then, now), ""):
        return found
    if metric not in then.metrics:
        return f"the baseline has no {metric.name} in {metric.unit} for this cell"
    figure = then.figure(metric.name)
    found = flaw(figure) or ("a change from 0 has no percentage" if float(figure) == 0 else "")
    return f"the saved figure is invalid: {found}" if found else ""


def _of_hosts(then: Measurement, now: Measurement, before: HostFacts, today: HostFacts) -> Iterator[str]:
    accels = before.accel_of(then.config, on_host=then.on_host), today.accel_of(now.config, on_host=now.on_host)
    if accels[0] != accels[1]:
        yield "it was saved under {} and measured under {} now".format(*accels)
    for what, name in _HOST:
        old, new = getattr(before, name), getattr(today, name)
        if old != new and not (name != "name" and (old in _UNKNOWN or new in _UNKNOWN)):
            yield f"the {what} was {old} and is {new} now"
    memory = before.memory_bytes, today.memory_bytes
    if min(memory) and abs(memory[0] - memory[1]) > max(memory) * _MEMORY:
        yield "the memory was {} and is {} now".format(*map(format_about, memory))


def _of_tools(then: Measurement, now: Measurement) -> Iterator[str]:
    for tool, old in then.guest.items():
        if now.guest.get(tool, old) != old:
            whose = "the guest's " if now.config.has_guest and not now.on_host else ""
            yield f"{whose}{tool} was {old} and is {now.guest[tool]} now"
    # without a guest of ours the command names files and devices, which differ in each run
    if then.command != now.command and now.config.has_guest and not now.on_host:
        yield f"it was measured with `{then.command}` and is with `{now.command}` now"
    if matters(then.without) != matters(now.without):
        steps = (_steps(matters(one.without)) for one in (then, now))
        yield "it was saved {} and measured {} now (--vm-without)".format(*steps)


def _steps(left_out: Collection[str]) -> str:
    return f"without {', '.join(left_out)}" if left_out else "with all steps around its rounds"


def stack_of(host: HostFacts) -> tuple[str, ...]:
    """The host's software that guests run on: its kernel, QEMU and libvirt with their versions."""
    return tuple(f"{what} {getattr(host, name)}" for what, name in _STACK)


_MADE_FROM = (
    ("qemu_sha256", "QEMU's binary"),
    ("domain_xml_sha256", "the domain XML"),
    ("firmware_sha256", "the firmware"),
    ("guest_image_sha256", "the guest image"),
)


def differing_parts(then: Measurement, now: Measurement) -> tuple[str, ...]:
    """The parts of the cell's guest that have other bytes than then; changes of its boot and of the plugin, in words.

    What is unknown of either counts as equal.
    """
    pairs = ((what, then.made_from.get(key), now.made_from.get(key)) for key, what in _MADE_FROM)
    parts = tuple(what for what, old, new in pairs if old and new and old != new)
    told = (
        ("the guest's boot", then.hygiene.get("boot"), now.hygiene.get("boot")),
        ("pytest-vmstorage", then.made_from.get("plugin"), now.made_from.get("plugin")),
    )
    return (*parts, *(f"{what} ({old} then, {new} now)" for what, old, new in told if old and new and old != new))


def stack_changes(before: HostFacts, today: HostFacts) -> tuple[str, ...]:
    """A clause for each part of the host's software that changed."""
    pairs = ((what, getattr(before, name), getattr(today, name)) for what, name in _STACK)
    return tuple(f"{what} was {old} and is {new} now" for what, old, new in pairs if old != new)
