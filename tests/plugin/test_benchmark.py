"""The bridge to pytest-benchmark: its options and its command work on our figures, with and without xdist.

Tests of `plugin.benchmark`.
"""

from __future__ import annotations

import json
import math
import re
import sys
import xml.etree.ElementTree as ET
from importlib.util import find_spec

import pytest
from projects import QCOW2, RANDOM_WRITE, RAW, assert_refused, flat, text_of
from pytest_benchmark.stats import Metadata

from pytest_vmstorage.plugin import benchmark
from pytest_vmstorage.results.packed import unpacked
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.testing.builders import make_measurement

# runs with --benchmark-json have a process of their own: before 5.2 its file stayed open until the process ended; so
# have those that pytest-benchmark ends with an exception, which in this process would be an internal error
WORKERS = pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])


def saved_files(project):
    """What pytest-benchmark saved, oldest first."""
    return [json.loads(path.read_text()) for path in sorted(project.path.glob(".benchmarks/*/*.json"))]


@WORKERS
def test_what_is_saved(two_cells, workers):
    """--benchmark-save and --benchmark-json hold a row for each cell once, whose OPS are IOPS, and the whole run."""
    two_cells.wish(speed={"qcow2-*": 0.5})
    result = two_cells.run("--benchmark-save=base", "--benchmark-json=now.json", *workers, own_process=True)
    result.assert_outcomes(passed=2)
    (saved,) = saved_files(two_cells)
    now = json.loads((two_cells.path / "now.json").read_text())
    for content in (saved, now):
        rows = {row["fullname"]: row for row in content["benchmarks"]}
        assert set(rows) == {RAW, QCOW2}
        assert rows[RAW]["stats"]["median"] == pytest.approx(1 / 10000)
        assert rows[RAW]["stats"]["rounds"] == 3
        assert rows[QCOW2]["stats"]["ops"] == pytest.approx(5000, rel=1e-3)
        assert rows[QCOW2]["params"]["format"] == "qcow2"
        assert rows[QCOW2]["group"] == "fio randwrite 4k qd32: time = s per I/O, OPS = 1/mean in IOPS"
        assert rows[QCOW2]["extra_info"]["metrics"]["iops"] == {"unit": "IOPS", "median": 5000.0}
        assert content["vmstorage"]["schema_version"] == 2
        block = unpacked(content["vmstorage"])
        assert sorted(one["nodeid"] for one in block["measurements"]) == sorted([RAW, QCOW2])
        assert [host["name"] for host in block["hosts"]] == ["fakehost"]
        assert len(block["measurements"][0]["samples"]) == 3
        assert block["measurements"][0]["samples"][0]["raw"].startswith('{"fio version"')
    (path,) = two_cells.path.glob(".benchmarks/*/*.json")
    assert "\n " not in path.read_text()
    assert "data" not in saved["benchmarks"][0]["stats"]
    assert len(now["benchmarks"][0]["stats"]["data"]) == 3


@WORKERS
def test_comparing(two_cells, workers):
    """--benchmark-compare shows both runs, and --benchmark-compare-fail ends with status 1, the matrix printed."""
    two_cells.begin_with("--benchmark-save=base")
    compare = ("--benchmark-compare", *workers)
    fine = two_cells.run(*compare, "--benchmark-compare-fail=mean:5%")
    assert fine.ret == 0, text_of(fine)
    assert "(0001_base)" in text_of(fine)
    two_cells.wish(speed={"qcow2-*": 0.9})
    slower = two_cells.run(*compare, "--benchmark-compare-fail=mean:5%", "--vm-report=m.md", own_process=True)
    assert slower.ret == pytest.ExitCode.TESTS_FAILED
    assert f"{QCOW2.partition('::')[2]} (0001_base) - Field 'mean' has failed" in text_of(slower)
    assert re.search(r"^qcow2 +9000 ±1\b", text_of(slower), re.MULTILINE)
    assert "9000 IOPS" in (two_cells.path / "m.md").read_text()


def test_the_command_of_pytest_benchmark(two_cells):
    """`pytest-benchmark compare` reads what we saved."""
    two_cells.begin_with("--benchmark-save=base")
    two_cells.wish(speed=0.5)
    two_cells.run("--benchmark-save=slow").assert_outcomes(passed=2)
    command = "import sys; from pytest_benchmark.cli import main; sys.exit(main())"
    result = two_cells.pytester.run(sys.executable, "-c", command, "compare", "--columns=ops,median", "0001", "0002")
    assert result.ret == 0
    assert "fio randwrite 4k qd32: time = s per I/O, OPS = 1/mean in IOPS" in text_of(result)
    assert "test_random_write[raw] (0001_base)" in text_of(result)
    assert "test_random_write[qcow2] (0002_slow)" in text_of(result)


# looked for and not imported: a backport it imports gets in the way of later in-process runs
@pytest.mark.skipif(find_spec("pygal") is None, reason="install pytest-benchmark[histogram] to have this tested")
@WORKERS
def test_histogram(two_cells, workers):
    """--benchmark-histogram draws our rows; it needs the extra pytest-benchmark[histogram]."""
    result = two_cells.run("--benchmark-histogram=h/x", *workers, own_process=True)
    assert result.ret == 0, text_of(result)
    (picture,) = (two_cells.path / "h").glob("*.svg")
    assert "test_random_write[qcow2]" in picture.read_text()


def test_histogram_without_its_extra(two_cells, monkeypatch):
    """Without pygal the option is refused before anything is measured, and not by a traceback after it."""
    monkeypatch.setitem(sys.modules, "pygal", None)
    result = two_cells.run("--benchmark-histogram=h/x")
    assert_refused(result, "Install it: pip install 'pytest-benchmark[histogram]'.")
    assert two_cells.events == []


def test_a_python_without_lzma(two_cells, monkeypatch):
    """Samples could not be kept in it, so nothing is measured."""
    monkeypatch.setitem(sys.modules, "lzma", None)
    assert_refused(
        two_cells.run(), "this Python has no lzma module, by which saved runs and JSON reports are compressed."
    )
    assert two_cells.events == []


MEDIANS = ("Name (time in us)", "Median", "Min", "Max", "Mean", "StdDev", "IQR", "Rounds")


def head_of(result):
    """The headings of pytest-benchmark's first table."""
    line = next(line for line in result.outlines if line.startswith("Name (time in "))
    return tuple(column.strip() for column in line.split("  ") if column.strip())


@WORKERS
def test_a_cell_has_one_rate_on_the_screen(two_cells, workers):
    """pytest-benchmark's table begins with the median and has no OPS, and the matrix says which figure is which."""
    result = two_cells.run("--benchmark-save=base", *workers)
    assert head_of(result) == MEDIANS
    said = "a figure of the matrix is the median of its rounds' figures; pytest-benchmark's table has their times"
    assert flat(result).count(said) == 1
    assert said not in flat(two_cells.run())


def test_columns_of_benchmarks_that_others_chose_stay(two_cells):
    """By option, in the ini file, and in a project that has benchmarks of its own."""
    assert head_of(two_cells.run("--benchmark-save=x", "--benchmark-columns=ops,max"))[1:] == ("OPS (Kops/s)", "Max")
    two_cells.write(pytest__ini="[pytest]\naddopts = --benchmark-columns=ops,mean\n")
    chosen = two_cells.run("--benchmark-save=x")
    assert head_of(chosen)[1:] == ("OPS (Kops/s)", "Mean")
    assert "is 1 / the mean of these" in flat(chosen)
    two_cells.write(
        pytest__ini="[pytest]\n", test_own="def test_own(benchmark): benchmark.pedantic(lambda: 1, rounds=2)\n"
    )
    assert "OPS" in " ".join(head_of(two_cells.run("--benchmark-save=x")))


def test_what_another_run_saves_meanwhile_is_left_alone(two_cells):
    """Only the file of this run is written again without its indent."""
    two_cells.write(
        conftest="from pathlib import Path\n"
        "import pytest\n"
        "@pytest.hookimpl(trylast=True)\n"
        "def pytest_benchmark_update_json(config, output_json):\n"
        "    folder = Path('.benchmarks/elsewhere'); folder.mkdir(parents=True)\n"
        '    (folder / "0001_x.json").write_text(\'{\\n  "vmstorage": {"started": "then"}}\')\n'
        '    (folder / "0002_x.json").write_text(\'{\\n  "benchmarks": []}\')\n',
    )
    two_cells.run("--vm-save=x", own_process=True).assert_outcomes(passed=2)
    texts = {path.parent.name + path.name[:4]: path.read_text() for path in two_cells.path.glob(".benchmarks/*/*.json")}
    assert len(texts) == 3
    assert texts["elsewhere0001"].count("\n  ") == texts["elsewhere0002"].count("\n  ") == 1


TABLE = " benchmark 'fio randwrite 4k qd32: time = s per I/O"


@WORKERS
def test_a_saved_run_has_no_tables_unasked(two_cells, workers):
    """The matrix has the figures of --vm-save; any option of pytest-benchmark asks for its table."""
    quiet = two_cells.run("--vm-save=base", *workers, own_process=bool(workers))
    assert len(saved_files(two_cells)) == 1
    assert TABLE not in text_of(quiet)
    assert "pytest-benchmark's table" not in flat(quiet)
    assert TABLE in text_of(two_cells.run("--vm-save=base", "--benchmark-sort=name", *workers, own_process=True))
    two_cells.write(pytest__ini="[pytest]\naddopts = --benchmark-columns=mean\n")
    assert TABLE in text_of(two_cells.run("--vm-save=base", *workers, own_process=bool(workers)))


def test_benchmarks_of_the_project_keep_their_tables(two_cells):
    """Beside --vm-save, too, and with our rows as before."""
    two_cells.write(test_own="def test_own(benchmark): benchmark.pedantic(lambda: 1, rounds=2)\n")
    result = two_cells.run("--vm-save=base")
    assert TABLE in text_of(result)
    assert "test_own" in text_of(result)


HEADER = "(defaults: timer="


def test_pytest_benchmark_has_a_header_where_it_is_used(two_cells):
    """Its 160 characters come with this plugin to projects that have no benchmark; -q has none of them."""
    assert HEADER not in text_of(two_cells.run())
    assert HEADER in text_of(two_cells.run("--benchmark-save=x"))
    two_cells.write(test_own="def test_own(benchmark): benchmark.pedantic(lambda: 1, rounds=2)\n")
    lines = text_of(two_cells.run("--collect-only")).splitlines()
    assert lines.index(next(one for one in lines if HEADER in one)) > lines.index("collected 3 items")
    assert HEADER not in text_of(two_cells.run("-q"))


def test_nothing_is_added_unasked(two_cells):
    """Without an option of pytest-benchmark there is no table of its, and with its plugin off nothing is missed."""
    assert "OPS = 1/mean in IOPS" not in text_of(two_cells.run())
    result = two_cells.run("-p", "no:benchmark")
    result.assert_outcomes(passed=2)
    assert "raw     10000 ±1" in text_of(result)


def test_several_measurements_of_one_test(project):
    """Each has a name of its own: the first the test's, others with their workload, a repeated one with a number."""
    project.write(
        test_it=RANDOM_WRITE
        + "def test_x(measure):\n"
        + '    for w in (FIO, Dd(count=64), FIO, FIO, Fio(rw="write", bs="1M")): measure(w, rounds=1)\n'
    )
    project.run("--benchmark-json=now.json", own_process=True).assert_outcomes(passed=1)
    rows = json.loads((project.path / "now.json").read_text())["benchmarks"]
    head = "test_it.py::test_x"
    assert [row["fullname"] for row in rows] == [
        head,
        f"{head}::{rows[1]['group'].partition(':')[0]}",
        f"{head}::fio randwrite 4k qd32",
        f"{head}::fio randwrite 4k qd32 #2",
        f"{head}::fio write 1M qd1",
    ]
    assert rows[1]["group"].endswith("time = s per MiB, OPS = 1/mean in MiB/s")
    assert rows[1]["stats"]["ops"] == pytest.approx(200, rel=0.02)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        ("IOPS", "s per I/O, OPS = 1/mean in IOPS"),
        ("MiB/s", "s per MiB, OPS = 1/mean in MiB/s"),
        ("transactions/s", "s per transaction, OPS = 1/mean in transactions/s"),
        ("s", "s"),
    ],
)
def test_what_the_time_of_a_row_is(unit, words):
    """Of any rate, and of a time, under one heading a unit."""
    measurement = make_measurement(iops=(4.0,)).model_copy(
        update={"metrics": (Metric(name="iops", unit=unit, better="higher"),)}
    )
    assert benchmark._duck(measurement, set()).group == f"{measurement.workload}: time = {words}"
    assert benchmark.seconds_per_operation(measurement) == [4.0 if unit == "s" else 0.25]


def test_beside_ordinary_benchmarks(two_cells):
    """A project's own benchmarks are saved in the same file, and storage tests alone say nothing of xdist."""
    two_cells.write(test_own="def test_own(benchmark): benchmark.pedantic(lambda: 1, rounds=2)\n")
    two_cells.run("--benchmark-save=base").assert_outcomes(passed=3)
    (saved,) = saved_files(two_cells)
    assert sorted(row["fullname"] for row in saved["benchmarks"]) == sorted(["test_own.py::test_own", RAW, QCOW2])


KINDS = (
    RANDOM_WRITE
    + """
from pytest_vmstorage import ImageOperations
def test_figure(measure): measure(FIO)
def test_image(measure_image): measure_image(ImageOperations(data="16M"))
@pytest.fixture
def iops(measure): return measure(FIO).iops
def test_by_a_fixture(iops): assert iops > 500
def test_between(cells): ...
def test_guest(guest): ...
def test_cell(storage): ...
def test_plain(): ...
def test_own(benchmark): benchmark.pedantic(lambda: 1, rounds=2)
@pytest.fixture
def result(): return 3
def test_foreign(result): assert result == 3
@pytest.mark.skip(reason="broken here")
def test_skipped(measure): ...
"""
)
"""A test of each kind; of these pytest-benchmark knows `test_own` alone."""

BENCHMARKS = {"test_figure", "test_image", "test_by_a_fixture", "test_between", "test_own"}
OTHERS = {"test_guest", "test_cell", "test_plain", "test_foreign"}


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        (("--benchmark-only",), OTHERS),
        (("--benchmark-skip",), BENCHMARKS),
        (("--benchmark-skip", "--benchmark-only"), OTHERS),
        (("--benchmark-disable",), set()),
        (("--benchmark-skip", "-n1"), BENCHMARKS),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_storage_tests_are_benchmarks(project, options, left_out):
    """Those that measure, whichever way, and those between cells; --benchmark-disable has no effect on them."""
    project.write(test_it=KINDS)
    result = project.run("--junitxml=out.xml", *options, own_process="-n1" in options)
    assert result.ret == 0, text_of(result)
    reasons = {case.get("name"): why.get("message") for case, why in skips(project.path / "out.xml")}
    assert reasons.pop("test_skipped") == "broken here"
    assert set(reasons) == left_out
    assert all("(--benchmark-" in why for why in reasons.values())


def skips(path):
    """The skipped tests of a JUnit file, each with its element that says why."""
    return [(case, why) for case in ET.parse(path).iter("testcase") for why in case.iter("skipped")]


@pytest.mark.parametrize("options", [("--benchmark-skip",), ("-k", "test_skipped"), ("--benchmark-skip", "-n1")])
def test_a_run_in_which_all_storage_tests_are_skipped_opens_no_lab(project, options):
    """By their own marks too: a host that cannot be used fails no such run."""
    project.write(test_it=KINDS.replace("def test_guest(guest)", "def test_guest()"))
    project.wish(open="QEMU is not on fakehost.")
    result = project.run(*options, "--deselect=test_it.py::test_cell", own_process="-n1" in options)
    assert result.ret == 0, text_of(result)
    assert "fakehost" not in text_of(result)


def test_figures_that_are_no_time_are_left_out():
    """A percentage, a rate of 0 and a value that is not finite have no seconds per operation."""
    percent = make_measurement(iops=(5.0,)).model_copy(
        update={"metrics": (Metric(name="iops", unit="%", better="lower"),)}
    )
    assert benchmark.seconds_per_operation(percent) is None
    assert benchmark.seconds_per_operation(make_measurement(iops=(5.0, 0.0))) is None
    assert benchmark.seconds_per_operation(make_measurement(iops=(5.0, math.nan))) is None
    assert benchmark.seconds_per_operation(make_measurement(iops=(4.0, 5.0))) == [0.25, 0.2]
    assert benchmark.seconds_per_operation(make_measurement(clat_p99=(0.002,))) == [0.002]


def test_what_is_used_of_pytest_benchmark(pytestconfig):
    """The undocumented names are what they were: the plugin's name, its list, and Metadata's eight attributes."""
    session = pytestconfig.pluginmanager.get_plugin("pytest-benchmark")
    assert isinstance(session.benchmarks, list)
    assert "ops" in session.columns
    assert session.groups is None
    assert pytestconfig.getoption("benchmark_columns") in (None, benchmark._USUAL)
    read = set()

    class Spy:
        def __getattr__(self, name):
            read.add(name)

    row = Metadata(Spy(), 1, {"timer": "fio"})
    assert row.has_error is None
    assert read == {"name", "fullname", "group", "param", "params", "extra_info", "cprofile_stats", "has_error"}
    assert read == set(vars(benchmark._duck(make_measurement(), set())))
    for seconds in (0.1, 0.2):
        row.update(seconds)
    assert row.as_dict()["stats"]["data"] == [0.1, 0.2]
    assert row.as_dict()["options"] == {"timer": "fio"}


def test_a_baseline_and_comparing_live_together(two_cells):
    """Our gate and pytest-benchmark's comparison in one run say the same."""
    two_cells.begin_with("--benchmark-save=base")
    two_cells.wish(speed={"raw-*": 0.5})
    result = two_cells.run("--benchmark-compare", "--vm-baseline=base", "--vm-day-spread=3%", "--vm-confirm")
    result.assert_outcomes(passed=1, failed=1)
    assert "1 saved day, +102 % time per operation" in flat(result)
    assert "test_random_write[raw] (NOW)" in text_of(result)
