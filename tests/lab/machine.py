"""The lab host that is a virtual machine, `labvm`: what the machine of the tests lacks is in its kernel.

It runs on the laboratory's controller, which it dies with, and is reached from there by ssh and libvirt like any other
lab host. Its root is written to in an overlay that is thrown away; of two empty disks one is made a volume group here,
the other a pool of ZFS.
"""

from __future__ import annotations

import hashlib
import io
import os
import shlex
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from laboratory import Laboratory, children, key
from machine_emulator import machine_emulator
from machine_image import MachineImage

from pytest_vmstorage.guest.appliance import build
from pytest_vmstorage.host.shell import CommandResult, LocalShell
from pytest_vmstorage.progress import Progress, silent

NAME = "labvm"
ADDRESS = "192.0.2.20"
MEMORY_MIB = 4096
BOOT_S = {"kvm": 45.0, "tcg": 300.0}
"""How long it may take until ssh lets somebody in; a KVM that is there but crawls is given up soon."""

DISK = "3G"
KEPT = "var/lib/libvirt/images/vmstorage"
INVENTORY = """
[hosts.labvm.volume_groups.vg0]
[hosts.labvm.datasets.tank]
name = "tank/vms"
"""

# a machine that hangs is noticed within half a minute, and no test waits for it any longer
_SSH = ("ssh", "-S", "~/.ssh/%n", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=10")
_MODELS = {"kvm": "host", "tcg": "EPYC"}
# Emulated, its clock counts instructions (-icount). By this machine's clock a guest of its own KVM left the processor
# at each tick, which empties the emulated TLB: to boot it took 120 s of a processor, and now takes 35 s. There is one
# CPU, because with two the machine hung in one of twelve times (QEMU 7.2). With one CPU QEMU 7.2 leaves memory barriers
# out, so that a disk that another thread serves loses notifications: of a request, unless without ioeventfd the CPU's
# own thread takes it, and of its completion, unless all threads share one processor of this machine, which sees its own
# writes in order.
_TIMES = {
    "kvm": ["-accel", "kvm", "-smp", "2"],
    "tcg": ["-accel", "tcg,thread=single", "-icount", "shift=1", "-smp", "1"],
}
_NOTIFICATIONS = {"kvm": "", "tcg": ",ioeventfd=off,event_idx=off"}
# a timer that is set for one time is lost now and then while a guest runs, and time stands still: so it ticks
_KERNEL = (
    "console=ttyS0 quiet panic=-1 no_timer_check nohz=off highres=off cryptomgr.notests mitigations=off"
    " systemd.show_status=true"
)
_PREPARE = """
set -eu
vgcreate -q --yes vg0 /dev/disk/by-id/virtio-labvm-vg
zpool create -O compression=lz4 -m none tank /dev/disk/by-id/virtio-labvm-pool
zfs create tank/vms
"""


class Machine:
    """The running machine; `accel` is what it runs with, `boot_s` for how long it booted, in seconds."""

    def __init__(self, lab: Laboratory, image: MachineImage) -> None:
        self.lab = lab
        self.folder = lab.folder / NAME
        self.folder.mkdir()
        self.accel = ""
        self.boot_s = 0.0
        self._image = image
        self._console = self.folder / "console"

    @contextmanager
    def running(self, say: Progress = silent) -> Iterator[Machine]:
        """The machine for as long as this is open: with KVM where that works, without it elsewhere."""
        self._make_seed()
        self.lab.controller.run("ip", "address", "add", f"{ADDRESS}/24", "dev", "lab")
        self.lab.know_hosts({NAME: (self.folder / "ssh_host_ed25519_key.pub").read_text()})
        self._make_disks()
        process = self._started(say)
        try:
            with self.shell.connected():
                self._prepare()
                yield self
        finally:
            _end(process)

    def _prepare(self) -> None:
        """Make group and pool."""
        done = self.shell.run(["sh", "-c", _PREPARE], timeout_s=120)
        if not done.ok:
            raise RuntimeError(f"no group and no pool on {NAME}: {done.tail()}")

    def _started(self, say: Progress) -> subprocess.Popen[bytes]:
        for accel in _MODELS:
            argv = self.lab.controller.argv(*self._argv(accel, say))
            begin = time.monotonic()
            with (self.folder / f"qemu-{accel}").open("wb") as said:
                # the first process of the controller takes it along, whatever kills this one
                process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
            if self._comes_up(process, begin + BOOT_S[accel]):
                self.accel, self.boot_s = accel, time.monotonic() - begin
                say(f"{NAME} runs with {accel}; it was there after {self.boot_s:.0f} s")
                return process
            _end(process)
        said_all = "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("qemu-*")))
        console = self._console.read_text(errors="replace") if self._console.exists() else ""
        raise RuntimeError(f"{NAME} did not come up.\n{said_all}\n{console[-3000:]}")

    def _comes_up(self, process: subprocess.Popen[bytes], deadline: float) -> bool:
        """Wait until ssh lets in; False where QEMU ends, or the time is over."""
        while process.poll() is None and time.monotonic() < deadline:
            if self.shell.run(["true"], timeout_s=10).ok:
                return True
            time.sleep(1)
        return False

    def _argv(self, accel: str, say: Progress) -> list[str]:
        disks = {"vmstorage-root": "root", "labvm-vg": "vg", "labvm-pool": "pool", "labvm-seed": "seed"}
        argv = ["qemu-system-x86_64"]
        if accel == "tcg":
            argv = ["taskset", "--cpu-list", str(max(os.sched_getaffinity(0))), str(machine_emulator(say))]
            argv += ["-L", "/usr/share/qemu", "-L", "/usr/share/seabios"]
        argv += ["-nodefaults", "-no-reboot", "-display", "none", "-name", NAME]
        argv += ["-machine", "q35", *_TIMES[accel], "-cpu", _MODELS[accel]]
        argv += ["-m", str(MEMORY_MIB), "-device", "virtio-rng-pci"]
        argv += ["-serial", f"file:{self._console}"]
        argv += ["-kernel", str(self._image.kernel), "-initrd", str(self._image.initrd)]
        argv += ["-append", _KERNEL]
        for serial, name in disks.items():
            what = "qcow2" if name == "root" else "raw"
            argv += ["-drive", f"if=none,id={name},file={self.folder / name},format={what},cache=unsafe,discard=unmap"]
            argv += ["-device", f"virtio-blk-pci,drive={name},serial={serial}{_NOTIFICATIONS[accel]}"]
        # it sees the controller, and nobody else
        argv += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:{ADDRESS}:22-:22"]
        return [*argv, "-device", "virtio-net-pci,netdev=net,romfile="]

    def _make_disks(self) -> None:
        for path in (self.folder / "vg", self.folder / "pool"):
            path.unlink(missing_ok=True)
            subprocess.run(["truncate", "-s", DISK, path], check=True)
        overlay = ["-f", "qcow2", "-F", "raw", "-b", str(self._image.root), str(self.folder / "root")]
        subprocess.run(["qemu-img", "create", "-q", *overlay], check=True)

    def _make_seed(self) -> None:
        host_key = self.folder / "ssh_host_ed25519_key"
        key(host_key)
        with tarfile.open(self.folder / "seed", "w") as seed:
            # as an earlier run would have left it: an emulated CPU takes a minute to decrypt it
            kept_as = self._kept_as()
            for file in self._appliance():
                seed.add(file, f"{KEPT}/{kept_as}/{file.name}")
            for path, mode, text in (
                ("root/.ssh/authorized_keys", 0o600, (self.lab.ssh_folder / "id_ed25519.pub").read_bytes()),
                ("etc/ssh/ssh_host_ed25519_key", 0o600, host_key.read_bytes()),
                ("etc/ssh/ssh_host_ed25519_key.pub", 0o644, host_key.with_suffix(".pub").read_bytes()),
            ):
                info = tarfile.TarInfo(path)
                info.mode, info.size = mode, len(text)
                seed.addfile(info, io.BytesIO(text))

    @staticmethod
    def _appliance() -> dict[Path, str]:
        """The guest appliance's files with their checksums."""
        found = build.ensure(LocalShell())
        paths = (found.kernel, found.initrd, found.root)
        return {path: found.manifest.files[path.name].sha256 for path in paths}

    def _kept_as(self) -> str:
        """The name of the folder in which the plugin looks for them on a lab host."""
        sums = "".join(f"{checksum}  {path.name}\n" for path, checksum in self._appliance().items())
        return f"appliance-{hashlib.sha256(sums.encode()).hexdigest()[:16]}"

    @property
    def shell(self) -> MachineShell:
        """Commands on the machine, as the controller gives them."""
        return MachineShell(self.lab)

    def volumes(self) -> tuple[list[str], list[str]]:
        """Names of all logical volumes, and of all ZFS volumes and snapshots, that are there."""
        lvs = self.shell.run(["lvs", "--noheadings", "-o", "lv_full_name"])
        zvols = self.shell.run(["zfs", "list", "-H", "-o", "name", "-t", "volume,snapshot"])
        assert lvs.ok, lvs
        assert zvols.ok, zvols
        return lvs.stdout.split(), zvols.stdout.split()

    def guests(self) -> list[str]:
        """UUIDs of the domains that its libvirt knows, running or not."""
        return self.shell.run(["virsh", "-q", "-c", "qemu:///system", "list", "--all", "--uuid"]).stdout.split()

    def folders(self) -> list[str]:
        """What runs have left in the folder for disks."""
        return self.shell.run(["sh", "-c", "ls -d /var/lib/libvirt/images/vmstorage/run-* 2>/dev/null"]).stdout.split()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill QEMU itself, which is the child of what entered the controller and waits for it."""
    for pid in children(process.pid) if process.poll() is None else []:
        os.kill(pid, signal.SIGKILL)
    process.wait()


class MachineShell:
    """The Shell of the plugin, for what tests it on the machine without a run of pytest there."""

    def __init__(self, lab: Laboratory) -> None:
        self._lab = lab

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run argv there, through the connection that is kept open where it is."""
        ssh = self._lab.controller.argv(*_SSH, "-o", "ConnectTimeout=10", NAME, shlex.join(argv))
        done = LocalShell().run(ssh, timeout_s=timeout_s, stdin=stdin)
        return done.model_copy(update={"argv": tuple(argv)})

    @contextmanager
    def connected(self) -> Iterator[None]:
        """One connection for all commands: another one takes an emulated CPU a second."""
        master = self._lab.controller.argv(*_SSH, "-M", "-N", NAME)
        quiet = subprocess.DEVNULL
        with subprocess.Popen(master, stdin=quiet, stdout=quiet, stderr=quiet) as process:
            yield
            process.kill()

    def put(self, source: Path, target: str, *, moved: Callable[[int], None] = lambda _bytes: None) -> None:
        """Copy a small file there."""
        data = source.read_bytes()
        assert self.run(["sh", "-c", f"cat >{shlex.quote(target)}"], stdin=data).ok
        moved(len(data))

    def read(self, path: str) -> str:
        """The text of a file there."""
        return self.run(["cat", "--", path]).stdout
