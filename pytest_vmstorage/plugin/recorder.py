"""Gathers what tests measured from their reports, so that one code path serves with and without xdist."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vmstorage.plugin import options

if TYPE_CHECKING:
    from pytest_vmstorage.gate import Comparison
    from pytest_vmstorage.results import Run

ATTRIBUTE = "vmstorage"
"""Attribute of a TestReport that carries figures from a worker to the controller; JUnit does not see it."""


class Recorder:
    """The run as reports come in; on the controller, or in the only process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._started = datetime.datetime.now(datetime.timezone.utc).isoformat()
        self._hosts: dict[str, dict[str, Any]] = {}
        self._measurements: list[dict[str, Any]] = []
        self._failures: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what the report carries, and pass it on to pytest-benchmark."""
        carried = getattr(report, ATTRIBUTE, None)
        if carried is None:
            return
        for host in carried.get("hosts", ()):
            self._hosts[host["name"]] = host
        if "failure" in carried:
            self._failures[report.nodeid] = carried["failure"]
        measurements = carried.get("measurements", ())
        self._measurements += measurements
        if measurements:
            from pytest_vmstorage.plugin.benchmark import add_rows

            add_rows(self._config, measurements)

    @property
    def is_empty(self) -> bool:
        """Whether no test of this run had to do with storage."""
        return not (self._measurements or self._failures)

    def run(self) -> Run:
        """All that was measured so far."""
        from pytest_vmstorage.results import Run

        return Run.model_validate(
            {
                "started": self._started,
                "hosts": list(self._hosts.values()),
                "measurements": self._measurements,
                "failures": list(self._failures.values()),
            }
        )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the matrix and write the report files."""
        if self.is_empty:
            return
        from pytest_vmstorage.report.files import write_report
        from pytest_vmstorage.report.table import build_table
        from pytest_vmstorage.report.text import render_text

        run = self.run()
        comparison = self._comparison(run)
        lines = render_text(build_table(run, comparison), terminalreporter._tw.fullwidth).splitlines()
        self._config.hook.pytest_vmstorage_report(
            config=self._config, run=run, comparison=comparison, lines=lines
        )
        terminalreporter.section("VM storage")
        for line in lines:
            terminalreporter.write_line(line)
        for path in options.report_paths(self._config):
            write_report(path, run, comparison)
            terminalreporter.write_line(f"wrote {path}")

    def _comparison(self, run: Run) -> Comparison | None:
        from pytest_vmstorage.baseline import load_baseline
        from pytest_vmstorage.gate import compare
        from pytest_vmstorage.plugin.session import storage_folder
        from pytest_vmstorage.units import parse_percent

        name = options.value(self._config, "baseline")
        if not name:
            return None
        baseline = load_baseline(name, storage_folder(self._config))
        return compare(run, baseline, parse_percent(options.value(self._config, "max-regression")))

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Put the whole run, raw samples and all, into the file that pytest-benchmark saves."""
        if not self.is_empty:
            output_json[ATTRIBUTE] = self.run().model_dump(mode="json")
