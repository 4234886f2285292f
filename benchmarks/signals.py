"""What a run leaves that a signal ends: real runs of real guests, each sent one at a moment drawn from a seed.

Each run has one to four tests of these, three rounds in turns: guests with qcow2, raw, qcow2 with a passphrase, qcow2
on an ext4 of a loop device; fio on the host itself on such an ext4; operations on images. It is sent SIGKILL,
SIGQUIT, SIGHUP, SIGTERM, SIGINT or SIGINT twice, alone or with its process group, 0 to `--latest` seconds after it
got the host's lease; every seventh while it waits for it. What is left is looked for from outside: processes by their
words and environment, mounts, loop devices, files in the folder for disks, the cache and TMPDIR, /tmp/vms-RUN,
leases, sockets, abstract ones too. After SIGHUP, SIGTERM and SIGINT that is what is left before `vmstorage reap`, up
to 2 s after the run's end; after the two others `vmstorage reap` comes first, and what ends by itself has 3 s. A
sample counts as lost where Journal.write had returned and `.vmstorage/` does not have it. Bystanders are a guest of
--vm-keep, a mounted loop device with a reader, and a run that lives, with a lease, a QEMU and a mounted loop device
in the folder for disks.

It needs root, has a cache, a folder for disks and a host name of its own, and waits for nobody who measures. `--log`
keeps each moment, with the run's output where something was wrong, and begun again goes on from there. Before the
last line stands a table. The last line is JSON: `moments`, `left`, `lost`, `touched`, `wrong_end`, `no_report`
(counts, of which all but the first are to be 0), `reap_s` (median and most), `by_signal`.

    python benchmarks/signals.py [--seed 1] [--count 100] [--latest 25] [--only 3,7] [--folder FOLDER] [--log FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import random
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pytest_vmstorage.host.folders import cache_folder
from pytest_vmstorage.host.lease import LIFETIME_S, Lease, LeaseBook, this_process
from pytest_vmstorage.host.lock import FOLDERS
from pytest_vmstorage.results.packed import unpack_output

TESTS = """
import pytest
from pytest_vmstorage import Fio, ImageOperations

JOB = Fio(rw="randwrite", bs="4k", iodepth=4, size="16M", runtime=1, time_based=True)

@pytest.mark.parametrize("format", ["qcow2", "raw"])
@pytest.mark.storage(size="64M")
def test_image(measure): measure(JOB, rounds=3, warmup=0)

@pytest.mark.storage(size="64M", format="qcow2", encryption="luks")
def test_passphrase(measure): measure(JOB, rounds=3, warmup=0)

@pytest.mark.storage(size="64M", format="qcow2", host_fs="ext4")
def test_loop_device(measure): measure(JOB, rounds=3, warmup=0)

@pytest.mark.storage(size="64M", format="raw", backing="native", host_fs="ext4")
def test_native(measure): measure(JOB, rounds=3, warmup=0)

@pytest.mark.storage(size="64M", format="qcow2")
def test_operations(measure_image): measure_image(ImageOperations(data="4M"), rounds=1)
"""

IDS = (
    *("test_image[qcow2]", "test_image[raw]", "test_passphrase", "test_loop_device", "test_native", "test_operations"),
)

CONFTEST = """
import json, os
from pathlib import Path
from pytest_vmstorage.results.journal import Journal

_write = Journal.write

def write(self, nodeid, workload, config, host, sample):
    _write(self, nodeid, workload, config, host, sample)
    line = json.dumps({"nodeid": nodeid, "sample": sample.model_dump(mode="json"), "raw": sample.raw}) + "\\n"
    file = os.open(Path(__file__).with_name("reported"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, line.encode())
    os.close(file)

Journal.write = write
"""
"""Writes down each sample once the plugin says that it is on disk."""

SIGNALS: Mapping[str, tuple[signal.Signals, ...]] = {
    "SIGKILL": (signal.SIGKILL,),
    "SIGQUIT": (signal.SIGQUIT,),
    "SIGHUP": (signal.SIGHUP,),
    "SIGTERM": (signal.SIGTERM,),
    "SIGINT": (signal.SIGINT,),
    "SIGINT twice": (signal.SIGINT, signal.SIGINT),
}
ORDERLY = ("SIGHUP", "SIGTERM", "SIGINT", "SIGINT twice")
"""Those after which a run removes what it made."""

_INTERRUPTED = 2
"""pytest's exit status."""

_WAITING_S, _END_S, _ORDERLY_S, _REAPED_S = 4.0, 40.0, 2.0, 3.0
_EACH_WAITS = 7

NAME = f"signals-{os.getpid()}"
APART = (
    *("env", "--default-signal=HUP,INT,QUIT,TERM"),
    *("unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', NAME),
)
"""On a machine of another name, by which the host's lease goes, and with no signal ignored, as a shell's `&` has it."""

OTHERS = f"0f{os.getpid():08x}"
"""The id of a run that lives: this process owns it."""

_LAST_LINE = re.compile(r"^=+ .* in [\d.]+s.* =+$", re.MULTILINE)
_STATE = re.compile(r"state-[0-9a-f]+-[0-9a-f]+(\.sum)?")


@dataclass(frozen=True)
class Moment:
    """One signal: `after_s` counts from the lease, or with `waits` from the word that the run waits for it."""

    number: int
    signal: str
    to_group: bool
    waits: bool
    after_s: float
    apart_s: float
    boot: str
    seed: int
    tests: tuple[str, ...]


@dataclass
class Seen:
    """What came of a moment; `early` are runs that ended before it. `left` are what should not be there."""

    moment: Moment
    status: int | None = None
    early: int = 0
    end_s: float = 0.0
    at_once: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    reap_s: float = 0.0
    reap: str = ""
    samples: int = 0
    lost: int = 0
    has_report: bool = True
    touched: list[str] = field(default_factory=list)
    has_ended: bool = False
    output: str = ""

    @property
    def is_orderly(self) -> bool:
        """Whether it ended as pytest does when it is interrupted, or by the signal itself where nothing else can be.

        It may come when the run ends by itself, or has ended and Python is about to.
        """
        first = SIGNALS[self.moment.signal][0]
        if self.moment.signal not in ORDERLY:
            return self.status == -first
        return self.status == _INTERRUPTED or (self.status in (0, -first) and self.has_ended)

    @property
    def is_right(self) -> bool:
        """Whether all is as it is promised."""
        return self.is_orderly and self.has_report and not (self.left or self.lost or self.touched)


def draw(seed: int, count: int, latest_s: float) -> list[Moment]:
    """So many moments, of each signal as many, in an order of chance."""
    order = [*SIGNALS] * (count // len(SIGNALS) + 1)
    chance = random.Random(seed)
    order = order[:count]
    chance.shuffle(order)
    return [_moment(random.Random(f"{seed}-{number}"), number, name, latest_s) for number, name in enumerate(order)]


def _moment(chance: random.Random, number: int, name: str, latest_s: float) -> Moment:
    waits = number % _EACH_WAITS == _EACH_WAITS - 1
    return Moment(
        number=number,
        signal=name,
        to_group=chance.random() < 0.5,
        waits=waits,
        after_s=round(chance.uniform(0, _WAITING_S if waits else latest_s), 2),
        apart_s=round(chance.uniform(0.02, 1.5), 2),
        boot=chance.choice(("restore", "fresh")),
        seed=chance.randrange(1000),
        # the native row is measured first, and its samples come early
        tests=tuple(dict.fromkeys((*chance.choice(((), (IDS[4],))), *chance.sample(IDS, chance.randint(1, 3))))),
    )


class Scene:
    """A project, a folder for disks, a cache and a TMPDIR; what a run leaves is looked for in all, and in the host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project, self.disks, self.cache, self.temporary = (
            folder / name for name in ("project", "disks", "cache", "temporary")
        )
        for path in (self.project, self.disks, self.cache, self.temporary):
            path.mkdir()
        (self.cache / "appliance").symlink_to(cache_folder() / "appliance")
        (self.project / "pytest.ini").write_text("[pytest]\n")
        (self.project / "conftest.py").write_text(CONFTEST)
        (self.project / "test_it.py").write_text(TESTS)
        self.output = folder / "output"
        self.book = LeaseBook(self.cache / "leases")
        self.runs: set[str] = set()
        self.expected: set[str] = set()
        self._last: subprocess.Popen[bytes] | None = None
        self._environ = {
            **os.environ,
            "VMSTORAGE_CACHE": str(self.cache),
            "TMPDIR": str(self.temporary),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        """A run, in a process group and session of its own."""
        argv = [*APART, sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", f"--vm-dir={self.disks}"]
        with self.output.open("wb") as output:
            self._last = subprocess.Popen(
                [*argv, *options],
                cwd=self.project,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._last

    def end(self) -> None:
        """End the run that goes on, where this is interrupted."""
        if self._last is not None and self._last.poll() is None:
            self._last.terminate()
            self._last.wait()

    def vmstorage(self, *words: str) -> tuple[int, str, float]:
        """The command's status, what it said, and its seconds."""
        begin = time.monotonic()
        done = subprocess.run(
            [*APART, sys.executable, "-m", "pytest_vmstorage.cli.command", *words],
            cwd=self.project,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, time.monotonic() - begin

    def has_lease(self, pid: int) -> bool:
        """Whether that run wrote its name into the host's lock file."""
        return any(f"(pid {pid}" in _text(path) for path in locks())

    def note_runs(self) -> None:
        """Keep in mind the ids of runs that have a lease now: later the lease may be gone, and the rest not."""
        with contextlib.suppress(OSError):
            self.runs |= {path.stem for path in self.book.folder.glob("*.json")}

    def left(self, *, with_states: bool = True) -> list[str]:
        """All that a run makes and should have removed, and is not expected; saved guests stay until reap."""
        self.note_runs()
        found = [*self._files(with_states=with_states), *self._kernel(), *self._processes()]
        return sorted(set(found) - self.expected)

    def _files(self, *, with_states: bool) -> Iterator[str]:
        for folder in (self.disks, self.temporary):
            yield from (f"file {path}" for path in folder.iterdir())
        yield from (f"lease {path}" for path in self.book.folder.glob("*"))
        for path in self.cache.iterdir():
            if path.name not in ("appliance", "leases", "libvirt", "states"):
                yield f"file {path}"
        for path in (self.cache / "states").glob("*"):
            if with_states or not _STATE.fullmatch(path.name):
                yield f"file {path}"
        for path in Path("/tmp").glob("vms-*"):
            if any(run in path.name for run in self.runs) or self._is_linked(path):
                yield f"folder {path}"

    def _is_linked(self, root: Path) -> bool:
        try:
            return (root / "cache").readlink().is_relative_to(self.cache)
        except OSError:
            return False

    def _kernel(self) -> Iterator[str]:
        words = (str(self.folder), *(f"vms-{run}" for run in self.runs))
        loops = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
        for what, text in (
            ("loop device", loops),
            ("mount", _text(Path("/proc/mounts"))),
            ("socket", _sockets()),
        ):
            yield from (f"{what} {line}" for line in text.splitlines() if any(word in line for word in words))

    def _processes(self) -> Iterator[str]:
        wanted = [os.fsencode(self.folder), *(f"vms-{run}".encode() for run in self.runs)]
        own = {os.getpid(), *_ancestors()}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes()
                known = words + (path / "environ").read_bytes()
            except OSError:
                continue
            # a zombie has no words
            if words and int(path.name) not in own and any(word in known for word in wanted):
                name = "QEMU" if b"qemu-system" in words.split(b"\0")[0] else "command"
                yield f"{name} {path.name} {words.replace(bytes(1), b' ')[:80].decode(errors='replace')}"

    def samples(self) -> tuple[int, int]:
        """How many samples the run had reported as written, and how many of them are not there, or not as they were."""
        reported = [_key(json.loads(line)) for line in _text(self.project / "reported").splitlines()]
        there: list[str] = []
        for path in (self.project / ".vmstorage").glob("*.jsonl"):
            # a line that was cut is none that was reported
            whole = [line for line in _text(path).split("\n")[:-1] if '"sample"' in line]
            there += [_key(json.loads(line)) for line in whole]
        return len(reported), sum(one not in there for one in reported)

    def forget_samples(self) -> None:
        """The next run begins without any."""
        (self.project / "reported").unlink(missing_ok=True)
        shutil.rmtree(self.project / ".vmstorage", ignore_errors=True)


def _key(record: Mapping[str, Any]) -> str:
    sample = {name: value for name, value in record["sample"].items() if name != "raw"}
    raw = record["raw"] if "raw" in record else unpack_output(record["packed"])
    return json.dumps([record["nodeid"], sample, raw], sort_keys=True)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _sockets() -> str:
    """Inode and path of each, an abstract one's with an @."""
    lines = (line.split(maxsplit=7) for line in _text(Path("/proc/net/unix")).splitlines())
    return "\n".join(f"{words[6]} {words[7]}" for words in lines if len(words) == 8)


def _ancestors() -> Iterator[int]:
    """Whoever began this, such as a shell that has the folder in its words."""
    pid = os.getppid()
    while pid > 1:
        yield pid
        pid = int(_text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()[1])


def locks() -> list[Path]:
    """Where the lock file of the host's lease may lie."""
    return [Path(folder) / f"pytest-vmstorage-{NAME}.lock" for folder in FOLDERS]


@contextlib.contextmanager
def holding() -> Iterator[None]:
    """Hold the host's lease, as another job does."""
    path = next((one for one in locks() if one.is_file()), locks()[0])
    with path.open("a+") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.truncate(0)
        stream.write("another job\n")
        stream.flush()
        yield


class Bystanders:
    """What others have: a kept guest, a living run's guest, loop device and lease, a loop device of nobody's."""

    def __init__(self, scene: Scene, undo: ExitStack) -> None:
        self._scene = scene
        self._mounts: list[tuple[str, Path]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        living, foreign = scene.disks / f"run-{OTHERS}", scene.folder / "foreign"
        qemu = str(uuid.uuid4())
        owner = this_process().model_copy(update={"host": NAME})
        self._lease = Lease(
            run_id=OTHERS,
            owner=owner,
            expires=time.time() + LIFETIME_S,
            uri=None,
            ssh=None,
            folder=str(living),
            root=f"/tmp/vms-{OTHERS}",
            domains=(qemu,),
        )
        scene.book.write(self._lease)
        for folder in (living, foreign):
            self._mount(folder, undo)
        emulator = shutil.which("qemu-system-x86_64") or ""
        words = ["-name", f"guest=vms-{OTHERS}-1", "-uuid", qemu, "-machine", "none", "-display", "none", "-S"]
        self._start([emulator, *words], undo)
        self._kept = self._keep_guest(undo)

    def _mount(self, folder: Path, undo: ExitStack) -> None:
        point, image = folder / "fs-1", folder / "fs-1.img"
        point.mkdir(parents=True)
        with image.open("wb") as stream:
            stream.truncate(16 * 2**20)
        run("mkfs.ext4", "-q", str(image))
        loop = run("losetup", "--find", "--show", str(image)).strip()
        undo.callback(run, "losetup", "-d", loop)
        run("mount", loop, str(point))
        undo.callback(run, "umount", str(point))
        (point / "disk").write_text("other")
        self._mounts.append((loop, point))
        self._start(["tail", "-f", str(point / "disk")], undo)

    def _start(self, argv: Sequence[str], undo: ExitStack) -> None:
        process = subprocess.Popen(argv, start_new_session=True, stdout=subprocess.DEVNULL)
        undo.callback(process.wait)
        undo.callback(process.kill)
        self._processes.append(process)
        # the kernel lets the parent go on before it has written down the words of what is begun
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.01)

    def _keep_guest(self, undo: ExitStack) -> Lease:
        process = self._scene.start("--vm-keep", "--vm-boot=fresh", "-k", "test_image and raw", "--vm-rounds=1")
        if process.wait(300):
            raise SystemExit(self._scene.output.read_text())
        undo.callback(self._scene.vmstorage, "reap", "--kept")
        return next(lease for lease in self._scene.book if lease.kept)

    def touched(self) -> list[str]:
        """What of them is not as it was."""
        mounts, leases = _text(Path("/proc/mounts")), list(self._scene.book)
        found = [
            str(point)
            for loop, point in self._mounts
            if f"{loop} {point} ext4 " not in mounts or _text(point / "disk") != "other"
        ]
        found += [f"process {one.args!r}" for one in self._processes if one.poll() is not None]
        found += [f"lease of {one.run_id}" for one in (self._lease, self._kept) if one not in leases]
        return found

    def kept_answers(self) -> bool:
        """Whether the kept guest still runs a command."""
        status, said, _ = self._scene.vmstorage("exec", self._kept.run_id, "echo", "here")
        return status == 0 and "here" in said


def run(*argv: str) -> str:
    """What a command says; raises where it fails."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def take(scene: Scene, bystanders: Bystanders, moment: Moment) -> Seen:
    """Start a run, send it the signal at its moment, and look."""
    seen = Seen(moment)
    while True:
        scene.forget_samples()
        with holding() if moment.waits else contextlib.nullcontext():
            options = (f"--vm-boot={moment.boot}", f"--vm-seed={moment.seed}", "--vm-wait=10m")
            process = scene.start(*options, *(f"test_it.py::{name}" for name in moment.tests))
            if _reach(scene, process, moment):
                _end(scene, process, moment, seen)
                break
        # it ended before: another moment, as long as it may take
        seen.early += 1
        moment = replace(moment, after_s=round(moment.after_s * 0.7, 2))
    seen.moment = moment
    _clear(scene, seen)
    seen.samples, seen.lost = scene.samples()
    seen.touched = bystanders.touched()
    text = _text(scene.output)
    seen.has_report = moment.signal not in ORDERLY or not seen.samples or "VM storage" in text
    seen.has_ended = _LAST_LINE.search(text) is not None and "Traceback" not in text
    if not seen.is_right:
        seen.output = text
    return seen


def _reach(scene: Scene, process: subprocess.Popen[bytes], moment: Moment) -> bool:
    """Wait for the moment; False where the run ended before."""
    begin = time.monotonic()
    while not ("waiting up to" in _text(scene.output) if moment.waits else scene.has_lease(process.pid)):
        if process.poll() is not None or time.monotonic() - begin > 120:
            raise SystemExit(f"a run did not come to its lease:\n{_text(scene.output)}")
        time.sleep(0.02)
    until = time.monotonic() + moment.after_s
    while time.monotonic() < until and process.poll() is None:
        scene.note_runs()
        time.sleep(0.02)
    return process.poll() is None


def _end(scene: Scene, process: subprocess.Popen[bytes], moment: Moment, seen: Seen) -> None:
    begin = time.monotonic()
    for place, number in enumerate(SIGNALS[moment.signal]):
        if place:
            time.sleep(moment.apart_s)
        if process.poll() is None:
            (os.killpg if moment.to_group else os.kill)(process.pid, number)
    try:
        seen.status = process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    seen.end_s = round(time.monotonic() - begin, 2)
    seen.at_once = scene.left(with_states=False)
    if moment.signal in ORDERLY:
        seen.left = _within(_ORDERLY_S, scene, with_states=False)


def _clear(scene: Scene, seen: Seen) -> None:
    status, said, seconds = scene.vmstorage("reap")
    seen.reap_s, seen.reap = round(seconds, 2), said.strip()
    after = _within(_REAPED_S, scene, with_states=True)
    seen.left += [f"after reap: {one}" for one in after]
    if status:
        seen.left.append(f"reap ended with status {status}: {said}")


def _within(seconds: float, scene: Scene, *, with_states: bool) -> list[str]:
    """What is left, given that time to go."""
    until = time.monotonic() + seconds
    while (found := scene.left(with_states=with_states)) and time.monotonic() < until:
        time.sleep(0.1)
    return found


def told(seen: Seen) -> str:
    """A line while it goes on."""
    moment = seen.moment
    when = f"{moment.after_s:5.2f} s {'into the wait' if moment.waits else 'after the lease'}"
    whom = "group" if moment.to_group else "pytest"
    kinds = ", ".join(f"{count} {kind}" for kind, count in kinds_of(seen.at_once).items()) or "nothing"
    wrong = "".join(f"\n    LEFT {one}" for one in seen.left)
    wrong += f"\n    LOST {seen.lost} of {seen.samples} samples" if seen.lost else ""
    wrong += "".join(f"\n    TOUCHED {one}" for one in seen.touched)
    wrong += "" if seen.has_report else "\n    NO REPORT"
    wrong += "" if seen.is_orderly else "\n    WRONG END"
    return (
        f"{moment.number:3} {moment.signal:12} to {whom:6} {when}, {len(moment.tests)} tests, {moment.boot}: status"
        f" {_status(seen.status)} in"
        f" {seen.end_s:.1f} s, at once {kinds}; reap {seen.reap_s:.1f} s, {seen.samples} samples{wrong}"
    )


def kinds_of(found: Iterable[str]) -> dict[str, int]:
    """How many of each kind, as the first words say."""
    names = ("QEMU", "command", "loop device", "mount", "lease", "folder", "file", "socket")
    all_found = list(found)
    counted = {name: sum(one.startswith(f"{name} ") for one in all_found) for name in names}
    return {name: count for name, count in counted.items() if count}


def table(all_seen: Sequence[Seen]) -> Iterator[str]:
    """A Markdown table, a row for each signal."""
    yield "| signal | moments | of them waiting | status | there at once | left | samples | lost | reap, median, most |"
    yield "|---|---:|---:|---|---|---:|---:|---:|---:|"
    for name in SIGNALS:
        these = [one for one in all_seen if one.moment.signal == name]
        if not these:
            continue
        total = kinds_of(what for one in these for what in one.at_once)
        there = ", ".join(f"{count} {kind}" for kind, count in total.items()) or "nothing"
        status = ", ".join(dict.fromkeys(_status(one.status) for one in sorted(these, key=lambda one: str(one.status))))
        seconds = [one.reap_s for one in these]
        yield (
            f"| {name} | {len(these)} | {sum(one.moment.waits for one in these)} | {status} | {there} |"
            f" {sum(bool(one.left) for one in these)} | {sum(one.samples for one in these)} |"
            f" {sum(one.lost for one in these)} | {statistics.median(seconds):.1f} s, {max(seconds):.1f} s |"
        )


def _status(status: int | None) -> str:
    if status is None:
        return "none"
    return str(status) if status >= 0 else signal.Signals(-status).name


def summary(all_seen: Sequence[Seen]) -> dict[str, object]:
    """The last line."""
    seconds = [one.reap_s for one in all_seen]
    return {
        "moments": len(all_seen),
        "left": sum(bool(one.left) for one in all_seen),
        "lost": sum(one.lost for one in all_seen),
        "touched": sum(bool(one.touched) for one in all_seen),
        "wrong_end": sum(not one.is_orderly for one in all_seen),
        "no_report": sum(not one.has_report for one in all_seen),
        "samples": sum(one.samples for one in all_seen),
        "ended_before": sum(one.early for one in all_seen),
        "reap_s": [statistics.median(seconds), max(seconds)],
        "by_signal": {name: sum(one.moment.signal == name for one in all_seen) for name in SIGNALS},
    }


def read_log(path: Path | None) -> list[Seen]:
    """The moments of before."""
    lines = _text(path).splitlines() if path is not None else []
    records = [json.loads(line) for line in lines]
    return [Seen(**{**record, "moment": _read(record["moment"])}) for record in records]


def _read(record: Mapping[str, Any]) -> Moment:
    return Moment(**{**record, "tests": tuple(record["tests"])})


def send_all(folder: Path, moments: Sequence[Moment], log: Path | None) -> Iterator[Seen]:
    """What comes of each, told as it goes on."""
    scene = Scene(folder)
    with ExitStack() as undo:
        for path in locks():
            undo.callback(path.unlink, missing_ok=True)
        bystanders = Bystanders(scene, undo)
        undo.callback(scene.end)
        # the first run asks QEMU what it can, and boots a canary
        scene.vmstorage("reap")
        scene.expected = set(scene.left())
        scene.expected |= {f"lease {scene.book.folder / name}" for name in ("lock", "reap.lock")}
        scene.expected |= {f"file {scene.cache / 'accel.json'}"}
        for moment in moments:
            seen = take(scene, bystanders, moment)
            print(told(seen), flush=True)
            if log is not None:
                with log.open("a") as stream:
                    stream.write(f"{json.dumps(asdict(seen))}\n")
            yield seen
        if not bystanders.kept_answers():
            raise SystemExit("the kept guest does not answer any more")


def main() -> None:
    """Send the signals and print."""
    parser = argparse.ArgumentParser(description="what runs leave that a signal ends")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="where all of it lies (default: a temporary one)")
    parser.add_argument("--latest", type=float, default=25.0, help="seconds after the lease at most (default: 25)")
    parser.add_argument("--only", help="numbers of moments, with commas (default: all)")
    parser.add_argument("--log", type=Path, help="keep each moment here, and go on from those that it has")
    arguments = parser.parse_args()
    if os.geteuid():
        sys.exit("signals.py makes loop devices and a host name of its own: run it as root.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    # of SIGQUIT
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    found = read_log(arguments.log)
    wanted = set(map(int, arguments.only.split(","))) if arguments.only else set(range(arguments.count))
    wanted -= {one.moment.number for one in found}
    moments = [one for one in draw(arguments.seed, arguments.count, arguments.latest) if one.number in wanted]
    if moments:
        with tempfile.TemporaryDirectory(prefix="signals-", dir=arguments.folder) as folder:
            found += send_all(Path(folder), moments, arguments.log)
    print("\n".join(table(found)))
    result = summary(found)
    print(json.dumps(result))
    sys.exit(int(any(result[what] for what in ("left", "lost", "touched", "wrong_end", "no_report"))))


if __name__ == "__main__":
    main()
