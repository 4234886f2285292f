"""How often a test is entered, and what pytest and its users see of it: once, with all rounds.

Tests of `plugin.entry`, `plugin.turns`, `plugin.declared` and `plugin.interleave`: each trial that a new user made,
with what happens now.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections import Counter
from importlib.util import find_spec

import pytest
from projects import RANDOM_WRITE, flat, text_of

HEAD = (
    RANDOM_WRITE
    + """
import unittest
from pathlib import Path
import pytest_vmstorage

def note(word):
    with Path("notes").open("a") as stream:
        stream.write(word + "\\n")

CELLS = pytest.mark.parametrize("format", ["raw", "qcow2"])
JOBS = [Fio(rw="randwrite", bs="4k", iodepth=depth, size="256M", runtime=5) for depth in (1, 8, 32)]
"""
)
COUNTED = (
    HEAD
    + """
@CELLS
def test_count(measure{more}, format):
    for place, job in enumerate(JOBS[:{jobs}]):
        note(f"before{{place}} {{format}}")
        found = measure(job)
        note(f"after{{place}} {{format}} {{len(found.samples)}}")
"""
)


def notes(project):
    """What the tests noted, how often each."""
    path = project.path / "notes"
    return Counter(path.read_text().splitlines()) if path.exists() else Counter()


def entries(jobs, rounds, learned=1):
    """How often each cell's function comes by each place, if it is entered `learned` times for each of `jobs`."""
    places = [(n, cell) for n in range(jobs) for cell in ("raw", "qcow2")]
    before = {f"before{n} {cell}": (jobs - n) * learned + 1 for n, cell in places}
    return Counter({**before, **{f"after{n} {cell} {rounds}": (jobs - n - 1) * learned + 1 for n, cell in places}})


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("more", ["", ", guest"])
@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_a_function_is_entered_once_for_each_workload_and_once_with_all_rounds(project, jobs, more, rounds):
    """In turns; with one round there are none, and it is entered once. What is behind `measure` has all rounds."""
    project.write(test_it=COUNTED.format(jobs=jobs, more=more))
    project.run(f"--vm-rounds={rounds}", own_process=True).assert_outcomes(passed=2)
    assert notes(project) == entries(jobs, rounds, learned=0 if rounds == 1 else 1)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("more", ["", ", guest"])
@pytest.mark.parametrize("options", [["--vm-without=turns"], ["--pdb"]])
def test_rounds_in_a_row_need_one_entry(project, jobs, more, options):
    """Nothing is learned before."""
    project.write(test_it=COUNTED.format(jobs=jobs, more=more))
    project.run(*options, own_process=True).assert_outcomes(passed=2)
    assert notes(project) == entries(jobs, 3, learned=0)


@pytest.mark.parametrize("jobs", [1, 3])
def test_entries_in_pairs(project, jobs):
    """The other side measures the same, without the function: the test cannot see which side it is on."""
    project.write(test_it=COUNTED.format(jobs=jobs, more=""))
    project.run("--vm-against=cache=writeback", own_process=True).assert_outcomes(passed=2)
    assert notes(project) == entries(jobs, 6)


def test_a_test_that_sees_its_cell_is_entered_on_both_sides_of_a_pair(project):
    """What it measures may follow from `storage`; nothing of the other side is reported."""
    project.write(
        test_it=COUNTED.format(jobs=1, more=", storage").replace('note(f"before', 'note(f"{storage.cache} before')
    )
    project.run("--vm-against=cache=writeback", own_process=True).assert_outcomes(passed=2)
    assert notes(project) == {
        **{f"none before0 {cell}": 2 for cell in ("raw", "qcow2")},
        **{f"writeback before0 {cell}": 1 for cell in ("raw", "qcow2")},
        **{f"after0 {cell} 6": 1 for cell in ("raw", "qcow2")},
    }


def test_a_guest_of_its_own_in_each_round_is_prepared_for_each(project):
    """Both sides of a pair have fresh guests: the test is entered up to `measure` in each of them."""
    project.write(test_it=COUNTED.format(jobs=1, more=", guest"))
    project.run("--vm-against=cache=writeback", own_process=True).assert_outcomes(passed=2)
    seen = notes(project)
    assert seen["before0 raw"] == 6 + 6 + 1
    assert seen["after0 raw 6"] == 1


@pytest.mark.parametrize("more", ["", ", guest"])
def test_entries_with_confirmation(project, more):
    """Fresh rounds need the function only where it asks for the guest, which is another one in each."""
    project.write(test_it=COUNTED.format(jobs=1, more=more))
    project.run("--vm-save=main").assert_outcomes(passed=2)
    (project.path / "notes").unlink()
    project.wish(speed={"qcow2-*": 0.7})
    judged = ("--vm-baseline=main", "--vm-day-spread=3%", "--vm-confirm", "--vm-inconclusive=fail")
    result = project.run(*judged, own_process=True)
    result.assert_outcomes(passed=1, failed=1)
    assert notes(project) == {
        "before0 raw": 2,
        "after0 raw 3": 1,
        "before0 qcow2": 2 if not more else 8,
        "after0 qcow2 9": 1,
    }


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("options", [["-n2"], ["--vm-host=lab01,lab02"]])
def test_entries_under_xdist(project, jobs, options):
    """A worker with one cell takes its rounds in a row; one with two enters each as often as a single process does."""
    project.write(test_it=COUNTED.format(jobs=jobs, more="").replace('"raw", "qcow2"', '"raw", "qcow2", "vdi", "qed"'))
    result = project.run(*options, own_process=True)
    result.assert_outcomes(passed=4)
    seen = notes(project)
    for cell in ("raw", "qcow2", "vdi", "qed"):
        assert seen[f"after{jobs - 1} {cell} 3"] == 1
        assert seen[f"before0 {cell}"] in (1, jobs + 1)
    assert not [one for one in seen if one.startswith("after") and not one.endswith(" 3")]


def test_a_guest_that_a_command_changed_is_prepared_again(project):
    """Two tests share a guest and tune it: each round has the tuning of its own test, and undoing counts too."""
    project.write(
        test_it=HEAD
        + """
@pytest.fixture
def tuned(guest):
    guest.run("modprobe bfq")
    note("tune")
    yield
    guest.run("modprobe -r bfq")

@CELLS
def test_tuned(measure, tuned):
    measure(JOBS[0])

@CELLS
def test_other(measure, guest):
    note("other")
    measure(JOBS[1])
"""
    )
    project.run(own_process=True).assert_outcomes(passed=4)
    # each round, and the run with all of them
    assert notes(project) == {"tune": 2 * 4, "other": 2 * 4}


@pytest.mark.skipif(
    not hasattr(pytest, "Subtests") and find_spec("pytest_subtests") is None,
    reason="pytest 9 has subtests, and pytest-subtests for those before it",
)
def test_a_failing_subtest_fails_its_test_alone(project):
    """With figures of all rounds, once; the tests behind it run."""
    project.write(
        test_sub=HEAD
        + """
@CELLS
def test_depths(subtests, measure):
    for depth in (1, 8):
        with subtests.test(depth=depth):
            r = measure(Fio(rw="randread", bs="4k", iodepth=depth, size="32M", runtime=1))
            note(f"{depth} {len(r.samples)}")
            assert r.iops > (0 if depth == 1 else 1_000_000)

def test_other(): pass
"""
    )
    result = project.run("--tb=no", "-rA", own_process=True)
    text = text_of(result)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert text.count("SUBFAIL") == 2
    # pytest-subtests lets the test itself pass
    assert text.count("contains 1 failed subtest") == (2 if hasattr(pytest, "Subtests") else 0)
    assert "PASSED test_sub.py::test_other" in text
    assert "errors during collection" not in text
    # the first depth's subtest is come by on the way to the second one, with all its rounds
    assert notes(project) == {"1 3": 4, "8 3": 2}


UNITTEST = (
    HEAD
    + """
@pytest.mark.usefixtures("kept")
class TestIt(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        note("setUpClass")

    @pytest.fixture(autouse=True)
    def kept(self, measure):
        self.measure = measure

    def setUp(self):
        note("setUp")

    def tearDown(self):
        note("tearDown")

    def test_green(self):
        self.assertGreater(float(self.measure(JOBS[0]).iops), 9_950)

    def test_red(self):
        self.assertGreater(float(self.measure(JOBS[0]).iops), 1e9)

    def test_skip(self):
        self.measure(JOBS[0])
        self.skipTest("enough")

    def test_sub(self):
        for depth in (0, 1):
            with self.subTest(depth=depth):
                found = self.measure(JOBS[depth])
                note(f"sub {depth} {len(found.samples)}")
                self.assertGreater(float(found.iops), 1e9 if depth else 1)
"""
)


def test_unittest_cases_are_reported_as_they_end(project):
    """A test that passes is PASSED, one that fails FAILED; setUp and tearDown belong together."""
    other = HEAD + "@CELLS\ndef test_plain(measure):\n    measure(JOBS[0])\n"
    project.write(test_uni=UNITTEST, test_other=other)
    result = project.run("--tb=line", "-rA", own_process=True)
    text = text_of(result)
    assert "ERROR" not in text
    assert "PASSED test_uni.py::TestIt::test_green" in text
    assert "FAILED test_uni.py::TestIt::test_red" in text
    assert "SKIPPED" in text
    assert "1 skipped" in text
    # pytest 8 has no report of a subTest, but of its test
    assert "SUBFAIL" in text or "FAILED test_uni.py::TestIt::test_sub" in text
    seen = notes(project)
    assert seen["setUp"] == seen["tearDown"]
    assert seen["sub 1 3"] == 1
    assert {word for word in seen if word.startswith("sub ")} == {"sub 0 3", "sub 1 3"}


def test_a_property_is_recorded_once(project):
    """JUnit has the one figure with all rounds; a mark, an output, a warning and a log line stand there once too."""
    project.write(
        test_side=HEAD
        + """
import logging, warnings
@CELLS
def test_side(measure, record_property, tmp_path):
    record_property("before", 1)
    warnings.warn("look out")
    logging.getLogger("mine").warning("logged")
    print("printed")
    found = measure(JOBS[0])
    record_property("x", len(found.samples))
    assert 0
"""
    )
    result = project.run("--junitxml=j.xml", "-o", "junit_family=xunit1", own_process=True)
    result.assert_outcomes(failed=2, warnings=2)
    cases = ET.parse(project.path / "j.xml").getroot().iter("testcase")
    names = ("before", "x")
    properties = [[one.get("value") for one in case.iter("property") if one.get("name") in names] for case in cases]
    assert properties == [["1", "3"], ["1", "3"]]
    text = text_of(result)
    assert text.count("\nprinted") == 2
    assert text.count("logged\n") == 2


@pytest.mark.parametrize(
    ("body", "outcome", "sentence"),
    [
        ("open(f'{request.node.name}.made', 'x'); measure(JOBS[0])", {"failed": 2}, "FileExistsError"),
        ("measure(JOBS[0]); open(f'{request.node.name}.made', 'x')", {"passed": 2}, ""),
        ("FIRST or FIRST.append(1) or boom(); measure(JOBS[0])", {"passed": 1, "failed": 1}, "RuntimeError: boom"),
        ("measure(JOBS[0]); FIRST or FIRST.append(1) or boom()", {"passed": 1, "failed": 1}, "RuntimeError: boom"),
        ("FIRST or FIRST.append(1) or pytest.skip('not now'); measure(JOBS[0])", {"passed": 1, "skipped": 1}, ""),
        ("measure(JOBS[0]) if FIRST else FIRST.append(1)", {"passed": 2}, ""),
    ],
    ids=["made before", "made behind", "fails before", "fails behind", "skips", "measures in one cell"],
)
def test_what_happens_once_is_seen(project, body, outcome, sentence):
    """An entry that ends by itself is the test's run: nothing of it is swallowed and tried again."""
    project.write(
        test_state=HEAD
        + f"""
FIRST = []
def boom():
    raise RuntimeError("boom")
@CELLS
def test_state(measure, request):
    {body}
"""
    )
    result = project.run("-rA", own_process=True)
    result.assert_outcomes(**outcome)
    assert sentence in text_of(result)


def test_warnings_as_errors_fail_the_test_once(project):
    """Turns go on for the others."""
    project.write(
        test_state=HEAD
        + """
import warnings
@CELLS
def test_state(measure, format):
    note(format)
    if format == "raw":
        warnings.warn("look out")
    measure(JOBS[0])
"""
    )
    result = project.run("-W", "error", own_process=True)
    result.assert_outcomes(passed=1, failed=1)
    assert notes(project) == {"raw": 1, "qcow2": 2}


def test_x_stops_as_soon_as_a_test_has_failed(project):
    """A test that fails before it measures ends the run before any round; one that fails behind it, at its report."""
    body = HEAD + "@CELLS\ndef test_x(measure, format):\n    {before}\n    found = measure(JOBS[0])\n    {behind}\n"
    project.write(test_x=body.format(before="assert format == 'x'", behind="pass"))
    result = project.run("-x", own_process=True)
    assert "stopping after 1 failures" in text_of(result)
    assert "vmstorage: round" not in text_of(result)
    assert not [event for event in project.events if event.startswith("guest ")]
    project.write(test_x=body.format(before="pass", behind="assert found.iops > 1e9; note(format)"))
    result = project.run("-x", own_process=True)
    result.assert_outcomes(failed=1)


def test_higher_scoped_fixtures_are_set_up_once_more_at_most(project):
    """A module's fixture with two parameters, two cells, three rounds: two to learn, and as pytest has them."""
    project.write(
        test_side=HEAD
        + """
@pytest.fixture(scope="module", params=["p", "q"])
def costly(request):
    note(f"costly {request.param}")
    return request.param

@pytest.fixture(scope="module")
def once():
    note("once")

@CELLS
def test_side(measure, costly, once):
    measure(JOBS[0])
"""
    )
    project.run(own_process=True).assert_outcomes(passed=4)
    seen = notes(project)
    assert seen["once"] == 1
    assert seen["costly p"] + seen["costly q"] <= 6


def test_durations_are_those_of_the_rounds(project):
    """In pytest's own list and in JUnit."""
    project.wish(round_s=0.2)
    project.write(test_time=HEAD + "@CELLS\ndef test_time(measure):\n    measure(JOBS[0])\n")
    project.run("--junitxml=j.xml", own_process=True).assert_outcomes(passed=2)
    times = [float(case.get("time")) for case in ET.parse(project.path / "j.xml").getroot().iter("testcase")]
    assert min(times) >= 3 * 0.2


DECLARED = (
    HEAD
    + """
@CELLS
@pytest.mark.workload(JOBS[0], at_least={"iops": 500})
def test_declared(result, format):
    note(f"{format} {len(result.samples)}")
"""
)


def test_a_declared_workload_is_measured_before_its_test_begins(project):
    """Which runs once, with all rounds, taken in turns."""
    project.write(test_it=DECLARED)
    result = project.run("--vm-report=r.json", "--vm-seed=3", own_process=True)
    result.assert_outcomes(passed=2)
    assert notes(project) == {"raw 3": 1, "qcow2 3": 1}
    run = json.loads((project.path / "r.json").read_text())
    assert {one["hygiene"]["rounds"] for one in run["measurements"]} == {"in turns with 1 other cell, --vm-seed=3"}


def test_a_missed_threshold_of_a_mark_fails_the_test(project):
    """With the figure, its spread and its cell, behind a function that passes."""
    project.write(test_it=DECLARED.replace('"iops": 500', '"iops": 1e6'))
    result = project.run(own_process=True)
    result.assert_outcomes(failed=2)
    assert "iops 10k IOPS is not at least 1M IOPS (9900 IOPS to 10.1k IOPS in 3 rounds" in flat(result)


def test_x_stops_once_a_declared_threshold_cannot_be_met(project):
    """Two of three rounds below it decide the median."""
    project.write(test_it=DECLARED.replace('"iops": 500', '"iops": 1e6'))
    result = project.run("-x", "--vm-rounds=9", own_process=True)
    assert "stopping after 1 failures" in text_of(result)
    assert text_of(result).count("vmstorage: round ") == 5


def test_several_declared_workloads(project):
    """By name in `results`; one that another test measures in its function takes its turns beside them."""
    project.write(
        test_it=HEAD
        + """
@CELLS
@pytest.mark.workload(JOBS[0].over(iodepth=(1, 8)), at_most={"clat_p99": "5s"})
def test_over(results):
    note(" ".join(results))

@CELLS
@pytest.mark.workload({"shallow": JOBS[0], "deep": JOBS[1]})
@pytest.mark.workload(JOBS[2], rounds=4)
def test_several(results):
    note(" ".join(f"{name}={len(one.samples)}" for name, one in results.items()))
    with pytest.raises(KeyError, match="no workload 'depe' is declared; there are: shallow, deep, fio"):
        results["depe"]

@CELLS
def test_function(measure):
    measure(JOBS[0])

@pytest.mark.parametrize("workload", JOBS[:2], ids=["q1", "q8"])
@CELLS
def test_swept(result, workload):
    assert result.workload == workload.label
"""
    )
    project.run(own_process=True).assert_outcomes(passed=10)
    assert notes(project) == {
        "shallow=3 deep=3 fio randwrite 4k qd32=4": 2,
        "fio randwrite 4k qd1 fio randwrite 4k qd8": 2,
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def test_it(result): pass", "asks for the results of workloads, and declares none"),
        ("@pytest.mark.workload(JOBS[0])\ndef test_it(measure): pass", "nothing asks for its figures"),
        ("@pytest.mark.workload(JOBS[0])\ndef test_it(result, measure): pass", "and asks for `measure` too"),
        ("@pytest.mark.workload(*JOBS[:2])\ndef test_it(result): pass", "declares 2 workloads: fio randwrite 4k"),
        ("@pytest.mark.workload(JOBS[0], JOBS[0], name=1)\ndef test_it(result): pass", "has no 'name'"),
        ("@pytest.mark.workload(JOBS[0])\n@pytest.mark.workload(JOBS[0])\ndef test_it(results): pass", "two workloads"),
        ("@pytest.mark.workload()\ndef test_it(result): pass", "names no workload"),
        ("@pytest.mark.workload({'a': Fio})\ndef test_it(result): pass", "has the class Fio, which is no workload"),
        ("@pytest.mark.workload(JOBS[0], at_leest={'iops': 1})\ndef test_it(result): pass", "Did you mean 'at_least'?"),
        ("@pytest.mark.workload(JOBS[0], at_least={'iopss': 1})\ndef test_it(result): pass", "Did you mean 'iops'?"),
        ("@pytest.mark.workload(JOBS[0], at_least=500)\ndef test_it(result): pass", "names no metric"),
        ("@pytest.mark.workload(JOBS[0], at_most={'clat_p99': 'x'})\ndef test_it(result): pass", "is not a duration"),
        ("@pytest.mark.workload(JOBS[0], at_least={'iops': '5k'})\ndef test_it(result): pass", "500}, in IOPS"),
        ("@pytest.mark.workload(JOBS[0])\ndef test_it(): pass", "List `result`, or `results` for several"),
        (
            "@pytest.mark.parametrize('iodepth', [1, 8])\n@pytest.mark.workload(JOBS[0])\ndef test_it(result, iodepth):"
            " pass",
            "is parametrized by iodepth=8, and declares fio randwrite 4k qd1",
        ),
        ("@pytest.mark.workload(JOBS[0], rounds=0)\ndef test_it(result): pass", "workload(rounds=0): rounds must be 1"),
        ("@pytest.mark.workload(JOBS[0], rounds='x')\ndef test_it(result): pass", "is not a number of rounds"),
        (
            "@pytest.fixture\ndef tuned(guest): pass\n@pytest.mark.workload(JOBS[0])\ndef test_it(result, tuned): pass",
            "Measure in the function: ask for `measure` in place of `result`.",
        ),
    ],
)
def test_what_cannot_be_declared_is_refused_before_anything_is_made(project, text, sentence):
    """One sentence that names the test."""
    project.write(test_it=HEAD + text)
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert sentence in flat(result)
    assert "test_it.py::test_it" in flat(result)
    assert project.events == []


def test_a_plan_and_a_collection_know_what_is_declared(project):
    """Its workload, and its time by the runtime: four rounds of 5 s and a guest in each of two cells."""
    project.write(test_it=DECLARED)
    plan = flat(project.run("--vm-plan"))
    assert "2 tests by the runtime of its workload" in plan
    assert "estimated time 58 s: 2 tests by the runtime of its workload; 5 s a guest assumed" in plan
    collected = flat(project.run("--co", "-q"))
    assert "declared workloads: fio randwrite 4k qd1 in 2 tests; about 58 s with their guests" in collected
    assert project.events == []


def test_the_plan_tells_what_turns_cost(project):
    """An early end that comes late, and fixtures that are set up once more."""
    fixture = "@pytest.fixture(scope='module', params=['p', 'q'])\ndef costly(request): pass\n"
    project.write(test_it=HEAD + fixture + "@CELLS\ndef test_it(measure, costly):\n    measure(JOBS[0])\n")
    plan = flat(project.run("--vm-plan", "-x"))
    assert "-x and --maxfail see an assertion behind `measure` when all cells have their rounds" in plan
    assert "set up once more, to learn what their tests measure: costly (module)" in plan
    assert "set up once more" not in flat(project.run("--vm-plan", "--vm-without=turns"))


def test_a_benchmark_before_measure_has_one_row(project):
    """That of the entry which is reported."""
    project.write(
        test_it=HEAD + "@CELLS\ndef test_it(benchmark, measure):\n    benchmark(sum, [1, 2])\n    measure(JOBS[0])\n"
    )
    project.run("--benchmark-json=b.json", "--benchmark-max-time=0.01", own_process=True).assert_outcomes(passed=2)
    rows = json.loads((project.path / "b.json").read_text())["benchmarks"]
    assert Counter(row["name"] for row in rows)["test_it[raw]"] == 1


def test_a_storage_fixture_of_the_tests_own_is_no_other_cell_for_a_declared_workload(project):
    """Its rounds were taken before that fixture was set up: no figure stands for a cell that it is not of."""
    project.write(
        test_it=DECLARED
        + """
@pytest.fixture
def storage(storage):
    return storage.model_copy(update={"cache": "writeback"})
"""
    )
    result = project.run(own_process=True)
    result.assert_outcomes(errors=2)
    assert "and `storage` is raw-writeback-virtio-blk-off now." in flat(result)
    assert "asks for `measure`" in flat(result)
    project.write(
        test_it=HEAD
        + """
@pytest.fixture
def storage(storage):
    return storage.model_copy(update={"cache": "writeback"})

@CELLS
def test_it(measure):
    assert measure(JOBS[0]).config.cache == "writeback"
"""
    )
    project.run(own_process=True).assert_outcomes(passed=2)


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 has subtests")
def test_rounds_count_for_their_test_and_not_for_its_subtests(project):
    """The time of the rounds is told once."""
    project.wish(round_s=0.2)
    project.write(
        conftest="""
def pytest_runtest_logreport(report):
    if report.when == "call":
        with open("times", "a") as stream:
            stream.write(f"{hasattr(report, 'context')} {report.duration}\\n")
""",
        test_it=HEAD
        + """
@CELLS
def test_it(measure, subtests):
    measure(JOBS[0])
    with subtests.test("quick"):
        pass
""",
    )
    project.run(own_process=True).assert_outcomes(passed=2)
    times = [line.split() for line in (project.path / "times").read_text().splitlines()]
    assert len(times) == 4
    assert all((float(seconds) < 3 * 0.2) is (of_subtest == "True") for of_subtest, seconds in times)


def test_what_a_package_fails_to_tear_down_before_an_entry_is_an_error_of_a_test(project):
    """A test that is not entered keeps what its package set up until the next one is, in another package."""
    tests = {"one": ("test_a(measure, guest)", "test_b(measure)"), "two": ("test_c(measure, guest)",)}
    for folder, heads in tests.items():
        (project.path / folder).mkdir()
        (project.path / folder / "__init__.py").touch()
        functions = (f"@CELLS\ndef {head}: measure(JOBS[0])\n" for head in heads)
        (project.path / folder / f"test_{folder}.py").write_text(HEAD + "".join(functions))
    fixture = "@pytest.fixture(scope='package', autouse=True)\ndef broken():\n    yield\n    assert 0, 'left'\n"
    (project.path / "one" / "conftest.py").write_text("import pytest\n" + fixture)
    result = project.run(own_process=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "INTERNALERROR" not in text_of(result)
    assert "not torn down properly" not in text_of(result)
    assert "AssertionError: left" in text_of(result)


def test_a_plain_test_of_another_package_comes_first_on_a_worker(project):
    """It is set up as if nothing had been entered before it."""
    for folder in ("a", "b"):
        (project.path / folder).mkdir()
        (project.path / folder / "__init__.py").touch()
    (project.path / "a" / "test_a.py").write_text("def test_plain(): pass\n")
    (project.path / "b" / "test_b.py").write_text(HEAD + "@CELLS\ndef test_it(measure): measure(JOBS[0])\n")
    (project.path / "b" / "test_c.py").write_text(HEAD + "@CELLS\ndef test_it(measure): measure(JOBS[1])\n")
    project.run("-n1", own_process=True).assert_outcomes(passed=5)


def test_rows_name_the_cells_that_their_rounds_alternated_with(project):
    """A further measurement takes turns with the cells of its own function alone."""
    project.write(
        test_it=HEAD
        + """
@CELLS
def test_two(measure):
    measure(JOBS[0])
    measure(JOBS[1])

@pytest.mark.parametrize("format", ["raw", "qcow2", "vdi", "qed"])
def test_one(measure):
    measure(JOBS[2])
"""
    )
    project.run("--vm-report=r.json", "--vm-seed=3", own_process=True).assert_outcomes(passed=6)
    run = json.loads((project.path / "r.json").read_text())
    orders = {(one["workload"], one["hygiene"]["rounds"]) for one in run["measurements"]}
    assert orders == {
        ("fio randwrite 4k qd1", "in turns with 3 other cells, --vm-seed=3"),
        ("fio randwrite 4k qd8", "in turns with 1 other cell, --vm-seed=3"),
        ("fio randwrite 4k qd32", "in turns with 3 other cells, --vm-seed=3"),
    }
