"""`vmstorage run` does what its printed test file does, and leaves no file behind: `plugin.text_module`."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest
from projects import QCOW2, RAW, flat, text_of

from pytest_vmstorage.cli import command

FIO = ["--fio", "rw=randwrite bs=4k iodepth=32 size=256M runtime=5"]
FORMATS = ["--axis", "format=raw,qcow2"]
TEST = "test_vmstorage.py::test_fio_randwrite_4k_qd32"


@pytest.fixture
def line_of(monkeypatch, capsys):
    """A function from the words of `vmstorage run` to the words that it starts pytest with."""

    def words(*given):
        lines = []
        monkeypatch.setattr(command.os, "execv", lambda _, line: lines.append(line))
        command.main(["run", *given])
        capsys.readouterr()
        assert lines[0][:4] == [sys.executable, "-P", "-m", "pytest"]
        return lines[0][4:]

    return words


@pytest.fixture
def printed(capsys):
    """A function from the words of `vmstorage run` to the test file that it prints."""

    def text(*given):
        capsys.readouterr()
        assert command.main(["run", *given, "--print-test"]) == 0
        return capsys.readouterr().out

    return text


ASKED = [
    [*FORMATS, *FIO],
    ["--axis", "size=1G", "--axis", "iothread=yes,no", "--axis", "cache=none", *FORMATS, *FIO],
    [*FORMATS, "--axis", "preallocation=off,metadata", "--axis", "queues=2,4", "--impossible=leave-out", *FIO],
    [*FORMATS, *FIO, "--hdparm", "-t", "--dd", "bs=1M", "--storage", "size=2G", "--at-least", "bw=1"],
    FIO,
]


@pytest.mark.parametrize("asked", ASKED, ids=["two", "four", "left-out", "several", "none"])
def test_the_printed_file_has_the_same_cells_and_ids(project, line_of, printed, asked):
    """Node by node, in the same order, and the same plan of cells and disks."""
    ours, plan = project.ids(*line_of(*asked)), project.run(*line_of(*asked, "--vm-plan"))
    project.write(test_vmstorage=printed(*asked))
    assert project.ids() == ours
    assert [line for line in project.run("--vm-plan").outlines if " in " not in line] == [
        line for line in plan.outlines if " in " not in line
    ]
    assert len(ours) == int(flat(plan).partition(" tests ")[0].rpartition(" ")[2]) if len(ours) > 1 else ours


def test_runs_of_a_folder_are_compared(project, line_of, printed):
    """The second one with the first, that of the printed file with both: they lie in the current folder."""
    assert project.run(*line_of(*FORMATS, *FIO, "--vm-save", "main")).ret == 0
    for words in (line_of(*FORMATS, *FIO, "--vm-baseline", "main"), ["--vm-baseline=main"]):
        result = project.run(*words)
        assert result.ret == 0, text_of(result)
        assert "against baseline 'main'" in flat(result)
        assert "1 saved day, +0 % time per operation" in flat(result)
        project.write(test_vmstorage=printed(*FORMATS, *FIO))
    assert list(project.path.glob(".benchmarks/*/0001_main.json"))
    assert list(project.path.glob(".vmstorage/*.jsonl"))


def test_a_threshold_fails_with_its_figure(project, line_of):
    """And with its spread and cell."""
    result = project.run(*line_of(*FORMATS, *FIO, "--at-least", "iops=50000"))
    result.assert_outcomes(failed=2)
    assert "iops 10k IOPS is not at least 50k IOPS (9900 IOPS to 10.1k IOPS in 3 rounds;" in text_of(result)


def test_what_failed_last_is_run_again(project, line_of):
    """By --lf, as with a file."""
    project.wish(speed={"qcow2-*": 0.5})
    asked = [*FORMATS, *FIO, "--at-least", "iops=9000"]
    project.run(*line_of(*asked)).assert_outcomes(passed=1, failed=1)
    result = project.run(*line_of(*asked, "--", "--lf", "-v"))
    result.assert_outcomes(failed=1, deselected=1)
    assert f"{TEST}[qcow2] FAILED" in text_of(result)


def test_workers_of_xdist_have_the_same_tests(project, line_of):
    """They get the text with the words of their controller."""
    result = project.run(*line_of(*FORMATS, *FIO, "--", "-n", "1", "-v"), own_process=True)
    result.assert_outcomes(passed=2)
    assert f"PASSED {TEST}[raw]" in text_of(result)


def test_assertions_may_be_left_as_they_are(project, line_of):
    """By pytest's own option."""
    result = project.run(*line_of(*FIO, "--at-least", "iops=50000", "--", "--assert=plain"))
    result.assert_outcomes(failed=1)
    assert "assert iops 10k" not in text_of(result)


def test_the_folder_counts_as_for_any_run(two_cells, line_of):
    """Its conftest.py and ini file hold; its tests are not run, a test_vmstorage.py of its own neither."""
    two_cells.write(
        conftest="def pytest_vmstorage_report(lines):\n    lines.append('of the conftest')\n",
        pytest__ini="[pytest]\npython_functions = check_*\nvm_rounds = 2\n",
        test_vmstorage="raise RuntimeError('read')",
    )
    result = two_cells.run(*line_of(*FORMATS, *FIO, "--", "-v"))
    result.assert_outcomes(passed=2)
    assert "of the conftest" in text_of(result)
    assert "round 2, 2 cells in turns" in text_of(result)
    assert "round 3" not in text_of(result)
    assert RAW not in text_of(result)
    assert QCOW2 not in text_of(result)


def test_a_folder_below_that_of_the_ini_file_has_its_own_runs(project, line_of, monkeypatch):
    """What is saved lies where the command was given."""
    project.write(pytest__ini="[pytest]\nvm_rounds = 2\n")
    below = project.path / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    result = project.run(*line_of(*FIO, "--vm-save=main", "--", "-p", "no:cacheprovider"))
    assert "configfile: ../pytest.ini" in text_of(result)
    result.assert_outcomes(passed=1)
    assert sorted(path.name for path in below.iterdir()) == [".benchmarks", ".vmstorage"]


@pytest.mark.parametrize(("wish", "status"), [({"kills": "qcow2*"}, -signal.SIGKILL), ({"interrupts": 3}, 2)])
def test_a_run_that_is_ended_leaves_no_test_behind(project, monkeypatch, tmp_path, wish, status):
    """After kill -9 and Ctrl-C there is a journal, no test file, nothing of it in TMPDIR; the next one runs."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    argv = [sys.executable, "-m", "pytest_vmstorage.cli.command", "run", *FORMATS, *FIO]
    project.wish(**wish)
    done = subprocess.run(argv, cwd=project.path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    there = {path.name for path in project.path.iterdir() if not path.name.startswith("lab-")}
    assert there <= {".benchmarks", ".pytest_cache", ".vmstorage", "events"}
    assert list(temporary.iterdir()) == []
    project.wish()
    done = subprocess.run(argv, cwd=project.path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["--fio", "rw=randwrit"], 4),
        ([*FIO, "--vm-units=nosuch"], 4),
        ([*FIO, "--", "-k", "nothing"], 5),
        ([*FIO, "--at-least", "iops=99999"], 1),
    ],
)
def test_its_exit_status_is_pytests(project, monkeypatch, words, status):
    """For wrong usage, too, whoever finds it."""
    argv = [sys.executable, "-m", "pytest_vmstorage.cli.command", "run", *words]
    done = subprocess.run(argv, cwd=project.path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_matrix_file_has_the_cells(project, line_of):
    """Where no axis is given."""
    project.write(matrix__toml='[axes]\nformat = ["raw", "qcow2"]\n')
    assert project.ids(*line_of(*FIO, "--vm-matrix", "matrix.toml")) == [
        f"{TEST.partition('::')[2]}[{one}]" for one in ("raw", "qcow2")
    ]


def test_without_a_text_the_plugin_collects_nothing_of_its_own(two_cells):
    """As when somebody loads it by its name."""
    assert len(two_cells.ids("-p", "pytest_vmstorage.plugin.text_module")) == 2
