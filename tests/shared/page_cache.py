"""What the page cache of this machine has of a file, once it was to be dropped."""

from __future__ import annotations

import ctypes
import mmap
import os
from pathlib import Path

ON_DISK = "/var/tmp"
"""Where files lie on a disk: a tmpfs, as /tmp may be, has nothing but pages."""


def cached_bytes(path: Path) -> int:
    """How much of a file is cached after it was written back, and the kernel was advised to drop it.

    That advice and /proc/sys/vm/drop_caches leave the same pages (invalidate_mapping_pages in Linux' mm/truncate.c).
    """
    with path.open("r+b") as stream:
        os.fsync(stream.fileno())
        os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        # this mapping touches no page, and so holds none
        with mmap.mmap(stream.fileno(), 0) as mapped:
            first, found = ctypes.c_char.from_buffer(mapped), (ctypes.c_ubyte * -(-len(mapped) // mmap.PAGESIZE))()
            status = ctypes.CDLL(None).mincore(ctypes.byref(first), ctypes.c_size_t(len(mapped)), found)
            del first
            assert status == 0
    return sum(page & 1 for page in found) * mmap.PAGESIZE
