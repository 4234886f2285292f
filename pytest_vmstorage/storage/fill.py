"""Disks that are filled on the host, before their guests begin: as a guest would, by QEMU's own block layer.

In the same order, up to the same byte, with random data that no layer can shrink. It takes a fraction of the time that
an emulated guest needs for it, which spends most of that on fio's start. So it is for guests that are restored, whose
fio is warm: a booted one's first round takes a second longer after it (tried on TCG), which is what its fill took.
"""

from __future__ import annotations

import itertools
import json
import threading

from pytest_vmstorage.config.buses import CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.host.folders import folder_facts
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.storage.caches import evict
from pytest_vmstorage.storage.space import space_needed

FORMATS = ("raw", "qcow2", "vmdk", "vpc")
"""Formats of which `qemu-img map` says the same of an image that its guest filled and of one that the host did.

A guest writes several blocks at once, by which those of a vdi change places, and qed's first table (tried, QEMU 7.2).
"""

MOST_BYTES = 2**28
"""More is left to the guest: then writing takes it longer than fio's start, and the data as much room as a disk."""

SHIFTS = 2**12
"""Each disk gets the data from another byte on, so that no two have a block in common; storage may keep such once."""

_LEAST_S = 60.0
_BYTES_PER_S = 2**20
"""So much a host writes at least, as a guest does."""

_GROW = 'head -c "$2" /dev/urandom >>"$1"'


def may_be_filled(config: StorageConfig) -> bool:
    """Whether what the host writes comes to the same as what the guest would: the image is a file as any other.

    Other formats, a file system of the guest's, a passphrase, a limit, another QEMU than the host's or a block device
    have ways of their own, and their disks are written from where they are measured.
    """
    has_own_way = (
        config.format not in FORMATS
        or config.subformat is not None
        or config.guest_fs != "none"
        or config.encryption != "off"
        or config.emulator is not None
        or config.total_iops_sec is not None
        or config.total_bytes_sec is not None
    )
    return config.state == "filled" and config.backing_kind == "file" and not (config.arrives_filled or has_own_way)


class HostFill:
    """Fills the disks of one run from random data, which are made once and lie in its folder."""

    def __init__(self, shell: Shell, folder: str) -> None:
        self._shell = shell
        self._folder = folder
        self._data = f"{folder}/fill.data"
        self._data_bytes = 0
        self._growing = threading.Lock()
        self._numbers = itertools.count(1)

    def fill(self, config: StorageConfig, path: str, size_bytes: int) -> int:
        """Write the image's disk from its start up to that byte, and say how much: all, or nothing of what is too much.

        It is written back, and the host is told that it needs none of it in its cache. Raises ProvisionError.
        """
        if size_bytes > MOST_BYTES or not self._has_data(config, size_bytes + SHIFTS):
            return 0
        timeout_s = _LEAST_S + size_bytes / _BYTES_PER_S
        argv = fill_argv(config, self._data, next(self._numbers) % SHIFTS, path, size_bytes)
        check(self._shell.run(argv, timeout_s=timeout_s), f"filling {path}")
        evict(self._shell, path)
        return size_bytes

    def _has_data(self, config: StorageConfig, size_bytes: int) -> bool:
        """Whether there are so many bytes of data, made if need be; not where that cell's disk would lack the room."""
        with self._growing:
            more = size_bytes - self._data_bytes
            if more > 0:
                if folder_facts(self._shell, self._folder).free_bytes < space_needed(config) + more:
                    return False
                argv = ["sh", "-c", _GROW, "sh", self._data, str(more)]
                check(self._shell.run(argv, timeout_s=_LEAST_S + more / _BYTES_PER_S), "making data to fill disks with")
                self._data_bytes = size_bytes
            return True


def fill_argv(config: StorageConfig, data: str, begin: int, path: str, size_bytes: int) -> tuple[str, ...]:
    """The qemu-img line that writes so much of the data, from that byte on, to the disk's start, block after block."""
    window = {"driver": "raw", "offset": begin, "size": size_bytes, "file": {"driver": "file", "filename": data}}
    # what the cell itself asks of the file system: not every one has direct I/O
    mode = "none" if CACHES[config.cache].direct else "writeback"
    return ("qemu-img", "convert", "-n", "-t", mode, "-O", config.format, f"json:{json.dumps(window)}", path)
