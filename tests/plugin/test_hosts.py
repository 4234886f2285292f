"""Several hosts: a worker of pytest-xdist for each, cells divided among them or measured on all, one file.

Tests of `plugin.xdist.channel`, `plugin.xdist.controller`, `plugin.xdist.shares` and `plugin.xdist.worker`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest
from projects import RANDOM_WRITE, assert_refused, flat, journal_samples, text_of

CELLS = (
    RANDOM_WRITE
    + """
@pytest.mark.parametrize("cache", ["none", "writeback"])
@pytest.mark.parametrize("format", ["raw", "qcow2", "vdi"])
def test_write(measure):
    assert measure(FIO).iops > 500
"""
)
TWO = "--vm-host=lab01,lab02"


@pytest.fixture
def six(project):
    """A project with six cells."""
    project.write(test_it=CELLS)
    return project


@pytest.fixture
def divided(six):
    """What a run of six cells on two hosts printed, which was saved as `main`; `six` is the folder as it left it."""
    return six.begin_with(TWO, "--vm-seed=3", "--vm-save=main", "--vm-report=r.json", "--vm-details", own_process=True)


def run_of(project, name="r.json"):
    """What a run wrote."""
    return json.loads((project.path / name).read_text())


def places(project, name="r.json"):
    """Each measured test's parameters, and the host it was measured on."""
    return {one["nodeid"].partition("[")[2].rstrip("]"): one["host"] for one in run_of(project, name)["measurements"]}


def opened(project):
    """By host, how often a lab was opened there."""
    return Counter(event.partition(" ")[2] for event in project.events if event.startswith("open"))


def test_cells_are_divided(six, divided):
    """Half of them each, in one table and one file; a lab is opened once on each host, without -n."""
    divided.assert_outcomes(passed=6)
    assert Counter(places(six).values()) == {"lab01": 3, "lab02": 3}
    assert opened(six) == {"lab01": 1, "lab02": 1}
    text = flat(divided)
    assert "vmstorage: guests run on lab01, lab02" in text
    assert "2 workers [6 items]" in text
    assert "vmstorage: lab01 3 cells, about 1 min 15 s; lab02 3 cells, about 1 min 15 s" in text
    assert "vmstorage: lab02: opening the fake lab" in text
    assert [host["name"] for host in sorted(run_of(six)["hosts"], key=lambda one: one["name"])] == ["lab01", "lab02"]


def test_a_hosts_cells_take_turns(six, divided):
    """Each worker has its own, in an order of the one seed; the rows say with how many."""
    assert "rounds: in turns with 2 other cells, --vm-seed=3" in flat(divided)
    for host in ("lab01", "lab02"):
        rows = [one for one in run_of(six)["measurements"] if one["host"] == host]
        order = [cell for _, cell in sorted((s["order"], one["nodeid"]) for one in rows for s in one["samples"])]
        assert [len(set(order[n : n + 3])) for n in (0, 3, 6)] == [3, 3, 3]
    assert "vmstorage: lab01: round 1, 3 cells in turns" in flat(divided)


def test_every_cell_on_every_host(six):
    """The host is an axis: in ids, in the table, in the file; --vm-host of one host has the same ids."""
    result = six.run(TWO, "--vm-spread=each", "--vm-report=r.json", "-v")
    result.assert_outcomes(passed=12)
    found = places(six)
    assert len(found) == 12
    assert all(name.startswith(f"{host}-") for name, host in found.items())
    assert "test_it.py::test_write[lab02-vdi-none]" in text_of(result)
    assert {line.split()[0] for line in result.outlines if line.startswith(("lab01 ", "lab02 "))} == {"lab01", "lab02"}
    assert six.ids("--vm-host=lab02", "--vm-spread=each") == [
        name.partition("::")[2]
        for name in sorted({one["nodeid"] for one in run_of(six)["measurements"] if one["host"] == "lab02"}, key=_place)
    ]


def _place(nodeid):
    formats, caches = ["raw", "qcow2", "vdi"], ["none", "writeback"]
    _, form, cache = nodeid.partition("[")[2].rstrip("]").split("-")
    return formats.index(form), caches.index(cache)


def test_best_and_worst_are_of_one_host(six):
    """Figures of two machines are not set against each other; -n auto is a worker for each."""
    six.wish(speed={"raw-none-*": 2.0, "vdi-none-*": 0.5})
    result = six.run("-n", "auto", TWO, "--vm-spread=each", "-v")
    assert "2 workers [12 items]" in flat(result)
    rows = [line for line in result.outlines if line.startswith(("lab01 ", "lab02 "))]
    assert sum("▲" in row for row in rows) == sum("▼" in row for row in rows) == 2
    assert "of its column and host" in flat(result)


def test_a_cell_stays_where_the_baseline_has_it(six):
    """Whatever the order of hosts is now; new cells go to where less is to do."""
    six.run(TWO, "--vm-save=main", "--vm-report=r.json", "-k", "not vdi")
    before = places(six)
    result = six.run("--vm-host=lab02,lab01", "--vm-baseline=main", "--vm-report=r.json")
    now = places(six)
    assert {name: now[name] for name in before} == before
    assert Counter(now.values()) == {"lab01": 3, "lab02": 3}
    assert "4 tests stay on the host of before" in flat(result)
    assert "the host was" not in flat(result)


def test_a_further_day_is_of_the_same_host(six, divided):
    """What --vm-save adds to is a baseline too; a run that was not saved binds nobody."""
    divided.assert_outcomes(passed=6)
    first = places(six)
    six.run("--vm-host=lab01")
    result = six.run("--vm-host=lab02,lab01", "--vm-save=main", "--vm-report=r.json")
    assert places(six) == first
    assert "6 tests stay on the host of before" in flat(result)


def test_hosts_of_two_machines_are_not_compared(six):
    """A figure of another host says nothing about a change."""
    six.run("--vm-host=lab01", "--vm-save=main")
    result = six.run("--vm-host=lab02", "--vm-baseline=main")
    result.assert_outcomes(skipped=6)
    assert "the host was lab01 and is lab02 now" in flat(result)


def test_more_workers_than_hosts(six):
    """The surplus says so and idles; this machine alone is one host, whatever -n is."""
    six.write(test_plain="import pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_it(n): pass\n")
    result = six.run("-n4", TWO)
    result.assert_outcomes(passed=14)
    assert "4 workers for 2 hosts: 2 take tests without a cell only, for one measurement at a time" in flat(result)
    assert opened(six) == {"lab01": 1, "lab02": 1}
    alone = six.run("-n2", "test_it.py", "--vm-report=r.json", "--vm-details")
    alone.assert_outcomes(passed=6)
    assert "2 workers for this machine alone: 1 idles, for one measurement at a time runs on a host" in flat(alone)
    assert len({line.partition(" ")[0] for line in six.log()}) == 1
    assert "rounds: in turns with 5 other cells" in flat(alone)


@pytest.mark.parametrize("spread", ["shard", "each"])
def test_fewer_workers_than_hosts(six, spread):
    """The hosts without one get no cells, which is said."""
    result = six.run("-n1", TWO, f"--vm-spread={spread}", "--vm-report=r.json")
    result.assert_outcomes(passed=6)
    assert set(places(six).values()) == {"lab01"}
    assert "1 worker for 2 hosts: lab02 gets no cells (-n 2 has one for each)" in flat(result)


def test_a_run_without_cells_is_xdists_own(project):
    """And nothing is said of hosts."""
    project.write(test_plain="import pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_it(n): pass\n")
    result = project.run("-n2", own_process=True)
    result.assert_outcomes(passed=8)
    assert "vmstorage:" not in text_of(result)


@pytest.mark.parametrize("by", ["loadfile", "loadscope", "load", "worksteal"])
def test_more_workers_than_files_of_a_run_without_cells(project, by):
    """xdist lets go those for which it has nothing, and is not asked for them again."""
    project.write(test_plain="def test_it(): pass\n")
    project.run("-n3", f"--dist={by}", own_process=True).assert_outcomes(passed=1)


def test_tests_without_a_cell_are_run_once(six):
    """By whichever worker has the least to do, also where every cell is run on every host."""
    six.write(test_plain="import pytest\n@pytest.mark.parametrize('n', range(30))\ndef test_it(n): pass\n")
    six.run(TWO, "--vm-spread=each").assert_outcomes(passed=42)


@pytest.mark.parametrize("turns", [(), ("--vm-without=turns",)], ids=["turns", "row"])
def test_a_worker_that_is_killed(six, turns):
    """Its test is reported once and not run again; the others are run on its host by the one that replaces it."""
    six.wish(kills="qcow2-none-*")
    result = six.run(TWO, "--vm-save=main", "--vm-report=r.json", *turns)
    result.assert_outcomes(passed=5, failed=1)
    text = flat(result)
    assert text.count("crashed while running 'test_it.py::test_write[qcow2-none]'") >= 1
    assert sum(event.startswith("killed") for event in six.events) == 1
    assert sorted(places(six)) == ["qcow2-writeback", "raw-none", "raw-writeback", "vdi-none", "vdi-writeback"]
    assert Counter(places(six).values()) in ({"lab01": 3, "lab02": 2}, {"lab01": 2, "lab02": 3})
    (failure,) = run_of(six)["failures"]
    assert failure["nodeid"] == "test_it.py::test_write[qcow2-none]"
    assert failure["reason"].startswith("the process that measured it died: worker 'gw")
    (saved,) = six.path.glob(".benchmarks/*/*_main.json")
    assert len(json.loads(saved.read_text())["benchmarks"]) == 5


def test_rounds_before_a_worker_died_are_kept(six):
    """Where none replaces it, they are in the report, and the row says so."""
    six.write(
        test_it=RANDOM_WRITE
        + """
@pytest.mark.parametrize("format", ["raw", "qcow2", "vdi"])
def test_write(measure):
    measure(FIO)
"""
    )
    # behind a warm-up and the first round
    six.wish(kills="vdi-* round 3")
    options = ("--max-worker-restart=0", "--vm-seed=1", "--vm-report=r.json")
    result = six.run("--vm-host=lab01", "-n1", *options)
    result.assert_outcomes(failed=1)
    rows = run_of(six)["measurements"]
    assert {row["nodeid"].partition("[")[2] for row in rows} == {"raw]", "qcow2]"}
    assert {len(row["samples"]) for row in rows} <= {1, 2}
    assert all(row["hygiene"]["rounds"].endswith(", interrupted") for row in rows)
    assert [host["name"] for host in run_of(six)["hosts"]] == ["lab01"]


def test_a_worker_that_always_dies_ends(six):
    """Each of its tests is reported once."""
    six.wish(kills="*")
    result = six.run("--vm-host=lab01,lab02", "-k", "raw")
    result.assert_outcomes(failed=2)
    assert sum(event.startswith("killed") for event in six.events) == 2


def test_all_samples_lie_in_one_journal(six, divided):
    """A line each, with its host, as soon as its round ended."""
    divided.assert_outcomes(passed=6)
    (journal,) = (six.path / ".vmstorage").glob("*.jsonl")
    assert Counter(line["host"] for line in journal_samples(journal)) == {"lab01": 9, "lab02": 9}


def test_one_saved_file_that_pytest_benchmark_compares(six, divided):
    """All workers' rows are in it, with their raw rounds."""
    divided.assert_outcomes(passed=6)
    six.run(TWO, "--benchmark-save=main").assert_outcomes(passed=6)
    command = [sys.executable, "-m", "pytest_benchmark", "compare", "--columns=min,ops"]
    done = subprocess.run(command, cwd=six.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test_write[qcow2-none]") == 2


def test_a_job_waits_for_a_host_in_use(six, tmp_path):
    """It fails in a sentence that names the holder where it may not wait; cells of the other host are measured."""
    folder = tmp_path / "leases"
    six.wish(leases=str(folder))
    holder = hold(folder / "lab02")
    try:
        result = six.run(TWO, "--vm-wait=0")
        result.assert_outcomes(passed=3, errors=3)
        assert f"lab02 is in use by {os.environ.get('USER', 'root')}@" in flat(result)
        assert "(pid " in flat(result)
        one = six.run("--vm-host=lab02", "--vm-wait=300ms")
        assert_refused(one, "lab02 is after 0.3 s still in use by ")
        assert "One job at a time measures on a host: name another one, or give --vm-wait more time." in flat(one)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    six.run("--vm-host=lab02", "--vm-wait=60s").assert_outcomes(passed=6)


HOLD = """
import sys, time
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.host.lock import HostLease
HostLease(LocalShell(), "lab02", folders=sys.argv[1:]).keep()
print("held", flush=True)
time.sleep(60)
"""


def hold(folder):
    """Another job that measures on that host."""
    folder.mkdir(parents=True)
    job = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert job.stdout.readline() == "held\n"
    job.stdout.close()
    return job


def test_pairs_on_hosts_of_their_own(six):
    """--vm-against works in every worker; the risk of a false alarm is shared among hosts."""
    six.wish(noise=0.01, speed={"raw-none-virtio-blk-off": 0.5})
    result = six.run(TWO, "--vm-against=io=native", "-k", "none", "--vm-report=r.json")
    result.assert_outcomes(passed=2, failed=1)
    assert Counter(one["host"] for one in run_of(six)["against"]) == {"lab01": 2, "lab02": 1}
    assert "test_write[raw-none]" in next(line for line in result.outlines if line.startswith("FAILED"))
    assert "1 figure slower: measured again in fresh guests" in flat(result)


def test_a_suspect_is_confirmed_on_its_host(six):
    """--vm-confirm works in every worker."""
    six.run(TWO, "--vm-save=main", "--vm-rounds=6")
    six.wish(speed={"raw-none-*": 0.5})
    options = ("--vm-baseline=main", "--vm-day-spread=2%", "--vm-confirm", "--vm-report=r.json")
    result = six.run(TWO, *options)
    result.assert_outcomes(passed=5, failed=1)
    fresh = {one["nodeid"].partition("[")[2]: one["fresh"] for one in run_of(six)["measurements"]}
    assert {name for name, count in fresh.items() if count} == {"raw-none]"}


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--vm-against=io=threads", "--vm-against=io=threads changes nothing in raw-none-virtio-blk-off, which would"),
        ("--vm-baseline=other", "the baseline 'other' has none of the selected tests, so nothing can be compared;"),
    ],
)
def test_what_workers_find_ends_the_run_before_any_test(six, option, sentence):
    """As a usage error, in the sentence that it has in one process."""
    six.write(test_other=CELLS)
    six.run("test_other.py", "--vm-save=other", "-k", "raw-none")
    six.log()
    assert_refused(six.run(TWO, "test_it.py", option), sentence)
    assert six.events == []


ON_A_DEVICE = (
    RANDOM_WRITE
    + """
@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.storage(backing="device")
def test_it(measure): measure(FIO)
"""
)


def test_a_cell_goes_to_a_host_that_lists_its_device(project):
    """As many as there are; where no host does, the run ends with what to write."""
    listed = '[hosts.lab01]\n[hosts.lab02.devices.fast]\nid = "wwn-0x5002538e40a1b2c3"\n'
    project.write(test_it=ON_A_DEVICE, vmstorage__toml=listed)
    project.wish(unsupported={"*": "A fake host has no devices."})
    project.run("--vm-host=all", "--vm-report=r.json").assert_outcomes(skipped=2)
    run = json.loads((project.path / "r.json").read_text())
    assert [one["host"] for one in run["failures"]] == ["lab02", "lab02"]
    project.log()
    project.write(vmstorage__toml="[hosts.lab01]\n[hosts.lab02]\n")
    refused = project.run("--vm-host=all")
    assert_refused(refused, "backing=device needs a device that is listed for lab01 in ")
    assert project.events == []


def test_the_plan_says_how_hosts_share(six):
    """Without a worker."""
    text = flat(six.run(TWO, "--vm-plan"))
    assert "6 cells, 6 guests, 6 tests" in text
    assert "lab01 3 cells, about 1 min 15 s; lab02 3 cells, about 1 min 15 s" in text
    text = flat(six.run(TWO, "--vm-plan", "--vm-spread=each"))
    assert "12 cells, 12 guests, 12 tests" in text
    assert "lab01 6 cells, about 2 min 30 s; lab02 6 cells, about 2 min 30 s" in text
    assert six.events == []


def test_each_host_has_the_time_of_the_budget(six):
    """Twice as many cells fit."""
    assert "1 of 6 cells fit into 30 s, taking about 25 s;" in flat(six.run("--vm-budget=30s", "--vm-plan"))
    text = flat(six.run(TWO, "--vm-budget=30s"))
    assert "2 of 6 cells fit into 30 s on 2 hosts, taking about 25 s each;" in text
    assert "lab01 1 cell, about 25 s; lab02 1 cell, about 25 s" in text


SLIPS = {
    ("--vm-host=lab01,",): "--vm-host=lab01, has an empty name.",
    ("--vm-host=lab01,lab01",): "--vm-host=lab01,lab01 has lab01 twice. Take one of them away.",
    ("--vm-host=tag:nvme",): "tag:nvme needs a list of hosts, and there is no vmstorage.toml.",
    ("--vm-host=tag:nvme", "-nauto"): "tag:nvme needs a list of hosts, and there is no vmstorage.toml.",
    (TWO, "-n0"): "--vm-host=lab01,lab02 is 2 hosts, and each is measured on by a process of its own: leave out",
    (TWO, "--pdb"): "each is measured on by a process of its own, which --pdb cannot debug: name one host.",
    (TWO, "-p", "no:xdist"): "each is measured on by a process of its own: leave out -p no:xdist, or name one host.",
    ("--vm-spread=all",): "--vm-spread=all is not known. It is shard or each.",
    ("--vm-wait=soon",): "'soon' is not a duration.",
}


@pytest.mark.parametrize("options", SLIPS, ids=" ".join)
def test_what_cannot_be_is_told_before_anything_is_made(six, options):
    """One sentence."""
    assert_refused(six.run(*options), SLIPS[options])
    assert six.events == []
