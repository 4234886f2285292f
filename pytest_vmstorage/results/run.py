"""What was measured: metrics with unit and direction, samples, measurements, their proof, and the run that holds them.

Source: the SNIA's Solid State Storage Performance Test Specification, "steady state": over a measurement window of five
rounds the figure's range is at most 20 % of its mean, and the least-squares line through it rises or falls by at most
10 % of its mean from the window's first round to its last. fio's examples/example_latency_steadystate.fio states the
same two limits. The window here is all the rounds there are.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, model_validator

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.rules.backing import OF_AN_IMAGE
from pytest_vmstorage.results.cautions import Caution
from pytest_vmstorage.results.cost import Cost, total_cost
from pytest_vmstorage.results.counters import NO_STORAGE, IoCounters, served_by, total
from pytest_vmstorage.results.host import HostFacts, HostState
from pytest_vmstorage.results.timeline import Timeline
from pytest_vmstorage.units import format_figure

ROUNDS = 5
"""Fewer rounds are not judged."""

RANGE = 0.20
SLOPE = 0.10
# tolerance: a value exactly at the limit passes despite rounding
_EXACT = 1e-9


class Steadiness(BaseModel):
    """How far rounds went apart, as fractions of their mean: largest less smallest, and end of the line less start.

    None where there are too few rounds to judge, where their mean is 0, or where nothing was to be judged, for `why`.
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
        """Whether both are within their limits; False where nothing was judged."""
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
            said = (
                f"range {self.range:.1%} of the mean (limit {RANGE:.0%}), slope {self.slope:+.1%} (limit {SLOPE:.0%})"
            )
            return f"steady over {self.rounds} rounds: {said}"
        over = [f"a range of {self.range:.1%} of the mean is over the limit of {RANGE:.0%}"] * (not self._is_near)
        over += [f"a slope of {self.slope:+.1%} is over the limit of {SLOPE:.0%}"] * (not self._is_level)
        return f"not steady over {self.rounds} rounds: {' and '.join(over)}"


def steadiness(figures: Sequence[float]) -> Steadiness:
    """Judge a figure of each round, in the order measured."""
    rounds = len(figures)
    mean = statistics.fmean(figures) if figures else 0.0
    if rounds < ROUNDS or not mean:
        return Steadiness(rounds=rounds)
    line = statistics.linear_regression(range(rounds), figures)
    return Steadiness(
        rounds=rounds,
        range=(max(figures) - min(figures)) / abs(mean),
        slope=line.slope * (rounds - 1) / abs(mean),
    )


class Ending(BaseModel):
    """Why a measurement has no further round; `half_width` is that of its 95 % interval, as a fraction of the median.

    None where there are too few rounds for one, or where a number of rounds was asked for.
    """

    model_config = ConfigDict(frozen=True)

    reason: Literal["count", "narrow", "time limit", "no room"]
    half_width: float | None = None


SCHEMA = 1
"""Version of the saved form; a reader refuses one that is newer."""

Better = Literal["higher", "lower", "neither"]
"""Which way is better; neither of a figure that tells something and ranks nothing, as how long a timed job ran."""

Outcome = Literal["", "passed", "failed", "error", "skipped", "xfailed", "xpassed"]
"""What became of a test, in pytest's words; "" where it came to no report, or an earlier version saved it."""


class Metric(BaseModel):
    """A named figure of a workload: its unit ("IOPS", "MiB/s", "s", "B", "%", "things/s") and which way is better."""

    model_config = ConfigDict(frozen=True)

    name: str
    unit: str
    better: Better

    @property
    def is_rate(self) -> bool:
        """Whether it counts something per second."""
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
    """A float that knows its name, unit, direction, samples and configuration; the value is their median."""

    metric: Metric
    values: tuple[float, ...]
    where: str

    def __new__(cls, metric: Metric, values: tuple[float, ...], where: str) -> Self:
        """The median of at least one value."""
        self = super().__new__(cls, statistics.median(values))
        self.metric = metric
        self.values = values
        self.where = where
        return self

    @property
    def spread(self) -> str:
        """Smallest to largest sample with the unit, or that there was one round only."""
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

    `moved` and `cost` are what the layers moved and QEMU took meanwhile; `pressed` is for which fraction of the time
    some task of the host waited for "cpu", "io", "memory" (/proc/pressure), {} where the host does not say.
    `order` is the round's place among all of the run's, from 1, and `boot` tells one guest's life from another ("" for
    a native row); an earlier version saved neither.
    """

    model_config = ConfigDict(frozen=True)

    figures: Mapping[str, float]
    started: str
    seconds: float
    raw: str
    moved: IoCounters = IoCounters()
    cost: Cost = Cost()
    pressed: Mapping[str, float] = {}
    order: int = 0
    boot: str = ""


class Proof(BaseModel):
    """What one source says of one field of a cell: `asked` and `found` in its words, `where` it was read.

    `why` says what keeps a field from being proven there, or that a proven one cannot show anything.
    """

    model_config = ConfigDict(frozen=True)

    field: str
    asked: str
    found: str
    status: Literal["proven", "unprovable", "contradicted"]
    where: str
    why: str = ""


class LeftOut(BaseModel):
    """A metric without a figure, because nothing there can do what it is of, and why in a clause."""

    model_config = ConfigDict(frozen=True)

    metric: Metric
    why: str


def _lacks(config: StorageConfig, name: str, *, on_host: bool) -> bool:
    """Whether a row has nothing of that field: its cell has not, or no guest was part of it, or no file.

    What a host does to whole images has nothing of a guest, whatever its cell names; and a native row on a device is
    of no file whose blocks could be preallocated.
    """
    is_device = config.is_native and bool(config.backing_name) and config.host_fs == "as-found"
    return (
        config.lacks(name)
        or (on_host and config.has_guest and name not in OF_AN_IMAGE)
        or (is_device and name == "preallocation" and not config.is_chosen(name))
    )


def _with_its_cell(saved: object) -> object:
    """What a JSON report says of a row, whose `config` has nothing of what had no part in it, with its whole cell."""
    return {**saved, "config": saved["cell"]} if isinstance(saved, Mapping) and "cell" in saved else saved


class Measurement(BaseModel):
    """All samples of one workload in one cell on one host; metrics are also attributes: `result.iops`.

    `workload` is the column it stands in, `command` the line the tool was run with, `hygiene` what was done
    before each round, `guest` the guest's kernel and tool versions, `proof` that the cell is what its id says,
    `around` what the host was like (None where an earlier version saved it), `cautions` what speaks against the figure,
    `ended` why there are no more rounds,
    `without` which steps of the hygiene the user left out, `fresh` how many of the last samples were taken, in guests
    of their own, to confirm that the others looked slow, `tolerated` what the test's mark says that it may lose,
    `notes` what its marks say that a reader must know of the row.
    `made_from` are hashes of what its last guest was made from (see `Provenance`); empty without a guest, and where an
    earlier version saved it.
    `point` is where it stands on the curve that is called `shape`, such as {"iodepth": 8, "numjobs": 1} on
    "fio randread 4k"; empty for a workload that is on none, or saved by an earlier version.
    With `on_host` no guest was part of it; `left_out` are metrics that the workload has elsewhere, and why not here.
    `outcome` is what became of its test, and `message` the first line of why, where it did not just pass.
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

    _saved = model_validator(mode="before")(_with_its_cell)

    def lacks(self, name: str) -> bool:
        """Whether nothing of that field of its cell was part of the measurement."""
        return _lacks(self.config, name, on_host=self.on_host)

    def metric(self, name: str) -> Metric:
        """The metric of that name; raises AttributeError that lists those there are, or says why it was left out."""
        for metric in self.metrics:
            if metric.name == name:
                return metric
        for one in self.left_out:
            if one.metric.name == name:
                raise AttributeError(f"{self.workload} has no {name} of {self.config}: {one.why}")
        there = ", ".join(metric.name for metric in self.metrics)
        raise AttributeError(f"{self.workload} has no metric {name!r}; it has: {there}")

    def values(self, name: str) -> tuple[float, ...]:
        """That metric's figure in every sample, in the order measured."""
        return tuple(sample.figures[name] for sample in self.samples)

    def figure(self, name: str) -> Figure:
        """That metric's median over the samples, with its unit and spread."""
        where = f"{self.workload} on {self.config.label}, {self.host}"
        return Figure(self.metric(name), self.values(name), where)

    def __getattr__(self, name: str) -> Figure:
        if name.startswith("_"):
            raise AttributeError(name)
        return self.figure(name)

    @property
    def served_by(self) -> str:
        """Which layer served the rounds, in a clause; empty where the layers could not be asked."""
        return NO_STORAGE if self.config.is_null else served_by(self.moved)

    @property
    def moved(self) -> IoCounters:
        """What each layer moved in all rounds together."""
        return total(sample.moved for sample in self.samples)

    @property
    def cost(self) -> Cost:
        """What QEMU took in all rounds together."""
        return total_cost(sample.cost for sample in self.samples)

    @property
    def steadiness(self) -> Steadiness:
        """Whether the rounds' primary figures were in a steady state; not judged where the user left that out."""
        if "steady-state" in self.without:
            return Steadiness(rounds=len(self.samples), why="--vm-without=steady-state")
        return steadiness(self.values(self.primary))

    @property
    def raw(self) -> tuple[str, ...]:
        """The tool's own output, a text a round."""
        return tuple(sample.raw for sample in self.samples)


class Failure(BaseModel):
    """A cell of the matrix that has no figure, and why in one sentence."""

    model_config = ConfigDict(frozen=True)

    nodeid: str
    config: StorageConfig
    host: str
    reason: str
    outcome: Literal["failed", "skipped"] = "failed"
    on_host: bool = False

    _saved = model_validator(mode="before")(_with_its_cell)

    def lacks(self, name: str) -> bool:
        """Whether nothing of that field of its cell was to be part of it."""
        return _lacks(self.config, name, on_host=self.on_host)


class Run(BaseModel):
    """All that one pytest run measured, as it is saved beside pytest-benchmark's rows.

    `against` are measurements of the same tests with what `recipe` changes in their cells, round for round in turns
    with those of `measurements`: the n-th sample of both is a pair. `timelines` say where the time went, one for each
    process that measured; an earlier version saved none.
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


IDLE = "this axis cannot show anything here"
"""How the `why` of a field begins that is in effect, and yet makes no difference."""


def proven_fields(proofs: Sequence[Proof]) -> tuple[str, ...]:
    """Fields that at least one source proves, each once, in the order of the proofs."""
    return tuple(dict.fromkeys(proof.field for proof in proofs if proof.status == "proven"))
