"""A run becomes the baseline: under which file, what counts from then on, and what is said of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.cli.promote import promote
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.results.saved import load_baseline
from pytest_vmstorage.testing.builders import make_host, make_measurement, make_run

QCOW2 = StorageConfig(format="qcow2")


def save(
    folder: Path, name: str, *measurements: Measurement, saved: str = "2026-01-01T00:00:00", qemu: str = "7.2.9"
) -> Path:
    """A file as pytest-benchmark writes it, with our block."""
    run = make_run(*measurements, hosts=[make_host("local", qemu=qemu)])
    path = folder / "Linux-CPython" / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"benchmarks": [], "datetime": saved, "vmstorage": run.model_dump(mode="json")}))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two days of main and a run of a branch, saved before the second of them."""
    save(tmp_path, "0001_main", make_measurement(iops=(100,)), make_measurement(QCOW2, iops=(50,)))
    save(tmp_path, "0002_branch", make_measurement(iops=(130,)), saved="2026-01-02T00:00:00", qemu="8.2.0")
    save(
        tmp_path,
        "0003_main",
        make_measurement(iops=(100,)),
        make_measurement(QCOW2, iops=(50,)),
        saved="2026-01-03T00:00:00",
    )
    return tmp_path


def test_the_name_begins_anew_with_the_run(folder: Path) -> None:
    """It is the newest whatever day it is of, earlier days count no more, and every file stays."""
    assert len(load_baseline("main", folder).earlier) == 1
    promote("branch", "main", folder)
    found = load_baseline("main", folder)
    assert found.path.name == "0004_main.json"
    assert (float(found.run.measurements[0].iops), found.earlier) == (130, ())
    assert sorted(path.name[:4] for path in found.path.parent.iterdir()) == ["0001", "0002", "0003", "0004"]
    save(folder, "0005_main", make_measurement(iops=(131,)), saved="2999-01-01T00:00:00")
    assert [float(run.measurements[0].iops) for run in load_baseline("main", folder).earlier] == [130]


def test_it_says_what_changed(folder: Path) -> None:
    """Figures, cells and the host's software."""
    cell = "fio randwrite 4k qd32 on {}-none-virtio-blk-off 1G, local"
    assert promote("branch", "main", folder)[1:] == [
        "host local: QEMU was 7.2.9 and is 8.2.0 now",
        f"{cell.format('raw')}: iops was 100 IOPS, and is 130 IOPS (+30.0 %)",
        f"{cell.format('qcow2')}: is not in it any more",
    ]
    back = promote("0003", "main", folder)
    assert f"{cell.format('qcow2')}: iops is new, 50 IOPS (1 round, spread unknown)" in back


def test_a_new_name_has_nothing_to_change(folder: Path) -> None:
    """The first baseline of a name."""
    said = promote("branch", "release", folder)
    assert said[1] == "there was no such baseline before; it has 1 measurements"
    assert load_baseline("release", folder).path.name == "0004_release.json"


def test_what_cannot_be_promoted_is_refused(folder: Path) -> None:
    """In a sentence, and nothing is written."""
    report = folder / "report.json"
    report.write_text(render_json(make_run(make_measurement())))
    for run, said in (
        (str(report), "is a report, and no run that pytest-benchmark saved"),
        ("0003", "is the newest run of 'main' already"),
        ("x", "there is no baseline 'x'"),
        ("x.json", "there is no file 'x.json', and no baseline of that name"),
        ("./", "'./' is a folder, not a saved run. Name a file in it, or a baseline. There are: main"),
    ):
        with pytest.raises(ConfigError, match=said):
            promote(run, "main", folder)
    assert len(list((folder / "Linux-CPython").iterdir())) == 3


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`vmstorage promote branch --as main`."""
    assert main(["promote", "branch", "--as", "main", "--storage", str(folder)]) == 0
    assert "0002_branch.json is the baseline 'main' now" in capsys.readouterr().out
    assert main(["promote", "nothing", "--as", "main", "--storage", str(folder)]) == 1
