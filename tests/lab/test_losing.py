"""What may happen to a lab host in the middle of a run: noticed soon, told as such, and nothing is left for good."""

from __future__ import annotations

import re
import subprocess
import sys
import time

import pytest
from laboratory import IMAGES, Host, Laboratory, wait_for
from project import Project
from test_measuring import nothing_is_left

LONG = """
import time
from pathlib import Path
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.storage(size="64M")
def test_random_write(guest, measure, format):
    Path(format + ".mark").touch()
    seconds = 60 if format == "raw" else 1
    fio = Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=seconds, time_based=True)
    try:
        measure(fio, rounds=1, warmup=0)
    except BaseException:
        Path(format + "-failed.mark").touch()
        raise
"""
"""A cell whose round takes a minute, in which things may happen, and one after it."""


# the order in which cells take turns is drawn: with this one it is that of the file
RAW_FIRST = ("--vm-seed=0",)


@pytest.fixture
def long(project: Project) -> Project:
    """A project with these two cells."""
    project.write(LONG)
    return project


WORKING_SET = 16 * 2**20
"""What fio writes again and again, with which the disk was filled before."""


def in_measurement(host: Host) -> None:
    """Wait until fio writes in a measured guest there: it wrote twice as much as filling its disk takes."""
    wait_for(lambda: written_bytes(host) > 2 * WORKING_SET, "fio's writes on the host", 60)


def written_bytes(host: Host) -> int:
    """The most bytes that any measured guest on the host has written so far.

    A guest that others are restored from is none: its QEMU writes the guest's memory when it is saved.
    """
    read = "tr '\\0' ' ' </proc/{0}/cmdline | grep -q -- -saved || sed -n 's/^write_bytes: //p' /proc/{0}/io"
    # one that ends meanwhile has no such files any more
    said = (host.sh(f"({read.format(pid)}) 2>/dev/null", check=False) for pid in host.guests())
    return max((int(number) for number in said if number), default=0)


def reaped(lab: Laboratory, project: Project) -> str:
    """What `vmstorage reap --vm-host=lab01` says."""
    command = [sys.executable, "-m", "pytest_vmstorage.cli.command", "reap", "--vm-host=lab01"]
    code, text = lab.run(command, project.folder)
    assert code == 0, text
    return text


def test_a_cut_link_is_noticed_told_and_cleared_later(lab: Laboratory, lab01: Host, long: Project) -> None:
    """Within seconds and not at TCP's two minutes; the cells after it fail at once, and the run ends in order."""
    with long.going("--vm-host=lab01", *RAW_FIRST) as run:
        run.wait_for_mark("raw")
        in_measurement(lab01)
        lab01.link_down()
        cut = time.monotonic()
        run.wait_for_mark("raw-failed", 20)
        noticed_s = time.monotonic() - cut
        code, text = run.ended(60)
        ended_s = time.monotonic() - cut
    assert code == pytest.ExitCode.TESTS_FAILED, text
    assert 2 < noticed_s < 16
    assert ended_s < 45
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    said = " ".join(text.split())
    assert "host was lost: The connection to libvirt at qemu+ssh://lab01/system was lost during: guest agent" in said
    assert "was lost and cannot be made again: " in said or "The ssh connection to lab01 was lost: " in said
    assert "vmstorage: not all was removed: " in said
    assert len(lab.leases()) == 1
    assert lab01.guests(), "this test cannot show anything: the guest went with the link"
    lab01.link_up()
    assert re.search(r"^removed what run \w{10} left on lab01: [12] guest\(s\)", reaped(lab, long), re.MULTILINE)
    nothing_is_left(lab, lab01)
    assert reaped(lab, long) == "nothing to remove: no dead run left anything\n"


ASKED_BY_TWO = """
import sys, threading
from pytest_vmstorage.errors import LostError
from pytest_vmstorage.guest.libvirt.hypervisor import LibvirtHypervisor

hypervisor = LibvirtHypervisor("qemu+ssh://lab01/system?no_tty=1")
print("open", flush=True)
sys.stdin.readline()

def ask():
    try:
        hypervisor.versions()
    except LostError as error:
        print(error, flush=True)

threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(25)
"""
"""Two threads that ask a host at the same time, when they are told to."""


def test_all_who_wait_for_a_silent_host_are_told(lab: Laboratory, lab01: Host) -> None:
    """By its own keep-alive libvirt would tell one of them only; no ssh is left."""
    argv = lab.controller.argv(sys.executable, "-c", ASKED_BY_TWO)
    with subprocess.Popen(
        argv, env=lab.environ(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as asking:
        assert asking.stdout is not None
        assert asking.stdout.readline() == "open\n"
        lab01.link_down()
        said, _ = asking.communicate("go\n", timeout=60)
    assert said.count("The connection to libvirt at qemu+ssh://lab01/system was lost during: asking for") == 2, said
    assert "ssh" not in lab.controller.run("ps", "-eo", "comm").split()


def test_a_restarted_libvirtd_costs_a_cell_at_most(lab: Laboratory, lab01: Host, long: Project) -> None:
    """The next question goes through a new connection and finds its guest; one that was on its way is lost."""
    long.write(LONG.replace("60 if", "12 if"))
    with long.going("--vm-host=lab01", *RAW_FIRST) as run:
        run.wait_for_mark("raw")
        in_measurement(lab01)
        lab01.kill_libvirtd()
        time.sleep(1)
        lab01.start_libvirtd()
        code, text = run.ended()
    said = " ".join(text.split())
    if code != 0:
        assert "host was lost: The connection to libvirt at qemu+ssh://lab01/system was lost during: " in said, text
        assert "journalctl -u libvirtd" in said
        # on a busy machine the second guest may still have been on its way
        assert re.search("1 failed, 1 passed|1 passed, 1 error", said), text
    nothing_is_left(lab, lab01)


WAITS = """
import time
from pathlib import Path

def test_two_questions(guest):
    assert guest.run("echo one").stdout == "one\\n"
    Path("asked.mark").touch()
    while not Path("again.go").exists():
        time.sleep(0.01)
    Path("asking.mark").touch()
    assert guest.run("echo two").stdout == "two\\n"
"""
"""A guest that is asked something when it is told to."""


def test_a_guest_whose_agent_a_restarted_libvirtd_has_yet_to_find_is_waited_for(
    lab: Laboratory, lab01: Host, long: Project
) -> None:
    """QEMU, stopped, keeps libvirtd from the agent: the guest is found, and its agent is said not to be there."""
    long.write(WAITS)
    with long.going("--vm-host=lab01") as run:
        run.wait_for_mark("asked")
        lab01.sh("pkill -STOP -x qemu-system-x86")
        lab01.restart_libvirtd()
        run.go_on("again")
        run.wait_for_mark("asking")
        time.sleep(3)
        lab01.sh("pkill -CONT -x qemu-system-x86")
        code, text = run.ended()
    assert code == 0, text
    nothing_is_left(lab, lab01)


def test_libvirtd_that_is_killed_ends_the_run_in_order(lab: Laboratory, lab01: Host, long: Project) -> None:
    """Both cells fail, the guest runs on; the next run there removes it before it begins."""
    with long.going("--vm-host=lab01", *RAW_FIRST) as run:
        run.wait_for_mark("raw")
        in_measurement(lab01)
        lab01.kill_libvirtd()
        code, text = run.ended()
    assert code == pytest.ExitCode.TESTS_FAILED, text
    said = " ".join(text.split())
    assert "raw failed: host was lost qcow2 failed: host was lost" in said
    assert "cannot be made again: libvirt at qemu+ssh://lab01/system cannot be reached: " in said
    assert lab01.guests()
    lab01.start_libvirtd()
    code, text = long.run("--vm-host=lab01", "-k", "qcow2")
    assert code == 0, text
    assert re.search(r"^vmstorage: removed what run \w{10} left on lab01: [12] guest\(s\)", text, re.MULTILINE)
    nothing_is_left(lab, lab01)


def test_a_killed_run_is_cleared_by_the_next(lab: Laboratory, lab01: Host, long: Project) -> None:
    """SIGKILL of pytest: its ssh connections end by themselves, its guest and its disk go with the next run there."""
    with long.going("--vm-host=lab01", *RAW_FIRST) as run:
        run.wait_for_mark("raw")
        run.kill()
    wait_for(lambda: "ssh" not in lab.controller.run("ps", "-eo", "comm").split(), "the end of its ssh", 40)
    assert lab01.guests()
    code, text = long.run("--vm-host=lab01", "-k", "qcow2")
    assert code == 0, text
    assert re.search(r"^vmstorage: removed what run \w{10} left on lab01: [12] guest\(s\)", text, re.MULTILINE)
    nothing_is_left(lab, lab01)


def test_a_disk_that_does_not_fit_is_told_before_it_is_made(lab: Laboratory, lab01: Host, long: Project) -> None:
    """By what is free there, not here."""
    lab01.fill_disk(but_bytes=230 * 2**20 if not lab01.left() else 80 * 2**20)
    code, text = long.run("--vm-host=lab01")
    assert code == pytest.ExitCode.TESTS_FAILED, text
    said = " ".join(text.split())
    assert re.search(rf"{IMAGES}/vmstorage/run-\w+ has [\d.]+ MiB free, but a disk of 64 MiB may need 128 MiB\.", said)
    assert " passed" not in said
    lab01.free_disk()
    nothing_is_left(lab, lab01)


def test_a_disk_that_becomes_full_there_is_told(lab: Laboratory, lab01: Host, long: Project) -> None:
    """QEMU says that no space is left, the host how much is free."""
    long.write(LONG.replace("    seconds", WAIT + "    seconds"))
    with long.going("--vm-host=lab01", "-k", "raw") as run:
        run.wait_for_mark("raw")
        lab01.fill_disk()
        run.go_on("raw")
        code, text = run.ended()
    assert code == pytest.ExitCode.TESTS_FAILED, text
    said = " ".join(text.split())
    assert "no space on the host: " in said
    assert "No space left on device; its folder has 0 B free" in said
    lab01.free_disk()
    nothing_is_left(lab, lab01)


WAIT = """    while not Path(format + ".go").exists():
        time.sleep(0.1)
"""
