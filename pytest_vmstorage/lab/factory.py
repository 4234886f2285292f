"""The factory of a run's guests on one lab host: made under a lease, torn down in the background, none left behind."""

from __future__ import annotations

import contextlib
import itertools
import re
import uuid
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from pytest_vmstorage.config.cell import DEFAULT_MEMORY_BYTES, StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.errors import GuestDiedError, SpaceError, VmStorageError
from pytest_vmstorage.guest.boot import BootFiles
from pytest_vmstorage.guest.disk_xml import nvme_limits
from pytest_vmstorage.guest.domain_xml import GuestSpec, domain_xml
from pytest_vmstorage.guest.instance import Begun, StartedGuest
from pytest_vmstorage.guest.libvirt.confinement import Confinement, check_opens, is_unknown, let_open
from pytest_vmstorage.guest.pinning import Pinner
from pytest_vmstorage.guest.protocol import Hypervisor
from pytest_vmstorage.host.folders import FolderFacts, folder_facts
from pytest_vmstorage.host.guard import guard_of
from pytest_vmstorage.host.lease import RunLease
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.block import needs_block
from pytest_vmstorage.storage.disk import HostDisk, HostDisks
from pytest_vmstorage.storage.template import Templates

_MEMORY = re.compile(r"^(\w+): +(\d+) kB$", re.MULTILINE)


def hold(held: RunLease, shell: Shell, teardown: ExitStack) -> None:
    """Begin the lease; the last steps of the teardown remove the run's folders, then the lease.

    A folder whose content may be in use stays, with the lease; a kept guest keeps both folders.
    """
    held.begin()
    teardown.callback(held.end)

    def remove_folders() -> None:
        lease = held.lease
        for folder in (lease.root, "" if held.is_needed else lease.folder):
            if folder and not held.is_kept:
                shell.run(["rm", "-rf", "--one-file-system", "--", folder])

    teardown.push(held.removal(remove_folders))


class GuestFactory:
    """Makes guests in a run's own folder on the host, and removes all that it made."""

    def __init__(
        self,
        *,
        shell: Shell,
        host: LabHost,
        hypervisor: Hypervisor,
        boot: BootFiles,
        lease: RunLease,
        pin: Pinner | None = None,
    ) -> None:
        self._shell = shell
        self._hypervisor = hypervisor
        self._boot = boot
        self._held = lease
        self._pin = pin
        self._is_relabeled = host.uri is not None
        self._host_name = host.name
        self._disks = HostDisks(shell, host, self.folder, self.run_id)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="vmstorage-teardown")
        self._teardowns: list[Future[None]] = []
        self._leftovers: list[BaseException] = []
        self._alive: list[StartedGuest | HostDisk] = []
        self._numbers = itertools.count(1)
        self._begin: Callable[[GuestSpec], Begun] | None = None
        self.kept: StartedGuest | None = None

    @property
    def folder(self) -> str:
        """The run's folder on the host."""
        return self._held.lease.folder

    @property
    def run_id(self) -> str:
        """The run's id, part of the name of all that it makes."""
        return self._held.lease.run_id

    @property
    def templates(self) -> Templates:
        """The templates from which disks are made with their guest's file system."""
        return self._disks.templates

    @property
    def emulator(self) -> str:
        """QEMU's path on the host."""
        return self._boot.emulator

    def folder_facts(self) -> FolderFacts:
        """The file system and device of the run's folder, and its free space now."""
        return folder_facts(self._shell, self.folder)

    def spare_memory_bytes(self) -> int | None:
        """Bytes of memory for further guests, None where the host does not say; a quarter is left to its page cache."""
        told = dict(_MEMORY.findall(self._shell.read("/proc/meminfo")))
        if not {"MemTotal", "MemAvailable"} <= told.keys():
            return None
        return (int(told["MemAvailable"]) - int(told["MemTotal"]) // 4) * 1024

    def folder_room_bytes(self) -> int:
        """Bytes that are free in the run's folder plus those that its disks take already."""
        taken = self._shell.run(["du", "-sx", "-B1", "--", self.folder]).stdout.split()
        return self.folder_facts().free_bytes + (int(taken[0]) if taken else 0)

    def make(
        self,
        config: StorageConfig | None,
        accel: Accel,
        say: Progress = silent,
        *,
        fresh: bool = False,
        fill_bytes: int = 0,
    ) -> StartedGuest:
        """Make the cell's disk and start its guest, by a boot if `fresh`; without a config a canary, which has no disk.

        Before the start `fill_bytes` bytes of the disk are written on the host. Raises ProvisionError,
        HypervisorError, AttestationError, UnsupportedError; a half-made guest is removed.
        """
        confined = self._confined(config)
        number, domain_uuid = self.next_number(), str(uuid.uuid4())
        name = f"vms-{self.run_id}-{number}"
        self._held.note_domain(domain_uuid)
        with span("disk", cell=config or ""):
            disk = self._make_disk(config, number, say, fill_bytes) if config else None
        try:
            if disk is not None and config is not None and not config.is_null:
                guard_of(self._shell).check_path(disk.path, "QEMU")
            spec = self.spec(name, domain_uuid, disk, accel)
            self._boot.make(self._shell, config, self.folder, name)
            if confined is not None and disk is not None:
                let_open(self._shell, confined, disk.path)
            say("booting")
            begin = None if fresh else self._begin
            with span("boot", cell=config or ""):
                begun = begin(spec) if begin is not None else Begun(self._hypervisor.start(self.xml(spec)))
            domain = begun.domain
            if config is not None and (limits := nvme_limits(config)):
                domain.monitor("block_set_io_throttle", **limits)
        except BaseException:
            self._undo(domain_uuid, disk)
            raise
        machine = StartedGuest(spec, domain, disk, self._shell, is_restored=begun.is_restored)
        self._alive.append(machine)
        return machine

    def _confined(self, config: StorageConfig | None) -> Confinement | None:
        """Confinement that keeps QEMU from the cell's disk, None where libvirt lifts it. Raises UnsupportedError."""
        if config is None or not self._is_relabeled or not is_unknown(config):
            return None
        found = self._hypervisor.confinement()
        is_block = needs_block(config) and config.host_fs == "as-found"
        check_opens(config, found, self._host_name, is_block=is_block)
        return found

    def xml(self, spec: GuestSpec) -> str:
        """The XML of a guest of this run, with its lease."""
        return domain_xml(spec, self._held.lease)

    def begin_by(self, begin: Callable[[GuestSpec], Begun] | None) -> None:
        """Let guests begin by that function from now on, None for a boot; it raises HypervisorError."""
        self._begin = begin

    def make_disk(self, config: StorageConfig, say: Progress = silent) -> HostDisk:
        """Make the cell's disk without a guest; raises as `make` does."""
        with span("disk", cell=config):
            disk = self._make_disk(config, self.next_number(), say)
        self._alive.append(disk)
        return disk

    def make_place(self, config: StorageConfig, image_bytes: int) -> HostDisk:
        """Make a folder for the cell's images, `image_bytes` of them at most; raises as `make` does."""
        # the previous disk may still be in removal, and take room
        self.settle()
        return self._disks.make_place(config, self.next_number(), image_bytes)

    def remove_place(self, place: HostDisk) -> None:
        """Remove that folder and the storage that was made for it. Raises ProvisionError."""
        self._disks.remove_place(place)

    def next_number(self) -> int:
        """A number that this run has given to nothing else."""
        return next(self._numbers)

    def _undo(self, domain_uuid: str, disk: HostDisk | None) -> None:
        """Remove what `make` left: after Ctrl-C libvirt may have started a guest that `make` did not return."""
        try:
            domain = self._hypervisor.find(domain_uuid)
            if domain is not None:
                domain.destroy()
            if disk is not None:
                self._disks.remove(disk)
        except VmStorageError as error:
            # the reason for which `make` failed is reported first
            self._leftovers.append(error)

    def _make_disk(self, config: StorageConfig, number: int, say: Progress, fill_bytes: int = 0) -> HostDisk:
        say("making disk")
        if needs_block(config):
            # the previous guest may still have the device open
            self.settle()
        try:
            return self._disks.make(config, number, fill_bytes=fill_bytes)
        except SpaceError:
            # the previous guest's disk may still be in removal
            if not self._teardowns:
                raise
        self.settle()
        return self._disks.make(config, number, fill_bytes=fill_bytes)

    def spec(self, name: str, domain_uuid: str, disk: HostDisk | None, accel: Accel) -> GuestSpec:
        """The specification of a guest with that disk."""
        config = disk.config if disk is not None else None
        return GuestSpec(
            name=name,
            uuid=domain_uuid,
            genid=str(uuid.uuid4()) if self._begin is not None else None,
            config=config,
            disk=disk.path if disk is not None else "",
            is_block=disk is not None and disk.is_block,
            is_filled=disk is not None and disk.filled_bytes > 0,
            is_relabeled=self._is_relabeled,
            kernel=self._boot.kernel,
            initrd=self._boot.initrd,
            root=self._boot.root,
            root_sha256=self._boot.root_sha256,
            cmdline=self._boot.cmdline(config, accel),
            console=f"{self.folder}/{name}.console",
            accel=accel,
            emulator=(config.emulator if config else None) or self._boot.emulator,
            vcpus=config.vcpus if config else 1,
            memory_bytes=config.memory if config else DEFAULT_MEMORY_BYTES,
            pinning=self._pin.of(config) if self._pin is not None else None,
            image=self._boot.image_boot(config, self.folder, name),
        )

    def keep(self, machine: StartedGuest) -> None:
        """Let that guest outlive the run, with its disk; only the first guest that is named is kept."""
        self.kept = self.kept or machine
        self._held.is_kept = True

    def discard(self, made: StartedGuest | HostDisk) -> None:
        """Tear a guest, or a disk without one, down in the background; `settle` waits for it. A kept guest stays."""
        if made in self._alive and made is not self.kept:
            self._alive.remove(made)
            self._teardowns.append(self._worker.submit(self._tear_down, made))

    def settle(self) -> None:
        """Wait until every teardown has ended, so that none disturbs a measurement."""
        while True:
            try:
                ending = self._teardowns.pop()
            except IndexError:
                # all have ended, or another thread, which makes a guest, waits for the last
                return
            with span("teardown"):
                error = ending.exception()
            if error is not None:
                # not the current cell's fault: reported when the factory closes
                self._leftovers.append(error)

    def close(self) -> None:
        """Remove every guest and the run's folder; a kept guest keeps both. Raises the first error of a removal."""
        for made in list(self._alive):
            self.discard(made)
        self.settle()
        self._worker.shutdown()
        if self.kept is None:
            self._disks.close()
        else:
            self._held.keep()
        if self._leftovers:
            raise self._leftovers[0]

    def _tear_down(self, made: StartedGuest | HostDisk) -> None:
        disk = made if isinstance(made, HostDisk) else made.disk
        with span("teardown", cell=disk.config if disk is not None else ""):
            if isinstance(made, StartedGuest):
                with contextlib.suppress(GuestDiedError):
                    made.domain.destroy()
                self._boot.remove(self._shell, self.folder, made.domain_name)
            if disk is not None:
                self._disks.remove(disk)
