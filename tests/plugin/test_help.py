"""What `--fixtures` and `--markers` say of `plugin.fixtures` and `plugin.hooks`: a sentence and an example each."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from projects import flat, text_of

from pytest_vmstorage.plugin import fixtures
from pytest_vmstorage.plugin.hooks import MARKERS

FIXTURES = [
    node.name
    for node in ast.parse(Path(fixtures.__file__).read_text()).body
    if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
]

SWEEP = """
import pytest
from pytest_vmstorage import Fio, ImageOperations, cell

@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("queues", [1, 2])
def test_cells(measure):
    measure(Fio(rw="randread", bs="4k", runtime=5))
"""
"""What assertions between cells need."""

OFTEN = {
    "Rounds run without the function": "a_function_is_entered_once_for_each_workload_and_once_with_all_rounds",
    "What stands behind the last `measure` runs once": "a_property_is_recorded_once",
    "What stands before it runs twice": "a_function_is_entered_once_for_each_workload_and_once_with_all_rounds",
    "A test that fails or skips before it measures has run": "what_happens_once_is_seen",
    "A test with `guest` is entered again": "a_guest_that_a_command_changed_is_prepared_again",
    "Fixtures of wider scope are set up once more at most": "higher_scoped_fixtures_are_set_up_once_more_at_most",
    "Where rounds are taken in a row": "rounds_in_a_row_need_one_entry",
    "A test that declares its workload": "a_declared_workload_is_measured_before_its_test_begins",
}
"""How each line on what runs how often begins in the docstring of `measure`, and its test of test_entries.py."""


def document(name):
    """The docstring of a fixture, as pytest shows it."""
    node = next(one for one in ast.parse(Path(fixtures.__file__).read_text()).body if getattr(one, "name", "") == name)
    return ast.get_docstring(node)


def examples():
    """The lines of each fixture's example."""
    for name in FIXTURES:
        said = document(name).partition("Example: ")[2].partition("\n\n")[0]
        yield name, re.findall(r"`([^`]+)`", said)


def test_fixtures_have_a_sentence_and_an_example(project):
    """Without -v pytest prints a docstring's first paragraph."""
    project.write(test_it="def test_x(): ...\n")
    lines = project.run("--fixtures").outlines
    ours = lines[next(n for n, line in enumerate(lines) if "pytest_vmstorage.plugin.fixtures" in line) :]
    said = dict.fromkeys(FIXTURES, "")
    for line in ours:
        name = line.partition(" ")[0]
        if name in said and " -- " in line:
            last = name
        elif line.startswith("    "):
            said[last] += line
    for name, text in said.items():
        assert "Example: `" in text, name


def test_the_examples_of_fixtures_pass(project):
    """As they are printed, in one file; rounds are as many as an assertion between cells wants."""
    text = SWEEP
    for number, (name, lines) in enumerate(examples()):
        assert name in lines[-1]
        text += "\n".join(lines).replace("test_it", f"test_{number}_{name}") + "\n\n"
    project.write(test_it=text)
    project.run("--vm-rounds=7").assert_outcomes(passed=4 + len(FIXTURES))


def test_markers_have_a_sentence_and_an_example(project):
    """Each example can be written above a test, which passes with it."""
    result = project.run("--markers")
    found = dict(re.findall(r"^@pytest\.mark\.(\w+)\(.*Example: @(.*)$", text_of(result), flags=re.MULTILINE))
    for line in MARKERS:
        assert found[line.partition("(")[0]] in line
    text = "import pytest\nfrom pytest_vmstorage import Fio\n"
    for name in (line.partition("(")[0] for line in MARKERS):
        text += f"@{found[name]}\ndef test_{name}({'result' if name == 'workload' else 'storage'}): ...\n"
    project.write(test_it=text)
    project.run("--strict-markers").assert_outcomes(passed=len(MARKERS))


def test_what_runs_how_often_is_said_where_measure_is(project):
    """Each line of it has its test."""
    said = re.findall(r"^- (.*?)[:;,.(]", document("measure").replace("\n  ", " "), flags=re.MULTILINE)
    tests = (Path(__file__).parent / "test_entries.py").read_text()
    assert [one for one, begin in zip(said, OFTEN, strict=True) if not one.strip().startswith(begin)] == []
    for name in OFTEN.values():
        assert f"def test_{name}(" in tests
    project.write(test_it="def test_x(): ...\n")
    assert "What of the test runs how often" in flat(project.run("--fixtures", "-v"))
