"""Files of this machine that stay in its page cache when caches are dropped before a round.

Pages that a process has mapped are left where they are by /proc/sys/vm/drop_caches and by posix_fadvise
(mapping_evict_folio in Linux' mm/truncate.c), and are reclaimed like others where memory runs short. So a run reads
from its device once what all its guests and disks are made from: a saved guest of 512 MiB takes 140 MiB.
"""

from __future__ import annotations

import mmap
import os
import threading

from pytest_vmstorage.host.shell import LocalShell, Shell


class ResidentFiles:
    """Holds files of the host that the shell is of; on any other machine than this it holds none.

    Only what helps to make guests and disks is held, never a disk under test.
    """

    def __init__(self, shell: Shell) -> None:
        self._is_here = isinstance(shell, LocalShell)
        self._lock = threading.Lock()
        self._held: dict[str, mmap.mmap] = {}

    def hold(self, path: str) -> None:
        """Hold all that the file has now, until it is released; one that grew is to be held anew."""
        if not self._is_here:
            return
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            # it is read from its device each time, by whoever can
            return
        try:
            held = mmap.mmap(file, 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)
        except (OSError, ValueError):
            # no room for it among the addresses, or an empty file
            return
        finally:
            os.close(file)
        self._put(path, held)

    def release(self, path: str) -> None:
        """Hold that file no longer."""
        self._put(path, None)

    def close(self) -> None:
        """Hold nothing any longer: what was removed meanwhile takes no room from now on."""
        for path in tuple(self._held):
            self.release(path)

    def _put(self, path: str, held: mmap.mmap | None) -> None:
        with self._lock:
            earlier = self._held.pop(path, None)
            if held is not None:
                self._held[path] = held
        if earlier is not None:
            earlier.close()
