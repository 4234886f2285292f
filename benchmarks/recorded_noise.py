"""Real runs of real guests as a file of data: written by `record_noise.py`, resampled by `gate_simulation.py`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.gate.policy import log_seconds
from pytest_vmstorage.results.run import Metric

DATA = Path(__file__).parent / "data"


class RecordedRun(BaseModel):
    """One run in a guest of its own: its place among all runs of the recording, from 1, when it began, its figure."""

    model_config = ConfigDict(frozen=True)

    order: int
    started: str
    value: float


class RecordedJob(BaseModel):
    """One workload's runs in the order in which they were run; `options` are the workload's own."""

    model_config = ConfigDict(frozen=True)

    label: str
    options: Mapping[str, str | int | float | bool]
    metric: Metric
    runs: tuple[RecordedRun, ...] = ()

    @property
    def logs(self) -> tuple[float, ...]:
        """log(seconds per operation) of each run."""
        return log_seconds(self.metric, [run.value for run in self.runs])

    @property
    def spread(self) -> float:
        """The standard deviation of `logs`, which is close to the figure's coefficient of variation."""
        return statistics.stdev(self.logs)

    @property
    def pair_spread(self) -> float:
        """What the spread would be were runs independent and as far from each other as two in a row are."""
        return pair_spread([self.logs])


class Recording(BaseModel):
    """What was run, when, on what, and what is to be known about it; no paths of the machine."""

    model_config = ConfigDict(frozen=True)

    date: str
    note: str
    cell: str
    plan: Mapping[str, str | int | float]
    host: Mapping[str, str | int]
    guest: Mapping[str, str]
    jobs: tuple[RecordedJob, ...]


def pair_spread(series: Sequence[Sequence[float]]) -> float:
    """Of several series: root mean square of the differences of two runs in a row, over the square root of 2."""
    squares = [(now - then) ** 2 for one in series for then, now in pairwise(one)]
    return math.sqrt(statistics.fmean(squares) / 2)


def recordings(folder: Path = DATA) -> Mapping[str, Recording]:
    """All that lie in the folder, by name."""
    paths = sorted(folder.glob("noise-*.json"))
    return {path.stem.removeprefix("noise-"): Recording.model_validate_json(path.read_text()) for path in paths}
