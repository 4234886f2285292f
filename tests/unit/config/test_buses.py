"""The records of buses and cache modes: one for each name that a cell may have."""

from __future__ import annotations

from typing import get_args

from pytest_vmstorage.config.buses import BUSES, CACHES, Bus, Cache


def test_each_bus_and_each_cache_mode_has_its_record() -> None:
    """In the order of the names, as the tables of documents have them."""
    assert tuple(BUSES) == get_args(Bus)
    assert tuple(CACHES) == get_args(Cache)


def test_a_bus_has_qemus_types_as_a_proof_shows_them() -> None:
    """The disk and the device that it is plugged into, where it is plugged into one."""
    assert BUSES["vmpvscsi"].qemu == "scsi-hd on pvscsi"
    assert BUSES["nvme"].qemu == "nvme"


def test_cache_modes_differ_in_their_flags() -> None:
    """Otherwise two axis values would be one disk."""
    assert len({mode.flags for mode in CACHES.values()}) == len(CACHES)
