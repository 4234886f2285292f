"""The values of a run: metrics with unit and direction, samples, measurements, their proof, and the run itself.

Source: the SNIA's Solid State Storage Performance Test Specification, "steady state": over a measurement window of five
rounds the figure's range is at most 20 % of its mean, and the least-squares line through it rises or falls by at most
10 % of its mean from the window's first round to its last. fio's examples/example_latency_steadystate.fio states the
same two limits. The window here is all the rounds there are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.rules.backing import OF_AN_IMAGE
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.results.cautions import Caution
from pytest_vmstorage.results.cost import Cost, total_cost
from pytest_vmstorage.results.counters import NO_STORAGE, IoCounters, served_by, total
from pytest_vmstorage.results.figures import Figures
from pytest_vmstorage.results.host import HostFacts, HostState
from pytest_vmstorage.results.packed import unpacked
from pytest_vmstorage.results.series import Series
from pytest_vmstorage.results.timeline import Timeline
from pytest_vmstorage.units import format_figure

ROUNDS = 5
"""The least number of rounds whose steadiness is judged."""

RANGE = 0.20
SLOPE = 0.10
# tolerance: a value exactly at the limit passes despite rounding
_EXACT = 1e-9


class Steadiness(BaseModel):
    """The spread of rounds as fractions of their mean: largest less smallest, and end of the fitted line less start.

    None for too few rounds, for a mean of 0, and where the user left the judgement out, for the reason in `why`.
    """

    model_config = ConfigDict(frozen=True)

    rounds: int
    range: float | None = None
    slope: float | None = None
    why: str = ""

    @property
    def is_judged(self) -> bool:
        """Whether there were enough rounds."""
        return self.range is not None

    @property
    def is_steady(self) -> bool:
        """Whether range and slope are within their limits; False where nothing was judged."""
        return self.is_judged and self._is_near and self._is_level

    @property
    def _is_near(self) -> bool:
        return self.range is not None and self.range <= RANGE + _EXACT

    @property
    def _is_level(self) -> bool:
        return self.slope is not None and abs(self.slope) <= SLOPE + _EXACT

    def __str__(self) -> str:
        if self.range is None or self.slope is None:
            return f"not judged ({self.why or f'{self.rounds} round' + 's' * (self.rounds != 1)})"
        if self.is_steady:
            limits = f"of the mean (limit {RANGE:.0%}), slope {self.slope:+.1%} (limit {SLOPE:.0%})"
            return f"steady over {self.rounds} rounds: range {self.range:.1%} {limits}"
        over = [f"a range of {self.range:.1%} of the mean is over the limit of {RANGE:.0%}"] * (not self._is_near)
        over += [f"a slope of {self.slope:+.1%} is over the limit of {SLOPE:.0%}"] * (not self._is_level)
        return f"not steady over {self.rounds} rounds: {' and '.join(over)}"


def steadiness(figures: Sequence[float]) -> Steadiness:
    """The steadiness of figures, one for each round in the order measured."""
    rounds = len(figures)
    if not all(map(math.isfinite, figures)):
        return Steadiness(rounds=rounds, why="a figure that is no number")
    mean = statistics.fmean(figures) if rounds >= ROUNDS else 0.0
    if not mean:
        return _not_judged(rounds)
    line = statistics.linear_regression(range(rounds), figures)
    return Steadiness(
        rounds=rounds,
        range=(max(figures) - min(figures)) / abs(mean),
        slope=line.slope * (rounds - 1) / abs(mean),
    )


@lru_cache(maxsize=256)
def _not_judged(rounds: int) -> Steadiness:
    """The steadiness of so few rounds; each of thousands of rows is asked for it several times."""
    return Steadiness(rounds=rounds)


def steady_part(figures: Sequence[float]) -> range | None:
    """The places of the longest run of figures that is steady, the first of several; None where none of five is.

    The sums of each run are those of the one before with a figure more: hundreds of figures take milliseconds.
    """
    best: range | None = None
    for first in range(len(figures) - ROUNDS + 1):
        low = high = figures[first]
        total = weighted = 0.0
        for place, figure in enumerate(figures[first:]):
            low, high = min(low, figure), max(high, figure)
            total, weighted, rounds = total + figure, weighted + place * figure, place + 1
            if rounds < ROUNDS or total <= 0 or (best is not None and rounds <= len(best)):
                continue
            # of the least-squares line over 0, 1, ... rounds - 1, from its first point to its last
            rise = (12 * weighted - 6 * (rounds - 1) * total) / (rounds * (rounds + 1))
            mean = total / rounds
            if high - low <= (RANGE + _EXACT) * mean and abs(rise) <= (SLOPE + _EXACT) * mean:
                best = range(first, first + rounds)
    return best


class Ending(BaseModel):
    """The reason for the last round; `half_width` is half of the 95 % interval, as a fraction of the median.

    None where there are too few rounds for one, or where the user set the number of rounds.
    """

    model_config = ConfigDict(frozen=True)

    reason: Literal["count", "narrow", "time limit", "no room"]
    half_width: float | None = None


SCHEMA = 2
"""Version of the saved form, of which 2 can be packed; a reader refuses one that is newer."""

Better = Literal["higher", "lower", "neither"]
"""The better direction; "neither" for a figure that informs and ranks nothing, such as the runtime of a timed job."""

Outcome = Literal["", "passed", "failed", "error", "skipped", "xfailed", "xpassed"]
"""The outcome of a test, in pytest's words; "" where it has no report, or an earlier version saved it."""


class Metric(BaseModel):
    """A named figure of a workload: its unit ("IOPS", "MiB/s", "s", "B", "%", "things/s") and which way is better."""

    model_config = ConfigDict(frozen=True)

    name: str
    unit: str
    better: Better

    @property
    def is_rate(self) -> bool:
        """Whether the metric is a count per second."""
        return self.unit == "IOPS" or self.unit.endswith("/s")

    def seconds_per_operation(self, value: float) -> float:
        """The figure as pytest-benchmark's time, lower is better: 1/IOPS, seconds per MiB or thing, or seconds.

        Raises ValueError for a unit that is neither a rate nor a time, and for a rate of 0.
        """
        if self.unit == "s":
            return value
        if not self.is_rate or value <= 0:
            raise ValueError(f"{self.name} = {value} {self.unit} has no time per operation")
        return 1.0 / value


class Figure(float):
    """A float with its metric, samples and configuration; the value is the median of the samples.

    `where` may be a function that words it, for a report of thousands of figures of which none is shown with it.
    """

    metric: Metric
    values: tuple[float, ...]
    _where: str | Callable[[], str]

    def __new__(cls, metric: Metric, values: tuple[float, ...], where: str | Callable[[], str]) -> Self:
        """The median of at least one value."""
        self = super().__new__(cls, statistics.median(values))
        self.metric = metric
        self.values = values
        self._where = where
        return self

    @property
    def where(self) -> str:
        """Workload, configuration and host."""
        return self._where if isinstance(self._where, str) else self._where()

    @property
    def spread(self) -> str:
        """Smallest to largest sample with the unit, or a note that there was one round only."""
        if len(self.values) == 1:
            return "1 round, spread unknown"
        low, high = (format_figure(edge, self.metric.unit) for edge in (min(self.values), max(self.values)))
        return f"{low} to {high} in {len(self.values)} rounds"

    def __repr__(self) -> str:
        return f"<{self.metric.name} {format_figure(self, self.metric.unit)} ({self.spread}) of {self.where}>"

    def __str__(self) -> str:
        return format_figure(self, self.metric.unit)

    def __reduce__(self) -> tuple[object, ...]:
        return (Figure, (self.metric, self.values, self.where))


class Sample(BaseModel):
    """One round's figures by metric name, when it began (UTC, ISO 8601), how long it took, the tool's raw output.

    `moved` and `cost` are bytes moved by the layers and CPU time of QEMU in the round; `pressed` is the fraction of the
    time in which some task of the host waited for "cpu", "io", "memory" (/proc/pressure), {} where it is unknown.
    `order` is the round's place among all of the run's, from 1, and `boot` tells one guest's life from another ("" for
    a native row); an earlier version saved neither. `series` is what the disk moved within the round, step by step;
    None where nothing counts it without a process of its own (a row without a guest on another host, an operation on
    images), and in earlier versions. `warm_ups` are the series of the warm-up rounds right before this one.
    """

    model_config = ConfigDict(frozen=True)

    figures: Mapping[str, float]
    started: str
    seconds: float
    raw: str = Field(repr=False)
    moved: IoCounters = IoCounters()
    cost: Cost = Cost()
    pressed: Mapping[str, float] = {}
    order: int = 0
    boot: str = ""
    series: Series | None = None
    warm_ups: tuple[Series, ...] = ()

    @property
    def steady_s(self) -> tuple[float, float] | None:
        """Begin and end of the longest part of its series with steady IOPS, in seconds since the tool was started.

        Steady is what rounds are by the SNIA's limits (see `results.run`), with a step in a round's place; None where
        no five steps are.
        """
        if self.series is None:
            return None
        found = steady_part(self.series.rates("reads", "writes"))
        return (self.series.edges_s[found.start], self.series.edges_s[found.stop]) if found else None


class Proof(BaseModel):
    """The evidence of one source on one field of a cell: `asked` and `found` in its words, `where` it was read.

    `why` is the reason that the field cannot be proven there, or that a proven one cannot show anything.
    """

    model_config = ConfigDict(frozen=True)

    field: str
    asked: str
    found: str
    status: Literal["proven", "unprovable", "contradicted"]
    where: str
    why: str = ""


class LeftOut(BaseModel):
    """A metric without a figure, because the cell cannot do that operation, and why in a clause."""

    model_config = ConfigDict(frozen=True)

    metric: Metric
    why: str


def _lacks(config: StorageConfig, name: str, *, on_host: bool) -> bool:
    """Whether a row lacks that field: its cell lacks it, or no guest or no file was part of it.

    Operations of the host on whole images have no guest, whatever the cell names; and a native row on a device has no
    file whose blocks could be preallocated.
    """
    is_device = config.is_native and bool(config.backing_name) and config.host_fs == "as-found"
    return (
        config.lacks(name)
        or (on_host and config.has_guest and name not in OF_AN_IMAGE)
        or (is_device and name == "preallocation" and not config.is_chosen(name))
    )


def _with_its_cell(saved: object) -> object:
    """A row of a JSON report with its whole cell: its `config` leaves out fields that had no part in the row."""
    return {**saved, "config": saved["cell"]} if isinstance(saved, Mapping) and "cell" in saved else saved


class Measurement(Figures, BaseModel):
    """All samples of one workload in one cell on one host; figures are also attributes: `result.iops`.

    Type checkers know those of shipped workloads; `result.figure("name")` is for any.

    `workload` is the name of its column, `command` the tool's command line, `hygiene` the steps before each round,
    `guest` the versions of the guest's kernel and tools, `proof` the evidence for the cell's fields, `around` the state
    of the host (None in earlier versions), `cautions` the doubts about the figure, `ended` the reason for the last
    round, `without` the steps of the hygiene that the user left out. `fresh` is the number of the last samples that
    were taken in guests of their own to confirm that the others looked slow, `tolerated` the loss in the test's mark,
    `notes` the remarks on the row in its marks. `made_from` are hashes of the parts of its last guest (see
    `Provenance`); empty without a guest, and in earlier versions. `point` is its place on the curve `shape`, such as
    {"iodepth": 8, "numjobs": 1} on "fio randread 4k"; empty for a workload without a curve, and in earlier versions.
    With `on_host` no guest was part of it; `left_out` are metrics that the workload has elsewhere, and why not here.
    `outcome` is that of its test, and `message` the first line of its reason, where it did not just pass; `code` is the
    refusal's with which that line ends, "" where it is none of ours.
    """

    model_config = ConfigDict(frozen=True)

    workload: str
    tool: str
    command: str
    config: StorageConfig
    host: str
    metrics: tuple[Metric, ...]
    primary: str
    shown: tuple[str, ...]
    samples: tuple[Sample, ...]
    hygiene: Mapping[str, str] = {}
    guest: Mapping[str, str] = {}
    proof: tuple[Proof, ...] = ()
    around: HostState | None = None
    cautions: tuple[Caution, ...] = ()
    ended: Ending = Ending(reason="count")
    without: tuple[str, ...] = ()
    nodeid: str = ""
    point: Mapping[str, float] = {}
    shape: str = ""
    on_host: bool = False
    left_out: tuple[LeftOut, ...] = ()
    fresh: int = 0
    tolerated: str = ""
    notes: tuple[str, ...] = ()
    made_from: Mapping[str, str] = {}
    outcome: Outcome = ""
    message: str = ""
    code: str = ""

    _saved = model_validator(mode="before")(_with_its_cell)

    def lacks(self, name: str) -> bool:
        """Whether that field of its cell had no part in the measurement."""
        return _lacks(self.config, name, on_host=self.on_host)

    def metric(self, name: str) -> Metric:
        """The metric of that name; raises AttributeError that lists those there are, or says why it was left out."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        for one in self.left_out:
            if one.metric.name == name:
                raise AttributeError(f"{self.workload} has no {name} of {self.config}: {one.why}")
        names = [metric.name for metric in self.metrics]
        meant = f". {found.strip()}" if (found := close_to(name, names)) else ""
        raise AttributeError(f"{self.workload} has no metric {name!r}; it has: {', '.join(names)}{meant}")

    def values(self, name: str) -> tuple[float, ...]:
        """That metric's figure in every sample, in the order measured."""
        return tuple([sample.figures[name] for sample in self.samples])

    def figure(self, name: str) -> Figure:
        """That metric's median over the samples, with its unit and spread."""
        return Figure(self.metric(name), self.values(name), self._where)

    def _where(self) -> str:
        return f"{self.workload} on {self.config.label}, {self.host}"

    def __str__(self) -> str:
        if not self.samples:
            return f"{self._where()}: no rounds"
        figure = self.figure(self.primary)
        return f"{self._where()}: {self.primary} {figure} ({figure.spread})"

    def __repr__(self) -> str:
        return f"<{self}>"

    if not TYPE_CHECKING:  # for type checkers it would make every name a figure

        def __getattr__(self, name: str) -> Figure:
            if name.startswith("_"):
                raise AttributeError(name)
            return self.figure(name)

    @property
    def served_by(self) -> str:
        """A clause on the layer that served the rounds; empty where the layers' counters are unknown."""
        return NO_STORAGE if self.config.is_null else served_by(self.moved)

    @property
    def moved(self) -> IoCounters:
        """The bytes that each layer moved in all rounds together."""
        return total([sample.moved for sample in self.samples])

    @property
    def cost(self) -> Cost:
        """The CPU time of QEMU in all rounds together."""
        return total_cost([sample.cost for sample in self.samples])

    @property
    def steadiness(self) -> Steadiness:
        """The steadiness of the rounds' primary figures; not judged where the user left that out."""
        if "steady-state" in self.without:
            return Steadiness(rounds=len(self.samples), why="--vm-without=steady-state")
        # so few rounds are not judged whatever their figures are
        return steadiness(self.values(self.primary)) if len(self.samples) >= ROUNDS else _not_judged(len(self.samples))

    @property
    def raw(self) -> tuple[str, ...]:
        """The tool's own output, a text a round."""
        return tuple(sample.raw for sample in self.samples)


class Failure(BaseModel):
    """A cell of the matrix that has no figure, and why in one sentence.

    `outcome` is the cell's, and `test_outcome` that of its test: a guest that cannot be made is an error to pytest.
    `code` is that with which the reason ends, "" where it is no refusal of ours.
    """

    model_config = ConfigDict(frozen=True)

    nodeid: str
    config: StorageConfig
    host: str
    reason: str
    code: str = ""
    outcome: Literal["failed", "skipped"] = "failed"
    on_host: bool = False
    test_outcome: Outcome = ""

    _saved = model_validator(mode="before")(_with_its_cell)

    def lacks(self, name: str) -> bool:
        """Whether that field of its cell would have had no part in it."""
        return _lacks(self.config, name, on_host=self.on_host)


def _unpacked(saved: object) -> object:
    """A run in whichever form it was saved."""
    return unpacked(saved) if isinstance(saved, Mapping) else saved


class RowlessTest(BaseModel):
    """A test without a row in the matrix: its outcome, and the first line of the reason where it did not just pass."""

    model_config = ConfigDict(frozen=True)

    nodeid: str
    outcome: Outcome
    message: str = ""
    code: str = ""


class Run(BaseModel):
    """All that one pytest run measured, as it is saved beside pytest-benchmark's rows.

    `against` are measurements of the same tests with what `recipe` changes in their cells, round for round in turns
    with those of `measurements`: the n-th sample of both is a pair. `timelines` say where the time went, one for each
    process that measured; an earlier version saved none. `rowless` are the tests that have a part in the run's outcome
    and no row: storage tests that measured nothing, those that assert between cells, and any other that failed.
    """

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA
    started: str
    hosts: tuple[HostFacts, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    failures: tuple[Failure, ...] = ()
    against: tuple[Measurement, ...] = ()
    recipe: str = ""
    timelines: tuple[Timeline, ...] = ()
    rowless: tuple[RowlessTest, ...] = ()

    _saved = model_validator(mode="before")(_unpacked)


IDLE = "this axis cannot show anything here"
"""The beginning of `why` for a field that is in effect, and yet makes no difference."""


def proven_fields(proofs: Sequence[Proof]) -> tuple[str, ...]:
    """Fields that at least one source proves, each once, in the order of the proofs."""
    return tuple(dict.fromkeys(proof.field for proof in proofs if proof.status == "proven"))
