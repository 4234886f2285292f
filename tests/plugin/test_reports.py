"""The report: files, the hook, and results that come from several processes.

Tests of `plugin.recorder` and `plugin.hookspecs`.
"""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import time
import xml.etree.ElementTree as ET

import pytest
from projects import RANDOM_WRITE, TWO_CELLS, assert_refused, flat, journal_samples, text_of

from pytest_vmstorage.results.run import Run

MANY = (
    RANDOM_WRITE
    + """
@pytest.mark.parametrize("cache", ["none", "unsafe"])
@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("bs", ["4k", "8k"])
def test_x(measure, bs): measure(Fio(rw="randwrite", bs=bs))
"""
)
FILES = ("--vm-report=out/r.md", "--vm-report=out/r.csv", "--vm-report=out/r.json")


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_report_files(project, workers):
    """Markdown, CSV and JSON hold every cell once, whichever process measured it."""
    project.write(test_it=MANY)
    result = project.run(*FILES, *workers, "--benchmark-save=x", own_process=bool(workers))
    result.assert_outcomes(passed=8)
    assert text_of(result).count(" VM storage: ") == 1
    assert f"wrote {project.path}/out/r.md, .csv, .json\n" in text_of(result)
    run = json.loads((project.path / "out/r.json").read_text())
    assert len({one["nodeid"] for one in run["measurements"]}) == len(run["measurements"]) == 8
    whole = Run.model_validate(run)
    series = [sample.series for one in whole.measurements for sample in one.samples]
    assert len(series) == 24
    # QEMU counted all that the tool wrote, in each round
    assert all(
        one and one.counted_by == "QEMU" and one.total("written_bytes") == 4096 * one.total("writes") > 0
        for one in series
    )
    with (project.path / "out/r.csv").open() as stream:
        rows = [row for row in csv.DictReader(stream) if row["metric"] == "iops"]
    assert sorted(row["nodeid"] for row in rows) == sorted(one["nodeid"] for one in run["measurements"])
    # tests of one cell share the fake guest, whose figures go up and down by 1 %
    assert {row["median"] for row in rows} <= {"9900.0", "10000.0", "10100.0"}
    assert (project.path / "out/r.md").read_text().count("| qcow2") == 2
    (saved,) = project.path.glob(".benchmarks/*/*.json")
    assert len(json.loads(saved.read_text())["benchmarks"]) == 8
    if workers:
        # one measurement at a time runs on a host
        assert len({line.split()[0] for line in project.log() if "guest" in line}) == 1


def test_a_picture_beside_the_markdown(project):
    """Who asks for both gets Markdown that shows it; who asks for Markdown alone gets no other file."""
    project.write(test_it=MANY)
    result = project.run("--vm-report=out/r.md", "--vm-report=out/r.svg")
    assert f"wrote {project.path}/out/r.md, .svg\n" in text_of(result)
    assert (project.path / "out/r.svg").read_text().startswith("<svg ")
    assert "](r.svg)" in (project.path / "out/r.md").read_text()
    project.run("--vm-report=alone/r.md")
    assert [path.name for path in (project.path / "alone").iterdir()] == ["r.md"]


def test_a_report_that_cannot_be_written_in_the_end(project):
    """A place that vanished during the run costs neither the matrix nor the other file, and is no success."""
    project.write(
        test_it=RANDOM_WRITE + "import pathlib\ndef test_x(measure):\n    measure(FIO)\n"
        "    pathlib.Path('place').rmdir(); pathlib.Path('place').touch()\n"
    )
    (project.path / "place").mkdir()
    result = project.run("--vm-report=place/r.md", "--vm-report=r.csv")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert "10000 ±1" in text_of(result)
    assert "place/r.md was not written: " in text_of(result)
    assert "INTERNALERROR" not in text_of(result)
    assert (project.path / "r.csv").exists()


RED = (
    RANDOM_WRITE
    + """
import pathlib
pytestmark = pytest.mark.parametrize("format", ["raw", "qcow2"])

def test_threshold(measure, format):
    iops = measure(FIO).iops
    if iops < 9950:
        pathlib.Path(f"below-{format}").touch()
    assert iops > (9950 if format == "raw" else 50_000), "a | in it"

def test_expected(measure, format, request):
    request.applymarker(pytest.mark.xfail(format == "raw", reason="known\\nfor long"))
    measure(Fio(rw="randwrite", bs="8k"))
    assert format != "raw"

def test_skipped(measure, format):
    measure(Fio(rw="randwrite", bs="16k"))
    if format == "raw":
        pytest.skip("not today")

@pytest.fixture
def broken(format):
    yield
    assert format == "raw"

def test_teardown(measure, broken): measure(Fio(rw="randwrite", bs="32k"))
"""
)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_red_run_looks_red(project, workers):
    """Each figure has what became of its test, and why; what failed in runs that are not reported does not count."""
    project.write(test_it=RED)
    result = project.run(*FILES, *workers)
    result.assert_outcomes(passed=5, failed=1, errors=1, skipped=1, xfailed=1)
    # figures of one and two rounds miss the threshold, and no assertion sees them
    assert not (project.path / "below-raw").exists()
    run = json.loads((project.path / "out/r.json").read_text())
    told = {one["nodeid"].partition("::")[2]: (one["outcome"], one["message"]) for one in run["measurements"]}
    assert told == {
        "test_threshold[raw]": ("passed", ""),
        "test_threshold[qcow2]": ("failed", "AssertionError: a | in it"),
        "test_expected[raw]": ("xfailed", "known"),
        "test_expected[qcow2]": ("passed", ""),
        "test_skipped[raw]": ("skipped", "not today"),
        "test_skipped[qcow2]": ("passed", ""),
        "test_teardown[raw]": ("passed", ""),
        "test_teardown[qcow2]": ("error", "AssertionError: assert 'qcow2' == 'raw'"),
    }
    with (project.path / "out/r.csv").open() as stream:
        rows = {row["nodeid"].partition("::")[2]: (row["outcome"], row["message"]) for row in csv.DictReader(stream)}
    assert rows == told
    markdown = (project.path / "out/r.md").read_text().splitlines()
    assert markdown[0] == "## Storage matrix: 4 passed, 1 FAILED, 1 ERROR, 1 skipped, 1 xfailed"
    (raw,) = (line for line in markdown if line.startswith("| raw |"))
    (qcow2,) = (line for line in markdown if line.startswith("| qcow2 |"))
    assert (raw.count("XFAIL"), raw.count(" SKIP "), raw.count("ERROR")) == (2, 2, 0)
    assert (qcow2.count(" FAIL "), qcow2.count(" ERROR "), qcow2.count("SKIP")) == (2, 2, 0)
    assert any(line.startswith("- test\\_threshold on qcow2-none-virtio-blk-off 1G, fakehost:") for line in markdown)
    assert " VM storage: 4 passed, 1 FAILED, 1 ERROR, 1 skipped, 1 xfailed " in text_of(result)
    assert "10000 ±0.5 FAIL" in flat(result)
    assert "FAIL its test failed" in flat(result)


def test_a_green_run_says_that_it_is(two_cells):
    """The same title, so that none is missed where it is not."""
    assert " VM storage: 2 passed " in text_of(two_cells.run())


ROWLESS = """
import pytest
from pytest_vmstorage import Fio, cell
FIO = Fio(rw="randwrite", bs="4k", iodepth=32, size="256M", runtime=5)

@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_write(measure): measure(FIO, rounds=6)

def test_boots(guest): pass

@pytest.mark.skip(reason="not today")
def test_not_today(measure): pass

def test_ratio(assert_ratio): assert_ratio(cell(format="qcow2"), cell(format="raw"), at_least=5.0)

def test_plain(): assert 0, "unlike"

def test_plain_too(): pass
"""


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_tests_without_a_row_have_a_part_in_the_first_line(project, workers):
    """Storage tests and those between cells, and any other where it failed, as a file does that cannot be read."""
    project.write(test_it=ROWLESS, test_broken="import nosuch\n")
    run = ("--continue-on-collection-errors", "--vm-rounds=6", *FILES, *workers)
    project.run(*run, own_process=bool(workers))
    told = {one["nodeid"].rpartition("::")[2]: one for one in json.loads(read(project, "json"))["rowless"]}
    assert told["test_boots"]["outcome"] == "passed"
    assert (told["test_not_today"]["outcome"], told["test_not_today"]["message"]) == ("skipped", "not today")
    assert (told["test_plain"]["outcome"], told["test_plain"]["message"]) == ("failed", "AssertionError: unlike")
    assert "test_plain_too" not in told
    # a worker of xdist has not the figures of others
    assert told["test_ratio"]["outcome"] == ("skipped" if workers else "failed")
    first = read(project, "md").splitlines()[0]
    assert told["test_broken.py"]["message"].startswith("ImportError while importing test module")
    failed, skipped = (1, 2) if workers else (2, 1)
    assert first == f"## Storage matrix: 3 passed, {failed} FAILED, 1 ERROR, {skipped} skipped"
    assert "FAIL its test failed" not in read(project, "md")


def read(project, suffix):
    """A report of the project."""
    return (project.path / f"out/r.{suffix}").read_text()


def test_a_missing_cell_counts_where_it_fails(two_cells):
    """It is a failed test in JUnit, and so in the first line."""
    two_cells.run("--vm-save=main").assert_outcomes(passed=2)
    judged = ("--vm-baseline=main", "--vm-missing=fail", "--vm-inconclusive=warn", "--vm-report=out/r.md")
    two_cells.write(test_two=TWO_CELLS.replace(', "qcow2"', ""))
    two_cells.run(*judged).assert_outcomes(skipped=1, failed=1)
    assert read(two_cells, "md").splitlines()[0] == "## Storage matrix: 1 FAILED, 1 skipped"


AGAIN = """
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for last in (False, True):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        is_red = any(report.failed for report in reports)
        for report in reports:
            report.outcome = "rerun" if report.failed and not last else report.outcome
            item.ihook.pytest_runtest_logreport(report=report)
        if not is_red:
            break
    return True
"""

RUNS = (
    RANDOM_WRITE
    + """
runs = {}
def run(name): return runs.setdefault(name, []).append(1) or len(runs[name])

def test_second(measure):
    measure(FIO)
    assert run("second") > 1

def test_never(measure):
    measure(FIO)
    assert run("never") > 9, f"run {run('never')}"

def test_no_figure(measure):
    assert run("no figure") > 1
    measure(FIO)
"""
)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_test_that_is_run_again_has_one_row(project, workers):
    """With its last outcome, also among pytest-benchmark's; what its first run failed for is no failed cell."""
    project.write(test_it=RUNS, conftest=AGAIN)
    options = ("--vm-without=turns", "--benchmark-save=x", *FILES, *workers)
    project.run(*options, own_process=bool(workers))
    run = json.loads(read(project, "json"))
    told = [(one["nodeid"].partition("::")[2], one["outcome"], one["message"]) for one in run["measurements"]]
    assert sorted(told) == [
        ("test_never", "failed", "AssertionError: run 4"),
        ("test_no_figure", "passed", ""),
        ("test_second", "passed", ""),
    ]
    assert (run["failures"], run["rowless"]) == ([], [])
    assert read(project, "md").splitlines()[0] == "## Storage matrix: 2 passed, 1 FAILED"
    (saved,) = project.path.glob(".benchmarks/*/*.json")
    assert len(json.loads(saved.read_text())["benchmarks"]) == 3


SUBTESTS = (
    RANDOM_WRITE
    + """
def test_before(subtests, measure):
    with subtests.test("a"):
        assert 0, "before it measured"
    measure(FIO)

def test_skips(subtests, measure):
    measure(FIO)
    with subtests.test("a"):
        pytest.skip("not this")
"""
)


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 8 has no subtests of its own")
@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_subtests_failure_is_its_tests(project, workers):
    """With the subtest's reason; the cell has a figure, and a subtest that was skipped skips no test."""
    project.write(test_it=SUBTESTS)
    project.run("--vm-without=turns", *FILES, *workers, own_process=bool(workers))
    run = json.loads(read(project, "json"))
    told = {one["nodeid"].partition("::")[2]: (one["outcome"], one["message"]) for one in run["measurements"]}
    assert told == {
        "test_before": ("failed", "AssertionError: before it measured"),
        "test_skips": ("passed", ""),
    }
    assert (run["failures"], run["rowless"]) == ([], [])


def test_a_guest_that_cannot_be_made_is_an_error(project):
    """In pytest's words, in CSV and in the first line; the cell failed."""
    project.wish(boots={"qcow2-*": 0})
    project.write(
        test_it=RANDOM_WRITE
        + '@pytest.mark.parametrize("format", ["raw", "qcow2"])\ndef test_x(guest, measure): measure(FIO)\n'
    )
    project.run(*FILES).assert_outcomes(passed=1, errors=1)
    (failure,) = json.loads(read(project, "json"))["failures"]
    assert (failure["outcome"], failure["test_outcome"]) == ("failed", "error")
    assert [row["outcome"] for row in csv.DictReader(read(project, "csv").splitlines()) if row["failure"]] == ["error"]
    assert read(project, "md").splitlines()[0] == "## Storage matrix: 1 passed, 1 ERROR"


def test_a_killed_workers_test_failed(project):
    """It has no last report: the first line counts it, and it is told why."""
    project.write(
        test_it=RANDOM_WRITE + "import os\ndef test_x(measure): measure(FIO)\ndef test_y(): os.kill(os.getpid(), 9)\n"
    )
    project.run("-n1", "--max-worker-restart=0", "--vm-without=turns", *FILES, own_process=True)
    assert read(project, "md").splitlines()[0] == "## Storage matrix: 1 passed, 1 FAILED"
    (test,) = json.loads(read(project, "json"))["rowless"]
    assert (test["nodeid"], test["outcome"]) == ("test_it.py::test_y", "failed")
    assert "crashed while running" in test["message"]


PROPERTIES = (
    RANDOM_WRITE
    + """
@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_two(measure, request):
    request.node.user_properties.append(("mine", 1))
    measure(FIO)
    measure(Dd(count=64))

@pytest.fixture
def early(measure): measure(FIO)

def test_early(early): assert 0
def test_no_figure(measure): assert 0
def test_plain(): pass
"""
)


def properties(project):
    """The properties of each test in the JUnit file, in their order."""
    cases = ET.parse(project.path / "j.xml").iter("testcase")
    return {case.get("name"): [(one.get("name"), one.get("value")) for one in case.iter("property")] for case in cases}


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_junit_has_each_figure_once(project, workers):
    """Beside the user's own properties, with unit, spread, cell and verdict, however often the test was run."""
    project.wish(accel="tcg")
    project.write(test_it=PROPERTIES)
    project.run("--vm-save=main", *workers, own_process=bool(workers))
    project.wish(accel="tcg", speed={"qcow2-*": 0.5})
    project.run("--vm-baseline=main", "--vm-day-spread=3%", "--junitxml=j.xml", *workers, own_process=bool(workers))
    told = properties(project)
    names = [name for name, _ in told["test_two[qcow2]"]]
    assert names[0] == "mine"
    assert [name for name in names if name != "mine"] == [
        *(f"vmstorage.{name}" for name in ("cell", "host", "accel", "caution", "verdict")),
        *(f"vmstorage.fio randwrite 4k qd32.iops{suffix}" for suffix in ("", ".unit", ".spread", ".verdict")),
        *(f"vmstorage.dd write 1M buffered count=64.bw{suffix}" for suffix in ("", ".unit", ".spread", ".verdict")),
    ]
    slow = dict(told["test_two[qcow2]"])
    assert slow["vmstorage.cell"] == "qcow2-none-virtio-blk-off 1G"
    assert slow["vmstorage.caution"].endswith("these figures say nothing about performance.")
    assert 4900 < float(slow["vmstorage.fio randwrite 4k qd32.iops"]) < 5100
    assert slow["vmstorage.verdict"] == slow["vmstorage.fio randwrite 4k qd32.iops.verdict"] == "SUSPECT"
    # measured by a fixture, of a test that failed
    assert "vmstorage.fio randwrite 4k qd32.iops.verdict" in dict(told["test_early"])
    assert [name for name, _ in told["test_no_figure"]] == ["vmstorage.cell"]
    assert told["test_plain"] == []


def test_properties_of_a_test_that_is_run_again(project):
    """Those of its last run, once."""
    project.write(test_it=RUNS, conftest=AGAIN)
    project.run("--vm-without=turns", "--junitxml=j.xml")
    names = [name for name, _ in properties(project)["test_second"]]
    assert len(names) == len(set(names)) == 6


STAND_INS = """
import json, sys, types

shown = {}
allure = types.SimpleNamespace(dynamic=types.SimpleNamespace())
allure.dynamic.parameter = lambda name, value, excluded: shown.setdefault("allure", []).append([name, value, excluded])
sys.modules["allure"] = allure

def pytest_addoption(parser): parser.addoption("--html", dest="htmlpath")

class Listener: pass

def pytest_configure(config): config.pluginmanager.register(Listener(), "allure_listener")

def pytest_runtest_logreport(report):
    for extra in getattr(report, "extras", []):
        shown.setdefault("html", []).append([report.when, extra["format_type"], extra["content"]])

def pytest_unconfigure(): open("shown.json", "w").write(json.dumps(shown))
"""


def test_reporters_that_show_no_properties_get_them_in_their_own_form(project):
    """pytest-html as HTML of the last report, allure-pytest as parameters that make no other test of it."""
    project.write(test_it=RANDOM_WRITE + "def test_x(measure): measure(FIO)\n", conftest=STAND_INS)
    project.run("--html=x.html", own_process=True).assert_outcomes(passed=1)
    shown = json.loads((project.path / "shown.json").read_text())
    name = "vmstorage.fio randwrite 4k qd32.iops"
    ((when, form, content),) = shown["html"]
    assert (when, form) == ("teardown", "html")
    assert f"<div>{name}: 10000.0</div><div>{name}.unit: IOPS</div>" in content
    assert [name, 10000.0, True] in shown["allure"]
    assert len(shown["allure"]) == content.count("<div>") == 6


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["one", "xdist"])
def test_a_sweep_over_depths_is_one_curve(project, workers):
    """By `over` and by parametrize alike, with one process or several; two depths are none."""
    project.write(
        test_it=RANDOM_WRITE
        + """
@pytest.mark.parametrize("job", Fio(rw="randwrite", runtime=5).over(iodepth=(1, 8, 32)))
def test_over(measure, job): measure(job)

@pytest.mark.parametrize("numjobs", [4, 2, 1])
def test_jobs(measure, numjobs): measure(Fio(rw="randread", numjobs=numjobs))

@pytest.mark.parametrize("iodepth", [1, 2])
def test_two(measure, iodepth): measure(Fio(rw="randread", bs="8k", iodepth=iodepth))
"""
    )
    text = text_of(project.run(*workers, "--vm-report=r.csv"))
    assert text.count("curve over ") == 2
    over = text.partition("curve over iodepth, fio randwrite 4k:")[2]
    assert over.split()[:5] == ["metric", "cell", "iodepth=1", "iodepth=8", "iodepth=32"]
    jobs = text.partition("curve over numjobs, fio randread 4k:")[2]
    assert jobs.split()[:5] == ["metric", "cell", "numjobs=1", "numjobs=2", "numjobs=4"]
    header, *rows = (project.path / "r.csv").read_text().splitlines()
    assert "at_iodepth,at_numjobs" in header
    assert any(row.endswith(",32,1") for row in rows)


NOTED = (
    RANDOM_WRITE
    + """
from pytest_vmstorage import ImageOperations

pytestmark = pytest.mark.storage_note("of the module")

@pytest.mark.storage_note("of the test")
@pytest.mark.parametrize("format", ["raw", pytest.param("qcow2", marks=pytest.mark.storage_note("of qcow2"))])
def test_write(measure):
    measure(FIO)

@pytest.mark.storage_note("of images")
def test_image(measure_image):
    measure_image(ImageOperations(data="64M"))
"""
)


@pytest.mark.parametrize("workers", [(), ("-n1",)])
def test_a_mark_puts_a_note_beside_its_rows(project, workers):
    """Of module, test and parameter; below the matrix and in the files, also when it comes from a worker."""
    project.write(test_it=NOTED)
    result = project.run("--strict-markers", "--vm-report=x.json", *workers)
    result.assert_outcomes(passed=3)
    rows = {m["nodeid"]: m["notes"] for m in json.loads((project.path / "x.json").read_text())["measurements"]}
    assert rows == {
        "test_it.py::test_write[raw]": ["of the module", "of the test"],
        "test_it.py::test_write[qcow2]": ["of the module", "of the test", "of qcow2"],
        "test_it.py::test_image": ["of the module", "of images"],
    }
    assert (
        "notes: test_write, test_image: of the module test_write: of the test test_image: of images"
        " test_write (1 of 2 rows): of qcow2" in flat(result)
    )


@pytest.mark.parametrize("given", ["", '" "', "4", '"a", "b"', 'text="a"'])
def test_a_note_without_a_text_is_refused(project, given):
    """Before anything is made, with the test that has it."""
    project.write(test_it=NOTED.replace('"of the test"', given))
    assert_refused(
        project.run(),
        "test_it.py::test_write[raw]: the mark storage_note has no text. Write @pytest.mark.storage_note(",
    )
    assert project.events == []


def test_the_hook_adds_to_the_report(two_cells):
    """pytest_vmstorage_report gets the run and may add lines."""
    two_cells.write(
        conftest="def pytest_vmstorage_report(config, run, comparison, lines):\n"
        "    assert comparison is None\n    lines.append(f'{len(run.measurements)} cells, bought in 2019')\n"
    )
    result = two_cells.run()
    assert "raw     10000 ±1" in text_of(result)
    assert "2 cells, bought in 2019" in text_of(result)


def test_the_hook_replaces_the_report(two_cells):
    """pytest_vmstorage_report may put its own lines in place of ours."""
    two_cells.write(conftest="def pytest_vmstorage_report(lines):\n    lines[:] = ['nothing to see']\n")
    result = two_cells.run()
    assert "nothing to see" in text_of(result)
    assert "IOPS" not in text_of(result)
    assert "±" not in text_of(result)


def test_a_killed_worker_loses_no_finished_result(project):
    """What was measured before a worker died is in the report and in the saved file."""
    project.write(
        test_it=RANDOM_WRITE
        + """
import os
@pytest.mark.parametrize("cache", ["none", "unsafe", "writeback", "directsync"])
def test_x(measure, cache):
    if cache == "directsync":
        os.kill(os.getpid(), 9)
    measure(FIO)
"""
    )
    options = ("--vm-without=turns", "--max-worker-restart=0", "--vm-report=r.json", "--benchmark-save=x")
    result = project.run("-n1", *options)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    run = json.loads((project.path / "r.json").read_text())
    assert [one["config"]["cache"] for one in run["measurements"]] == ["none", "unsafe", "writeback"]
    (saved,) = project.path.glob(".benchmarks/*/*.json")
    assert len(json.loads(saved.read_text())["benchmarks"]) == 3


def test_an_interrupted_run(project):
    """Ctrl-C in a measurement: the lab is closed, finished samples are in the journal, the matrix is printed.

    The rounds are taken in turns, so no test was reported yet.
    """
    project.wish(hangs={"qcow2-*": 4})
    project.write(
        test_it=RANDOM_WRITE
        + '@pytest.mark.parametrize("format", ["raw", "qcow2"])\ndef test_x(measure): measure(FIO)\n'
    )
    out = project.path / "out.txt"
    with out.open("w") as stream:
        process = project.pytester.popen(
            (*project.pytester._getpytestargs(), "--vm-report=r.csv", "--vm-seed=7", "--vm-details"),
            stdout=stream,
            stderr=stream,
        )
        wait_for(project.path / "events", "hang ", process)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == pytest.ExitCode.INTERRUPTED
    text = out.read_text()
    assert "no tests ran" in text
    assert re.search(r"^raw +(9950|10000|10100) +±", text, re.MULTILINE)
    assert "in turns with 1 other cell, --vm-seed=7, interrupted" in " ".join(text.split())
    assert "KeyboardInterrupt" in text
    assert "INTERNALERROR" not in text
    assert project.events[-1] == "close"
    assert "test_x[raw]" in (project.path / "r.csv").read_text()
    (journal,) = project.path.glob(".vmstorage/*.jsonl")
    kept = journal_samples(journal)
    # of three rounds in qcow2, the third hung
    formats = [one["config"]["format"] for one in kept]
    assert formats.count("qcow2") == 2
    assert formats.count("raw") in (2, 3)
    assert set(formats[:2]) == set(formats[2:4]) == {"raw", "qcow2"}
    assert [one["sample"]["order"] for one in kept] == sorted(one["sample"]["order"] for one in kept)
    assert (journal.parent / ".gitignore").read_text() == "*\n"


def test_rounds_in_a_row_that_were_interrupted(project):
    """The two that had ended stand in the report, and the lab is closed before anything else can fail."""
    project.wish(hangs={"qcow2-*": 4})
    project.write(
        test_it=RANDOM_WRITE + '@pytest.mark.storage(format="qcow2")\ndef test_x(measure): measure(FIO, rounds=4)\n'
    )
    out = project.path / "out.txt"
    with out.open("w") as stream:
        process = project.pytester.popen(
            (*project.pytester._getpytestargs(), "--vm-report=r.json"), stdout=stream, stderr=stream
        )
        wait_for(project.path / "events", "hang ", process)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == pytest.ExitCode.INTERRUPTED
    assert "INTERNALERROR" not in out.read_text()
    assert project.events[-1] == "close"
    (measured,) = json.loads((project.path / "r.json").read_text())["measurements"]
    assert len(measured["samples"]) == 2
    assert measured["hygiene"]["rounds"] == "in a row, interrupted"


def wait_for(path, word, process):
    """Wait until the file has that word."""
    deadline = time.monotonic() + 60
    while not (path.exists() and word in path.read_text()):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


COLUMNS = (
    RANDOM_WRITE
    + """
@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_x(measure):
    measure(FIO)
    measure(Dd(count=64))
    assert measure(Fio(rw="randrw", bs="8k", shown=("sys_cpu",))).shown == SHOWN
"""
)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_the_user_chooses_columns(project, workers):
    """By option and ini file, in their order; a workload that has none of them keeps its own."""
    project.write(
        test_it=COLUMNS.replace("SHOWN", '("read_clat_p99", "write_clat_p99", "runtime")'),
        pytest__ini="[pytest]\nvm_columns =\n    bw\n    +usr_cpu\n",
    )
    result = project.run("--vm-columns=clat_p99,runtime", "--vm-report=r.md", *workers)
    result.assert_outcomes(passed=2)
    (head,) = (line for line in (project.path / "r.md").read_text().splitlines() if line.startswith("| format"))
    assert [column.split("<br>")[1].strip() for column in head.split("|")[2:-1]] == [
        *("clat\\_p99 \\[s\\]", "runtime \\[s\\]", "bw \\[MiB/s\\]"),
        *("read\\_clat\\_p99 \\[s\\]", "write\\_clat\\_p99 \\[s\\]", "runtime \\[s\\]"),
    ]
    project.write(test_it=COLUMNS.replace("SHOWN", '("bw", "usr_cpu")'))
    by_ini = project.run("--vm-report=r.md", *workers)
    by_ini.assert_outcomes(passed=2)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_column_that_no_workload_has(project, workers):
    """It is refused before any test, with those there are; a worker of xdist can only say so in each test."""
    project.write(test_it=COLUMNS)
    # workloads that other tests of this process made are a user's own, and may have any column
    result = project.run("--vm-columns=iops,usr_cup", *workers, own_process=True)
    assert "--vm-columns names 'usr_cup', which no workload has. Did you mean 'usr_cpu'?" in flat(result)
    if workers:
        result.assert_outcomes(failed=2)
    else:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert project.events == []


def test_rates_in_mb(project):
    """In the terminal and Markdown; CSV keeps the base unit."""
    project.write(test_it=RANDOM_WRITE + "def test_x(measure): measure(Dd(count=64))\n")
    result = project.run("--vm-units=si", *FILES)
    assert "bw MB/s ↑" in flat(result)
    assert "210 ±" in text_of(result)
    markdown, table = ((project.path / f"out/r.{suffix}").read_text() for suffix in ("md", "csv"))
    assert "bw \\[MB/s\\]" in markdown
    assert "210 MB/s" in markdown
    assert ",MiB/s," in table
    assert "MB/s" not in table
    refused = project.run("--vm-units=metric")
    assert_refused(refused, "--vm-units=metric is not known. It is iec (MiB/s) or si (MB/s).")


def test_a_column_that_nothing_measured_has(two_cells):
    """A percentile that some job might ask for: only the run can tell."""
    result = two_cells.run("--vm-columns=iops,clat_p90", "--vm-columns=+read_iops")
    result.assert_outcomes(passed=2)
    assert "--vm-columns: nothing that was measured has clat_p90, read_iops; it has: iops, bw, lat_mean" in flat(result)


def test_columns_do_not_change_what_is_decided(two_cells):
    """The primary metric is held against the baseline, shown or not."""
    two_cells.begin_with("--vm-save=main")
    two_cells.wish(speed={"qcow2-*": 0.5})
    result = two_cells.run("--vm-columns=usr_cpu", "--vm-baseline=main", "--vm-day-spread=3%", "--vm-report=r.json")
    result.assert_outcomes(passed=1, failed=1)
    assert "usr_cpu % ↓" in flat(result)
    told = {one["config"]["format"]: one for one in json.loads((two_cells.path / "r.json").read_text())["measurements"]}
    assert told["qcow2"]["verdict"] == "SUSPECT"
    assert told["qcow2"]["shown"] == ["usr_cpu"]


def test_what_was_left_out_stands_in_the_report(two_cells):
    """By command line and ini file, with commas; the tool's warm-up is not run."""
    two_cells.write(pytest__ini="[pytest]\nvm_without =\n    warmup\n    guest-caches\n")
    result = two_cells.run("--vm-details")
    result.assert_outcomes(passed=2)
    assert "warm-up rounds: 0 (--vm-without=warmup)" in flat(result)
    assert "guest caches: written back, not dropped (--vm-without=guest-caches)" in flat(result)
    stronger = flat(two_cells.run("--vm-without=steady-state,cache-size", "--vm-without=host-caches", "--vm-details"))
    assert "warm-up rounds: 1" in stronger
    assert "steady state: not judged (--vm-without=steady-state)" in stronger
    assert "not held against memory (--vm-without=cache-size)" in stronger
    assert "host caches: written back, not dropped (--vm-without=host-caches)" in stronger


ALL = ("effects:", "best:", "cautions:", "time:", "more:")


@pytest.mark.parametrize(
    ("args", "ini", "there", "absent"),
    [
        (["-qq", "--vm-report=r.md"], "", ["wrote "], [" VM storage: ", "10000 ±1", *ALL]),
        (["--no-summary", "--vm-report=r.md"], "", ["wrote "], [" VM storage: ", "10000 ±1", *ALL]),
        (
            ["-q", "--vm-report=r.md"],
            "",
            ["wrote ", "10000 ±1", "host fakehost, tcg (emulated", "cautions:"],
            ["time:"],
        ),
        ([], "", ["10000 ±1", "no difference beyond spread", *ALL], ["proof, before the first I/O"]),
        (["-v"], "", ["10000 ±1", "proof, before the first I/O", "before each round:", "what moves what:"], ["more:"]),
        (["-q", "--vm-details"], "", ["proof, before the first I/O"], ["more:"]),
        ([], "verbosity_vmstorage = 1", ["proof, before the first I/O"], ["more:"]),
        (["-v"], "verbosity_vmstorage = -1", ["10000 ±1"], ["proof, before the first I/O", "time:"]),
        (["-v"], "vm_details = true\nverbosity_vmstorage = auto", ["proof, before the first I/O"], []),
    ],
)
def test_how_much_is_printed_follows_the_verbosity(two_cells, args, ini, there, absent):
    """pytest's own, one of ours in the ini file, or all by --vm-details; without a summary the files alone."""
    two_cells.wish(accel="tcg")
    two_cells.write(
        pytest__ini=f"[pytest]\n{ini}\n", test_two=TWO_CELLS.replace("measure(FIO)", "measure(FIO, rounds=3)")
    )
    result = two_cells.run("--vm-without=turns", *args)
    assert result.ret == 0
    assert [word for word in there if word not in text_of(result)] == []
    assert [word for word in absent if word in text_of(result)] == []


def test_a_verbosity_that_is_none_is_refused(two_cells):
    """Before anything is made."""
    two_cells.write(pytest__ini="[pytest]\nverbosity_vmstorage = loud\n")
    assert_refused(two_cells.run(), "verbosity_vmstorage='loud' is not a verbosity. Write a number as pytest counts:")
    assert two_cells.events == []


def test_colour_follows_pytests_own(two_cells):
    """With --color=yes words bear one; without its codes the text is the same."""
    two_cells.wish(speed={"qcow2-*": 0.01})
    coloured, plain = (
        text_of(two_cells.run(f"--color={wish}", "--vm-seed=1", "-p", "no:cacheprovider")).partition("VM storage: ")[2]
        for wish in ("yes", "no")
    )
    assert coloured.partition("\n")[0].endswith("\x1b[0m")
    assert "\x1b[31m\x1b[1mFAIL\x1b[0m" in coloured
    assert "\x1b" not in plain.partition("time:")[0]
    stripped = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert stripped.partition("time:")[0].splitlines()[1:] == plain.partition("time:")[0].splitlines()[1:]
