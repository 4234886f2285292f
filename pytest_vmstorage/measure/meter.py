"""The meter: reads the counts of the disk under test twice a second while a tool runs, in a thread of its own.

A round neither fails nor waits because of it: what is not answered is a reading lost, and the series says how many
were. Nothing is read between rounds, and nothing after the guest has ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from pytest_vmstorage.errors import GuestDiedError, LostError
from pytest_vmstorage.results.series import STEP_S, Counted, Counts, Series, Source, series_of

LAST_S = 0.5
"""Time for the answer to the last reading: other counters are read meanwhile, by the same way."""


class Meter:
    """A context in which a tool runs, and the series of it; `count` gives the counts, None where nothing counts.

    The first reading is taken before the tool starts and the last one from `stop` on, so that all that the tool moved
    lies between them. Where the disk has moved nothing since its counts were read, `first` has them, and the tool does
    not wait for another answer. `count` is called in a thread, while the shell is in use. `stop`ped by an event of your
    own, the meter waits by that, and has its time from `clock`.
    """

    def __init__(
        self,
        count: Callable[[], Counts | None],
        *,
        first: Counts | None = None,
        clock: Callable[[], float] = time.monotonic,
        stopped: threading.Event | None = None,
    ) -> None:
        self._count = count
        self._clock = clock
        self._stopped = stopped or threading.Event()
        self._origin = clock()
        self._readings: list[Counted] = [Counted(0.0, first)] if first is not None else []
        self._lost = 0
        self._is_wanted = True
        # a daemon: a reading that is never answered does not keep the process
        self._thread = threading.Thread(target=self._run, name="vmstorage-meter", daemon=True)
        self._counts = False

    def __enter__(self) -> Self:
        self._counts = bool(self._readings) or self._read()
        self._origin = self._clock()
        if self._readings:
            self._readings = [self._readings[0]._replace(at_s=0.0)]
        if self._counts:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_wanted = False
        self._end()

    def stop(self) -> None:
        """Take the last reading: the tool has ended. Other work can go on meanwhile."""
        self._stopped.set()

    def series(self, counted_by: Source, warm_up_s: float = 0.0) -> Series | None:
        """The series up to the last reading, which is lost where it does not come; None where nothing counts."""
        is_last_here = self._end()
        if not self._counts:
            return None
        readings, lost = list(self._readings), self._lost
        return series_of(readings, counted_by, lost=lost + (not is_last_here), warm_up_s=warm_up_s)

    def _end(self) -> bool:
        """Whether the thread has ended in time."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(LAST_S)
        self._is_wanted = False
        return not self._thread.is_alive()

    def _run(self) -> None:
        due = 1
        while not self._stopped.wait(max(0.0, self._origin + due * STEP_S - self._clock())):
            if not self._read():
                return
            # while an answer is waited for, the moments of further readings pass
            passed = int((self._clock() - self._origin) / STEP_S)
            self._lost += max(0, passed - due)
            due = max(due, passed) + 1
        if self._is_wanted:
            self._read()

    def _read(self) -> bool:
        """Take a reading, or lose it; False where there is nothing to be read any more."""
        asked = self._clock()
        try:
            counts = self._count()
        except (GuestDiedError, LostError):
            # to ask again would make a lost connection again, for which those wait who can tell of it
            return False
        except Exception:
            # whatever it is, the round has a figure without it
            self._lost += 1
            return True
        if counts is None:
            return False
        # counted somewhere between question and answer
        self._readings.append(Counted((asked + self._clock()) / 2 - self._origin, counts))
        return True
