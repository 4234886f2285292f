"""What pytest wants in the top folder and nowhere else."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


def pytest_collection(session: pytest.Session) -> None:
    """In a worker of xdist, first import the worker's share of the test modules.

    Otherwise each worker of a new clone would compile every module, all in the same order and at the same time. A
    module that cannot be imported here is imported again, and its error told, when it is collected.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    number, count = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    folders = (Path(session.config.invocation_params.dir, one) for one in session.config.args)
    for path in sorted(path for folder in folders for path in folder.rglob("test_*.py"))[number::count]:
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(_module_name(path))


def _module_name(path: Path) -> str:
    """The name under which pytest imports that file: from the first folder above it that is no package."""
    name, folder = path.stem, path.parent
    while Path(folder, "__init__.py").is_file():
        name, folder = f"{folder.name}.{name}", folder.parent
    return name


def pytest_collection_finish() -> None:
    """Keep what is there by now, thousands of tests, out of every later look for garbage."""
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """One worker more than processors with `-n auto`: many tests wait for a process or for a time limit."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    return len(os.sched_getaffinity(0)) + 1
