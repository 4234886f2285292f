"""Projects for pytester runs, in which a fake lab stands for QEMU and libvirt."""

from __future__ import annotations

import platform
from functools import cache

import copies
import cpuinfo
import pytest
from projects import HERE, TWO_CELLS, Project

# pytest-benchmark asks the processor in each run that saves, and `file` in each run, by processes that take 0.2 s
cpuinfo.get_cpu_info = cache(cpuinfo.get_cpu_info)
platform.architecture = cache(platform.architecture)
copies.look_for_distributions_once()
# kept in sys.modules over in-process runs, each of which would load anew what it first needs
copies.load_all_of_ours()


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
