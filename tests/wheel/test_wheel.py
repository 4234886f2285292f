"""The built wheel: what is in it, and that it works in an environment and a folder of its own."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]

TEST = """\
import pytest
from pytest_vmstorage import Dd


@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.storage(size="64M")
def test_write(guest, measure, storage):
    result = measure(Dd(bs="1M", count=16, oflag="direct"), rounds=1, warmup=0)
    assert result.bw > 1
    assert guest.host.check_output("blockdev --getsize64 " + guest.disk) == str(storage.size)
"""


def run(*argv: str | Path, cwd: Path) -> str:
    """The command's output; where it fails, the test does, with all that it said."""
    done = subprocess.run(
        argv, cwd=cwd, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=600
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the checkout as a release would be: through the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, CHECKOUT, cwd=folder)
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of an environment that holds the wheel and what it depends on."""
    folder = tmp_path_factory.mktemp("env")
    run(sys.executable, "-m", "venv", folder, cwd=folder)
    run(folder / "bin/python", "-m", "pip", "install", "-q", wheel, cwd=folder)
    return folder / "bin"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A user's folder with one test file, outside the checkout."""
    (tmp_path / "test_one.py").write_text(TEST)
    return tmp_path


def test_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    """Scripts of the guest and the typing marker are in it, and nothing beside the package."""
    inside = set(zipfile.ZipFile(wheel).namelist())
    tracked = {
        str(file.relative_to(CHECKOUT))
        for file in (CHECKOUT / "pytest_vmstorage").rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert {name for name in inside if ".dist-info/" not in name} == tracked
    assert any(name.endswith(".sh") for name in inside)
    assert "pytest_vmstorage/py.typed" in inside


def test_command_explains_itself(programs: Path, tmp_path: Path) -> None:
    """`vmstorage --help` names its subcommands."""
    said = run(programs / "vmstorage", "--help", cwd=tmp_path)
    assert "doctor" in said
    assert "image" in said


def test_collects_without_a_lab(programs: Path, project: Path) -> None:
    """`pytest --co -q` lists the tests of each configuration, and leaves nothing in the folder but pytest's own."""
    said = run(programs / "pytest", "--co", "-q", cwd=project)
    assert "test_one.py::test_write[raw]" in said
    assert "test_one.py::test_write[qcow2]" in said
    assert not (project / ".vmstorage").exists()


def test_measures_in_a_real_guest(programs: Path, project: Path) -> None:
    """Two configurations, measured and reported by what is installed from the wheel."""
    said = run(programs / "pytest", "-q", "--vm-report=matrix.csv", cwd=project)
    assert "2 passed" in said
    assert len((project / "matrix.csv").read_text().splitlines()) > 2
