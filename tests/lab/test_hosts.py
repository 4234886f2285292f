"""Two lab hosts in one run, and two jobs that want one host."""

from __future__ import annotations

import json
import re
import time
from collections import Counter

from laboratory import Host, Laboratory, wait_for
from project import Project

FOUR = """
import os, pathlib, time
import pytest
from pytest_vmstorage import Fio

FIO = Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=1)

@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("cache", ["none", "writeback"])
@pytest.mark.storage(size="64M")
def test_random_write(measure, format, cache):
    if (format, cache) == ("qcow2", "writeback") and os.environ.get("KILLS"):
        os.kill(os.getpid(), 9)
    assert measure(FIO, rounds=2, warmup=0).iops > 10
"""

HELD = """
import pathlib, time
import pytest

@pytest.mark.storage(size="64M")
def test_hold(guest):
    pathlib.Path("guest.mark").touch()
    while not pathlib.Path("guest.go").exists():
        time.sleep(0.1)
"""

BOTH = "--vm-host=lab01,lab02"


def test_cells_are_divided_among_two_hosts(lab: Laboratory, project: Project) -> None:
    """One saved file with the rows of both, and nothing left on either; the second run keeps each where it was."""
    project.write(FOUR)
    code, text = project.run("-n", "auto", BOTH, "--vm-save=main", "--vm-report=r.json", timeout_s=400)
    assert code == 0, text
    rows = json.loads((project.folder / "r.json").read_text())["measurements"]
    assert Counter(row["host"] for row in rows) == {"lab01": 2, "lab02": 2}
    assert all(row["hygiene"]["rounds"].startswith("in turns with 1 other cell") for row in rows)
    (saved,) = project.folder.glob(".benchmarks/*/*_main.json")
    assert len(json.loads(saved.read_text())["benchmarks"]) == 4
    assert len(list((project.folder / ".vmstorage").glob("*.jsonl"))) == 1
    for host in lab.hosts:
        assert host.guests() == []
        assert not host.pids("flock")
    where = {row["nodeid"]: row["host"] for row in rows}

    options = ("--vm-host=lab02,lab01", "--vm-baseline=main", "--vm-report=again.json")
    code, text = project.run(*options, timeout_s=400)
    again = json.loads((project.folder / "again.json").read_text())["measurements"]
    assert {row["nodeid"]: row["host"] for row in again} == where, text
    assert "4 tests stay on the host of before" in text


def test_a_worker_that_is_killed_is_replaced_on_its_host(lab: Laboratory, project: Project) -> None:
    """Its test fails once, the others have their figures, its guests are gone and its lease is free."""
    project.write(FOUR.replace('os.environ.get("KILLS")', "True"))
    code, text = project.run(BOTH, "--vm-report=r.json", timeout_s=400)
    assert code == 1, text
    run = json.loads((project.folder / "r.json").read_text())
    assert Counter(row["host"] for row in run["measurements"]) in ({"lab01": 2, "lab02": 1}, {"lab01": 1, "lab02": 2})
    assert [failure["nodeid"] for failure in run["failures"]] == ["test_it.py::test_random_write[qcow2-writeback]"]
    assert re.search(r"1 failed, 3 passed", text)
    for host in lab.hosts:
        assert host.guests() == []


def test_two_jobs_want_one_host(lab: Laboratory, lab01: Host, project: Project) -> None:
    """The second fails in a sentence that names the first, or waits for it; a killed holder frees the host at once."""
    folders = [project.folder / name for name in ("one", "other")]
    for folder in folders:
        folder.mkdir()
    one, other = (Project(lab, folder) for folder in folders)
    one.write(HELD)
    with one.going("--vm-host=lab01") as first:
        first.wait_for_mark("guest")
        code, text = other.run("--vm-host=lab01", "--vm-wait=0")
        assert code == 4, text
        assert re.search(
            r"^ERROR: lab01 is in use by \S+@\S+ \(pid \d+\) since .* UTC\. One job at a time", text, re.MULTILINE
        )
        with other.going("--vm-host=lab01", "--vm-wait=2m") as waiting:
            waiting.wait_for_words(
                r"vmstorage: waiting up to 2 min 00 s for lab01, which is in use by \S+@\S+ \(pid \d+\)"
            )
            waiting.go_on("guest")
            first.kill()
            begin = time.monotonic()
            wait_for(lambda: "flock -w" not in lab01.sh("ps -eo args | grep '^flock -w' || true"), "the lease")
            assert time.monotonic() - begin < 3
            code, text = waiting.ended()
            assert code == 0, text
