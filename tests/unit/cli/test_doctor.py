"""`vmstorage doctor`: what follows from trials on a host, recorded on Debian 12 as root and changed here and there.

Tests of `cli.doctor.examine`, `cli.doctor.seen`, `cli.doctor.image`, `cli.doctor.device` and `cli.doctor.backing`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import pytest

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.cli.doctor import examine as examining
from pytest_vmstorage.cli.doctor.examine import Diagnosis, diagnosis_lines, examine, examine_lab, findings
from pytest_vmstorage.cli.doctor.seen import AxisFinding, Observations, Trial, read_trials, run_trials
from pytest_vmstorage.config.cell import AXES, StorageConfig
from pytest_vmstorage.config.rules.backing import BACKINGS
from pytest_vmstorage.config.rules.image import SUBFORMATS
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import HostError, ProvisionError
from pytest_vmstorage.guest.appliance.recipe import recipe
from pytest_vmstorage.guest.libvirt.messages import is_since
from pytest_vmstorage.host.folders import FolderFacts
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.lab import make_lab
from pytest_vmstorage.testing.shell import FakeShell

RECORDED = (Path(__file__).parents[1] / "recordings" / "doctor-debian-12-root.txt").read_text()

TOOLS = {"fio": "3.33-3", "e2fsprogs": "1.47.0-2+b2", "xfsprogs": "6.1.0-1", "btrfs-progs": "6.2-1"}
BUSES = {"pc": frozenset({"ide", "scsi", "virtio", "usb", "sata"}), "q35": frozenset({"scsi", "virtio", "usb", "sata"})}


def seen(trials: Mapping[str, str | None] | None = None, **known: object) -> Observations:
    """The recorded host, of which some trials failed with those words, or, given as "= words", said them."""
    there = dict(read_trials(RECORDED))
    for name, said in (trials or {}).items():
        if said is None:
            del there[name]
        else:
            there[name] = Trial(ok=said.startswith("= "), said=said.removeprefix("= "))
    values: dict[str, object] = {
        "folder": FolderFacts(path="/srv/vm", file_system="ext4", device="/dev/vda", free_bytes=2**34),
        "libvirt": "9.0.0",
        "qemu": "7.2.22",
        "accel": "tcg",
        "buses": BUSES,
        "modules": frozenset(recipe("bookworm").modules),
        "tools": TOOLS,
    }
    return Observations.model_validate({"trials": there, **values, **known})


def without_guests(**trials: str) -> Observations:
    """The recorded host, where no guest can run."""
    return seen(trials, libvirt="", qemu="", buses={}, modules=frozenset(), tools={})


def one(of: Observations, axis: str, value: str) -> AxisFinding:
    """The finding of that value."""
    return next(finding for finding in findings(of) if (finding.axis, finding.value) == (axis, value))


def test_every_value_of_every_axis_has_a_finding() -> None:
    """In the order of the axes, each value once, and each with its reason."""
    there = findings(seen())
    assert list(dict.fromkeys(finding.axis for finding in there)) == list(AXES)
    assert len({(finding.axis, finding.value) for finding in there}) == len(there)
    assert all(finding.why for finding in there)
    for axis in ("format", "cache", "bus", "preallocation", "state", "machine", "io", "discard", "detect_zeroes",
                 "compression", "encryption", "host_fs", "guest_fs", "scheduler"):  # fmt: skip
        values = get_args(StorageConfig.model_fields[axis].annotation)
        assert [finding.value for finding in there if finding.axis == axis] == list(values), axis
    assert [finding.value for finding in there if finding.axis == "backing"] == list(BACKINGS)
    assert [finding.value for finding in there if finding.axis == "subformat"] == [
        *SUBFORMATS["vmdk"],
        *SUBFORMATS["vpc"],
    ]


def test_the_recorded_host_can_all_but_this() -> None:
    """What its kernel lacks, what no q35 has, what QEMU 7.2 does to usb, and what needs a device."""
    there = [finding for finding in findings(seen()) if finding.status != "yes"]
    assert [(finding.axis, finding.value, finding.status) for finding in there] == [
        ("cache", "directsync", "limited"),
        ("cache", "writethrough", "limited"),
        ("bus", "ide", "limited"),
        ("backing", "partition", "limited"),
        ("backing", "lvm", "no"),
        ("backing", "zvol", "no"),
        ("backing", "device", "limited"),
        ("backing", "machine", "limited"),
        ("vcpus", "more", "limited"),
    ]
    assert one(seen(), "bus", "ide").why == "on pc, not on q35, says libvirt 9.0.0"
    assert "usb-storage of QEMU 7.2.22" in one(seen(), "cache", "writethrough").why
    assert one(seen(), "backing", "device").why == "needs a device listed in vmstorage.toml"


NO_TOOL = "qemu-img: command not found"


@pytest.mark.parametrize(
    ("trials", "axis", "value", "status", "why"),
    [
        ({"format.qed": "Unknown file format 'qed'"}, "format", "qed", "no", "Unknown file format 'qed'"),
        ({"subformat.fixed": NO_TOOL}, "subformat", "fixed", "no", NO_TOOL),
        ({"metadata": NO_TOOL}, "preallocation", "metadata", "no", NO_TOOL),
        ({"fallocate": "Operation not supported"}, "preallocation", "falloc", "no", "Operation not supported"),
        ({"falloc": "takes no room"}, "preallocation", "falloc", "no", "takes no room"),
        ({"full": "takes no room"}, "preallocation", "full", "no", "takes no room"),
        ({"extents": "FIBMAP unsupported"}, "preallocation", "full", "limited", "cannot be told apart"),
        ({"cluster_size.most": NO_TOOL}, "cluster_size", "2M", "no", NO_TOOL),
        ({"cluster_size.least": NO_TOOL}, "cluster_size", "512", "no", NO_TOOL),
        ({"lazy_refcounts": NO_TOOL}, "lazy_refcounts", "yes", "no", NO_TOOL),
        ({"extended_l2": "Invalid parameter"}, "extended_l2", "yes", "no", "Invalid parameter"),
        ({"compression.zstd": "does not accept value 'zstd'"}, "compression", "zstd", "no", "'zstd'"),
        ({"encryption.luks": "Unable to get accurate CPU usage"}, "encryption", "luks", "no", "accurate CPU usage"),
        ({"chain": NO_TOOL}, "backing_chain", "1 to 64", "no", NO_TOOL),
        ({"snapshot": NO_TOOL}, "snapshots", "1 to 64", "no", NO_TOOL),
        ({"direct": "Invalid argument"}, "cache", "none", "no", "no O_DIRECT in the folder: Invalid argument"),
        ({"direct": "Invalid argument"}, "cache", "directsync", "no", "no O_DIRECT"),
        ({"direct": "Invalid argument"}, "cache", "writeback", "yes", "page cache"),
        ({"usb_write_cache": "= off"}, "cache", "writethrough", "yes", "page cache"),
        ({"devices": "= virtio-blk-pci"}, "bus", "lsilogic", "no", "QEMU 7.2.22 has no device lsi53c895a"),
        ({"devices": "= virtio-blk-pci"}, "bus", "virtio-blk", "yes", "on q35 and pc"),
        ({"devices": "= usb-storage"}, "bus", "usb", "no", "no device qemu-xhci"),
        ({"io.io_uring": "Operation not permitted", "io_uring_disabled": "= 2"}, "io", "io_uring", "no",
         "permitted (kernel.io_uring_disabled=2)"),
        ({"io.native": "O_DIRECT"}, "io", "native", "no", "O_DIRECT"),
        ({"punch": "keep size mode is unsupported"}, "discard", "unmap", "limited", "punches no holes"),
        ({"punch": "keep size mode is unsupported"}, "detect_zeroes", "unmap", "limited", "punches no holes"),
        ({"punch": "keep size mode is unsupported"}, "detect_zeroes", "on", "yes", "QEMU's own"),
        ({"cores": "= 16"}, "vcpus", "1 to 16", "yes", "cores"),
        ({"memory_kib": "= 200000"}, "memory", "256M", "no", "the host has 195 MiB available"),
        ({"tool.fio": "fio: command not found"}, "backing", "native", "no", "fio: command not found"),
        ({"dev.mapper/control": "= "}, "backing", "lvm", "limited", "listed in vmstorage.toml"),
        ({"dev.mapper/control": "= ", "tool.lvm": "lvm: command not found"}, "backing", "lvm", "no",
         "lvm: command not found"),
        ({"dev.zfs": "= ", "tool.zfs": "= /usr/sbin/zfs"}, "backing", "zvol", "limited", "listed in vmstorage.toml"),
        ({"dev.zfs": "= "}, "backing", "zvol", "no", "zfs: command not found"),
        ({"user": "= 1000", "dev.mapper/control": "Permission denied"}, "backing", "lvm", "no", "needs root"),
        ({"user": "= 1000"}, "backing", "partition", "no", "needs root on the host"),
        ({"user": "= 1000"}, "host_fs", "ext4", "no", "needs root on the host"),
        ({"user": "= 1000"}, "host_mkfs", "any", "no", "needs root on the host"),
        ({"dev.loop-control": "No such device"}, "host_fs", "xfs", "no", "no loop devices: No such device"),
        ({"host_fs.xfs": "unknown filesystem type 'xfs'"}, "host_fs", "xfs", "no", "unknown filesystem type"),
        ({"host_fs.xfs": "unknown filesystem type 'xfs'"}, "host_mount", "any", "yes", "with host_fs ext4, btrfs"),
        ({f"host_fs.{fs}": "no" for fs in ("ext4", "xfs", "btrfs")}, "host_mount", "any", "no", "no file system can"),
        ({"mount_options": "= rw,compress=zstd:3"}, "host_fs", "as-found", "yes", "compression compress=zstd:3"),
        ({"snapshot": None}, "snapshots", "1 to 64", "no", "it was not tried"),
    ],
)  # fmt: skip
def test_a_trial_decides(trials: Mapping[str, str | None], axis: str, value: str, status: str, why: str) -> None:
    """What failed on the host is a finding with the words of the failure."""
    finding = one(seen(trials), axis, value)
    assert (finding.status, why in finding.why) == (status, True), finding


@pytest.mark.parametrize(
    ("known", "axis", "value", "status", "why"),
    [
        ({"libvirt": "6.10.0"}, "l2_cache_size", "any", "no", "libvirt 6.10.0 has no metadata_cache; 7.0 has"),
        ({"accel": "kvm", "buses": {**BUSES, "q35": frozenset({"nvme"})}}, "bus", "nvme", "yes", "has the bus itself"),
        ({"accel": "kvm"}, "bus", "nvme", "yes", "by qemu:commandline: libvirt 9.0.0 has no such bus (11.5 has)"),
        ({"buses": {"q35": BUSES["q35"]}}, "bus", "ide", "no", "for no machine type here"),
        ({"buses": {"q35": BUSES["q35"]}}, "machine", "pc", "no", "QEMU 7.2.22 has no such machine"),
        ({"modules": frozenset({"ahci"})}, "bus", "sata", "no", "the guest appliance's kernel lacks sd_mod"),
        ({"modules": frozenset({"bfq"})}, "scheduler", "kyber", "no", "lacks kyber_iosched"),
        ({"modules": frozenset({"bfq"})}, "scheduler", "bfq", "yes", "bfq is in the guest appliance"),
        ({"modules": frozenset({"xfs"}), "tools": {}}, "guest_fs", "xfs", "no", "has no xfsprogs"),
        ({"modules": frozenset(), "tools": TOOLS}, "guest_fs", "ext3", "no", "has no ext4"),
        ({"modules": frozenset()}, "guest_mkfs", "any", "no", "no file system can be made in the guest"),
        ({"tools": {}}, "state", "aged", "no", "has no fio"),
        ({}, "emulator", "default", "yes", "QEMU 7.2.22, the host's own"),
        ({}, "emulator", "a path", "yes", "it is tried before a guest is made"),
        ({}, "total_iops_sec", "10 or more", "yes", "by QEMU's throttle"),
        ({}, "total_bytes_sec", "512k or more", "yes", "by QEMU's throttle"),
        ({}, "backing", "null", "yes", "QEMU's null driver: no storage"),
        ({"libvirt": "8.4.0"}, "backing", "null", "limited", "on nvme only: libvirt 8.4.0 has no qemu:override"),
        ({"folder": None}, "backing", "file", "no", "the folder has 0 B free"),
        ({"folder": FolderFacts(path="/srv/vm", file_system="zfs", device="tank", free_bytes=2**40)},
         "host_fs", "as-found", "yes", "zfs, mounted rw"),
    ],
)  # fmt: skip
def test_libvirt_and_the_appliance_decide(
    known: Mapping[str, object], axis: str, value: str, status: str, why: str
) -> None:
    """What QEMU, libvirt or the guest's kernel lacks is said of the value that needs it."""
    finding = one(seen(**known), axis, value)
    assert (finding.status, why in finding.why) == (status, True), finding


def test_without_guests_only_what_needs_none_is_told() -> None:
    """Images, the folder and the host itself; nothing that a guest would have to show is called possible."""
    there = {(finding.axis, finding.value): finding for finding in findings(without_guests())}
    assert (
        there["format", "qcow2"].status == there["backing", "native"].status == there["host_fs", "xfs"].status == "yes"
    )
    for axis in ("cache", "bus", "machine", "state", "scheduler", "guest_fs", "vcpus", "queues", "discard"):
        told = {finding.status for finding in there.values() if finding.axis == axis}
        assert told == {"no"}, axis
    assert there["bus", "ide"].why == "no guest can run here"
    assert "no O_DIRECT" in one(without_guests(direct="Invalid argument"), "cache", "none").why


def test_what_was_said_is_read_without_the_shell_that_said_it() -> None:
    """One line is one trial; what is no trial is passed over."""
    text = (
        "a\t0\tfine\nnoise\n"
        "b\t127\ttimeout: failed to run command 'qemu-img': No such file or directory\n"
        "c\t2\tsh: 1: cannot open /dev/zfs: No such file\n"
        "d\t2\tsh: line 1: /dev/zfs: No such file\n"
        "e\t1\t\n"
    )
    assert read_trials(text) == {
        "a": Trial(ok=True, said="fine"),
        "b": Trial(ok=False, said="qemu-img: command not found"),
        "c": Trial(ok=False, said="cannot open /dev/zfs: No such file"),
        "d": Trial(ok=False, said="/dev/zfs: No such file"),
        "e": Trial(ok=False, said="exit status 1"),
    }


def test_trials_are_one_round_trip_and_their_folder_is_removed() -> None:
    """Also where the folder cannot be made, which is an error."""
    shell = FakeShell().answer(re.compile("^sh -s "), RECORDED).answer(re.compile("^rm "))
    assert run_trials(shell, "/srv/vm/run-1/doctor", "/usr/bin/qemu")["user"] == Trial(ok=True, said="0")
    assert shell.lines == ["sh -s -- /srv/vm/run-1/doctor", "rm -rf -- /srv/vm/run-1/doctor"]
    shell.answer(re.compile("^sh -s "), stderr="mkdir: Permission denied", returncode=1)
    with pytest.raises(ProvisionError, match=r"trying out the folder /srv/vm/run-1/doctor failed: mkdir: Permission"):
        run_trials(shell, "/srv/vm/run-1/doctor", "")
    assert shell.lines[-1] == "rm -rf -- /srv/vm/run-1/doctor"


@pytest.mark.parametrize(("version", "is_new"), [("11.5.0", True), ("11.4.9", False), ("12.0.0", True), ("", False)])
def test_versions_are_compared_as_numbers(version: str, is_new: bool) -> None:
    """An unknown one is older than all."""
    assert is_since(version, (11, 5)) is is_new


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab whose host answers the script as it was recorded."""
    return make_lab(tmp_path, shell=make_host_shell().answer(re.compile("^sh -s "), RECORDED))


def test_an_open_lab_is_examined_in_its_own_folder(lab: Lab) -> None:
    """libvirt is asked for its buses, and the appliance for what is in it."""
    found = examine_lab(lab)
    assert found.findings == findings(
        seen(folder=lab.factory.folder_facts(), tools={"fio": "3.33-3"}, libvirt=lab.facts.libvirt, qemu=lab.facts.qemu)
    )
    assert (found.problem, found.host, found.drops_caches) == ("", lab.facts, True)
    asked = next(line for line in lab.shell.lines if line.startswith("sh -s "))  # type: ignore[attr-defined]
    assert asked == "sh -s -- /srv/vm/run-0123456789/doctor"


def test_the_command_prints_the_host_and_the_axes(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 0, and the lab is closed."""
    monkeypatch.setattr(examining, "open_lab", lambda _settings, _say: lab)
    monkeypatch.setenv("COLUMNS", "90")
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split("  ")[0] for line in lines[:8]]
    assert heads == ["host", "kernel", "hypervisor", "acceleration", "disks", "appliance", "guests", "host caches"]
    assert lines[10].split() == ["format", "raw", "yes", "qemu-img", "made", "one"]
    assert lab.hypervisor.closed  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("trial", "told"),
    [
        (
            "io_helper\t0\t/usr/lib/libvirt/libvirt_iohelper",
            "can be restored from saved ones: /usr/lib/libvirt/libvirt_iohelper is there",
        ),
        (
            "io_helper\t1\t",
            "are booted each: libvirt_iohelper is missing; install libvirt-daemon (Debian 12, Ubuntu) or"
            " libvirt-daemon-common (where libvirt-daemon is split)",
        ),
    ],
)
def test_it_is_told_whether_guests_can_be_restored(tmp_path: Path, trial: str, told: str) -> None:
    """With the package to install where the program is missing that libvirt does it with."""
    shell = make_host_shell().answer(re.compile("^sh -s "), f"{RECORDED}{trial}\n")
    found = examine_lab(make_lab(tmp_path, shell=shell))
    assert f"guests        {told}" in diagnosis_lines(found, 120)


def test_the_command_prints_json(lab: Lab, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The same, for a program to read."""
    monkeypatch.setattr(examining, "open_lab", lambda _settings, _say: lab)
    assert main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["host"]["accel"] == "tcg"
    assert told["findings"][0] == {"axis": "format", "value": "raw", "status": "yes", "why": "qemu-img made one"}


@pytest.mark.parametrize(
    ("needs", "status", "told"),
    [
        (["format=qcow2", "bus=ide"], 0, ""),
        (["kvm"], 1, "vmstorage: kvm is needed, and not here: asked for\n"),
        (
            ["backing=zvol", "cache=none"],
            1,
            "vmstorage: backing=zvol is needed, and not here: the host's kernel has no ZFS: ",
        ),
        (["bus=nvmee"], 1, "vmstorage: --need=bus=nvmee is no value that is looked at. Of bus there are: virtio-blk, "),
        (["buss=nvme"], 1, "vmstorage: --need=buss=nvme is nothing that can be needed. Did you mean 'bus'?"),
        (["tcg"], 1, "vmstorage: --need=tcg is nothing that can be needed"),
    ],
)
def test_the_exit_status_says_whether_the_host_has_what_is_needed(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    needs: list[str],
    status: int,
    told: str,
) -> None:
    """For CI: a sentence for each need that is not met; what some cells can have is there."""
    monkeypatch.setattr(examining, "open_lab", lambda _settings, _say: lab)
    assert main(["doctor", *(f"--need={need}" for need in needs)]) == status
    said = capsys.readouterr()
    assert said.err.startswith(told)
    assert bool(said.err) is bool(told)
    assert lab.hypervisor.closed is not (told.startswith("vmstorage: --need") and "can be" in told)  # type: ignore[attr-defined]


def test_a_need_of_a_host_without_guests_cannot_be_tried(lab: Lab) -> None:
    """It is not met: the reason is the one why nothing could be tried."""
    found = Diagnosis(problem="The folder cannot be written.")
    assert list(examining.lacks(found, ["kvm", "bus=nvme"])) == [
        "kvm is needed, and not here: The folder cannot be written.",
        "bus=nvme is needed, and could not be tried: The folder cannot be written.",
    ]


def test_where_no_guest_can_run_the_sentence_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then what can be told; exit status 1; the folder and the lease are gone."""
    shell = make_host_shell().answer(re.compile("^sh -s "), RECORDED).answer(re.compile("qemu-kvm"), returncode=1)

    def refuse(_settings: object, _say: object) -> Lab:
        raise HostError("There is no QEMU on here.", hint="Install it.")

    monkeypatch.setattr(examining, "open_lab", refuse)
    monkeypatch.setattr("pytest_vmstorage.cli.doctor.examine.open_shell", lambda _host: shell)
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path))
    assert main(["doctor", "--vm-dir", "/srv/vm"]) == 1
    said = capsys.readouterr()
    assert said.err == "vmstorage: There is no QEMU on here. Install it.\n"
    assert said.out.startswith("axis ")
    assert "no guest can run here" in said.out
    trial = next(line for line in shell.lines if line.startswith("sh -s "))
    assert re.fullmatch(r"sh -s -- /srv/vm/run-[0-9a-f]{10}", trial)
    assert list((tmp_path / "leases").iterdir()) == []


def test_where_the_folder_cannot_be_used_either_the_sentence_stands_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No table of guesses."""
    shell = make_host_shell().answer(re.compile("qemu-kvm"), "/usr/bin/qemu\n")
    shell.answer(re.compile("vmstorage-write-test"), stderr="mkdir: Read-only file system", returncode=1)

    def refuse(_settings: object, _say: object) -> Lab:
        raise HostError("The folder cannot be written.")

    monkeypatch.setattr(examining, "open_lab", refuse)
    monkeypatch.setattr("pytest_vmstorage.cli.doctor.examine.open_shell", lambda _host: shell)
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path))
    assert main(["doctor"]) == 1
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "vmstorage: The folder cannot be written.\n")
    assert examine(LabSettings()).findings == ()


@pytest.mark.parametrize("width", [94, 116])
def test_the_table_keeps_to_the_width(width: int) -> None:
    """Reasons are wrapped below themselves, and an axis is named where its values begin."""
    lines = diagnosis_lines(Diagnosis(findings=findings(seen())), width)
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("cache ") for line in lines) == 1
    assert lines[0].split() == ["axis", "value", "here", "why"]
    column = lines[0].index("why")
    assert all(line[column - 2 : column] == "  " for line in lines if len(line) > column)
