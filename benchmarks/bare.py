"""A bare QEMU of the appliance, to measure the plugin against: no libvirt, no plugin code on its path."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pytest_vmstorage.guest.domain_xml import GuestSpec, machine


class BareGuest:
    """A QEMU process started by hand from a GuestSpec, with its agent on a unix socket."""

    def __init__(self, spec: GuestSpec, folder: Path) -> None:
        self._socket_path = folder / "agent.sock"
        self.process = subprocess.Popen(qemu_argv(spec, folder), stdin=subprocess.DEVNULL)
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
        raise TimeoutError("the bare guest did not answer")

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
def bare_guest(spec: GuestSpec) -> Iterator[BareGuest]:
    """A started bare guest, killed at the end."""
    with tempfile.TemporaryDirectory(prefix="bare-") as folder:
        guest = BareGuest(spec, Path(folder))
        try:
            yield guest
        finally:
            guest.kill()


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
        "-m", f"{spec.memory_bytes // 2**20}M", "-smp", _smp(spec), "-cpu", "qemu64",
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
