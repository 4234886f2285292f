"""What pytest wants in the top folder and nowhere else."""

from __future__ import annotations

import gc
import os

import pytest

pytest_plugins = ["pytester"]


def pytest_collection_finish() -> None:
    """Keep what is there by now, thousands of tests, out of every later look for garbage."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than processors with `-n auto`: many tests wait for a process or for a time limit."""
    return len(os.sched_getaffinity(0)) + 1
