"""What one pytest process measures with: the lab, opened once and late, and what each test measured in it."""

from __future__ import annotations

import datetime
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import ConfigError, GuestError, UnsupportedError, VmStorageError, WorkloadError
from pytest_vmstorage.gate import compare
from pytest_vmstorage.image_runner import measure_images
from pytest_vmstorage.journal import Journal
from pytest_vmstorage.lab import Lab, Row
from pytest_vmstorage.native import Native
from pytest_vmstorage.natives import Natives
from pytest_vmstorage.opening import open_lab
from pytest_vmstorage.plugin import options
from pytest_vmstorage.plugin.keys import CONFIG, FAILED, MEASURED, uses
from pytest_vmstorage.plugin.live import LiveLine
from pytest_vmstorage.results import Failure, Measurement, Run, Sample
from pytest_vmstorage.runner import measure
from pytest_vmstorage.subject import Plan
from pytest_vmstorage.workloads.base import Workload
from pytest_vmstorage.workloads.image_operations import ImageOperations


class StorageSession:
    """One pytest process's lab, plan and journal; everything about a run that is not pytest's."""

    def __init__(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self._config = config
        self._settings = options.lab_settings(config)
        self._rounds = options.rounds(config)
        self._tolerated = options.tolerated(config)
        self._baseline = options.baseline(config)
        self._lab: Lab | None = None
        self._broken: VmStorageError | None = None
        self._natives = Natives()
        self._journal = Journal(_journal_path(config))
        self.live = LiveLine(config, len({item.stash[CONFIG] for item in items if CONFIG in item.stash}))

    def lab(self) -> Lab:
        """The lab, opened at the first call; once it failed to open it fails the same way for the rest of the run."""
        if self._broken is not None:
            raise self._broken
        if self._lab is None:
            try:
                self._lab = self._open()
            except VmStorageError as error:
                self._broken = error
                raise
        return self._lab

    def _open(self) -> Lab:
        _end_orderly_on_sigterm()
        lab: Lab | None = self._config.hook.pytest_vmstorage_open_lab(
            config=self._config, settings=self._settings, say=self.announce
        )
        return open_lab(self._settings, self.announce) if lab is None else lab

    def announce(self, sentence: str) -> None:
        """Print a sentence about what is being set up, past pytest's capturing."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        capture = self._config.pluginmanager.get_plugin("capturemanager")
        if reporter is None or capture is None:
            return
        self.live.clear()
        with capture.global_and_fixture_disabled():
            reporter.write_line(f"vmstorage: {sentence}")

    def row(self, item: pytest.Item, config: StorageConfig) -> Row:
        """The guest of the test's cell, or the host where the cell has none."""
        self.live.begin_cell(str(config))
        # a guest that boots, or is torn down, takes CPU time from another process's measurement: it takes its turn
        with self._outcomes(item), self.lab().alone(self.live.say):
            row = self.lab().row(config, self.live.say)
            self.lab().pool.settle()
        return row

    def measure(self, item: pytest.Item, row: Row, workload: Workload, rounds: int | None, warmup: int) -> Measurement:
        """Run the workload in the test's row, alone on the host; the measurement is kept for the report."""
        lab = self.lab()

        def keep_sample(sample: Sample) -> None:
            self._journal.write(item.nodeid, workload.label, row.config, lab.host.name, sample)

        with self._outcomes(item), lab.alone(self.live.say):
            if workload.needs_image:
                raise ConfigError(f"measure cannot run {workload.label}.", hint="Run it with measure_image.")
            plan = self._plan(rounds, warmup)
            # teardowns of earlier guests would run beside the measurement
            lab.pool.settle()
            if isinstance(row, Native):
                row.check_tool(workload.tool, lab.host.name)
            try:
                measured = measure(lab.subject(row), workload, plan, say=self.live.say, keep_sample=keep_sample)
            except (WorkloadError, GuestError) as error:
                raise lab.explain(row, error) from None
            if workload.moved_bytes(measured.raw[0]) is not None:
                # what went through a guest's page cache may be faster than any device, and is not counted anywhere
                self._natives.check(measured, lab.facts)
        measured = measured.model_copy(update={"nodeid": item.nodeid})
        item.stash.setdefault(MEASURED, []).append(measured)
        return measured

    def measure_image(
        self, item: pytest.Item, config: StorageConfig, workload: ImageOperations, rounds: int | None, warmup: int
    ) -> Measurement:
        """Time operations on images of the test's cell, alone on the host; kept for the report like any other."""
        self.live.begin_cell(str(config))

        def keep_sample(sample: Sample) -> None:
            self._journal.write(item.nodeid, workload.label, config, lab.host.name, sample)

        with self._outcomes(item):
            if not workload.needs_image:
                raise ConfigError(f"measure_image cannot run {workload.label}.", hint="Run it with measure.")
            plan, lab = self._plan(rounds, warmup), self.lab()
            with lab.alone(self.live.say), lab.images(config, workload, self.live.say) as bench:
                measured = measure_images(bench, workload, plan, say=self.live.say, keep_sample=keep_sample)
        measured = measured.model_copy(update={"nodeid": item.nodeid})
        item.stash.setdefault(MEASURED, []).append(measured)
        return measured

    def _plan(self, rounds: int | None, warmup: int) -> Plan:
        wanted = self._rounds if rounds is None else rounds
        if wanted < 1 or warmup < 0:
            raise ConfigError(
                f"measure(rounds={wanted}, warmup={warmup}) is no plan.",
                hint="rounds is 1 or more, warmup 0 or more.",
            )
        return Plan(rounds=wanted, warmup=warmup, timeout_s=self._settings.timeout_s)

    @contextmanager
    def _outcomes(self, item: pytest.Item) -> Iterator[None]:
        """Turn our errors into pytest's outcomes: one sentence and no traceback."""
        try:
            yield
        except UnsupportedError as error:
            item.stash[FAILED] = str(error)
            if options.value(self._config, "strict"):
                raise pytest.fail.Exception(f"--vm-strict: {error}", pytrace=False) from None
            raise pytest.skip.Exception(str(error)) from None
        except VmStorageError as error:
            item.stash[FAILED] = error.what
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        finally:
            self.live.clear()

    def judge(self, item: pytest.Item) -> None:
        """Fail the test where a primary figure is worse than the baseline tolerates."""
        measured = item.stash.get(MEASURED, [])
        if self._baseline is None or not measured:
            return
        run = Run(started="", hosts=(self.lab().facts,), measurements=tuple(measured))
        comparison = compare(run, self._baseline, self._tolerated)
        reasons = [verdict.reason for verdict in comparison.verdicts if verdict.fails]
        if reasons:
            raise pytest.fail.Exception("\n".join(reasons), pytrace=False)

    def note_failure(self) -> None:
        """A test failed: with --vm-keep its guest is the one to keep."""
        if self._lab is not None:
            self._lab.note_failure()

    def hosts(self) -> list[dict[str, Any]]:
        """What is known of the host as plain JSON values, to travel with a report to the controller."""
        return [self._lab.facts.model_dump(mode="json")] if self._lab is not None else []

    def failure(self, item: pytest.Item, reason: str, outcome: str) -> dict[str, Any]:
        """A cell without a figure as plain JSON values."""
        host = self._lab.host.name if self._lab is not None else (self._settings.host or "local")
        config: StorageConfig = item.stash[CONFIG]
        cell = {"nodeid": item.nodeid, "config": config, "host": host, "reason": reason, "outcome": outcome}
        cell["on_host"] = uses(item, "measure_image") and not uses(item, "guest")
        return Failure.model_validate(cell).model_dump(mode="json")

    def close(self) -> None:
        """Remove all that this process made; says how to reach a guest that is kept."""
        self._journal.close()
        if self._lab is None:
            return
        lab, self._lab = self._lab, None
        try:
            kept = lab.close()
        except VmStorageError as error:
            # raised here it would cost the user the report; the next run removes what is left
            self.announce(f"not all was removed: {error}")
            return
        if kept is not None:
            self.announce(
                f"kept the guest of {kept.config}: `vmstorage exec {lab.lease.run_id} uname -a` runs a command in it, "
                "`vmstorage reap --kept` removes it"
            )


def _end_orderly_on_sigterm() -> None:
    """Let SIGTERM end the run as Ctrl-C does: CI systems send it to what they cancel, and guests must go then too."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _journal_path(config: pytest.Config) -> Path:
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    return config.rootpath / ".vmstorage" / f"{stamp}-{os.getpid()}.jsonl"
