"""A clock in a test's hands: on a busy machine the real one counts other work too."""

from __future__ import annotations


class Clock:
    """Stands in for the module `time`; only pauses move it, and tests that set `now`. `slept` has the pauses, in s."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        """The present time in seconds."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Pause, in no time."""
        self.slept.append(seconds)
        self.now += seconds
