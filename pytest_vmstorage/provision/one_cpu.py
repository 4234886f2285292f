"""A moment on one CPU: what a host says of its processor may differ from one CPU to the next.

libvirt's embedded driver keeps what it found out about a QEMU with the CPUID that KVM told it, and takes all of it for
outdated where KVM tells another one to the next process (libvirt 9.0, virQEMUCapsIsValid: "host cpuid changed"). KVM
answers for the CPU that asks. Where CPUs differ, as performance and efficiency cores do, or the CPUs of some virtual
machines, half of all runs would ask QEMU anew, which takes some seconds.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_TASKS = Path("/proc/self/task")


@contextlib.contextmanager
def on_one_cpu() -> Iterator[None]:
    """Have this thread run on the first of its CPUs; at the end it and threads begun meanwhile may run on all again.

    Where the host does not let it choose it runs where it did.
    """
    allowed, before = os.sched_getaffinity(0), _threads()
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, allowed)
        # a thread that is freed may have begun another one just before
        while new := _threads() - before:
            for thread in new:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, allowed)
            before |= new


def _threads() -> set[int]:
    return {int(task.name) for task in _TASKS.iterdir()}
