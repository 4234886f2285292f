"""The help of our options: five groups that a screen or two hold, and a word for the ini file."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vmstorage.plugin.options import NOT_AXES, OPTIONS, ini_name

TITLES = [f"VM storage: {title}:" for _, title, _ in OPTIONS]
NAMES = [f"--vm-{name}" for _, _, options in OPTIONS for name, *_ in options]
TWO_LINES = ("--vm-without",)
"""Options whose text has more words than a line of 100 columns."""


def help_at(columns: int, folder: Path) -> list[str]:
    """The lines of `pytest --help` in a terminal of that width."""
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--help"]
    environ = {**os.environ, "COLUMNS": str(columns)}
    return subprocess.run(argv, cwd=folder, env=environ, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="module", params=[80, 100])
def shown(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, list[str]]:
    """A width, and the lines of the help there."""
    return request.param, help_at(request.param, tmp_path_factory.mktemp("help"))


def ours(lines: list[str]) -> list[str]:
    """Our groups: from the first of their titles to what follows the last one."""
    begin = lines.index(TITLES[0])
    end = lines.index("", lines.index(TITLES[-1]))
    return lines[begin:end]


def test_our_options_take_at_most_80_lines_in_five_groups(shown: tuple[int, list[str]]) -> None:
    """Each has its own place in the order of the table, and no other group is between."""
    columns, lines = shown
    found = ours(lines)
    assert len(found) <= 80
    assert [line for line in found if line and not line.startswith(" ")] == TITLES
    assert len(TITLES) == 5
    assert [match[0] for line in found if (match := re.match(r"--[\w-]+", line.strip())) and line[2] == "-"] == NAMES
    assert max(len(line) for line in found) <= columns


def test_the_text_of_an_option_is_one_line_of_100_columns(shown: tuple[int, list[str]]) -> None:
    """A reader looks down a column of sentences."""
    columns, lines = shown
    if columns < 100:
        pytest.skip("the texts are written for 100 columns")
    found = "\n".join(ours(lines))
    # an option of a long name has its text in the line below
    texts = re.findall(r"^  (--vm-[\w-]+)(\S*)(?:\n? +\S.*)((?:\n {24}\S.*)*)", found, flags=re.MULTILINE)
    assert [name for name, _, _ in texts] == NAMES
    assert tuple(name for name, _, further in texts if further) == TWO_LINES


def test_the_ini_half_refers_to_the_options(shown: tuple[int, list[str]]) -> None:
    """The words stand in one place of the help, the defaults too."""
    _, lines = shown
    text = "\n".join(lines)
    for name in NAMES:
        assert re.search(rf"^  {ini_name(name.removeprefix('--vm-'))} \(\w+\):\s+see {name}$", text, re.MULTILINE), name
    assert NOT_AXES in text


def test_a_default_stands_in_brackets(shown: tuple[int, list[str]]) -> None:
    """Of each option that has one."""
    # pytest 8 breaks lines at hyphens, too
    text = "".join("".join(ours(shown[1])).split())
    for _, _, options in OPTIONS:
        for name, _, _, default, words in options:
            wanted = f"{words} [{default}]" if default else words
            assert wanted.replace(" ", "") in text, name
