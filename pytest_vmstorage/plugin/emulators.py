"""The QEMU binaries that selected cells name: looked at before any guest is made."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.inventory import find_host
from pytest_vmstorage.plugin import options
from pytest_vmstorage.provision.emulator import check_emulator


def check_emulators(config: pytest.Config, cells: Iterable[StorageConfig]) -> None:
    """Run each one with --version; raises ConfigError for the first that cannot be used, HostError."""
    paths = dict.fromkeys(cell.emulator for cell in cells if cell.emulator)
    if not paths:
        return
    settings = options.lab_settings(config)
    host = find_host(settings.host, settings.folder, settings.inventory)
    shell = host.shell()
    for path in paths:
        check_emulator(shell, path, host.name)
