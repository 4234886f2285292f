"""The public names of the package: each is loaded from its home when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_vmstorage.config import StorageConfig
    from pytest_vmstorage.errors import VmStorageError
    from pytest_vmstorage.guest import Guest
    from pytest_vmstorage.results import Figure, Measurement, Metric, Run
    from pytest_vmstorage.selector import CellSelector, cell
    from pytest_vmstorage.workloads.base import Target, Workload
    from pytest_vmstorage.workloads.dd import Dd
    from pytest_vmstorage.workloads.fio import Fio
    from pytest_vmstorage.workloads.fio_presets import AioStress, Tiobench
    from pytest_vmstorage.workloads.hdparm import Hdparm
    from pytest_vmstorage.workloads.image_operations import ImageOperations
    from pytest_vmstorage.workloads.ioping import Ioping
    from pytest_vmstorage.workloads.iozone import Iozone
    from pytest_vmstorage.workloads.postmark import Postmark
    from pytest_vmstorage.workloads.sqlite import Sqlite
    from pytest_vmstorage.workloads.tar import Tar
    from pytest_vmstorage.workloads.web import Web

_HOMES = {
    "AioStress": "workloads.fio_presets",
    "CellSelector": "selector",
    "Dd": "workloads.dd",
    "Figure": "results",
    "Fio": "workloads.fio",
    "Guest": "guest",
    "Hdparm": "workloads.hdparm",
    "ImageOperations": "workloads.image_operations",
    "Ioping": "workloads.ioping",
    "Iozone": "workloads.iozone",
    "Measurement": "results",
    "Metric": "results",
    "Postmark": "workloads.postmark",
    "Run": "results",
    "Sqlite": "workloads.sqlite",
    "StorageConfig": "config",
    "Tar": "workloads.tar",
    "Target": "workloads.base",
    "Tiobench": "workloads.fio_presets",
    "VmStorageError": "errors",
    "Web": "workloads.web",
    "Workload": "workloads.base",
    "cell": "selector",
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
