"""Type checkers know the options of workloads, the figures of measurements and the types of fixtures: mypy, pyright.

They belong to the tox environment `types`, which runs this: python -m pytest tests/types
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
import signatures as maker

RIGHT = """
from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_vmstorage import (
    AssertFastest, AssertMonotonic, AssertRatio, Cells, Dd, Figure, Fio, Guest, Hdparm, HostEnvironment,
    ImageOperations, Ioping, Iozone, Measure, MeasureImage, Measurement, Postmark, Sqlite, StorageConfig, Tar, Tiobench,
    Web, cell,
)

FIO = Fio(rw="randwrite", bs="4k", iodepth=32, size="256M", runtime=5, extra={"dedupe_percentage": 50}, shown=("iops",))
DEPTHS = Fio(rw="randread", bs=4096, runtime="2m").over(iodepth=(1, 8, 32))
OTHERS = (
    Dd(bs="1M", count=512, oflag="direct"), Hdparm(t=True), Ioping(count=10, size="4k"), Tar(total_size="32M"),
    Iozone(file_size=("16M",), record_size=(4096, "64k")), Postmark(size=("512", 65536)), Sqlite(insertions=5),
    Web(size="16k", duration="3s"), Tiobench(rw="read"), Fio.from_text("rw=read bs=4k"), Fio.from_job("a.fio", BS="4k"),
)


def test_fio(measure: Measure, storage: StorageConfig, guest: Guest | HostEnvironment) -> None:
    result = measure(FIO, rounds=3)
    figure: Figure = result.iops
    assert figure > 500, storage.format
    assert result.clat_p99 < 0.1, result.figure("clat_p9999").spread
    assert guest.run("true").ok
    for job in (*DEPTHS, *OTHERS):
        measure(job)


@pytest.mark.storage(size="2G", format="raw")
@pytest.mark.workload(FIO, at_least={"iops": 500})
def test_declared(result: Measurement) -> None:
    assert result.iops > 500, result.workload


@pytest.fixture
def prepared(guest: Guest | HostEnvironment) -> str:
    return guest.run("mkdir -p /mnt/data").stdout


@pytest.mark.workload({"reads": Fio(rw="randread"), "writes": FIO})
def test_several(results: Mapping[str, Measurement], prepared: str) -> None:
    assert results["reads"].iops > results["writes"].iops / 10


def test_images(measure_image: MeasureImage) -> None:
    assert measure_image(ImageOperations(data="64M", operations=("create", "clone"))).clone < 1


def test_ratio(cells: Cells, assert_ratio: AssertRatio) -> None:
    cells.assert_ratio(cell("qcow2"), cell("raw"), at_least=0.9)
    assert_ratio(cell("qcow2"), cell("raw"), at_least=0.9)


def test_order(assert_fastest: AssertFastest, assert_monotonic: AssertMonotonic) -> None:
    assert_fastest(cell("none"))
    assert_monotonic("queues")
"""

EVERY_METRIC = (
    "def test_metrics(result: Measurement) -> None:\n    figures: list[Figure] = [\n{}\n    ]\n    print(figures)\n"
)
"""The figures of every metric of every workload, as attributes."""

WRONG = {
    'Fio(rw="randwrit")': "rw",
    'Fio(rw="randwrite", nosuch=1)': "nosuch",
    'Fio(rw="randwrite", iodepth="many")': "iodepth",
    'Fio(rw="randwrite", iodepth=1.0)': "iodepth",
    "Fio()": "rw",
    'Dd(ofag="direct")': "ofag",
    'Tiobench(rw="randwrit")': "rw",
    "FIO.over(iodepht=(1, 8))": "iodepht",
    "measure(FIO).iopsss": "iopsss",
    "measure(5)": "Workload",
    "pytest_vmstorage.Fioo": "Fioo",
    "RESULT.clat_p98": "clat_p98",
    "STORAGE.fromat": "fromat",
    "GUEST.run(5)": "str",
}
"""Lines that are wrong, and a word of what is said of each."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the right test file and one that has each wrong line in a function of its own."""
    folder = tmp_path_factory.mktemp("typed")
    metrics = "\n".join(f"        result.{name}," for name in sorted({metric.name for metric in maker.metrics()}))
    (folder / "test_right.py").write_text(f"{RIGHT}\n{EVERY_METRIC.format(metrics)}")
    lines = [
        "import pytest_vmstorage",
        "from pytest_vmstorage import Dd, Fio, Guest, Measure, Measurement, StorageConfig, Tiobench",
        'FIO = Fio(rw="read")',
        "RESULT: Measurement",
        "STORAGE: StorageConfig",
        "GUEST: Guest",
    ]
    lines += [f"def test_{number}(measure: Measure) -> None: print({one})" for number, one in enumerate(WRONG)]
    (folder / "test_wrong.py").write_text("\n".join(lines) + "\n")
    return folder


def of_mypy(files: Path) -> Iterator[tuple[str, int, str]]:
    """The errors of mypy --strict: file, line and message."""
    argv = ["-m", "mypy", "--strict", "--config-file=", "--output=json", "test_right.py", "test_wrong.py"]
    for line in run(argv, files).splitlines():
        found = json.loads(line)
        if found["severity"] == "error":
            yield found["file"], found["line"], found["message"]


def of_pyright(files: Path) -> Iterator[tuple[str, int, str]]:
    """The errors of pyright in its strict mode, by basedpyright: its package brings the node that it needs."""
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "include": ["."]}
    (files / "pyrightconfig.json").write_text(json.dumps(settings))
    found = json.loads(run(["-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable], files))
    assert found["summary"]["filesAnalyzed"] == 2
    for one in found["generalDiagnostics"]:
        if one["severity"] == "error":
            yield Path(one["file"]).name, one["range"]["start"]["line"] + 1, one["message"]


def run(argv: list[str], folder: Path) -> str:
    """What that module prints; no error of the checker itself."""
    done = subprocess.run([sys.executable, *argv], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("checker", [of_mypy, of_pyright])
def test_a_checker_finds_what_is_wrong_and_nothing_else(files: Path, checker: object) -> None:
    """One message for each wrong line that names what is wrong, and none for the right file."""
    found = list(checker(files))  # type: ignore[operator]
    assert [one for one in found if one[0] == "test_right.py"] == []
    for number, (line, word) in enumerate(WRONG.items(), 7):
        said = [message for _, at, message in found if at == number]
        assert any(word in message for message in said), f"{line}: {said}"
