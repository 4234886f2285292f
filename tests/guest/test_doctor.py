"""`vmstorage doctor` on this machine, and its word put to the test: guests of what it allows, refusals of the rest."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from pytest_vmstorage.cli.doctor.device import SCHEDULERS
from pytest_vmstorage.cli.doctor.examine import Diagnosis, examine_lab, findings
from pytest_vmstorage.cli.doctor.seen import AxisFinding, Observations, run_trials
from pytest_vmstorage.config.buses import BUSES, Cache
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import AttestationError, HypervisorError
from pytest_vmstorage.guest.domain_xml import domain_xml
from pytest_vmstorage.host.folders import folder_facts
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.image import make_disk

SIZE = "128M"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


@pytest.fixture(scope="module")
def diagnosis(lab: Lab) -> Diagnosis:
    """What the doctor finds in the lab that the guests here run in."""
    return examine_lab(lab)


def found(diagnosis: Diagnosis, axis: str, value: str) -> AxisFinding:
    """The finding of that value."""
    return next(one for one in diagnosis.findings if (one.axis, one.value) == (axis, value))


def statuses(diagnosis: Diagnosis, axis: str) -> dict[str, str]:
    """The statuses of an axis by value."""
    return {one.value: one.status for one in diagnosis.findings if one.axis == axis}


def doctor(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "pytest_vmstorage.cli.command", "doctor", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


def json_of(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """The findings of `--json` by axis and value."""
    return {(one["axis"], one["value"]): one for one in json.loads(done.stdout)["findings"]}


def test_the_command_leaves_nothing(lab: Lab, tmp_path: Path) -> None:
    """Guests can run, and the folder it tried things in is as empty as before; benchmarks/doctor.py has its time."""
    del lab  # its acceleration is known by now, so that the command boots no guest to find it
    done = doctor("--vm-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    heads = [line.split()[0] for line in done.stdout.splitlines() if line and not line.startswith(" ")]
    assert heads[:6] == ["host", "kernel", "hypervisor", "acceleration", "disks", "appliance"]
    assert list(tmp_path.iterdir()) == []


def test_nothing_was_left_untried(diagnosis: Diagnosis) -> None:
    """Every trial that a finding rests on was made by the script."""
    assert not [one for one in diagnosis.findings if "not tried" in one.why]


@pytest.mark.parametrize("bus", BUSES)
def test_a_bus_that_it_allows_boots(lab: Lab, diagnosis: Diagnosis, bus: str) -> None:
    """A guest comes up with its disk on that bus."""
    assert found(diagnosis, "bus", bus).status in ("yes", "limited")
    assert lab.guest(StorageConfig(bus=bus, size=SIZE)).facts.disk_bytes == 128 * 2**20


def test_ide_is_limited_because_q35_refuses_it(lab: Lab, diagnosis: Diagnosis) -> None:
    """libvirt says so for the domain of an IDE cell when its machine is q35."""
    assert "not on q35" in found(diagnosis, "bus", "ide").why
    config = StorageConfig(bus="ide", size=SIZE)
    disk = HostDisk(config=config, path="/dev/null")
    spec = lab.factory.spec(f"vms-{lab.lease.run_id}-q35", str(uuid.uuid4()), disk, lab.accel.used)
    with pytest.raises(HypervisorError, match="IDE controllers are unsupported"):
        lab.hypervisor.start(domain_xml(spec, lab.lease).replace('machine="pc"', 'machine="q35"'))


def test_write_through_on_usb_is_as_it_says(lab: Lab, diagnosis: Diagnosis) -> None:
    """Where the trial found the write cache left on, a guest's proof is contradicted; elsewhere it is proven."""
    config = StorageConfig(bus="usb", cache="writethrough", size=SIZE)
    if found(diagnosis, "cache", "writethrough").status == "limited":
        with pytest.raises(AttestationError, match="write-cache auto"):
            lab.guest(config)
    else:
        assert lab.guest(config).facts.write_cache == "write through"


def test_schedulers_and_file_systems_are_in_the_guest(lab: Lab, diagnosis: Diagnosis) -> None:
    """Those it allows can be chosen, made and mounted on the disk."""
    guest = lab.guest(StorageConfig(size="512M"))
    queue = f"/sys/block/{Path(guest.disk).name}/queue/scheduler"
    chosen = {name for name, status in statuses(diagnosis, "scheduler").items() if status == "yes"} - {"default"}
    assert chosen >= {"none", *SCHEDULERS}
    for name in sorted(chosen):
        guest.run(f"modprobe {SCHEDULERS.get(name, 'loop')}")
        done = guest.run(f"echo {name} >{queue} && cat {queue}")
        assert f"[{name}]" in done.stdout, name
    made = {name for name, status in statuses(diagnosis, "guest_fs").items() if status == "yes"} - {"none"}
    assert made == {"ext3", "ext4", "xfs", "btrfs"}
    for name in sorted(made):
        force = "-F" if name.startswith("ext") else "-f"
        done = guest.run(f"mkfs.{name} -q {force} {guest.disk} && mount -t {name} {guest.disk} /mnt && umount /mnt")
        assert done.returncode == 0, (name, done.stderr)


def test_lvm_and_zfs_are_what_the_kernel_has(lab: Lab, diagnosis: Diagnosis) -> None:
    """Where it says no, asking the kernel's driver fails too."""
    for value, command in (("lvm", ["dmsetup", "targets"]), ("zvol", ["zfs", "list"])):
        if found(diagnosis, "backing", value).status == "no":
            assert not lab.shell.run(command).ok, value


@contextlib.contextmanager
def mounted(folder: Path, *words: str | Path) -> Iterator[Path]:
    """Something mounted on a folder of that name for the time of a test."""
    folder.mkdir()
    subprocess.run(["mount", *words, folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def judged(lab: Lab, folder: Path) -> dict[tuple[str, str], AxisFinding]:
    """The findings for another folder than the lab's, by axis and value."""
    trials = run_trials(LocalShell(), str(folder / "doctor"), lab.factory.emulator)
    assert list(folder.glob("doctor")) == []
    seen = Observations(trials=trials, folder=folder_facts(lab.shell, str(folder)), libvirt=lab.facts.libvirt)
    return {(one.axis, one.value): one for one in findings(seen)}


@needs_root
def test_without_o_direct_cache_none_does_not_start(lab: Lab, tmp_path: Path) -> None:
    """On ramfs, which has none: QEMU refuses the guests that it rules out, and starts the others."""
    with mounted(tmp_path / "ram", "-t", "ramfs", "none") as folder:
        here = judged(lab, folder)
        refused = {cache for cache in get_args(Cache) if here["cache", cache].status == "no"}
        assert refused == {"none", "directsync"}
        assert (here["io", "native"].status, here["io", "threads"].status) == ("no", "yes")
        assert here["discard", "unmap"].status == "limited"
        # it says of itself that it has no room
        assert here["backing", "file"].status == "no"
        disk = folder / "disk.raw"
        subprocess.run(["qemu-img", "create", "-q", "-f", "raw", disk, "8M"], check=True)
        for cache in get_args(Cache):
            config = StorageConfig(cache=cache, size="8M")
            made = HostDisk(config=config, path=str(disk))
            name = f"vms-{lab.lease.run_id}-{cache}"
            xml = domain_xml(lab.factory.spec(name, str(uuid.uuid4()), made, lab.accel.used))
            if cache in refused:
                with pytest.raises(HypervisorError, match="O_DIRECT"):
                    lab.hypervisor.start(xml)
            else:
                lab.hypervisor.start(xml).destroy()


@needs_root
def test_without_fallocate_a_preallocated_image_is_no_such_thing(lab: Lab, tmp_path: Path) -> None:
    """On ext3, which has none: qemu-img writes zeros instead, and the proof of the cell says so."""
    image = tmp_path / "image"
    subprocess.run(["truncate", "-s", "300M", image], check=True)
    subprocess.run(["mkfs.ext3", "-q", image], check=True)
    with mounted(tmp_path / "ext3", "-o", "loop", image) as folder:
        here = judged(lab, folder)
        assert here["preallocation", "falloc"].status == "no"
        assert here["backing", "file"].status == "yes"
        config = StorageConfig(preallocation="falloc", size="8M")
        with pytest.raises(AttestationError, match="asked to be falloc but is full"):
            make_disk(LocalShell(), config, str(folder / "disk.raw"))


def test_without_qemu_it_says_so_and_what_can_be_told(tmp_path: Path) -> None:
    """The sentence, exit status 1, the findings that need no guest, and nothing left."""
    programs, disks = tmp_path / "bin", tmp_path / "disks"
    programs.mkdir()
    for folder in os.environ["PATH"].split(":"):
        for program in Path(folder).glob("*"):
            link = programs / program.name
            if not program.name.startswith("qemu") and not link.is_symlink():
                link.symlink_to(program)
    done = doctor("--json", "--vm-dir", str(disks), PATH=str(programs), VMSTORAGE_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert done.stderr.startswith("vmstorage: There is no QEMU on ")
    findings = json_of(done)
    assert findings["format", "qcow2"]["why"] == "qemu-img: command not found"
    assert findings["bus", "ide"]["why"] == "no guest can run here"
    assert ("backing", "native") in findings
    assert list(disks.iterdir()) == []
    assert list((tmp_path / "cache" / "leases").glob("*.json")) == []
