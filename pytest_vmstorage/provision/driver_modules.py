"""libvirt's driver modules: all are counted at once, so that libvirt does not take itself for another one meanwhile.

libvirt keeps what it found out about a QEMU for as long as neither of them changes, and takes for its own time of
change the latest of those modules that the process has loaded so far. Modules are loaded when they are first needed:
a process that begins with the QEMU driver and comes to one that was unpacked later (for a passphrase, say) finds all
that it knows outdated, asks QEMU anew, and leaves a file that the next process finds outdated (libvirt 9.0,
virQEMUCapsIsValid and virUpdateSelfLastChanged).
"""

from __future__ import annotations

import ctypes
import os
import re
from pathlib import Path

_LIBRARY = "libvirt.so.0"


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
