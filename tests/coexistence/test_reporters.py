"""Plugins that report: each test once, with its figures, and nothing of an entry that was ended at `measure`.

Tests of `plugin.entry`, `plugin.allure` and `plugin.measuring`.
"""

from __future__ import annotations

import html
import json
import re
from collections import Counter

import pytest
from plugged import ALL, HEAD, HTML, IN_TURNS
from projects import text_of

TESTS = (
    HEAD
    + """
@CELLS
def test_green(measure):
    assert measure(FIO).iops > 500

@CELLS
def test_red(measure):
    assert measure(FIO).iops > 1e9

@CELLS
def test_early(measure, format):
    assert format == "raw"
    measure(FIO)

@CELLS
def test_guest(measure, guest):
    guest.run("modprobe bfq")
    measure(FIO)
    measure(Dd(bs="1M", count=64))

@CELLS
@pytest.mark.workload(FIO, at_least={"iops": 500})
def test_declared(result): pass

def test_plain(): pass
"""
)
OUTCOMES = {
    **{
        f"test_{name}[{cell}]": "passed"
        for name in ("green", "early", "guest", "declared")
        for cell in ("raw", "qcow2")
    },
    **{f"test_red[{cell}]": "failed" for cell in ("raw", "qcow2")},
    "test_early[qcow2]": "failed",
    "test_plain": "passed",
}
IOPS = "vmstorage.fio randwrite 4k qd32.iops"
TO_JSON, TO_HTML, TO_ALLURE = ("--json-report",), ("--html=r.html",), ("--alluredir=allure",)
OTHERS = ("--timeout=60", "--cov=.", "--reruns=0", "--force-sugar")
REPORT = "--vm-report=r.json"


@pytest.fixture
def reported(project, request):
    """A project that ran with one reporter, or with all ten plugins."""
    plugins, options = request.param
    project.write(test_it=TESTS)
    if plugins != ALL:
        options = (*options, "-pno:randomly")
    result = project.begin_with_plugins(plugins, *options, REPORT, "-ocache_dir=.cache", ret=1)
    assert "INTERNALERROR" not in text_of(result)
    run = json.loads((project.path / "r.json").read_text())
    rounds = {one["nodeid"]: one["hygiene"]["rounds"] for one in run["measurements"]}
    assert len(rounds) == 9
    assert [one for one in rounds.values() if not one.startswith(IN_TURNS)] == []
    return project


TOGETHER = pytest.param((ALL, (*TO_JSON, *TO_HTML, *TO_ALLURE, *OTHERS)), id="together")


def with_one(plugins, options):
    """Run a test with that reporter alone, and with all plugins together."""
    return pytest.mark.parametrize("reported", [pytest.param((plugins, options), id="alone"), TOGETHER], indirect=True)


@with_one(("metadata", "pytest_jsonreport"), TO_JSON)
def test_json_report_has_each_test_once_with_its_figures(reported):
    """In user_properties, the duration being that of its rounds too; turns go on."""
    found = json.loads((reported.path / ".report.json").read_text())
    tests = {one["nodeid"].partition("::")[2]: one for one in found["tests"]}
    assert len(found["tests"]) == len(tests)
    assert {name: one["outcome"] for name, one in tests.items()} == OUTCOMES
    for name, one in tests.items():
        properties = {key: value for pair in one.get("user_properties", ()) for key, value in pair.items()}
        has_figure = name not in ("test_plain", "test_early[qcow2]")
        assert (IOPS in properties) == has_figure, name
        assert len(properties) == len(one.get("user_properties", ()))


@with_one(("metadata", HTML), TO_HTML)
def test_html_has_a_row_for_each_test(reported):
    """With its figures beside it."""
    page = (reported.path / "r.html").read_text()
    tests = json.loads(html.unescape(re.search(r'data-jsonblob="([^"]*)"', page)[1]))["tests"]
    assert {name.partition("::")[2]: [one["result"].lower() for one in rows] for name, rows in tests.items()} == {
        name: [outcome] for name, outcome in OUTCOMES.items()
    }
    assert f"{IOPS}: " in tests["test_it.py::test_green[raw]"][0]["extras"][0]["content"]


@with_one(("allure_pytest",), TO_ALLURE)
def test_allure_has_a_result_for_each_test(reported):
    """No other one, and no set-up of a fixture that is in no result."""
    folder = reported.path / "allure"
    results = [json.loads(path.read_text()) for path in folder.glob("*-result.json")]
    assert Counter((one["fullName"].partition("#")[2], one["status"]) for one in results) == Counter(
        (name.partition("[")[0], outcome) for name, outcome in OUTCOMES.items()
    )
    shown = {name["name"] for one in results for name in one.get("parameters", ()) if one["status"] == "passed"}
    assert IOPS in shown
    made = [json.loads(path.read_text()) for path in folder.glob("*-container.json")]
    fixtures = Counter(fixture["name"] for one in made for fixture in one.get("befores", ()))
    assert (fixtures["storage"], fixtures["measure"], fixtures["guest"], fixtures["result"]) == (10, 8, 2, 2)


def test_attachments_of_allure_are_those_of_the_last_entry(project):
    """A text, and a file that is removed at once."""
    project.write(
        test_it=HEAD
        + """
import allure
@CELLS
def test_it(measure, tmp_path):
    (tmp_path / "one").write_text("file")
    allure.attach.file(str(tmp_path / "one"))
    (tmp_path / "one").unlink()
    allure.attach("text")
    measure(FIO)
"""
    )
    project.run_with(["allure_pytest"], *TO_ALLURE).assert_outcomes(passed=2)
    attached = [path.read_text() for path in (project.path / "allure").glob("*-attachment*")]
    assert sorted(attached) == ["file", "file", "text", "text"]


def test_coverage_has_each_line_of_a_test_file(project):
    """Those before `measure` and those behind it."""
    project.write(
        test_it=HEAD
        + """
@CELLS
def test_it(measure):
    before = 1
    found = measure(FIO)
    behind = found.iops
    note(before)
"""
    )
    result = project.run_with(["pytest_cov"], "--cov=.", "--cov-report=json")
    result.assert_outcomes(passed=2)
    found = json.loads((project.path / "coverage.json").read_text())
    assert found["files"]["test_it.py"]["missing_lines"] == []


def test_sugar_shows_each_test_once(project):
    """Its bar is full at the end, and no test comes twice."""
    project.write(test_it=HEAD + "@CELLS\ndef test_it(measure):\n    measure(FIO)\n")
    text = text_of(project.run_with(["sugar"], "--force-sugar", "-v"))
    assert text.count("✓") == 2
    assert "100%" in text
    assert "2 passed" in text
