"""The public names of the package: each is loaded from its home when first used.

A new name stands twice: with its home for Python, which imports nothing before it is needed, and as an import for type
checkers.
"""

# ruff: noqa: PLC0414, PLE0604 (mypy exports `X as X`; a list for Python alone would be the third)

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

HOMES = {
    "AioStress": "workloads.fio.presets",
    "AssertFastest": "plugin.fixture_types",
    "AssertMonotonic": "plugin.fixture_types",
    "AssertRatio": "plugin.fixture_types",
    "CellSelector": "config.selector",
    "Cells": "plugin.cell_assertions",
    "Dd": "workloads.dd",
    "Figure": "results.run",
    "Fio": "workloads.fio.fio",
    "Guest": "guest.guest",
    "Hdparm": "workloads.hdparm",
    "HostEnvironment": "lab.environments",
    "ImageOperations": "workloads.image_operations",
    "Ioping": "workloads.ioping",
    "Iozone": "workloads.iozone",
    "Measure": "plugin.fixture_types",
    "MeasureImage": "plugin.fixture_types",
    "Measurement": "results.run",
    "Metric": "results.run",
    "Postmark": "workloads.postmark",
    "Run": "results.run",
    "Sqlite": "workloads.sqlite",
    "StorageConfig": "config.cell",
    "Tar": "workloads.tar",
    "Target": "workloads.base",
    "Tiobench": "workloads.fio.presets",
    "VmStorageError": "errors",
    "Web": "workloads.web",
    "Workload": "workloads.base",
    "cell": "config.selector",
}

if TYPE_CHECKING:
    from pytest_vmstorage.config.cell import StorageConfig as StorageConfig
    from pytest_vmstorage.config.selector import CellSelector as CellSelector
    from pytest_vmstorage.config.selector import cell as cell
    from pytest_vmstorage.errors import VmStorageError as VmStorageError
    from pytest_vmstorage.guest.guest import Guest as Guest
    from pytest_vmstorage.lab.environments import HostEnvironment as HostEnvironment
    from pytest_vmstorage.plugin.cell_assertions import Cells as Cells
    from pytest_vmstorage.plugin.fixture_types import AssertFastest as AssertFastest
    from pytest_vmstorage.plugin.fixture_types import AssertMonotonic as AssertMonotonic
    from pytest_vmstorage.plugin.fixture_types import AssertRatio as AssertRatio
    from pytest_vmstorage.plugin.fixture_types import Measure as Measure
    from pytest_vmstorage.plugin.fixture_types import MeasureImage as MeasureImage
    from pytest_vmstorage.results.run import Figure as Figure
    from pytest_vmstorage.results.run import Measurement as Measurement
    from pytest_vmstorage.results.run import Metric as Metric
    from pytest_vmstorage.results.run import Run as Run
    from pytest_vmstorage.workloads.base import Target as Target
    from pytest_vmstorage.workloads.base import Workload as Workload
    from pytest_vmstorage.workloads.dd import Dd as Dd
    from pytest_vmstorage.workloads.fio.fio import Fio as Fio
    from pytest_vmstorage.workloads.fio.presets import AioStress as AioStress
    from pytest_vmstorage.workloads.fio.presets import Tiobench as Tiobench
    from pytest_vmstorage.workloads.hdparm import Hdparm as Hdparm
    from pytest_vmstorage.workloads.image_operations import ImageOperations as ImageOperations
    from pytest_vmstorage.workloads.ioping import Ioping as Ioping
    from pytest_vmstorage.workloads.iozone import Iozone as Iozone
    from pytest_vmstorage.workloads.postmark import Postmark as Postmark
    from pytest_vmstorage.workloads.sqlite import Sqlite as Sqlite
    from pytest_vmstorage.workloads.tar import Tar as Tar
    from pytest_vmstorage.workloads.web import Web as Web
else:
    __all__ = [*HOMES]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'pytest_vmstorage' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pytest_vmstorage.{HOMES[name]}"), name)
