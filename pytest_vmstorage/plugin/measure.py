"""What the fixtures `measure` and `measure_image` are, for those who annotate them: no run loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pytest_vmstorage.results import Measurement
    from pytest_vmstorage.workloads.base import Workload
    from pytest_vmstorage.workloads.image_operations import ImageOperations


class Measure(Protocol):
    """What the `measure` fixture is."""

    def __call__(self, workload: Workload, *, rounds: int | None = None, warmup: int = 1) -> Measurement:
        """Run the workload on the disk under test; all rounds' figures come back in one Measurement."""


class MeasureImage(Protocol):
    """What the `measure_image` fixture is."""

    def __call__(self, workload: ImageOperations, *, rounds: int | None = None, warmup: int = 0) -> Measurement:
        """Make an image of the cell in each round and time what is done to it; all figures in one Measurement."""
