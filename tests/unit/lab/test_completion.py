"""Words for a shell that completes: by the functions, and by argcomplete's own protocol where it is installed.

Tests of `cli.completion` too.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from pytest_vmstorage.config.cell import AXES, Format
from pytest_vmstorage.lab import completion
from pytest_vmstorage.plugin.options import OPTIONS
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.testing.builders import make_failure, make_measurement, make_run

ROOT = Path(__file__).parents[3]
FILES = ("dir", "image-sha256", "inventory", "matrix", "gate", "report", "timeline")
NUMBERS = ("wait", "budget", "precision", "rounds-limit", "timeout", "seed", "day-spread", "pairs-limit")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two hosts, an image and a saved run."""
    (tmp_path / "vmstorage.toml").write_text(
        '[hosts.lab01]\ntags = ["nvme"]\n[hosts.lab02]\n[images.mine]\npath = "/srv/i.qcow2"\n'
    )
    saved = tmp_path / ".benchmarks" / "machine" / "0001_main.json"
    saved.parent.mkdir(parents=True)
    run: Run = make_run(make_measurement(), failures=[make_failure()])
    saved.write_text(f'{{"benchmarks": [], "vmstorage": {run.model_dump_json()}}}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_option_with_values_that_can_be_listed_is_completed(folder: Path) -> None:
    """The others take a file, a number or a time."""
    takes = {name for _, _, options in OPTIONS for name, kind, *_ in options if kind != "bool"}
    assert completion.completes().keys() == takes - {*FILES, *NUMBERS}
    assert all(complete("") for name, complete in completion.completes().items() if name not in ("image", "governor"))


@pytest.mark.parametrize(
    ("option", "begun", "words"),
    [
        ("accel", "k", ["kvm"]),
        ("host", "", ["local", "lab01", "lab02", "tag:nvme", "all"]),
        ("host", "lab01,l", ["lab01,local", "lab01,lab02"]),
        ("image", "m", ["mine"]),
        ("without", "warmup,s", ["warmup,sync", "warmup,steady-state"]),
        ("baseline", "", ["main"]),
        ("columns", "iops,+usr", ["iops,+usr_cpu"]),
        ("against", "cac", ["cache="]),
        ("against", "cache=w", ["cache=writethrough", "cache=writeback"]),
        ("against", "iothread=", ["iothread=on", "iothread=off"]),
        ("against", "nothing=", []),
    ],
)
def test_a_word_that_begins_so(folder: Path, option: str, begun: str, words: list[str]) -> None:
    """What it may become; of several values the last one."""
    assert completion.completes()[option](begun) == words


def test_all_axes_are_completed(folder: Path) -> None:
    """With their values where these are a list."""
    assert completion.axis_value("") == [f"{axis}=" for axis in AXES]
    assert completion.axis_value("format=") == [f"format={value}" for value in get_args(Format)]
    assert completion.axis_value("queues=") == []


def test_cells_are_those_of_the_newest_saved_run(folder: Path) -> None:
    """Measured or failed."""
    assert completion.cells() == ["raw-none-virtio-blk-off"]


def test_a_folder_without_files_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does one whose files cannot be read; a shell is told of no error."""
    monkeypatch.chdir(tmp_path)
    assert (completion.hosts(), completion.images(), completion.saved_names(), completion.cells()) == (
        ["local"],
        [],
        [],
        [],
    )
    (tmp_path / "vmstorage.toml").write_text("nonsense")
    (tmp_path / ".benchmarks").mkdir()
    (tmp_path / ".benchmarks" / "0001_x.json").write_text("{")
    assert (completion.hosts(), completion.images(), completion.saved_names(), completion.cells()) == (
        ["local"],
        [],
        ["x"],
        [],
    )


def completed(words: list[str], line: str, folder: Path) -> list[str]:
    """What a shell is told by a program for this line, by argcomplete's protocol."""
    told = folder / "told"
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": "\n",
        "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n\"'><=;|&(:",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(told),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
    }
    done = subprocess.run([sys.executable, *words], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    return told.read_text().split("\n")


PYTEST = ["-m", "pytest", "-p", "no:cacheprovider"]
VMSTORAGE = ["-m", "pytest_vmstorage.cli.command"]


@pytest.mark.skipif(importlib.util.find_spec("argcomplete") is None, reason="argcomplete is not installed")
@pytest.mark.parametrize(
    ("words", "line", "told"),
    [
        (PYTEST, "pytest --vm-acc", ["--vm-accel "]),
        (PYTEST, "pytest --vm-accel=", ["auto", "kvm", "tcg"]),
        (PYTEST, "pytest --vm-without=warmup,s", ["warmup,sync", "warmup,steady-state"]),
        (PYTEST, "pytest --vm-against=cache=w", ["writethrough", "writeback"]),
        (VMSTORAGE, "vmstorage pro", ["promote "]),
        (VMSTORAGE, "vmstorage doctor --vm-host=lab", ["lab01", "lab02"]),
        (VMSTORAGE, "vmstorage run --axis format=r", ["raw "]),
        (VMSTORAGE, "vmstorage show ra", ["raw-none-virtio-blk-off "]),
        (VMSTORAGE, "vmstorage promote m", ["main "]),
    ],
)
def test_a_shell_is_told_by_argcomplete(folder: Path, words: list[str], line: str, told: list[str]) -> None:
    """As bash asks, with its breaks between words."""
    assert completed(words, line, folder) == told


@pytest.mark.skipif(importlib.util.find_spec("argcomplete") is not None, reason="argcomplete is installed")
@pytest.mark.parametrize("words", [PYTEST, VMSTORAGE], ids=["pytest", "vmstorage"])
def test_without_argcomplete_nothing_is_told(folder: Path, words: list[str]) -> None:
    """Nor is there a traceback; the shell asks only where somebody had it installed."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        completed(words, "vmstorage pro", folder)
    assert (caught.value.stdout, caught.value.stderr) == ("", "")
