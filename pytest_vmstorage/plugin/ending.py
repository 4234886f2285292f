"""The early end of a run: in order at Ctrl-C, SIGTERM and SIGHUP, and with a journal of its samples."""

from __future__ import annotations

import contextlib
import datetime
import os
import signal
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pytest_vmstorage.plugin.xdist.channel import post_of

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_ENDING = b"vmstorage: the run ends: what it made is removed, and the report is written\n"

_PATIENCE_S = 10.0
"""How long after the first signal pytest may take to end the session; later its end was swallowed by somebody."""


class OrderlyEnd:
    """A plugin by which Ctrl-C, SIGTERM and SIGHUP end a run with its guests removed and its report written.

    CI systems send SIGTERM to what they cancel; SIGHUP comes when a terminal is closed or an ssh session is lost, and
    stays ignored where nohup has it so. The first of them interrupts; what comes while the run ends does not, for it
    would cost the report, or leave what is just being removed. That holds for a run that ends by itself, too.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._first_s: float | None = None
        self._is_ending = False

    def install(self) -> None:
        """Take the signals that nobody else has taken; not in another thread than Python gives them to."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _SIGNALS:
            found = signal.getsignal(number)
            if found in (signal.SIG_DFL, signal.default_int_handler):
                self._before[number] = found
                signal.signal(number, self._handle)

    def give_back(self) -> None:
        """Give each signal the handler that it had before."""
        for number, found in self._before.items():
            if signal.getsignal(number) == self._handle:
                signal.signal(number, found)
        self._before.clear()

    def begin(self) -> None:
        """The session ends, for whatever reason: from now on nothing interrupts it."""
        self._is_ending = True

    def pytest_keyboard_interrupt(self) -> None:
        """The session ends because it was interrupted."""
        self.begin()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        now_s = time.monotonic()
        # the session may end for another reason than a signal, as a KeyboardInterrupt of a test's own
        if not self._is_ending and (self._first_s is None or now_s - self._first_s >= _PATIENCE_S):
            self._first_s = now_s
            raise KeyboardInterrupt
        # past Python's own streams, which may be writing just now; a terminal that was closed takes no words
        with contextlib.suppress(OSError):
            os.write(2, _ENDING)


def journal_path(config: pytest.Config) -> Path:
    """The file that this process writes each sample to as it ends; all workers of a run have one."""
    post = post_of(config)
    if post is not None and Path(post.journal).parent.parent == config.rootpath:
        return Path(post.journal)
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    return config.rootpath / ".vmstorage" / f"{stamp}-{os.getpid()}.jsonl"
