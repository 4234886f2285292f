"""--vm-against: each cell in pairs with what a recipe makes of it, both in guests of their own, in turns."""

from __future__ import annotations

import json

import pytest
from projects import RANDOM_WRITE, TWO_CELLS, assert_refused, flat, journal_samples, text_of

from pytest_vmstorage.results.packed import unpacked

AGAINST = "--vm-against=cache=writeback"
SEED = "--vm-seed=3"


def report(project, name="r.json"):
    """The run as it was saved."""
    return json.loads((project.path / name).read_text())


def sides(project):
    """Of each test, by its parameter, the rounds of both sides."""
    run = report(project)
    own, other = (
        {one["nodeid"].partition("[")[2].rstrip("]"): one["samples"] for one in run[side]}
        for side in ("measurements", "against")
    )
    return {name: (own[name], other.get(name, [])) for name in own}


def guests(project):
    """How often a guest of each cell was made since the last look."""
    cells = [event.partition(" ")[2] for event in project.events if event.startswith("guest ")]
    return {"-".join(cell.split("-")[:2]): cells.count(cell) for cell in cells}


def test_quiet_pairs_pass_at_the_first_look(two_cells):
    """Six of them, each side in a guest of its own, in an order of chance; both sides are saved with the recipe."""
    two_cells.wish()
    result = two_cells.run(AGAINST, SEED, "--vm-report=r.json", "--vm-details")
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.OK
    assert "against the same with cache=writeback: 2 PASS" in flat(result)
    assert "rounds: in pairs with cache=writeback, in turns with 1 other cell, --vm-seed=3" in flat(result)
    assert guests(two_cells) == {"raw-none": 6, "raw-writeback": 6, "qcow2-none": 6, "qcow2-writeback": 6}
    run = report(two_cells)
    assert run["recipe"] == "cache=writeback"
    assert {one["config"]["cache"] for one in run["measurements"]} == {"none"}
    assert {one["config"]["cache"] for one in run["against"]} == {"writeback"}
    both = sides(two_cells)
    assert {name: (len(own), len(other)) for name, (own, other) in both.items()} == {"raw": (6, 6), "qcow2": (6, 6)}
    pairs = [(one["order"], two["order"]) for own, other in both.values() for one, two in zip(own, other, strict=True)]
    # a warm-up has a place in the order too
    assert {abs(one - two) for one, two in pairs} == {2}
    assert {one < two for one, two in pairs} == {True, False}
    boots = [sample["boot"] for own, other in both.values() for sample in (*own, *other)]
    assert len(set(boots)) == 24


def test_slower_cells_are_red_after_fresh_pairs(two_cells):
    """The others pass at the first look, and get no further rounds; JUnit has the failure."""
    two_cells.wish(noise=0.01, speed={"qcow2-none-*": 0.7})
    result = two_cells.run(AGAINST, "--vm-report=r.json", "--junitxml=j.xml")
    result.assert_outcomes(passed=1, failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    sentence = "on qcow2-none-virtio-blk-off 1G is REGRESSED against the same with cache=writeback: 12 pairs, +4"
    assert sentence in flat(result)
    assert "confirmed on fresh pairs with p = 0.00024, and above the tolerated 10 %" in flat(result)
    assert 'failures="1"' in (two_cells.path / "j.xml").read_text()
    assert {name: len(own) for name, (own, _) in sides(two_cells).items()} == {"raw": 6, "qcow2": 6 + 12}


def test_a_sole_cell_takes_its_rounds_in_no_turns(two_cells):
    """The line that announces a round says so: there is no other cell."""
    two_cells.wish()
    said = text_of(two_cells.run(AGAINST, "-k", "raw"))
    assert "vmstorage: round 6, 1 cell, about" in said
    assert "cell in turns" not in said


def test_a_faster_cell_passes_and_is_said_to_be(two_cells):
    """What is gained is no reason to measure on."""
    two_cells.wish(speed={"qcow2-none-*": 1.5})
    result = two_cells.run(AGAINST)
    result.assert_outcomes(passed=2)
    assert "1 IMPROVED, 1 PASS" in text_of(result)


def test_noise_is_inconclusive_with_what_it_would_take(two_cells):
    """After the last look, as a skipped test, or a failed one."""
    for policy, outcome in (("warn", "skipped"), ("fail", "failed")):
        two_cells.wish(noise=0.5)
        result = two_cells.run(AGAINST, SEED, "-k", "raw", "-rs", f"--vm-inconclusive={policy}", "--vm-report=r.json")
        result.assert_outcomes(**{outcome: 1}, deselected=1)
        assert "24 pairs, " in flat(result)
        assert "a loss of 10 % is neither found nor excluded" in flat(result)
        ((own, other),) = sides(two_cells).values()
        assert (len(own), len(other)) == (24, 24)


def test_the_time_limit_is_held_against_between_looks(two_cells):
    """The first look is had; the sentence says what ended it."""
    two_cells.wish(noise=0.3)
    result = two_cells.run(
        AGAINST, SEED, "-k", "raw", "--vm-pairs-limit=1ms", "-rs", "--vm-inconclusive=warn", "--vm-report=r.json"
    )
    result.assert_outcomes(skipped=1, deselected=1)
    ((own, _),) = sides(two_cells).values()
    assert len(own) == 6
    assert "the time for its pairs was over (--vm-pairs-limit)" in flat(result)
    two_cells.wish(noise=0.01, speed={"raw-none-*": 0.5})
    result = two_cells.run(AGAINST, SEED, "-k", "raw", "--vm-pairs-limit=1ms", "-rs", "--vm-inconclusive=warn")
    result.assert_outcomes(skipped=1, deselected=1)
    assert "6 pairs" in flat(result)
    assert "No further pairs: the time limit came before (--vm-pairs-limit)." in flat(result)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--vm-against=cache=none"], "--vm-against=cache=none changes nothing in raw-none-virtio-blk-off"),
        (["--vm-against=cluster_size=64k"], "--vm-against=cluster_size=64k of raw-none-virtio-blk-off:"),
        (["--vm-against=cahce=none"], "--vm-against=cahce=none: cahce is not an axis. There are: format, cache,"),
        (["--vm-against=cache"], "--vm-against=cache: 'cache' is not AXIS=VALUE."),
        (["--vm-against=cache=fast"], "--vm-against=cache=fast of raw-none-virtio-blk-off: "),
        ([AGAINST, "--vm-baseline=x"], "--vm-against and --vm-baseline are two things to judge against."),
        (
            [AGAINST, "--vm-rounds=9"],
            "--vm-rounds is not used by --vm-against, whose pairs end when they have deci",
        ),
        ([AGAINST, "--vm-budget=1h"], "--vm-budget does not count the pairs of --vm-against."),
        ([AGAINST, "--pdb"], "--vm-against takes its pairs in turns, and there are none with --pdb."),
        ([AGAINST, "--vm-without=turns"], "--vm-against takes its pairs in turns, and there are none with --vm-wi"),
        ([AGAINST, "--vm-pairs-limit=0"], "--vm-pairs-limit=0 leaves no time to measure."),
        ([AGAINST, "--vm-pairs-limit=soon"], "'soon' is not a"),
        ([AGAINST, "--vm-confirm"], "--vm-confirm without a baseline has no suspects."),
        ([AGAINST, "--vm-max-regression=history"], "--vm-max-regression=history is learnt from saved days"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_made(two_cells, options, sentence):
    """One sentence, and no lab is opened."""
    assert_refused(two_cells.run(*options), sentence)
    assert two_cells.events == []


def test_the_devices_of_the_other_side_are_found_before_anything_is_made(two_cells):
    """A backing that no vmstorage.toml lists is refused as in a cell."""
    result = two_cells.run("--vm-against=backing=scratch")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "scratch" in flat(result)
    assert two_cells.events == []


def test_a_selection_without_anything_to_pair_is_refused(project):
    """Operations on images take no pairs; beside measurements they are inconclusive, and say so."""
    images = (
        "from pytest_vmstorage import ImageOperations\ndef test_x(measure_image): measure_image(ImageOperations())\n"
    )
    project.write(test_it=images)
    assert_refused(project.run(AGAINST), "--vm-against=cache=writeback has nothing to pair")
    project.write(test_two=TWO_CELLS)
    result = project.run(AGAINST, "-rs")
    result.assert_outcomes(passed=2, skipped=1)
    assert "it has no figure: it takes no rounds in turns" in flat(result)


def test_another_side_that_does_not_boot(two_cells):
    """The test is skipped with the reason, and costs no further rounds."""
    two_cells.wish(boots={"qcow2-writeback-*": 0})
    result = two_cells.run(AGAINST, "-rs", "--vm-report=r.json")
    result.assert_outcomes(passed=1, skipped=1)
    said = "was not compared with the same with cache=writeback"
    assert (
        f"{said}: with cache=writeback it has no figure: guest did not answer:"
        " The guest of qcow2-writeback-virtio-blk-off did not answer" in flat(result)
    )
    assert {name: (len(own), len(other)) for name, (own, other) in sides(two_cells).items()} == {
        "raw": (6, 6),
        "qcow2": (1, 0),
    }


def test_another_side_that_boots_no_more(two_cells):
    """Its pairs so far are told, and why there are no more; the cells beside it go on."""
    two_cells.wish(noise=0.01, boots={"qcow2-writeback-*": 3}, speed={"raw-none-*": 0.7})
    result = two_cells.run(AGAINST, "-rs", "--vm-report=r.json")
    result.assert_outcomes(failed=1, skipped=1)
    assert "3 pairs" in flat(result)
    assert (
        "No further pairs: guest did not answer: The guest of qcow2-writeback-virtio-blk-off did not answer within"
        in flat(result)
    )
    assert len(sides(two_cells)["qcow2"][0]) in (3, 4)
    assert text_of(result).count("vmstorage: round ") == 6 + 12


def test_another_side_that_is_not_what_it_says(two_cells):
    """A round that is INVALID there is no pair, and ends them."""
    two_cells.wish(write_through="qcow2-writeback-*")
    result = two_cells.run(AGAINST, "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    assert "INVALID: after the last round cache is write through" in flat(result)
    assert text_of(result).count("vmstorage: round ") == 6


def test_a_fixture_that_fails_on_the_other_side(two_cells):
    """The reason names what it failed with."""
    two_cells.write(
        test_two=TWO_CELLS.replace("(measure)", "(measure, picky)")
        + "@pytest.fixture\ndef picky(storage):\n    assert storage.cache == 'none', 'no writeback here'\n"
    )
    result = two_cells.run(AGAINST, "-rs")
    result.assert_outcomes(skipped=2)
    assert "it has no figure: AssertionError: no writeback here" in flat(result)


def test_an_own_guest_that_boots_no_more_fails_its_test(two_cells):
    """As without pairs: an error with its sentence, and not a skipped test."""
    two_cells.wish(noise=0.01, boots={"qcow2-none-*": 3})
    result = two_cells.run(AGAINST)
    result.assert_outcomes(passed=1, errors=1)
    assert "The guest of qcow2-none-virtio-blk-off did not answer within" in flat(result)
    assert text_of(result).count("vmstorage: round ") == 6


def test_x_ends_at_the_first_that_regressed(two_cells):
    """Each cell has its decision, and one is reported."""
    two_cells.wish(noise=0.01, speed={"*-none-*": 0.7})
    result = two_cells.run(AGAINST, "-x")
    result.assert_outcomes(failed=1)
    assert "stopping after 1 failures" in text_of(result)


def test_ctrl_c_keeps_what_was_measured(two_cells):
    """The rounds that ended are in the report and in the journal."""
    two_cells.wish(noise=0.01, interrupts=30)
    result = two_cells.run(AGAINST, "--vm-report=r.json", own_process=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    own = [len(one["samples"]) for one in report(two_cells)["measurements"]]
    assert len(own) == 2
    # with a warm-up each, 14 rounds have ended
    (journal,) = (two_cells.path / ".vmstorage").glob("*.jsonl")
    assert len(journal_samples(journal)) == 14
    assert 6 <= sum(own) <= 8
    assert two_cells.events[-1] == "close"


def test_several_measurements_of_a_test(project):
    """Each is paired with its own; the one that wants more pairs gets them alone."""
    project.write(test_two=TWO_CELLS + "    measure(Dd(rw='write', bs='1M', count=64))\n    measure(FIO)\n")
    project.wish(speed={"raw-none-*": 0.7})
    result = project.run(AGAINST, "--vm-report=r.json")
    result.assert_outcomes(passed=1, failed=1)
    assert "3 REGRESSED, 3 PASS" in text_of(result)
    run = report(project)
    assert [len(one["samples"]) for one in run["measurements"]] == [len(one["samples"]) for one in run["against"]]
    assert [one["workload"] for one in run["measurements"]] == [one["workload"] for one in run["against"]]


def test_tests_of_one_cell_share_the_guests_of_its_sides(project):
    """A pass has one guest for each side, in which both tests have their round."""
    project.write(
        test_it=RANDOM_WRITE + "def test_a(measure): measure(FIO)\n"
        "def test_b(measure): measure(Fio(rw='read', bs='1M', size='64M', runtime=5))\n"
    )
    project.wish(noise=0.01)
    project.run(AGAINST, SEED, "--vm-report=r.json").assert_outcomes(passed=2)
    assert guests(project) == {"raw-none": 6, "raw-writeback": 6}
    for one, two in zip(*(rows["measurements"] for rows in [report(project)] * 2), strict=True):
        assert len(one["samples"]) == len(two["samples"]) == 6


def test_a_waiver_holds_for_pairs_too(two_cells):
    """An expected failure, with who answers for it."""
    two_cells.write(
        **{
            "vmstorage-gate__toml": '[[waivers]]\ncell = "*[qcow2]"\nreason = "known"\nowner = "jane"\n'
            "expires = 2999-12-31\n"
        }
    )
    two_cells.wish(noise=0.01, speed={"qcow2-none-*": 0.7})
    result = two_cells.run(AGAINST, "-rx")
    result.assert_outcomes(passed=1, xfailed=1)
    assert "waived by jane until 2999-12-31: known" in flat(result)


def test_saved_with_pairs(two_cells):
    """What is saved is the cells themselves."""
    two_cells.wish(noise=0.01)
    two_cells.run(AGAINST, "--vm-save=main").assert_outcomes(passed=2)
    (path,) = two_cells.path.glob(".benchmarks/*/0001_main.json")
    saved = json.loads(path.read_text())
    assert len(saved["benchmarks"]) == 2
    assert unpacked(saved["vmstorage"])["recipe"] == "cache=writeback"
    result = two_cells.run("--vm-baseline=main", "--vm-day-spread=3%")
    result.assert_outcomes(passed=2)
