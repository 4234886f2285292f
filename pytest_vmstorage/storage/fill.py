"""Disks that the host fills before their guests begin: as a guest would, by QEMU's own block layer.

Data is written in the same order, up to the same byte, and random, so that no layer can shrink it. On a file system of
the guest it goes into the test file, whose place a template tells. It takes a fraction of the time of an emulated
guest, which spends most of it on fio's start. Only guests that are restored are filled so,
as their fio is warm: a booted guest's first round takes a second longer after it (tried on TCG), as long as its own
fill.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence

from pytest_vmstorage.config.buses import CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.host.folders import folder_facts
from pytest_vmstorage.host.resident import ResidentFiles
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.storage.caches import evict
from pytest_vmstorage.storage.extents import Extent, cut
from pytest_vmstorage.storage.space import space_needed
from pytest_vmstorage.storage.template import FILE_SYSTEMS, Template, json_nothing, json_part

FORMATS = ("raw", "qcow2", "vmdk", "vpc")
"""Formats for which `qemu-img map` is the same whether the guest or the host filled the image.

A guest writes several blocks at once, by which those of a vdi change places, and qed's first table (tried, QEMU 7.2).
"""

MOST_BYTES = 2**28
"""Larger fills are left to the guest: writing then takes longer than fio's start, and the data the room of a disk."""

PIECE_BYTES = 2**26
"""A disk is written in pieces of this size, all with the same data, so that less of it is made and read."""

SHIFTS = 2**12
"""Each piece gets the data from another byte on, so that no two share a block, which storage may keep once."""

_LEAST_S = 60.0
_BYTES_PER_S = 2**20
"""The slowest rate at which a host is expected to write."""

# nothing of it is to be written back during a round
_GROW = 'head -c "$2" /dev/urandom >>"$1" && sync -- "$1"'


def may_be_filled(config: StorageConfig) -> bool:
    """Whether a fill by the host leaves the same image as one by the guest.

    It would not with other formats, some file systems in the guest, a passphrase, a limit, another QEMU than the host's
    or a block device: such disks are written from where they are measured.
    """
    has_own_way = (
        config.format not in FORMATS
        or config.subformat is not None
        or config.guest_fs not in ("none", *FILE_SYSTEMS)
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
        self._resident = ResidentFiles(shell)

    def fill(self, config: StorageConfig, path: str, size_bytes: int, template: Template | None = None) -> int:
        """Fill the disk from its start up to that byte; returns the bytes written, 0 where it is too much for the host.

        With a template, whose file system the disk gets first, its test file is filled so. The data is written back and
        evicted from the host's cache. Raises ProvisionError.
        """
        if size_bytes > MOST_BYTES or not self._has_data(config, min(size_bytes, PIECE_BYTES) + SHIFTS):
            return 0
        lines = list(file_system_lines(config, template, path)) if template is not None else []
        extents = template.extents if template is not None else (Extent(0, size_bytes),)
        pieces = cut(sorted(extents), PIECE_BYTES)
        lines.append(fill_argv(config, self._data, [(one, next(self._numbers) % SHIFTS) for one in pieces], path))
        timeout_s = _LEAST_S + size_bytes / _BYTES_PER_S
        for argv in lines:
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
                # dropping caches before a round would have it read from its device for each disk
                self._resident.hold(self._data)
            return True

    def close(self) -> None:
        """Let the data leave the page cache; it is removed with the run's folder."""
        self._resident.close()


def fill_argv(config: StorageConfig, data: str, pieces: Sequence[tuple[Extent, int]], path: str) -> tuple[str, ...]:
    """The qemu-img line that writes data to pieces of the disk: to each the data from its byte on.

    The pieces are in the disk's order. qemu-img concatenates its sources, and whatever lies between the pieces stays as
    it is.
    """
    sources, end = list[str](), 0
    for piece, begin in pieces:
        sources += [json_nothing(piece.offset_bytes - end)] if piece.offset_bytes > end else []
        sources.append(json_part({"driver": "file", "filename": data}, Extent(begin, piece.length_bytes)))
        end = piece.end_bytes
    # that option came with QEMU 5.0, and is needed only where something is left as it is
    keeps = ("--target-is-zero",) if any("null-co" in one for one in sources) else ()
    return (*_onto(config), *keeps, *sources, path)


def file_system_lines(config: StorageConfig, template: Template, path: str) -> Iterator[tuple[str, ...]]:
    """The lines of qemu-io and qemu-img that give a new disk the template's file system."""
    # as the guest wrote them: -z is a request for zeros
    zeros = [
        f"write -q {way} {one.offset_bytes} {one.length_bytes}"
        for way, parts in (("-z", template.zeroed), ("-P 0", template.written))
        for one in parts
    ]
    if zeros:
        commands = itertools.chain.from_iterable(("-c", one) for one in zeros)
        yield ("qemu-io", "-t", _mode(config), "-f", config.format, *commands, path)
    yield (*_onto(config), "--target-is-zero", "-f", "raw", template.path, path)


def _onto(config: StorageConfig) -> tuple[str, ...]:
    """The first words of a qemu-img line that writes to a disk."""
    return ("qemu-img", "convert", "-n", "-t", _mode(config), "-O", config.format)


def _mode(config: StorageConfig) -> str:
    """qemu-img's cache mode for the disk, as the cell itself has it: not every file system has direct I/O."""
    return "none" if CACHES[config.cache].direct else "writeback"
