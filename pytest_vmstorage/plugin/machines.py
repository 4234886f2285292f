"""Which machines that the plugin did not make the selected cells will write to: reached before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.plugin import options


def machine_lines(config: pytest.Config, cells: Iterable[StorageConfig]) -> list[str]:
    """A line for each machine that is a cell, or why it will have no figure; nothing is written.

    Raises ConfigError where vmstorage.toml has no such machine, or its disk by a name that is another's tomorrow.
    """
    from pytest_vmstorage.machines import Machines

    wanted = [cell for cell in dict.fromkeys(cells) if cell.is_machine]
    if not wanted:
        return []
    machines = Machines(options.inventory(config))
    lines: dict[str, None] = {}
    for cell in wanted:
        try:
            lines[f"backing={cell.backing}: {machines.plan(cell)}"] = None
        except ConfigError:
            raise
        except VmStorageError as error:
            lines[f"{cell} will have no figure: {error}"] = None
    return list(lines)
