"""`vmstorage calibrate` on a lab host, with few guests; a run there has its id."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from laboratory import Host, Laboratory
from project import Project
from test_measuring import nothing_is_left

from pytest_vmstorage.analysis.calibration import Calibration
from pytest_vmstorage.host.folders import cache_folder

FEW = """
import sys
from pytest_vmstorage.cli import command
from pytest_vmstorage.cli.calibrate import taking
taking.BOOTS, taking.ROUNDS, taking.FIRST_ROUNDS = 2, 3, 3
taking._BUSES, taking.WORKLOADS = (), taking.WORKLOADS[1:]
taking._PLACES = {"native": taking._PLACES["native"]}
sys.exit(command.main(["calibrate", *sys.argv[1:]]))
"""


def test_a_lab_host_is_calibrated_from_here(lab: Laboratory, lab01: Host, project: Project, tmp_path: Path) -> None:
    """Kept here under its name; no bare QEMU is begun there; its runs name it, and the doctor too."""
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "appliance").symlink_to((cache_folder() / "appliance").resolve())
    own = ["env", f"VMSTORAGE_CACHE={cache}"]
    code, text = lab.run([*own, sys.executable, "-c", FEW, "--host=lab01", "--format=json"], project.folder)
    assert code == 0, text
    made = Calibration.model_validate_json(text[text.index("{\n") : text.rindex("}") + 1])
    assert (made.host.name, made.listed_as, made.left_out, made.bare) == ("lab01", "lab01", (), ())
    assert [one.boots for one in made.noise] == [2]
    assert [one.place for one in made.yardsticks] == ["native"]
    (kept,) = (cache / "calibrations").iterdir()
    assert kept.name.startswith("lab01-")
    accel = f"--vm-accel={made.host.accel}"
    code, text = lab.run([*own, *project.argv("--vm-host=lab01", "--vm-report=run.json", accel)], project.folder)
    assert code == 0, text
    (host,) = json.loads((project.folder / "run.json").read_text())["hosts"]
    assert host["calibration"] == made.id
    doctor = [*own, sys.executable, "-m", "pytest_vmstorage.cli.command", "doctor", "--vm-host=lab01"]
    assert f"calibration   {made.id} of {made.day}: rounds differ by " in lab.run(doctor, project.folder)[1]
    nothing_is_left(lab, lab01)
