"""postmark: its settings file, what it refuses, and its real output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.postmark import Postmark

RECORDINGS = Path(__file__).parents[1] / "recordings"
RECORDED = (RECORDINGS / "postmark-1.53-2000-transactions.txt").read_text()
FAILED = (RECORDINGS / "postmark-1.53-no-inodes.txt").read_text()


def target(folder: Path) -> Target:
    """A place for its files, and one for its settings."""
    return Target(path="/dev/vdb", size_bytes=0, folder=str(folder), scratch=str(folder))


def test_the_settings_file_is_postmarks_own() -> None:
    """Every option is said, in its words, then it runs."""
    assert Postmark.published().settings("/mnt/x").splitlines() == [
        "set location /mnt/x", "set size 512 65536", "set number 100000", "set transactions 50000", "set read 4096",
        "set write 4096", "set subdirectories 5", "set buffering false", "set bias read 5", "set bias create 5",
        "set seed 42", "run", "quit",
    ]  # fmt: skip


def test_a_users_settings_file_is_read(tmp_path: Path) -> None:
    """What it leaves out has postmark's defaults; location, report and commands are not the user's to give."""
    file = tmp_path / "settings"
    file.write_text("set location /srv/mail\nset size 1000 2000\nset bias read 8\nset buffering false\n\nrun\nquit\n")
    assert Postmark.from_file(file) == Postmark(
        size=(1000, 2000), number=500, transactions=500, read=512, write=512, subdirectories=0, bias_read=8
    )


def test_its_own_settings_come_back(tmp_path: Path) -> None:
    """What is written for postmark is read from it."""
    postmark = Postmark(size=(1, 9), number=3, seed=5, buffering=True, bias_create=10, subdirectories=0)
    (tmp_path / "settings").write_text(postmark.settings("/mnt/x"))
    assert Postmark.from_file(tmp_path / "settings") == postmark
    assert "subdirectories" not in postmark.settings("/mnt/x"), "postmark refuses 0"


@pytest.mark.parametrize("line", ["set nothing 1", "set size 512", "number 5", "set bias 5", "set number"])
def test_a_line_that_is_no_setting_is_refused(tmp_path: Path, line: str) -> None:
    """postmark would say "Eh?" and go on."""
    file = tmp_path / "settings"
    file.write_text(f"set number 5\n{line}\n")
    with pytest.raises(ConfigError, match=f"line 2: '{line}' is not understood"):
        Postmark.from_file(file)


def test_a_settings_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """With its path."""
    with pytest.raises(ConfigError, match=f"settings {tmp_path}/none cannot be read"):
        Postmark.from_file(tmp_path / "none")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"size": (65536, 512)}, r"size=\(65536, 512\)\) must be the smallest and the largest file"),
        ({"size": (0, 512)}, "must be the smallest and the largest"),
        ({"read": 0}, r"Postmark\(read=0\) moves nothing"),
        ({"bias_read": 11}, r"Postmark\(bias_read=11\)"),
        ({"number": 0}, r"Postmark\(number=0\)"),
        ({"location": "/"}, "Postmark has no option 'location'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, object], sentence: str) -> None:
    """Each slip has its sentence, before there is a guest."""
    with pytest.raises(ConfigError, match=sentence):
        Postmark(**options)


def test_figures_of_a_real_run() -> None:
    """postmark calls 0.64 s a second and says 2000 per second; the stopwatch knows better."""
    figures = Postmark().parse(RECORDED)
    assert figures == {
        "tps": pytest.approx(2000 / 0.638318, rel=1e-5),
        "read_bw": pytest.approx(36.53 / 1.236491, rel=1e-5),
        "write_bw": pytest.approx(77.56 / 1.236491, rel=1e-5),
        "seconds": pytest.approx(1.236491),
    }
    postmark = Postmark()
    assert [metric.name for metric in postmark.metrics] == list(figures)
    assert postmark.metrics[0].unit == "transactions/s"
    assert postmark.primary in postmark.shown
    assert set(postmark.shown) < set(figures)


def test_small_amounts_have_another_unit() -> None:
    """postmark scales what it prints, by 1024."""
    text = RECORDED.replace("36.53 megabytes read", "512.00 kilobytes read").replace("77.56 mega", "2048.00 ")
    figures = Postmark().parse(text)
    assert figures["read_bw"] == pytest.approx(0.5 / 1.236491, rel=1e-5)
    assert figures["write_bw"] == pytest.approx(2 / 1024 / 1.236491, rel=1e-5)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (FAILED, "did not say what it did"),
        ("", "did not say what it did"),
        ("Eh?\n" + RECORDED, "did not say what it did"),
        (RECORDED.replace("1795195899.254556", ""), "'transactions' printed no time"),
        (RECORDED.replace("1 seconds of", "3 seconds of"), "counted 3 s for its transactions, and they took 0.6 s"),
    ],
    ids=["no inodes", "empty", "eh", "untimed", "other"],
)
def test_output_that_cannot_be_trusted_is_an_error(text: str, sentence: str) -> None:
    """The stopwatch goes by the stages that postmark prints: one that prints them late would be caught."""
    with pytest.raises(WorkloadError, match=sentence):
        Postmark().parse(text)


def run_with(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Its real commands around a postmark that is that shell script."""
    (folder / "bin").mkdir()
    (folder / "bin" / "postmark").write_text(f"#!/bin/sh\n{program}\n")
    (folder / "bin" / "postmark").chmod(0o755)
    postmark = Postmark(number=1, transactions=1)
    subprocess.run(postmark.setup(target(folder))[0], check=True, timeout=120)
    assert (folder / "vmstorage-postmark").is_dir()
    path = f"{folder}/bin:{os.environ['PATH']}"
    return subprocess.run(
        postmark.argv(target(folder)),
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "PATH": path},
    )  # fmt: skip


def test_the_stopwatch_goes_by_the_stages(tmp_path: Path) -> None:
    """From the word that begins the transactions to the one that begins deleting."""
    done = run_with(
        'printf "Performing transactions"; sleep 1; printf "...Done\\nDeleting files"; sleep 1; echo', tmp_path
    )
    words = {line.split()[1]: line.split() for line in done.stdout.splitlines() if line.startswith("part ")}
    seconds = {name: float(end) - float(begin) for name, (_part, _name, begin, end) in words.items()}
    # half a second for a busy machine to see each word
    assert 0.5 < seconds["transactions"] < seconds["total"] - 0.5


def test_an_error_ends_the_run(tmp_path: Path) -> None:
    """postmark itself would go on, with a line for each of thousands of files."""
    done = run_with('printf "Creating files..."; yes "Error: cannot open" >&2; echo never', tmp_path)
    assert done.returncode != 0
    assert done.stdout == "Creating files...Error: cannot open\n"


def test_a_disk_without_room_is_refused_with_both_sizes(tmp_path: Path) -> None:
    """postmark counts bytes that were never written."""
    done = subprocess.run(
        Postmark(number=10**7, size=("1G", "1G")).setup(target(tmp_path))[0],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert f"postmark may write {(10**7 + 1000) * (2**30 + 4096)} bytes" in done.stderr
    assert f"and {tmp_path}/vmstorage-postmark has " in done.stderr


def test_all_it_made_is_removed(tmp_path: Path) -> None:
    """Its folder, and its settings."""
    postmark = Postmark()
    subprocess.run(postmark.setup(target(tmp_path))[0], check=True, timeout=120)
    assert len(list(tmp_path.iterdir())) == 2
    subprocess.run(postmark.cleanup(target(tmp_path))[0], check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


def test_what_it_does_to_the_disk() -> None:
    """It needs a file system and nothing written before."""
    postmark = Postmark(size=("1k", "4k"), buffering=True)
    assert postmark.label == "postmark 1000 files 2000 transactions size=1024 4096 buffering=true"
    assert (postmark.needs_folder, postmark.reads, postmark.writes, postmark.region_bytes) == (True, False, True, 0)
    assert postmark.fresh_is_possible
    assert postmark.moved_bytes(RECORDED) is None
    assert postmark.expected_seconds == 5
