"""`vmstorage run` with real guests: from the shell to the matrix, and what is left of one that is ended."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from test_runs import measuring, qemus, run_ids

COMMAND = [sys.executable, "-m", "pytest_vmstorage.cli.command"]
FIO = "rw=randwrite bs=4k iodepth=8 size=16M runtime=1"


def argv(folder: Path, fio: str, *words: str) -> list[str]:
    """The command for two cells, whose disks lie in that folder."""
    disks = f"--vm-dir={folder}/disks"
    return [*COMMAND, "run", "--axis", "format=raw,qcow2", "--storage", "size=64M", "--fio", fio, disks, *words]


def test_a_command_ends_with_a_matrix(tmp_path: Path) -> None:
    """Two cells, saved; nothing but reports lies there afterwards."""
    words = ["--vm-rounds=2", "--vm-report=m.md", "--vm-save=main", "--at-least", "iops=10"]
    done = subprocess.run(argv(tmp_path, FIO, *words), cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^raw .*\d +(±|n=)\d", done.stdout, re.MULTILINE)
    assert re.search(r"^qcow2 .*\d +(±|n=)\d", done.stdout, re.MULTILINE)
    assert "test_vmstorage.py .." in done.stdout
    left = {path.name for path in tmp_path.iterdir()} - {".pytest_cache"}
    assert sorted(left) == [
        ".benchmarks", ".vmstorage", "disks", "m.md",
    ]  # fmt: skip
    assert not list((tmp_path / "disks").iterdir())
    assert run_ids(tmp_path) == set()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill-9"])
def test_a_command_that_is_ended_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    """The process of the command is pytest itself: Ctrl-C reaches it, and after kill -9 there is what `reap` knows."""
    words = argv(tmp_path, f"{FIO}0 time_based")
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            run_id = measuring(tmp_path, lambda: process.poll() is None)
            process.send_signal(number)
            output = process.communicate(timeout=60)[0]
        finally:
            process.kill()
    assert run_id, output
    assert process.returncode == (2 if number == signal.SIGINT else -number), output
    if number == signal.SIGKILL:
        assert run_id in subprocess.run([*COMMAND, "reap"], capture_output=True, text=True, check=True).stdout
    assert qemus(run_id) == []
    assert run_id not in run_ids(tmp_path)
    assert not list((tmp_path / "disks").iterdir())
    assert not Path(f"/tmp/vms-{run_id}").exists()
    assert not list(tmp_path.rglob("test_*"))
