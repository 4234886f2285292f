"""A user's workload with its defaults and its errors, and what workloads that make files share, by their real commands.

The latter are tests of `workloads.script` too.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import ClassVar

import pytest

from pytest_vmstorage import Iozone, Metric, Postmark, Tar, Target, Web, Workload
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import FileWorkload

SECONDS = Metric(name="seconds", unit="s", better="lower")
DISK = Target(path="/dev/vdb", size_bytes=2**30)


class Short(Workload):
    """The least that a workload can be."""

    tool = "mkfs"
    metrics = (SECONDS, Metric(name="blocks", unit="blocks", better="lower"))

    blocks: int = 3

    def argv(self, target: Target) -> tuple[str, ...]:
        """A line."""
        return ("mkfs", target.path)


class InFiles(Short):
    """One that makes files of its own."""

    needs_folder = True


def test_what_is_not_said_is_taken_at_its_most_careful() -> None:
    """All of the disk, read and written; the first metric; a label with all options."""
    short = Short(blocks=4)
    assert (short.region_bytes, short.reads, short.writes, short.fresh_is_possible) == (None, True, True, False)
    assert (short.primary, short.shown, short.label) == ("seconds", ("seconds",), "Short blocks=4")
    assert short.expected_seconds > 0
    assert (short.setup(DISK), short.cleanup(DISK), short.output_file(DISK)) == ((), (), None)


def test_one_that_makes_files_reads_only_what_it_made() -> None:
    """And touches none of the test file."""
    files = InFiles()
    assert (files.region_bytes, files.reads, files.writes, files.fresh_is_possible) == (0, False, True, True)


def test_figures_are_read_from_lines_of_name_and_number() -> None:
    """Whatever else is printed."""
    assert Short().parse("made in a moment\nseconds 125e-3\n\nblocks 7\n") == {"seconds": 0.125, "blocks": 7.0}
    with pytest.raises(WorkloadError, match=r"Short blocks=3 printed no line with a number for 'blocks'"):
        Short().parse("seconds 1\n")
    with pytest.raises(WorkloadError, match=r"printed no line with a number for .*'soon'"):
        Short().parse("seconds soon\nblocks 7\n")


class Nameless(Short):
    """Says no tool."""

    tool: ClassVar[str] = ""


class Empty(Short):
    """Measures nothing."""

    metrics = ()


class Double(Short):
    """Two figures of one name."""

    metrics = (SECONDS, SECONDS)


class Elsewhere(Short):
    """Its gate is a figure that it does not have."""

    primary = "iops"


class Shows(Short):
    """Its column is a figure that it does not have."""

    shown = ("seconds", "bw")


class Unranked(Short):
    """Says nothing of which cell is faster."""

    metrics = (Metric(name="seconds", unit="s", better="neither"),)


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (Unranked, r"Unranked's primary metric 'seconds' has no better direction\."),
        (Nameless, r"Nameless names no tool\. Write in the class: tool = \"nameless\""),
        (Empty, r"Empty has no metrics\. Give each figure that it returns one Metric\."),
        (Double, r"Double has two metrics 'seconds'\."),
        (
            Elsewhere,
            r"Elsewhere names 'iops' in primary or shown, which is not among its metrics\. It has: seconds, blocks\.",
        ),
        (Shows, r"Shows names 'bw' in primary or shown"),
    ],
)
def test_a_class_that_contradicts_itself_is_told_when_it_is_used(kind: type[Short], sentence: str) -> None:
    """Before there is a guest, in a sentence."""
    with pytest.raises(ConfigError, match=sentence):
        kind()


def test_a_slip_in_its_options_is_told_as_for_every_workload() -> None:
    """By the class's own name."""
    with pytest.raises(ConfigError, match=r"Short has no option 'block'\. Did you mean 'blocks'\? It has: blocks\."):
        Short(block=1)
    with pytest.raises(ConfigError, match=r"Short\(blocks='few'\): Input should be a valid integer"):
        Short(blocks="few")


def test_a_class_without_argv_cannot_be_made() -> None:
    """Python's own sentence names what is missing."""

    class Idle(Workload):
        tool = "idle"
        metrics = (SECONDS,)

    with pytest.raises(TypeError, match=r"abstract.*argv"):
        Idle()  # type: ignore[abstract]


EACH = pytest.mark.parametrize("kind", [Iozone, Postmark, Tar, Web], ids=lambda kind: kind.tool)


@EACH
def test_files_and_scratch_may_lie_in_one_folder(tmp_path: Path, kind: type[FileWorkload]) -> None:
    """As on a native row; none of it is left afterwards."""
    workload = kind()
    target = Target(path="/dev/vdb", size_bytes=0, folder=str(tmp_path), scratch=str(tmp_path))
    for command in workload.setup(target):
        subprocess.run(command, check=True, timeout=120)
    assert Path(workload.place(target)).is_dir()
    assert Path(workload.scratch_path(target)).exists() is (kind is not Tar)
    for command in workload.cleanup(target):
        subprocess.run(command, check=True, timeout=120)
    assert list(tmp_path.iterdir()) == []


@EACH
def test_they_touch_nothing_of_the_test_file(kind: type[FileWorkload]) -> None:
    """What they read they wrote, so that nothing is filled for them and a fresh disk will do."""
    workload = kind()
    assert (workload.needs_folder, workload.region_bytes, workload.reads, workload.writes) == (True, 0, False, True)
    assert workload.fresh_is_possible


@EACH
def test_files_that_are_set_aside_keep_their_blocks(tmp_path: Path, kind: type[FileWorkload]) -> None:
    """Each round's under a name of its own; what is not on the disk under test goes."""
    workload = kind()
    (tmp_path / "scratch").mkdir()
    target = Target(path="/dev/vdb", size_bytes=0, folder=str(tmp_path), scratch=str(tmp_path / "scratch"))
    for _round in range(3):
        for command in (*workload.setup(target), *workload.set_aside(target)):
            subprocess.run(command, check=True, timeout=120)
    place = Path(workload.place(target))
    assert {path.name for path in tmp_path.iterdir()} == {"scratch", *(f"{place.name}.{n}" for n in (1, 2, 3))}
    assert list((tmp_path / "scratch").iterdir()) == []
