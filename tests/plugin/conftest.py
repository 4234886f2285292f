"""Projects for pytester runs, in which a fake lab stands for QEMU and libvirt."""

from __future__ import annotations

import platform
from functools import cache

import copies
import cpuinfo
import pytest
from projects import HERE, TWO_CELLS, Project

# kept in sys.modules over in-process runs, which forget what they import
import pytest_vmstorage.analysis.assertions
import pytest_vmstorage.plugin.cell_assertions
import pytest_vmstorage.plugin.parametrize
import pytest_vmstorage.plugin.preflight
import pytest_vmstorage.plugin.properties
import pytest_vmstorage.plugin.recorder
import pytest_vmstorage.plugin.session
import pytest_vmstorage.plugin.xdist.controller
import pytest_vmstorage.report.formats
import pytest_vmstorage.report.overview
import pytest_vmstorage.report.terminal
import pytest_vmstorage.report.text
import pytest_vmstorage.report.trace_events
import pytest_vmstorage.testing.lab
import pytest_vmstorage.workloads.dd
import pytest_vmstorage.workloads.fio.fio  # noqa: F401

# pytest-benchmark asks the processor in each run that saves, and `file` in each run, by processes that take 0.2 s
cpuinfo.get_cpu_info = cache(cpuinfo.get_cpu_info)
platform.architecture = cache(platform.architecture)
copies.look_for_distributions_once()


@pytest.fixture
def project(pytester, monkeypatch, tmp_path_factory):
    """An empty project with a fake lab."""
    monkeypatch.syspath_prepend(str(HERE))
    return Project(pytester, monkeypatch, tmp_path_factory)


@pytest.fixture
def two_cells(project):
    """A project with one test in two cells, which measure 10000 IOPS."""
    project.write(test_two=TWO_CELLS)
    return project
