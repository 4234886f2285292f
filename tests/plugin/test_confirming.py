"""Saved days and fresh rounds: what --vm-save writes, and what --vm-confirm makes of a suspect."""

from __future__ import annotations

import json

import pytest
from projects import QCOW2, RANDOM_WRITE, TWO_CELLS, assert_refused, flat, text_of

from pytest_vmstorage.results.packed import unpacked

JUDGED = ("--vm-baseline=main", "--vm-day-spread=3%")
CONFIRMED = (*JUDGED, "--vm-confirm")


@pytest.fixture
def saved(two_cells):
    """A project whose two cells were saved at 10000 IOPS."""
    two_cells.begin_with("--vm-save=main")
    two_cells.log()
    return two_cells


def measurements(project, name="r.json"):
    """What the report has of each test, by its parameter."""
    run = json.loads((project.path / name).read_text())
    return {one["nodeid"].partition("[")[2].rstrip("]"): one for one in run["measurements"]}


def plain_saved(path):
    """A saved file with nothing packed, as earlier versions wrote it."""
    saved = json.loads(path.read_text())
    return {**saved, "vmstorage": unpacked(saved["vmstorage"])}


def guests(project):
    """How often a guest of each cell was made since the last look."""
    cells = [event.partition(" ")[2] for event in project.events if event.startswith("guest ")]
    return {cell.partition("-")[0]: cells.count(cell) for cell in cells}


def test_saving_writes_pytest_benchmarks_file(two_cells):
    """With its rows and all of ours; what the ini file says counts as well."""
    two_cells.run("--vm-save=main").assert_outcomes(passed=2)
    (path,) = two_cells.path.glob(".benchmarks/*/0001_main.json")
    saved = json.loads(path.read_text())
    assert sorted(row["fullname"] for row in saved["benchmarks"]) == [QCOW2, QCOW2.replace("qcow2", "raw")]
    assert [len(one["samples"]) for one in unpacked(saved["vmstorage"])["measurements"]] == [3, 3]
    two_cells.write(pytest__ini="[pytest]\nvm_save = nightly\n")
    two_cells.run("-k", "raw").assert_outcomes(passed=1)
    assert len(list(two_cells.path.glob(".benchmarks/*/0002_nightly.json"))) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--vm-save=a", "--benchmark-save=b"], "--vm-save=a and --benchmark-save=b name one file. Give one of them."),
        (["--vm-save=a/b"], "--vm-save=a/b cannot be the name of a file. Write letters, digits, '-', '_' and '.'."),
        (["--vm-save=a", "-p", "no:benchmark"], "--vm-save needs pytest-benchmark, which is switched off here."),
        (["--vm-confirm"], "--vm-confirm without a baseline has no suspects. Add --vm-baseline=NAME."),
        (["--vm-confirm", "-n2"], "--vm-confirm without a baseline has no suspects."),
        ([*CONFIRMED, "--pdb"], "and there are none with --pdb. Leave one of the two out."),
        ([*CONFIRMED, "--vm-without=warmup,turns"], "and there are none with --vm-without=turns."),
        ([*JUDGED, "--vm-inconclusive=maybe"], "--vm-inconclusive=maybe is not known. It is fail, suspect or warn."),
        ([*JUDGED, "--vm-missing=x"], "--vm-missing=x is not known. It is fail or warn."),
        ([*JUDGED, "--vm-max-regression=0%"], "--vm-max-regression: '0%' is not a percentage."),
        ([*JUDGED, "--vm-day-spread=x"], "'x' is not a percentage."),
        ([*JUDGED, "--vm-gate=none.toml"], "--vm-gate=none.toml cannot be read: No such file or directory."),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(saved, options, sentence):
    """One sentence, and no lab is opened."""
    assert_refused(saved.run(*options), sentence)
    assert saved.events == []


def test_a_baseline_without_any_of_the_tests_is_refused(saved):
    """All would be inconclusive, and the run green without a decision."""
    saved.write(test_two="", test_other=TWO_CELLS)
    result = saved.run(*JUDGED)
    assert_refused(result, "the baseline 'main' has none of the selected tests, so nothing can be compared")
    assert "it has for example test_two.py::test_random_write[qcow2]" in flat(result)
    assert saved.events == []


def test_unchanged_cells_pass(saved):
    """Without a fresh round, and the exit status is 0."""
    result = saved.run(*CONFIRMED, "--vm-report=r.json")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK
    assert "2 PASS" in text_of(result)
    assert {name: len(one["samples"]) for name, one in measurements(saved).items()} == {"raw": 3, "qcow2": 3}


def test_a_suspect_gets_fresh_rounds_in_guests_of_their_own(saved):
    """Six of them, none in a guest that it had before; the cell that is no suspect gets none."""
    saved.wish(speed={"qcow2-*": 0.7})
    result = saved.run(*CONFIRMED, "--vm-report=r.json")
    result.assert_outcomes(passed=1, failed=1)
    assert "vmstorage: 1 figure slower: measured again in fresh guests" in text_of(result)
    assert guests(saved) == {"raw": 1, "qcow2": 1 + 6}
    found = measurements(saved)
    assert {name: len(one["samples"]) for name, one in found.items()} == {"raw": 3, "qcow2": 3 + 6}
    assert found["qcow2"]["fresh"] == 6
    boots = [sample["boot"] for sample in found["qcow2"]["samples"]]
    assert len(set(boots[3:])) == 6
    assert not set(boots[:3]) & set(boots[3:])


def test_fresh_guests_also_where_tests_ask_for_the_guest(saved):
    """Whose guest waits for the run that is reported."""
    saved.write(test_two=TWO_CELLS.replace("(measure)", "(guest, measure)"))
    saved.wish(speed={"qcow2-*": 0.7})
    saved.run(*CONFIRMED, "--vm-report=r.json").assert_outcomes(passed=1, failed=1)
    boots = [sample["boot"] for sample in measurements(saved)["qcow2"]["samples"]]
    assert len(set(boots[3:])) == 6
    assert not set(boots[:3]) & set(boots[3:])


def test_one_round_of_one_cell_is_confirmed_too(saved):
    """Nobody to take turns with at first, and no reason to leave the suspect one."""
    saved.wish(speed=0.7)
    result = saved.run(*CONFIRMED, "-k", "qcow2", "--vm-rounds=1", "--vm-report=r.json")
    result.assert_outcomes(failed=1, deselected=1)
    assert len(measurements(saved)["qcow2"]["samples"]) == 1 + 6


def test_each_measurement_of_a_test_is_judged(project):
    """The one that got slower makes the test fail, and it alone gets fresh rounds."""
    project.write(test_two=TWO_CELLS + "    measure(Dd(rw='write', bs='1M', count=64))\n")
    project.run("--vm-save=main").assert_outcomes(passed=2)
    (path,) = project.path.glob(".benchmarks/*/0001_main.json")
    saved = plain_saved(path)
    for one in saved["vmstorage"]["measurements"]:
        for sample in one["samples"] if one["tool"] == "dd" and "raw" in one["nodeid"] else ():
            sample["figures"] = {name: value * 2 for name, value in sample["figures"].items()}
    path.write_text(json.dumps(saved))
    result = project.run(*CONFIRMED, "--vm-report=r.json")
    result.assert_outcomes(passed=1, failed=1)
    assert (
        "of dd write 1M buffered count=64 on raw-none-virtio-blk-off 1G is REGRESSED against baseline 'main'"
        in flat(result)
    )
    assert "among 4 cells" in flat(result)
    run = json.loads((project.path / "r.json").read_text())
    assert sorted((one["tool"], len(one["samples"])) for one in run["measurements"]) == [
        ("dd", 3),
        ("dd", 9),
        ("fio", 3),
        ("fio", 3),
    ]


def test_images_beside_it_do_not_change_what_was_decided(project):
    """A suspect was confirmed among all cells; what takes no turns is judged by itself."""
    both = TWO_CELLS.replace("(measure)", "(measure, measure_image)").replace('"qcow2"]', '"qcow2", "vdi"]')
    project.write(test_two=both + "    measure_image(ImageOperations(data='16M'))\nfrom pytest_vmstorage import *\n")
    project.run("--vm-save=main").assert_outcomes(passed=3)
    project.wish(speed={"qcow2-*": 0.7})
    result = project.run(*CONFIRMED)
    result.assert_outcomes(passed=2, failed=1)
    assert "among 3 cells" in flat(result)
    assert "1 REGRESSED, 5 PASS" in text_of(result)


def test_a_guest_that_cannot_be_made_anew_fails_its_test(saved):
    """Its first rounds made it a suspect; it is not asked for rounds without end."""
    saved.wish(speed={"qcow2-*": 0.7}, boots={"qcow2-*": 3})
    result = saved.run(*CONFIRMED)
    result.assert_outcomes(passed=1, errors=1)
    assert "The guest of qcow2-none-virtio-blk-off did not answer within" in flat(result)
    assert text_of(result).count("vmstorage: round ") == 3 + 3


def test_x_ends_at_the_first_that_regressed(saved):
    """The cell after it is not reported, and what was measured of it is kept."""
    saved.wish(speed=0.7)
    result = saved.run(*CONFIRMED, "-x", "--vm-report=r.json")
    result.assert_outcomes(failed=1)
    assert "stopping after 1 failures" in text_of(result)
    assert {name: len(one["samples"]) for name, one in measurements(saved).items()} == {"raw": 9, "qcow2": 9}


def test_ctrl_c_in_fresh_rounds_keeps_what_was_measured(saved):
    """With warm-ups it is in its fourteenth round then: 3 of each cell, and 2 fresh ones, have ended."""
    saved.wish(speed=0.7, interrupts=14)
    result = saved.run(*CONFIRMED, "--vm-report=r.json", own_process=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in text_of(result)
    assert sum(len(one["samples"]) for one in measurements(saved).values()) == 6 + 2
    assert saved.events[-1] == "close"


def test_pytest_benchmarks_own_rules_work_beside_it(saved):
    """On our files, with the verdicts unchanged."""
    saved.wish(speed={"qcow2-*": 0.8})
    rule = ("--benchmark-compare=0001", "--benchmark-compare-fail=mean:10%")
    result = saved.run("--vm-baseline=main", *rule, own_process=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "1 SUSPECT, 1 INCONCLUSIVE" in text_of(result)
    assert "test_random_write[qcow2] (0001_main) - Field 'mean' has failed PercentageRegressionCheck" in flat(result)


def test_a_second_day_under_the_same_name_counts(saved):
    """Days of other dates: five of them need no word of the user's."""
    (path,) = saved.path.glob(".benchmarks/*/0001_main.json")
    for day, factor in enumerate((1.01, 0.99, 1.0, 1.02), 2):
        text = plain_saved(path)
        text["datetime"] = text["vmstorage"]["started"] = f"2030-01-0{day}T00:00:00+00:00"
        for one in text["vmstorage"]["measurements"]:
            for sample in one["samples"]:
                sample["figures"]["iops"] *= factor
        path.with_name(f"000{day}_main.json").write_text(json.dumps(text))
    saved.wish(speed={"qcow2-*": 0.7})
    result = saved.run("--vm-baseline=main", "--vm-confirm")
    result.assert_outcomes(passed=1, failed=1)
    assert "5 saved days, +4" in flat(result)
    result = saved.run("--vm-baseline=main", "--vm-max-regression=history", "-rs")
    result.assert_outcomes(passed=1, failed=1)


WAIVED = """
[[waivers]]
cell = "test_two.py::*[qcow2]"
reason = "QEMU issue 1234"
owner = "jane@example.org"
expires = {expires}
"""


def test_a_waiver_holds_until_its_day(saved):
    """Until then what regressed is an expected failure with reason and owner; after it the test fails."""
    saved.write(**{"vmstorage-gate__toml": WAIVED.format(expires="2999-12-31")})
    saved.wish(speed={"qcow2-*": 0.7})
    result = saved.run(*CONFIRMED, "-rx")
    result.assert_outcomes(passed=1, xfailed=1)
    assert result.ret == pytest.ExitCode.OK
    assert "1 saved day" in flat(result)
    assert "waived by jane@example.org until 2999-12-31: QEMU issue 1234" in flat(result)
    assert "1 waived, 1 PASS" in text_of(result)
    saved.write(**{"vmstorage-gate__toml": WAIVED.format(expires="2020-12-31")})
    saved.wish()
    result = saved.run(*CONFIRMED)
    result.assert_outcomes(passed=1, failed=1)
    sentence = "The waiver of test_two.py::*[qcow2] by jane@example.org expired on 2020-12-31 (QEMU issue 1234)."
    assert sentence in flat(result)
    saved.run().assert_outcomes(passed=2)


def test_a_tolerated_loss_of_a_test_and_of_a_cell(saved):
    """The mark beats the option, and the file beats the mark."""
    mark = "@pytest.mark.tolerated_loss({})\n@pytest.mark.parametrize"
    saved.wish(speed=0.7)
    for given in ('"200%"', 'percent="200%"'):
        saved.write(test_two=TWO_CELLS.replace("@pytest.mark.parametrize", mark.format(given)))
        saved.run(*CONFIRMED).assert_outcomes(passed=2)
    rule = '[[cells]]\ncell = "*[[]raw]"\ntolerated = "10%"\n'.replace("[[]raw]", "[raw]")
    saved.write(**{"vmstorage-gate__toml": rule})
    result = saved.run(*CONFIRMED)
    result.assert_outcomes(passed=1, failed=1)
    assert "on raw-none-virtio-blk-off 1G is REGRESSED against baseline 'main'" in flat(result)


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        ('"x"', "test_two.py::test_random_write[raw]: the mark tolerated_loss: 'x' is not a percentage."),
        ("", "test_two.py::test_random_write[raw]: the mark tolerated_loss: '' is not a percentage."),
        ('percnt="5%"', "the mark tolerated_loss takes no 'percnt'. Did you mean 'percent'? Write"),
        ('"5%", "6%"', 'the mark tolerated_loss takes one percentage. Write @pytest.mark.tolerated_loss("5%").'),
        ('"0%"', "the mark tolerated_loss: '0%' is not a percentage."),
    ],
)
def test_a_mark_that_says_nothing_is_refused(saved, mark, sentence):
    """Before anything is made, with the test that has it."""
    marked = f"@pytest.mark.tolerated_loss({mark})\n@pytest.mark.parametrize"
    saved.write(test_two=TWO_CELLS.replace("@pytest.mark.parametrize", marked))
    assert_refused(saved.run(*JUDGED), sentence)
    assert saved.events == []


def test_a_gate_file_with_a_slip_is_refused(saved):
    """With the file and the key, also where nothing is judged."""
    saved.write(**{"vmstorage-gate__toml": '[[waivers]]\ncell = "*"\nreason = "x"\nowner = "y"\n'})
    for options in (JUDGED, ()):
        assert_refused(saved.run(*options), "vmstorage-gate.toml, [[waivers]] 1: expires is missing.")
    assert saved.events == []


def test_a_threshold_of_the_tests_own_comes_first(saved):
    """Its own assertion failed: that is what is reported, with the verdict in the matrix."""
    saved.write(test_two=RANDOM_WRITE + TWO_CELLS.partition("FIO = ")[2].partition("\n")[2].replace("> 500", "> 20000"))
    saved.wish(speed={"qcow2-*": 0.7})
    result = saved.run(*CONFIRMED)
    result.assert_outcomes(failed=2)
    assert "iops 6930 IOPS > 20k IOPS" in text_of(result)
    assert "1 REGRESSED, 1 PASS" in text_of(result)
