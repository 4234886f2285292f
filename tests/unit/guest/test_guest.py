"""A guest that answers: its facts, its death with the console's tail, its testinfra Host.

Tests of `guest.guest`, `guest.facts` and `guest.instance`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import BootTimeoutError, GuestDiedError, GuestError
from pytest_vmstorage.guest import guest as guest_module
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.guest.facts import PROBE, read_facts
from pytest_vmstorage.guest.guest import Guest, connect
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.host.file_systems import read_mounts
from pytest_vmstorage.host.shell import CommandResult
from pytest_vmstorage.testing.guest import FakeDomain
from pytest_vmstorage.testing.lab import make_guest_shell
from pytest_vmstorage.testing.shell import FakeShell

CONFIG = StorageConfig(size="1G", bus="virtio-scsi")
HEAD = "6.1.0-18-amd64|2|489300"
ROOT = "vda|102400|vmstorage-root|write back|[none] mq-deadline|512|1|virtio_blk||1|2147483136"
TEST = "sda|2097152||write through|none [mq-deadline] kyber|4096|0|sd|virtio_scsi|2|0"
TAIL = ["tail", "-c", "65536", "--", "/srv/console"]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake's disk is there at once or never."""
    monkeypatch.setattr(guest_module, "DISK_S", 0.01)


def machine(domain: FakeDomain, console: str = "one\r\n[ 1.0] Kernel panic\r\n") -> StartedGuest:
    """A started guest of that cell."""
    spec = GuestSpec(
        name="vms-1",
        uuid="u",
        config=CONFIG,
        disk="/srv/d",
        kernel="k",
        initrd="i",
        cmdline="c",
        root="r",
        console="/srv/console",
        accel="tcg",
        emulator="q",
    )
    return StartedGuest(spec, domain, None, FakeShell().answer(TAIL, console))


def connected(shell: FakeShell | None = None) -> Guest:
    """A guest that booted."""
    return connect(machine(FakeDomain(shell or make_guest_shell())), timeout_s=1, tools={"fio": "3.33"})


def test_a_guest_tells_its_facts() -> None:
    """Sizes in bytes, memory in KiB, the scheduler in use out of those there are."""
    facts = read_facts("\n".join([HEAD, ROOT, TEST]), CONFIG, {"fio": "3.33"})
    assert (facts.kernel, facts.cpus, facts.memory_kib) == ("6.1.0-18-amd64", 2, 489300)
    assert (facts.disk, facts.disk_bytes, facts.logical_block_bytes) == ("/dev/sda", 2**30, 4096)
    assert (facts.write_cache, facts.scheduler, facts.rotational) == ("write through", "mq-deadline", False)
    assert (facts.host_driver, facts.queues, facts.discard_max_bytes) == ("virtio_scsi", 2, 0)
    assert facts.as_text() == {
        "kernel": "6.1.0-18-amd64",
        "cpus": "2",
        "write_cache": "write through",
        "scheduler": "mq-deadline",
        "logical_block_size": "4096",
        "rotational": "no",
        "driver": "sd",
    }
    assert facts.tools == {"fio": "3.33"}


def test_a_root_of_the_same_size_is_not_the_disk_under_test() -> None:
    """Its serial tells it apart."""
    root = ROOT.replace("102400", "2097152")
    assert read_facts("\n".join([HEAD, root, TEST]), CONFIG, {}).disk == "/dev/sda"


@pytest.mark.parametrize(
    ("disks", "there"),
    [
        ([ROOT], "vda of 52428800 bytes"),
        ([], "none"),
        ([ROOT, TEST.replace("2097152", "2097144")], "vda of 52428800 bytes, sda of 1073737728 bytes"),
        ([TEST, TEST.replace("sda", "sdb")], "sda of 1073741824 bytes, sdb of 1073741824 bytes"),
    ],
    ids=["missing", "none", "other size", "two"],
)
def test_a_disk_that_is_not_there_or_not_alone_is_an_error(disks: list[str], there: str) -> None:
    """Nothing is measured on a guess; what the guest does see is told."""
    with pytest.raises(GuestError) as caught:
        read_facts("\n".join([HEAD, *disks]), CONFIG, {})
    assert caught.value.what == (
        f"The guest of {CONFIG} does not see its disk of 1073741824 bytes on virtio-scsi (disks: {there})."
    )


@pytest.mark.parametrize("text", ["", "\n", HEAD + "\nsda\n", f"{HEAD}\n{TEST.replace('2097152', '')}", f"6.1\n{TEST}"])
def test_an_answer_that_cannot_be_read_is_quoted(text: str) -> None:
    """One sentence, and no IndexError."""
    with pytest.raises(GuestError, match="answered the question for its facts with: '"):
        read_facts(text, CONFIG, {})


def test_the_probes_script_runs_in_a_real_shell() -> None:
    """On this machine it gives a line of facts, one of eleven fields for each disk, and the kernel's list of mounts."""
    done = subprocess.run(["sh", "-c", PROBE], capture_output=True, text=True, check=False)
    mounts = [line for line in done.stdout.splitlines() if line.startswith("mount|")]
    assert "/proc" in [one.mountpoint for one in read_mounts("\n".join(line.removeprefix("mount|") for line in mounts))]
    head, *disks = [line for line in done.stdout.splitlines() if line not in mounts]
    kernel, cpus, memory = head.split("|")
    assert kernel
    assert int(cpus) >= 1
    assert int(memory) > 1000
    assert all(disk.count("|") == 10 for disk in disks)


def test_a_guest_that_booted_runs_commands() -> None:
    """A line goes to sh, an argv to the program itself; a failure is a result."""
    shell = make_guest_shell().answer(["/bin/sh", "-c", "cd / && ls"], "bin\n").answer(["ls", "a b"], returncode=2)
    guest = connected(shell)
    assert guest.run("cd / && ls").stdout == "bin\n"
    assert guest.run(["ls", "a b"]).returncode == 2
    assert (guest.disk, guest.config) == ("/dev/vdb", CONFIG)
    assert repr(guest) == "<Guest raw-none-virtio-scsi-off 1G, /dev/vdb>"


def test_a_guest_that_never_answers_is_told_with_its_consoles_tail() -> None:
    """Cell, time limit, what to do, and the console's last lines without carriage returns."""
    with pytest.raises(BootTimeoutError) as caught:
        connect(machine(FakeDomain(FakeShell(), boots=False)), timeout_s=7, tools={})
    assert str(caught.value) == (
        f"The guest of {CONFIG} did not answer within 7.0 s. "
        "Give it more time with --vm-timeout, or keep it for a look with --vm-keep. [VM501]\n"
        "  the guest's console ended with:\n    | one\n    | [ 1.0] Kernel panic"
    )


@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_guest_that_dies_while_it_boots_is_told_with_its_consoles_tail(after: int) -> None:
    """Before its agent answers, or at its first command."""
    with pytest.raises(GuestDiedError, match="Kernel panic"):
        connect(machine(FakeDomain(make_guest_shell(), dies_after=after)), timeout_s=1, tools={})


def test_a_guest_whose_agent_hangs_is_told_with_its_consoles_tail() -> None:
    """Not dead, and not answering either."""

    class Hanging(FakeDomain):
        def agent(self, *_arguments: object) -> object:
            raise GuestError("guest-exec: the guest's agent does not answer (time-out).")

    with pytest.raises(GuestError, match=r"does not answer(.|\n)*Kernel panic"):
        connect(machine(Hanging(FakeShell())), timeout_s=1, tools={})


def test_a_guest_without_its_disk_is_told_with_its_consoles_tail() -> None:
    """The kernel says there why it found none."""
    shell = FakeShell().answer(re.compile("osrelease"), f"{HEAD}\n{ROOT}\n")
    with pytest.raises(GuestError, match=r"does not see its disk(.|\n)*Kernel panic"):
        connect(machine(FakeDomain(shell)), timeout_s=1, tools={})


@pytest.mark.parametrize("first", [[], ["sda|||||||sd|||"]], ids=["absent", "half there"])
def test_a_disk_that_comes_after_the_agent_is_waited_for(monkeypatch: pytest.MonkeyPatch, first: list[str]) -> None:
    """SATA and SCSI disks are probed in the background."""
    monkeypatch.setattr(guest_module, "DISK_S", 5)
    shell = FakeShell().answer(re.compile("osrelease"), "\n".join([HEAD, ROOT, *first, ""]))
    empty_handed = shell.run

    def run(argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        done = empty_handed(argv, timeout_s=timeout_s, stdin=stdin)
        shell.answer(re.compile("osrelease"), f"{HEAD}\n{ROOT}\n{TEST}\n")
        return done

    monkeypatch.setattr(shell, "run", run)
    assert connected(shell).disk == "/dev/sda"
    assert len(shell.asked) == 2


def restored(said: str, shell: FakeShell) -> Guest:
    """A guest that was restored and said that of itself when it woke."""
    shell.files["/run/vmstorage-parked.said"] = f"{said}\nwoken\n".encode()
    one = replace(machine(FakeDomain(shell)), is_restored=True)
    return connect(one, timeout_s=1, tools={})


def test_a_restored_guest_is_not_asked_for_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless its disk was not there yet."""
    shell = FakeShell()
    assert restored(f"{HEAD}\n{ROOT}\n{TEST}", shell).disk == "/dev/sda"
    assert shell.asked == []
    monkeypatch.setattr(guest_module, "DISK_S", 5)
    shell.answer(re.compile("osrelease"), f"{HEAD}\n{ROOT}\n{TEST}\n")
    assert restored(f"{HEAD}\n{ROOT}", shell).disk == "/dev/sda"
    assert len(shell.asked) == 1


def test_a_probe_that_fails_is_told_in_its_own_words() -> None:
    """The last line of what the guest said."""
    shell = FakeShell().answer(re.compile("osrelease"), stderr="sh: cannot fork\n", returncode=2)
    with pytest.raises(GuestError, match="could not be asked for its facts: sh: cannot fork"):
        connect(machine(FakeDomain(shell)), timeout_s=1, tools={})


def test_a_testinfra_host_answers_over_the_agent() -> None:
    """run and file work, quoting is testinfra's, and what is no ASCII needs no Python in the guest."""
    shell = make_guest_shell()
    host = connected(shell).host
    # what testinfra asks of the system itself; this guest has next to nothing
    shell.answer(re.compile(""), returncode=127).answer(re.compile("uname -s"), "Linux\n")
    shell.answer(re.compile("uname -m"), "x86_64\n")
    shell.answer(["/bin/sh", "-c", "echo 'a b'"], "a b\n", stderr="warned\n", returncode=4)
    shell.answer(re.compile(r"test -e /none"), returncode=1)
    shell.answer(re.compile(r"test -e /etc/hostname"))
    shell.answer(re.compile(r"cat -- /etc/hostname|cat /etc/hostname"), "vmstorage \N{SNOWMAN}\n")
    done = host.run("echo %s", "a b")
    assert (done.rc, done.stdout, done.stderr) == (4, "a b\n", "warned\n")
    assert host.file("/etc/hostname").exists
    assert not host.file("/none").exists
    assert host.file("/etc/hostname").content_string == "vmstorage \N{SNOWMAN}\n"


def test_a_guests_host_is_its_own() -> None:
    """testinfra caches hosts by name for the whole process; a later guest must not get an earlier one's."""
    first, second = connected(), connected()
    assert first.host is first.host
    assert first.host is not second.host


def test_testinfra_is_imported_when_a_host_is_asked_for_and_not_before() -> None:
    """It costs every pytest run of everybody who installed the plugin otherwise."""
    code = (
        "import sys, pytest_vmstorage.guest.guest, pytest_vmstorage.plugin.session\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('testinfra', 'libvirt')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_recorded_xml_is_the_guests() -> None:
    """A fake that was told nothing has the XML it was started with."""
    assert ET.fromstring(FakeDomain(FakeShell(), live_xml="<domain/>").xml()).tag == "domain"
