"""The protocol of an environment: the place where a cell's workloads run, in one of three forms."""

from __future__ import annotations

from typing import Any, Protocol

from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.measure.system import SystemUnderTest


class Environment(SystemUnderTest, Protocol):
    """A system under test that a lab made, with all that the lab does to it until its release."""

    @property
    def is_emulated(self) -> bool:
        """Whether its processors are emulated: then filling its disk loads them rather than the disk."""

    def check_tool(self, tool: str) -> None:
        """Raise UnsupportedError where a workload's tool is missing."""

    def is_alive(self) -> bool:
        """Whether the environment can still be measured."""

    def pause(self) -> None:
        """Stop its processors and write back its data, so that it disturbs no other measurement.

        Caches are not dropped: that is a step before each round, which the user may leave out.
        """

    def resume(self) -> None:
        """Continue after `pause`."""

    def kill(self) -> None:
        """End at once whatever runs in the environment."""

    def release(self) -> None:
        """Begin to remove whatever was made for the environment."""

    def explain(self, error: VmStorageError) -> VmStorageError:
        """The error with its name and with the evidence that can still be gathered."""

    @property
    def guest(self) -> Guest | None:
        """The guest, None where there is none."""

    @property
    def fixture_value(self) -> Any:
        """Value of the fixture `guest`: the guest, or the environment in its place."""
