"""Counters of the host around a round: the block device below the disk, QEMU's threads and I/O, pressure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.host.files import Files, first_line
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.results.cost import Cost, Process, read_process, spent
from pytest_vmstorage.results.counters import IoCounters, read_process_io
from pytest_vmstorage.results.series import Counts

_SECTOR_BYTES = 512

# df names the device below a file; a partition's flushes are counted by its whole disk;
# device mapper and md hand bios on and count no flushes
_PROBE = r"""
source=$1
[ -b "$source" ] || source=$(df --output=source -- "$1" | tail -n 1)
[ -b "$source" ] || exit 3
name=$(readlink -f -- "$source"); path=$(readlink -f "/sys/class/block/${name##*/}")
[ -e "$path/partition" ] && path=${path%/*}
counts=no; read -r cache <"$path/queue/write_cache"
case ${path##*/} in dm-*|md*) ;; *) [ "$cache" = 'write back' ] && counts=yes;; esac
read -r stat <"$path/stat" && echo "${path##*/} $counts $stat"
"""


class DeviceStat(BaseModel):
    """All users' I/O since the host booted: bytes read and written, and flushes that the device completed.

    `flushes` is None where the kernel sends the device no flushes: it has no volatile cache, or hands I/O on.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    read_bytes: int
    written_bytes: int
    flushes: int | None

    def as_counters(self) -> Mapping[str, int | None]:
        """The counters under the names of IoCounters."""
        return {
            "device_read_bytes": self.read_bytes,
            "device_written_bytes": self.written_bytes,
            "host_flushes": self.flushes,
        }


def device_stat(shell: Shell, path: str) -> DeviceStat | None:
    """The counters of the device at that path, or of the device below the file there; None where none can be seen."""
    done = shell.run(["sh", "-c", _PROBE, "sh", path])
    return read_device_stat(done.stdout) if done.ok else None


def read_device_stat(text: str) -> DeviceStat | None:
    """Read the probe's line (Documentation/block/stat.rst: sectors of 512 bytes; flushes are 16th since 5.5)."""
    name, counts, *fields = text.split() or ("", "")
    if len(fields) < 7:
        return None
    numbers = [int(field) for field in fields]
    return DeviceStat(
        name=name,
        read_bytes=numbers[2] * _SECTOR_BYTES,
        written_bytes=numbers[6] * _SECTOR_BYTES,
        flushes=numbers[15] if counts == "yes" and len(numbers) > 15 else None,
    )


PRESSED = ("cpu", "io", "memory")
"""Resources whose pressure the kernel reports, by their names below /proc/pressure."""

AROUND_ROUND = (
    "/proc/uptime",
    "/proc/pressure/*",
    "/proc/{pid}/io",
    "/proc/{pid}/stat",
    "/proc/{pid}/task/*/comm",
    "/proc/{pid}/task/*/schedstat",
    "/sys/class/block/{device}/stat",
)
"""Patterns of the files that are read around a round, with places for the pid and the device."""

_NOBODY = "none"


class Watched(BaseModel):
    """The things watched on the host: QEMU's process, the block device below the disk, and whether it counts flushes.

    `has_guest` without a `pid` is a guest whose process the host hides from this user. Without `has_disk` the guest's
    disk has no storage on the host.
    """

    model_config = ConfigDict(frozen=True)

    has_guest: bool = False
    pid: int | None = None
    device: str = ""
    has_disk: bool = True
    counts_flushes: bool = False

    def paths(self, patterns: Iterable[str]) -> tuple[str, ...]:
        """The patterns with pid and device filled in; where one is unknown its pattern matches no path."""
        return tuple(one.format(pid=self.pid or _NOBODY, device=self.device or _NOBODY) for one in patterns)


class Pressure(BaseModel):
    """The host's uptime in seconds, and for how many of them some task waited for cpu, io or memory.

    `recent` is the kernel's average of the last 10 s (avg10), as fractions.
    """

    model_config = ConfigDict(frozen=True)

    uptime_s: float | None = None
    some_s: Mapping[str, float] = {}
    recent: Mapping[str, float] = {}


class HostLook(BaseModel):
    """The host's counters at one moment."""

    model_config = ConfigDict(frozen=True)

    io: Mapping[str, int] = {}
    device: DeviceStat | None = None
    process: Process | None = None
    pressure: Pressure = Pressure()


class Look(BaseModel):
    """All counters around a round at one moment: those of the guest, of QEMU's block layer, and of the host.

    `counts` are those with which the series of a round can begin; None where they have to be read for it.
    """

    model_config = ConfigDict(frozen=True)

    moved: IoCounters = IoCounters()
    process: Process | None = None
    pressure: Pressure = Pressure()
    counts: Counts | None = None

    def moved_since(self, before: Look) -> IoCounters:
        """The I/O of each layer since another look."""
        return self.moved.since(before.moved)

    def spent_since(self, before: Look) -> Cost:
        """QEMU's cost since another look."""
        return spent(before.process, self.process)

    def pressed_since(self, before: Look) -> Mapping[str, float]:
        """The fraction of the time since another look in which some task waited, by resource; {} if unknown."""
        begin, end = before.pressure, self.pressure
        if begin.uptime_s is None or end.uptime_s is None or end.uptime_s <= begin.uptime_s:
            return {}
        seconds = end.uptime_s - begin.uptime_s
        # uptime has hundredths, pressure microseconds
        both = begin.some_s.keys() & end.some_s.keys()
        return {
            name: min(1.0, (end.some_s[name] - begin.some_s[name]) / seconds) for name in end.some_s if name in both
        }


def read_look(files: Files, watched: Watched) -> HostLook:
    """The host's counters, from the files of one look."""
    folder, process = f"/proc/{watched.pid}", None
    if watched.pid is not None:
        threads = {
            int(tid): (name, first_line(files, f"{folder}/task/{tid}/schedstat")) for tid, name in names(files, folder)
        }
        process = read_process(first_line(files, f"{folder}/stat"), threads, watched.pid)
    counts = "yes" if watched.counts_flushes else "no"
    stat = first_line(files, f"/sys/class/block/{watched.device}/stat")
    return HostLook(
        io=read_process_io("\n".join(files.get(f"{folder}/io", ()))),
        device=read_device_stat(f"{watched.device} {counts} {stat}") if stat else None,
        process=process,
        pressure=read_pressure(files),
    )


def names(files: Files, folder: str) -> Iterator[tuple[str, str]]:
    """Id and name of each thread of the process with that /proc folder."""
    for path in files:
        if path.startswith(f"{folder}/task/") and path.endswith("/comm"):
            yield path.split("/")[4], first_line(files, path)


def read_pressure(files: Files) -> Pressure:
    """The pressure, from the files of one look."""
    uptime = first_line(files, "/proc/uptime").split()
    some = {name: _words(line) for name in PRESSED if (line := first_line(files, f"/proc/pressure/{name}", "some "))}
    return Pressure(
        uptime_s=float(uptime[0]) if uptime else None,
        some_s={name: int(words["total"]) / 1e6 for name, words in some.items()},
        recent={name: float(words["avg10"]) / 100 for name, words in some.items()},
    )


def _words(line: str) -> Mapping[str, str]:
    return dict(word.split("=", 1) for word in line.split() if "=" in word)
