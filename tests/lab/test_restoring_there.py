"""Guests that are restored on a lab host: through its daemon, from a state that lies there."""

from __future__ import annotations

import sys
from pathlib import Path

from laboratory import Host, Laboratory
from project import Project
from test_measuring import nothing_is_left

from pytest_vmstorage.results.run import Run

CELLS = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("cache", ["none", "writethrough"])
@pytest.mark.storage(size="64M")
def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=1), rounds=2, warmup=0)
"""


def test_guests_are_restored_there(lab: Laboratory, lab01: Host, project: Project) -> None:
    """Unasked, under TCG: one saved in the first run and none in the second; `vmstorage reap` removes what is kept."""
    project.write(CELLS)
    reap = [sys.executable, "-m", "pytest_vmstorage.cli.command", "reap", "--host=lab01"]
    assert lab.run(reap, project.folder)[0] == 0
    for saves in (1, 0):
        code, text = project.run("--vm-host=lab01", "--vm-report=run.json")
        assert code == 0, text
        assert text.count("saving a guest from which others are restored") == saves, text
        rows = Run.model_validate_json((project.folder / "run.json").read_text()).measurements
        assert [row.hygiene["boot"] for row in rows] == ["restored"] * 4
        assert {proof.status for row in rows for proof in row.proof if proof.field == "cache"} == {"proven"}
    (states,) = (path for path in map(Path, lab01.left()) if path.name == "states")
    what = f"1 saved guest(s) in {states} on lab01"
    for option, said in (
        ("--dry-run", f"{what} would be removed too; a run that needs one"),
        (None, f"removed {what}"),
    ):
        code, text = lab.run([*reap, *([option] if option else [])], project.folder)
        assert code == 0, text
        assert [line for line in text.splitlines() if line.startswith(said)], text
    nothing_is_left(lab, lab01)
    assert states not in map(Path, lab01.left())
