"""Which devices and volumes of a host the selected cells will write to: named before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.inventory import find_host
from pytest_vmstorage.plugin import options
from pytest_vmstorage.plugin.keys import CONFIG, is_skipped
from pytest_vmstorage.provision.block import find_block, needs_block, plan_line


def device_lines(config: pytest.Config, items: Iterable[pytest.Item]) -> list[str]:
    """A line for each device or volume that cells of these tests lie on, or why they cannot; nothing is written.

    Raises ConfigError where a cell's backing is not listed, or may be any of several.
    """
    cells = dict.fromkeys(item.stash[CONFIG] for item in items if CONFIG in item.stash and not is_skipped(item))
    wanted = [cell for cell in cells if needs_block(cell)]
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
