"""Messages between a worker of pytest-xdist and its controller, in addition to those of xdist itself.

They talk through a channel of execnet of their own, which lies in the worker's `workerinput`: xdist has no message for
cells, nor for what a worker does before its first test.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vmstorage.lab.division import Work

if TYPE_CHECKING:
    import execnet

    from pytest_vmstorage.plugin.progress_line import Shown
    from pytest_vmstorage.results.run import Measurement


INPUT = "vmstorage"
"""Key of `workerinput`."""

_PATIENCE_S = 60.0

_POST: pytest.StashKey[Post | None] = pytest.StashKey()


class Post:
    """A worker's end: `host` is the one it measures on, "" for none; `hosts` are those of all workers.

    `journal` is the file for the samples of the whole run; `is_live` says whether the controller shows what workers do.
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self.host: str = content["host"]
        self.hosts: tuple[str, ...] = tuple(content["hosts"])
        self.journal: str = content["journal"]
        self.is_live: bool = content["is_live"]
        self._channel: execnet.Channel = content["channel"]
        self._told: dict[tuple[str, int], int] = {}

    def say(self, sentence: str) -> None:
        """Let the controller print a sentence."""
        self._send("say", sentence)

    def tell_cells(self, work: Iterable[Work]) -> None:
        """Tell the cells that were collected; before xdist tells that it collected."""
        self._send("cells", [tuple(one) for one in work])

    def refuse(self, sentence: str) -> None:
        """Let the controller end the run before any test, as a usage error."""
        self._send("refused", sentence)

    def tell_running(self, nodeid: str) -> None:
        """Tell which test is run out of its order, such as for a round of its turn; "" where none is."""
        self._send("running", nodeid)

    def tell_progress(self, shown: Shown) -> None:
        """Tell what this process is at, for the controller to show."""
        self._send("progress", tuple(shown))

    def tell_rounds(self, measured: Iterable[Measurement], hosts: Sequence[dict[str, Any]]) -> None:
        """Tell what a test measured in its turns so far, each round once: should the process die, it is not lost."""
        for place, one in enumerate(measured):
            told = self._told.get((one.nodeid, place), 0)
            self._told[one.nodeid, place] = len(one.samples)
            row = one.model_dump(mode="json", exclude={"samples"})
            new = [sample.model_dump(mode="json") for sample in one.samples[told:]]
            self._send("rounds", (place, row, told, new, list(hosts)))

    def wait_for_own(self) -> list[int]:
        """The places of the tests with a cell that are this worker's: they were sent before the first test was."""
        return list(self._channel.receive(_PATIENCE_S))

    def _send(self, kind: str, content: object) -> None:
        # where the controller is gone xdist ends this process
        with contextlib.suppress(OSError):
            self._channel.send((kind, content))


def post_of(config: pytest.Config) -> Post | None:
    """A worker's way to its controller; None in any other process."""
    if _POST not in config.stash:
        content = getattr(config, "workerinput", {}).get(INPUT)
        config.stash[_POST] = None if content is None else Post(content)
    return config.stash[_POST]
