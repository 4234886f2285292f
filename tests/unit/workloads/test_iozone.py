"""iozone: what is copied and run, and real output of two versions."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError, UnsupportedError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.iozone import Iozone

RECORDINGS = Path(__file__).parents[1] / "recordings"
REAL = (RECORDINGS / "iozone-3.489-8M-16M.txt").read_text()
PUBLIC = (RECORDINGS / "iozone-3.452-auto-stride.txt").read_text()


@pytest.fixture(autouse=True)
def _nothing_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever this machine has in its PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setattr("shutil.which", lambda _name: None)


def places(folder: Path) -> Target:
    """A file system and a scratch folder."""
    (folder / "disk").mkdir()
    (folder / "scratch").mkdir()
    return Target(path="/dev/vdb", size_bytes=0, folder=f"{folder}/disk", scratch=f"{folder}/scratch")


def test_the_pairs_are_what_is_run(tmp_path: Path) -> None:
    """Sizes in kilobytes; options once for all; records that no file holds are left out."""
    iozone = Iozone(file_size=("64k", "1M"), record_size=("4k", "128k"), tests=(2, 0), close=True, direct=True)
    target = Target(path="/dev/vdb", size_bytes=0, folder="/mnt/x", scratch="/tmp")
    assert iozone.argv(target)[6:] == (
        "/mnt/x/vmstorage-iozone", "/tmp/vmstorage-iozone.own", "-i 0 -i 2 -e -c -I", "64:4", "1024:4", "1024:128",
    )  # fmt: skip
    assert iozone.label == "iozone 64k/1M 4k/128k i=02 direct close"
    assert Iozone(flush=False).label == "iozone 16M 4k/64k/1M i=012 buffered"


def test_a_given_binary_is_copied_whole_and_run(tmp_path: Path) -> None:
    """In pieces that a guest's agent can carry; it runs before one that is installed."""
    given = tmp_path / "given"
    given.write_bytes(b'#!/bin/sh\necho ran "$@"\nexit 0\n' + bytes(range(256)) * 400)
    target = places(tmp_path)
    iozone = Iozone(binary=str(given))
    commands = iozone.setup(target)
    assert max(len(word) for command in commands for word in command) < 32_000
    for command in commands:
        subprocess.run(command, check=True, timeout=120)
    copied = tmp_path / "scratch" / "vmstorage-iozone.own"
    assert [path.name for path in copied.iterdir()] == ["iozone"]
    assert (copied / "iozone").read_bytes() == given.read_bytes()
    done = subprocess.run([copied / "iozone", "-v"], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "ran -v\n"
    subprocess.run(iozone.cleanup(target)[0], check=True, timeout=120)
    assert list((tmp_path / "scratch").iterdir()) + list((tmp_path / "disk").iterdir()) == []


def test_a_large_binary_is_sent_in_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that this machine has is found without being asked for."""
    python = "/bin/bash"
    monkeypatch.setattr("shutil.which", lambda _name: python)
    target = places(tmp_path)
    commands = Iozone().setup(target)
    assert len(commands) > 10
    for command in commands:
        subprocess.run(command, check=True, timeout=120)
    assert (tmp_path / "scratch/vmstorage-iozone.own/iozone").read_bytes() == Path(python).read_bytes()


def test_without_any_iozone_the_test_is_skipped(tmp_path: Path) -> None:
    """Its real script says so."""
    target = places(tmp_path)
    (setup,) = Iozone().setup(target)
    subprocess.run(setup, check=True, timeout=120)
    argv = ("env", f"PATH={tmp_path}/bin", "/bin/bash", *Iozone().argv(target)[3:])
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, "vmstorage: missing iozone\n")
    with pytest.raises(UnsupportedError, match=r"needs iozone.*Give one with Iozone\(binary="):
        Iozone().parse(done.stdout)


def test_a_file_without_room_is_refused_with_both_sizes(tmp_path: Path) -> None:
    """Before iozone meets the end of the disk."""
    setup = Iozone(file_size=("900T",)).setup(places(tmp_path))[0]
    done = subprocess.run(setup, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert f"needs 989560464998400 bytes, and {tmp_path}/disk/vmstorage-iozone has " in done.stderr


def test_figures_of_a_real_run() -> None:
    """iozone 3.489 in a guest; its kB are 1024 bytes."""
    iozone = Iozone(file_size=("8M", "16M"), record_size=("4k", "16M"))
    figures = iozone.parse(REAL)
    assert len(figures) == 18
    assert figures["write_16M_4k"] == 82051 / 1024
    assert figures["random_read_16M_16M"] == 1334182 / 1024
    assert figures["random_write_16M_16M"] == 22021 / 1024
    assert [metric.name for metric in iozone.metrics] == list(figures)
    assert iozone.primary == "write_16M_16M"
    assert iozone.primary in iozone.shown
    assert set(iozone.shown) < set(figures)


def test_figures_of_another_version_and_other_tests() -> None:
    """iozone 3.452 in its auto mode, as printed in a public blog of 2016 (A. Ludwar, Filesystem benchmarking).

    Columns of tests that did not run are empty there: a stride's figure stands seventh in its row.
    """
    iozone = Iozone(file_size=("64k",), record_size=("4k", "8k", "16k", "32k", "64k"), tests=(0, 1, 2, 5))
    figures = iozone.parse(PUBLIC)
    assert figures["stride_read_64k_4k"] == 2463305 / 1024
    assert figures["reread_64k_64k"] == 12653171 / 1024
    assert iozone.matrix(figures, "random_write") == {
        (65536, record * 1024): value / 1024
        for record, value in ((4, 1120480), (8, 1422167), (16, 1778661), (32, 1783120), (64, 1887599))
    }
    with pytest.raises(ConfigError, match=r"has no 'fread'. It has: write, rewrite, read"):
        iozone.matrix(figures, "fread")


@pytest.mark.parametrize(
    "text", ["", REAL.replace("           16384       4    82051", ""), REAL.replace("  82051 ", "      0 ")]
)
def test_a_missing_row_is_an_error(text: str) -> None:
    """With the pair that lacks it."""
    with pytest.raises(WorkloadError, match=r"no figures for a file of (8M|16M) in records of 4k"):
        Iozone(file_size=("8M", "16M"), record_size=("4k", "16M")).parse(text)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tests": (1, 2)}, r"Iozone\(tests=\(1, 2\)\) cannot be run.*0 among them"),
        ({"tests": (0, 8)}, "cannot be run"),
        ({"file_size": ()}, "not a list of whole kilobytes"),
        ({"record_size": (1000,)}, "not a list of whole kilobytes"),
        ({"file_size": ("4k",), "record_size": ("8k",)}, "No file of this Iozone holds one of its records"),
        ({"binary": "/no/such/iozone"}, r"Iozone\(binary='/no/such/iozone'\) does not exist"),
        ({"excel": True}, "Iozone has no option 'excel'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any], sentence: str) -> None:
    """Each slip has its sentence, before there is a guest."""
    with pytest.raises(ConfigError, match=sentence):
        Iozone(**options)


def test_the_sizes_of_auto_mode() -> None:
    """As iozone -a has them: 64k to 512M, 4k to 16M."""
    iozone = Iozone.auto(tests=(0,))
    assert (iozone.file_size[0], iozone.file_size[-1]) == (2**16, 2**29)
    assert (iozone.record_size[0], iozone.record_size[-1]) == (2**12, 2**24)
    assert iozone.columns == ("write", "rewrite")


def test_what_it_does_to_the_disk() -> None:
    """It needs a file system and nothing written before."""
    iozone = Iozone()
    assert (iozone.needs_folder, iozone.reads, iozone.writes, iozone.region_bytes) == (True, False, True, 0)
    assert iozone.fresh_is_possible
    assert iozone.moved_bytes(REAL) is None
    assert iozone.expected_seconds == pytest.approx(1 + 3 * 6 * 16 / 50)
