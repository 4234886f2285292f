"""The protocol of an environment: where a cell's workloads run, in whatever of three forms."""

from __future__ import annotations

from typing import Any, Protocol

from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.measure.system import SystemUnderTest


class Environment(SystemUnderTest, Protocol):
    """A system under test that a lab made, and what the lab does with it from its making to its release."""

    @property
    def is_emulated(self) -> bool:
        """Whether its processors are emulated: then filling its disk takes them, and not the disk."""

    def check_tool(self, tool: str) -> None:
        """Raise UnsupportedError where a workload's tool is missing."""

    def is_alive(self) -> bool:
        """Whether it is still there to be measured."""

    def pause(self) -> None:
        """Let it wait: its processors stop, and nothing of it is left to be written while others are measured.

        Nothing is dropped: that is done before each round, unless the user wants it left out.
        """

    def resume(self) -> None:
        """Let it go on after `pause`."""

    def kill(self) -> None:
        """End what runs in it at once; nobody waits for it any more."""

    def release(self) -> None:
        """Begin to remove what was made for it."""

    def explain(self, error: VmStorageError) -> VmStorageError:
        """The error with the name of what happened, and with the evidence that can still be had."""

    @property
    def guest(self) -> Guest | None:
        """Its guest, None where it has none."""

    @property
    def fixture_value(self) -> Any:
        """What the fixture `guest` gives to a test: the guest, or what stands in its place."""
