"""A whole lab of fakes: what a healthy host and a booted guest answer, and a Lab on top of them."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

from pytest_vmstorage.attest import DRIVERS
from pytest_vmstorage.command import CommandResult
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.inventory import LabHost
from pytest_vmstorage.lab import Lab, LabSettings
from pytest_vmstorage.provision.accel import AccelChoice
from pytest_vmstorage.provision.appliance import Appliance, Manifest
from pytest_vmstorage.provision.boot import BootFiles
from pytest_vmstorage.provision.lease import Lease, LeaseBook, this_process
from pytest_vmstorage.provision.pool import GuestPool
from pytest_vmstorage.provision.testdisk import CACHE_FLAGS
from pytest_vmstorage.testing.builders import make_host
from pytest_vmstorage.testing.hypervisor import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.images import Images, said
from pytest_vmstorage.testing.shell import Asked, FakeShell

CONSOLE = "[    1.2] virtio_blk virtio1: 1/0/0 queues\n[    1.9] init: ready\n"
"""What every guest's console ends with."""

FOLDER = "/srv/vm"
"""Where the disks of a fake host lie."""


def make_guest_shell(config: StorageConfig | None = None) -> FakeShell:
    """A booted guest with the disk of that cell: it tells its facts, forgets and fills.

    Give it the workloads' output with `answer`.
    """
    config = config or StorageConfig()
    driver, _, host = DRIVERS[config.bus].partition(" on ")
    disk = {"virtio-blk": "vdb", "nvme": "nvme0n1"}.get(config.bus, "sda")
    cache = "write back" if CACHE_FLAGS[config.cache][2] or config.bus == "nvme" else "write through"
    queues = min(config.queues or 1, config.vcpus)
    facts = (
        f"6.1.0-18-amd64|{config.vcpus}|489300\n"
        "vda|102400|vmstorage-root|write back|[none] mq-deadline|512|1|virtio_blk||1|2147483136\n"
        f"{disk}|{config.size // 512}|vmstorage-test|{cache}|[mq-deadline] none|512|1|"
        f"{driver}|{host}|{queues}|2147483136\n"
    )
    shell = FakeShell()
    shell.answer(re.compile(r"uname -r"), facts)
    shell.answer(re.compile(r"blockdev --flushbufs"))
    shell.answer(re.compile(r"^fio --name=fill "))
    return shell


def make_host_shell(*, free_bytes: int = 100 * 2**30) -> FakeShell:
    """A healthy host: qemu-img makes what it is asked to, df, stat and filefrag tell of it, rm removes it."""
    shell = FakeShell()
    Images(shell)

    def remove(asked: Asked) -> CommandResult:
        gone = asked.argv[-1]
        for path in [path for path in shell.files if path == gone or path.startswith(f"{gone}/")]:
            del shell.files[path]
        return said(asked)

    shell.do(re.compile(r"^rm "), remove)
    shell.answer(re.compile(r"^test -b "), returncode=1)
    # no image here has extents beside it
    shell.answer(re.compile(r"^sh -c 'ls "), returncode=2)
    shell.answer(re.compile(r"^df "), f"Type Avail Filesystem\next4 {free_bytes} /dev/vda\n")
    shell.answer(re.compile(r"^tail "), CONSOLE)
    shell.answer(re.compile(r"^(mkdir|sync) "))
    shell.answer(re.compile(r"drop_caches"))
    return shell


def make_lab(
    folder: Path,
    *,
    hypervisor: FakeHypervisor | None = None,
    shell: FakeShell | None = None,
    settings: LabSettings | None = None,
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
    )
    boot = BootFiles(emulator="/usr/bin/qemu-system-x86_64", kernel="/a/kernel", initrd="/a/initrd", root="/a/root")
    book = LeaseBook(folder / "leases")
    book.write(lease)
    return Lab(
        settings=settings or LabSettings(),
        host=LabHost(name="local", uri="test:///default", ssh=None, folder=FOLDER),
        shell=shell,
        hypervisor=hypervisor,
        pool=GuestPool(shell=shell, hypervisor=hypervisor, boot=boot, lease=lease, book=book),
        appliance=_appliance(),
        accel=AccelChoice(used="tcg", requested="tcg", reason="asked for"),
        facts=make_host("local", accel="tcg", accel_reason="asked for"),
        lease=lease,
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
