"""What is found wrong before any test runs: options, cells that cannot exist, a host that cannot be used."""

from __future__ import annotations

import pytest

from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.plugin import axes, options
from pytest_vmstorage.plugin.keys import SESSION


def prepare(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check everything, then open the lab; raises pytest.UsageError with a sentence for each thing found.

    An xdist worker checks only its options: an error raised there reaches the user as a crash of the worker, so
    the sentence comes from each test instead.
    """
    is_worker = hasattr(config, "workerinput")
    refused = axes.refusals(items)
    if refused and not is_worker:
        raise pytest.UsageError("\n".join(refused))
    if config.option.collectonly:
        return
    # imported here: `--collect-only` must work where nothing of this is installed
    from pytest_vmstorage.plugin.session import StorageSession

    try:
        options.report_paths(config)
        session = StorageSession(config, items)
        config.stash[SESSION] = session
        if not is_worker:
            session.lab()
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None
