"""The examples: each collects the cells that its words promise, without a lab."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from projects import text_of

EXAMPLES = Path(__file__).parents[2] / "examples"


PLANS = [
    ("quickstart", 16, 16, 48),
    ("demonstration", 30, 30, 30),
    ("studies/test_proxmox4.py", 21, 20, 188),
    ("studies/test_devices.py", 2, 1, 16),
    ("studies/test_kvm_disk_2013.py", 12, 12, 48),
    ("studies/test_whole_images.py", 9, 0, 9),
]


@pytest.mark.parametrize(("name", "cells", "guests", "tests"), PLANS)
def test_an_example_sweeps_what_it_says(project, name, cells, guests, tests):
    """Its plan has that many cells and tests, and none that cannot exist."""
    result = project.run("--vm-plan", str(EXAMPLES / name))
    assert result.ret == 0, text_of(result)
    assert f"{cells} cells, {guests} guest{'' if guests == 1 else 's'}, {tests} tests" in text_of(result)


def test_every_example_is_tried_here():
    """A new one is entered above."""
    there = {path.relative_to(EXAMPLES) for path in EXAMPLES.glob("*/test_*.py")}
    named = {Path(name) for name, *_ in PLANS}
    assert {path for path in there if path not in named and path.parent not in named} == set()


def test_the_demonstration_runs(project):
    """In the fake lab: 30 rows with figures, by its own configuration of one round."""
    # a copy: a run leaves its journal
    shutil.copytree(EXAMPLES / "demonstration", project.path, dirs_exist_ok=True)
    result = project.run()
    result.assert_outcomes(passed=30)
    assert "n=1" in text_of(result)
