"""libvirt's cache of QEMU's capabilities: keeps it valid, so that libvirt does not probe QEMU again.

libvirt's embedded driver keeps the capabilities of a QEMU for as long as neither of them changes. Two things make it
believe that they did (libvirt 9.0, virQEMUCapsIsValid), and each costs a run some seconds:

- libvirt's own time of change is that of the latest driver module that the process has loaded so far
  (virUpdateSelfLastChanged). A process that begins with the QEMU driver and later loads a module that was unpacked
  after it, as for a passphrase, finds its cache outdated, probes QEMU again, and leaves a file that the next process
  finds outdated. So all modules are counted at once.
- libvirt keeps KVM's CPUID, and KVM answers for the CPU that asks ("host cpuid changed"). CPUs differ where there are
  performance and efficiency cores, and in some virtual machines. So the driver is opened on one CPU.
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
    """Make libvirt, loaded already, count the change times of all of its driver modules; returns their number.

    It is 0 where they are not found, or where this libvirt lacks the function, which is not a public one. libvirt then
    probes QEMU again where the modules differ in age, which takes seconds and harms nothing.
    """
    maps = Path("/proc/self/maps").read_text()
    found = re.search(rf"^\S+ \S+ \S+ \S+ \S+ +(/.*/{re.escape(_LIBRARY)}[.\d]*)$", maps, re.MULTILINE)
    count = getattr(ctypes.CDLL(found[1]), "virUpdateSelfLastChanged", None) if found else None
    if found is None or count is None:
        return 0
    library = Path(found[1])
    folder = Path(os.environ.get("LIBVIRT_DRIVER_DIR") or library.parent / "libvirt" / "connection-driver")
    modules = sorted(folder.glob("libvirt_driver_*.so"))
    count.argtypes, count.restype = [ctypes.c_char_p], None
    for module in modules:
        count(os.fsencode(module))
    return len(modules)


@contextlib.contextmanager
def on_one_cpu() -> Iterator[None]:
    """Context in which this thread runs on the first of its CPUs; at the end it and its new threads may use all again.

    Where the host refuses, the thread keeps its CPUs.
    """
    allowed, before = os.sched_getaffinity(0), _threads()
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, allowed)
        # a thread may have begun another one just before it got all CPUs back
        while new := _threads() - before:
            for thread in new:
                with contextlib.suppress(OSError):
                    os.sched_setaffinity(thread, allowed)
            before |= new


def _threads() -> set[int]:
    return {int(task.name) for task in _TASKS.iterdir()}
