"""How many processes a run has: one for each host that the user named."""

from __future__ import annotations

import pytest

from pytest_vmstorage.plugin import options
from pytest_vmstorage.plugin.option_table import value


def count_workers(config: pytest.Config) -> int | None:
    """As many as there are hosts; None where the user named none, and others may decide."""
    from pytest_vmstorage.errors import VmStorageError

    if not value(config, "host"):
        return None
    try:
        return len(options.hosts(config))
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None


def use_workers(config: pytest.Config) -> None:
    """Distribute a run on several hosts as with `-n auto`, also where nobody says so: a process has one host.

    Raises pytest.UsageError where that cannot be.
    """
    if hasattr(config, "workerinput") or value(config, "plan") or config.option.collectonly:
        return
    count = count_workers(config) or 1
    if count < 2 or getattr(config.option, "tx", None) or getattr(config.option, "distload", False):
        return
    what = f"--vm-host={value(config, 'host')} is {count} hosts, and each is measured on by a process of its own"
    if not hasattr(config.option, "numprocesses"):
        raise pytest.UsageError(f"{what}: leave out -p no:xdist, or name one host.")
    if config.getoption("usepdb", False):
        raise pytest.UsageError(f"{what}, which --pdb cannot debug: name one host.")
    if config.option.numprocesses == 0:
        raise pytest.UsageError(f"{what}: leave out -n 0, or name one host.")
    if config.option.numprocesses is None:
        config.option.numprocesses = count
