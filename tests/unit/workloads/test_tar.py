"""tar: the tree it makes, by its real script, its command line, and the times of a real run."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.tar import Tar

RECORDED = (Path(__file__).parents[1] / "recordings" / "tar-1.34-400-files-32M.txt").read_text()


def made(tar: Tar, folder: Path) -> dict[str, bytes]:
    """The files of the tree that its setup really makes, by path; the tree alone lies in its place."""
    folder.mkdir()
    for argv in tar.setup(Target(path="/dev/vdb", size_bytes=0, folder=str(folder))):
        subprocess.run(argv, check=True, timeout=120)
    assert [path.name for path in (folder / "vmstorage-tar").iterdir()] == ["tree"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_the_tree_is_exactly_what_was_asked_for(tmp_path: Path) -> None:
    """Files, folders with the tree's own, bytes; some larger than the piece of random data they are cut from."""
    tar = Tar(files=40, folders=12, total_size="64M")
    files = made(tar, tmp_path / "a")
    folders = [path for path in (tmp_path / "a" / "vmstorage-tar").rglob("*") if path.is_dir()]
    assert (len(files), len(folders), sum(map(len, files.values()))) == (40, 12, 64 * 2**20)
    assert max(map(len, files.values())) > 3 * min(map(len, files.values()))


def test_the_seed_decides_the_sizes(tmp_path: Path) -> None:
    """The same tree in every run of the same seed, another one otherwise."""
    first, again, other = (
        {path: len(data) for path, data in made(Tar(files=20, folders=3, total_size="1M", seed=seed), place).items()}
        for seed, place in ((1, tmp_path / "a"), (1, tmp_path / "b"), (2, tmp_path / "c"))
    )
    assert first == again
    assert first != other


def test_no_layer_can_shrink_the_tree(tmp_path: Path) -> None:
    """gzip finds nothing to save."""
    data = b"".join(made(Tar(files=20, folders=3, total_size="2M"), tmp_path / "a").values())
    assert len(gzip.compress(data)) > 0.99 * len(data)


def test_what_a_killed_round_left_is_no_obstacle(tmp_path: Path) -> None:
    """The place is the workload's own, and is emptied first."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "vmstorage-tar").mkdir()
    (tmp_path / "a" / "vmstorage-tar" / "1.tar").touch()
    target = Target(path="/dev/vdb", size_bytes=0, folder=str(tmp_path / "a"))
    tar = Tar(files=3, folders=1, total_size="1k")
    subprocess.run(tar.setup(target)[0], check=True, timeout=120)
    assert [path.name for path in (tmp_path / "a" / "vmstorage-tar").iterdir()] == ["tree"]
    subprocess.run(tar.cleanup(target)[0], check=True, timeout=120)
    assert list((tmp_path / "a").iterdir()) == []


def test_a_tree_without_room_is_refused_with_both_sizes(tmp_path: Path) -> None:
    """By the guest, who alone knows what is free."""
    target = Target(path="/dev/vdb", size_bytes=0, folder=str(tmp_path))
    done = subprocess.run(
        Tar(total_size="900T").setup(target)[0], check=False, timeout=120, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "need 49478023" in done.stderr
    assert f"and {tmp_path}/vmstorage-tar has " in done.stderr


def test_figures_of_a_real_run() -> None:
    """The sum, each part, and MiB of content per second over both of a kind."""
    figures = Tar().parse(RECORDED)
    assert figures == {
        "seconds": pytest.approx(2.372404),
        "pack_bw": pytest.approx(64 / (0.355175 + 0.897044), rel=1e-5),
        "unpack_bw": pytest.approx(64 / (0.580323 + 0.539862), rel=1e-5),
        "pack_1": pytest.approx(0.355175),
        "pack_2": pytest.approx(0.897044),
        "unpack_1": pytest.approx(0.580323),
        "unpack_2": pytest.approx(0.539862),
    }
    assert [metric.name for metric in Tar().metrics] == list(figures)
    assert Tar().primary in Tar().shown
    assert set(Tar().shown) <= set(figures)


def test_a_part_without_a_time_is_an_error() -> None:
    """An old bash leaves the times empty; a clock may be set back."""
    with pytest.raises(WorkloadError, match=r"'unpack_2' printed no time. It needs bash 5"):
        Tar().parse(RECORDED.replace("part unpack_2 1795195680.552240", "part unpack_2 "))
    with pytest.raises(WorkloadError, match="'pack_1' took no time"):
        Tar().parse(RECORDED.replace("1795195678.749249", "1795195678.394074"))


def test_the_preset_is_the_published_tree() -> None:
    """Timed as the study did it, without a sync at the end of a part."""
    tar = Tar.published()
    assert tar.label == "tar 7489 files 429 folders 5337369897 buffered"
    assert tar.argv(Target(path="/dev/vdb", size_bytes=0, folder="/mnt/x"))[-2:] == ("/mnt/x/vmstorage-tar", "0")
    assert 300 < tar.expected_seconds < 600


def test_what_it_does_to_the_disk() -> None:
    """It needs a file system and nothing written before; each round's files are new."""
    tar = Tar(seed=7)
    assert tar.label == "tar 400 files 25 folders 32M seed=7"
    assert (tar.needs_folder, tar.reads, tar.writes, tar.region_bytes) == (True, False, True, 0)
    assert tar.fresh_is_possible
    assert tar.moved_bytes(RECORDED) is None


@pytest.mark.parametrize("options", [{"files": 0}, {"folders": 0}, {"total_size": "much"}, {"seed": -1}])
def test_a_tree_that_cannot_be_is_refused(options: dict[str, object]) -> None:
    """Before there is a guest."""
    with pytest.raises(ConfigError):
        Tar(**options)
