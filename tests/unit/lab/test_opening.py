"""A run that begins: what dead runs left goes first."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.host.lease import Lease, this_process
from pytest_vmstorage.lab.opening import lease_book, open_machines


def lease(folder: Path, run_id: str, **fields: object) -> Lease:
    """The lease of a run that is gone, and its folder, which is made."""
    folder.mkdir()
    owner = this_process().model_copy(update={"started_ticks": 1})
    known = {"owner": owner, "expires": time.time() + 3600, "uri": None, "ssh": None}
    return Lease.model_validate({"run_id": run_id, "folder": str(folder), **known, **fields})


def test_a_dead_runs_things_go_and_what_was_kept_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said; a guest of --vm-keep waits for `vmstorage reap --kept`."""
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("pytest_vmstorage.host.ssh._FOLDER", str(tmp_path / "vms-ssh"))
    monkeypatch.setattr("pytest_vmstorage.host.shell.OWNER", f"VMSTORAGE_OWNER_IN_TEST_{os.getpid()}")
    # of this process alone: who reaps a run ends all commands that name it
    dead_run, kept_run = f"{os.getpid():010x}", f"{os.getpid() + 2**32:010x}"
    dead = lease(tmp_path / f"run-{dead_run}", dead_run)
    kept = lease(tmp_path / f"run-{kept_run}", kept_run, kept=True)
    book = lease_book()
    book.write(dead)
    book.write(kept)
    said: list[str] = []
    open_machines(LabSettings(), said.append).close()
    assert [one for one in said if dead_run in one or kept_run in one] == [
        f"removed what run {dead_run} left: 0 guest(s), {dead.folder} ({dead.owned_by}, gone)"
    ]
    assert [Path(one.folder).exists() for one in (dead, kept)] == [False, True]
    assert list(book) == [kept]
