"""LVM and ZFS volumes on a lab host that has both: made, measured with a guest and without, removed, and reaped."""

from __future__ import annotations

import json
import sys

import pytest
from laboratory import wait_for
from machine import Machine
from project import Project, project_on

from pytest_vmstorage.results.run import Measurement, Run

pytestmark = pytest.mark.labvm

# an emulated processor has AMD's SVM: a KVM guest in the machine is emulated once, and not twice, which takes minutes
HOST = ("--vm-host=labvm", "--vm-accel=kvm", "--vm-timeout=5m")
RUN_S = 600.0

ROWS = """
import pytest
from pytest_vmstorage import Fio, ImageOperations

ROWS = [{"backing": name} for name in ("native:vg0", "native:tank", "lvm:vg0", "zvol:tank")]

@pytest.mark.parametrize((), [pytest.param(marks=pytest.mark.storage(size="64M", **row)) for row in ROWS])
def test_write(measure):
    result = measure(Fio(rw="randwrite", bs="4k", size="256K"), rounds=2, warmup=0)
    assert result.iops > 1

@pytest.mark.parametrize("backing", ["lvm:vg0", "zvol:tank"])
@pytest.mark.storage(size="64M")
def test_images(measure_image):
    measure_image(ImageOperations(data="8M"), rounds=2)
"""
WAITING = """
import time
from pathlib import Path
import pytest

@pytest.mark.storage(backing="BACKING", size="64M")
def test_and_never_end(guest):
    Path("guest.mark").touch()
    time.sleep(3600)
"""


def vmstorage(project: Project, *words: str) -> tuple[int, str]:
    """The command of that name on the controller."""
    return project.lab.run([sys.executable, "-m", "pytest_vmstorage.cli.command", *words], project.folder, RUN_S)


def nothing_is_left(machine: Machine) -> None:
    """No volume, no guest, no folder, no lease."""
    assert machine.volumes() == ([], [])
    assert machine.guests() == []
    assert machine.folders() == []
    assert machine.lab.leases() == []


def test_the_doctor_sees_group_and_dataset(machine: Machine, machine_project: Project) -> None:
    """Both can be written to, and nothing is."""
    code, text = vmstorage(machine_project, "doctor", "--vm-host=labvm", "--json")
    assert code == 0, text
    found = {(one["axis"], one["value"]): one for one in json.loads(text[text.index("{\n") :])["findings"]}
    for value, where in (("lvm:vg0", "volume group vg0"), ("zvol:tank", "dataset tank/vms")):
        one = found["backing", value]
        assert one["status"] == "yes", one
        assert where in one["why"]
    assert found["backing", "native"]["status"] == "yes"
    nothing_is_left(machine)


@pytest.fixture(scope="module")
def rows(machine: Machine) -> tuple[Measurement, ...]:
    """What one run measured of all of them, which left nothing: an emulated processor opens the host for a minute."""
    project = project_on(machine)
    project.write(ROWS)
    # in turns, each guest would be booted and each disk be filled for every round
    in_a_row = "--vm-without=turns"
    code, text = project.run(*HOST, in_a_row, "--vm-report=run.json", timeout_s=2 * RUN_S)
    assert code == 0, text
    nothing_is_left(machine)
    return Run.model_validate_json((project.folder / "run.json").read_text()).measurements


def test_volumes_are_measured_natively_and_with_a_guest(rows: tuple[Measurement, ...]) -> None:
    """Each is what its id says, by the host's and the guest's own word."""
    written = {one.config.backing: one for one in rows if one.nodeid.startswith("test_it.py::test_write")}
    assert set(written) == {"native:vg0", "native:tank", "lvm:vg0", "zvol:tank"}
    for backing, row in written.items():
        assert len(row.samples) == 2
        proofs = [one for one in row.proof if one.field == "backing"]
        assert [one.status for one in proofs] == ["proven", "proven"], proofs
        kind = "lvm" if backing.endswith("vg0") else "zvol"
        assert all(one.found.startswith(f"{kind} ") for one in proofs), proofs


@pytest.mark.parametrize("backing", ["lvm:vg0", "zvol:tank"])
def test_image_operations_on_a_volume(rows: tuple[Measurement, ...], backing: str) -> None:
    """Every operation that there is for it, twice."""
    images = [one for one in rows if one.nodeid.startswith("test_it.py::test_images")]
    (row,) = (one for one in images if one.config.backing == backing)
    assert len(row.samples) == 2


@pytest.mark.parametrize("backing", ["lvm:vg0", "zvol:tank"])
def test_what_a_killed_run_left_is_reaped(machine: Machine, machine_project: Project, backing: str) -> None:
    """Guest, volume and folder, of that run alone: a user's own volumes stay."""
    machine_project.write(WAITING.replace("BACKING", backing))
    with machine_project.going(*HOST) as run:
        run.wait_for_mark("guest", RUN_S)
        run.kill()
    lvs, zvols = machine.volumes()
    assert len(lvs) == (backing == "lvm:vg0")
    assert len(zvols) == (backing == "zvol:tank")
    assert len(machine.guests()) == 1
    code, text = vmstorage(machine_project, "reap", "--vm-host=labvm")
    assert code == 0, text
    assert "1 guest(s)" in text
    assert ("LVM volume vg0/vms-" if lvs else "ZFS volume tank/vms/vms-") in text
    wait_for(lambda: not machine.guests(), "the end of the guest")
    nothing_is_left(machine)
    assert vmstorage(machine_project, "reap", "--vm-host=labvm")[1].endswith("no dead run left anything\n")
