"""kill -9 of a whole run at any moment: one `vmstorage reap`, and nothing of it is left; nothing of others was touched.

Five moments from start to end of a short run; VMSTORAGE_KILLS=20 for as many, VMSTORAGE_KILLS_SEED for others.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pytest_vmstorage.host.folders import cache_folder
from pytest_vmstorage.host.lease import LIFETIME_S, Lease, LeaseBook, this_process

KILLS = int(os.environ.get("VMSTORAGE_KILLS", "5"))
SEED = int(os.environ.get("VMSTORAGE_KILLS_SEED", "14"))

RUN = """
import pytest
from pytest_vmstorage import Fio, ImageOperations

JOB = Fio(rw="randwrite", bs="4k", iodepth=4, size="8M", runtime=1)

@pytest.mark.storage(size="32M", host_fs="ext4")
def test_image_on_a_loop_device(measure): measure(JOB, rounds=1, warmup=0)

@pytest.mark.storage(size="32M", format="raw", backing="native", host_fs="ext4")
def test_native(measure): measure(JOB, rounds=1, warmup=0)

@pytest.mark.storage(size="32M", format="qcow2", encryption="luks")
def test_passphrase(measure): measure(JOB, rounds=1, warmup=0)

@pytest.mark.storage(size="32M", format="qcow2")
def test_operations(measure_image): measure_image(ImageOperations(data="4M"), rounds=1)
"""
"""A file system on a loop device below a guest and below fio itself, a guest with a passphrase, images without one."""

OTHERS = "0f0f0f0f0f"
"""The id of a run that lives: this process owns it."""

NAME = f"killed-{os.getpid()}"
APART = ("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', NAME)
"""On a machine of another name: another job's measurement on this one is not waited for."""


class Scene:
    """A folder with a run's test, its disks and a cache of its own; what a killed run leaves is looked for in all."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.disks, self.cache, self.temporary = (
            folder, folder / "disks", folder / "cache", folder / "temporary",
        )  # fmt: skip
        for path in (self.disks, self.cache, self.temporary):
            path.mkdir()
        (self.cache / "appliance").symlink_to(cache_folder() / "appliance")
        (folder / "test_it.py").write_text(RUN)
        self.book = LeaseBook(self.cache / "leases")
        self.seconds = 0.0
        self.met: list[str] = []

    @property
    def environ(self) -> dict[str, str]:
        """What all processes of a run have, but QEMU."""
        return {**os.environ, "VMSTORAGE_CACHE": str(self.cache), "TMPDIR": str(self.temporary)}

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """A run, in a process group of its own."""
        argv = [*APART, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--vm-dir={self.disks}"]
        argv += options
        with (self.folder / "output").open("wb") as output:
            return subprocess.Popen(
                argv, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def kill(self, part: float, *options: str, saving: bool = False) -> float:
        """Start a run and kill its process group after that part of its time; after how many seconds that was.

        With saving the moment is the one in which a guest is being saved, whenever that comes.
        """
        while True:
            begin, process = time.monotonic(), self.start(*options)
            try:
                if saving:
                    while not (self.cache / "states").exists() and process.poll() is None:
                        time.sleep(0.01)
                process.wait(part if saving else part * self.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return time.monotonic() - begin
            # others let the machine go meanwhile
            self.seconds = time.monotonic() - begin

    def reap(self, *options: str) -> tuple[int, str]:
        """The status and words of `vmstorage reap`."""
        done = subprocess.run(
            [*APART, sys.executable, "-m", "pytest_vmstorage.cli.command", "reap", *options],
            env=self.environ, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    def left(self) -> list[str]:
        """All that a run makes and should have removed, with what others made in the same places."""
        files = [*self.disks.iterdir(), *self.temporary.iterdir(), *(self.cache / "leases").glob("*")]
        files += [path for path in self.cache.iterdir() if path.name not in ("appliance", "leases", "libvirt")]
        roots = [path.parent for path in Path("/tmp").glob("vms-*/cache") if path.readlink().is_relative_to(self.cache)]
        return [
            *(str(path) for path in (*files, *roots)),
            *(f"QEMU or command {pid}" for pid in self.processes()),
            *(line for line in output("losetup", "-a").splitlines() if str(self.folder) in line),
            *(line for line in Path("/proc/mounts").read_text().splitlines() if str(self.folder) in line),
        ]

    def processes(self) -> Iterator[int]:
        """All that have the folder in their words or in their environment."""
        wanted = os.fsencode(self.folder)
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes()
                known = words + (path / "environ").read_bytes()
            except OSError:
                continue
            # a zombie has no words
            if words and wanted in known and int(path.name) != os.getpid():
                yield int(path.name)


def output(*argv: str) -> str:
    """What a command says."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


class Bystander:
    """What others have in the same places: a living run's guest, command, file system, lease; names alike."""

    def __init__(self, scene: Scene, undo: ExitStack) -> None:
        self._folder = scene.disks / f"run-{OTHERS}"
        self._book = scene.book
        self._uuid = str(uuid.uuid4())
        owner = this_process().model_copy(update={"host": NAME})
        self.lease = Lease(
            run_id=OTHERS, owner=owner, expires=time.time() + LIFETIME_S, uri=None, ssh=None, folder=str(self._folder),
            root=f"/tmp/vms-{OTHERS}", domains=(self._uuid,),
        )  # fmt: skip
        scene.book.write(self.lease)
        point = self._folder / "fs-1"
        point.mkdir(parents=True)
        image = self._folder / "fs-1.img"
        output("truncate", "-s", "16M", str(image))
        output("mkfs.ext4", "-q", str(image))
        self._loop = output("losetup", "--find", "--show", str(image)).strip()
        undo.callback(subprocess.run, ["losetup", "-d", self._loop], check=True)
        output("mount", self._loop, str(point))
        undo.callback(subprocess.run, ["umount", str(point)], check=True)
        self._disk = point / "disk-1.raw"
        self._disk.write_text("other")
        words = [f"guest=vms-{OTHERS}-1", "-uuid", self._uuid, "-machine", "none", "-display", "none", "-S"]
        self._started = [
            subprocess.Popen([shutil.which("qemu-system-x86_64") or "", "-name", *words], start_new_session=True),
            subprocess.Popen(["tail", "-f", str(self._disk)], start_new_session=True, stdout=subprocess.DEVNULL),
        ]
        undo.callback(self._end)
        # the kernel lets the parent go on before it has written down the words of what is begun
        while not all(Path(f"/proc/{process.pid}/cmdline").read_bytes() for process in self._started):
            time.sleep(0.01)
        (scene.disks / "run-notes.txt").write_text("mine")
        (scene.disks / "appliance.raw").write_text("mine")

    def _end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()

    def is_untouched(self) -> bool:
        """Whether all of it is as it was."""
        mounted = f"{self._loop} {self._disk.parent} ext4 " in Path("/proc/mounts").read_text()
        runs = [process.poll() is None for process in self._started]
        return mounted and all(runs) and self._disk.read_text() == "other" and self.lease in list(self._book)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """The scene, with a bystander; a whole run was timed, and left nothing."""
    made = Scene(tmp_path_factory.mktemp("killed"))
    with ExitStack() as undo:
        # the first one asks QEMU what it can, and boots a canary; the second is as fast as all that come
        for _ in range(2):
            begin = time.monotonic()
            process = made.start("--vm-boot=fresh")
            code = process.wait(240)
            made.seconds = time.monotonic() - begin
            assert code == 0, (made.folder / "output").read_text()
        assert set(made.left()) <= {str(made.cache / "leases" / "reap.lock"), str(made.cache / "accel.json")}
        made.bystander = Bystander(made, undo)  # type: ignore[attr-defined]
        yield made


def moment(number: int, of: int) -> float:
    """When to kill, as a part of the run: at random, but spread from start to end."""
    return (number + random.Random(f"{SEED}-{number}").random()) / of


def alike(scene: Scene) -> list[Path]:
    """Makes what is called nearly as what the dead run has; its lease says what that is."""
    made = []
    for lease in scene.book:
        if lease.run_id != OTHERS:
            made += [Path(f"{lease.folder}0"), Path(f"{lease.folder}-notes"), Path(f"{lease.root}0")]
    for path in made:
        path.mkdir()
        (path / "disk").write_text("mine")
    return made


@pytest.mark.parametrize("number", range(KILLS))
def test_one_reap_clears_a_killed_run(scene: Scene, number: int) -> None:
    """Guest, saved guest, command, mount, loop device, file, private folder, lease: gone; all of others: untouched."""
    if number % 5 == 4:
        # QEMU is asked again what it can, and a canary boots
        shutil.rmtree(scene.cache / "libvirt")
        (scene.cache / "accel.json").unlink(missing_ok=True)
    before = scene.left()
    # the reap before removed the saved guests, so that such a run saves one, and restores two
    part, boot = moment(number, KILLS), "restore" if number % 2 else "fresh"
    after_s = scene.kill(part, f"--vm-boot={boot}", saving=number == 1)
    there = sorted(set(scene.left()) - set(before))
    similar = alike(scene)
    try:
        looked = scene.reap("--dry-run")[1] if number % 2 else ""
        begin = time.monotonic()
        code, text = scene.reap()
        took_s = time.monotonic() - begin
        said = (
            f"killed after {after_s:.1f} of {scene.seconds:.1f} s, {len(there)} traces; reap in {took_s:.1f} s: {text}"
        )
        sys.stdout.write(said)
        assert code == 0, text
        assert re.findall(r"run (\w+) left", looked) == (re.findall(r"run (\w+) left", text) if looked else [])
        assert [path for path in similar if not (path / "disk").exists()] == []
    finally:
        for path in similar:
            shutil.rmtree(path, ignore_errors=True)
    keeps = {str(scene.cache / "accel.json"), str(scene.cache / "leases" / "reap.lock")}
    assert sorted(set(scene.left()) - set(before) - keeps) == []
    assert scene.bystander.is_untouched()  # type: ignore[attr-defined]
    assert (scene.disks / "run-notes.txt").read_text() == (scene.disks / "appliance.raw").read_text() == "mine"
    scene.met += there


def test_the_moments_showed_something(scene: Scene) -> None:
    """Killed runs left guests, leases, saved guests; with twenty moments also mounts, loop devices, private folders."""
    text = "\n".join(scene.met)
    wanted = [
        "QEMU or command",
        "/leases/",
        "/tmp/vms-",
        "/cache/states",
        *(["ext4", "/dev/loop"] if KILLS >= 20 else []),
    ]
    assert [word for word in wanted if word not in text] == []
