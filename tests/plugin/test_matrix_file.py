"""--vm-matrix runs tests in a file's cells, --vm-plan says what would be run, --vm-budget chooses what fits.

Tests of `plugin.plan` and `plugin.forecast`.
"""

from __future__ import annotations

import json
import os
import re

import pytest
from projects import RANDOM_WRITE, assert_refused, flat, text_of
from test_environment import BLOCKER

MATRIX = """
[axes]
bus = ["virtio-blk", "ide"]
format = ["raw", "qcow2"]
cache = ["none", "writeback"]
[storage]
size = "2G"
[[exclude]]
format = "raw"
cache = ["writeback", "unsafe"]
reason = "of no interest"
"""
CELLS = [
    "raw-none-virtio-blk",
    "raw-none-ide",
    "qcow2-none-virtio-blk",
    "qcow2-none-ide",
    "qcow2-writeback-virtio-blk",
    "qcow2-writeback-ide",
]
WRITE = RANDOM_WRITE + "def test_write(measure): measure(FIO, rounds=1)\n"
FILE = "--vm-matrix=m.toml"


@pytest.fixture
def swept(project):
    """A project with one test that sweeps nothing, and a matrix file of six cells."""
    project.write(test_it=WRITE, m__toml=MATRIX)
    return project


def guests(project):
    """The cells whose guests were made."""
    return [event.removeprefix("guest ") for event in project.events if event.startswith("guest ")]


def test_a_test_is_run_in_every_cell_of_the_file(swept):
    """One guest each, ids in the axes' order, the file's fixed values in effect."""
    assert swept.ids(FILE) == [f"test_write[{cell}]" for cell in CELLS]
    result = swept.run(FILE)
    result.assert_outcomes(passed=6)
    assert sorted(guests(swept)) == sorted(f"{cell}-off" for cell in CELLS)
    assert "VM storage left out" not in text_of(result)
    assert " 2G" in text_of(swept.run(FILE, "--vm-plan"))


def test_a_cell_is_selected_by_its_id(swept):
    """A node id from the matrix runs that cell alone; without the file the test has its one default cell."""
    swept.run(FILE, "test_it.py::test_write[qcow2-none-ide]").assert_outcomes(passed=1)
    assert guests(swept) == ["qcow2-none-ide-off"]
    assert swept.ids() == ["test_write"]


def test_the_file_from_the_ini_file(swept, monkeypatch):
    """A path in the ini file begins there, one on the command line begins at the shell's folder and is stronger."""
    swept.write(pytest__ini="[pytest]\nvm_matrix = m.toml\n", other__toml='[axes]\nformat = ["vdi"]\n')
    folder = swept.pytester.mkdir("deep")
    monkeypatch.chdir(folder)
    assert len(swept.ids("..")) == 6
    assert swept.ids("..", "--vm-matrix=../other.toml") == ["test_write[vdi]"]


def test_xdist_runs_the_same_cells(swept):
    """Workers read the same file."""
    swept.run(FILE, "-n1").assert_outcomes(passed=6)
    assert sorted(guests(swept)) == sorted(f"{cell}-off" for cell in CELLS)


def test_what_a_mark_fixes_is_not_swept(project):
    """The mark wins over the file's fixed value, and an axis that it fixes is swept no more for that test."""
    project.write(
        m__toml=MATRIX,
        test_it=WRITE
        + """
@pytest.mark.storage(format="qcow2", size="3G")
def test_qcow2(storage):
    assert (storage.format, storage.size) == ("qcow2", 3 * 2**30)

@pytest.mark.storage(bus="sata")
def test_sata(storage):
    assert (storage.bus, storage.size) == ("sata", 2 * 2**30)

@pytest.mark.storage(format="raw", cache="none", bus="ide")
def test_all(storage): assert str(storage) == "raw-none-ide-off"
""",
    )
    names = project.ids(FILE)
    assert sorted(name for name in names if "qcow2[" in name) == [
        "test_qcow2[none-ide]",
        "test_qcow2[none-virtio-blk]",
        "test_qcow2[writeback-ide]",
        "test_qcow2[writeback-virtio-blk]",
    ]
    assert [name for name in names if "sata" in name] == [
        "test_sata[raw-none]",
        "test_sata[qcow2-none]",
        "test_sata[qcow2-writeback]",
    ]
    assert "test_all" in names
    project.run(FILE).assert_outcomes(passed=14)


def test_a_test_for_which_nothing_is_left_is_deselected(project):
    """The rules leave it no cell: that is said at the end, and in the plan."""
    project.write(
        m__toml=MATRIX,
        test_it=WRITE + '@pytest.mark.storage(format="raw", cache="unsafe")\ndef test_none(guest): ...\n',
    )
    result = project.run(FILE)
    result.assert_outcomes(passed=6, deselected=1)
    assert "no cell of m.toml is left for: test_it.py::test_none" in text_of(result)
    assert "no cell of m.toml is left for: test_it.py::test_none" in text_of(project.run(FILE, "--vm-plan"))


def test_a_test_that_sweeps_is_left_as_it_is(project):
    """By a decorator, by a hook or by a fixture with parameters; the file's fixed values are not for it either."""
    project.write(
        m__toml=MATRIX,
        test_it="""
import pytest

@pytest.mark.parametrize("bus", ["sata"])
def test_swept(storage): assert (storage.bus, storage.size) == ("sata", 2**30)

@pytest.fixture(params=["unsafe"])
def cache(request): return request.param

def test_fixture(storage, cache): assert (storage.cache, storage.size) == ("unsafe", 2**30)
""",
    )
    assert project.ids(FILE) == ["test_swept[sata]", "test_fixture[unsafe]"]
    result = project.run(FILE)
    result.assert_outcomes(passed=2)
    assert "warning" not in text_of(result)
    said = text_of(project.run(FILE, "--vm-plan"))
    assert "warning: no selected test takes the cells of m.toml" in said


def test_arguments_and_other_parameters(project):
    """A test may take an axis as its argument, has its other parameters, and keeps pytest's own `cache`."""
    project.write(
        m__toml=MATRIX,
        test_it="""
import pytest

@pytest.mark.parametrize("depth", [1, 32])
def test_x(storage, cache, bus, depth):
    assert bus == storage.bus
    cache.set(f"cells/{storage}", storage.cache)
    assert cache.get(f"cells/{storage}", None) == storage.cache

def test_plain(cache): cache.set("x", 1)
""",
    )
    wanted = [f"test_x[{cell}-{depth}]" for cell in CELLS for depth in (1, 32)]
    assert project.ids(FILE) == [*wanted, "test_plain"]
    project.run(FILE).assert_outcomes(passed=13)


SLIPS = {
    "missing": (None, "--vm-matrix=m.toml cannot be read: No such file or directory. Name a TOML file."),
    "toml": ("[axes\n", "m.toml is not TOML:"),
    "axis": ('[axes]\ncolour = ["red"]\n', "m.toml, [axes]: 'colour' is not known."),
    "impossible": (
        '[axes]\npreallocation = ["off", "metadata"]\n',
        "m.toml has an impossible cell: metadata cannot exist: raw has no metadata to preallocate",
    ),
    "binary": (b"\xff\xfe", "--vm-matrix=m.toml cannot be read: it is not UTF-8 text."),
}


@pytest.mark.parametrize(("text", "sentence"), SLIPS.values(), ids=SLIPS)
@pytest.mark.parametrize("extra", [(), ("--vm-plan",), ("-n1",)], ids=["run", "plan", "xdist"])
def test_a_file_that_cannot_be(project, text, sentence, extra):
    """A slip in the file is a usage error before any test runs, whatever the run is for."""
    project.write(test_it=WRITE)
    if text is not None:
        (project.path / "m.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert_refused(project.run(FILE, *extra), sentence)
    assert project.events == []


@pytest.mark.parametrize(
    ("mark", "sentence"),
    [
        ('format="raw"', "with storage(format='raw'), m.toml has an impossible cell: metadata cannot exist"),
        ('format="qcow3"', "format='qcow3' is not known."),
        ('colour="red"', "a storage configuration has no field 'colour'."),
        ('"2G"', "takes keywords only."),
    ],
)
def test_a_mark_that_does_not_fit_the_file(project, mark, sentence):
    """The test is named with the reason; the file alone would do."""
    project.write(
        m__toml='impossible = "refuse"\n[axes]\npreallocation = ["off", "metadata"]\n[storage]\nformat = "qcow2"\n',
        test_it=f"import pytest\n@pytest.mark.storage({mark})\ndef test_x(guest): ...\ndef test_y(guest): ...\n",
    )
    result = project.run(FILE)
    assert_refused(result, sentence)
    assert "test_it.py::test_x: " in text_of(result)
    assert len(project.ids(FILE, "-k", "test_y")) == 2


def test_the_plan_runs_nothing(swept):
    """Cells in their order, what is left out and why, guests, disks, time; no test runs and no lab is opened."""
    swept.write(test_plain="def test_plain(): assert False\n")
    result = swept.run(FILE, "--vm-plan")
    assert result.ret == 0
    result.assert_outcomes()
    assert swept.events == []
    assert not (swept.path / ".vmstorage").exists()
    result.stdout.fnmatch_lines(
        [
            "*== VM storage plan ==*",
            *(f"{n}  {cell}-off 2G *25 s  test_it.py::test_write?{cell}?" for n, cell in enumerate(CELLS, 1)),
            "m.toml leaves out 2 cells, exclude rule 1 (of no interest):",
            "    raw-writeback-virtio-blk, raw-writeback-ide",
            "6 cells, 6 guests, 6 tests",
            "largest disk 2 GiB; disk space at most 12 GiB: guests wait *",
            "estimated time 2 min 30 s: 6 tests never measured, so 5 s a round assumed; 5 s a guest assumed, *",
        ],
        consecutive=False,
    )


def test_the_plan_is_of_what_is_selected(project):
    """-k counts, tests of one cell share a guest, and a test without a guest needs neither guest nor disk."""
    project.write(
        m__toml=MATRIX + '[[exclude]]\nbus = "nvme"\n',
        test_it=WRITE + "def test_guest(guest): ...\n",
        test_other='import pytest\n@pytest.mark.storage(size="9G")\ndef test_only(storage): ...\n',
    )
    said = text_of(project.run(FILE, "--vm-plan", "-n2", "-k", "qcow2"))
    assert "test_it.py::test_write[qcow2-none-virtio-blk] and 1 more" in said
    assert "8 cells, 4 guests, 12 tests" in said
    assert "largest disk 2 GiB" in said
    assert "exclude rule 2 of m.toml matches no cell" in said
    said = text_of(project.run("--vm-plan", "test_it.py"))
    assert "1 cell, 1 guest, 2 tests" in said
    assert "largest disk 1 GiB; disk space at most 1 GiB" in said


def test_a_disk_without_storage_takes_none_of_the_folder(project):
    """Its guest is counted, and its size is nobody's."""
    marks = '@pytest.mark.parametrize("backing", ["file", "null"])\n@pytest.mark.storage(size="2G")\n'
    project.write(test_it=f"import pytest\n{marks}def test_it(guest): ...\n")
    said = text_of(project.run("--vm-plan"))
    assert "null-none-virtio-blk 2G" in said
    assert "2 cells, 2 guests, 2 tests" in said
    assert "largest disk 2 GiB; disk space at most 2 GiB" in said
    said = text_of(project.run("--vm-plan", "-k", "null"))
    assert "1 cell, 1 guest, 1 test" in said
    assert "disk space" not in said


def test_what_a_disk_without_storage_cannot_be_is_a_usage_error(project):
    """Before any guest is made, with the rule."""
    mark = '@pytest.mark.storage(backing="null", format="qcow2")'
    project.write(test_it=f"import pytest\n{mark}\ndef test_it(measure): ...\n")
    assert_refused(project.run(), "(rule null-has-no-storage; source: QEMU block/null.c")
    project.write(test_plain="def test_plain(): ...\n")
    assert "no selected test has a storage configuration" in text_of(project.run("--vm-plan", "test_plain.py"))


def test_the_plan_does_not_hide_what_is_wrong(project):
    """An impossible cell is refused, and a broken test file ends the run as always."""
    project.write(test_it='import pytest\n@pytest.mark.storage(format="qcow3")\ndef test_x(guest): ...\n')
    assert_refused(project.run("--vm-plan"), "format='qcow3' is not known")
    project.write(test_broken="import nosuchmodule\n")
    result = project.run("--vm-plan")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "VM storage plan" not in text_of(result)


def journal(project, seconds, nodeids, *, day="01", name="run"):
    """Write a journal of an earlier run: one round for each of these tests."""
    folder = project.path / ".vmstorage"
    folder.mkdir(exist_ok=True)
    lines = [
        json.dumps({"nodeid": nodeid, "workload": "fio", "sample": {"seconds": seconds, "started": f"2026-01-{day}"}})
        for nodeid in nodeids
    ]
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


def test_the_plan_knows_earlier_runs(swept):
    """A test is as long as it was in its last journal, another cell of it likewise."""
    swept.run(FILE, "-k", "raw").assert_outcomes(passed=2, deselected=4)
    said = text_of(swept.run(FILE, "--vm-plan"))
    assert "2 tests as last measured; 4 tests as the same test's other cells; 5 s a guest assumed" in said
    journal(swept, 15, [f"test_it.py::test_write[{CELLS[2]}]"])
    said = text_of(swept.run(FILE, "--vm-plan", "-k", CELLS[2]))
    assert "estimated time 1 min 05 s: 1 test as last measured; 5 s a guest" in said


def test_the_plan_needs_no_libvirt_and_no_qemu(swept, monkeypatch):
    """On a machine that has neither it says the same."""
    monkeypatch.setenv("PATH", str(swept.path / "nothing"))
    monkeypatch.setenv("PYTHONPATH", str(swept.path), prepend=os.pathsep)
    monkeypatch.delenv("PYTEST_PLUGINS")
    swept.write(sitecustomize=BLOCKER)
    off = ("-p", "no:testinfra", "-p", "no:pytest11.testinfra")
    result = swept.run(FILE, "--vm-plan", *off, own_process=True)
    assert result.ret == 0, text_of(result)
    assert "6 cells, 6 guests, 6 tests" in text_of(result)


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_budget_chooses_what_fits(swept, workers):
    """The rest is deselected, and the end of the run says which cells and pairs are not covered."""
    result = swept.run(FILE, "--vm-budget=80s", *workers)
    result.assert_outcomes(passed=3, deselected=0 if workers else 3)
    ran = set(guests(swept))
    assert len(ran) == 3
    said = flat(result)
    assert "3 of 6 cells fit into 1 min 20 s, taking about 1 min 15 s; " in said
    missing = re.search(r"cells not covered: (\S+, \S+, \S+) pairs", said)
    assert {f"{cell}-off" for cell in CELLS} - ran == set(missing[1].split(", "))
    assert "pairs not covered: " in said
    assert "8 of 8" not in said


def test_a_budget_that_suffices_leaves_nothing_out(swept):
    """The sentence says so."""
    result = swept.run(FILE, "--vm-budget=90m")
    result.assert_outcomes(passed=6)
    assert "6 of 6 cells fit into 1 h 30 min" in flat(result)
    assert "not covered" not in text_of(result)


def test_a_budget_prefers_what_failed_and_what_waited(swept):
    """After the pairs: what failed last time, then what was never measured or not for longest."""
    nodeids = [f"test_it.py::test_write[{cell}]" for cell in CELLS]
    for number, nodeid in enumerate(nodeids):
        journal(swept, 5, [nodeid], day=f"{20 - number:02}", name=f"run{number}")
    swept.run(FILE, "--vm-budget=30s").assert_outcomes(passed=1, deselected=5)
    assert guests(swept) == [f"{CELLS[5]}-off"]
    # what this run measured took no time, so that its cell would now be the cheapest
    for path in swept.path.glob(".vmstorage/2*.jsonl"):
        path.unlink()
    cache = swept.path / ".pytest_cache" / "v" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "lastfailed").write_text(json.dumps({nodeids[1]: True}))
    swept.run(FILE, "--vm-budget=30s").assert_outcomes(passed=1, deselected=5)
    assert guests(swept) == [f"{CELLS[1]}-off"]


def test_a_budget_is_for_what_else_is_selected(swept):
    """-k and --lf come first; a plain test costs nothing and stays."""
    swept.write(test_plain="def test_plain(): ...\n")
    swept.run(FILE, "--vm-budget=30s", "-k", "raw or plain").assert_outcomes(passed=2, deselected=5)
    swept.wish(boots={"qcow2-none-*": 0})
    swept.run(FILE).assert_outcomes(passed=5, errors=2)
    swept.wish()
    result = swept.run(FILE, "--lf", "--vm-budget=1m")
    result.assert_outcomes(passed=2)
    assert "2 of 2 cells fit" in flat(result)


def test_the_plan_shows_what_a_budget_leaves_out(swept):
    """Nothing is opened for it, and it is said once."""
    said = flat(swept.run(FILE, "--vm-budget=80s", "--vm-plan"))
    assert said.count("3 of 6 cells fit into") == 1
    assert "3 cells, 3 guests, 3 tests" in said
    assert swept.events == []


@pytest.mark.parametrize(
    ("budget", "sentence"),
    [
        ("1s", "--vm-budget=1s is not enough for one cell; the shortest takes about 25 s. Give it more time."),
        ("0", "--vm-budget=0 leaves no time to measure."),
        ("soon", "'soon' is not a duration."),
    ],
)
def test_a_budget_that_cannot_be(swept, budget, sentence):
    """A usage error, and no lab is opened."""
    assert_refused(swept.run(FILE, f"--vm-budget={budget}"), sentence)
    assert swept.events == []


def test_a_budget_for_nothing_under_xdist(swept):
    """No worker crashes over it: nothing is run, and the end says why."""
    result = swept.run(FILE, "--vm-budget=1s", "-n1")
    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert "0 of 6 cells fit into 1.0 s" in flat(result)
    assert "Traceback" not in text_of(result)
