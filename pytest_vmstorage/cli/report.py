"""Reports made of saved runs, without pytest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytest_vmstorage.cli.history import gate_policy
from pytest_vmstorage.cli.show import newest_run
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.formats import check_report_path, saved_history, write_report
from pytest_vmstorage.report.several_runs import NamedRun, join_runs
from pytest_vmstorage.results.saved import Baseline, load_baseline, name_of

_OF_ONE_RUN = (".json",)


def write_reports(names: Sequence[str], paths: Sequence[Path], folder: Path, *, si: bool = False) -> list[str]:
    """Write each report of these saved runs, of the newest without names; a line for each file that was written.

    A run is named by its name, number or file, as a baseline is; `folder` is pytest-benchmark's. Raises ConfigError,
    before anything is written, for a run that is not there and for a report that cannot be. The page of one saved run
    has the history of the name it was saved under.
    """
    for path in paths:
        check_report_path(path)
        if path.suffix in _OF_ONE_RUN and len(names) > 1:
            raise ConfigError(
                f"{path} would be one run made of {len(names)}, and be read as a baseline.",
                hint="Name one run, or another form: .html, .md, .svg, .csv.",
                code="VM254",
            )
    saved = [load_baseline(name, folder) for name in names] or [newest_run(folder)]
    run = join_runs([NamedRun(_called(one), one.run) for one in saved])
    is_alone = len(saved) == 1 and any(path.suffix == ".html" for path in paths)
    history = saved_history(name_of(saved[0].path), folder, gate_policy()) if is_alone else None
    for path in paths:
        write_report(path, run, si=si, beside=paths, history=history)
    rows = len(run.measurements) + len(run.failures)
    return [f"wrote {path}: {rows} rows of {', '.join(str(one.path) for one in saved)}" for path in paths]


def _called(saved: Baseline) -> str:
    """The run's name: as it was given, without the folders and the ending of a file."""
    return saved.path.stem if saved.name == str(saved.path) or saved.name.endswith(".json") else saved.name
