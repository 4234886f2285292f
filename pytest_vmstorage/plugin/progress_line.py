"""Sentences that are printed while cells run, and on a terminal a live line: rounds done, time left, cell and step."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TextIO

import pytest

from pytest_vmstorage.text import plain, plain_line
from pytest_vmstorage.units import format_duration

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


_SAVE, _RESTORE, _ERASE = "\x1b7", "\x1b8", "\x1b[K"
_LEAST_COLUMNS = 24
_TICK_S = 1.0
_LEAST_GAPS = 99
"""What is asked in a hundredth of the time rests so many times as long as it took."""


class Shown(NamedTuple):
    """What a process is at: rounds that are `done` of all, the seconds left, the cell and the step that it is in."""

    done: int
    rounds: int
    left_s: float
    cell: str
    step: str


class TerminalLine:
    """A line behind what pytest has on its own; nothing is written where there is no terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        # the line is written anew by a thread of its own, too
        self._lock = threading.RLock()

    @functools.cached_property
    def _reporter(self) -> TerminalReporter | None:
        # a controller of xdist is made before it
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        return reporter if _on_terminal(self._config, reporter) else None

    @property
    def is_there(self) -> bool:
        """Whether there is a terminal."""
        return self._reporter is not None

    def show(self, text: str) -> None:
        """Show the text in place of what was shown before."""
        if self._reporter is None:
            return
        writer = self._reporter._tw  # noqa: SLF001 (the only way to the column the cursor is in)
        room = writer.fullwidth - writer.width_of_current_line - 3
        if room < _LEAST_COLUMNS:
            return
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        stream: TextIO = writer._file  # noqa: SLF001
        shown = f"  {plain_line(text)[:room]}" if text else ""
        with self._lock, capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            stream.write(f"{_SAVE}{_ERASE}{shown}{_RESTORE}")
            stream.flush()

    @contextlib.contextmanager
    def erased(self) -> Iterator[None]:
        """Nothing is shown in the block."""
        with self._lock:
            self.show("")
            yield


class LiveLine:
    """What the cell at hand is at, told to `tell` at each step, and "" as the step where it is at nothing.

    `so_far` says how many rounds are done, of how many, and how many seconds are left; without `tell` it is not asked.
    It looks at every test of the run, so it is asked in a hundredth of the time at most, and never while a round is
    taken: in between, the seconds are counted down.
    """

    def __init__(
        self,
        so_far: Callable[[], tuple[int, int, float]],
        tell: Callable[[Shown], None] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._so_far, self._tell, self._clock = so_far, tell, clock
        self._cell = self._step = ""
        self._known: tuple[int, int, float] | None = None
        self._known_at = self._not_before = 0.0

    def begin_cell(self, cell: str) -> None:
        """A test of that cell begins, or goes on."""
        self._cell = cell

    def say(self, step: str) -> None:
        """Tell the step that the cell at hand is in."""
        self._step = step
        if self._tell is not None:
            self._look()
            self._show(self._tell)

    def clear(self) -> None:
        """Tell that nothing is being done."""
        self.say("")

    def _look(self) -> None:
        begin = self._clock()
        if self._known is None or begin >= self._not_before:
            self._known = self._so_far()
            self._known_at = self._clock()
            self._not_before = self._known_at + _LEAST_GAPS * (self._known_at - begin)

    def _show(self, tell: Callable[[Shown], None]) -> None:
        if self._known is not None:
            done, rounds, left_s = self._known
            tell(Shown(done, rounds, left_s - (self._clock() - self._known_at), self._cell, self._step))

    @contextlib.contextmanager
    def counting_down(self) -> Iterator[None]:
        """Tell the step at hand each second of the block, in which no code of a user runs."""
        if self._tell is None:
            yield
            return
        is_over = threading.Event()
        thread = threading.Thread(target=self._count, args=(is_over, self._tell), name="vmstorage-live", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _count(self, is_over: threading.Event, tell: Callable[[Shown], None]) -> None:
        while not is_over.wait(_TICK_S):
            if self._step:
                self._show(tell)


def write_sentence(config: pytest.Config, sentence: str) -> None:
    """Print a sentence past pytest's capturing."""
    reporter, capture = map(config.pluginmanager.get_plugin, ("terminalreporter", "capturemanager"))
    if reporter is None or capture is None:
        return
    with capture.global_and_fixture_disabled():
        reporter.ensure_newline()
        if reporter._tw.width_of_current_line:  # noqa: SLF001 (no public name for it)
            # --setup-show begins its lines with their newline
            reporter.write_line("")
        reporter.write_line(plain(f"vmstorage: {sentence}"))
        # into a file, such as a CI job's log, Python writes when it has 8 KiB, and this may be all for minutes
        reporter.flush()


def count_text(number: int, noun: str) -> str:
    """So many of them: "1 cell", "2 cells"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def status_line(shown: Shown) -> str:
    """The text of the line, what matters most first: a narrow terminal cuts its end."""
    if not shown.step:
        return ""
    return f"[{shown.done}/{count_text(shown.rounds, 'round')}, {time_words(shown.left_s)}] {shown.cell}: {shown.step}"


def time_words(seconds: float) -> str:
    """The time that is left, in words: "about 3 min 20 s left"."""
    return f"about {format_duration(max(1, round(seconds)))} left".replace(".0 s", " s")


def together(shown: Mapping[str, Shown]) -> Shown:
    """What several processes are at, by host: all rounds, the longest time, and the step that was told last."""
    host, last = next(((host, one) for host, one in reversed([*shown.items()]) if one.step), next(iter(shown.items())))
    return Shown(
        done=sum(one.done for one in shown.values()),
        rounds=sum(one.rounds for one in shown.values()),
        left_s=max(one.left_s for one in shown.values()),
        cell=f"{host}: {last.cell}" if len(shown) > 1 else last.cell,
        step=last.step,
    )


def _on_terminal(config: pytest.Config, reporter: TerminalReporter | None) -> bool:
    if reporter is None or hasattr(config, "workerinput"):
        return False
    return bool(reporter.isatty) and config.get_verbosity() >= 0 and os.environ.get("TERM") != "dumb"
