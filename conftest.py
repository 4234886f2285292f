"""What pytest wants in the top folder and nowhere else."""

from __future__ import annotations

import gc

pytest_plugins = ["pytester"]


def pytest_collection_finish() -> None:
    """Keep what is there by now, thousands of tests, out of every later look for garbage."""
    gc.freeze()
