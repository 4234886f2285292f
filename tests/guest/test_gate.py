"""The gate on real guests: a cell slower by a known loss is REGRESSED, with the right size, in pairs of guests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_vmstorage.analysis.gate.by_pairs import compare_pairs
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.results.run import Measurement, Run

SLOWED = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.storage(size="32M", cache="unsafe", total_iops_sec=80)
def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", iodepth=1, size="4M", runtime=1, time_based=True), warmup=0)
"""
# so few, and into the host's memory, that an emulated guest does both beside busy neighbours: QEMU's throttle sets the
# rate, and neither the processor nor the disk that all tests share
TRUE_LOSS = 120 / 80 - 1
"""What libvirt's <iotune> takes from the cell: each operation takes half as long again as on the other side."""


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A run of the slowed cell against one that is slowed less."""
    folder = tmp_path_factory.mktemp("gate")
    (folder / "test_it.py").write_text(SLOWED)
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--vm-dir={folder}/disks", "--junitxml=j.xml"]
    argv += ["--vm-against=total_iops_sec=120", "--vm-report=r.json", "--vm-seed=1"]
    return folder, subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=900)


def run_of(folder: Path) -> Run:
    """What the run saved."""
    return Run.model_validate_json((folder / "r.json").read_text())


def test_a_known_loss_is_found_with_its_size(slowed: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """A failed test, in JUnit too, whose sentence has the loss; the interval holds the true one."""
    folder, done = slowed
    assert done.returncode == 1, done.stdout + done.stderr
    assert 'failures="1"' in (folder / "j.xml").read_text()
    verdict = compare_pairs(run_of(folder), GatePolicy()).gated[0]
    assert verdict.kind is Kind.REGRESSED
    assert verdict.finding is not None
    assert verdict.finding.loss == pytest.approx(TRUE_LOSS, abs=0.05)
    assert verdict.reason in " ".join(done.stdout.split())


def test_pairs_are_of_guests_of_their_own(slowed: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    """Six pairs or more to suspect, twelve fresh ones to be sure, each of two guests that come one after the other."""
    run = run_of(slowed[0])
    own, other = run.measurements[0], run.against[0]
    assert own.fresh == 12
    # where other tests disturb them, six do not suffice
    assert len(own.samples) == len(other.samples) >= 18
    boots = [sample.boot for one in (own, other) for sample in one.samples]
    assert len(set(boots)) == len(boots)
    gaps = [after - before for before, after in zip(orders(own), orders(other), strict=True)]
    assert set(gaps) == {1, -1}, "both sides come first by chance"
    assert other.config == own.config.model_copy(update={"total_iops_sec": 120})
    assert {proof.found for proof in other.proof if proof.field == "total_iops_sec"} == {"120"}


def orders(measured: Measurement) -> list[int]:
    """Each round's place in the run."""
    return [sample.order for sample in measured.samples]
