"""Whole pytest runs on real guests: what a user sees, and what is left behind."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.lab.opening import lease_book

MATRIX = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.storage(size="64M")
def test_random_write(guest, measure):
    result = measure(Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=1), rounds=2, warmup=0)
    assert result.iops > 10
"""

SLOW = MATRIX.replace("runtime=1)", "runtime=30, time_based=True)")

# a guest whose kernel finds no PCI bus never finds its root, says so on its console and powers off
BROKEN_QCOW2 = """
import pytest
from pytest_vmstorage.guest.boot import BootFiles

real = BootFiles.cmdline

@pytest.fixture(autouse=True, scope="session")
def no_pci_for_qcow2():
    def cmdline(self, config, accel):
        line = real(self, config, accel)
        return line + " pci=off" if config is not None and config.format == "qcow2" else line
    BootFiles.cmdline = cmdline
    yield
    BootFiles.cmdline = real
"""


def write(folder: Path, test: str, conftest: str = "") -> None:
    """Put a test file, and a conftest if there is one, into the folder."""
    (folder / "test_it.py").write_text(test)
    if conftest:
        (folder / "conftest.py").write_text(conftest)


def argv(*options: str) -> list[str]:
    """A pytest run as a user starts it."""
    return [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]


def run(folder: Path, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A finished pytest run in the folder."""
    return subprocess.run(
        argv(*options),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environ},
        check=False,
    )


def run_ids(folder: Path) -> set[str]:
    """Ids of the runs whose disks lie below the folder; other runs may go on beside these tests."""
    return {lease.run_id for lease in lease_book() if lease.folder.startswith(str(folder))}


def qemus(run_id: str) -> list[str]:
    """Pids of QEMU processes of that run."""
    return subprocess.run(
        ["pgrep", "-f", f"guest=vms-{run_id}"], capture_output=True, text=True, check=False
    ).stdout.split()


def written_bytes(run_id: str) -> int:
    """What the guest that is measured has written on the host, 0 where it is not there."""
    found = 0
    for pid in qemus(f"{run_id}-[0-9]+,"):
        try:
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        except OSError:
            continue
        found = max(found, *(int(line.split()[1]) for line in lines if line.startswith("write_bytes")))
    return found


def measuring(folder: Path, lives: Callable[[], bool]) -> str:
    """Wait until the run in that folder is in the middle of a measurement; its id, "" where it ended before."""
    deadline = time.monotonic() + 180
    run_id = ""
    # not the guest that is booted to be saved: that one ends before anything is measured. The disk's 16 MiB are
    # written once before they are measured
    while not (run_id and written_bytes(run_id) >= 24 * 2**20):
        if not lives() or time.monotonic() > deadline:
            return ""
        run_id = next(iter(run_ids(folder)), "")
        time.sleep(0.1)
    return run_id


@pytest.fixture
def started(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A pytest run that is in the middle of a measurement, and its run id."""
    write(tmp_path, SLOW)
    process = subprocess.Popen(
        argv("--vm-dir", str(tmp_path / "disks")),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    run_id = measuring(tmp_path, lambda: process.poll() is None)
    assert run_id, process.communicate(timeout=10)[0]
    yield process, run_id
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


@pytest.mark.quick
def test_two_cells_make_a_matrix(tmp_path: Path) -> None:
    """A run of two cells ends green with a matrix, three report files and nothing left behind."""
    write(tmp_path, MATRIX)
    done = run(tmp_path, "--vm-report=m.md", "--vm-report=m.csv", "--vm-report=m.json", f"--vm-dir={tmp_path}/disks")
    assert done.returncode == 0, done.stdout
    assert re.search(r"raw .*\d +(±|n=)\d", done.stdout)
    assert re.search(r"qcow2 .*\d +(±|n=)\d", done.stdout)
    assert re.search(r"^host \S+, (kvm|tcg \(emulated)", done.stdout, re.MULTILINE)
    assert all((tmp_path / name).stat().st_size for name in ("m.md", "m.csv", "m.json"))
    assert list((tmp_path / "disks").iterdir()) == []
    assert run_ids(tmp_path) == set()


def test_guest_that_does_not_boot_fails_alone(tmp_path: Path) -> None:
    """A guest that dies while booting is an error with its console's tail; the other cell is measured."""
    write(tmp_path, MATRIX, BROKEN_QCOW2)
    done = run(tmp_path)
    assert done.returncode == 1
    assert "1 passed, 1 error" in done.stdout
    assert "no disk with the serial vmstorage-root" in done.stdout
    assert "Traceback" not in done.stdout
    assert re.search(r"raw .*\d +(±|n=)\d", done.stdout)


def test_a_failure_stands_in_its_cell_with_its_name(tmp_path: Path) -> None:
    """A guest without a driver for its disk: the matrix names it, the sentence has the evidence."""
    conftest = BROKEN_QCOW2.replace("pci=off", "module_blacklist=virtio_scsi")
    write(tmp_path, MATRIX.replace('size="64M"', 'size="64M", bus="virtio-scsi"'), conftest)
    done = run(tmp_path, "--vm-report=m.md", "--vm-report=m.csv", f"--vm-dir={tmp_path}/disks", COLUMNS="100")
    assert done.returncode == 1
    assert "1 passed, 1 error" in done.stdout
    assert re.search(r"^raw .*\d +(±|n=)\d", done.stdout, re.MULTILINE)
    assert re.search(r"^qcow2 .*  failed: disk did not appear", done.stdout, re.MULTILINE)
    assert "Module virtio_scsi is blacklisted; its agent answers)." in " ".join(done.stdout.split())
    assert "| failed: disk did not appear: " in (tmp_path / "m.md").read_text()
    assert "disk did not appear: The guest of " in (tmp_path / "m.csv").read_text()
    assert list((tmp_path / "disks").iterdir()) == []
    assert run_ids(tmp_path) == set()


def test_boot_time_limit_is_kept(tmp_path: Path) -> None:
    """A guest that takes longer than --vm-timeout is an error that says so, and what to do."""
    write(tmp_path, MATRIX)
    done = run(tmp_path, "--vm-timeout=0.3s", "--vm-boot=fresh", "-k", "raw")
    assert done.returncode == 1
    assert "did not answer within 0.3 s" in done.stdout
    assert "Give it more time with --vm-timeout" in done.stdout


@pytest.mark.parametrize(
    ("number", "times"),
    [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGHUP, 1), (signal.SIGINT, 4)],
    ids=["ctrl-c", "sigterm", "sighup", "ctrl-c-again"],
)
def test_interrupt_leaves_nothing(
    started: tuple[subprocess.Popen[str], str], tmp_path: Path, number: signal.Signals, times: int
) -> None:
    """In the middle of a measurement it removes guest, disk, folders and lease, and the report is written.

    Ctrl-C, also when it is pressed on; SIGTERM of a CI system; SIGHUP of a terminal that is closed.
    """
    process, run_id = started
    for _ in range(times):
        if process.poll() is None:
            process.send_signal(number)
        time.sleep(0.1 if times > 1 else 0)
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 2, output
    assert "no tests ran" in output or "Interrupted" in output or "KeyboardInterrupt" in output, output
    assert ("vmstorage: the run ends" in output) is (times > 1), output
    assert qemus(run_id) == []
    assert run_id not in run_ids(tmp_path)
    assert not list((tmp_path / "disks").iterdir())
    assert not Path(f"/tmp/vms-{run_id}").exists()


def test_a_closed_terminal_leaves_nothing(tmp_path: Path) -> None:
    """The most usual end after Ctrl-C: nobody reads what is said any more, and all goes all the same."""
    write(tmp_path, SLOW)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, argv("--vm-dir", str(tmp_path / "disks")))
    os.set_blocking(terminal, False)

    def lives() -> bool:
        # what is said must be read, or it waits for room
        with contextlib.suppress(BlockingIOError, OSError):
            os.read(terminal, 65536)
        return os.waitpid(pid, os.WNOHANG) == (0, 0)

    run_id = measuring(tmp_path, lives)
    assert run_id
    os.close(terminal)
    deadline = time.monotonic() + 60
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert os.WIFEXITED(ended[1]), ended
    assert qemus(run_id) == []
    assert run_id not in run_ids(tmp_path)
    assert not list((tmp_path / "disks").iterdir())
    assert not Path(f"/tmp/vms-{run_id}").exists()


@pytest.mark.quick
def test_next_run_clears_what_a_killed_one_left(started: tuple[subprocess.Popen[str], str], tmp_path: Path) -> None:
    """After SIGKILL the guest goes on; `vmstorage reap` removes it, and says so, and leaves a living run alone."""
    process, run_id = started
    process.kill()
    process.communicate()
    assert qemus(run_id) != []
    reaped = subprocess.run(
        [sys.executable, "-m", "pytest_vmstorage.cli.command", "reap"], capture_output=True, text=True, check=True
    )
    assert run_id in reaped.stdout
    assert qemus(run_id) == []
    assert not list((tmp_path / "disks").iterdir())
    assert not Path(f"/tmp/vms-{run_id}").exists()
    assert run_id not in run_ids(tmp_path)


def test_living_run_is_not_reaped(started: tuple[subprocess.Popen[str], str]) -> None:
    """`vmstorage reap` beside a running pytest touches nothing of it."""
    process, run_id = started
    reaped = subprocess.run(
        [sys.executable, "-m", "pytest_vmstorage.cli.command", "reap"], capture_output=True, text=True, check=True
    )
    assert run_id not in reaped.stdout
    assert qemus(run_id) != []
    assert process.poll() is None


def test_kept_guest_can_be_looked_at(tmp_path: Path) -> None:
    """--vm-keep leaves the guest, says how to reach it, and `vmstorage reap --kept` ends it."""
    write(tmp_path, MATRIX)
    done = run(tmp_path, "--vm-keep", "-k", "raw")
    assert done.returncode == 0, done.stdout
    found = re.search(r"vmstorage exec (\w+) ", done.stdout)
    assert found, done.stdout
    cli = [sys.executable, "-m", "pytest_vmstorage.cli.command"]
    looked = subprocess.run(
        [*cli, "exec", found[1], "cat", "/proc/cmdline"], capture_output=True, text=True, check=False
    )
    reaped = subprocess.run([*cli, "reap", "--kept"], capture_output=True, text=True, check=True)
    assert "vmstorage.modules" in looked.stdout, looked.stderr
    assert found[1] in reaped.stdout
    assert qemus(found[1]) == []


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder for disks that cannot be made is one sentence and exit status 4."""
    write(tmp_path, MATRIX)
    (tmp_path / "file").write_text("in the way")
    done = run(tmp_path, "--vm-dir=file/disks")
    assert done.returncode == 4
    assert "cannot be written" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


def test_folder_that_is_full(tmp_path: Path) -> None:
    """A disk that cannot fit is an error of its cell that says how much is free and how much is needed."""
    write(tmp_path, MATRIX.replace('size="64M"', 'size="1000T"'))
    done = run(tmp_path, "-k", "raw")
    assert done.returncode == 1
    assert re.search(r"free, but a disk of .* may need", done.stdout)
    assert "Traceback" not in done.stdout


def test_no_qemu_on_the_machine(tmp_path: Path) -> None:
    """Without QEMU in PATH the run ends before any test, with the package's name."""
    write(tmp_path, MATRIX)
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for tool in Path(folder).iterdir():
            link = tools / tool.name
            if not tool.name.startswith("qemu") and not link.is_symlink():
                link.symlink_to(tool)
    done = run(tmp_path, PATH=str(tools))
    assert done.returncode == 4
    assert "There is no QEMU" in done.stderr + done.stdout
    assert "qemu-system-x86" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


def test_unknown_host(tmp_path: Path) -> None:
    """A host that cannot be reached is one sentence and exit status 4, without a password prompt."""
    write(tmp_path, MATRIX)
    done = run(tmp_path, "--vm-host=nosuch.invalid")
    assert done.returncode == 4
    assert "ssh to nosuch.invalid failed" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout
