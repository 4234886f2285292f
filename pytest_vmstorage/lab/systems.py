"""The system under test of each row, as the runner sees it: its shell and paths, and the looks around its rounds."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping
from pathlib import Path

from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.guest.file_system import GuestFs
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.guest.provenance import Provenance
from pytest_vmstorage.host.settings import HostSettings
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.lab.machines import BELOW, MachineRow
from pytest_vmstorage.lab.native import Native
from pytest_vmstorage.lab.observer import HostObserver
from pytest_vmstorage.lab.pool import Row
from pytest_vmstorage.measure.preconditioning import zeros_vanish
from pytest_vmstorage.measure.system import Regions, SystemUnderTest
from pytest_vmstorage.storage.caches import sync_disk
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.space import fragments
from pytest_vmstorage.units import format_size


def file_note(disk: HostDisk, in_guest: GuestFs | None, *, keep: bool) -> Mapping[str, str]:
    """What a row says of its test file, {} where the workload runs on a whole disk.

    A guest's goes with the disk; a listed device keeps what is on it, and with `keep` (--vm-keep) one guest stays.
    """
    if in_guest is not None:
        made = f"{format_size(in_guest.size_bytes)} on {in_guest.kind} in the guest"
        if disk.is_block and disk.block is not None and disk.block.kind in ("device", "partition"):
            return {"test file": f"{made}, left on the {disk.block.kind}"}
        stays = ", unless its guest is kept (--vm-keep)" if keep else ""
        return {"test file": f"{made}, removed with the guest's disk{stays}"}
    if disk.config.is_native and not disk.is_block:
        return {"test file": f"{format_size(disk.config.size)} on the host, removed after the row"}
    return {}


class SystemsUnderTest:
    """The subjects of one lab; rounds are counted over all of them. With `keep` a guest may outlive the run."""

    def __init__(
        self,
        shell: Shell,
        host: LabHost,
        pool: GuestFactory,
        looks: HostObserver,
        host_settings: HostSettings | None,
        provenance: Provenance,
        *,
        keep: bool,
    ) -> None:
        self._shell = shell
        self._host = host
        self._pool = pool
        self._looks = looks
        self._host_settings = host_settings
        self._provenance = provenance
        self._keep = keep
        self._order = itertools.count(1)

    def of(self, row: Row, regions: Regions) -> SystemUnderTest:
        """The row as the runner sees it; `regions` is what was written to its disk."""
        if isinstance(row, MachineRow):
            made = self._machine(row, regions)
        else:
            made = self._native(row, regions) if isinstance(row, Native) else self._guest(row, regions)
        return dataclasses.replace(made, settle=self._pool.settle)

    def _guest(self, row: Guest, regions: Regions) -> SystemUnderTest:
        made, watch = row.file_system, self._looks.watch(row)
        return SystemUnderTest(
            shell=row.shell,
            disk=made.path if made is not None else row.disk,
            is_file=made is not None,
            device=row.disk if made is not None else "",
            folder=made.mountpoint if made is not None else "",
            config=row.config,
            host=self._host.name,
            facts={
                **row.facts.as_text(),
                **({"qemu": row.qemu} if row.qemu else {}),
                **({"image": row.image} if row.image else {}),
            },
            tools=row.facts.tools,
            proof=row.proof,
            regions=regions,
            made_from=self._provenance.of(row.machine.spec),
            has_parked_fio=row.machine.is_restored,
            boot=row.machine.spec.uuid,
            next_order=self._order.__next__,
            drop_host_caches=lambda: self._looks.drop_host_caches(row.machine.spec.disk),
            sync_host=lambda: sync_disk(self._shell, row.machine.spec.disk),
            zeros_vanish=lambda: zeros_vanish(self._shell, row.machine.host_disk, made.found if made else None),
            look=lambda: self._looks.look(row, watch),
            begin_look=lambda: self._looks.begin_look(row, watch),
            watch=watch.begin,
            fragments=lambda: fragments(self._shell, row.config, row.machine.spec.disk),
            recheck=lambda: self._looks.changed(row),
            notes=self._notes(row, row.machine.notes),
        )

    def _native(self, row: Native, regions: Regions) -> SystemUnderTest:
        return SystemUnderTest(
            shell=row.shell,
            disk=row.disk,
            config=row.config,
            host=self._host.name,
            facts=row.facts,
            tools=row.tools,
            proof=row.proof,
            regions=regions,
            next_order=self._order.__next__,
            drop_host_caches=lambda: self._looks.drop_host_caches(row.disk),
            sync_host=lambda: sync_disk(self._shell, row.disk),
            zeros_vanish=lambda: zeros_vanish(self._shell, row.host_disk),
            look=row.look,
            watch=row.watch.begin,
            is_file=not row.host_disk.is_block,
            folder="" if row.host_disk.is_block else str(Path(row.disk).parent),
            scratch=row.scratch,
            notes=self._notes(row, row.host_disk.notes),
            fragments=lambda: fragments(self._shell, row.config, row.disk),
        )

    def _machine(self, row: MachineRow, regions: Regions) -> SystemUnderTest:
        return SystemUnderTest(
            shell=row.shell,
            disk=row.disk,
            config=row.config,
            host=row.listed.name,
            facts=row.facts,
            tools=row.tools,
            proof=row.proof,
            regions=regions,
            next_order=self._order.__next__,
            drop_host_caches=lambda: BELOW,
            zeros_vanish=lambda: zeros_vanish(row.shell, row.host_disk),
            look=row.look,
            watch=row.watch.begin,
            is_file=not row.host_disk.is_block,
            folder="" if row.host_disk.is_block else str(Path(row.disk).parent),
            scratch=row.scratch,
            recheck=row.changed,
            notes=row.notes,
        )

    def _notes(self, row: Row, made: Mapping[str, str]) -> Mapping[str, str]:
        disk = row.host_disk if isinstance(row, Native) else row.machine.host_disk
        set_on_host = self._host_settings.notes(disk.path) if self._host_settings is not None else {}
        file_system = None if isinstance(row, Native) else row.file_system
        return {**made, **set_on_host, **file_note(disk, file_system, keep=self._keep)}
