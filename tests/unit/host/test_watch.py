"""The host around a measurement: real /proc and /sys here, and texts of other hosts.

Tests of `host.watch`, `host.files` and, with the counters of a round, `host.counters`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_vmstorage.host.counters import Look, Pressure, Watched, read_look
from pytest_vmstorage.host.files import guest_pid, read_files, read_small
from pytest_vmstorage.host.shell import CommandResult, LocalShell, Shell
from pytest_vmstorage.host.watch import HostWatch, read_state
from pytest_vmstorage.results.cost import spent
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.series import Counts
from pytest_vmstorage.testing.shell import FakeShell

QEMU = Watched(has_guest=True, pid=77, device="sda", counts_flushes=True)
LOOK = """\
/proc/uptime:17074.60 17906.25
/proc/pressure/cpu:some avg10=14.56 avg60=14.16 avg300=12.53 total=1842614225
/proc/pressure/cpu:full avg10=0.00 avg60=0.00 avg300=0.00 total=0
/proc/pressure/io:some avg10=1.24 avg60=1.61 avg300=2.05 total=509302554
/proc/pressure/io:full avg10=0.35 avg60=0.68 avg300=0.95 total=188709599
/proc/77/io:rchar: 220489108
/proc/77/io:read_bytes: 117190656
/proc/77/io:write_bytes: 339496960
/proc/77/stat:77 (qemu-system-x86) S 1 77 77 0 -1 4194560 4333 179786 0 173 100 20 0 0 20 0 1 0 1675207 5255168
/proc/77/task/77/comm:qemu-system-x86
/proc/77/task/80/comm:CPU 0/KVM
/proc/77/task/77/schedstat:34136731 28332197 156
/proc/77/task/80/schedstat:1100000000 0 9
/sys/class/block/sda/stat: 9 1 510 13 14 13 746 28 0 11 43 82 13 430 7 656 28
"""
STATE = """\
/proc/uptime:100.00 17906.25
/proc/pressure/cpu:some avg10=14.56 avg60=14.16 avg300=12.53 total=1842614225
/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor:performance
/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor:powersave
/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor:performance
/sys/devices/system/cpu/intel_pstate/no_turbo:1
/sys/devices/system/node/node0/cpulist:0-1
/sys/devices/system/node/node1/cpulist:2-3
/sys/class/thermal/thermal_zone0/temp:27800
/sys/class/thermal/thermal_zone1/temp:61000
/sys/class/thermal/thermal_zone2/temp:-274000
/sys/class/hwmon/hwmon3/temp1_input:64000
/sys/class/block/sda/queue/scheduler:none [mq-deadline] kyber
/sys/class/block/sda/queue/write_cache:write through
/proc/77/task/77/comm:qemu-system-x86
/proc/77/task/80/comm:CPU 0/KVM
/proc/77/task/81/comm:IO iothread1
/proc/77/stat:77 (qemu-system-x86) S 1 77 77 0 -1 4194560 4333 179786 0 173 100 20 0 0 20 0 1 0 1675207 5255168
/proc/90/stat:90 (qemu-kvm) S 1 77 77 0 -1 4194560 4333 179786 0 173 1000 0 0 0 20 0 1 0 1675207 5255168
/proc/meminfo:MemTotal:       24684084 kB
/proc/77/task/77/status:Cpus_allowed_list:\t0-3
/proc/77/task/80/status:Cpus_allowed_list:\t0
/proc/77/task/81/status:Cpus_allowed_list:\t1
"""


@contextmanager
def running(*argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended."""
    process = subprocess.Popen(argv)
    try:
        # one that was begun just now has no words for a moment
        while not Path(f"/proc/{process.pid}/cmdline").read_bytes():
            time.sleep(0.001)
        yield process
    finally:
        process.kill()
        process.wait()


def busy(program: str, *words: str) -> tuple[str, ...]:
    """The argv of a shell that computes without end, and carries words in its command line."""
    return (program, "-c", "while :; do :; done", program, *words)


def used_s(process: subprocess.Popen[bytes]) -> float:
    """How much CPU time it took until now."""
    words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_use(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Until it took that much CPU time more, however busy the machine is."""
    begin = used_s(process)
    while used_s(process) < begin + seconds:
        time.sleep(0.01)


class CountingShell:
    """A shell to this machine as if it were another one, which counts."""

    def __init__(self) -> None:
        self.count = 0
        self._local = LocalShell()
        self.put = self._local.put
        self.read = self._local.read

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run it."""
        self.count += 1
        return self._local.run(argv, timeout_s=timeout_s, stdin=stdin)


def state_of(begin: str = STATE, end: str = STATE) -> HostState:
    """The state out of two looks."""
    return read_state(read_files(begin), read_files(end), QEMU)


def test_a_look_is_read_from_one_text() -> None:
    """QEMU's I/O, its threads, the device's counters, pressure, and the host's age."""
    look = read_look(read_files(LOOK), QEMU)
    assert look.io == {"host_read_bytes": 117190656, "host_written_bytes": 339496960}
    assert look.process is not None
    assert look.process.total_s == pytest.approx(1.2)
    assert [thread.kind for thread in look.process.threads.values()] == ["main loop", "vCPU"]
    assert look.device is not None
    assert (look.device.read_bytes, look.device.written_bytes, look.device.flushes) == (510 * 512, 746 * 512, 656)
    assert look.pressure.uptime_s == 17074.60
    assert look.pressure.some_s == {"cpu": pytest.approx(1842.614225), "io": pytest.approx(509.302554)}


def test_what_the_host_hides_is_left_to_be_unknown() -> None:
    """No process, no device, no pressure: nothing is 0."""
    look = read_look(read_files(""), QEMU)
    assert (look.io, look.device, look.process) == ({}, None, None)
    assert Look().pressed_since(Look()) == {}
    nothing = read_state({}, {}, Watched())
    assert nothing == HostState(may_run="no QEMU")
    unseen = read_state(read_files(STATE), read_files(STATE), Watched(has_guest=True))
    assert (unseen.may_run, unseen.others) == ("unknown", None)
    hidden = state_of("", "")
    assert {hidden.governor, hidden.turbo, hidden.scheduler, hidden.temperature, hidden.may_run} == {"unknown"}
    assert (hidden.others, hidden.others_cpu, hidden.memory_bytes) == (None, None, None)


def test_pressure_is_the_part_of_the_time_in_which_some_task_waited() -> None:
    """Between two looks; one that the kernel does not tell is left out."""
    before = Look(pressure=Pressure(uptime_s=100.0, some_s={"cpu": 5.0, "io": 1.0}))
    after = Look(pressure=Pressure(uptime_s=104.0, some_s={"cpu": 6.0}))
    assert after.pressed_since(before) == {"cpu": 0.25}
    assert before.pressed_since(before) == {}


def test_the_hosts_state_is_read_from_one_text() -> None:
    """All governors that there are, the scheduler in use, the hottest sensor, and threads by where they may run."""
    state = state_of()
    assert state.governor == "performance/powersave"
    assert state.turbo == "off"
    assert (state.device, state.scheduler, state.write_cache) == ("sda", "mq-deadline", "write through")
    assert state.temperature == "64 C"
    assert state.numa == "node 0: 0-1 and node 1: 2-3"
    assert state.may_run == "main loop on 0-3; vCPU on 0; iothread on 1"
    assert state.memory_bytes == 24684084 * 1024
    assert state.recent == {"cpu": 0.1456}


@pytest.mark.parametrize(
    ("line", "turbo"),
    [
        ("intel_pstate/no_turbo:0", "on"),
        ("cpufreq/boost:1", "on"),
        ("cpufreq/boost:0", "off"),
        ("online:0-1", "unknown"),
    ],
)
def test_turbo_has_two_names_in_the_kernel(line: str, turbo: str) -> None:
    """intel_pstate says what is off, cpufreq what is on."""
    end = STATE.replace("intel_pstate/no_turbo:1", line)
    assert state_of(end=end).turbo == turbo


def test_other_guests_are_counted_with_what_they_took() -> None:
    """In CPUs; the guest itself is none of them, and one that came meanwhile took all it has since."""
    end = STATE.replace("uptime:100.00", "uptime:110.00").replace("173 1000 0", "173 1300 100")
    state = state_of(end=end)
    assert (state.others, state.others_cpu) == (1, pytest.approx(0.4))
    came = end + "".join(line for line in STATE.splitlines(keepends=True) if "qemu-kvm" in line).replace("90", "91")
    assert (state_of(end=came).others, state_of(end=came).others_cpu) == (2, pytest.approx(1.4))


def test_a_real_process_is_found_and_its_time_is_counted(tmp_path: Path) -> None:
    """By the guest's UUID in its command line; a thread that computes takes what the process took."""
    name = str(uuid.uuid4())
    with running(*busy("bash", "-uuid", name)) as process:
        watch = HostWatch(LocalShell(), str(tmp_path), name)
        before = watch.look()
        wait_for_use(process, 0.2)
        after = watch.look()
        used = used_s(process)
    cost = spent(before.process, after.process)
    assert set(cost.cpu_s) == {"main loop"}
    assert 0.1 < cost.cpu_s["main loop"] <= used + 0.05
    told = {name for name in ("cpu", "io", "memory") if LocalShell().read(f"/proc/pressure/{name}")}
    assert Look(pressure=after.pressure).pressed_since(Look(pressure=before.pressure)).keys() == told


def test_a_look_is_one_command(tmp_path: Path) -> None:
    """Where to look is found once: over ssh each command is a way there and back."""
    shell = CountingShell()
    watch = HostWatch(shell, str(tmp_path), str(uuid.uuid4()))
    watch.look()
    found = shell.count
    watch.look()
    watch.look()
    assert shell.count == found + 2


def test_a_local_look_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And sees what one on another machine sees."""
    name = str(uuid.uuid4())
    with running("bash", "-c", "sleep 60 & wait", "-uuid", name):
        watch, other = (HostWatch(shell, str(tmp_path), name) for shell in (LocalShell(), CountingShell()))
        looks = [watch.look(), other.look()]
        assert all(one.process is not None and one.io for one in looks)
        threads = [one.process.threads.keys() for one in looks if one.process is not None]
        assert threads[0] == threads[1]
        assert looks[0].io.keys() == looks[1].io.keys()
        assert (looks[0].device is None) == (looks[1].device is None)
        assert looks[0].pressure.some_s.keys() == looks[1].pressure.some_s.keys()
        monkeypatch.setattr(LocalShell, "run", None)
        assert watch.look().process is not None
        assert watch.begin()().may_run != "unknown"


STAT = "10 1 80 5 20 2 160 7 0 9 12 1 2 3 4 6 8"


@pytest.mark.parametrize(("counts", "flushes"), [("yes", (6, 8000)), ("no", (None, None))])
def test_a_local_device_is_counted_without_a_process(
    monkeypatch: pytest.MonkeyPatch, counts: str, flushes: tuple[int | None, ...]
) -> None:
    """Within a round; of flushes nothing is known where the kernel sends none. On another machine it is not counted."""
    found = CommandResult(argv=(), returncode=0, stdout=f"vdx {counts} {STAT}\n", stderr="", seconds=0)
    here = Counts(10, 20, 40960, 81920, flushes[0], 5000, 7000, flushes[1])
    for shell, expected in ((LocalShell(), here), (FakeShell(), None)):
        with monkeypatch.context() as patched:
            patched.setattr(type(shell), "run", lambda _self, *_argv: found)
            watch = HostWatch(shell, "/srv/disk")
            watch._where()
            patched.setattr(type(shell), "run", None)
            texts = {"/sys/class/block/vdx/stat": STAT}
            patched.setattr(type(shell), "read", lambda _self, path, texts=texts: texts.get(path, ""))
            assert watch.count() == expected


def test_a_local_state_is_what_is_seen_from_elsewhere(tmp_path: Path) -> None:
    """Another QEMU and each thread are found both ways, and nothing else; a file without lines is none."""
    other, none = tmp_path / "qemu-kvm", tmp_path / "no-kvm"
    for one in (other, none):
        shutil.copy(shutil.which("bash") or "", one)
    name = str(uuid.uuid4())
    with (
        running(*busy(str(other))) as busy_one,
        running(*busy(str(none), "-name", name)),
        running("bash", "-c", "sleep 60 & wait", "-uuid", name) as guest,
    ):
        assert guest_pid(CountingShell(), name) == guest_pid(LocalShell(), name) == guest.pid
        assert guest_pid(LocalShell(), str(uuid.uuid4())) is None

        def seen_by(shell: Shell) -> HostState:
            end = HostWatch(shell, str(tmp_path), name).begin()
            wait_for_use(busy_one, 0.1)
            state = end()
            assert state.others
            assert state.others_cpu
            return state.model_copy(update={"others_cpu": None, "temperature": "", "recent": {}})

        # guests of other tests begin and end meanwhile, some of them between two looks
        for _ in range(30):
            here, elsewhere = seen_by(LocalShell()), seen_by(CountingShell())
            if here == elsewhere:
                break
    assert here == elsewhere
    empty = tmp_path / "empty"
    empty.touch()
    assert read_small(LocalShell(), [f"{tmp_path}/*empty"]) == read_small(CountingShell(), [str(empty)]) == {}


def test_a_real_host_tells_its_state(tmp_path: Path) -> None:
    """Another QEMU at work is seen by its name, and this machine's device and CPUs are what other files say."""
    other = tmp_path / "qemu-kvm"
    shutil.copy(shutil.which("bash") or "", other)
    name = str(uuid.uuid4())
    cpu = min(os.sched_getaffinity(0))
    with running(*busy(str(other))) as other_guest, running(*busy("bash", "-uuid", name)) as process:
        os.sched_setaffinity(process.pid, {cpu})
        begin, before_s = time.monotonic(), used_s(other_guest)
        end = HostWatch(LocalShell(), str(tmp_path), name).begin()
        wait_for_use(other_guest, 0.3)
        state = end()
        most_cpus = (used_s(other_guest) - before_s) / (time.monotonic() - begin)
    assert state.others is not None
    assert state.others >= 1
    assert state.others_cpu is not None
    # other guests of this machine are counted too, and one that ended meanwhile is not
    assert state.others_cpu > most_cpus / 2
    assert state.may_run == str(cpu)
    assert state.memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if state.device != "unknown":
        queue = Path("/sys/class/block", state.device, "queue")
        assert state.write_cache == (queue / "write_cache").read_text().strip()
        assert state.scheduler in (queue / "scheduler").read_text()


def test_a_watch_of_nothing_looks_at_nothing_else() -> None:
    """Without a process or a device the patterns match no path: /proc//io is none of QEMU's."""
    shell = FakeShell()
    shell.answer(re.compile("df --output"), returncode=3)
    shell.answer(re.compile("exec grep"))
    HostWatch(shell, "/dev/shm/x").look()
    assert "/proc/none/io" in shell.asked[-1].line
    assert "/sys/class/block/none/stat" in shell.asked[-1].line
