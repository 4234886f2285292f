"""`vmstorage reap`: what it says, what it touches, and its exit status; and what a run that begins removes."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

import pytest

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host.lease import Lease, LeaseBook, this_process
from pytest_vmstorage.lab import opening
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.shell import FakeShell

RUN = f"{os.getpid():010x}"
"""Of this process alone: who reaps it ends all commands that name it."""


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LeaseBook:
    """A user's leases, with a cache and marks of their own: what other runs on this machine left is not told here."""
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pytest_vmstorage.host.ssh._FOLDER", str(tmp_path / "vms-ssh"))
    monkeypatch.setattr("pytest_vmstorage.host.shell.OWNER", f"VMSTORAGE_OWNER_IN_TEST_{os.getpid()}")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return opening.lease_book()


def dead(folder: Path, **fields: object) -> Lease:
    """A dead run's lease of that folder, which is made."""
    folder.mkdir()
    owner = this_process().model_copy(update={"started_ticks": 1})
    known = {"owner": owner, "expires": time.time() + 3600, "uri": None, "ssh": None}
    return Lease.model_validate({"run_id": RUN, "folder": str(folder), **known, **fields})


def test_it_lists_and_removes(book: LeaseBook, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--dry-run says what and whose; without it the same is gone, and the next has nothing to do."""
    lease = dead(tmp_path / f"run-{RUN}")
    book.write(lease)
    assert main(["reap", "--dry-run"]) == 0
    assert capsys.readouterr().out == f"run {RUN} left: 0 guest(s), {lease.folder} ({lease.owned_by}, gone)\n"
    assert Path(lease.folder).exists()
    assert main(["reap"]) == 0
    assert (
        capsys.readouterr().out == f"removed what run {RUN} left: 0 guest(s), {lease.folder} ({lease.owned_by}, gone)\n"
    )
    assert not Path(lease.folder).exists()
    assert main(["reap"]) == 0
    assert capsys.readouterr().out == "nothing to remove: no dead run left anything\n"


def test_a_kept_guest_is_told_where_nothing_is_removed(
    book: LeaseBook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what removes it; and that does."""
    kept = dead(tmp_path / f"run-{RUN}", owner=this_process(), kept=True)
    book.write(kept)
    assert main(["reap", "--dry-run"]) == 0
    told = f"run {RUN} kept its guest ({kept.owned_by}): `vmstorage reap --kept` removes it\n"
    assert capsys.readouterr().out == told
    assert main(["reap", "--kept", "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith(f"run {RUN} left: 0 guest(s), ")
    assert Path(kept.folder).exists()
    assert main(["reap", "--kept"]) == 0
    assert not Path(kept.folder).exists()


def test_what_cannot_be_removed_is_told_and_is_no_success(
    book: LeaseBook, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit status 1, the reason, what to do; the lease stays."""

    def refuse(_shell: object, folder: str) -> None:
        raise HostError(f"{folder} is busy.", hint="Look with fuser.")

    monkeypatch.setattr("pytest_vmstorage.lab.reaper.remove_folder", refuse)
    book.write(dead(tmp_path / f"run-{RUN}"))
    assert main(["reap"]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path}/run-{RUN} is busy. Look with fuser. Its lease stays: `vmstorage reap` tries again." in said
    assert len(list(book)) == 1


def test_other_hosts_are_named_and_not_touched(
    book: LeaseBook, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are reached only when they are named."""
    book.write(dead(tmp_path / f"run-{RUN}", ssh="root@192.0.2.1", uri="qemu+ssh://x/system", host="lab01"))
    assert main(["reap"]) == 0
    assert "on lab01 dead runs left something too: `vmstorage reap --host=lab01`" in capsys.readouterr().out
    assert len(list(book)) == 1


@pytest.mark.parametrize("option", ["--host", "--vm-host"])
def test_a_lab_host_is_reached_by_its_name(
    book: LeaseBook,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    option: str,
) -> None:
    """Guests through its libvirt, where a run left something, all else through its shell; saved guests go too."""
    monkeypatch.setattr(opening, "LibvirtHypervisor", lambda _uri: hypervisor)
    monkeypatch.setattr("pytest_vmstorage.host.shell.SshShell", lambda _target: shell)
    hypervisor = FakeHypervisor(lambda _xml: FakeDomain(FakeShell()))
    shell = (
        FakeShell().answer(["true"]).answer(re.compile("^sh -c .* sh /var/lib/libvirt/images/vmstorage/states"), "2\n")
    )
    assert main(["reap", f"{option}=lab01"]) == 0
    states = "2 saved guest(s) in /var/lib/libvirt/images/vmstorage/states on lab01\n"
    assert capsys.readouterr().out == f"removed {states}"
    assert not hypervisor.closed
    book.write(dead(tmp_path / "x", ssh="lab01", uri="qemu+ssh://lab01/system", host="lab01"))
    assert main(["reap", "--dry-run", f"{option}=lab01"]) == 0
    said = capsys.readouterr().out
    assert f"run {RUN} left on lab01: 0 guest(s) (" in said
    assert f"{states.rstrip()} would be removed too; a run that needs one saves it anew\n" in said
    assert [asked.argv[-1] for asked in shell.asked] == ["true", "", "true", "look"]
    assert hypervisor.closed


def test_a_run_that_begins_removes_what_dead_runs_left(book: LeaseBook, tmp_path: Path) -> None:
    """It says so; a guest of --vm-keep waits for `vmstorage reap --kept`."""
    kept_run = f"{os.getpid() + 2**32:010x}"
    left = dead(tmp_path / f"run-{RUN}")
    kept = dead(tmp_path / f"run-{kept_run}", run_id=kept_run, kept=True)
    book.write(left)
    book.write(kept)
    said: list[str] = []
    opening.open_machines(LabSettings(), said.append).close()
    assert [one for one in said if RUN in one or kept_run in one] == [
        f"removed what run {RUN} left: 0 guest(s), {left.folder} ({left.owned_by}, gone)"
    ]
    assert [Path(one.folder).exists() for one in (left, kept)] == [False, True]
    assert list(book) == [kept]
