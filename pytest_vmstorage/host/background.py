"""A function that runs in a thread while the caller goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def in_background(do: Callable[[], T]) -> Iterator[Callable[[], T]]:
    """Run `do` in a thread while the block goes on; the block does not end before it.

    The block gets a function that waits for the end, and returns or raises the result.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="vmstorage-meanwhile") as worker:
        yield worker.submit(do).result
