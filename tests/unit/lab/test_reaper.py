"""The reaper: what belongs to a dead owner, all of it, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.host.lease import Lease, LeaseBook, this_process
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.lab import reaper
from pytest_vmstorage.lab.reaper import reap, reap_remote
from pytest_vmstorage.leftovers import mark
from pytest_vmstorage.storage import block
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.host import answer_of
from pytest_vmstorage.testing.shell import FakeShell

RUN = f"{os.getpid():010x}"
"""Of this process alone: what reaps a run ends all commands that name it, those of tests beside these too."""
GONE = this_process().model_copy(update={"started_ticks": 1})


REMOVE = ["rm", "-rf", "--one-file-system", "--"]


def nothing_mounted() -> FakeShell:
    """A machine without mounts and loop devices."""
    shell = FakeShell().answer(re.compile("backing_file"), returncode=2).answer(re.compile("cmdline"))
    # all folders are there
    shell.do(re.compile(r"\[ ! -e "), lambda asked: answer_of(asked, "".join(f"{path}\n" for path in asked.argv[4:])))
    return shell.answer(re.compile("^readlink "), "")


@pytest.fixture
def book(tmp_path: Path) -> LeaseBook:
    """A book of leases."""
    return LeaseBook(tmp_path / "leases")


def lease(tmp_path: Path, **fields: object) -> Lease:
    """A dead run's lease with a disk in its folder and a root, both there."""
    folder, root = tmp_path / f"run-{RUN}", tmp_path / f"vms-{RUN}"
    for path in (folder, root):
        path.mkdir()
        (path / "disk").write_text("x")
    known = {"owner": GONE, "expires": time.time() + 3600, "uri": None, "ssh": None}
    return Lease.model_validate({"run_id": RUN, "folder": str(folder), "root": str(root), **known, **fields})


@pytest.fixture
def process() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a process with these words as its name and arguments."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *words: str) -> subprocess.Popen[bytes]:
        # one that starts another is there twice, until that has a name of its own
        script = f'exec -a {name} sh -c "read -r _" {name} {" ".join(words)}'
        child = subprocess.Popen(["bash", "-c", script], stdin=subprocess.PIPE, start_new_session=True)
        started.append(child)
        wanted = f"{name}\0".encode()
        deadline = time.monotonic() + 60
        while not Path(f"/proc/{child.pid}/cmdline").read_bytes().startswith(wanted) and time.monotonic() < deadline:
            time.sleep(0.002)
        return child

    yield start
    for child in started:
        with child:
            child.kill()


def bury(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the reaper's look at a process bury this child first: a real QEMU is nobody's child."""
    arguments = reaper._arguments

    def look(pid: int) -> list[str]:
        if pid == child.pid:
            child.poll()
        return arguments(pid)

    monkeypatch.setattr(reaper, "_arguments", look)


def test_a_dead_runs_folders_and_lease_go(tmp_path: Path, book: LeaseBook) -> None:
    """One sentence says whose they were and what went."""
    dead = lease(tmp_path, expires=11 * 24 * 3600.0)
    book.write(dead)
    (sentence,) = map(str, reap(book, LocalShell()))
    assert sentence == (
        f"removed what run {RUN} left: 0 guest(s), {dead.folder}, {dead.root}"
        f" ({GONE.user}@{GONE.host}, pid {GONE.pid}, since 1970-01-11 00:00:00 UTC, gone)"
    )
    assert not Path(dead.folder).exists()
    assert not Path(dead.root).exists()
    assert list(book) == []
    assert reap(book, LocalShell()) == []


def test_a_living_owners_things_stay(tmp_path: Path, book: LeaseBook) -> None:
    """This very process's, even past its expiry."""
    alive = lease(tmp_path, owner=this_process(), expires=0.0)
    book.write(alive)
    assert reap(book, LocalShell()) == []
    assert Path(alive.folder, "disk").exists()
    assert list(book) == [alive]


def test_a_kept_guest_stays_until_it_is_asked_for(tmp_path: Path, book: LeaseBook) -> None:
    """--vm-keep outlives its run; `vmstorage reap --kept` ends it."""
    book.write(lease(tmp_path, kept=True))
    assert reap(book, LocalShell()) == []
    assert len(reap(book, LocalShell(), kept=True)) == 1


@pytest.mark.parametrize("name", ["home", "run-{run}-not", "{run}x", "run-012345678"])
def test_a_folder_without_the_runs_id_is_never_removed(tmp_path: Path, book: LeaseBook, name: str) -> None:
    """A damaged lease must not cost a home folder."""
    name = name.format(run=RUN)
    (tmp_path / name).mkdir()
    book.write(lease(tmp_path, folder=str(tmp_path / name)))
    (sentence,) = map(str, reap(book, LocalShell()))
    assert (tmp_path / name).is_dir()
    assert str(tmp_path / name) + "," not in sentence


@pytest.mark.parametrize("run_id", ["", "/", "."])
def test_a_lease_without_an_id_removes_nothing(tmp_path: Path, run_id: str) -> None:
    """The empty id is a part of every name."""
    shell = FakeShell()
    bad = lease(tmp_path, run_id=run_id, folder="/srv", root="/")
    assert "0 guest(s)" in reaper._clear(bad, shell, reaper.LocalGuests(), LeaseBook(tmp_path / "leases"))
    assert shell.asked == []


@pytest.mark.parametrize("elsewhere", [{"ssh": "lab01", "uri": "qemu+ssh://lab01/system"}, {"owner": "other machine"}])
def test_another_machines_things_are_not_looked_for_here(
    tmp_path: Path, book: LeaseBook, elsewhere: dict[str, object]
) -> None:
    """A lease of a lab host, or of another machine that shares this home, stays for those who can reach it."""
    if "owner" in elsewhere:
        elsewhere = {"owner": GONE.model_copy(update={"host": "elsewhere", "boot_id": "b"}), "expires": 0.0}
    far = lease(tmp_path, **elsewhere)
    book.write(far)
    assert reap(book, LocalShell()) == []
    assert list(book) == [far]
    assert Path(far.folder).exists()


def test_a_dead_runs_guest_is_killed_and_no_other(
    tmp_path: Path, book: LeaseBook, process: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process must be a QEMU and carry the leased UUID as a word of its own."""
    leased, foreign = str(uuid.uuid4()), str(uuid.uuid4())
    victim = process("qemu-fake", "-uuid", leased)
    others = [
        process("qemu-fake", "-uuid", foreign),
        process("editor", "-uuid", leased),
        process("qemu-fake", f"-name=notes-on-{leased}"),
    ]
    bury(victim, monkeypatch)
    book.write(lease(tmp_path, domains=(leased, str(uuid.uuid4()))))
    (sentence,) = map(str, reap(book, LocalShell()))
    assert "left: 1 guest(s), " in sentence
    assert victim.wait(60) == -9
    assert [other.poll() for other in others] == [None] * 3


def test_a_zombie_is_no_guest(process: Callable[..., subprocess.Popen[bytes]]) -> None:
    """It has no arguments any more, so nobody waits for it."""
    child = process("qemu-fake", "-uuid", "u")
    child.kill()
    deadline = time.monotonic() + 60
    while reaper._arguments(child.pid) and time.monotonic() < deadline:
        time.sleep(0.002)
    assert reaper._arguments(child.pid) == []


def test_what_cannot_be_removed_is_told_and_tried_again(tmp_path: Path, book: LeaseBook) -> None:
    """A sentence and a lease that stays; the run at hand goes on, and other dead runs are cleared."""
    stuck = lease(tmp_path)
    other = stuck.model_copy(update={"run_id": "zz", "folder": str(tmp_path / "run-zz"), "root": ""})
    book.write(stuck)
    book.write(other)
    shell = nothing_mounted().answer([*REMOVE, other.folder]).answer(["id", "-u"], "1000\n")
    shell.answer([*REMOVE, stuck.root])
    shell.answer([*REMOVE, stuck.folder], stderr="rm: Read-only file system", returncode=1)
    first, second = map(str, reap(book, shell))
    assert first.startswith(f"could not remove all that run {RUN} left (")
    assert f"removing {stuck.folder} failed: rm: Read-only file system" in first
    assert first.endswith(" Its lease stays: `vmstorage reap` tries again. [VM443]")
    assert second.startswith("removed what run zz")
    assert list(book) == [stuck]


def test_a_guest_of_another_user_is_told(tmp_path: Path, book: LeaseBook, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not killed, so its lease and its folders stay."""

    def refuse(_pid: int, _signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(reaper, "_all_processes", lambda: [4711])
    monkeypatch.setattr(reaper, "_arguments", lambda _pid: ["qemu", "-uuid", "u"])
    monkeypatch.setattr("os.kill", refuse)
    dead = lease(tmp_path, domains=("u",))
    book.write(dead)
    (sentence,) = map(str, reap(book, LocalShell()))
    assert "QEMU (pid 4711) belongs to another user. Run this as that user. Its lease stays" in sentence
    assert Path(dead.folder).exists()
    assert list(book) == [dead]


def test_a_guest_that_outlives_sigkill_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, book: LeaseBook
) -> None:
    """A process in uninterruptible I/O is not claimed to be gone."""
    monkeypatch.setattr(reaper, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(reaper, "_all_processes", lambda: [4711])
    monkeypatch.setattr(reaper, "_arguments", lambda _pid: ["qemu", "-uuid", "u"])
    monkeypatch.setattr("os.kill", lambda _pid, _signal: None)
    book.write(lease(tmp_path, domains=("u",)))
    (sentence,) = map(str, reap(book, LocalShell()))
    assert "is still there 0 s after SIGKILL" in sentence
    assert len(list(book)) == 1


def test_a_lab_hosts_leftovers_go_when_it_is_reached(
    tmp_path: Path, book: LeaseBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guests by its libvirt, folder and volumes by its shell; other hosts' and living runs' leases stay."""
    hypervisor = FakeHypervisor(lambda _xml: FakeDomain(FakeShell()))
    guest = hypervisor.start("<domain><name>vms-1</name><uuid>u-1</uuid></domain>")
    shell = nothing_mounted().answer([*REMOVE, f"/srv/run-{RUN}"]).answer(["id", "-u"], "0\n")
    shell.answer(re.compile("^pgrep "), returncode=1).answer(re.compile("^sh -c 'rm -f "))
    monkeypatch.setattr(block, "leftover_lvs", lambda _shell, run_id: [f"vg0/vms-{run_id}-1"])
    monkeypatch.setattr(block, "leftover_zvols", lambda _shell, _run_id: [])
    removed: list[str] = []
    monkeypatch.setattr(block, "remove_lv", lambda _shell, name, _run_id: removed.append(name))
    far = {"uri": "qemu+ssh://lab01/system", "ssh": "lab01", "folder": f"/srv/run-{RUN}", "root": ""}
    gone = lease(tmp_path, **far, domains=("u-1", "u-2"))
    book.write(gone)
    book.write(gone.model_copy(update={"run_id": "elsewhere", "ssh": "lab02"}))
    book.write(gone.model_copy(update={"run_id": "alive", "owner": this_process()}))
    host = LabHost(name="lab01", uri="qemu+ssh://lab01/system", ssh="lab01", folder="/srv")
    (sentence,) = map(str, reap_remote(book, host, shell, hypervisor))
    volume = f"vg0/vms-{RUN}-1"
    assert sentence == (
        f"removed what run {RUN} left on lab01: 1 guest(s), LVM volume {volume}, /srv/run-{RUN} ({gone.owned_by}, gone)"
    )
    assert hypervisor.forgotten == ["u-1", "u-2"] * 2
    assert removed == [volume]
    assert not guest.is_active()
    (line,) = (line for line in shell.lines if line.startswith("rm "))
    assert line == f"rm -rf --one-file-system -- /srv/run-{RUN}"
    assert f"sh /var/log/libvirt/qemu/vms-{RUN}-" in "\n".join(shell.lines)
    assert {kept.run_id for kept in book} == {"elsewhere", "alive"}


def test_a_guest_that_its_libvirt_does_not_know_keeps_its_disk(
    tmp_path: Path, book: LeaseBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its QEMU runs on, and nobody here may kill it by its number there: told, and tried again by the next."""
    hypervisor = FakeHypervisor(lambda _xml: FakeDomain(FakeShell()))
    monkeypatch.setattr(reaper, "_PATIENCE_S", 0.1)
    shell = FakeShell().answer(["pgrep", "-f", "--", "^[^ ]*qemu.* -uuid (u-1)( |$)"], "4711\n")
    far = {"uri": "qemu+ssh://lab01/system", "ssh": "lab01", "folder": f"/srv/run-{RUN}", "root": ""}
    gone = lease(tmp_path, **far, domains=("u-1",))
    book.write(gone)
    host = LabHost(name="lab01", uri="qemu+ssh://lab01/system", ssh="lab01", folder="/srv")
    (sentence,) = map(str, reap_remote(book, host, shell, hypervisor))
    assert sentence == (
        f"could not remove all that run {RUN} left on lab01 ({gone.owned_by}, gone): a guest of that run is still"
        " process 4711 there, and libvirt there does not know it. Look at it, and end it with `kill 4711` on that host."
        " Its lease stays: `vmstorage reap --host=lab01` tries again. [VM446]"
    )
    assert len(list(book)) == 1


def test_a_look_touches_nothing(
    tmp_path: Path, book: LeaseBook, process: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """--dry-run: the guest runs on, folders and lease stay, and a sentence says what there is and whose it was."""
    leased = str(uuid.uuid4())
    guest = process("qemu-fake", "-uuid", leased)
    dead = lease(tmp_path, domains=(leased,))
    book.write(dead)
    (found,) = reap(book, LocalShell(), look_only=True)
    assert str(found) == f"run {RUN} left: 1 guest(s), {dead.folder}, {dead.root} ({dead.owned_by}, gone)"
    assert found.is_clear
    assert guest.poll() is None
    assert Path(dead.folder, "disk").exists()
    assert list(book) == [dead]


def test_a_qemu_that_libvirt_asked_what_it_can_is_killed(
    tmp_path: Path, book: LeaseBook, process: Callable[..., subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no guest and no UUID, and would wait for ever: known by the run's private folder."""
    dead = lease(tmp_path)
    probe = process("qemu-fake", "-daemonize", "-pidfile", f"{dead.root}/lib/qemu/qmp-1/qmp.pid")
    other = process("qemu-fake", "-daemonize", "-pidfile", f"{dead.root}x/lib/qemu/qmp-1/qmp.pid")
    bury(probe, monkeypatch)
    book.write(dead)
    (sentence,) = map(str, reap(book, LocalShell()))
    assert "left: 1 guest(s), " in sentence
    assert probe.wait(60) == -9
    assert other.poll() is None


def test_commands_that_outlived_their_run_are_ended(tmp_path: Path, book: LeaseBook) -> None:
    """As fio of a native row: by the run's folder among its words. Another's folder, alike in name, is none of it."""
    dead = lease(tmp_path)
    book.write(dead)
    words = [
        f"{dead.folder}/disk",
        f"{dead.folder}0/disk",
        f"/x/{RUN}/disk",
        f"/dev/vg0/vms-{RUN}-1",
        f"/srv/vmstorage-{RUN}/x",
    ]
    # a session of its own has no terminal
    started = [subprocess.Popen(["sh", "-c", "sleep 30; :", word], start_new_session=True) for word in words]
    try:
        (sentence,) = map(str, reap(book, LocalShell()))
        assert [started[place].wait(60) for place in (0, 3, 4)] == [-9, -9, -9]
        assert [started[place].poll() for place in (1, 2)] == [None, None]
        assert f"sh (pid {started[0].pid}), " in sentence
        assert f"sh (pid {started[3].pid}), " in sentence
    finally:
        for child in started:
            subprocess.run(["kill", "-KILL", "--", f"-{child.pid}"], check=False, stderr=subprocess.DEVNULL)
            child.wait()


def test_half_written_leases_of_dead_processes_go(book: LeaseBook) -> None:
    """They name nothing that was made; a living process's is on its way to be whole."""
    book.folder.mkdir()
    namespace, pid, ticks = mark().split("-")
    dead = book.folder / f".{RUN}.json.{namespace}-{pid}-{int(ticks) - 1}.new"
    living = book.folder / f".{RUN}.json.{mark()}.new"
    for path in (dead, living):
        path.write_text('{"run_')
    reap(book, LocalShell(), look_only=True)
    assert dead.exists()
    reap(book, LocalShell())
    assert not dead.exists()
    assert living.exists()
