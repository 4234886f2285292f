"""Keeps libvirt from asking a QEMU again what it knows of it: its capabilities cache stays valid.

libvirt's embedded driver keeps what it found out about a QEMU for as long as neither of them changes. Two things make
it believe that they did (libvirt 9.0, virQEMUCapsIsValid), and each costs a run some seconds:

- It takes for its own time of change the latest of its driver modules that the process has loaded so far
  (virUpdateSelfLastChanged). A process that begins with the QEMU driver and comes to a module that was unpacked later,
  for a passphrase, say, finds all that it knows outdated, asks QEMU anew, and leaves a file that the next process finds
  outdated. So all modules are counted at once.
- It keeps the CPUID that KVM told it, and KVM answers for the CPU that asks ("host cpuid changed"). CPUs differ where
  there are performance and efficiency cores, and in some virtual machines. So the driver is opened on one CPU.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

_LIBRARY = "libvirt.so.0"
_TASKS = Path("/proc/self/task")


def count_all_modules() -> int:
    """Have libvirt, loaded already, count the change times of all of its driver modules; how many these are.

    0 where they are not found, or where this libvirt has no such function: it is none of the public ones. What libvirt
    knows of a QEMU is then asked anew where the modules differ in age, which takes seconds and harms nothing.
    """
    library = _loaded_from()
    if library is None:
        return 0
    count = getattr(ctypes.CDLL(str(library)), "virUpdateSelfLastChanged", None)
    if count is None:
        return 0
    folder = Path(os.environ.get("LIBVIRT_DRIVER_DIR") or library.parent / "libvirt" / "connection-driver")
    modules = sorted(folder.glob("libvirt_driver_*.so"))
    count.argtypes, count.restype = [ctypes.c_char_p], None
    for module in modules:
        count(os.fsencode(module))
    return len(modules)


def _loaded_from() -> Path | None:
    """The file that libvirt was loaded from by this process."""
    maps = Path("/proc/self/maps").read_text()
    found = re.search(rf"^\S+ \S+ \S+ \S+ \S+ +(/.*/{re.escape(_LIBRARY)}[.\d]*)$", maps, re.MULTILINE)
    return Path(found[1]) if found else None


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
