"""Measurements and outcomes of tests, gathered from their reports, and written at the end: with and without xdist."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import CONFIG, DESELECTED, FAILED, MAKING, MEASURED, SESSION
from pytest_vmstorage.plugin.timing import timelines
from pytest_vmstorage.text import plain, plain_line

if TYPE_CHECKING:
    from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict
    from pytest_vmstorage.analysis.history.history import BaselineHistory
    from pytest_vmstorage.plugin.session import StorageSession
    from pytest_vmstorage.results.run import Measurement, Outcome, Run


ATTRIBUTE = "vmstorage"
"""Attribute of a TestReport that carries figures from a worker to the controller; JUnit does not see it."""

_RED = ("failed", "error")
_BEGINNINGS = ("reason: ", "Skipped: ", "Failed: ")
"""pytest's words before the reason of a mark, of pytest.skip() and of pytest.fail()."""


class Outcomes:
    """The outcome and its reason of each test that is being reported.

    A test has a report for each of its phases, and a plugin that runs it again begins anew with that of its set-up.
    Subtests have some of their own, before that of the call; where reports are held back, before that of the set-up.
    """

    def __init__(self) -> None:
        self._found: dict[_Place, tuple[Outcome, str]] = {}
        self._subtests: dict[_Place, tuple[Outcome, str]] = {}

    def note(self, report: pytest.TestReport) -> None:
        """Take a phase's report."""
        place, found = _place(report), _outcome_of(report)
        if hasattr(report, "context"):
            # the test goes on after a subtest, and one that was skipped or passed says nothing of it
            if found == "failed":
                self._subtests.setdefault(place, (found, _message(report)))
            return
        if str(report.outcome) == "rerun" or (report.when == "setup" and place in self._found):
            self._subtests.pop(place, None)
        if report.when == "setup":
            self._found.pop(place, None)
        before = self._found.get(place, ("passed", ""))[0]
        # what failed first is why; a phase that went well takes nothing back
        if found and (before == "passed" or (found in _RED and before not in _RED)):
            self._found[place] = (found, _message(report) if found != "passed" else "")

    def take(self, report: pytest.TestReport) -> tuple[Outcome, str]:
        """The outcome of the test whose last report this is, with its reason."""
        found = self._found.pop(_place(report), ("", ""))
        return self._subtests.pop(_place(report), found)

    def of(self, nodeid: str) -> tuple[Outcome, str]:
        """The outcome so far of a test that came to no last report, such as one whose worker was killed."""
        return next((told for (other, _), told in self._open.items() if other == nodeid), ("", ""))

    def crashed(self) -> Iterator[tuple[str, Outcome, str]]:
        """Each test that failed and came to no last report, with its outcome and reason."""
        for (nodeid, _), (outcome, message) in self._open.items():
            if outcome in _RED:
                yield nodeid, outcome, message

    @property
    def _open(self) -> dict[_Place, tuple[Outcome, str]]:
        return {**self._found, **self._subtests}


_Place = tuple[str, str]


def _place(report: pytest.TestReport) -> _Place:
    # with xdist's --dist=each several workers run one test
    return report.nodeid, str(getattr(report, "worker_id", ""))


def _outcome_of(report: pytest.TestReport) -> Outcome:
    """The outcome that a phase gives its test, "" where it gives none, as in a run that another plugin takes back."""
    if report.failed:
        return "error" if report.when in ("setup", "teardown") else "failed"
    if report.skipped:
        return "xfailed" if hasattr(report, "wasxfail") else "skipped"
    if report.passed and report.when == "call":
        return "xpassed" if hasattr(report, "wasxfail") else "passed"
    return ""


def _told(outcome: Outcome, message: str) -> dict[str, str]:
    """An outcome and its reason as fields of a test's row; the code of a refusal has a field of its own too."""
    from pytest_vmstorage.errors import split_code

    return {"outcome": outcome, "message": message, "code": split_code(message)[1]}


def _message(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The first line of what the test failed with, or of why it was skipped."""
    why = getattr(report, "wasxfail", None)
    if why is None:
        longrepr = report.longrepr
        crash = getattr(longrepr, "reprcrash", None)
        why = longrepr[2] if isinstance(longrepr, tuple) else crash.message if crash else str(longrepr or "")
    first = next((line for line in str(why).splitlines() if line.strip()), "")
    for beginning in _BEGINNINGS:
        first = first.removeprefix(beginning)
    return plain_line(first)


class Recorder:
    """The run as reports come in; on the controller of xdist, or in the only process."""

    def __init__(self, config: pytest.Config) -> None:
        self._config, self._settings = config, settings_of(config)
        self._started = datetime.datetime.now(datetime.UTC).isoformat()
        self._hosts: dict[str, dict[str, Any]] = {}
        self._tests: dict[_Place, dict[str, Any]] = {}
        self._benchmarks: dict[_Place, list[Any]] = {}
        self._failures: dict[_Place, dict[str, Any]] = {}
        self._rowless: dict[_Place, dict[str, Any]] = {}
        self._unreported: list[dict[str, Any]] = []
        self._outcomes = Outcomes()
        # before there was a recorder: it is made when the first storage test is known
        self._left_out = {item.nodeid for item in config.stash.get(DESELECTED, [])}
        self._notes: list[str] = []
        self._has_told = False
        # what lay there before pytest-benchmark saved this run, if it does
        self._saved_before: Sequence[Path] | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what the report carries. Of a test that another plugin runs again its last run counts."""
        self._outcomes.note(report)
        carried, place = getattr(report, ATTRIBUTE, {}), _place(report)
        if report.when == "setup":
            self._failures.pop(place, None)
        for host in carried.get("hosts", ()):
            self._hosts[host["name"]] = host
        if "failure" in carried:
            self._failures[place] = carried["failure"]
        if report.when == "teardown":
            outcome, message = self._outcomes.take(report)
            has_part = hasattr(report, ATTRIBUTE) or outcome in _RED
            self._end_test(place, carried, _told(outcome, message), has_part=has_part)

    def _end_test(self, place: _Place, carried: dict[str, Any], told: dict[str, str], *, has_part: bool) -> None:
        """Take a test's outcome, with its measurements where it has any; `has_part` if it counts without a row."""
        if "measurements" in carried:
            from pytest_vmstorage.plugin.benchmark import put_rows

            self._tests[place] = {**carried}
            self._benchmarks[place] = put_rows(self._config, carried["measurements"], self._benchmarks.get(place, []))
            if not carried["is_incomplete"]:
                # a subtest that failed before the test came to measure
                self._failures.pop(place, None)
        test = self._tests.get(place, {"measurements": []})
        test["measurements"] = [{**one, **told} for one in test["measurements"]]
        if place in self._failures:
            self._failures[place] = {**self._failures[place], "test_outcome": told["outcome"]}
        self._rowless.pop(place, None)
        if not (test["measurements"] or place in self._failures) and has_part:
            self._rowless[place] = {"nodeid": place[0], **told}

    def add(self, measurements: Sequence[Measurement], hosts: Sequence[dict[str, Any]]) -> None:
        """Take what was measured for tests that came to no report."""
        if measurements:
            self._hosts.update({host["name"]: host for host in hosts})
            for one in measurements:
                outcome, message = self._outcomes.of(one.nodeid)
                self._unreported.append({**one.model_dump(mode="json"), **_told(outcome, message)})

    @property
    def is_empty(self) -> bool:
        """Whether no test of this run had to do with storage."""
        return not (self._tests or self._unreported or self._failures)

    def _all(self, name: str) -> list[dict[str, Any]]:
        """What the tests' last reports carried under that name."""
        return [one for carried in self._tests.values() for one in carried[name]]

    def run(self) -> Run:
        """All that was measured so far."""
        from pytest_vmstorage.results.run import Run

        variant = self._settings.variant
        measurements, against = [*self._all("measurements"), *self._unreported], self._all("against")
        failures = list(self._failures.values())
        with_row = {one["nodeid"] for one in (*measurements, *failures)}
        return Run.model_validate(
            {
                "started": self._started,
                "hosts": list(self._hosts.values()),
                "measurements": measurements,
                "failures": failures,
                "against": against,
                "recipe": variant.text if variant and against else "",
                "timelines": timelines(self._config),
                "rowless": [one for one in self._without_row() if one["nodeid"] not in with_row],
            }
        )

    def _without_row(self) -> Iterator[dict[str, Any]]:
        """Each test or file that may have no row and has a part in the run's outcome."""
        yield from self._rowless.values()
        for nodeid, outcome, message in self._outcomes.crashed():
            yield {"nodeid": nodeid, **_told(outcome, message)}
        # collection was over before there was a recorder
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        for report in reporter.stats.get("error", ()) if reporter is not None else ():
            if isinstance(report, pytest.CollectReport):
                yield {"nodeid": report.nodeid, **_told("error", _message(report))}

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """A test that the user left out is not missing from the run."""
        self._left_out.update(item.nodeid for item in items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the report files, before any plugin's summary can fail."""
        if self.is_empty:
            return
        from pytest_vmstorage.plugin.benchmark import WHICH_IS_WHICH, settle_tables
        from pytest_vmstorage.plugin.gate import fail_missing
        from pytest_vmstorage.report.formats import append_summary

        run, settings = self.run(), self._settings
        comparison = self.comparison(run)
        fail_missing(session, comparison)
        if comparison is not None and comparison.missing:
            # which may be failed tests by now
            run = self.run()
        self._note_strange(session, run)
        self._note_codes(run)
        self._note_columns(run)
        if settle_tables(self._config):
            self._notes.append(WHICH_IS_WHICH)
        self._rewrite_saved()
        if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
            # which nobody asked for: it costs no run its exit status
            self._write(summary, lambda: append_summary(Path(summary), run, comparison, si=settings.si_units), "")
        if not self._write_files(run, comparison):
            session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED

    def _write_files(self, run: Run, comparison: Comparison | None) -> bool:
        """Write what the user asked for; whether all of it is there."""
        from pytest_vmstorage.report.formats import write_report
        from pytest_vmstorage.report.overview import written_line
        from pytest_vmstorage.report.trace_events import write_timeline

        settings, wrote = self._settings, True
        if path := settings.timeline_path:
            note = f"wrote {path}: open it in https://ui.perfetto.dev or in the Performance panel of Chrome's DevTools"
            wrote = self._write(path, partial(write_timeline, path, timelines(self._config)), note)
        write = partial(
            write_report,
            run=run,
            comparison=comparison,
            si=settings.si_units,
            beside=settings.report_paths,
            history=self._history(),
        )
        reports = [path for path in settings.report_paths if self._write(path, partial(write, path), "")]
        self._notes += filter(None, [written_line(reports)])
        return wrote and len(reports) == len(settings.report_paths)

    def _history(self) -> BaselineHistory | None:
        """The history for a page: of the baseline to judge against, else of the name that the run is saved under."""
        from pytest_vmstorage.report.formats import saved_history
        from pytest_vmstorage.results.saved import name_of

        settings = self._settings
        if not any(path.suffix == ".html" for path in settings.report_paths):
            return None
        name = name_of(settings.baseline.path) if settings.baseline is not None else settings.save
        try:
            return saved_history(name, settings.saved_runs, settings.policy) if name else None
        except VmStorageError as error:
            self._notes.append(f"the page has no history: {error}")
            return None

    def _write(self, path: object, write: Callable[[], object], note: str) -> bool:
        """Write a file and note that it is there, or why it is not; whether it is."""
        try:
            write()
        except (OSError, VmStorageError) as error:
            self._notes.append(f"{path} was not written: {error}")
            return False
        self._notes += [note] if note else []
        return True

    def _rewrite_saved(self) -> None:
        """Take the indent out of the file that pytest-benchmark saved just now; another run may save one meanwhile."""
        if self._saved_before is None:
            return
        from pytest_vmstorage.plugin.benchmark import rewrite_without_indent
        from pytest_vmstorage.results.saved import saved_files

        for path in saved_files(self._settings.saved_runs):
            if path not in self._saved_before:
                self._write(path, partial(rewrite_without_indent, path, self._started), "")

    def _note_strange(self, session: pytest.Session, run: Run) -> None:
        """A baseline of which xdist's workers ran nothing has judged nothing: the exit status must not say it did."""
        baseline = self._settings.baseline
        if baseline is None or not run.measurements or baseline.nodeids & {one.nodeid for one in run.measurements}:
            return
        self._notes.append(f"the baseline {baseline.name!r} has none of the tests that were run: nothing was compared")
        session.exitstatus = session.exitstatus or pytest.ExitCode.USAGE_ERROR

    def _note_codes(self, run: Run) -> None:
        """Say once where the codes of cells without a figure are explained."""
        from pytest_vmstorage.errors import where_more

        if more := where_more("\n".join(failure.reason for failure in run.failures)):
            self._notes.append(f"the code at the end of a reason: {more.rstrip('.')}")

    def _note_columns(self, run: Run) -> None:
        """Say which columns the user chose and nothing had: what a workload measures is known when it is."""
        from pytest_vmstorage.workloads.base import find_metrics

        there = dict.fromkeys(metric.name for m in run.measurements for metric in m.metrics)
        absent = [name for name in self._settings.columns.all_names if not find_metrics(name, there)]
        if absent and there:
            self._notes.append(
                f"--vm-columns: nothing that was measured has {', '.join(absent)}; it has: {', '.join(there)}"
            )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print as much of the report as the user wants to read, and where the report files are."""
        self._has_told = True
        if self.is_empty:
            return
        from pytest_vmstorage.report.terminal import detail_of, painted, render_end, title_of

        run = self.run()
        comparison = self.comparison(run)
        width = terminalreporter._tw.fullwidth  # noqa: SLF001 (no public name for it)
        lines = render_end(run, comparison, detail_of(self._settings.verbosity), width, si=self._settings.si_units)
        self._config.hook.pytest_vmstorage_report(config=self._config, run=run, comparison=comparison, lines=lines)
        terminalreporter.ensure_newline()
        if lines:
            title, markup = title_of(run)
            terminalreporter.section(title, **markup)
        for line in [*lines, *self._notes]:
            for text, markup in painted(plain(line)):
                terminalreporter.write(text, **markup)
            terminalreporter.line("")

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Print it where --no-summary leaves out plugins as well, as in pytest 8: files were written all the same."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if not self._has_told and reporter is not None and config.getoption("no_summary", default=False):
            self.pytest_terminal_summary(reporter)

    def comparison(self, run: Run) -> Comparison | None:
        """The comparison with baseline or variant, with the tests' verdicts; None where the run was not judged."""
        from pytest_vmstorage.analysis.gate.by_days import around
        from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict

        baseline, variant = self._settings.baseline, self._settings.variant
        verdicts = tuple(map(Verdict.model_validate, self._all("verdicts")))
        if baseline is None and variant is None:
            return None
        if baseline is not None:
            found = around(verdicts, run, baseline, self._left_out)
        else:
            found = Comparison(against=f"the same with {variant and variant.text}", verdicts=verdicts)
        known = {*(one.nodeid for one in run.measurements), *(one.nodeid for one in run.failures), *self._left_out}
        known |= baseline.nodeids if baseline is not None else set()
        return found.model_copy(update={"idle": self._settings.policy.idle(known)})

    @pytest.hookimpl(optionalhook=True)
    def pytest_benchmark_update_json(self, output_json: dict[str, Any]) -> None:
        """Put the whole run, raw samples and all, into the file that pytest-benchmark saves."""
        if self.is_empty:
            return
        from pytest_vmstorage.results.packed import pack_run
        from pytest_vmstorage.results.saved import saved_files

        output_json[ATTRIBUTE] = pack_run(self.run().model_dump(mode="json"))
        self._saved_before = saved_files(self._settings.saved_runs)


def load_report(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Set the report's attribute; plain JSON values only, so that xdist can send it.

    Figures go with the teardown's report: it comes after everything that may measure, also where a fixture measured and
    then failed, and figures that it took are not taken again when another plugin runs the test anew.
    """
    session = item.config.stash.get(SESSION, None)
    if session is None or CONFIG not in item.stash or (report.when == "setup" and report.passed):
        return
    if report.when == "call" and not report.passed and item.stash.get(MAKING, False):
        # a guest that cannot be made is an error, and no failure of the test, whenever it is made
        report.when = "setup"
    if report.failed:
        session.note_failure()
    carried: dict[str, Any] = {}
    if reason := _reason(item, report, call):
        carried["failure"] = session.failure(item, reason, "skipped" if report.skipped else "failed")
    verdicts = session.verdicts(item)
    _give_properties(item, report, session, verdicts)
    if report.when == "teardown":
        session.reported.add(item.nodeid)
        carried = _carry(item, session, verdicts)
        item.stash[MEASURED] = []
        item.stash[FAILED] = ""
    setattr(report, ATTRIBUTE, carried | {"hosts": session.hosts()} if carried else {})


def _give_properties(
    item: pytest.Item, report: pytest.TestReport, session: StorageSession, verdicts: Sequence[Verdict]
) -> None:
    from pytest_vmstorage.plugin.properties import properties_of, set_properties

    cell, measured = item.stash[CONFIG], item.stash.get(MEASURED, [])
    host = session.lab().facts_of(cell) if measured else None
    set_properties(item, report, properties_of(cell, measured, verdicts, host))


def _carry(item: pytest.Item, session: StorageSession, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What a test measured, nothing where that is nothing; `is_incomplete` where it lacks a figure."""
    measured = item.stash.get(MEASURED, [])
    if not measured:
        return {}
    parts = {"measurements": measured, "against": session.turns.others(item.nodeid), "verdicts": verdicts}
    carried: dict[str, Any] = {name: [one.model_dump(mode="json") for one in rows] for name, rows in parts.items()}
    return carried | {"is_incomplete": bool(item.stash.get(FAILED, ""))}


def _reason(item: pytest.Item, report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    """The reason why the cell has no figure: our own error's sentence, or the first line of the test's."""
    if report.passed or report.when == "teardown":
        return ""
    if item.stash.get(FAILED, ""):
        return item.stash[FAILED]
    if report.failed and not item.stash.get(MEASURED, []) and call.excinfo is not None:
        return call.excinfo.exconly().splitlines()[0]
    return ""
