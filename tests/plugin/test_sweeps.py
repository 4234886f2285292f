"""Storage axes as parametrize names: ids, defaults, marks, and what they must leave alone."""

from __future__ import annotations

import itertools

import pytest
from projects import RANDOM_WRITE, assert_refused

AXES = {
    "format": '@pytest.mark.parametrize("format", ["raw", "qcow2"])',
    "cache": '@pytest.mark.parametrize("cache", ["none", "writeback"])',
    "bus": '@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi"])',
    "preallocation": '@pytest.mark.parametrize("preallocation", ["off", "full"])',
}
ISSUE = """
def test_random_write(guest, measure):
    result = measure(Fio(rw="randwrite", bs="4k", iodepth=32, size="256M", runtime=5))
    assert result.iops > 500
"""
WANTED = "test_random_write[qcow2-writeback-virtio-scsi-full]"


def test_the_issues_example_as_written(project):
    """The issue's example gives 16 cells, each with its own guest, its figures and its readable id."""
    project.write(test_it=RANDOM_WRITE + "\n".join(AXES.values()) + ISSUE)
    result = project.run("-v")
    result.assert_outcomes(passed=16)
    assert f"test_it.py::{WANTED} PASSED" in result.stdout.str()
    assert len([event for event in project.events if event.startswith("guest ")]) == 16


def test_ids_do_not_depend_on_the_order_of_decorators(project):
    """All 24 orders of the decorators give the same ids."""
    seen = set()
    for number, order in enumerate(itertools.permutations(AXES)):
        name = f"test_{number}"
        marks = "\n".join(AXES[axis] for axis in order)
        project.write(**{name: RANDOM_WRITE + marks + ISSUE})
    for name in project.ids():
        seen.add(name)
    assert len(seen) == 16
    assert WANTED in seen


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (
            'P("bus", ["sata"])\nclass TestIt:\n    @pytest.mark.parametrize("format", ["qcow2"])\n'
            '    @pytest.mark.parametrize("cache", ["unsafe"])\n    def test_x(self, measure): ...',
            ["TestIt::test_x[qcow2-unsafe-sata]"],
        ),
        (
            'P("cache,format", [("none", "raw"), ("unsafe", "qcow2")])\ndef test_x(measure): ...',
            ["test_x[raw-none]", "test_x[qcow2-unsafe]"],
        ),
        (
            'P("format, preallocation", [("raw", "off"), pytest.param("qcow2", "metadata", marks=pytest.mark.skip)])\n'
            'P("bus", ["ide", "sata"])\ndef test_x(measure): ...',
            [
                "test_x[raw-ide-off]",
                "test_x[raw-sata-off]",
                "test_x[qcow2-ide-metadata]",
                "test_x[qcow2-sata-metadata]",
            ],
        ),
        (
            'P(("preallocation", "want", "format"), [["off", 5, "raw"], ["full", 7, "qcow2"]])\n'
            'P("cache", ["none"])\ndef test_x(measure, want): assert want',
            ["test_x[raw-none-off-5]", "test_x[qcow2-none-full-7]"],
        ),
        (
            'P("format", [pytest.param("raw", id="plain"), "qcow2"])\nP("cache", ["none"])\ndef test_x(measure): ...',
            ["test_x[plain-none]", "test_x[qcow2-none]"],
        ),
        (
            'P("depth", [1, 32])\nP("cache", ["none"])\nP("format", ["raw"])\n'
            "def test_x(measure, depth, cache, format): assert depth and cache and format",
            ["test_x[raw-none-1]", "test_x[raw-none-32]"],
        ),
        (
            'P("cache", ["none"])\nP("bus,format", [("ide", "raw")], ids=["mine"])\ndef test_x(measure): ...',
            ["test_x[mine-none]"],
        ),
        ('P("cache", (c for c in ["none", "unsafe"]))\ndef test_x(storage): ...', ["test_x[none]", "test_x[unsafe]"]),
    ],
    ids=["class", "combined", "interleaved", "mixed", "param-id", "extra", "own-ids", "generator"],
)
def test_ids_in_every_way_of_writing(project, source, wanted):
    """Axes stand in their order however they are written, other parameters behind them, and a user's id is kept."""
    source = source.replace("\nP(", "\n@P(").replace("P(", "@P(", 1)
    project.write(test_it=f"import pytest\nP = pytest.mark.parametrize\n{source}\n")
    assert project.ids() == wanted
    assert project.run().ret == 0


def test_a_test_gets_what_its_id_says(project):
    """The storage fixture has the parameters' values, and defaults for the axes left out."""
    project.write(
        test_it=RANDOM_WRITE
        + """
@pytest.mark.parametrize("bus,format", [("sata", "qcow2"), ("ide", "raw")])
def test_swept(storage, format, request):
    assert (storage.format, storage.bus) == (format, request.node.callspec.params["bus"])
    assert (storage.cache, storage.preallocation, storage.size) == ("none", "off", 2**30)

def test_defaults(guest):
    assert str(guest.config) == "raw-none-virtio-blk-off"

@pytest.fixture(params=["writeback", "unsafe"])
def cache(request):
    return request.param

def test_a_fixture_as_axis(storage, cache):
    assert storage.cache == cache
"""
    )
    project.run().assert_outcomes(passed=5)


def test_pytests_own_cache_fixture_goes_on_working(project):
    """`cache` is pytest's in a test that does not sweep it, with and without a storage configuration."""
    project.write(
        test_it=RANDOM_WRITE
        + """
@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_with_storage(storage, cache):
    cache.set("mine/key", 3)
    assert cache.get("mine/key", None) == 3

def test_without(cache):
    assert cache.get("mine/none", 5) == 5

@pytest.mark.parametrize("cache", ["anything"])
def test_somebody_elses_parameter(cache):
    assert cache == "anything"
"""
    )
    project.run().assert_outcomes(passed=4)


def test_a_test_is_selected_by_its_id(project):
    """A full id runs that test alone, in its cell alone."""
    project.write(test_it=RANDOM_WRITE + "\n".join(reversed(AXES.values())) + ISSUE)
    project.run(f"test_it.py::{WANTED}").assert_outcomes(passed=1)
    assert [event for event in project.events if event.startswith("guest ")] == [
        "guest qcow2-writeback-virtio-scsi-full"
    ]


def test_the_closest_mark_wins(project):
    """Fixed values come from module, class and function, the closest last, and a parameter beats them all."""
    project.write(
        test_it=RANDOM_WRITE
        + """
pytestmark = pytest.mark.storage(size="2G", format="qcow2", bus="sata")

def test_module(storage):
    assert (storage.size, storage.format, storage.bus) == (2 * 2**30, "qcow2", "sata")

@pytest.mark.storage(size="3G", cache="unsafe")
class TestIt:
    def test_class(self, storage):
        assert (storage.size, storage.format, storage.cache) == (3 * 2**30, "qcow2", "unsafe")

    @pytest.mark.storage(size="4G")
    @pytest.mark.parametrize("format", ["raw"])
    def test_function(self, storage):
        assert (storage.size, storage.format, storage.cache) == (4 * 2**30, "raw", "unsafe")
"""
    )
    project.run("--strict-markers").assert_outcomes(passed=3)


def test_a_users_own_hook_may_parametrize_axes(project):
    """A pytest_generate_tests in conftest.py sweeps `cache`, and the ids keep the axes' order."""
    project.write(
        conftest="def pytest_generate_tests(metafunc):\n"
        "    if 'measure' in metafunc.fixturenames:\n"
        "        metafunc.parametrize(argnames='cache', argvalues=['none', 'unsafe'])\n",
        test_it=RANDOM_WRITE + '@pytest.mark.parametrize("bus", ["ide"])\ndef test_x(measure): ...\n',
    )
    assert project.ids() == ["test_x[none-ide]", "test_x[unsafe-ide]"]
    project.run().assert_outcomes(passed=2)


def test_one_axis_twice_is_pytests_own_complaint(project):
    """Naming an axis in two decorators fails at collection as for any other name."""
    project.write(
        test_it="import pytest\nP = pytest.mark.parametrize\n"
        '@P("format", ["raw"])\n@P("format,bus", [("raw", "ide")])\n'
        "def test_x(storage): ...\n"
    )
    result = project.run()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*duplicate parametrization of 'format'*"])
    assert project.events == []


def test_other_peoples_fixtures_of_the_same_names(project):
    """A project with its own `storage`, `guest` or `measure`, as fixture or parameter, is none of our business."""
    project.write(
        test_it="""
import pytest

@pytest.fixture
def storage(): return "bucket"

@pytest.fixture
def guest(storage): return storage + "!"

@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("format", ["png"])
def test_fixture(guest, format, cache): assert guest == "bucket!"

@pytest.mark.parametrize("measure", [3])
def test_parameter(measure, storage): assert measure == 3
""",
        test_real="def test_ours(storage): assert storage.format == 'raw'\n",
    )
    assert project.ids("test_it.py") == ["test_fixture[png-False]", "test_fixture[png-True]", "test_parameter[3]"]
    project.run("test_it.py").assert_outcomes(passed=3)
    assert project.events == []
    project.run().assert_outcomes(passed=4)


def test_a_users_fixture_may_build_on_ours(project):
    """An override of `storage` that asks for ours is still a storage test."""
    project.write(
        test_it="""
import pytest

@pytest.fixture
def storage(storage):
    assert storage.cache == "unsafe"
    return storage

@pytest.mark.parametrize("cache", ["unsafe"])
def test_x(guest): assert guest.config.cache == "unsafe"
"""
    )
    project.run().assert_outcomes(passed=1)


def test_asking_for_a_fixture_too_late(project):
    """getfixturevalue() in a running test fails with a sentence, since the guest had to be planned before."""
    project.write(test_it="def test_x(request): request.getfixturevalue('guest')\n")
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "instead of asking for it with getfixturevalue()" in result.stdout.str()
    assert "KeyError" not in result.stdout.str()


def test_numbers_and_yes_or_no_speak_in_ids(project):
    """An axis whose values say nothing by themselves stands in the id with its name; sizes as they are written."""
    source = """
@pytest.mark.parametrize("iothread", [False, True])
@pytest.mark.parametrize("cluster_size", ["64k", 2097152])
@pytest.mark.parametrize("format", ["qcow2"])
def test_it(storage):
    pass
"""
    project.write(test_it=RANDOM_WRITE + source)
    assert list(project.ids()) == [
        f"test_it[qcow2-{iothread}-{size}]"
        for iothread in ("iothread=no", "iothread=yes")
        for size in ("cluster_size=64k", "cluster_size=2M")
    ]


def test_the_size_of_the_disk_is_swept_like_an_axis(project):
    """Where the test does not list it: with its name in the id, as a column, over a mark's, and beside other names."""
    project.write(
        test_it="""
import pytest
from pytest_vmstorage import Fio
@pytest.mark.parametrize("size", ["64M", 2**30])
@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.storage(size="2G")
def test_it(storage, measure):
    assert storage.size in (2**26, 2**30)
    measure(Fio(rw="randread", size="16M", runtime=5))

@pytest.mark.parametrize("size,cache", [("96M", "unsafe")])
def test_both(storage):
    assert (storage.size, storage.cache) == (96 * 2**20, "unsafe")
"""
    )
    ids = project.ids()
    assert ids[:4] == [f"test_it[{kind}-size={size}]" for kind in ("raw", "qcow2") for size in ("64M", "1G")]
    result = project.run("--vm-report=r.csv")
    result.assert_outcomes(passed=5)
    heads = [line.split() for line in result.outlines if line.startswith("format")]
    assert heads[0][:2] == ["format", "size"]
    assert (project.path / "r.csv").read_text().count("size=64M") > 0


def test_a_parameter_that_a_test_calls_size_is_its_own(project):
    """It is no statement about the disk where the test function takes it."""
    project.write(
        test_it="""
import pytest
@pytest.mark.parametrize("size", ["4k", "8k"])
@pytest.mark.storage(size="2G")
def test_it(storage, size):
    assert storage.size == 2**31 and size in ("4k", "8k")
"""
    )
    assert project.ids() == ["test_it[4k]", "test_it[8k]"]
    project.run().assert_outcomes(passed=2)


def test_a_size_that_cannot_be_is_refused_before_anything_is_made(project):
    """With the remedy, as in a mark."""
    project.write(test_it="import pytest\n@pytest.mark.parametrize('size', ['10X'])\ndef test_it(storage): ...\n")
    assert_refused(project.run(), "'10X' is not a size.")
    assert not project.events
