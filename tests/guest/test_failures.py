"""Failures are figures too: each has a name and its evidence, the guest goes, and the next cell is measured."""

from __future__ import annotations

import itertools
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from failing_firmware import INSTRUCTIONS, firmware

from pytest_vmstorage import Fio, StorageConfig
from pytest_vmstorage.config.inventory import ListedDevice
from pytest_vmstorage.config.settings import AccelChoice, AccelRequest
from pytest_vmstorage.errors import (
    BootTimeoutError,
    DiskMissingError,
    GuestDiedError,
    GuestError,
    GuestSilentError,
    HostError,
    HypervisorError,
    VmStorageError,
    WorkloadError,
)
from pytest_vmstorage.guest.acceleration import CanaryCache
from pytest_vmstorage.guest.boot import BootFiles
from pytest_vmstorage.guest.disk_xml import TEST_ALIAS
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.guest.libvirt import hypervisor
from pytest_vmstorage.host.shell import TIMED_OUT, LocalShell, reread, run_line
from pytest_vmstorage.lab import environments
from pytest_vmstorage.lab.acceleration import find_accel
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.testing.system import interpose

GIVEN_UP = (
    "QEMU gave the guest up: KVM failed with an internal error at the instruction"
    rf" '({'|'.join(map(re.escape, INSTRUCTIONS))})', which it cannot run\."
)
WRITE = Fio(rw="write", bs="1M", size="64M")
ONCE = Plan(rounds=1, warmup=0, timeout_s=30)

# sizes that no other test uses: the lab remembers which cells failed
SIZES = itertools.count(1025)


class Hasty(Fio):
    """A job that is thought to take no time."""

    @property
    def expected_seconds(self) -> float:
        """Half a second."""
        return 0.5


def cell(**values: object) -> StorageConfig:
    """A cell of its own."""
    return StorageConfig(**{"size": next(SIZES) * 2**20, **values})


def failed(lab: Lab, guest: Guest) -> VmStorageError:
    """What a failed round of that guest is told as."""
    system = lab.environment(guest.config)
    with pytest.raises((WorkloadError, GuestError)) as caught:
        measure(system, WRITE, ONCE)
    return lab.explain(system, caught.value)


def qemu(lab: Lab, guest: Guest) -> int:
    """The process of the guest's QEMU."""
    return int(lab.shell.run(["pgrep", "-f", "--", f"-uuid {guest.machine.spec.uuid}"]).stdout.split()[0])


def inject_errors(guest: Guest) -> None:
    """From now on QEMU fails every write: its own blkdebug between the image's format and its file."""
    nodes = guest.machine.domain.monitor("query-named-block-nodes", flat=True)
    file = next(one["node-name"] for one in nodes if one["file"] == guest.machine.spec.disk and one["drv"] == "file")
    top = next(one["node-name"] for one in nodes if one["file"] == guest.machine.spec.disk and one["drv"] == "raw")
    broken = [{"event": "none", "iotype": "write", "errno": 5}]
    guest.machine.domain.monitor(
        "blockdev-add", **{"driver": "blkdebug", "node-name": "broken", "image": file, "inject-error": broken}
    )
    reopened = {"driver": "raw", "node-name": top, "file": "broken", "cache": {"direct": True, "no-flush": False}}
    guest.machine.domain.monitor("blockdev-reopen", options=[reopened])


@pytest.mark.restored
def test_a_full_host_is_told_as_such(lab: Lab) -> None:
    """The folder fills up behind the guest's back; QEMU and the guest say only that a write failed."""
    guest = lab.guest(cell(host_fs="ext4"))
    disk = guest.machine.disk
    assert disk is not None
    assert disk.host_fs is not None
    filler = f"{disk.host_fs.mountpoint}/filler"
    LocalShell().run(["sh", "-c", f"head -c 3G /dev/zero >{filler}"])
    error = failed(lab, guest)
    assert error.what.startswith("no space on the host: ")
    assert "of the disk: No space left on device; its folder has 0 B free" in error.what
    assert error.what.endswith("; its agent answers).")
    lab.shell.run(["rm", "-f", filler])
    lab.drop()


@pytest.fixture
def device(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A loop device of 256 MiB, the one that this host lists."""
    image = tmp_path / "device"
    with image.open("wb") as stream:
        stream.truncate(256 * 2**20)
    node = LocalShell().run(["losetup", "--find", "--show", str(image)]).stdout.strip()
    listed = ListedDevice(name="spare", kind="device", id=f"loop:{image}")
    monkeypatch.setattr(lab.factory._disks, "_host", lab.host.model_copy(update={"devices": (listed,)}))
    yield node
    lab.drop()
    lab.factory.settle()
    LocalShell().run(["losetup", "--detach", node])


@pytest.mark.restored
def test_an_image_that_no_longer_fits_its_device_is_told(lab: Lab, device: str, tmp_path: Path) -> None:
    """The device below a qcow2 becomes smaller than the image wants to grow."""
    guest = lab.guest(cell(format="qcow2", backing="device", size="192M"))
    os.truncate(tmp_path / "device", 16 * 2**20)
    LocalShell().run(["losetup", "--set-capacity", device])
    error = failed(lab, guest)
    assert error.what.startswith("no space on the device: ")
    assert "I/O errors of the disk: No space left on device; guest's kernel: " in error.what


@pytest.mark.restored
def test_a_full_file_system_in_the_guest_is_told(lab: Lab) -> None:
    """Its test file is sparse, and something else took the room."""
    guest = lab.guest(cell(guest_fs="ext4"))
    made = guest.file_system
    assert made is not None
    guest.run(f"fallocate -l {made.size_bytes} {made.mountpoint}/filler; cat /dev/zero >{made.mountpoint}/rest")
    error = failed(lab, guest)
    assert error.what.startswith("no space in the guest: Filling /mnt/vmstorage/test ")
    assert re.search(r"\(its file system has 0 B and \d+ inodes free; its agent answers\)", error.what)
    assert guest.run("true").ok
    lab.drop()


def append_to_cmdline(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    """Let guests' kernels boot with these words too."""
    real = BootFiles.cmdline
    monkeypatch.setattr(BootFiles, "cmdline", lambda *asked: f"{real(*asked)} {words}")


@pytest.mark.parametrize(("bus", "module"), [("virtio-scsi", "virtio_scsi"), ("nvme", "nvme")])
def test_a_disk_that_does_not_appear_is_told_and_the_next_cell_is_measured(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, bus: str, module: str
) -> None:
    """The guest's kernel has no driver for it: what it sees, what it logged, its console."""
    config = cell(bus=bus)
    with monkeypatch.context() as patch:
        append_to_cmdline(patch, f"module_blacklist={module}")
        error = not_made(lab, config)
    assert isinstance(error, DiskMissingError)
    assert error.what.startswith(
        f"disk did not appear: The guest of {config} does not see its disk of {config.size} bytes on {bus} (disks: vda "
    )
    assert re.search(rf" \(guest's kernel: .*Module {module} is blacklisted; its agent answers\)\.$", error.what)
    assert f"can't load module {module}" in error.console
    assert measure(lab.environment(cell(bus=bus)), WRITE, ONCE).bw > 0


def test_a_guest_that_does_not_answer_is_told_with_its_console(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel boots, and starts something that sleeps in place of all else."""
    config = cell()
    with monkeypatch.context() as patch:
        append_to_cmdline(patch, "loglevel=7 rdinit=/bin/busybox -- sleep 600")
        # on a busy host the kernel takes its time to come that far
        patch.setattr(lab.provisioner, "settings", lab.settings.model_copy(update={"timeout_s": 20.0}))
        error = not_made(lab, config)
    assert isinstance(error, BootTimeoutError)
    assert error.what == (
        f"guest did not answer: The guest of {config} did not answer within 20 s (its agent does not answer)."
    )
    assert "Run /bin/busybox as init process" in error.console


def test_a_guest_that_ends_as_it_boots_is_told_with_its_console(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that finds no PCI bus finds no root, says so and powers off."""
    config = cell()
    with monkeypatch.context() as patch:
        append_to_cmdline(patch, "pci=off")
        error = not_made(lab, config)
    assert isinstance(error, GuestDiedError)
    assert error.what.startswith("guest ended: ")
    assert error.console


def not_made(lab: Lab, config: StorageConfig) -> GuestError:
    """What a cell is told as whose guest cannot be used; nothing is left of it, and it is not tried again."""
    before = set(disks(lab))
    with pytest.raises(GuestError) as caught:
        lab.guest(config)
    lab.factory.settle()
    assert set(disks(lab)) <= before
    assert not lab.shell.run(["pgrep", "-f", "--", f"guest=vms-{lab.lease.run_id}-"]).ok
    with pytest.raises(GuestError) as again:
        lab.guest(config)
    assert again.value is caught.value
    return caught.value


def disks(lab: Lab) -> list[str]:
    """Images in the run's folder."""
    return [path.name for path in Path(lab.factory.folder).glob("disk-*")]


@pytest.mark.restored
def test_an_injected_error_is_told_with_the_kernels_words(lab: Lab) -> None:
    """QEMU's blkdebug fails the writes; the guest's kernel logs them."""
    guest = lab.guest(cell())
    inject_errors(guest)
    error = failed(lab, guest)
    assert error.what.startswith("I/O error: ")
    assert "I/O errors of the disk: Input/output error; " in error.what
    assert "I/O error, dev vdb" in error.what
    lab.drop()


@pytest.mark.restored
def test_a_mount_that_becomes_read_only_is_told(lab: Lab) -> None:
    """As IDE with writeback did in a published study, again and again: here because its journal cannot be written."""
    guest = lab.guest(cell(guest_fs="ext4", guest_mount="errors=remount-ro"))
    inject_errors(guest)
    made = guest.file_system
    assert made is not None
    guest.run(f"touch {made.mountpoint}/x; sync; sleep 6; touch {made.mountpoint}/y; sync", timeout_s=60)
    error = failed(lab, guest)
    assert error.what.startswith("mount became read-only: ")
    assert f"{made.mountpoint} is mounted read-only" in error.what
    lab.drop()


@pytest.mark.parametrize(
    ("number", "name"), [(signal.SIGSTOP, "guest stopped answering"), (signal.SIGKILL, "guest ended")]
)
def test_a_guest_that_is_gone_is_told_and_the_next_cell_is_measured(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, number: int, name: str
) -> None:
    """Stopped, its agent answers no more, nor does its monitor; killed, it ended. Either way nothing of it is left."""
    monkeypatch.setattr(hypervisor, "MONITOR_S", 5.0)
    guest = lab.guest(cell())
    system, process = lab.environment(guest.config), qemu(lab, guest)
    with pytest.raises((WorkloadError, GuestError)) as caught:
        measure(interpose(system, lambda: os.kill(process, number)), WRITE, ONCE)
    error = lab.explain(system, caught.value)
    assert error.what.startswith(f"{name}: ")
    assert error.what.endswith(" (its agent does not answer).") is (number == signal.SIGSTOP)
    assert isinstance(error, GuestError)
    assert error.console
    with pytest.raises(GuestError, match=name):
        lab.guest(guest.config)
    lab.factory.settle()
    assert not lab.shell.run(["test", "-e", f"/proc/{process}"]).ok
    assert not lab.shell.run(["test", "-e", guest.machine.spec.disk]).ok
    assert measure(lab.environment(cell()), WRITE, ONCE).bw > 0


@pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="there is no KVM that could fail")
def test_a_guest_that_kvm_cannot_run_is_given_up_at_once(lab: Lab, tmp_path: Path) -> None:
    """By QEMU's own event, with the instruction: nobody waits for the time that a guest has to boot."""
    begin = time.monotonic()
    domain = lab.hypervisor.start(failing_under_kvm(lab, tmp_path))
    try:
        with pytest.raises(GuestDiedError, match=f"^{GIVEN_UP} Use --vm-accel=tcg here") as caught:
            domain.wait_for_agent(120)
        assert caught.value.code == "VM502"
        assert "--vm-accel=tcg" in caught.value.hint
        # and whoever waits for it later
        with pytest.raises(GuestDiedError, match=f"^{GIVEN_UP} Use --vm-accel=tcg here"):
            domain.wait_for_agent(120)
    finally:
        domain.destroy()
    assert time.monotonic() - begin < 100


@pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="there is no KVM that could fail")
def test_a_run_finds_out_at_once_that_kvm_cannot_run_a_guest(lab: Lab, tmp_path: Path) -> None:
    """By its test guest: it goes on without KVM, or is refused where KVM was demanded, with the reason."""
    begin = time.monotonic()

    def make(*_what: object) -> SimpleNamespace:
        return SimpleNamespace(domain=lab.hypervisor.start(failing_under_kvm(lab, tmp_path)))

    def find(requested: AccelRequest) -> AccelChoice:
        choice, _ = find_accel(
            requested,
            host="here",
            appliance_key="k",
            shell=LocalShell(),
            hypervisor=lab.hypervisor,
            factory=cast("GuestFactory", SimpleNamespace(emulator=lab.factory.emulator, make=make, discard=end)),
            cache=CanaryCache(tmp_path / f"{requested}.json"),
            say=print,
            patience_s=600.0,
        )
        return choice

    def end(machine: SimpleNamespace) -> None:
        machine.domain.destroy()

    choice = find("auto")
    said = f"KVM opens, but {GIVEN_UP}"
    assert choice.used == "tcg"
    assert re.fullmatch(said.removesuffix(r"\."), choice.reason), choice
    with pytest.raises(HostError, match=f"^--vm-accel=kvm: {said} "):
        find("kvm")
    assert time.monotonic() - begin < 100


def failing_under_kvm(lab: Lab, folder: Path) -> str:
    """The XML of a guest whose firmware no KVM can run."""
    path = folder / "firmware.rom"
    path.write_bytes(firmware())
    return f"""\
<domain type='kvm'>
  <name>vms-test-given-up</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type><loader readonly='yes' type='rom'>{path}</loader></os>
  <cpu mode='custom' check='none'><model>qemu64</model></cpu>
  <devices><emulator>{lab.factory.emulator}</emulator></devices>
</domain>
"""


@pytest.mark.restored
def test_a_qemu_that_stands_still_keeps_nobody(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its counters are waited for with a limit, which libvirt itself does not have; it can be removed all the same."""
    monkeypatch.setattr(hypervisor, "MONITOR_S", 2.0)
    guest = lab.guest(cell())
    system, process = lab.environment(guest.config), qemu(lab, guest)
    os.kill(process, signal.SIGSTOP)
    for _ in range(2):
        with pytest.raises(GuestSilentError, match="QEMU has not answered for 2 s"):
            system.count()
    with pytest.raises(GuestSilentError, match="pausing the guest: QEMU has not answered"):
        guest.machine.domain.pause()
    lab.drop()
    lab.factory.settle()
    assert not lab.shell.run(["test", "-e", f"/proc/{process}"]).ok


@pytest.mark.restored
def test_a_tool_past_its_limit_is_told_and_its_guest_lives(lab: Lab) -> None:
    """It is killed in the guest."""
    system = lab.environment(cell())
    guest = system.fixture_value
    job = Hasty(rw="randread", bs="4k", size="64M", runtime=300, time_based=True)
    with pytest.raises(WorkloadError) as caught:
        measure(system, job, Plan(rounds=1, warmup=0, timeout_s=1.0))
    assert lab.explain(system, caught.value).what.startswith("past its time limit: ")
    assert guest.run("true").ok


@pytest.mark.restored
def test_a_line_past_its_limit_is_killed_with_what_it_runs(lab: Lab) -> None:
    """One that says little, as those around rounds are; the next one is answered."""
    guest = lab.guest(StorageConfig())
    begin = time.monotonic()
    done = run_line(guest.shell, 'echo begun; sleep "$1"; echo over', "60.125", timeout_s=1.0)
    assert (done.returncode, done.stdout) == (TIMED_OUT, "begun\n")
    assert time.monotonic() - begin < 20
    left = run_line(guest.shell, "cat /proc/[0-9]*/comm", timeout_s=20).stdout.splitlines()
    assert "qemu-ga" in left
    assert "sleep" not in left


@pytest.mark.restored
def test_a_file_that_stays_open_is_read_as_it_is_now(lab: Lab) -> None:
    """By a real agent: a setting that changes between two looks, and a mount that comes and becomes read-only."""
    guest = lab.guest(StorageConfig())
    scheduler = f"/sys/block/{Path(guest.disk).name}/queue/scheduler"
    changes = ("none", "mq-deadline", "none")
    found = [(reread(guest.shell, scheduler), guest.run(f"echo {to} >{scheduler}")) for to in changes]
    assert all(done.ok for _, done in found)
    told = [text for text, _ in found[1:]]
    assert ["[none]" in one for one in told] == [True, False]
    assert [reread(guest.shell, scheduler) for _ in range(2)] == [guest.shell.read(scheduler)] * 2
    before = reread(guest.shell, "/proc/mounts")
    assert guest.run("mkdir -p /mnt/one && mount -t tmpfs one /mnt/one").ok
    assert len(reread(guest.shell, "/proc/mounts").splitlines()) == len(before.splitlines()) + 1
    assert guest.run("mount -o remount,ro /mnt/one").ok
    assert reread(guest.shell, "/proc/mounts") == guest.shell.read("/proc/mounts")


def test_a_fill_past_its_limit_is_told(lab: Lab) -> None:
    """A disk that is slow, as QEMU throttles it: what is done before the rounds has a limit too."""
    system = lab.environment(cell())
    guest = system.fixture_value
    device = next(one["qdev"] for one in guest.machine.domain.monitor("query-block") if TEST_ALIAS in one["qdev"])
    limits = {"bps": 0, "bps_rd": 0, "bps_wr": 300_000, "iops": 0, "iops_rd": 0, "iops_wr": 0}
    guest.machine.domain.monitor("block_set_io_throttle", id=device, **limits)
    with pytest.raises(WorkloadError) as caught:
        measure(system, Fio(rw="randread", bs="4k", size="4M"), Plan(rounds=1, warmup=0, timeout_s=0.5))
    told = lab.explain(system, caught.value)
    assert told.what.startswith("past its time limit: Filling /dev/vdb before the measurement did not end within ")
    assert guest.run("true").ok


@pytest.mark.restored
def test_what_qemu_refuses_is_a_sentence(lab: Lab) -> None:
    """libvirt hands QEMU's refusal on as an answer."""
    domain = lab.guest(cell()).machine.domain
    with pytest.raises(HypervisorError) as caught:
        domain.monitor("no-such-command")
    sentence = "monitor command no-such-command failed: The command no-such-command has not been found."
    assert caught.value.told == sentence


def test_a_guest_that_floods_its_console_is_ended(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its round is no figure, and nothing more of it reaches the host's disk."""
    guest = lab.guest(cell())
    size = Path(guest.machine.spec.console).stat().st_size
    monkeypatch.setattr(environments, "CONSOLE_BYTES", size + 2000)
    guest.run("head -c 1000 /dev/zero | tr '\\0' x >/dev/ttyS0")
    assert lab.environment(guest.config).recheck() == ""
    guest.run("head -c 3000 /dev/zero | tr '\\0' x >/dev/ttyS0")
    assert lab.environment(guest.config).recheck().startswith("the guest wrote more than ")
    deadline = time.monotonic() + 60
    while guest.machine.domain.is_active() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not guest.machine.domain.is_active()
    assert len(guest.machine.console_tail()) <= 2**16
    lab.drop()
