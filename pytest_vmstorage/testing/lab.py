"""A whole lab of fakes: what a healthy host and a booted guest answer, and a Lab on top of them."""

from __future__ import annotations

import datetime
import re
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path, PurePosixPath

from pytest_vmstorage.config.buses import BUSES, CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.fs_options import mount_options
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.config.settings import AccelChoice, LabSettings
from pytest_vmstorage.guest.appliance.build import Appliance, Manifest
from pytest_vmstorage.guest.boot import BootFiles
from pytest_vmstorage.guest.file_system import MOUNTPOINT
from pytest_vmstorage.host.file_systems import MOUNTS
from pytest_vmstorage.host.lease import HeldLease, Lease, LeaseBook, this_process
from pytest_vmstorage.host.shell import CommandResult
from pytest_vmstorage.lab.factory import GuestFactory, hold
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.testing.builders import make_host
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.host import Images, said
from pytest_vmstorage.testing.shell import Asked, FakeShell

CONSOLE = "[    1.2] virtio_blk virtio1: 1/0/0 queues\n[    1.9] init: ready\n"
"""What every guest's console ends with."""

QEMU_VERSION = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\n"
"""What every QEMU on a fake host says of itself."""

FOLDER = "/srv/vm"
"""Where the disks of a fake host lie."""


def make_guest_shell(config: StorageConfig | None = None) -> FakeShell:
    """A booted guest with the disk of that cell: it tells its facts, forgets, fills, and mounts a file system.

    Give it the workloads' output with `answer`.
    """
    config = config or StorageConfig()
    driver, _, host = BUSES[config.bus].driver.partition(" on ")
    disk = {"virtio-blk": "vdb", "nvme": "nvme0n1"}.get(config.bus, "sda")
    cache = "write back" if CACHES[config.cache].write_cache or config.bus == "nvme" else "write through"
    queues = min(config.queues or 1, config.vcpus)
    # as the kernel takes: none where there may be as many queues as CPUs
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
    shell.answer(re.compile(r"^fio --name=fill |mkfs\.|mkdir -p|modprobe"))
    shell.answer(re.compile(r"truncate -s"), f"{config.size // 2**21 * 2**20}\n")
    queue = f"/sys/block/{disk}/queue"
    told = {f"{queue}/scheduler": f"[{scheduler}]", f"{queue}/write_cache": cache, MOUNTS: "\n".join(mounts)}
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


def own_folder(asked: Asked) -> CommandResult:
    """The folder for disks is there, root's own, with nothing above it that others may write to."""
    path = asked.argv[-2]
    folders = (path, *map(str, PurePosixPath(path).parents))
    return said(asked, "user 0 0 root root none\n" + "".join(f"folder 0 0 711 root {one}\n" for one in folders))


def make_host_shell(*, free_bytes: int = 100 * 2**30) -> FakeShell:
    """A healthy host: qemu-img makes what it is asked to, df, stat and filefrag tell of it, rm removes it."""
    shell = FakeShell()
    Images(shell)

    def remove(asked: Asked) -> CommandResult:
        gone = asked.argv[-1]
        for path in [path for path in shell.files if path == gone or path.startswith(f"{gone}/")]:
            del shell.files[path]
        return said(asked)

    def look(asked: Asked) -> CommandResult:
        return said(asked, QEMU_VERSION)

    def run(asked: Asked) -> CommandResult:
        return said(asked, f"{asked.argv[4]}\nsame\nbinary\n{QEMU_VERSION}")

    shell.do(re.compile(r"^rm "), remove)
    # any QEMU that a cell names is there, and runs its guest
    shell.do(re.compile(r"exec \"\$1\" --version"), look)
    shell.do(re.compile(r"/proc/\$\{pid:-none\}/exe"), run)
    root = "22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
    shell.do(re.compile(r"readlink .*mountinfo"), lambda asked: said(asked, f"{asked.argv[-1]}\n{root}"))
    shell.answer(re.compile(r"^test -b "), returncode=1)
    # no image here has extents beside it
    shell.answer(re.compile(r"^sh -c 'ls "), returncode=2)
    shell.answer(re.compile(r"^df "), f"Type Avail Filesystem\next4 {free_bytes} /dev/vda\n")
    shell.answer(re.compile(r"^tail "), CONSOLE)
    shell.do(re.compile(r"vmstorage-write-test"), own_folder)
    shell.answer(re.compile(r"^sh -c 'for one; do dd "))
    shell.answer(re.compile(r"^(mkdir|sync|chmod) "))
    shell.answer(re.compile(r"drop_caches"), "dropped\n")
    shell.do(re.compile(r"sha256sum"), lambda asked: said(asked, f"{sha256(asked.argv[-1].encode()).hexdigest()}  -\n"))
    shell.do(re.compile(r"^readlink -f "), lambda asked: said(asked, f"{asked.argv[-1]}\n"))
    shell.answer(re.compile(r"stat -L -c "), "file\n")
    # no loop device is in use
    shell.answer(re.compile(r"loop/backing_file"), returncode=1)
    return shell


def make_lab(
    folder: Path,
    *,
    hypervisor: FakeHypervisor | None = None,
    shell: FakeShell | None = None,
    settings: LabSettings | None = None,
    root: str = "",
) -> Lab:
    """A Lab on fakes; its leases lie in `folder`. Without a hypervisor each cell gets a guest with a disk of 1 GiB."""
    hypervisor = hypervisor or FakeHypervisor(lambda _xml: FakeDomain(make_guest_shell()))
    shell = shell or make_host_shell()
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
    book = LeaseBook(folder / "leases")
    held, teardown = HeldLease(book, lease), ExitStack()
    hold(held, shell, teardown)
    host = LabHost(name="local", uri="test:///default", ssh=None, folder=FOLDER)
    factory = GuestFactory(shell=shell, host=host, hypervisor=hypervisor, boot=boot, lease=held)
    teardown.push(held.removal(hypervisor.close))
    teardown.push(held.removal(factory.close))
    return Lab(
        settings=settings or LabSettings(),
        host=host,
        shell=shell,
        hypervisor=hypervisor,
        factory=factory,
        appliance=_appliance(),
        accel=AccelChoice(used="tcg", requested="tcg", reason="asked for"),
        facts=make_host("local", accel="tcg", accel_reason="asked for"),
        held=held,
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
