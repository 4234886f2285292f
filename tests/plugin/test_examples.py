"""The examples: each collects the cells that its words promise, without a lab."""

from __future__ import annotations

import ast
import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from projects import flat, text_of

from pytest_vmstorage.config.fs_options import mkfs_argv
from pytest_vmstorage.workloads.base import Target

EXAMPLES = Path(__file__).parents[2] / "examples"


PLANS = [
    ("quickstart", 16, 16, 48),
    ("demonstration", 30, 30, 30),
    ("own_workload", 4, 4, 4),
    ("studies/test_proxmox4.py", 21, 20, 189),
    ("studies/test_devices.py", 3, 2, 36),
    ("studies/test_kvm_disk_2013.py", 24, 24, 48),
    ("studies/test_vm_io_2010.py", 7, 6, 35),
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
    ("test_proxmox4.py", "32 GiB", 189, {}),
    ("test_devices.py", "64 GiB", 108, {}),
    ("test_devices.py", "64 GiB", 180, {"DEVICE": "fast", "GROUP": "vg0"}),
    ("test_vm_io_2010.py", "300 GiB", 35, {}),
    ("test_kvm_disk_2013.py", "100 GiB", 48, {}),
    ("test_kvm_disk_2013.py", "100 GiB", 60, {"PARTITION": "p1"}),
    ("test_whole_images.py", "32 GiB", 9, {}),
    ("test_whole_images.py", "32 GiB", 11, {"DATASET": "tank", "GROUP": "vg0"}),
    ("test_zfs_formats.py", "16 GiB", 12, {}),
    ("test_zfs_formats.py", "16 GiB", 18, {"DATASET": "tank", "CACHE": "writeback"}),
]


GROUNDS = """
import json
from pytest_vmstorage.plugin.stash import CONFIG
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
    """In the fake lab: 28 rows with figures, by its own configuration of one round.

    The fake host's QEMU is 7.2, whose usb disks are not write-through whatever is asked: two cells fail their proof.
    """
    # a copy: a run leaves its journal
    shutil.copytree(EXAMPLES / "demonstration", project.path, dirs_exist_ok=True)
    result = project.run()
    result.assert_outcomes(passed=28, errors=2)
    assert "n=1" in text_of(result)


FINDINGS = [
    ({}, {}, {"passed": 36, "skipped": 16}),
    ({"ROUNDS": "6"}, {"native-*": 4.0, "raw-*": 5.0}, {"passed": 37, "failed": 1, "skipped": 14}),
    ({"ROUNDS": "6"}, {"native-*": 4.0}, {"passed": 37, "failed": 1, "skipped": 14}),
    ({"ROUNDS": "6"}, {"native-*": 2.0}, {"passed": 36, "failed": 2, "skipped": 14}),
]


@pytest.mark.parametrize(("environ", "speed", "outcomes"), FINDINGS)
def test_what_a_study_found_is_asserted(project, monkeypatch, environ, speed, outcomes):
    """In its own one round nobody can say; in six its findings hold, or they do not."""
    shutil.copytree(EXAMPLES / "studies", project.path, dirs_exist_ok=True)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    project.wish(speed=speed)
    result = project.run("test_devices.py", "-rs")
    result.assert_outcomes(**outcomes)
    assert (
        "test_the_host_reads_three_times_as_fast[raw]: backing=native is at least 3 times as fast as backing=file"
        in flat(result)
    )


ON_PRINTED_FIGURES = """
import pytest
from printed import rate

from pytest_vmstorage.testing import in_turns, make_measurement, make_run

ROUNDS = 8
ROWS = {}


@pytest.fixture
def measure(storage, request):
    def told(workload, **options):
        printed = rate(request.path.name, workload.label, storage)
        figures = {one.name: [printed if one.better == "higher" else 1 / printed] * ROUNDS for one in workload.metrics}
        made = make_measurement(
            storage, workload=workload.label, nodeid=request.node.nodeid, **figures
        )
        # the test is run twice: for a round, and to be reported
        ROWS[request.node.nodeid] = made.model_copy(update={"metrics": workload.metrics, "primary": workload.primary})

    return told


@pytest.fixture
def cells(cells):
    cells._run = make_run(*in_turns(*ROWS.values()))
    return cells
"""
ALL = {"DEVICE": "fast", "GROUP": "vg0", "PARTITION": "p1", "DATASET": "tank"}
STUDIES = [
    *(
        (name, {})
        for name in ("test_proxmox4.py", "test_vm_io_2010.py", "test_kvm_disk_2013.py", "test_zfs_formats.py")
    ),
    *(("test_devices.py", {"KIND": kind}) for kind in ("hdd", "ssd", "nvme")),
]


def assertions_of(path):
    """The names of a file's tests that assert between cells."""
    wanted = {"cells", "assert_ratio", "assert_fastest", "assert_monotonic"}
    tests = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
    return {test.name for test in tests if wanted & {arg.arg for arg in test.args.args}}


@pytest.mark.parametrize(("name", "environ"), STUDIES)
def test_the_assertions_of_a_study_hold_on_its_own_figures(project, monkeypatch, name, environ):
    """Each finds its cells, and what was printed is within its bounds; no other one is left out."""
    for variable, value in {**ALL, **environ}.items():
        monkeypatch.setenv(variable, value)
    shutil.copytree(EXAMPLES / "studies", project.path, dirs_exist_ok=True)
    project.write(vmstorage__toml=LISTED, conftest=ON_PRINTED_FIGURES)
    result = project.run(name, "-p", "no:cacheprovider")
    text = flat(result)
    said = {
        outcome: set(re.findall(rf"{outcome} {re.escape(name)}::(\w+)", text))
        for outcome in ("HOLDS", "FAILS", "INCONCLUSIVE")
    }
    asserting = assertions_of(EXAMPLES / "studies" / name)
    if environ:
        others = {"hdd", "ssd", "nvme"} - {environ["KIND"]}
        asserting = {test for test in asserting if not test.startswith(tuple(f"test_{kind}" for kind in others))}
        asserting -= {"test_the_host_reads_three_times_as_fast"} if environ["KIND"] != "ssd" else set()
    assert said == {"HOLDS": asserting, "FAILS": set(), "INCONCLUSIVE": set()}, text
    assert result.ret == 0


PAGES = EXAMPLES.parent / "docs" / "studies"


def findings():
    """Of each study's file the rows of its page's table: finding, what was printed, and what judges it."""
    tables = {}
    for page in set(PAGES.glob("*.md")) - {PAGES / "index.md"}:
        text = page.read_text()
        (name,) = set(re.findall(r"^The file is \[`examples/studies/(\w+\.py)`\]", text, flags=re.MULTILINE))
        rows = [line for line in text.splitlines() if line.startswith("| ") and "judged by" not in line]
        tables[name] = [tuple(cell.strip() for cell in row.strip("|").split(" | ")) for row in rows]
    return tables


def test_every_study_has_a_page():
    """With a table of what it found, and a line in the list of all."""
    files = {path.name for path in (EXAMPLES / "studies").glob("test_*.py") if assertions_of(path)}
    assert set(findings()) == files
    assert min(map(len, findings().values())) > 5
    listed = re.findall(
        r"^\| \[.+\]\(([\w-]+\.md)\) \| `(\w+\.py)` \|", (PAGES / "index.md").read_text(), flags=re.MULTILINE
    )
    assert {page for page, _ in listed} == {path.name for path in PAGES.glob("*.md")} - {"index.md"}
    assert {file for _, file in listed} == files


@pytest.mark.parametrize("name", sorted({name for name, _ in STUDIES}))
def test_each_finding_has_the_test_that_judges_it_or_a_reason(name):
    """Each test is there, and each that asserts between cells stands in the table."""
    named = set()
    for finding, printed, judge in findings()[name]:
        tests = set(re.findall(r"`(test_\w+)`", judge))
        assert finding
        assert printed
        assert tests or judge.startswith("Not judged: "), finding
        named |= set() if judge.startswith("Not judged: ") else tests
    assert named == assertions_of(EXAMPLES / "studies" / name)


@pytest.mark.parametrize("name", sorted({name for name, _ in STUDIES}))
def test_what_was_printed_stands_beside_each_bound(name):
    """A comment above the assertion."""
    text = (EXAMPLES / "studies" / name).read_text()
    for test in assertions_of(EXAMPLES / "studies" / name):
        assert text.partition(f"def {test}(")[2].splitlines()[1].startswith("    # printed: "), test


LINES = {
    "fio": "fio --randrepeat=1 --ioengine=libaio --direct=1 --gtod_reduce=1 --name=test --filename=test --iodepth=256"
    " --readwrite={rw} --bs={bs} --size={size}",
    "ioping": "ioping -c 10 .",
}
"""What the study of 2017 says that it ran."""


@pytest.fixture
def proxmox4(monkeypatch, request):
    """That study's file as a module, in the preset that the test names."""
    monkeypatch.setenv("STUDY", request.param)
    monkeypatch.delitem(sys.modules, "presets", raising=False)
    monkeypatch.syspath_prepend(EXAMPLES / "studies")
    yield SimpleNamespace(**runpy.run_path(str(EXAMPLES / "studies" / "test_proxmox4.py")))
    sys.modules.pop("presets")


def options_of(line):
    """The options of an fio command line, by the names that fio prefers."""
    said = dict(word.removeprefix("--").partition("=")[::2] for word in line[1:])
    return {{"readwrite": "rw"}.get(name, name): value for name, value in said.items()}


@pytest.mark.parametrize("proxmox4", ["quick", "scaled", "published"], indirect=True)
def test_every_option_that_is_not_the_studys_stands_with_the_row(proxmox4):
    """Whatever our command line has and the study's has not, or the other way, and whatever has another value."""
    (note,) = proxmox4.fio_differs.args
    target = Target(path="/mnt/vmstorage/test", size_bytes=2**40, folder="/mnt/vmstorage")
    for rw, bs in proxmox4.JOBS:
        ours = options_of(proxmox4.job(rw, bs).argv(target))
        theirs = options_of(LINES["fio"].format(rw=rw, bs=bs, size={"4k": "4G", "4M": "10G"}[bs]).split())
        for name in ours.keys() | theirs.keys():
            if ours.get(name) != theirs.get(name):
                is_a_path = name in ("name", "filename", "output")
                said = f"{name}={ours[name]}" if ours.get(name) and not is_a_path else name
                assert re.search(rf"(?<![\w-]){re.escape(said)}(?![\w-])", note), said


@pytest.mark.parametrize("proxmox4", ["quick", "published"], indirect=True)
def test_every_option_of_ioping_stands_with_the_row(proxmox4):
    """The same of the other tool."""
    (note,) = proxmox4.ioping_differs.args
    ours = proxmox4.PING.argv(Target(path="/dev/vdb", size_bytes=2**40, folder="."))
    assert ours[0] == "ioping"
    added = " ".join(ours[1:]).replace("-c 10", "").replace(" .", "").split(" -")
    for option in filter(None, (one.strip(" -") for one in added)):
        assert f"-{option}" in note


@pytest.mark.parametrize("name", sorted({name for name, _ in STUDIES}))
def test_every_row_of_a_study_says_what_differs(project, name):
    """Each measuring test has a note, and with STUDY=quick one that says so."""
    shutil.copytree(EXAMPLES / "studies", project.path, dirs_exist_ok=True)
    project.write(conftest=NOTED)
    assert project.run("--co", "-q", name).ret == 0
    rows = json.loads((project.path / "notes.json").read_text())
    assert rows
    for nodeid, notes in rows.items():
        assert any(note.startswith("differs from the study: ") for note in notes), nodeid
        assert any("STUDY=quick: " in note for note in notes), nodeid


NOTED = """
import json
from pytest_vmstorage.plugin.stash import CONFIG, notes_on
def pytest_collection_finish(session):
    rows = {item.nodeid: notes_on(item) for item in session.items if CONFIG in item.stash}
    (session.config.rootpath / "notes.json").write_text(json.dumps(rows))
"""


def test_a_number_of_rounds_that_is_none_is_refused(project, monkeypatch):
    """As the study's files are read."""
    monkeypatch.setenv("ROUNDS", "many")
    result = project.run("--co", str(EXAMPLES / "studies" / "test_devices.py"))
    assert result.ret
    assert "ROUNDS=many is not a number of rounds. Write 1 or more." in text_of(result)
