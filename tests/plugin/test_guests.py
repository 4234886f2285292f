"""One guest for each configuration; what happens where one fails.

Tests of `plugin.session` and `plugin.fixtures`.
"""

from __future__ import annotations

import pytest
from projects import RANDOM_WRITE, flat, text_of

SWEEP = RANDOM_WRITE + '@pytest.mark.parametrize("format", ["raw", "qcow2"])\ndef test_sweep(measure): measure(FIO)\n'


def test_one_guest_for_each_configuration(project):
    """Tests of one configuration come together over tests and files; other tests stay where they are."""
    project.write(
        test_a=SWEEP + "def test_plain(): ...\ndef test_raw(guest): ...\n",
        test_b=SWEEP + '@pytest.mark.storage(format="qcow2")\ndef test_fixed(guest): ...\n',
    )
    result = project.run("-v", "--vm-rounds=1")
    result.assert_outcomes(passed=7)
    ran = [line.split()[0] for line in result.outlines if " PASSED" in line]
    assert ran == [
        "test_a.py::test_sweep[raw]",
        "test_a.py::test_raw",
        "test_b.py::test_sweep[raw]",
        "test_a.py::test_sweep[qcow2]",
        "test_b.py::test_sweep[qcow2]",
        "test_b.py::test_fixed",
        "test_a.py::test_plain",
    ]
    assert project.events == [
        "open",
        "guest raw-none-virtio-blk-off",
        "fill raw-none-virtio-blk-off",
        "discard raw-none-virtio-blk-off",
        "guest qcow2-none-virtio-blk-off",
        "fill qcow2-none-virtio-blk-off",
        "discard qcow2-none-virtio-blk-off",
        "close",
    ]


def test_each_guest_has_its_disk_filled(project):
    """Once in the life of each guest: what was written to a disk is remembered with its guest, and goes with it."""
    project.write(
        test_it=RANDOM_WRITE + '@pytest.mark.parametrize("cache", ["none", "unsafe", "writeback", "directsync"])\n'
        "def test_x(measure): measure(FIO, rounds=1)\ndef test_again(measure): measure(FIO, rounds=1)\n",
    )
    project.run("--vm-rounds=1").assert_outcomes(passed=5)
    fills = [event for event in project.events if event.startswith("fill")]
    assert fills == [f"fill raw-{cache}-virtio-blk-off" for cache in ("none", "unsafe", "writeback", "directsync")]


def test_a_failed_guest_fails_its_own_tests(project):
    """The guest that does not boot is tried once and is an error of its tests in a sentence; the others run."""
    project.wish(boots={"qcow2-*": 0})
    project.write(test_a=SWEEP, test_b=SWEEP)
    result = project.run()
    result.assert_outcomes(passed=2, errors=2)
    text = text_of(result)
    sentence = "The guest of qcow2-none-virtio-blk-off did not answer within 2 min 00 s (its agent does not answer)."
    assert f"guest did not answer: {sentence} Give it more time with --vm-timeout" in flat(result)
    assert "| [    1.9] init: ready" in text
    assert "Traceback" not in text
    assert "fakelab.py" not in text
    assert "failed: guest did not answer" in text
    assert [event.split()[0] for event in project.events if "qcow2" in event] == ["mute", "discard"]


SLIPS = {
    'measure(Fio(rw="bogus"))': "Fio(rw='bogus') is not known here.",
    "measure(None)": "measure(None) has no workload.",
    "measure(FIO, rounds=0)": "measure(rounds=0): rounds must be 1 or more.",
    'measure(Fio(rw="randwrite", size="2G"))': "fio randwrite 4k qd1 size=2G needs 2G, but the disk has 1G.",
    'measure(Tar(total_size="9T"))': "makes files of 45 TiB, but the disk has 1 GiB.",
}


@pytest.mark.parametrize("call", SLIPS)
def test_no_guest_is_made_for_what_cannot_be_run_in_it(project, call):
    """The test fails, in one sentence without our own code, and the lab was opened and closed again."""
    project.write(
        test_it="from pytest_vmstorage import Tar\n"
        + RANDOM_WRITE
        + f'@pytest.mark.storage(guest_fs="ext4")\ndef test_x(measure):\n    {call}\n'
    )
    result = project.run("--vm-rounds=1")
    result.assert_outcomes(failed=1)
    assert project.events == ["open", "close"]
    assert SLIPS[call] in flat(result)
    assert "session.py" not in text_of(result)
    assert "base.py" not in text_of(result)


def test_a_test_that_asks_for_its_guest_has_it_before_its_body(project):
    """A slip is found in the guest then."""
    project.write(test_it="def test_x(guest, measure): measure(None)\n")
    project.run().assert_outcomes(failed=1)
    assert [event.split()[0] for event in project.events] == ["open", "guest", "discard", "close"]


def test_a_guest_that_cannot_be_made_is_an_error_in_every_report(project):
    """Also in JUnit's file, and where the guest is made in the middle of the test."""
    project.wish(boots={"raw-*": 0})
    project.write(test_it=RANDOM_WRITE + "def test_x(measure):\n    assert True\n    measure(FIO)\n")
    result = project.run("--junitxml=it.xml")
    result.assert_outcomes(errors=1)
    assert "ERROR at setup of test_x" in text_of(result)
    suite = (project.path / "it.xml").read_text()
    assert 'errors="1" failures="0"' in suite


def test_what_a_host_cannot_do_is_skipped(two_cells):
    """UnsupportedError skips with the reason, which is also in the matrix."""
    two_cells.wish(unsupported={"qcow2-*": "qcow2: no such thing here. Use another host."})
    result = two_cells.run("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    reason = "qcow2: no such thing here. Use another host."
    result.stdout.fnmatch_lines([f"SKIPPED*{reason} [[]VM329]"])
    assert flat(result).count(reason) == 2


def test_strict_makes_it_a_failure(two_cells):
    """Under --vm-strict a lab that lacks something is red."""
    two_cells.wish(unsupported={"qcow2-*": "qcow2: no such thing here. Use another host."})
    result = two_cells.run("--vm-strict")
    result.assert_outcomes(passed=1, errors=1)
    assert "--vm-strict: qcow2: no such thing here." in text_of(result)
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_guest_is_kept_where_a_test_failed(project):
    """--vm-keep leaves the first guest in which a test failed, and says how to reach it."""
    project.write(
        test_it=RANDOM_WRITE + '@pytest.mark.parametrize("format", ["raw", "qcow2"])\n'
        "def test_x(measure, format):\n    measure(FIO, rounds=1)\n    assert format == 'qcow2'\n"
    )
    result = project.run("--vm-keep")
    result.assert_outcomes(passed=1, failed=1)
    assert "vmstorage: kept the guest of raw-none-virtio-blk-off: `vmstorage exec 0123456789" in text_of(result)


def test_a_lab_that_cannot_be_cleared_costs_no_report(two_cells):
    """What cannot be removed at the end is said in a sentence, and the matrix is printed all the same."""
    two_cells.wish(keeps_files=True)
    result = two_cells.run()
    result.assert_outcomes(passed=2)
    text = text_of(result)
    assert text.index("vmstorage: not all was removed: removing /srv/vm/run-0123456789 failed: rm: ") < text.index(
        " VM storage: "
    )
    assert "raw     10000 ±1" in text_of(result)
    assert "INTERNALERROR" not in text_of(result)


def test_the_lab_is_cleared_whatever_others_do(two_cells):
    """A plugin that fails at the end of the session, before ours is asked, leaves no guest behind."""
    two_cells.write(
        conftest="import pytest\n@pytest.hookimpl(wrapper=True, tryfirst=True)\n"
        "def pytest_sessionfinish():\n    raise RuntimeError('a fault of theirs')\n    yield\n"
    )
    result = two_cells.run()
    assert "a fault of theirs" in text_of(result)
    assert two_cells.events[-1] == "close"


NATIVE = (
    RANDOM_WRITE
    + """
@pytest.mark.parametrize("backing", ["file", "native"])
def test_sweep(measure): measure(FIO)
"""
)


def test_native_rows_are_measured_first(project):
    """The others are held against them; no guest is made for them, and their file goes when the next cell comes."""
    project.write(test_a=NATIVE)
    result = project.run("--vm-rounds=1")
    result.assert_outcomes(passed=2)
    assert project.events == [
        "open",
        "native native-off",
        "fill native-off",
        "discard native-off",
        "guest raw-none-virtio-blk-off",
        "fill raw-none-virtio-blk-off",
        "discard raw-none-virtio-blk-off",
        "close",
    ]
    result.stdout.fnmatch_lines(
        ["all rows with a guest: raw, none, virtio-blk, *", "file *9900 n=1*", "native *9900 n=1*"]
    )


def test_a_guest_that_changed_while_it_was_measured_gives_no_figure(project):
    """What it was proven to be before the first I/O is looked at again after the last."""
    project.write(test_a=SWEEP)
    project.wish(write_through="qcow2-*")
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert "INVALID: after the last round cache is write through (guest sysfs), not write back." in flat(result)


FASTER = "2.01 times the native row of the same device, and 100% of its bytes reached that device"


def test_a_row_above_the_native_one_gives_no_figure(project):
    """A guest that is twice as fast as its host, where no cache served it: its test fails, the native row stands."""
    project.write(test_a=NATIVE)
    project.wish(speed={"raw-*": 2.03})
    result = project.run()
    result.assert_outcomes(passed=1, failed=1)
    assert f"The figure of fio randwrite 4k qd32 is INVALID: it is {FASTER}" in flat(result)
    result.stdout.fnmatch_lines(["file *failed: *", "native *10000 ±1*"])
    project.wish(speed={"raw-*": 1.02})
    project.run().assert_outcomes(passed=2)


def test_a_cache_may_be_faster_than_the_device(project):
    """Where no byte reached the device nothing is held against the row."""
    project.write(test_a=NATIVE)
    project.wish(speed={"raw-*": 2.03}, cached="raw-*")
    project.run().assert_outcomes(passed=2)
