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
def pytest_xdist_auto_num_workers() -> int | None:
    """One worker more than processors with `-n auto`: many tests wait for a process or for a time limit."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + 1
