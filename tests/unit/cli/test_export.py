"""`vmstorage export`, with `report.exports.targets`: which runs it takes, where it writes, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.exports.targets import TARGETS
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.testing.builders import make_failure, make_host, make_measurement, make_run

Export = Callable[..., tuple[int, str, list[str]]]


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Export:
    """A run of the command in an empty folder: its status, output, and lines on stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, list[str]]:
        status = main(["export", *words])
        out, err = capsys.readouterr()
        return status, out, err.splitlines()

    return call


def save(name: str, run: Run) -> None:
    """The run as --vm-save leaves it, one day of that name."""
    folder = Path(".benchmarks/machine")
    folder.mkdir(parents=True, exist_ok=True)
    number = len(list(folder.iterdir())) + 1
    document = {"datetime": run.started, "vmstorage": json.loads(render_json(run))}
    (folder / f"{number:04}_{name}.json").write_text(json.dumps(document))


def day(number: int, iops: float, **more: object) -> Run:
    """A run of that day, with one cell."""
    began = f"2026-03-{number:02}T04:05:06+00:00"
    made = make_measurement(iops=(iops,))
    samples = tuple(one.model_copy(update={"started": began}) for one in made.samples)
    return make_run(made.model_copy(update={"samples": samples}), started=began, **more)  # type: ignore[arg-type]


def test_a_name_is_all_its_days_and_a_number_is_one(export: Export) -> None:
    """Without either it is the newest run."""
    for number in (1, 2, 3):
        save("main", day(number, number * 10))
    assert export("main", "--format=influxdb")[1].count("\n") == 3
    assert "iops_operations_per_second=20.0" in export("2", "--format=influxdb")[1]
    assert "iops_operations_per_second=30.0" in export("--format=influxdb")[1]
    # as saved with --benchmark-storage
    Path(".benchmarks").rename("elsewhere")
    assert export("main", "--format=influxdb", "--storage=elsewhere")[1].count("\n") == 3
    Path("elsewhere").rename(".benchmarks")
    # a day that is named twice is one
    assert export("main", "2", "--format=influxdb")[1].count("\n") == 3


@pytest.mark.parametrize("target", [name for name, target in TARGETS.items() if not target.has_history])
def test_what_takes_one_run_gets_the_newest(export: Export, target: str) -> None:
    """And the user is told."""
    for number in (1, 2):
        save("main", day(number, number * 10))
    status, out, said = export("main", f"--format={target}", "--better=higher")
    assert (status, "20.0" in out, "10.0" in out) == (0, True, False)
    assert said == [f"vmstorage: {target} takes one run at a time: written is the newest, of 2026-03-02T04:05:06+00:00"]


def test_what_is_left_out_and_what_is_emulated_is_said(export: Export) -> None:
    """Ten cells by name, the others by their number."""
    failures = [make_failure(StorageConfig(size=f"{size}M")) for size in range(1, 13)]
    save("main", day(1, 5, failures=failures, hosts=[make_host(accel="tcg")]))
    status, out, said = export("main", "--format=openmetrics")
    assert (status, out.endswith("# EOF\n")) == (0, True)
    assert len(said) == 12
    assert said[0].startswith("vmstorage: left out: raw-none-virtio-blk-off 1M on local")
    assert said[10] == "vmstorage: left out: 2 more"
    assert (
        said[11] == "vmstorage: Guests ran under software emulation (TCG): these figures say nothing about performance."
    )


def test_a_file_is_written_whole_and_counted(export: Export) -> None:
    """In a folder that is made; for otava it is a folder of files."""
    save("main", day(1, 5))
    status, out, said = export("main", "--format=bencher", "-o", "new/run.json")
    assert (status, out, said) == (0, "", ["vmstorage: wrote new/run.json: 1 figures in 1 rows of 1 run"])
    assert len(json.loads(Path("new/run.json").read_text())) == 1
    export("main", "--format=otava", "-o", "series")
    config = Path("series/otava.yaml").read_text()
    (table,) = Path("series").glob("*.csv")
    assert f'file: "series/{table.name}"' in config


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("main --format=otava", "Name a folder for them with -o FOLDER. [VM338]"),
        ("main --format=bencher --better=lower", "there is no figure to export. Name other runs, metrics or"),
        ("main --format=bencher --metrics=iosp", "these runs have no metric 'iosp'."),
        ("main --format=bencher -o .benchmarks", "the export .benchmarks is a folder."),
        ("main --format=bencher -o .benchmarks/machine/0001_main.json/x", "is not writable or no folder."),
        ("maim --format=bencher", "there is no baseline 'maim'"),
    ],
)
def test_what_cannot_be_is_one_sentence(export: Export, words: str, said: str) -> None:
    """With nothing written."""
    save("main", day(1, 5))
    status, out, lines = export(*words.split())
    assert (status, out) == (1, "")
    assert said in lines[0]


def test_a_run_whose_every_cell_failed_says_why(export: Export) -> None:
    """The first reason stands in the refusal."""
    save("main", make_run(failures=[make_failure()]))
    status, _, lines = export("main", "--format=influxdb")
    assert status == 1
    assert "there is no figure to export: raw-none-virtio-blk-off 1G on local" in lines[0]
    assert "The guest did not answer" in lines[0]
