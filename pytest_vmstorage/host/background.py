"""Functions that run in a thread: while the caller goes on, or no longer than the caller waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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


def begin(do: Callable[[], T], name: str) -> Future[T]:
    """Run `do` in a thread of that name, which nothing waits for: an answer that never comes keeps no process."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(do())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
