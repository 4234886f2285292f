"""Sentences that are printed while cells run, and on a terminal a live line with cell, step and time to go."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, TextIO

import pytest

from pytest_vmstorage.text import plain, plain_line
from pytest_vmstorage.units import format_duration

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter


_SAVE, _RESTORE, _ERASE = "\x1b7", "\x1b8", "\x1b[K"
_LEAST_COLUMNS = 24


class LiveLine:
    """Written behind what pytest has on its line, and erased before pytest goes on."""

    def __init__(self, config: pytest.Config, cells: int) -> None:
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        self._reporter: TerminalReporter | None = reporter if _on_terminal(config, reporter) else None
        self._config = config
        self.expect(cells)

    def expect(self, cells: int) -> None:
        """So many turns of cells are ahead; one that comes several times counts so often."""
        self._cells = cells
        self._begun = 0
        self._begin = time.monotonic()
        self._cell = ""

    def begin_cell(self, cell: str) -> None:
        """A test of another cell begins."""
        if cell != self._cell:
            self._cell = cell
            self._begun += 1

    def end_cell(self) -> None:
        """The next cell counts as a turn of its own, also where it is the same cell."""
        self._cell = ""

    def say(self, step: str) -> None:
        """Show the step that the cell at hand is in."""
        if self._reporter is not None:
            self._write(status_line(self._cell, step, self._begun, self._cells, self._seconds_left()))

    def clear(self) -> None:
        """Erase the line."""
        if self._reporter is not None:
            self._write("")

    def _seconds_left(self) -> float | None:
        done = self._begun - 1
        return (time.monotonic() - self._begin) / done * (self._cells - done) if done > 0 else None

    def _write(self, text: str) -> None:
        assert self._reporter is not None
        writer = self._reporter._tw  # noqa: SLF001 (the only way to the column the cursor is in)
        room = writer.fullwidth - writer.width_of_current_line - 3
        if room < _LEAST_COLUMNS:
            return
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        stream: TextIO = writer._file  # noqa: SLF001
        shown = f"  {plain_line(text)[:room]}" if text else ""
        with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            stream.write(f"{_SAVE}{_ERASE}{shown}{_RESTORE}")
            stream.flush()


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


def status_line(cell: str, step: str, number: int, cells: int, seconds_left: float | None) -> str:
    """The text of the line."""
    left = "" if seconds_left is None else f", about {format_duration(seconds_left)} left"
    return f"[{number}/{cells} {cell}] {step}{left}"


def _on_terminal(config: pytest.Config, reporter: TerminalReporter | None) -> bool:
    if reporter is None or hasattr(config, "workerinput"):
        return False
    return bool(reporter.isatty) and config.get_verbosity() >= 0 and os.environ.get("TERM") != "dumb"
