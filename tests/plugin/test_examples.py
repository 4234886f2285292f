"""The examples: each collects the cells that its words promise, without a lab."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from projects import flat, text_of

from pytest_vmstorage.file_system import mkfs_argv

EXAMPLES = Path(__file__).parents[2] / "examples"


PLANS = [
    ("quickstart", 16, 16, 48),
    ("demonstration", 30, 30, 30),
    ("own_workload", 4, 4, 4),
    ("studies/test_proxmox4.py", 21, 20, 188),
    ("studies/test_devices.py", 3, 2, 24),
    ("studies/test_kvm_disk_2013.py", 12, 12, 48),
    ("studies/test_vm_io_2010.py", 7, 6, 28),
    ("studies/test_zfs_formats.py", 2, 2, 12),
    ("studies/test_whole_images.py", 9, 0, 9),
]


@pytest.mark.parametrize(("name", "cells", "guests", "tests"), PLANS)
def test_an_example_sweeps_what_it_says(project, name, cells, guests, tests):
    """Its plan has that many cells and tests, and none that cannot exist."""
    result = project.run("--vm-plan", str(EXAMPLES / name))
    assert result.ret == 0, text_of(result)
    assert f"{cells} cells, {guests} guest{'' if guests == 1 else 's'}, {tests} tests" in text_of(result)


# with devices and datasets of vmstorage.toml: what they are not the plan says, and that is not an error
LISTED = """
[hosts.local.devices.fast]
id = "no-such-device"
[hosts.local.partitions.p1]
id = "by-partuuid/no-such-partition"
[hosts.local.volume_groups.vg0]
[hosts.local.datasets.tank]
name = "no-such-pool/vms"
"""
PUBLISHED = [
    ("test_proxmox4.py", "32 GiB", 188, {}),
    ("test_devices.py", "64 GiB", 108, {}),
    ("test_devices.py", "64 GiB", 180, {"DEVICE": "fast", "GROUP": "vg0"}),
    ("test_vm_io_2010.py", "300 GiB", 28, {}),
    ("test_kvm_disk_2013.py", "100 GiB", 48, {}),
    ("test_kvm_disk_2013.py", "100 GiB", 60, {"PARTITION": "p1"}),
    ("test_whole_images.py", "32 GiB", 9, {}),
    ("test_whole_images.py", "32 GiB", 11, {"DATASET": "tank", "GROUP": "vg0"}),
    ("test_zfs_formats.py", "16 GiB", 12, {}),
    ("test_zfs_formats.py", "16 GiB", 18, {"DATASET": "tank", "CACHE": "writeback"}),
]


GROUNDS = """
import json
from pytest_vmstorage.plugin.keys import CONFIG
def pytest_collection_finish(session):
    cells = [item.stash[CONFIG] for item in session.items if CONFIG in item.stash]
    kinds = {(one.host_fs, one.host_mkfs, one.size) for one in cells if one.host_fs != "as-found"}
    kinds |= {(one.guest_fs, one.guest_mkfs, one.size) for one in cells if one.guest_fs != "none"}
    (session.config.rootpath / "grounds.json").write_text(json.dumps(sorted(kinds)))
"""


@pytest.mark.parametrize("name", sorted({name for name, *_ in PUBLISHED}))
def test_a_studys_own_file_systems_can_be_made(project, monkeypatch, name):
    """By this machine's mkfs, in the study's size, on sparse files: what it refuses was found by nobody else."""
    monkeypatch.setenv("STUDY", "published")
    shutil.copytree(EXAMPLES / "studies", project.path / "studies", ignore=shutil.ignore_patterns("__pycache__"))
    project.write(conftest=GROUNDS)
    assert project.run("--co", "-q", f"studies/{name}").ret == 0
    for kind, options, size in json.loads((project.path / "grounds.json").read_text()):
        file = project.path / "disk"
        with file.open("wb") as stream:
            stream.truncate(size + size // 10)
        argv = mkfs_argv(kind, options, str(file), field="host_mkfs", discard=True)
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        file.unlink()


@pytest.mark.parametrize(("name", "disk", "tests", "names"), PUBLISHED)
def test_a_study_can_be_planned_in_its_own_size(project, monkeypatch, name, disk, tests, names):
    """STUDY=published makes cells that can be, with and without devices to name."""
    for variable, value in {"STUDY": "published", **names}.items():
        monkeypatch.setenv(variable, value)
    project.write(vmstorage__toml=LISTED)
    result = project.run("--vm-plan", str(EXAMPLES / "studies" / name), f"--rootdir={project.path}")
    assert result.ret == 0, text_of(result)
    assert f" {tests} tests" in text_of(result)
    assert f"largest disk {disk}" in text_of(result)
    assert ("will have no figure" in text_of(result)) is bool(names)


def test_every_study_is_planned_in_its_own_size():
    """A new one is entered above."""
    assert {name for name, *_ in PUBLISHED} == {path.name for path in (EXAMPLES / "studies").glob("test_*.py")}


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


FINDINGS = [
    ({}, {}, {"passed": 24, "skipped": 1}),
    ({"ROUNDS": "6"}, {"native-*": 4.0}, {"passed": 25}),
    ({"ROUNDS": "6"}, {"native-*": 2.0}, {"passed": 24, "failed": 1}),
]


@pytest.mark.parametrize(("environ", "speed", "outcomes"), FINDINGS)
def test_what_a_study_found_is_asserted(project, monkeypatch, environ, speed, outcomes):
    """In its own one round nobody can say; in six the host is three times as fast, or the finding does not hold."""
    shutil.copytree(EXAMPLES / "studies", project.path, dirs_exist_ok=True)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    project.wish(speed=speed)
    result = project.run("test_devices.py", "-rs")
    result.assert_outcomes(**outcomes)
    assert (
        "test_the_host_reads_three_times_as_fast: backing=native is at least 3 times as fast as backing=file"
        in flat(result)
    )


def test_a_number_of_rounds_that_is_none_is_refused(project, monkeypatch):
    """As the study's files are read."""
    monkeypatch.setenv("ROUNDS", "many")
    result = project.run("--co", str(EXAMPLES / "studies" / "test_devices.py"))
    assert result.ret
    assert "ROUNDS=many is not a number of rounds. Write 1 or more." in text_of(result)
