"""The public names of the package: each is loaded from its home when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vmstorage.config.cell import StorageConfig
    from pytest_vmstorage.config.selector import CellSelector, cell
    from pytest_vmstorage.errors import VmStorageError
    from pytest_vmstorage.guest.guest import Guest
    from pytest_vmstorage.results.run import Figure, Measurement, Metric, Run
    from pytest_vmstorage.workloads.base import Target, Workload
    from pytest_vmstorage.workloads.dd import Dd
    from pytest_vmstorage.workloads.fio.fio import Fio
    from pytest_vmstorage.workloads.fio.presets import AioStress, Tiobench
    from pytest_vmstorage.workloads.hdparm import Hdparm
    from pytest_vmstorage.workloads.image_operations import ImageOperations
    from pytest_vmstorage.workloads.ioping import Ioping
    from pytest_vmstorage.workloads.iozone import Iozone
    from pytest_vmstorage.workloads.postmark import Postmark
    from pytest_vmstorage.workloads.sqlite import Sqlite
    from pytest_vmstorage.workloads.tar import Tar
    from pytest_vmstorage.workloads.web import Web


_HOMES = {
    "AioStress": "workloads.fio.presets",
    "CellSelector": "config.selector",
    "Dd": "workloads.dd",
    "Figure": "results.run",
    "Fio": "workloads.fio.fio",
    "Guest": "guest.guest",
    "Hdparm": "workloads.hdparm",
    "ImageOperations": "workloads.image_operations",
    "Ioping": "workloads.ioping",
    "Iozone": "workloads.iozone",
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

__all__ = [
    "AioStress",
    "CellSelector",
    "Dd",
    "Figure",
    "Fio",
    "Guest",
    "Hdparm",
    "ImageOperations",
    "Ioping",
    "Iozone",
    "Measurement",
    "Metric",
    "Postmark",
    "Run",
    "Sqlite",
    "StorageConfig",
    "Tar",
    "Target",
    "Tiobench",
    "VmStorageError",
    "Web",
    "Workload",
    "cell",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pytest_vmstorage' has no attribute {name!r}")
    return getattr(importlib.import_module(f"pytest_vmstorage.{home}"), name)
