"""Something that is done in a thread while this one goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def meanwhile(do: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Do that in a thread while the block goes on, which does not end before it.

    What the block gets waits for it, and returns or raises what it did.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="vmstorage-meanwhile") as worker:
        yield worker.submit(do).result
