"""Leases: on disk before what they name, and dead only when their owner certainly is."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pytest_vmstorage.host.lease import LIFETIME_S, Lease, LeaseBook, Owner, is_dead, new_lease, this_process
from pytest_vmstorage.leftovers import boot_id, started_ticks


def lease(run_id: str = "0123456789", owner: Owner | None = None, **fields: object) -> Lease:
    """A lease of this process that expires in an hour."""
    known = {"expires": time.time() + 3600, "uri": None, "ssh": None, "folder": f"/srv/run-{run_id}"}
    return Lease.model_validate({"run_id": run_id, "owner": owner or this_process(), **known, **fields})


def owner(**fields: object) -> Owner:
    """This process, but for these fields."""
    return this_process().model_copy(update=fields)


def test_a_new_lease_is_this_processs_for_a_day() -> None:
    """Its folders end with an id of its own; without a root there is none."""
    first = new_lease("/srv/run-", uri=None, ssh="lab01", host="lab", root="/tmp/vms-")
    assert (first.folder, first.root) == (f"/srv/run-{first.run_id}", f"/tmp/vms-{first.run_id}")
    assert (first.owner, first.ssh, first.host) == (this_process(), "lab01", "lab")
    assert 0 <= first.expires - LIFETIME_S - time.time() + 60 <= 60
    second = new_lease("/srv/run-", uri="qemu:///system", ssh=None)
    assert second.run_id != first.run_id
    assert (second.uri, second.root, second.host) == ("qemu:///system", "", "")


def test_a_living_owner_is_not_dead() -> None:
    """Its lease holds even past its expiry: a long run is no dead one."""
    assert not is_dead(lease())
    assert not is_dead(lease(expires=0.0))


@pytest.mark.parametrize("fields", [{"boot_id": "another"}, {"started_ticks": 1}, {"pid": 2**22 + 1}])
def test_another_boot_or_process_is_dead(fields: dict[str, object]) -> None:
    """A pid that was given to another process does not keep a lease alive."""
    assert is_dead(lease(owner=owner(**fields)))


def test_a_process_that_only_waits_to_be_buried_is_dead() -> None:
    """A zombie holds no guests."""
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert started_ticks(child.pid) is None
    child.wait()


def test_a_command_name_with_blanks_and_brackets_does_not_confuse(tmp_path: Path) -> None:
    """/proc/PID/stat has the name unescaped; the start time is counted from behind it."""
    program = tmp_path / "a) 1 2 (b"
    program.symlink_to("/bin/sleep")
    child = subprocess.Popen([program, "30"])
    try:
        deadline = time.monotonic() + 60
        while "a) 1 2" not in Path(f"/proc/{child.pid}/stat").read_text() and time.monotonic() < deadline:
            time.sleep(0.005)
        mine = started_ticks(os.getpid())
        assert mine is not None
        assert mine <= (started_ticks(child.pid) or 0) < mine + 100 * 24 * 3600
    finally:
        child.kill()
        child.wait()


def test_another_machines_lease_dies_by_its_expiry() -> None:
    """Its process cannot be looked at from here."""
    elsewhere = owner(host="elsewhere", pid=1)
    assert not is_dead(lease(owner=elsewhere, expires=1000.0), now=999.0)
    assert is_dead(lease(owner=elsewhere, expires=1000.0), now=1001.0)


def test_a_kept_guest_outlives_its_owner_until_it_expires() -> None:
    """--vm-keep is for a day, and not past the next boot."""
    gone = owner(started_ticks=1)
    assert not is_dead(lease(owner=gone, kept=True, expires=1000.0), now=999.0)
    assert is_dead(lease(owner=gone, kept=True, expires=1000.0), now=1001.0)
    assert is_dead(lease(owner=owner(boot_id="another"), kept=True))


def test_this_process_cannot_be_taken_for_another() -> None:
    """Host, boot, pid and start are all there."""
    me = this_process()
    assert me.pid == os.getpid()
    assert me.boot_id == boot_id() != ""
    assert me.started_ticks == started_ticks(os.getpid()) != 0


def test_a_book_keeps_what_was_written_last(tmp_path: Path) -> None:
    """Written, replaced, dropped; dropping twice is no error, and no draft is left lying."""
    book = LeaseBook(tmp_path / "not" / "yet")
    assert list(book) == []
    first = lease()
    second = first.model_copy(update={"domains": ("uuid",)})
    book.write(first)
    book.write(second)
    book.write(lease("other"))
    assert {one.run_id: one for one in book}["0123456789"] == second
    assert [path.suffix for path in book.folder.iterdir()] == [".json", ".json"]
    book.drop(first)
    book.drop(first)
    assert [one.run_id for one in book] == ["other"]


def test_a_lease_that_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    """Another version's, or a damaged one: it hides no other, and nobody removes what it may name."""
    book = LeaseBook(tmp_path)
    book.write(lease())
    (tmp_path / "00.json").write_text("{")
    (tmp_path / "01.json").write_text('{"run_id": "x"}')
    assert [one.run_id for one in book] == ["0123456789"]
    assert (tmp_path / "00.json").exists()


def test_a_process_of_another_container_cannot_be_looked_at() -> None:
    """Of the same name and boot it counts its processes anew: dead by its expiry only."""
    inside = owner(pid_namespace="1", started_ticks=1)
    assert not is_dead(lease(owner=inside, expires=1000.0), now=999.0)
    assert is_dead(lease(owner=inside, expires=1000.0), now=1001.0)
    assert is_dead(lease(owner=owner(pid_namespace="", started_ticks=1)))


def test_a_lease_says_whose_it_is() -> None:
    """User, machine, process, and since when."""
    mine = lease(owner=owner(user="ann", host="ci", pid=12), expires=24 * 3600.0 + 90.0)
    assert mine.owned_by == "ann@ci, pid 12, since 1970-01-01 00:01:30 UTC"
