"""What a comparison says of each figure: a verdict with its sentence; values, no judging."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.baseline import CellKey
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.loss import Finding
from pytest_vmstorage.tolerance import Waiver


class Kind(StrEnum):
    """What a comparison found; only REGRESSED turns a test red by itself.

    PASS says that the tolerated loss is excluded, IMPROVED that the cell is faster besides. SUSPECT looks slower and
    was not confirmed. SHOWN is a figure beside the primary one, which nothing is decided about.
    """

    PASS = "PASS"  # noqa: S105 (no password: a verdict)
    IMPROVED = "IMPROVED"
    REGRESSED = "REGRESSED"
    SUSPECT = "SUSPECT"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    SHOWN = "SHOWN"

    @property
    def is_decided(self) -> bool:
        """Whether the comparison came to an end: nothing is worse than tolerated, or something surely is."""
        return self in (Kind.PASS, Kind.IMPROVED, Kind.REGRESSED)


class Verdict(BaseModel):
    """One metric of one cell against what was before; `reason` is the sentence to show.

    `change` is the signed fraction by which the median differs (-0.129), `worse_by` the fraction in the metric's bad
    direction, negative when better; None where nothing could be compared, or neither way is better. `gates` is true for
    the primary metric, the only one that is decided about: `finding` says how, None where nothing could be compared.
    `tolerated` is a fraction of the time per operation.
    """

    model_config = ConfigDict(frozen=True)

    kind: Kind
    nodeid: str
    config: StorageConfig
    host: str
    workload: str
    nth: int
    metric: str
    unit: str
    gates: bool
    now: float
    then: float | None = None
    change: float | None = None
    worse_by: float | None = None
    tolerated: float | None = None
    finding: Finding | None = None
    waiver: Waiver | None = None
    reason: str

    @property
    def fails(self) -> bool:
        """Whether it turns its test red."""
        return self.gates and self.kind is Kind.REGRESSED and self.waiver is None

    @property
    def is_open(self) -> bool:
        """Whether it was to be decided, and could not be."""
        return self.gates and not self.kind.is_decided

    @property
    def key(self) -> CellKey:
        """The cell it is about, without the host."""
        return CellKey(self.nodeid, self.workload, self.config, self.nth)

    @property
    def about(self) -> str:
        """The workload and its cell."""
        return f"{self.workload} on {self.config.label}"


class MissingCell(BaseModel):
    """A cell that was measured before and that this run lacks."""

    model_config = ConfigDict(frozen=True)

    nodeid: str
    config: StorageConfig
    host: str
    workload: str

    @property
    def about(self) -> str:
        """The workload and its cell."""
        return f"{self.workload} on {self.config.label}, {self.host}"


class Comparison(BaseModel):
    """A run against what was before: a verdict for each shown metric of each cell, and what the run lacks.

    `against` names what was before ("baseline 'main'"), `stack` what of the host's software differs from then, `idle`
    what of the gate file is of no test.
    """

    model_config = ConfigDict(frozen=True)

    against: str
    verdicts: tuple[Verdict, ...] = ()
    missing: tuple[MissingCell, ...] = ()
    stack: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    @cached_property
    def _by_figure(self) -> Mapping[tuple[CellKey, str, str], Verdict]:
        return {(verdict.key, verdict.host, verdict.metric): verdict for verdict in self.verdicts}

    def of(self, key: CellKey, host: str, metric: str) -> Verdict | None:
        """The verdict on that metric of that cell, or None."""
        return self._by_figure.get((key, host, metric))

    @property
    def gated(self) -> tuple[Verdict, ...]:
        """The verdicts on primary metrics."""
        return tuple(verdict for verdict in self.verdicts if verdict.gates)
