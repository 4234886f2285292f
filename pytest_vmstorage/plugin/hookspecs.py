"""Hooks that a user's conftest.py or plugin may implement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vmstorage.analysis.gate.verdicts import Comparison
    from pytest_vmstorage.config.settings import LabSettings
    from pytest_vmstorage.lab.lab import Lab
    from pytest_vmstorage.progress import Progress
    from pytest_vmstorage.results.run import Run


@pytest.hookspec
def pytest_vmstorage_report(config: pytest.Config, run: Run, comparison: Comparison | None, lines: list[str]) -> None:
    """Change the report before it is printed: `lines` is the matrix as text, to be added to or replaced in place.

    Called once, on the controller, after the last test. `comparison` is None without a baseline.
    """


@pytest.hookspec(firstresult=True)
def pytest_vmstorage_open_lab(config: pytest.Config, settings: LabSettings, say: Progress) -> Lab | None:
    """Open the lab that this process measures in; None leaves it to the next, at last to the real one.

    Called once in each process that runs storage tests, before the first of them. It lets tests of tests run
    without a guest. May raise ConfigError, HostError and ProvisionError as `lab.opening.open_lab` does; `say` prints a
    sentence.
    """
