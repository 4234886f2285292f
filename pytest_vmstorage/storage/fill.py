"""Disks that the host fills before their guests begin: as a guest would, by QEMU's own block layer.

Data is written in the same order, up to the same byte, and random, so that no layer can shrink it. It takes a fraction
of the time of an emulated guest, which spends most of it on fio's start. Only guests that are restored are filled so,
as their fio is warm: a booted guest's first round takes a second longer after it (tried on TCG), as long as its own
fill.
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
"""Formats for which `qemu-img map` is the same whether the guest or the host filled the image.

A guest writes several blocks at once, by which those of a vdi change places, and qed's first table (tried, QEMU 7.2).
"""

MOST_BYTES = 2**28
"""Larger fills are left to the guest: writing then takes longer than fio's start, and the data the room of a disk."""

SHIFTS = 2**12
"""Each disk gets the data from another byte on, so that no two share a block, which storage may keep once."""

_LEAST_S = 60.0
_BYTES_PER_S = 2**20
"""The slowest rate at which a host is expected to write."""

_GROW = 'head -c "$2" /dev/urandom >>"$1"'


def may_be_filled(config: StorageConfig) -> bool:
    """Whether a fill by the host leaves the same image as one by the guest.

    It would not with other formats, a file system in the guest, a passphrase, a limit, another QEMU than the host's or
    a block device: such disks are written from where they are measured.
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
    """Fills the disks of one run from random data, which is made once and lies in its folder."""

    def __init__(self, shell: Shell, folder: str) -> None:
        self._shell = shell
        self._folder = folder
        self._data = f"{folder}/fill.data"
        self._data_bytes = 0
        self._growing = threading.Lock()
        self._numbers = itertools.count(1)

    def fill(self, config: StorageConfig, path: str, size_bytes: int) -> int:
        """Fill the disk from its start up to that byte; returns the bytes written, 0 where it is too much for the host.

        The data is written back and evicted from the host's cache. Raises ProvisionError.
        """
        if size_bytes > MOST_BYTES or not self._has_data(config, size_bytes + SHIFTS):
            return 0
        timeout_s = _LEAST_S + size_bytes / _BYTES_PER_S
        argv = fill_argv(config, self._data, next(self._numbers) % SHIFTS, path, size_bytes)
        check(self._shell.run(argv, timeout_s=timeout_s), f"filling {path}")
        evict(self._shell, path)
        return size_bytes

    def _has_data(self, config: StorageConfig, size_bytes: int) -> bool:
        """Make that many bytes of data if need be; False where the cell's disk would then lack room."""
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
    """The qemu-img line that writes `size_bytes` of the data, from that byte on, to the start of the disk."""
    window = {"driver": "raw", "offset": begin, "size": size_bytes, "file": {"driver": "file", "filename": data}}
    # as the cell itself does: not every file system has direct I/O
    mode = "none" if CACHES[config.cache].direct else "writeback"
    return ("qemu-img", "convert", "-n", "-t", mode, "-O", config.format, f"json:{json.dumps(window)}", path)
