"""The lab host with KVM of test_kvm.py: the machine of the tests, or a lab host of this machine with its KVM."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from laboratory import Host, Laboratory
from machine import NAME, Machine

_FIRMWARE = "/usr/share/seabios/bios-256k.bin"
# a guest before may still be on its way out, and holds it
_UNLOAD = (
    "left=60; until modprobe -r kvm_amd kvm_intel kvm; do"
    " left=$((left - 1)); [ $left -gt 0 ] || exit 1; sleep 0.5; done"
)
_MODULE = "grep -q AuthenticAMD /proc/cpuinfo && module=kvm_amd || module=kvm_intel"


class KvmHost:
    """A lab host with KVM, by its `name` on the controller of `lab`; `sh` runs a script there, by its own way.

    `machine` is the one that it is, None for a host whose kernel others have too.
    """

    def __init__(self, name: str, lab: Laboratory, sh: Callable[[str], str], machine: Machine | None = None) -> None:
        self.name, self.lab, self.sh, self.machine = name, lab, sh, machine

    @property
    def is_emulated(self) -> bool:
        """Whether its processor is, on which a guest boots in minutes."""
        return self.machine is not None and self.machine.accel == "tcg"

    @contextmanager
    def firmware(self, rom: bytes) -> Iterator[None]:
        """While its QEMU has that firmware for its guests."""
        packed = base64.b64encode(gzip.compress(rom)).decode()
        self.sh(f"echo {packed} | base64 -d | gunzip >/var/tmp/firmware && mount --bind /var/tmp/firmware {_FIRMWARE}")
        try:
            yield
        finally:
            self.sh(f"umount {_FIRMWARE} && rm /var/tmp/firmware")

    @contextmanager
    def module(self, option: str | None) -> Iterator[None]:
        """While KVM is loaded with that option, None for not at all."""
        if self.machine is None:
            pytest.skip("the kernel of this machine is left as it is")
        self.sh(_UNLOAD)
        if option is not None:
            self.sh(f"{_MODULE}; modprobe $module {option}")
        try:
            yield
        finally:
            self.sh(f"{_UNLOAD}; {_MODULE}; modprobe $module")


def on_machine(machine: Machine) -> KvmHost:
    """The machine of the tests: with KVM for itself, where that works, else an emulated processor with AMD's SVM."""

    def sh(script: str) -> str:
        done = machine.shell.run(["sh", "-c", script], timeout_s=120)
        assert done.ok, done
        return done.stdout

    return KvmHost(NAME, machine.lab, sh, machine)


def on_lab_host(lab: Laboratory, host: Host) -> KvmHost:
    """A lab host of this machine, with its kernel and its KVM."""
    return KvmHost(host.name, lab, host.sh)
