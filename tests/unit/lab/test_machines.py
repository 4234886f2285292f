"""Machines that the plugin did not make: measured on a file or disk of theirs, and left as found.

Tests of `lab.machines`, `lab.machine_disk`, and `lab.opening` as far as it clears such machines.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pytest_vmstorage.cli.doctor.seen import look_at_machines
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import Inventory, ListedDevice, ListedMachine, find_host
from pytest_vmstorage.errors import (
    AttestationError,
    ConfigError,
    ForeignPathError,
    HostError,
    ProvisionError,
    SpaceError,
    UnsupportedError,
)
from pytest_vmstorage.host.device_node import NodeFacts
from pytest_vmstorage.host.lease import LeaseBook, Owner
from pytest_vmstorage.host.shell import LocalShell, Shell
from pytest_vmstorage.lab.environments import Services
from pytest_vmstorage.lab.machine_disk import check_tools, make_machine_disk, plan_disk, stable_names
from pytest_vmstorage.lab.machines import Machines, ask_machine, machine_facts, row_facts
from pytest_vmstorage.lab.opening import reap_host
from pytest_vmstorage.leftovers import boot_id
from pytest_vmstorage.measure.proof.without_guest import STATED_BY, conclude_machine
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.testing.shell import FakeShell

CELL = StorageConfig(backing="machine:here", size="4M")
LABEL = {"format": "vmfs", "bus": "pvscsi"}
DISK = ListedMachine(
    name="esx", ssh="root@esx", disk=ListedDevice(name="esx", kind="device", id="wwn-0x5"), label=LABEL
)
SERVICES = cast("Services", SimpleNamespace(factory=SimpleNamespace(settle=lambda: None), settings=None))
ON_DISK = StorageConfig(backing="machine:esx", size="4M")


def listing(folder: Path, **more: ListedMachine) -> Inventory:
    """An inventory with this machine under the name "here", measured in that folder."""
    here = ListedMachine(name="here", folder=str(folder / "bench"), label=LABEL)
    return Inventory(source="f.toml", machines={"here": here, **more})


def test_a_file_is_made_proven_and_removed(tmp_path: Path) -> None:
    """Sparse and of the cell's size; the machine's folder is as empty afterwards as it was."""
    machines = Machines(listing(tmp_path))
    row = machines.make(CELL, SERVICES)
    assert Path(row.disk).stat().st_size == 4 * 2**20
    assert (row.paths.is_file, row.paths.scratch) == (True, str(Path(row.disk).parent))
    proof = {one.field: (one.status, one.asked, one.why) for one in row.proof}
    assert proof["backing"][:2] == ("proven", "machine:here")
    assert proof["size"][:2] == ("proven", "4M")
    assert proof["state"][0] == "unprovable"
    assert proof["format"] == ("unprovable", "vmfs", STATED_BY)
    assert proof["bus"] == ("unprovable", "pvscsi", STATED_BY)
    assert set(proof) == {"backing", "size", "state", "format", "bus"}
    row.release()
    assert not Path(row.disk).exists()
    machines.close()
    assert list((tmp_path / "bench").iterdir()) == []


def test_nothing_but_the_runs_own_is_written_on_a_machine(tmp_path: Path) -> None:
    """From the moment when the run's folder is there."""
    machines = Machines(listing(tmp_path))
    row, other = machines.make(CELL, SERVICES), tmp_path / "other"
    other.write_text("precious")
    with pytest.raises(ForeignPathError, match=f"truncate would be given {other} on here, "):
        row.shell.run(["truncate", "-s", "0", "--", str(other)])
    assert other.read_text() == "precious"
    machines.close()


def test_a_second_row_has_a_file_of_its_own(tmp_path: Path) -> None:
    """And the folder of the run is one."""
    machines = Machines(listing(tmp_path))
    one, other = machines.make(CELL, SERVICES), machines.make(CELL, SERVICES)
    assert one.disk != other.disk
    assert Path(one.disk).parent == Path(other.disk).parent
    machines.close()


def test_the_facts_are_the_machines_own(tmp_path: Path) -> None:
    """They are the fingerprint of its rows: another kernel or another machine behind the name is told."""
    machines = Machines(listing(tmp_path))
    assert machines.facts(CELL).cpu == "unknown"
    assert machines.facts(CELL).stated == LABEL
    row = machines.make(CELL, SERVICES)
    facts = machines.facts(CELL)
    assert (facts.name, facts.kernel, facts.stated, facts.is_machine) == ("here", os.uname().release, LABEL, True)
    assert facts.memory_bytes > 0
    assert facts.cores == os.cpu_count()
    assert facts.accel == "unknown" or facts.accel.endswith(" (said)")
    assert facts.accel_of(CELL) == facts.accel
    assert list(row.facts) == ["kernel", "cpus", "os", "hypervisor", "hardware", "machine id"]
    assert row.facts["kernel"] == os.uname().release
    assert machines.all_facts == (facts,)
    machines.close()


@pytest.mark.parametrize(("chosen", "waited"), [(0.0, 0.0), (90.0, 90.0), (None, 600.0)])
def test_another_job_is_waited_for_as_the_user_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: float | None, waited: float
) -> None:
    """By --vm-wait, as on a lab host."""
    leases: list[tuple[str, float]] = []

    def lease(_shell: Shell, name: str, *, wait_s: float) -> SimpleNamespace:
        leases.append((name, wait_s))
        return SimpleNamespace(alone=lambda _say: contextlib.nullcontext())

    monkeypatch.setattr("pytest_vmstorage.lab.machines.HostLease", lease)
    with Machines(listing(tmp_path), wait_s=chosen).alone(CELL):
        assert leases == [("here", waited)]


def test_testinfra_looks_at_the_machine(tmp_path: Path) -> None:
    """`guest.host` in a test, by the shell that workloads use."""
    machines = Machines(listing(tmp_path))
    row = machines.make(CELL, SERVICES)
    assert row.host.file(row.disk).size == 4 * 2**20
    assert row.host.run("exit 3").rc == 3
    assert row.run("echo $((1 + 1))").stdout == "2\n"
    machines.close()


def test_a_machine_booted_anew_is_noticed(tmp_path: Path) -> None:
    """Its rounds were not of one machine's life."""
    machines = Machines(listing(tmp_path))
    row = machines.make(CELL, SERVICES)
    assert row.recheck() == ""
    row.shell = FakeShell({"/proc/sys/kernel/random/boot_id": b"another\n"})
    assert row.recheck() == "the machine was booted anew meanwhile"
    row.shell = LocalShell()
    machines.close()


@pytest.mark.parametrize(
    ("tool", "state", "sentence"),
    [
        ("no-such-tool", "fresh", "The machine here (this machine) lacks no-such-tool."),
        ("sh", "filled", ""),
        ("no-such-tool", "filled", "The machine here (this machine) lacks no-such-tool"),
    ],
)
def test_a_tool_that_the_machine_lacks_is_named(tmp_path: Path, tool: str, state: str, sentence: str) -> None:
    """That of the workload, and fio where it fills the file."""
    machines = Machines(listing(tmp_path))
    row = machines.make(CELL.model_copy(update={"state": state}), SERVICES)
    if not sentence and shutil.which("fio"):
        row.check_tool(tool)
    else:
        with pytest.raises(UnsupportedError) as caught:
            row.check_tool(tool)
        assert caught.value.what.startswith(sentence)
        assert caught.value.hint.startswith("Install it there;")
    machines.close()


def test_a_machine_that_is_not_listed_is_told() -> None:
    """With what to write, and which there are."""
    with pytest.raises(ConfigError) as caught:
        Machines(None).listed(ON_DISK)
    assert caught.value.what == "backing=machine:esx needs a machine of that name in vmstorage.toml."
    assert caught.value.hint.startswith("List it there: [machines.esx] with ssh")
    with pytest.raises(ConfigError) as caught:
        Machines(Inventory(source="f.toml", machines={"a": ListedMachine(name="a", folder="/x")})).listed(ON_DISK)
    assert caught.value.hint.endswith("It has: a.")
    # a worker of xdist has only this to tell of it
    assert Machines(None).facts(ON_DISK).name == "esx"


def test_a_machine_is_not_called_as_this_host_is() -> None:
    """Rows of both would be one host's."""
    name = socket.gethostname()
    machines = Machines(Inventory(source="f.toml", machines={name: ListedMachine(name=name, folder="/x")}))
    with pytest.raises(ConfigError, match=rf"f.toml, \[machines.{re.escape(name)}\]: rows of this host bear that name"):
        machines.listed(StorageConfig(backing=f"machine:{name}"))


def test_an_unreachable_machine_is_told_by_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a lab host: no password is ever asked for."""
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\necho 'ssh: connect to host esx port 22: No route to host' >&2\nexit 255\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    machines = Machines(Inventory(source="f.toml", machines={"esx": DISK}))
    with pytest.raises(HostError, match="ssh to root@esx failed: ssh: connect to host esx port 22: No route to host"):
        machines.plan(ON_DISK)
    assert machines.facts(ON_DISK).stated == LABEL


def test_the_folder_is_leased_before_it_is_made(tmp_path: Path) -> None:
    """So that what a killed run left is found."""
    book = LeaseBook(tmp_path / "leases")
    machines = Machines(listing(tmp_path), book)
    row = machines.make(CELL, SERVICES)
    (lease,) = book
    assert lease.folder == str(Path(row.disk).parent)
    assert lease.folder.endswith(f"-{lease.run_id}")
    machines.close()
    assert list(book) == []


def test_what_a_dead_run_left_on_a_machine_goes_with_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over ssh nobody else comes by; what lives, and what is leased on another machine, stays."""
    monkeypatch.setattr("pytest_vmstorage.lab.machines.SshShell", lambda _target: LocalShell())
    far = ListedMachine(name="far", ssh="root@far", folder=str(tmp_path / "bench"))
    book, inventory = LeaseBook(tmp_path / "leases"), Inventory(source="f.toml", machines={"far": far})
    dead, alive = Machines(inventory, book), Machines(inventory, book)
    cell = StorageConfig(backing="machine:far", size="4M")
    left = Path(dead.make(cell, SERVICES).disk)
    (lease,) = book
    gone = Owner(host=socket.gethostname(), boot_id=boot_id(), pid=2**22 + 1, started_ticks=1)
    book.write(lease.model_copy(update={"owner": gone}))
    elsewhere = tmp_path / "bench" / "vmstorage-0000000000"
    elsewhere.mkdir()
    other = {"owner": gone, "ssh": "root@other", "run_id": "0000000000", "folder": str(elsewhere)}
    book.write(lease.model_copy(update=other))
    living = Path(alive.make(cell, SERVICES).disk)
    assert not left.parent.exists()
    assert elsewhere.exists()
    Machines(inventory, book).make(cell, SERVICES)
    assert living.exists()


def test_reap_clears_a_machine_that_has_no_libvirt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its ssh target, as the message of a lost connection says."""
    monkeypatch.setattr("pytest_vmstorage.lab.machines.SshShell", lambda _target: LocalShell())
    monkeypatch.setattr("pytest_vmstorage.lab.opening.open_shell", lambda _host: LocalShell())
    book = LeaseBook(tmp_path / "leases")
    monkeypatch.setattr("pytest_vmstorage.lab.opening.lease_book", lambda: book)
    far = ListedMachine(name="far", ssh="root@far", folder=str(tmp_path / "bench"))
    machines = Machines(Inventory(source="f.toml", machines={"far": far}), book)
    left = Path(machines.make(StorageConfig(backing="machine:far", size="4M"), SERVICES).disk)
    (lease,) = book
    assert reap_host(find_host("root@far", None)) == []
    gone = Owner(host=socket.gethostname(), boot_id=boot_id(), pid=2**22 + 1, started_ticks=1)
    book.write(lease.model_copy(update={"owner": gone}))
    (said,) = reap_host(find_host("root@far", None))
    assert str(said).startswith(f"removed what run {lease.run_id} left on root@far: ")
    assert str(left.parent) in str(said)
    assert not left.parent.exists()


def test_a_file_that_does_not_fit_is_not_made(tmp_path: Path) -> None:
    """Room is looked for first, on the machine."""
    machines = Machines(listing(tmp_path))
    with pytest.raises(SpaceError, match=r"but a file of .* may need"):
        machines.make(StorageConfig(backing="machine:here", size=2**60), SERVICES)
    machines.close()
    assert list((tmp_path / "bench").iterdir()) == []


def test_what_cannot_be_removed_is_told_at_the_end(tmp_path: Path) -> None:
    """And no other cell's fault."""
    machines = Machines(listing(tmp_path))
    row = machines.make(CELL, SERVICES)
    row.shell = FakeShell().answer(re.compile("^rm "), returncode=1, stderr="rm: Read-only file system")
    row.release()
    with pytest.raises(ProvisionError, match="Read-only file system"):
        machines.close()


def test_the_doctor_looks_at_each_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without writing to it; one that cannot be reached is told with the reason."""
    monkeypatch.setattr(
        "pytest_vmstorage.lab.machines.SshShell", lambda _target: FakeShell().answer(re.compile(""), "wipefs")
    )
    here, esx = look_at_machines(listing(tmp_path, esx=DISK))
    assert (here.axis, here.value, here.status) == ("backing", "machine:here", "yes")
    assert here.why == f"this machine, a file of 1 MiB is made in {tmp_path}/bench and removed."
    assert (esx.value, esx.status) == ("machine:esx", "no")
    assert esx.why.startswith("The machine esx (root@esx) lacks wipefs.")
    assert not (tmp_path / "bench").exists()
    assert look_at_machines(None) == ()


# disks


def test_programs_that_a_machine_lacks_are_named() -> None:
    """All at once, and what has them."""
    shell = FakeShell().answer(re.compile("command -v"), "blkid\nwipefs\n")
    with pytest.raises(HostError) as caught:
        check_tools(shell, DISK)
    assert caught.value.what == "The machine esx (root@esx) lacks blkid, wipefs."
    check_tools(LocalShell(), ListedMachine(name="here", folder="/x"))


BLOCKS = (
    "node\tsda\t0\t\nnode\tsdb\t0\t\nnode\tsdb1\t1\tsdb\n"
    "wwid\tsdb\tnaa.5002538e40a1b2c3\nserial\tsdb\t S3Z9 NB0 \npartuuid\tsdb1\tABCD-01\n"
    "link\tsdb\tby-id/ata-X_S3Z9\nlink\tsdb\tby-id/wwn-0x5002538e40a1b2c3\nlink\tsda\tby-id/ata-Y\n"
)


@pytest.mark.parametrize(
    ("disk", "names", "sentence"),
    [
        (
            "/dev/sdb",
            BLOCKS,
            'f.toml, [machines.esx]: disk = "/dev/sdb" is a name that may be another disk\'s after the next boot; on'
            ' that machine it is /dev/disk/by-id/wwn-0x5002538e40a1b2c3 now. Write disk = "wwn-0x5002538e40a1b2c3" if',
        ),
        (
            "sdb1",
            BLOCKS,
            'f.toml, [machines.esx]: disk = "sdb1" is a name that may be another disk\'s after the next boot; on'
            ' that machine it is /dev/disk/by-partuuid/abcd-01 now. Write disk = "by-partuuid/abcd-01" if',
        ),
        (
            "/dev/loop0",
            "node\tloop0\t0\t\nbacking_file\tloop0\t/srv/x\n",
            'f.toml, [machines.esx]: disk = "/dev/loop0" is a name that may be another disk\'s after the next boot; on'
            ' that machine it is loop:/srv/x now. Write disk = "loop:/srv/x" if all that is on it may be lost.',
        ),
        (
            "/dev/sdb",
            "node\tsdb\t0\t\n",
            'f.toml, [machines.esx]: disk = "/dev/sdb" is a name that may be another disk\'s after the next boot, and'
            " on that machine it has no other. Give that disk a serial number where it is made (on ESX",
        ),
    ],
    ids=["disk", "partition", "loop", "nameless"],
)
def test_a_name_of_today_is_refused_with_the_one_for_good(disk: str, names: str, sentence: str) -> None:
    """Nothing was asked but what the block devices are called."""
    shell = FakeShell().answer(re.compile("sys/class/block"), names)
    listed = DISK.model_copy(update={"disk": ListedDevice(name="esx", kind="device", id=disk)})
    for refused in (
        lambda: plan_disk(shell, listed, ON_DISK, "f.toml"),
        lambda: make_machine_disk(shell, listed, ON_DISK, "f.toml", "", 1),
    ):
        with pytest.raises(ConfigError) as caught:
            refused()
        assert str(caught.value).startswith(sentence)
    assert len(shell.asked) == 2


def test_names_for_good_come_in_the_order_of_their_worth() -> None:
    """A WWN is the disk's wherever it is plugged in; without udev the kernel knows some."""
    assert stable_names(BLOCKS, "sdb") == (
        *("by-id/wwn-0x5002538e40a1b2c3", "by-id/ata-X_S3Z9"),
        *("naa.5002538e40a1b2c3", "S3Z9 NB0"),
    )
    assert stable_names("backing_file\tloop0\t/srv/x\n", "loop0") == ("loop:/srv/x",)
    assert stable_names(BLOCKS, "sdc") == ()


def test_no_block_of_a_disk_is_surely_fresh() -> None:
    """What it held before nobody knows; a file in a folder is another thing."""
    fresh = ON_DISK.model_copy(update={"state": "fresh"})
    with pytest.raises(ConfigError, match="what the disk of esx held before is not known"):
        plan_disk(FakeShell(), DISK, fresh, "f.toml")
    with pytest.raises(ConfigError, match="what the disk of esx held before is not known"):
        make_machine_disk(FakeShell(), DISK, fresh, "f.toml", "", 1)


def facts_script(**more: str) -> str:
    """What device_facts.sh says of a disk of 8 MiB that nobody uses, and more."""
    lines = ["self\tsdb\t8:16\t16384\t0\twhole", "model\tVirtual disk", *(f"{k}\t{v}" for k, v in more.items()), "end"]
    return "\n".join(lines) + "\n"


def disk_shell(**more: str) -> FakeShell:
    """A machine with that disk, listed by its WWN."""
    shell = FakeShell().answer(re.compile("sys/class/block"), "node\tsdb\t0\t\nlink\tsdb\tby-id/wwn-0x5\n")
    shell.answer(re.compile("wipefs --no-act"), facts_script(**more))
    return shell.answer(re.compile("^wipefs --all"))


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"mount": "sdb\t/srv"}, "is mounted: sdb at /srv."),
        ({"holder": "sdb\tvg0-x"}, "is held by vg0-x (on sdb)."),
        ({"opener": "postgres (pid 7)"}, "is open in postgres (pid 7)."),
        ({"swap": "/dev/sdb"}, "is swapped to: /dev/sdb."),
        ({"holds": "/"}, "holds / of this host."),
        ({"signature": "sdb\text4"}, "carries ext4 (on sdb)."),
        ({"signature": "sdb\tLVM2_member"}, "is a part of something larger: it carries LVM2_member (on sdb)"),
        ({"unknown": "signatures of sdb\tPermission denied"}, "cannot be examined: signatures of sdb"),
    ],
)
def test_the_rules_for_devices_hold_on_machines(found: dict[str, str], why: str) -> None:
    """What is in use, or carries something, is not written to; neither by the plan nor by the row."""
    shell = disk_shell(**found)
    for refused in (
        lambda: plan_disk(shell, DISK, ON_DISK, "f.toml"),
        lambda: make_machine_disk(shell, DISK, ON_DISK, "f.toml", "", 1),
    ):
        with pytest.raises(HostError) as caught:
            refused()
        assert why in caught.value.what
    assert not [line for line in shell.lines if line.startswith("wipefs --all")]


def test_a_disk_that_may_be_lost_is_wiped_and_named() -> None:
    """allow_destroy is what says so; the plan says it before."""
    shell = disk_shell(signature="sdb\text4")
    assert DISK.disk is not None
    may = DISK.model_copy(update={"disk": DISK.disk.model_copy(update={"allow_destroy": True})})
    assert plan_disk(shell, may, ON_DISK, "f.toml") == (
        "root@esx, device esx: /dev/sdb, Virtual disk, 8 MiB, wwn-0x5: will be overwritten; on it now and then lost:"
        " ext4 (on sdb)."
    )
    disk = make_machine_disk(shell, may, ON_DISK, "f.toml", "", 1)
    assert (disk.path, disk.is_block) == ("/dev/sdb", True)
    assert shell.lines[-1] == "wipefs --all -- /dev/sdb"


def test_a_disk_too_small_for_the_cell_is_refused() -> None:
    """Before anything is written."""
    large = StorageConfig(backing="machine:esx", size="1G")
    with pytest.raises(HostError, match="is smaller than the 1 GiB that the cell needs"):
        plan_disk(disk_shell(), DISK, large, "f.toml")


def test_another_device_than_was_checked_is_no_row() -> None:
    """Its number is that of the checked one, or the row has no figure."""
    place = {"path": "/dev/sdb", "kind": "device", "name": "esx", "description": "x", "size_bytes": 2**23}
    disk = HostDisk(config=ON_DISK, path="/dev/sdb", block=BlockPlace.model_validate({**place, "number": "8:16"}))
    node = NodeFacts(path="/dev/sdb", kind="device", number="8:16", name="sdb", size_bytes=2**23)
    proof = conclude_machine(DISK, disk, node, 2**23)
    assert [one.status for one in proof if one.field == "backing"] == ["proven"]
    with pytest.raises(AttestationError, match="backing of machine:esx"):
        conclude_machine(DISK, disk, node.model_copy(update={"number": "8:32"}), 2**23)
    with pytest.raises(AttestationError, match="size of machine:esx"):
        conclude_machine(DISK, disk, node, 2**20)


def test_a_machine_that_says_little_is_unknown_and_not_wrong() -> None:
    """Each fact stands there, so that the next run is held against the same ones."""
    shell = FakeShell().answer(re.compile("os-release"), "kernel=4.19.0\ncpus=2\nhardware= \nmachine id=\nos=\n")
    said = ask_machine(shell, "esx")
    assert row_facts(said) == {
        "kernel": "4.19.0",
        "cpus": "2",
        "os": "unknown",
        "hypervisor": "unknown",
        "hardware": "unknown",
        "machine id": "unknown",
    }
    block = BlockPlace(path="/dev/sdb", kind="device", name="esx", description="wwn-0x5", size_bytes=2**23)
    facts = machine_facts(DISK, said, FakeShell(), HostDisk(config=ON_DISK, path="/dev/sdb", block=block))
    assert (facts.cpu, facts.memory_bytes, facts.accel) == ("unknown", 0, "unknown")
    assert (facts.device, facts.file_system, facts.qemu, facts.libvirt) == ("wwn-0x5", "none", "none", "none")
