"""What every pytest user tries by habit works with storage tests too, or one sentence says why not.

docs/reference/habits.md lists what happens, with those that have tests elsewhere: beside ten other plugins in
tests/coexistence, what runs how often in `test_entries.py`, ways to parametrize in `test_sweeps.py`.

Tests of `plugin.hooks`, `plugin.settings` and `plugin.interleave`.
"""

from __future__ import annotations

import json
import re
import sys

import pytest
from commands import Parsers
from documents import ROOT
from projects import RANDOM_WRITE, TWO_CELLS, flat, text_of

MARKED = (
    RANDOM_WRITE
    + """
import logging
import sys

CELLS = pytest.mark.parametrize("format", ["raw", "qcow2"])

@CELLS
class TestOfAClass:
    @pytest.fixture(scope="class")
    def shared(self):
        with open("made", "a") as stream:
            stream.write("made ")
        return []

    @pytest.mark.parametrize("cache", ["none", "unsafe"])
    def test_swept(self, measure, storage, shared, request):
        assert measure(FIO).iops > 500
        shared.append(request.node.name)

@pytest.mark.parametrize("format", [
    "raw",
    pytest.param("qcow2", marks=pytest.mark.xfail(reason="known", strict=True)),
    pytest.param("vdi", marks=pytest.mark.skip(reason="not today")),
    pytest.param("vmdk", marks=pytest.mark.skipif(sys.platform != "none", reason="not here"), id="other"),
])
def test_params(measure, format):
    assert measure(FIO).iops > (1e9 if format == "qcow2" else 500)

@pytest.mark.xfail(strict=True, reason="passes")
def test_strict(measure):
    measure(FIO)

@pytest.mark.xfail(raises=AssertionError, reason="seldom")
def test_lenient(measure):
    assert measure(FIO).iops > 500

@pytest.mark.usefixtures("guest")
@CELLS
def test_used():
    pass

@pytest.fixture
def format(request):
    return request.param

@pytest.mark.parametrize("format", ["raw", "qcow2"], indirect=True)
def test_indirect(measure, storage, format):
    assert storage.format == format
    measure(FIO)

@CELLS
def test_pytests_own_fixtures(measure, monkeypatch, tmp_path, caplog, capsys, recwarn):
    monkeypatch.setenv("HABIT", "1")
    (tmp_path / "file").open("x").close()
    print("printed")
    logging.getLogger("mine").warning("logged")
    measure(FIO)
    assert capsys.readouterr().out == "printed\\n"
    assert caplog.messages == ["logged"]
    assert not recwarn.list

@CELLS
def test_late(request, storage):
    request.getfixturevalue("measure")(FIO)
"""
)


def test_marks_fixtures_and_parameters(project):
    """Classes, params with marks, strict xfail, usefixtures, indirect, getfixturevalue and pytest's own fixtures."""
    project.write(test_it=MARKED)
    result = project.run("-rA")
    outcomes = {
        line.partition("::")[2].partition(" - ")[0]: line.partition(" ")[0]
        for line in result.outlines
        if re.match("(PASSED|FAILED|XFAIL|XPASS) ", line)
    }
    assert outcomes == {
        **{
            f"TestOfAClass::test_swept[{cell}]": "PASSED"
            for cell in ("raw-none", "raw-unsafe", "qcow2-none", "qcow2-unsafe")
        },
        "test_params[raw]": "PASSED",
        "test_params[qcow2]": "XFAIL",
        "test_strict": "FAILED",
        "test_lenient": "XPASS",
        **{
            f"test_{name}[{cell}]": "PASSED"
            for name in ("used", "indirect", "pytests_own_fixtures", "late")
            for cell in ("raw", "qcow2")
        },
    }
    assert "[XPASS(strict)] passes" in text_of(result)
    result.assert_outcomes(passed=13, failed=1, skipped=2, xfailed=1, xpassed=1)


CHOSEN = (
    TWO_CELLS
    + """
@pytest.mark.storage(size="2G")
def test_marked(storage): ...

@pytest.mark.workload(FIO)
def test_declared(result): ...

def test_between(assert_fastest): ...

def test_plain(): ...
"""
)
MEASURING = ["test_random_write[raw]", "test_random_write[qcow2]"]


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["-m", "storage"], [*MEASURING, "test_marked", "test_declared", "test_between"]),
        (["-m", "not storage"], ["test_plain"]),
        (["-m", "workload"], ["test_declared"]),
        (["-k", "qcow2 or plain"], ["test_random_write[qcow2]", "test_plain"]),
        (
            ["-k", "not raw and not between", "--deselect=test_it.py::test_marked"],
            [MEASURING[1], "test_declared", "test_plain"],
        ),
        (["test_it.py::test_random_write[qcow2]"], ["test_random_write[qcow2]"]),
    ],
)
def test_tests_are_chosen(project, options, wanted):
    """By mark, whether it is written or not, by part of an id, by node id; collecting opens no lab."""
    project.write(test_it=CHOSEN)
    # a cell's tests stand together
    assert sorted(project.ids(*options)) == sorted(wanted)
    assert project.events == []


def test_what_failed_comes_again(project):
    """--lf, --ff and --nf choose and order as with any test; cells stay together."""
    project.write(
        test_it=RANDOM_WRITE
        + '@pytest.mark.parametrize("format", ["raw", "qcow2", "vdi"])\n'
        + "def test_it(measure, format): assert measure(FIO).iops > (1e9 if format == 'qcow2' else 1)\n"
    )
    project.run("--tb=no").assert_outcomes(passed=2, failed=1)
    assert project.ids("--lf") == ["test_it[qcow2]"]
    assert project.ids("--ff") == ["test_it[qcow2]", "test_it[raw]", "test_it[vdi]"]
    project.write(test_new="def test_new(storage): ...\n")
    assert project.ids("--nf")[0] == "test_new"
    result = project.run("--lf", "--tb=no")
    result.assert_outcomes(failed=1)
    assert "rerun previous 1 failure" in text_of(result)


def test_maxfail_ends_the_run(project):
    """After as many failures as were allowed."""
    project.write(
        test_it=RANDOM_WRITE
        + '@pytest.mark.parametrize("bus", ["virtio-blk", "ide", "sata", "usb"])\n'
        + "def test_it(measure): assert measure(FIO).iops > 1e9\n"
    )
    result = project.run("--maxfail=2", "--tb=no", "--vm-without=turns")
    result.assert_outcomes(failed=2)
    assert "stopping after 2 failures" in text_of(result)
    assert sum(event.startswith("guest ") for event in project.events) == 2


def test_plugins_that_are_switched_off(project):
    """xdist, pytest-benchmark, testinfra and the cache are missed where they are wanted, and nowhere else."""
    project.write(test_it=TWO_CELLS + "def test_kernel(guest): assert guest.run('true')\n")
    names = ("xdist", "benchmark", "testinfra", "pytest11.testinfra", "cacheprovider", "junitxml", "pastebin")
    result = project.run(*(f"-pno:{name}" for name in names), "-k", "not kernel")
    result.assert_outcomes(passed=2, deselected=1)
    assert "no:" not in text_of(result)


LOOKS = [
    (["--setup-plan"], "SETUP    F measure (fixtures used: storage)", []),
    (["--setup-only"], "SETUP    F measure (fixtures used: storage)", ["open", "close"]),
    (["--fixtures-per-test"], "fixtures used by test_random_write[raw]", []),
    (["--collect-only"], "<Function test_random_write[raw]>", []),
]


@pytest.mark.parametrize(("options", "line", "events"), LOOKS, ids=[options[0] for options, *_ in LOOKS])
def test_a_look_at_tests_measures_nothing(two_cells, options, line, events):
    """Fixtures and tests are shown; a guest is made for one that asks for it, by --setup-only alone."""
    result = two_cells.run(*options)
    assert result.ret == 0
    assert line in text_of(result)
    assert two_cells.events == events


def test_setting_up_only_makes_a_guest_that_is_asked_for(project):
    """And measures nothing in it."""
    project.write(test_it=TWO_CELLS.replace("measure):", "measure, guest):"))
    assert project.run("--setup-only").ret == 0
    events = [event.partition(" ")[0] for event in project.events]
    assert events.count("guest") == events.count("discard") == 2
    assert "fill" not in events


BESIDE = """
import pytest

def double(number):
    '''
    >>> double(2)
    4
    '''
    return 2 * number

def test_inner_run(pytester):
    pytester.makepyfile("def test_x(storage): assert storage.format == 'raw'")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
"""


@pytest.mark.parametrize("mode", ["prepend", "importlib"])
def test_other_kinds_of_tests_beside(project, mode):
    """Doctests, a test that runs pytest itself, output that is not captured, and two ways of importing."""
    project.write(conftest='pytest_plugins = ["pytester"]\n', test_two=TWO_CELLS, test_beside=BESIDE)
    result = project.run("--doctest-modules", f"--import-mode={mode}", "-s")
    result.assert_outcomes(passed=4)


INI_FILES = {
    "pytest__ini": "[pytest]\nvm_rounds = 2\naddopts = --vm-units=si\n",
    "tox__ini": "[pytest]\nvm_rounds = 2\naddopts = --vm-units=si\n",
    "setup__cfg": "[tool:pytest]\nvm_rounds = 2\naddopts = --vm-units=si\n",
    "pyproject__toml": '[tool.pytest.ini_options]\nvm_rounds = 2\naddopts = ["--vm-units=si"]\n',
}
RATE = (
    RANDOM_WRITE
    + '@pytest.mark.parametrize("format", ["raw", "qcow2"])\ndef test_rate(measure): '
    + "assert len(measure(Dd(bs='1M', count=64)).samples) == 2\n"
)


@pytest.mark.parametrize("name", INI_FILES)
def test_options_in_each_kind_of_ini_file(project, name, monkeypatch):
    """Of the folder above, when pytest is run in a folder below, which is where reports are written."""
    project.write(**{name: INI_FILES[name]})
    below = project.path / "below"
    below.mkdir()
    (below / "test_rate.py").write_text(RATE)
    monkeypatch.chdir(below)
    result = project.run("--vm-report=r.md")
    result.assert_outcomes(passed=2)
    assert "MB/s" in text_of(result)
    assert (below / "r.md").exists()
    assert not (below / ".vmstorage").exists()
    assert (project.path / ".vmstorage").exists()


@pytest.mark.parametrize(("option", "stops"), [("--trace", 2), ("--pdb", 1)])
def test_a_debugger_stops_in_a_test_once(project, option, stops):
    """Rounds are taken in a row, so that no function is entered which is not reported."""
    project.write(
        test_two=TWO_CELLS.replace("(measure):", "(measure, format):").replace(
            "> 500", "> (1e9 if format == 'raw' else 1)"
        )
    )
    command = (sys.executable, "-m", "pytest", option, "--vm-report=r.json")
    result = project.pytester.run(*command, stdin=b"continue\n" * 9)
    result.assert_outcomes(passed=1, failed=1)
    assert text_of(result).count("(Pdb)") == stops
    measured = json.loads((project.path / "r.json").read_text())["measurements"]
    assert [one["hygiene"]["rounds"] for one in measured] == ["in a row"] * 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--vm-against=cache=unsafe"], "and there are none with --trace. Leave one of the two out."),
        (["--vm-host=lab01,lab02"], "which --trace cannot debug: name one host."),
    ],
)
def test_a_debugger_that_cannot_be(two_cells, options, sentence):
    """What needs turns, or several processes, says so."""
    result = two_cells.run("--trace", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert sentence in flat(result)


def test_the_page_of_habits_names_options_that_exist(project, monkeypatch):
    """Each that stands before what happens."""
    parsers = Parsers(project.pytester, monkeypatch)
    rows = re.findall(r"^\| (.+?) \| ", (ROOT / "docs/reference/habits.md").read_text(), re.MULTILINE)
    options = [one for row in rows for one in re.findall("`(-[^`]+)`", row)]
    assert len(options) > 20
    # a plugin that is switched off takes its options with it
    off = [option for option in options if option.startswith("-p ")]
    parsers.check(f"pytest {' '.join(option for option in options if option not in off)}")
    parsers.check(f"pytest {' '.join(off)}")
