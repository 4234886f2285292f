"""A bare QEMU of the appliance, to measure the plugin against: no libvirt, no plugin code on its path."""

from __future__ import annotations

import base64
import contextlib
import json
import shlex
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import GuestError
from pytest_vmstorage.guest.domain_xml import GuestSpec, machine
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.preconditioning import FILL_ARGV
from pytest_vmstorage.measure.runner import FORGET
from pytest_vmstorage.storage.caches import drop_caches
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.image import make_disk, remove_disk
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.fio.fio import Fio


class BareGuest:
    """A QEMU process started by hand from a GuestSpec, with its agent on a unix socket."""

    def __init__(self, spec: GuestSpec, folder: Path) -> None:
        self._socket_path = folder / "agent.sock"
        # it dies with this process, whatever kills that: libvirt does not know it
        argv = ["setpriv", "--pdeathsig", "KILL", *qemu_argv(spec, folder)]
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        self._stream: Any = None

    def wait(self, timeout_s: float = 60.0) -> None:
        """Wait until the agent answers."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                connection = socket.socket(socket.AF_UNIX)
                connection.settimeout(0.1)
                connection.connect(str(self._socket_path))
                stream = connection.makefile("rwb", buffering=0)
                stream.write(b'{"execute":"guest-ping"}\n')
                if b"return" in stream.readline():
                    connection.settimeout(60)
                    self._stream = stream
                    return
            time.sleep(0.01)
        raise GuestError(f"A bare QEMU did not answer within {timeout_s:.0f} s.", code="VM501")

    def call(self, command: str, **arguments: Any) -> Any:
        """One agent command."""
        request = {"execute": command, "arguments": arguments} if arguments else {"execute": command}
        self._stream.write(json.dumps(request).encode() + b"\n")
        while True:
            answer = json.loads(self._stream.readline())
            # pings that timed out while the guest booted are answered late
            if answer.get("return") != {}:
                return answer["return"]

    def run(self, script: str, poll_s: float = 0.02) -> str:
        """A line of sh in the guest; its output."""
        pid = self.call("guest-exec", path="/bin/sh", arg=["-c", script], **{"capture-output": True})["pid"]
        while True:
            status = self.call("guest-exec-status", pid=pid)
            if status["exited"]:
                return base64.b64decode(status.get("out-data", "")).decode()
            time.sleep(poll_s)

    def kill(self) -> None:
        """End it."""
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def bare_guest(spec: GuestSpec, within: str | None = None) -> Iterator[BareGuest]:
    """A started bare guest, killed at the end; its socket and console lie in a folder `within` that one."""
    with tempfile.TemporaryDirectory(prefix="bare-", dir=within) as folder:
        guest = BareGuest(spec, Path(folder))
        try:
            yield guest
        finally:
            guest.kill()


DEVICE = "/dev/vdb"
"""The disk under test, the second one on virtio-blk."""


def fill_bare(guest: BareGuest, size_bytes: int) -> None:
    """Fill the beginning of the bare guest's disk as the plugin fills a disk."""
    guest.run(FILL_ARGV.format(path=DEVICE, size=size_bytes, offset=0, bs="1M"))


def run_bare(lab: Lab, guest: BareGuest, disk: str, job: Fio) -> float:
    """The primary figure of one round in the bare guest, after the same dropping of caches as before the plugin's."""
    target = Target(path=DEVICE, size_bytes=job.size)
    guest.run(f"sh -c {shlex.quote(FORGET)} sh {target.path} {job.output_file(target)}")
    drop_caches(lab.shell, disk)
    guest.run(shlex.join(job.argv(target)), poll_s=0.5)
    return float(job.parse(guest.run(f"cat {job.output_file(target)}"))[job.primary])


@contextlib.contextmanager
def bare_guest_of(lab: Lab, config: StorageConfig) -> Iterator[tuple[BareGuest, str]]:
    """A bare guest of that cell that answers, and its disk's path; both are gone at the end. Raises GuestError."""
    disk = f"{lab.factory.folder}/bare.raw"
    with ExitStack() as stack:
        stack.callback(remove_disk, lab.shell, disk)
        make_disk(lab.shell, config, disk)
        spec = lab.factory.spec("bare", str(uuid.uuid4()), HostDisk(config=config, path=disk), lab.accel.used)
        # the run's own short folder, which its lease removes, whatever kills this process
        guest = stack.enter_context(bare_guest(spec, lab.lease.root or None))
        guest.wait()
        yield guest, disk


def bare_speeds(lab: Lab, config: StorageConfig, jobs: Sequence[Fio]) -> Mapping[str, float]:
    """The figure of each job, by its label, in a fresh bare guest: a round after a warm-up. Raises GuestError."""
    with bare_guest_of(lab, config) as (guest, disk):
        fill_bare(guest, max(job.size for job in jobs))
        return {job.label: [run_bare(lab, guest, disk, job) for _ in range(2)][1] for job in jobs}


def _smp(spec: GuestSpec) -> str:
    """The plugin's own: under TCG a second CPU that is absent, without which QEMU before 8.1 loses I/O."""
    return "1,maxcpus=2" if spec.vcpus == 1 and spec.accel == "tcg" else str(spec.vcpus)


def qemu_argv(spec: GuestSpec, folder: Path) -> Sequence[str]:
    """The same machine, kernel, root and disk that the plugin's XML asks libvirt for; virtio-blk only.

    The options that libvirt 9.0 gives every guest are here too: its seccomp sandbox costs each of QEMU's system
    calls something, and devices behind PCIe root ports are what it makes of q35.
    """
    assert spec.config is not None
    assert spec.config.bus == "virtio-blk"
    direct = "on" if spec.config.cache in ("none", "directsync") else "off"
    return [
        spec.emulator, "-name", f"guest={spec.name},debug-threads=on",
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-machine", f"{machine(spec.config)},accel={spec.accel}",
        "-m", f"{spec.memory_bytes // 2**20}M", "-smp", _smp(spec), "-cpu", "host" if spec.accel == "kvm" else "qemu64",
        "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        *(word for n in (1, 2, 3) for word in ("-device", f"pcie-root-port,id=port{n},chassis={n},slot={n}")),
        "-kernel", spec.kernel, "-initrd", spec.initrd, "-append", spec.cmdline,
        "-serial", f"file:{folder}/console",
        "-blockdev", f"driver=raw,node-name=root,read-only=on,file.driver=file,file.filename={spec.root}",
        "-device", "virtio-blk-pci,bus=port2,drive=root,serial=vmstorage-root",
        "-blockdev",
        f"driver={spec.config.format},node-name=test,cache.direct={direct},file.driver=file,"
        f"file.filename={spec.disk},file.cache.direct={direct}",
        "-device", "virtio-blk-pci,bus=port3,drive=test,serial=vmstorage-test,write-cache=on",
        "-device", "virtio-serial-pci,bus=port1",
        "-chardev", f"socket,path={folder}/agent.sock,server=on,wait=off,id=agent",
        "-device", "virtserialport,chardev=agent,name=org.qemu.guest_agent.0",
    ]  # fmt: skip
