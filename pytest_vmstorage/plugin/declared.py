"""Workloads that a test declares by `@pytest.mark.workload`: read from its marks, checked, held to their thresholds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import pytest
from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import FIELDS
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.measure.rounds import check_counts
from pytest_vmstorage.plugin.stash import asks_for, is_declared, uses
from pytest_vmstorage.results.run import Figure, Measurement
from pytest_vmstorage.text import quoted
from pytest_vmstorage.units import format_figure, parse_duration
from pytest_vmstorage.workloads.base import Workload

MARK = "workload"
_OPTIONS = ("rounds", "warmup", "at_least", "at_most")
_EXAMPLE = 'Write @pytest.mark.workload(Fio(rw="randread", size="256M"), at_least={"iops": 500}).'


class Declared(BaseModel):
    """A workload that a test declares, by its name in `results`; thresholds are by metric, in the metric's unit."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: str
    workload: Workload
    rounds: int | None = None
    warmup: int = 1
    at_least: Mapping[str, float] = {}
    at_most: Mapping[str, float] = {}

    def misses(self, figures: Mapping[str, Figure]) -> Iterator[str]:
        """A sentence for each threshold that these figures miss."""
        for word, bounds in (("at least", self.at_least), ("at most", self.at_most)):
            for metric, bound in bounds.items():
                figure = figures[metric]
                if not (figure >= bound if word == "at least" else figure <= bound):
                    unit = figure.metric.unit
                    yield (
                        f"{metric} {format_figure(figure, unit)} is not {word} {format_figure(bound, unit)}"
                        f" ({figure.spread}; {figure.where})"
                    )

    def surely_misses(self, rounds: Sequence[Mapping[str, float]], count: int) -> bool:
        """Whether the median of `count` rounds misses a threshold whatever the rounds after these give."""
        most = count / 2
        return any(
            sum(figures[metric] < bound for figures in rounds) > most for metric, bound in self.at_least.items()
        ) or any(sum(figures[metric] > bound for figures in rounds) > most for metric, bound in self.at_most.items())


def declared_by(item: pytest.Item) -> tuple[Declared, ...]:
    """The workloads that the test declares, those of its module and class first; raises ConfigError."""
    marks = [mark for node in item.listchain() for mark in reversed(node.own_markers) if mark.name == MARK]
    callspec = getattr(item, "callspec", None)
    swept = callspec.params.get(MARK) if callspec is not None else None
    try:
        found = [one for mark in marks for one in _of_mark(mark.args, mark.kwargs)]
        found += _of_mark((swept,), {}) if isinstance(swept, Workload) else ()
    except ConfigError as error:
        raise ConfigError(f"{item.nodeid}: {error.what}", hint=error.hint, code=error.code) from None
    names = [one.name for one in found]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ConfigError(
            f"{item.nodeid} declares two workloads {twice[0]!r}.",
            hint='Name them: workload({"first": Fio(...), ...}).',
            code="VM321",
        )
    return tuple(found)


def check_declared(item: pytest.Item) -> None:
    """Raise ConfigError for marks that cannot be, and for a test whose marks and fixtures contradict each other."""
    has_mark = item.get_closest_marker(MARK) is not None
    if not is_declared(item):
        if has_mark:
            raise ConfigError(
                f"{item.nodeid} declares a workload, and nothing asks for its figures.",
                hint="List `result`, or `results` for several, among the test's arguments.",
                code="VM322",
            )
        return
    declared = declared_by(item)
    if not declared:
        raise ConfigError(
            f"{item.nodeid} asks for the results of workloads, and declares none.", hint=_EXAMPLE, code="VM322"
        )
    if uses(item, "result") and len(declared) > 1:
        names = ", ".join(one.name for one in declared)
        raise ConfigError(
            f"{item.nodeid} asks for `result`, and declares {len(declared)} workloads: {names}.",
            hint="Ask for `results`, which has each by its name.",
            code="VM322",
        )
    _check_parameters(item, declared)
    if uses(item, "measure"):
        raise ConfigError(
            f"{item.nodeid} declares workloads and asks for `measure` too.",
            hint="Declare all that it measures, or measure all in its function.",
            code="VM322",
        )
    if uses(item, "guest") and "guest" not in _arguments(item) and asks_for(item, "guest"):
        raise ConfigError(
            f"{item.nodeid} declares its workloads, and a fixture of it asks for `guest`: all rounds are taken before"
            " the test's fixtures are set up, so that none can prepare the guest.",
            hint="Measure in the function: ask for `measure` in place of `result`.",
            code="VM323",
        )


def _check_parameters(item: pytest.Item, declared: Sequence[Declared]) -> None:
    """Raise ConfigError for a parameter that looks as if it swept an option of the workload, which is a constant."""
    callspec = getattr(item, "callspec", None)
    for name, value in callspec.params.items() if callspec is not None else ():
        fields = [one for one in declared if name in type(one.workload).model_fields and name not in FIELDS]
        if fields and all(getattr(one.workload, name) != value for one in fields):
            raise ConfigError(
                f"{item.nodeid} is parametrized by {name}={value!r}, and declares {fields[0].workload.label}, which has"
                f" {name}={getattr(fields[0].workload, name)!r} in each of its tests.",
                hint='Sweep the workload: @pytest.mark.parametrize("workload", Fio(...).over(iodepth=(1, 8))), with'
                " `workload` and `result` among the test's arguments.",
                code="VM324",
            )


def _arguments(item: pytest.Item) -> Sequence[str]:
    info = getattr(item, "_fixtureinfo", None)
    return () if info is None else info.argnames


def _of_mark(args: Sequence[object], options: Mapping[str, Any]) -> Iterator[Declared]:
    """The workloads of a mark; raises ConfigError."""
    for name in options:
        if name not in _OPTIONS:
            meant = close_to(name, _OPTIONS)
            raise ConfigError(
                f"the mark {MARK} has no {name!r}.", hint=f"{meant}It has: {', '.join(_OPTIONS)}.", code="VM321"
            )
    check_counts(MARK, options.get("rounds"), options.get("warmup", 1))
    numbers = {word: options[word] for word in ("rounds", "warmup") if word in options}
    named: dict[object, object] = {}
    for one in args:
        several = one if isinstance(one, tuple | list) else [one]
        named.update(one if isinstance(one, Mapping) else {_name_of(workload): workload for workload in several})
    if not named:
        raise ConfigError(f"the mark {MARK} names no workload.", hint=_EXAMPLE, code="VM321")
    for name, workload in cast("Mapping[str, object]", named).items():
        if not isinstance(name, str) or not isinstance(workload, Workload):
            raise ConfigError(
                f"the mark {MARK} has {_name_of(workload)}, which is no workload.", hint=_EXAMPLE, code="VM321"
            )
        at_least, at_most = (_bounds(word, options.get(word, {}), workload) for word in ("at_least", "at_most"))
        yield Declared(name=name, workload=workload, at_least=at_least, at_most=at_most, **numbers)


def _name_of(workload: object) -> str:
    if isinstance(workload, Workload):
        return workload.label
    return f"the class {workload.__name__}" if isinstance(workload, type) else quoted(workload)


def _bounds(word: str, given: object, workload: Workload) -> Mapping[str, float]:
    if not isinstance(given, Mapping):
        example = f'Write {word}={{"{workload.primary}": 500}}.'
        raise ConfigError(f"{word}={quoted(given)} names no metric.", hint=example, code="VM325")
    units = {metric.name: metric.unit for metric in workload.metrics}
    for metric in given:
        if metric not in units:
            meant = close_to(str(metric), units)
            raise ConfigError(
                f"{word} names {quoted(metric)}, and {workload.label} has no such metric.",
                hint=f"{meant}It has: {', '.join(units)}.",
                code="VM325",
            )
    return {metric: _bound(word, metric, bound, units[metric]) for metric, bound in given.items()}


def _bound(word: str, metric: str, given: object, unit: str) -> float:
    """A threshold in the metric's unit; seconds may be written as "5ms"."""
    if isinstance(given, str) and unit == "s":
        return parse_duration(given)
    if isinstance(given, bool) or not isinstance(given, int | float):
        example = f'{{"{metric}": "5ms"}}, or 0.005 in seconds' if unit == "s" else f'{{"{metric}": 500}}, in {unit}'
        raise ConfigError(
            f"{word} of {metric} is {quoted(given)}, no number.", hint=f"Write {word}={example}.", code="VM325"
        )
    return given


class Results(dict[str, Measurement]):
    """Measurements by the names of their workloads."""

    def __missing__(self, name: str) -> Measurement:
        raise KeyError(f"no workload {name!r} is declared; there are: {', '.join(self)}")


def unmet(declared: Sequence[Declared], measured: Sequence[Measurement]) -> list[str]:
    """A sentence for each declared threshold that the measurements, one for each workload in order, miss."""
    return [
        said
        for one, found in zip(declared, measured, strict=False)
        for said in one.misses({name: found.figure(name) for name in {*one.at_least, *one.at_most}})
    ]
