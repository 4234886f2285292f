"""A plugin for pytester runs: a lab without QEMU, libvirt or root, told by VMS_FAKE (JSON) how to behave.

`speed` is a factor on every figure, or factors by a pattern of cells, of which a list has one for each round;
`broken`, `unsupported`, `hang` are patterns of cells; `open` is the sentence with which the host refuses; `log` is a
file that gets a line for each event. `noise` is the standard deviation of the logarithm of each figure, from a seed;
`dies` is a pattern of cells whose guests boot `lives` times and then no more; `interrupts` is the round of the run at
which the user presses Ctrl-C. `kills` is a pattern of cells a round of which kills this process with SIGKILL, `sleep`
how many seconds a round takes. `leases` is a folder: then hosts are leased for real, by files in it. Several hosts are
as many fakes, of the names that the user gave.
"""

from __future__ import annotations

import contextlib
import fnmatch
import functools
import itertools
import json
import math
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

RECORDINGS = Path(__file__).parents[1] / "unit" / "recordings"
ROUNDS = (1.0, 0.99, 1.0, 1.01)
"""What a warm-up and three rounds measure, of 10000 IOPS times the speed."""


read = functools.cache(json.loads)


def wish(name, default=None):
    """What the test at hand wants of the lab."""
    return read(os.environ.get("VMS_FAKE", "{}")).get(name, default)


def note(line):
    """Write down an event, with the process it happened in."""
    if wish("log"):
        with Path(wish("log")).open("a") as stream:
            stream.write(f"{os.getpid()} {line}\n")


def matches(name, config):
    """Whether the wish of that name is about this cell."""
    return wish(name) is not None and fnmatch.fnmatch(str(config), wish(name))


def speed(config, number):
    """The factor on the figures of this cell in that round, from 0, warm-up counted."""
    factors = wish("speed", 1.0)
    if not isinstance(factors, dict):
        return factors
    found = next((f for pattern, f in factors.items() if fnmatch.fnmatch(str(config), pattern)), 1.0)
    return found[number % len(found)] if isinstance(found, list) else found


CHANCE = random.Random()
MADE = Counter()
BOOTS = itertools.count(1)


def taken_factor():
    """What chance makes of a figure; a round of the run is taken, and may be the one that the user ends it in."""
    MADE["rounds"] += 1
    if MADE["rounds"] == wish("interrupts"):
        raise KeyboardInterrupt
    return math.exp(CHANCE.gauss(0, wish("noise", 0)))


class FakeShell:
    """A guest's shell that answers fio and dd."""

    def __init__(self, config):
        self.config = config
        self.rounds = 0
        self.fio = read((RECORDINGS / "fio-3.33-randwrite.json").read_text())
        self.files = {}

    def run(self, argv, *, timeout_s=None, stdin=None):
        """Do as the tool would."""
        from pytest_vmstorage.host.shell import CommandResult

        text = ""
        if argv[0] in ("fio", "env") and "--name=fill" not in argv:
            factor = ROUNDS[self.rounds % len(ROUNDS)] * speed(self.config, self.rounds) * taken_factor()
            self.rounds += 1
            time.sleep(wish("sleep", 0))
            if matches("kills", self.config):
                note(f"killed by {self.config}")
                os.kill(os.getpid(), signal.SIGKILL)
            if matches("hang", self.config) and self.rounds > 3:
                note("hanging")
                time.sleep(60)
            if "dd" in argv:
                text = f"64+0 records in\n64+0 records out\n67108864 bytes copied, {0.32 / factor:.9f} s, x MB/s\n"
            else:
                output = next(word.partition("=")[2] for word in argv if word.startswith("--output="))
                self.files[output] = json.dumps(self._fio(factor))
        return CommandResult(argv=tuple(argv), returncode=0, stdout="", stderr=text, seconds=0.01)

    def _fio(self, factor):
        (job,) = self.fio["jobs"]
        clat = job["write"]["clat_ns"]
        percentiles = {name: value / factor for name, value in clat["percentile"].items()}
        write = job["write"] | {
            "iops": 10000.0 * factor,
            "bw_bytes": int(10000 * factor * 4096),
            "clat_ns": clat | {"percentile": percentiles},
        }
        return self.fio | {"jobs": [job | {"write": write, "read": write}]}

    def read(self, path):
        """The text of a file that the tool left."""
        return self.files.get(path, "")


def spec(config):
    """What a guest of that cell would be made from."""
    from pytest_vmstorage.guest.domain_xml import GuestSpec

    paths = {name: f"/srv/{name}" for name in ("kernel", "initrd", "root", "console", "emulator")}
    paths["disk"] = "/srv/disk.raw"
    return GuestSpec(name="fake", uuid=f"{next(BOOTS):08}", config=config, cmdline="", accel="kvm", **paths)


class FakeGuest:
    """A guest with nothing in it."""

    def __init__(self, config):
        from pytest_vmstorage.storage.disk import HostDisk

        self.config = config
        self.disk = "/dev/vdb"
        self.shell = FakeShell(config)
        self.proof = ()
        self.qemu = ""
        self.image = ""
        self.file_system = None
        self.facts = SimpleNamespace(as_text=lambda: {"kernel": "6.1.0-fake"}, tools={"fio": "fio-3.33"})
        self.machine = SimpleNamespace(
            config=config,
            domain=SimpleNamespace(
                is_active=lambda: True,
                pause=lambda: note(f"pause {config}"),
                resume=lambda: note(f"resume {config}"),
            ),
            console_tail=lambda: "panic",
            spec=spec(config),
            disk=None,
            host_disk=HostDisk(config=config, path="/srv/disk.raw"),
            is_restored=False,
            notes={},
        )


class FakeFactory:
    """A factory that has nothing to tear down."""

    kept = None
    folder = "/srv"

    def keep(self, machine):
        """That guest is the one to keep."""
        self.kept = self.kept or machine

    def settle(self):
        """Nothing to wait for."""

    def spare_memory_bytes(self):
        """As much as the test wants."""
        return wish("memory")

    def folder_room_bytes(self):
        """As much as the test wants."""
        return wish("room", 2**50)

    def discard(self, machine):
        """A guest is let go."""
        if machine is not self.kept:
            note(f"discard {machine.config}")

    def close(self):
        """The end; fails if the test wants that."""
        note("close")
        if wish("close"):
            from pytest_vmstorage.errors import ProvisionError

            raise ProvisionError(wish("close"))


def make_guest(config, say):
    """The guest of a cell, or the error that the test wants."""
    from pytest_vmstorage.errors import BootTimeoutError, UnsupportedError

    say("making disk")
    say("booting")
    if matches("broken", config):
        note(f"failed {config}")
        raise BootTimeoutError(
            f"The guest of {config} did not answer within 5 s.", hint="Look closer.", console="Kernel panic"
        )
    MADE[str(config)] += 1
    if matches("dies", config) and MADE[str(config)] > wish("lives"):
        raise BootTimeoutError(f"The guest of {config} did not answer any more.", hint="Look closer.", console="")
    if matches("unsupported", config):
        raise UnsupportedError(f"{config}: no such thing here.", hint="Use another host.")
    note(f"guest {config}")
    return FakeGuest(config)


LOOKS = itertools.count()


def look():
    """Nothing, or where the test wants bytes to be counted more each time, as much on each layer."""
    from pytest_vmstorage.host.counters import Look
    from pytest_vmstorage.results.counters import IoCounters

    names = [f"{layer}_{way}_bytes" for layer in ("guest", "layer", "host") for way in ("read", "written")]
    return Look(moved=IoCounters(**dict.fromkeys(names, next(LOOKS) * 2**40))) if wish("counts") else Look()


def make_image_bench(_lab, config, workload, _say):
    """Where images of a cell are worked on, or the error that the test wants."""
    from pytest_vmstorage.errors import SpaceError
    from pytest_vmstorage.testing.image_operations import make_bench

    if matches("broken", config):
        raise SpaceError(f"{config} does not fit.", hint="Free some space.")
    workload.check_fits(config)
    note(f"images {config}")
    return contextlib.nullcontext(make_bench(config, workload)[0])


def guest_environment_type():
    """A guest's environment with its ways to the world cut."""
    from pytest_vmstorage.lab.environments import GuestEnvironment
    from pytest_vmstorage.results.host import HostState

    class FakeGuestEnvironment(GuestEnvironment):
        """A guest that nothing is known of."""

        def look(self):
            return look()

        def begin_look(self):
            return look

        def watch(self):
            return HostState

        def drop_caches(self):
            return "not dropped"

        def recheck(self):
            return wish("changed", "") if matches("changes", self.config) else ""

        def explain(self, error):
            return error

        def check_tool(self, tool):
            """It has all."""

    return FakeGuestEnvironment


def host_environment_type():
    """The host's environment with its ways to the world cut."""
    from pytest_vmstorage.lab.environments import HostEnvironment

    class FakeHostEnvironment(HostEnvironment):
        """A host that nothing is known of."""

        def explain(self, error):
            return error

    return FakeHostEnvironment


def fake_provisioner(lab):
    """The provisioner of that lab, which makes fakes."""
    from pytest_vmstorage.lab.provisioner import Provisioner
    from pytest_vmstorage.measure.system import Identity
    from pytest_vmstorage.storage.disk import HostDisk

    guests, hosts = guest_environment_type(), host_environment_type()

    class FakeProvisioner(Provisioner):
        """Makes fakes, but for machines."""

        def make(self, config, say):
            if config.is_machine:
                return super().make(config, say)
            if not config.is_native:
                return self.make_guest(config, say)
            say("making disk")
            note(f"native {config}")
            disk = HostDisk(config=config, path="/srv/disk.raw")
            return hosts(disk, FakeShell(config), Identity(host=lab.host.name), "/srv", self.services)

        def make_guest(self, config, say, *, fresh=False):
            return guests(make_guest(config, say), self.services)

    return FakeProvisioner(**vars(lab.provisioner))


def fake_lab_type():
    """The lab itself with its ways to the world cut."""
    from pytest_vmstorage.lab.lab import Lab

    class FakeLab(Lab):
        """The lab itself with its ways to the world cut."""

        def __post_init__(self):
            super().__post_init__()
            self.provisioner = fake_provisioner(self)

        images = make_image_bench

        def alone(self, say=None, config=None):
            # real measurements may go on beside these tests, and hold the machine's lock
            return super().alone(say) if self.host_lease else contextlib.nullcontext()

    return FakeLab


def take_lease(name, wait_s, say):
    """The lease of a fake host: its file lies in a folder of its own, as all of them are this machine."""
    from pytest_vmstorage.host.lock import HostLease
    from pytest_vmstorage.host.shell import LocalShell

    folder = Path(wish("leases")) / name
    folder.mkdir(parents=True, exist_ok=True)
    lease = HostLease(LocalShell(), name, wait_s=wait_s, folders=(str(folder),))
    lease.keep(say)
    return lease


def pytest_vmstorage_open_lab(config, settings, say):
    """Open the fake in place of the real lab."""
    from pytest_vmstorage.errors import HostError
    from pytest_vmstorage.host.shell import CommandResult
    from pytest_vmstorage.lab.machines import Machines
    from pytest_vmstorage.results.host import HostFacts

    fake_lab = fake_lab_type()
    if wish("open"):
        raise HostError(wish("open"), hint="Install it.")
    name = settings.host or "fakehost"
    lease = take_lease(name, settings.wait_s, say) if wish("leases") else None
    say("opening the fake lab")
    note(f"open {settings.host}" if settings.host else "open")
    factory, teardown = FakeFactory(), contextlib.ExitStack()
    if lease is not None:
        teardown.callback(lease.close)
    machines = Machines(settings.inventory)
    teardown.callback(machines.close)
    teardown.callback(factory.close)
    CHANCE.seed(7)
    MADE.clear()
    return fake_lab(
        settings=settings,
        host=SimpleNamespace(name=name, is_local=True),
        shell=SimpleNamespace(
            run=lambda argv, **_: CommandResult(argv=argv, returncode=1, stdout="", stderr="", seconds=0)
        ),
        hypervisor=SimpleNamespace(close=lambda: None),
        factory=factory,
        appliance=None,
        accel=SimpleNamespace(used=wish("accel", "kvm")),
        facts=HostFacts(name=name, cpu="Fake CPU", cores=2, accel=wish("accel", "kvm"), qemu="7.2"),
        held=SimpleNamespace(lease=SimpleNamespace(root="/tmp/vms-fakefakefa", run_id="fakefakefa", folder="/srv")),
        teardown=teardown,
        machines=machines,
        host_lease=lease,
    )
