"""Rounds in turns: taken cell by cell before a test sees any, and reported with all of them."""

from __future__ import annotations

import json

import pytest
from projects import RANDOM_WRITE, flat, text_of

from pytest_vmstorage.lab.lab import Lab

TURNS = (
    RANDOM_WRITE
    + """
@pytest.mark.parametrize("format", ["raw", "qcow2", "vdi"])
def test_write(measure):
    print("in the test")
    assert measure(FIO).iops > 500
"""
)
SEED = "--vm-seed=3"


def samples(project, name="r.json"):
    """Each measurement's rounds by the test's parameters."""
    run = json.loads((project.path / name).read_text())
    return {one["nodeid"].partition("[")[2].rstrip("]"): one["samples"] for one in run["measurements"]}


def turns(project):
    """In which order cells had their rounds."""
    taken = [(sample["order"], cell) for cell, rows in samples(project).items() for sample in rows]
    return [cell for _order, cell in sorted(taken)]


def test_rounds_are_taken_in_turns(project):
    """Each pass has every cell once, in an order of its own; a guest is made once and waits between its rounds."""
    project.write(test_it=TURNS)
    result = project.run(SEED, "--vm-report=r.json", "-v")
    result.assert_outcomes(passed=3)
    order = turns(project)
    assert [sorted(order[n : n + 3]) for n in (0, 3, 6)] == [["qcow2", "raw", "vdi"]] * 3
    assert len({tuple(order[n : n + 3]) for n in (0, 3, 6)}) > 1
    events = project.events
    assert sum(event.startswith("guest ") for event in events) == 3
    assert sum(event.startswith("resume ") for event in events) >= 4
    assert "rounds: in turns with 2 other cells, --vm-seed=3" in flat(result)
    assert text_of(result).count("::test_write[") == 3


def test_the_seed_decides_the_order(project):
    """The same one gives the same order, another one another; without one each run has its own, and says which."""
    project.write(test_it=TURNS)
    orders = []
    for seed in ("3", "3", "4"):
        project.run(f"--vm-seed={seed}", "--vm-report=r.json", "--vm-rounds=4").assert_outcomes(passed=3)
        orders.append(turns(project))
    assert orders[0] == orders[1] != orders[2]
    assert flat(project.run("--vm-details")).count("--vm-seed=") == 1


def test_a_test_prints_once(project):
    """What it printed while its workload was learned is nobody's to read."""
    project.write(
        test_it=TURNS.replace('print("in the test")', 'print("in the test")')
        + "    assert measure(FIO).values('iops').__len__() == 3\n    assert 0\n"
    )
    result = project.run()
    result.assert_outcomes(failed=3)
    assert text_of(result).count("in the test\n") == 3


def test_one_round_or_one_cell_takes_no_turns(project):
    """There is nobody to take turns with."""
    project.write(test_it=TURNS)
    for args in (["--vm-rounds=1"], ["-k", "raw"]):
        result = project.run(*args, "--vm-details")
        assert "in turns" not in text_of(result)
        assert "rounds: in a row" in flat(result)


def test_turns_can_be_left_out(project):
    """By the name that a mismatch between runs of a test hints at."""
    project.write(test_it=TURNS)
    result = project.run("--vm-without=turns", "--vm-details")
    result.assert_outcomes(passed=3)
    assert "vmstorage: round" not in text_of(result)
    assert "rounds: in a row" in flat(result)


def test_guests_that_have_all_their_rounds_go(project):
    """Here after one each: none waits for a turn that will not come."""
    project.write(test_it=TURNS.replace("measure(FIO)", "measure(FIO, rounds=1)"))
    project.run(SEED).assert_outcomes(passed=3)
    assert not [event for event in project.events if event.startswith("pause ")]


def test_a_debugger_gets_each_test_once(project):
    """With --pdb rounds are taken in a row: nobody wants to be asked in a run that is not reported."""
    project.write(test_it=TURNS)
    assert "rounds: in a row" in flat(project.run("--pdb", "--vm-details"))


def test_a_guest_asked_for_by_name_is_there_in_every_entry(project):
    """With its own fixtures, which are set up for the first round and for the report; the guest waits meanwhile."""
    project.write(
        test_it=TURNS.replace("measure):", "guest, measure, prepared):")
        + "\n@pytest.fixture\ndef prepared(guest):\n    open('prepared', 'a').write(f'{guest.config.format}\\n')\n"
    )
    project.run(SEED, own_process=True).assert_outcomes(passed=3)
    assert sum(event.startswith("guest ") for event in project.events) == 3
    assert sorted((project.path / "prepared").read_text().split()) == ["qcow2"] * 2 + ["raw"] * 2 + ["vdi"] * 2


def test_fixtures_of_modules_and_sessions_live_through_all_passes(project):
    """A session's is set up once; a test's to learn what it measures, and for its report."""
    project.write(
        test_it=TURNS.replace("measure):", "measure, whole, mine):")
        + "\n@pytest.fixture(scope='session')\ndef whole():\n    open('s', 'a').write('x')\n    yield\n"
        "    open('s', 'a').write('y')\n"
        "@pytest.fixture\ndef mine():\n    open('f', 'a').write('x')\n    yield\n    open('f', 'a').write('y')\n"
    )
    project.run(own_process=True).assert_outcomes(passed=3)
    assert (project.path / "s").read_text() == "xy"
    assert (project.path / "f").read_text() == "xy" * 6


def test_without_memory_guests_are_made_anew(project):
    """No guest waits where there is no room for a second one; its rounds say which guest they are from."""
    project.wish(memory_bytes=0)
    project.write(test_it=TURNS)
    project.run(SEED, "--vm-report=r.json").assert_outcomes(passed=3)
    events = project.events
    assert sum(event.startswith("guest ") for event in events) > 6
    assert sum(event.startswith("guest ") for event in events) == sum(event.startswith("discard ") for event in events)


def test_a_round_that_fails_fails_its_test_alone(project):
    """It is not tried again; the other cells get all their rounds."""
    project.wish(write_through="qcow2-*")
    project.write(test_it=TURNS)
    result = project.run("--vm-report=r.json", "-rf")
    result.assert_outcomes(passed=2, failed=1)
    assert "INVALID: after the last round cache is write through" in flat(result)
    assert {cell: len(rows) for cell, rows in samples(project).items()} == {"raw": 3, "vdi": 3}


def test_x_ends_at_the_first_failure(project):
    """Without waiting for the rounds of all other cells."""
    project.wish(write_through="vdi-*")
    project.write(test_it=TURNS)
    result = project.run("-x", "--vm-rounds=50")
    assert "stopping after 1 failures" in text_of(result)
    assert "vdi" in text_of(result)
    assert text_of(result).count("vmstorage: round ") == 1


def test_a_test_must_measure_what_it_said(project):
    """One sentence that says what to do."""
    project.write(
        test_it=TURNS.replace("measure(FIO)", "measure(next(JOBS))")
        + "\nJOBS = iter([Fio(rw='randwrite', bs='4k', size='1M', runtime=n) for n in range(1, 99)])\n"
    )
    result = project.run(SEED)
    result.assert_outcomes(failed=3)
    assert "must measure the same each time" in flat(result)
    assert "--vm-without=turns" in flat(result)


def test_two_measurements_in_a_test(project):
    """Each gets its rounds in turns; an assertion between them sees all rounds of the first."""
    project.write(
        test_it=TURNS.replace("assert measure(FIO).iops > 500", "assert len(measure(FIO).samples) == 3")
        + "    measure(Dd(rw='write', bs='1M', count=64))\n",
    )
    result = project.run("--vm-report=r.json", "--vm-report=r.csv", SEED)
    result.assert_outcomes(passed=3)
    run = json.loads((project.path / "r.json").read_text())
    assert [len(one["samples"]) for one in run["measurements"]] == [3] * 6
    assert {one["hygiene"]["rounds"] for one in run["measurements"]} == {"in turns with 2 other cells, --vm-seed=3"}


def test_rounds_of_its_own(project):
    """measure(rounds=5) gets five, in turns as far as others are there."""
    project.write(test_it=TURNS.replace("measure(FIO)", "measure(FIO, rounds=5)"))
    project.run(SEED, "--vm-report=r.json").assert_outcomes(passed=3)
    assert {len(rows) for rows in samples(project).values()} == {5}
    assert len(turns(project)) == 15


def test_auto_goes_on_until_figures_are_narrow_enough(project):
    """The fake's rounds are within 1 %, so six suffice; the report says so."""
    project.write(test_it=TURNS)
    result = project.run("--vm-rounds=auto", "--vm-report=r.json", "--vm-details")
    result.assert_outcomes(passed=3)
    assert {len(rows) for rows in samples(project).values()} == {6}
    assert "3 figures narrow enough after 6 rounds: 95 % interval within 1.0% of the median" in flat(result)


@pytest.mark.parametrize("cells", [["-k", "raw"], []])
def test_auto_ends_at_its_time_limit(project, cells):
    """In turns or in a row, with the interval that was reached."""
    project.write(test_it=TURNS)
    result = project.run("--vm-rounds=auto", "--vm-precision=0.01%", "--vm-rounds-limit=1ms", "--vm-details", *cells)
    assert "time limit after 1 rounds, no 95 % interval" in flat(result)


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--vm-rounds=some", "--vm-rounds=some is not a number of rounds. Write 1 or more, or auto."),
        ("--vm-precision=x", "'x' is not a percentage."),
        ("--vm-rounds-limit=0", "--vm-rounds-limit=0 leaves no time to measure."),
        ("--vm-seed=x", "--vm-seed=x is not a number."),
    ],
)
def test_options_are_checked_before_anything_is_made(project, option, sentence):
    """One sentence and no lab."""
    project.write(test_it=TURNS)
    result = project.run(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert sentence in flat(result)
    assert project.events == []


def test_turns_under_xdist(project):
    """A worker is given all of its host's cells at once."""
    project.write(test_it=TURNS)
    result = project.run("-n1", SEED, "--vm-details")
    result.assert_outcomes(passed=3)
    assert "rounds: in turns with 2 other cells, --vm-seed=3" in flat(result)


def test_the_plan_counts_all_disks_that_wait(project):
    """Guests that wait keep their disks."""
    project.write(test_it="import pytest\npytestmark = pytest.mark.storage(size='1G')\n" + TURNS)
    assert "disk space at most 3 GiB" in flat(project.run("--vm-plan"))
    assert "disk space at most 2 GiB" in flat(project.run("--vm-plan", "--vm-rounds=1"))


@pytest.mark.parametrize("option", ["--vm-rounds=1", "--vm-rounds=2"])
def test_the_lab_is_told_which_cells_begin_with_the_test_at_hand(project, option, monkeypatch):
    """In turns and in a row: their disks may be filled beside that of the cell at hand."""
    expect, told = Lab.expect, []

    def note(lab, upcoming, alike=()):
        told.append({*upcoming[1:]} & {*alike} - {*upcoming[:1]})
        expect(lab, upcoming, alike)

    monkeypatch.setattr(Lab, "expect", note)
    project.write(test_it=TURNS)
    project.run(SEED, option).assert_outcomes(passed=3)
    assert max(map(len, told)) == 2
