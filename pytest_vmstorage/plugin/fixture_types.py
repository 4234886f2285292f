"""Types of the fixtures, for test files that annotate their arguments; no run loads them unless a test names one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_vmstorage.config.selector import CellSelector
    from pytest_vmstorage.plugin.cell_assertions import Policy
    from pytest_vmstorage.results.run import Measurement
    from pytest_vmstorage.workloads.base import Workload
    from pytest_vmstorage.workloads.image_operations import ImageOperations


class Measure(Protocol):
    """The type of the `measure` fixture."""

    def __call__(self, workload: Workload, *, rounds: int | None = None, warmup: int = 1) -> Measurement:
        """Run the workload on the disk under test; all rounds' figures come back in one Measurement."""


class MeasureImage(Protocol):
    """The type of the `measure_image` fixture."""

    def __call__(self, workload: ImageOperations, *, rounds: int | None = None, warmup: int = 0) -> Measurement:
        """Make an image of the cell in each round and time what is done to it; all figures in one Measurement."""


class AssertRatio(Protocol):
    """The type of the `assert_ratio` fixture."""

    def __call__(
        self,
        one: CellSelector,
        other: CellSelector,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        workload: str = "*",
        metric: str | None = None,
        other_workload: str | None = None,
        other_metric: str | None = None,
        where: CellSelector | None = None,
        inconclusive: Policy | None = None,
    ) -> None:
        """Assert that the one cell's figure over the other's lies within bounds; see `Cells.assert_ratio`."""


class AssertFastest(Protocol):
    """The type of the `assert_fastest` fixture."""

    def __call__(
        self,
        chosen: CellSelector,
        *,
        tolerance: float = 0.0,
        workload: str = "*",
        metric: str | None = None,
        where: CellSelector | None = None,
        inconclusive: Policy | None = None,
    ) -> None:
        """Assert that no other cell is faster than the chosen one; see `Cells.assert_fastest`."""


class AssertMonotonic(Protocol):
    """The type of the `assert_monotonic` fixture."""

    def __call__(
        self,
        axis: str,
        *,
        falling: bool = False,
        tolerance: float = 0.02,
        workload: str = "*",
        metric: str | None = None,
        where: CellSelector | None = None,
        inconclusive: Policy | None = None,
    ) -> None:
        """Assert that figures rise along the axis, or with `falling` fall; see `Cells.assert_monotonic`."""
