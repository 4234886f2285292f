"""The host around a measurement, read through its shell; hidden values are "unknown", never left out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from pytest_vmstorage.host.counters import AROUND_ROUND, HostLook, Watched, device_stat, names, read_look, read_pressure
from pytest_vmstorage.host.files import Files, first_line, guest_pid, read_small, read_with_qemus
from pytest_vmstorage.host.shell import LocalShell, Shell
from pytest_vmstorage.results.cost import Process, read_process, thread_class
from pytest_vmstorage.results.host import NO_DEVICE, UNKNOWN, HostState
from pytest_vmstorage.results.series import Counts, read_device_counts

_CPU = "/sys/devices/system/cpu"
_AROUND_ROUNDS = (
    "/proc/uptime",
    "/proc/pressure/*",
    f"{_CPU}/cpu*/cpufreq/scaling_governor",
    f"{_CPU}/intel_pstate/no_turbo",
    f"{_CPU}/cpufreq/boost",
    "/sys/devices/system/node/node*/cpulist",
    "/sys/class/thermal/thermal_zone*/temp",
    "/sys/class/hwmon/hwmon*/temp*_input",
    "/sys/class/block/{device}/queue/scheduler",
    "/sys/class/block/{device}/queue/write_cache",
    "/proc/{pid}/task/*/comm",
)
_LONG = {"/proc/meminfo": "MemTotal:", "/proc/{pid}/task/*/status": "Cpus_allowed_list:"}


class HostWatch:
    """The host around a guest's or a native row's disk; the first look finds the process and the device.

    `disk` is a path on the host, "" for a disk without storage; `uuid` is the guest's, "" without a guest.
    """

    def __init__(self, shell: Shell, disk: str, uuid: str = "") -> None:
        self._shell = shell
        self._disk = disk
        self._uuid = uuid
        self._watched: Watched | None = None

    def look(self) -> HostLook:
        """The counters of a round, by one command; by none on a local host, where its programs would be read anew."""
        watched = self._where()
        return read_look(read_small(self._shell, watched.paths(AROUND_ROUND)), watched)

    def count(self) -> Counts | None:
        """The counts of the device below; None on another machine, where a reading is a process beside the tool."""
        watched = self._where()
        if not isinstance(self._shell, LocalShell) or not watched.device:
            return None
        counts = read_device_counts(self._shell.read(f"/sys/class/block/{watched.device}/stat"))
        if counts is None or watched.counts_flushes:
            return counts
        return counts._replace(flushes=None, flush_us=None)

    def begin(self) -> Callable[[], HostState]:
        """Look at the host's state; the function returned looks again, and gives the state of the time between."""
        begin = self._state()
        return lambda: read_state(begin, self._state(), self._where())

    def _state(self) -> Files:
        watched = self._where()
        long = dict(zip(watched.paths(_LONG), _LONG.values(), strict=True))
        return read_with_qemus(self._shell, watched.paths(_AROUND_ROUNDS), long)

    def _where(self) -> Watched:
        if self._watched is None:
            below = device_stat(self._shell, self._disk) if self._disk else None
            self._watched = Watched(
                has_guest=bool(self._uuid),
                pid=guest_pid(self._shell, self._uuid) if self._uuid else None,
                device=below.name if below is not None else "",
                has_disk=bool(self._disk),
                counts_flushes=below is not None and below.flushes is not None,
            )
        return self._watched


def read_state(begin: Files, end: Files, watched: Watched) -> HostState:
    """The host's state: counters from both looks, all else from the second."""
    queue = f"/sys/class/block/{watched.device}/queue"
    others, others_cpu = _others(begin, end, watched)
    chosen = re.search(r"\[(\S+)\]", first_line(end, f"{queue}/scheduler"))
    total = re.search(r"\d+", first_line(end, "/proc/meminfo", "MemTotal:"))
    nothing = UNKNOWN if watched.has_disk else NO_DEVICE
    return HostState(
        governor=_joined(line for path, (line, *_) in end.items() if path.endswith("/scaling_governor")),
        turbo=_turbo(end),
        device=watched.device or nothing,
        scheduler=chosen[1] if chosen else first_line(end, f"{queue}/scheduler") or nothing,
        write_cache=first_line(end, f"{queue}/write_cache") or nothing,
        temperature=_temperature(end),
        numa=_numa(end),
        may_run=_may_run(end, watched),
        memory_bytes=int(total[0]) * 1024 if total else None,
        others=others,
        others_cpu=others_cpu,
        recent=read_pressure(begin).recent,
    )


def merge_states(states: Sequence[HostState]) -> HostState:
    """One state for rounds of several turns: every text that was seen, and the largest of the numbers."""
    if len(states) == 1:
        return states[0]
    texts = ("governor", "turbo", "device", "scheduler", "write_cache", "numa", "may_run", "temperature")
    numbers = ("memory_bytes", "others", "others_cpu")
    known = {name: [value for one in states if (value := getattr(one, name)) is not None] for name in numbers}
    return HostState.model_validate(
        {
            **{name: _joined(getattr(one, name) for one in states) for name in texts},
            **{name: max(values, default=None) for name, values in known.items()},
            "recent": {name: max(one.recent.get(name, 0.0) for one in states) for one in states for name in one.recent},
        }
    )


def _joined(values: Iterable[str]) -> str:
    return "/".join(dict.fromkeys(value.strip() for value in values)) or UNKNOWN


def _turbo(files: Files) -> str:
    told = {"0": "on", "1": "off"}.get(first_line(files, f"{_CPU}/intel_pstate/no_turbo"))
    return told or {"1": "on", "0": "off"}.get(first_line(files, f"{_CPU}/cpufreq/boost"), UNKNOWN)


def _temperature(files: Files) -> str:
    # thousandths of a degree; a sensor that is off shows nothing, or a value below freezing
    texts = [line for path, (line, *_) in files.items() if "/thermal_zone" in path or "/hwmon" in path]
    degrees = [int(text) / 1000 for text in texts if text.isdigit() and int(text)]
    return f"{max(degrees):.0f} C" if degrees else UNKNOWN


def _numa(files: Files) -> str:
    nodes = re.compile(r"/node(\d+)/cpulist$")
    said = [f"node {found[1]}: {lines[0]}" for path, lines in files.items() if (found := nodes.search(path))]
    return " and ".join(said) or UNKNOWN


def _may_run(files: Files, watched: Watched) -> str:
    if not watched.has_guest:
        return "no QEMU"
    folder, places = f"/proc/{watched.pid}", dict[str, list[str]]()
    for tid, name in names(files, folder):
        cpus = first_line(files, f"{folder}/task/{tid}/status").partition(":")[2].strip()
        if cpus:
            places.setdefault(cpus, []).append(thread_class(name, is_first=int(tid) == watched.pid))
    if len(places) < 2:
        return next(iter(places), UNKNOWN)
    return "; ".join(f"{', '.join(dict.fromkeys(kinds))} on {cpus}" for cpus, kinds in places.items())


def _others(begin: Files, end: Files, watched: Watched) -> tuple[int | None, float | None]:
    """The number of other QEMU processes, and the share of one CPU that they took together."""
    ages = [read_pressure(files).uptime_s for files in (begin, end)]
    if ages[0] is None or ages[1] is None or (watched.has_guest and watched.pid is None):
        # an unknown process of the guest itself would be counted among the others
        return None, None
    looks = [
        {path: process.total_s for path in files if (process := _other(files, path, watched)) is not None}
        for files in (begin, end)
    ]
    used = sum(max(0.0, now - looks[0].get(path, 0.0)) for path, now in looks[1].items())
    return len(looks[0].keys() | looks[1].keys()), used / (ages[1] - ages[0]) if ages[1] > ages[0] else None


def _other(files: Files, path: str, watched: Watched) -> Process | None:
    found = re.fullmatch(r"/proc/(\d+)/stat", path)
    if found is None or int(found[1]) == watched.pid:
        return None
    return read_process(first_line(files, path), {}, int(found[1]))
