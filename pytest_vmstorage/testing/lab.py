"""A whole lab of fakes: a real Lab on a fake host and fake guests, in which fio and dd run at a chosen speed."""

from __future__ import annotations

import datetime
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pytest_vmstorage.config.buses import BUSES, CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.fs_options import mount_options
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.config.settings import Accel, AccelChoice, LabSettings
from pytest_vmstorage.errors import SpaceError, UnsupportedError
from pytest_vmstorage.guest.appliance.build import Appliance, Manifest
from pytest_vmstorage.guest.boot import BootFiles
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.guest.file_system import MOUNTPOINT
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.host.file_systems import MOUNTS
from pytest_vmstorage.host.lease import Lease, LeaseBook, RunLease, this_process
from pytest_vmstorage.host.lock import HostLease
from pytest_vmstorage.lab.factory import GuestFactory, hold
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.machines import Machines
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.testing.builders import make_host
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.host import FOLDER, make_host_shell
from pytest_vmstorage.testing.image_operations import ImageHost
from pytest_vmstorage.testing.options import LabOptions, chosen, matches
from pytest_vmstorage.testing.programs import BeforeRound, FakePrograms
from pytest_vmstorage.testing.shell import FakeShell

Note = Callable[[str], object]


def make_guest_shell(config: StorageConfig | None = None) -> FakeShell:
    """A booted guest with the disk of that cell, which tells its facts, drops caches, and mounts a file system.

    Give it the output of workloads with `answer`.
    """
    config = config or StorageConfig()
    driver, _, host = BUSES[config.bus].driver.partition(" on ")
    disk = {"virtio-blk": "vdb", "nvme": "nvme0n1"}.get(config.bus, "sda")
    cache = "write back" if CACHES[config.cache].write_cache or config.bus == "nvme" else "write through"
    queues = min(config.queues or 1, config.vcpus)
    # the kernel's choice: none where there may be as many queues as CPUs
    default = "none" if config.bus == "nvme" else "mq-deadline"
    scheduler = default if config.scheduler == "default" else config.scheduler
    mounts = _mounts(config, f"/dev/{disk}")
    facts = (
        f"6.1.0-18-amd64|{config.vcpus}|{config.memory // 1024 - 55884}\n"
        "vda|102400|vmstorage-root|write back|[none] mq-deadline|512|1|virtio_blk||1|2147483136\n"
        f"{disk}|{config.size // 512}|vmstorage-test|{cache}|[{scheduler}]|512|1|"
        f"{driver}|{host}|{queues}|2147483136\n" + "".join(f"mount|{line}\n" for line in mounts)
    )
    shell = FakeShell()
    shell.answer(re.compile(r"blockdev --flushbufs"))
    shell.answer(re.compile(r"-c 'sync; "))
    # the kernel had no trouble
    shell.answer(re.compile(r"dmesg"), returncode=1)
    shell.answer(re.compile(r"^fio --name=fill |^fio --parse-only -$|mkfs\.|mkdir -p|modprobe"))
    shell.answer(re.compile(r"truncate -s"), f"{config.size // 2**21 * 2**20}\n")
    queue = f"/sys/block/{disk}/queue"
    told = {f"{queue}/scheduler": f"[{scheduler}]", f"{queue}/write_cache": cache, MOUNTS: "\n".join(mounts)}
    # device, mount point, kind, options: the fields of mountinfo in another order
    words = [line.split() for line in mounts]
    told["/proc/mounts"] = "\n".join(f"{one[8]} {one[4]} {one[7]} {one[5]}" for one in words)
    shell.files.update({path: f"{text}\n".encode() for path, text in told.items()})
    shell.answer(re.compile("osrelease"), facts)
    return shell


def _mounts(config: StorageConfig, disk: str) -> tuple[str, ...]:
    """The guest's mountinfo: its root, and the cell's file system with the options it was given."""
    root = "23 1 254:0 / / ro,relatime - erofs /dev/vda ro"
    if config.guest_fs == "none":
        return (root,)
    options = ",".join(("rw", *mount_options(config.guest_fs, config.guest_mount, field="guest_mount")))
    return (root, f"30 23 254:16 / {MOUNTPOINT} {options} - {config.guest_fs} {disk} rw")


class FakeFactory(GuestFactory):
    """A factory that tells `begin` which cell each disk is for, by the guest's UUID or the path on the host.

    `note` gets "native", "images" and "discard" with the cell's id.
    """

    def __init__(
        self, options: LabOptions, note: Note, begin: Callable[[str, StorageConfig], object], **parts: Any
    ) -> None:
        super().__init__(**parts)
        self._options = options
        self._tell_event = note
        self._begin_cell = begin

    def make(self, config: StorageConfig | None, accel: Accel, say: Progress = silent, **more: Any) -> StartedGuest:
        """Make the cell's disk and start its guest; raises UnsupportedError and SpaceError by the options."""
        if config is not None:
            self._check(config)
        return super().make(config, accel, say, **more)

    def spec(self, name: str, domain_uuid: str, disk: HostDisk | None, accel: Accel) -> GuestSpec:
        """The spec of a guest with that disk."""
        if disk is not None:
            self._begin_cell(domain_uuid, disk.config)
        return super().spec(name, domain_uuid, disk, accel)

    def make_disk(self, config: StorageConfig, say: Progress = silent) -> HostDisk:
        """Make the cell's disk without a guest; raises UnsupportedError and SpaceError by the options."""
        self._check(config)
        self._tell_event(f"native {config}")
        disk = super().make_disk(config, say)
        self._begin_cell(disk.path, config)
        return disk

    def make_place(self, config: StorageConfig, image_bytes: int) -> HostDisk:
        """Make a folder for the cell's images; raises UnsupportedError and SpaceError by the options."""
        self._check(config)
        self._tell_event(f"images {config}")
        return super().make_place(config, image_bytes)

    def discard(self, made: StartedGuest | HostDisk) -> None:
        """Tear a guest or a disk down in the background."""
        disk = made if isinstance(made, HostDisk) else made.disk
        self._tell_event(f"discard {disk.config}" if disk is not None else "discard")
        super().discard(made)

    def _check(self, config: StorageConfig) -> None:
        if reason := chosen(self._options.unsupported, config, ""):
            raise UnsupportedError(reason, code="VM329")
        if matches(self._options.full, config):
            raise SpaceError(f"The fake host has no room for {config}.", code="VM409")


class FreeHost(HostLease):
    """The lease of a host that is not there: it locks nothing, waits for nobody, and is never lost."""

    def keep(self, say: Progress = silent) -> None:
        """Take nothing."""

    @contextmanager
    def alone(self, say: Progress = silent) -> Iterator[None]:  # noqa: ARG002 (as a real lease has it)
        """Wait for nobody."""
        yield


def make_lab(
    folder: Path,
    *,
    hypervisor: FakeHypervisor | None = None,
    shell: FakeShell | None = None,
    settings: LabSettings | None = None,
    options: LabOptions | None = None,
    guest_shell: Callable[[StorageConfig], FakeShell] = make_guest_shell,
    host_lease: HostLease | None = None,
    note: Note = str,
    before_round: BeforeRound = lambda _config, _number: None,
    root: str = "",
    say: Progress = silent,
) -> Lab:
    """A Lab on fakes that behaves as `options` say; its leases lie in `folder`. In its guests fio and dd run.

    It takes no lease of this machine, so it neither waits for another job nor keeps one waiting, unless a `host_lease`
    is given. `say` is told that all figures are made up: a report does not show it.
    `guest_shell` makes the shell of a cell's guest, for workloads of other tools. `note` gets each event as a word and
    the cell's id: "guest" and "mute" for one that boots and one that never answers, "native", "images", "fill",
    "pause", "resume", "die", "hang", "discard", and "close" alone. `before_round` is called before each round, and what
    it raises reaches the test. `root` is the embedded driver's folder, "" without one. A `shell` of your own replaces
    the host. A `hypervisor` of your own makes all guests,
    and nothing that the options say of guests holds then.
    """
    options = options or LabOptions()
    say("the lab is a fake: no guest is made, and all figures are made up")
    shell = shell or make_host_shell(free_bytes=options.free_bytes)
    if options.memory_bytes is not None:
        # a quarter of all is left to the page cache
        told = f"MemTotal: 8388608 kB\nMemAvailable: {options.memory_bytes // 1024 + 2097152} kB\n"
        shell.files["/proc/meminfo"] = told.encode()
    if options.keeps_files:
        shell.answer(re.compile("^rm "), stderr="rm: cannot remove it: Device or resource busy\n", returncode=1)
    ImageHost(shell)
    programs = FakePrograms(shell, options, note, before_round)
    cells: dict[str, StorageConfig] = {}
    booted: Counter[StorageConfig] = Counter()

    def begin(place: str, config: StorageConfig) -> None:
        if config.is_native:
            programs.install(shell, config, disk=place)
        cells[place] = config

    def boot(xml: str) -> FakeDomain:
        config = next((one for uuid, one in cells.items() if uuid in xml), StorageConfig())
        booted[config] += 1
        answers = booted[config] <= chosen(options.boots, config, booted[config])
        note(f"{'guest' if answers else 'mute'} {config}")
        domain = FakeDomain(
            guest_shell(config),
            boots=answers,
            boot_s=chosen(options.boot_s, config, 0.0),
            note=lambda event: note(f"{event} {config}"),
        )
        programs.install(domain.shell, config, domain=domain)
        return domain

    return _put_together(
        folder,
        shell,
        hypervisor or FakeHypervisor(boot, note=note),
        settings or LabSettings(),
        options,
        functools.partial(FakeFactory, options, note, begin),
        host_lease,
        root,
    )


def _put_together(
    folder: Path,
    shell: FakeShell,
    hypervisor: FakeHypervisor,
    settings: LabSettings,
    options: LabOptions,
    make_factory: Callable[..., GuestFactory],
    host_lease: HostLease | None,
    root: str,
) -> Lab:
    lease = Lease(
        run_id="0123456789",
        owner=this_process(),
        expires=4102444800.0,
        uri="test:///default",
        ssh=None,
        folder=f"{FOLDER}/run-0123456789",
        root=root,
    )
    boot = BootFiles(emulator="/usr/bin/qemu-system-x86_64", kernel="/a/kernel", initrd="/a/initrd", root="/a/root")
    held, teardown = RunLease(LeaseBook(folder / "leases"), lease), ExitStack()
    if host_lease is not None:
        teardown.callback(host_lease.close)
    hold(held, shell, teardown)
    host = LabHost(name=options.name, uri="test:///default", ssh=None, folder=FOLDER)
    machines = Machines(settings.inventory, wait_s=settings.wait_s)
    factory = make_factory(shell=shell, host=host, hypervisor=hypervisor, boot=boot, lease=held)
    for step in (hypervisor.close, machines.close, factory.close):
        teardown.push(held.removal(step))
    return Lab(
        settings=settings,
        host=host,
        shell=shell,
        hypervisor=hypervisor,
        factory=factory,
        appliance=_appliance(),
        accel=AccelChoice(used=options.accel, requested=options.accel, reason="asked for"),
        facts=make_host(options.name, accel=options.accel, accel_reason="asked for"),
        held=held,
        machines=machines,
        host_lease=host_lease or FreeHost(shell, options.name),
        teardown=teardown,
    )


def _appliance() -> Appliance:
    manifest = Manifest(
        schema_number=1,
        key="0" * 64,
        suite="bookworm",
        arch="amd64",
        kernel_version="6.1.0-18-amd64",
        root_format="erofs",
        files={},
        tools={"fio": "3.33-3"},
        built_at=datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
    )
    return Appliance(
        kernel=Path("/a/kernel"), initrd=Path("/a/initrd"), root=Path("/a/root"), root_format="erofs", manifest=manifest
    )
