"""What differs under KVM, on a lab host that has it: one run that many tests look at, and a KVM broken on purpose.

The host is the lab host that is a virtual machine, an emulated processor with AMD's SVM, whose KVM is Debian's own;
with `--kvm=here` (tox -e kvm) it is a lab host of this machine, with this machine's KVM. No figure is judged.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from failing_firmware import INSTRUCTIONS, firmware, firmware_that_loops
from kvm_host import KvmHost
from project import Project

from pytest_vmstorage.analysis.cell_pairs import MeasuredCell, acceleration_obstacle, couples_between
from pytest_vmstorage.analysis.comparability import obstacle
from pytest_vmstorage.config.selector import cell
from pytest_vmstorage.results.host import EMULATED, HostFacts
from pytest_vmstorage.results.run import Measurement, Run

pytestmark = pytest.mark.labvm

HERE = Path(__file__).parent
RUN_S = 900.0

CELLS = """
from pathlib import Path
import pytest
from pytest_vmstorage import Fio

CELLS = [{"backing": "native"}, {"iothread": True}]
LOOK = "cat /sys/devices/system/clocksource/clocksource0/available_clocksource; grep -m1 'model name' /proc/cpuinfo"

@pytest.mark.parametrize((), [pytest.param(marks=pytest.mark.storage(size="64M", **one)) for one in CELLS])
def test_write(measure, storage, request):
    measure(Fio(rw="randwrite", bs="4k", size="256K"), rounds=2, warmup=0)
    if storage.iothread:
        # the guest that was measured: another one would take the emulated processor a quarter of a minute
        guest = request.getfixturevalue("guest")
        Path(f"{request.node.name}.seen").write_text(guest.run(LOOK).stdout)
"""
PATIENT = """
from pytest_vmstorage.guest.restore import parking
from pytest_vmstorage.lab import acceleration

# hardware boots a guest in a second or two, an emulated processor in a quarter of a minute, on a busy machine in one
acceleration.CANARY_S = 300.0
# there it also takes longer to park a guest before it is saved, and to wake it after it is restored
parking.PARK_S, parking.WAKE_S, parking.READY_S = 120.0, 60.0, 10.0
"""


class Mixed:
    """A finished run on a host with KVM and on one without: what it printed, saved, and saw in its guests."""

    def __init__(self, name: str, folder: Path, text: str) -> None:
        self.name, self.text = name, text
        self.run = Run.model_validate_json((folder / "run.json").read_text())
        self.seen, self.seen_elsewhere = (next(folder.glob(f"*{host}*.seen")).read_text() for host in (name, "local"))

    @property
    def facts(self) -> HostFacts:
        """The host with KVM."""
        return next(host for host in self.run.hosts if host.name == self.name)

    @property
    def other(self) -> HostFacts:
        """The one without."""
        return next(host for host in self.run.hosts if host.name != self.name)

    def row(self, host: HostFacts, *, native: bool = False) -> Measurement:
        """What was measured there, in the guest or on the host itself."""
        (row,) = (m for m in self.run.measurements if m.host == host.name and m.config.is_native == native)
        return row

    def section(self, host: HostFacts) -> str:
        """What the report says of a host, on one line."""
        found = re.search(rf"^host {host.name}:\n((?: .+\n)+)", self.text, re.MULTILINE)
        assert found, self.text
        return " ".join(found[1].split())


@pytest.fixture(scope="module")
def mixed(kvm_host: KvmHost) -> Mixed:
    """The one run, of which the controller has no KVM."""
    folder = Path(tempfile.mkdtemp(prefix="project-", dir=kvm_host.lab.folder))
    project = Project(kvm_host.lab, folder)
    project.write(CELLS, **({"conftest": PATIENT} if kvm_host.is_emulated else {}))
    options = [f"--vm-host={kvm_host.name},local", "--vm-spread=each", "--vm-accel=auto", "--vm-boot=restore"]
    # in turns, the disk would be filled for every round
    options += ["--vm-pin", "--vm-without=turns", "--vm-timeout=5m", "--vm-report=run.json", "-v"]
    with without_kvm(kvm_host):
        code, text = project.run(*options, timeout_s=RUN_S)
    assert code == 0, text
    return Mixed(kvm_host.name, project.folder, text)


@contextmanager
def without_kvm(host: KvmHost) -> Iterator[None]:
    """While the controller's KVM, if it has one, can be opened by nobody: it is a socket."""
    if not Path("/dev/kvm").exists():
        yield
        return
    place = host.lab.folder / "no-kvm"
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(place))
    host.lab.controller.run("mount", "--bind", str(place), "/dev/kvm")
    yield
    host.lab.controller.run("umount", "/dev/kvm")
    place.unlink()


def test_kvm_is_found_and_told(mixed: Mixed) -> None:
    """By a test guest that booted, under `auto`; the report says so, and nothing of emulation."""
    assert (mixed.facts.accel, mixed.facts.accel_requested) == ("kvm", "auto")
    assert re.search(r"acceleration kvm \(asked: auto; a test guest booted in [\d.]+ s\)", mixed.section(mixed.facts))
    assert EMULATED not in mixed.section(mixed.facts)
    assert f"\nhost {mixed.name}, kvm, QEMU " in mixed.text


def test_a_host_without_kvm_is_told_beside_it(mixed: Mixed) -> None:
    """With the reason, and with what its figures are worth."""
    assert (mixed.other.accel, mixed.other.accel_requested) == ("tcg", "auto")
    assert EMULATED in mixed.section(mixed.other)
    assert "/dev/kvm" in mixed.other.accel_reason


def test_the_guest_has_the_hosts_processor_and_kvms_clock(mixed: Mixed, kvm_host: KvmHost) -> None:
    """host-passthrough: without KVM it has QEMU's own processor."""
    clocks, model = mixed.seen.splitlines()
    assert "kvm-clock" in clocks.split()
    assert model == kvm_host.sh("grep -m1 'model name' /proc/cpuinfo").rstrip("\n")
    clocks, model = mixed.seen_elsewhere.splitlines()
    assert "kvm-clock" not in clocks.split()
    assert "QEMU Virtual CPU" in model


def test_guests_are_saved_and_restored_under_kvm_with_all_of_the_proof(mixed: Mixed) -> None:
    """Each field by the word of guest, QEMU or host: no less than without KVM."""
    row = mixed.row(mixed.facts)
    assert row.hygiene["boot"] == "restored", mixed.text
    assert {one.status for one in row.proof} == {"proven"}
    assert {one.field for one in row.proof} == {one.field for one in mixed.row(mixed.other).proof}
    assert {one.found for one in row.proof if one.field == "accel"} == {"kvm"}


def test_the_io_thread_and_the_pinning_are_told(mixed: Mixed) -> None:
    """A host with fewer cores than threads is left to its scheduler, with the reason."""
    row = mixed.row(mixed.facts)
    assert row.config.iothread is True
    assert {one.status for one in row.proof if one.field == "iothread"} == {"proven"}
    assert row.hygiene["pinning"].startswith("vCPU 0 on CPU " if mixed.facts.cores > 1 else "not pinned: 1 vCPU and an")


def test_a_guest_under_kvm_stands_beside_its_native_row(mixed: Mixed) -> None:
    """In percent of it, which says "native"; the rows say under what they ran."""
    figure = re.escape(str(mixed.row(mixed.facts).figure("iops")))
    assert re.search(
        rf"\d% \((spread unknown|\d+% to \d+%)\) of native \(iops {figure} against ", " ".join(mixed.text.split())
    )
    for accel in ("kvm", "native", "tcg"):
        assert re.search(rf"^\S+ .* {accel} ", mixed.text, re.MULTILINE), mixed.text
    couples = couples_between(cells(mixed), cell(backing="file"), cell(backing="native"))
    why_not = {couple.first.host: acceleration_obstacle(couple, mixed.run) for couple in couples}
    assert why_not.pop(mixed.name) == ""
    (said,) = why_not.values()
    assert said.startswith("one ran under tcg and the other under native")


def test_guests_under_kvm_and_emulated_ones_are_never_compared(mixed: Mixed) -> None:
    """Neither in one run nor with a saved one: no row has one of the other host beside it."""
    couples = couples_between(cells(mixed), cell(backing="file"), cell(backing="native"))
    assert [couple.first.host == couple.second.host for couple in couples] == [True, True]
    emulated, ours = mixed.row(mixed.other), mixed.row(mixed.facts)
    said = obstacle(emulated, ours, mixed.other, mixed.facts, ours.metric("iops"))
    assert said == "it was saved under tcg and measured under kvm now"


def cells(mixed: Mixed) -> list[MeasuredCell]:
    """The rows of the run, all of one test."""
    return [MeasuredCell(m, "test_write") for m in mixed.run.measurements]


class Asked:
    """A process on the controller that says what a run would say of the host's acceleration."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._line() is not None

    def __call__(self, requested: str, patience_s: float = 120.0) -> dict[str, str]:
        """Its answer."""
        assert self._process.stdin is not None
        print(requested, patience_s, file=self._process.stdin, flush=True)
        return self._line()

    def _line(self) -> dict[str, str]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("{"), line + self._process.stdout.read()
        said: dict[str, str] = json.loads(line)
        return said


@pytest.fixture(scope="module")
def asked(kvm_host: KvmHost) -> Iterator[Asked]:
    """It opens the host once."""
    argv = kvm_host.lab.controller.argv(sys.executable, str(HERE / "asked_for_kvm.py"), kvm_host.name)
    with subprocess.Popen(
        argv,
        env=kvm_host.lab.environ(PYTHONPATH=":".join(sys.path)),
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        yield Asked(process)
        assert process.stdin is not None
        process.stdin.close()


def test_a_kvm_that_lacks_an_instruction_is_given_up_at_once(kvm_host: KvmHost, asked: Asked) -> None:
    """By QEMU's own event, with the instruction: under `auto` without KVM, where it was demanded a refusal."""
    # the test guest's processor is the host's own, emulated or not
    gave_up = re.escape(
        f"KVM opens, but QEMU gave the guest up: KVM failed with an internal error at the instruction"
        f" '{INSTRUCTIONS[0]}', which"
    )
    with kvm_host.firmware(firmware()):
        choice = asked("auto")
        # far more than the whole test may take: nobody waits for it
        refusal = asked("kvm", 3600.0)["refused"]
    assert choice["used"] == "tcg"
    assert re.match(gave_up, choice["reason"]), choice
    assert re.match(f"--vm-accel=kvm: {gave_up}", refusal), refusal
    assert refusal.endswith("[VM407]")


def test_a_host_whose_kvm_is_not_loaded_has_none(kvm_host: KvmHost, asked: Asked) -> None:
    """Which is said; demanded, it is a refusal."""
    with kvm_host.module(None):
        assert asked("auto") == {"used": "tcg", "reason": "there is no /dev/kvm"}
        assert asked("kvm") == {"refused": "--vm-accel=kvm: there is no /dev/kvm. [VM407]"}


def test_a_kvm_whose_guest_does_not_boot_is_left_after_its_time(kvm_host: KvmHost, asked: Asked) -> None:
    """`auto` goes on without KVM: the guest loops in its firmware."""
    with kvm_host.firmware(firmware_that_loops()):
        choice = asked("auto")
    assert choice == {"used": "tcg", "reason": "KVM opens, but a test guest did not boot within 15 s"}


def test_a_kvm_without_nested_paging_boots_guests(kvm_host: KvmHost, asked: Asked) -> None:
    """More slowly than with it; the reason tells in how many seconds."""
    with kvm_host.module("npt=0"):
        choice = asked("kvm", 300.0)
    assert choice["used"] == "kvm"
    assert re.fullmatch(r"a test guest booted in [\d.]+ s", choice["reason"]), choice
