"""Guests whose turns come next are made beside the one that is wanted now, as nothing is measured meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.restoring import Restoring
from pytest_vmstorage.spans import span

Here = TypeVar("Here")
There = TypeVar("There")


def make_beside(
    here: Callable[[], Here],
    ahead: Mapping[StorageConfig, Callable[[], There]],
    *,
    take: Callable[[StorageConfig, Callable[[], There]], None],
    restoring: Restoring | None,
) -> Here:
    """What `here` makes or raises, once those `ahead` are made as well, each in a thread.

    `take` gets each of them in the end, as what returns or raises what it came to. After Ctrl-C nobody waits until
    they are saved or restored.
    """
    if restoring is not None:
        restoring.go_on()
    with ThreadPoolExecutor(max(1, len(ahead)), thread_name_prefix="vmstorage-boot") as workers:
        others = {config: workers.submit(make) for config, make in ahead.items()}
        try:
            with _stopping(restoring):
                return here()
        finally:
            with _stopping(restoring), span("beside"):
                for config, other in others.items():
                    take(config, other.result)


@contextmanager
def _stopping(restoring: Restoring | None) -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if restoring is not None:
            restoring.stop()
        raise
