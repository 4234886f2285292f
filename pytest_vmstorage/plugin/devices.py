"""Which devices and volumes of a host the selected cells will write to: named before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.inventory import find_host
from pytest_vmstorage.plugin import options
from pytest_vmstorage.provision.block import find_block, needs_block, plan_line


def device_lines(config: pytest.Config, cells: Iterable[StorageConfig]) -> list[str]:
    """A line for each device or volume that these cells lie on, or why they cannot; nothing is written.

    Raises ConfigError where a cell's backing is not listed, or may be any of several.
    """
    wanted = [cell for cell in dict.fromkeys(cells) if needs_block(cell)]
    if not wanted:
        return []
    settings = options.lab_settings(config)
    host = find_host(settings.host, settings.folder, settings.inventory)
    shell = host.shell()
    lines: dict[str, None] = {}
    for cell in wanted:
        try:
            lines[f"backing={cell.backing}: {plan_line(find_block(shell, host, cell))}"] = None
        except ConfigError:
            raise
        except VmStorageError as error:
            lines[f"{cell} will have no figure: {error}"] = None
    return list(lines)
