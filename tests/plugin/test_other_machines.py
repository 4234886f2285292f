"""Machines that the plugin did not make as cells: here this machine itself, without libvirt or QEMU."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from pathlib import Path

import pytest
from projects import RANDOM_WRITE, assert_refused, flat, text_of

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="this machine measures with its own fio")

QUICK = 'Fio(rw="randwrite", bs="4k", iodepth=4, size="8M", runtime=0.2)'
ON_A_MACHINE = (
    RANDOM_WRITE
    + f"""
@pytest.mark.storage(size="16M")
@pytest.mark.parametrize("backing", ["machine:here"])
def test_it(measure, guest):
    assert guest.host.file(guest.disk).size == 16 * 2**20
    assert measure({QUICK}).iops > 0
"""
)
TOOLS = (
    "awk blockdev cat cut dd df du fio flock getconf grep head id losetup mkdir pgrep readlink rm sed sh sha256sum stat"
    " sync timeout truncate uname"
)
"""All that such a machine has."""

LABEL = 'label = {format = "vmfs", bus = "pvscsi", hypervisor = "ESXi 7"}\n'


def inventory(project, *, name="here"):
    """A vmstorage.toml with this machine, measured in a folder of the project."""
    return f'[machines.{name}]\nfolder = "{project.path}/bench"\n{LABEL}'


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Real measurements may go on beside these tests, and hold this machine's lock."""
    monkeypatch.setattr("pytest_vmstorage.host.lock.HostLease.alone", lambda *_: contextlib.nullcontext())


@pytest.fixture
def alone(project, monkeypatch):
    """A project without the fake lab: what opens is the real one."""
    monkeypatch.delenv("PYTEST_PLUGINS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project.path / "cache"))
    monkeypatch.setenv("HOME", str(project.path))
    project.write(test_it=ON_A_MACHINE, vmstorage__toml=inventory(project))
    return project


def test_a_machine_is_measured_where_nothing_runs_guests(alone, monkeypatch):
    """Named before anything is written, measured, proven as far as that goes, and left as it was found."""
    bare = alone.path / "bin"
    bare.mkdir()
    for tool in TOOLS.split():
        if found := shutil.which(tool):
            (bare / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(bare))
    result = alone.run("--vm-report=run.json", "--vm-details")
    result.assert_outcomes(passed=1)
    text = flat(result)
    assert "backing=machine:here: this machine, a file of 16 MiB is made in" in text
    assert "not provable here: format, bus, hypervisor (stated by vmstorage.toml)" in text
    assert "vmfs (stated)" in text
    assert "machine here, which the plugin did not make" in text
    assert "out of reach: what lies below the machine is not the plugin's" in text
    assert "libvirt" not in text
    assert list((alone.path / "bench").iterdir()) == []


def test_its_row_stands_beside_ours(project):
    """One matrix; the machine's rounds take turns with those of guests."""
    both = ON_A_MACHINE.replace('["machine:here"]', '["file", "machine:here"]')
    both = both.replace("    assert guest.host.file(guest.disk).size == 16 * 2**20\n", "")
    project.write(test_it=both, vmstorage__toml=inventory(project))
    result = project.run("--vm-rounds=2")
    result.assert_outcomes(passed=2)
    text = text_of(result)
    assert "raw            virtio-blk" in text
    assert "vmfs (stated)  pvscsi (stated)" in text
    assert [event for event in project.events if event.startswith("guest")] == ["guest raw-none-virtio-blk-off"]
    assert list((project.path / "bench").iterdir()) == []


def test_the_gate_compares_a_machine_with_itself(alone):
    """Saved and judged like any other row."""
    alone.run("--vm-save=main").assert_outcomes(passed=1)
    result = alone.run("--vm-baseline=main", "--vm-inconclusive=warn", "--vm-day-spread=400%", "-rs")
    # its figures are real ones, whatever this machine does meanwhile
    assert any(f"1 {kind}" in text_of(result) for kind in ("PASS", "IMPROVED", "INCONCLUSIVE", "SUSPECT"))
    assert "no such cell" not in flat(result)


def test_several_cells_on_one_machine_take_turns(alone):
    """Its file is one cell's at a time: the other's is removed before."""
    alone.write(
        test_it=ON_A_MACHINE.replace(
            '"backing", ["machine:here"]',
            '"state,backing", [("filled", "machine:here"), ("rewritten", "machine:here")]',
        )
    )
    result = alone.run("--vm-rounds=2")
    result.assert_outcomes(passed=2)
    assert list((alone.path / "bench").iterdir()) == []


@pytest.mark.parametrize("options", [(), ("--vm-plan",)], ids=["run", "plan"])
def test_a_machine_that_nothing_lists_is_a_usage_error(project, options):
    """With what to write; no lab is opened."""
    project.write(test_it=ON_A_MACHINE, vmstorage__toml=inventory(project, name="there"))
    assert_refused(
        project.run(*options),
        f"backing=machine:here needs a machine of that name in {project.path}/vmstorage.toml. List it there:"
        ' [machines.here] with ssh = "root@10.0.0.5" and disk or folder. It has: there.',
    )
    assert project.events == []


def test_a_disk_by_its_name_of_today_is_a_usage_error(project):
    """The machine is asked which id it has, and nothing more."""
    disks = [one.name for one in Path("/sys/block").iterdir() if one.name.startswith(("vd", "sd", "nvme", "loop"))]
    if not disks:
        pytest.skip("this machine has no block device to be named")
    text = f'[machines.here]\ndisk = "/dev/{disks[0]}"\nallow_destroy = true\n'
    project.write(test_it=ON_A_MACHINE, vmstorage__toml=text)
    assert_refused(
        project.run(),
        f'{project.path}/vmstorage.toml, [machines.here]: disk = "/dev/{disks[0]}" is a name that may be another'
        " disk's after the next boot",
    )
    assert project.events == []


def test_a_cell_that_a_machine_cannot_be_is_a_usage_error(project):
    """It is as it is; what lies below it is stated in its label."""
    project.write(
        test_it=ON_A_MACHINE.replace('size="16M"', 'size="16M", format="qcow2"'), vmstorage__toml=inventory(project)
    )
    assert_refused(
        project.run(),
        "machine:here cannot exist: backing=machine is a machine that the plugin did not make, so that only the state",
    )


def test_a_tool_that_is_not_there_is_a_skip_that_names_it(alone):
    """And a failure with --vm-strict; nothing is installed on such a machine."""
    name = "no-such-tool"
    own = f"""
import pytest
from pytest_vmstorage import Fio
class Own(Fio):
    tool = "{name}"
@pytest.mark.storage(size="16M", backing="machine:here")
def test_it(measure): measure(Own(rw="randwrite", bs="4k", iodepth=4, size="8M", runtime=0.2))
"""
    alone.write(test_it=own)
    result = alone.run("-rs")
    result.assert_outcomes(skipped=1)
    assert f"The machine here (this machine) lacks {name}. Install it there;" in flat(result)
    alone.run("--vm-strict").assert_outcomes(failed=1)


def test_a_machine_out_of_reach_costs_its_own_cells_only(project, monkeypatch):
    """It is said before the run, and again in its row."""
    bad = project.path / "bin"
    bad.mkdir()
    (bad / "ssh").write_text("#!/bin/sh\necho 'ssh: connect to host gone port 22: No route to host' >&2\nexit 255\n")
    (bad / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bad}:{os.environ['PATH']}")
    both = ON_A_MACHINE.replace('["machine:here"]', '["file", "machine:here"]')
    both = both.replace("    assert guest.host.file(guest.disk).size == 16 * 2**20\n", "")
    text = inventory(project).replace("folder", 'ssh = "root@gone"\nfolder')
    project.write(test_it=both, vmstorage__toml=text)
    result = project.run()
    result.assert_outcomes(passed=1, errors=1)
    said = flat(result)
    assert "machine:here will have no figure: ssh to root@gone failed:" in said
    assert "test_it on machine:here 16M, here: " in said


def test_a_machine_under_this_hosts_name_is_refused(project):
    """Rows of both would be one host's."""
    name = socket.gethostname()
    project.write(
        test_it=ON_A_MACHINE.replace("machine:here", f"machine:{name}"), vmstorage__toml=inventory(project, name=name)
    )
    assert_refused(project.run(), f"[machines.{name}]: rows of this host bear that name.")
