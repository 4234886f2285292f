"""Protocols of a hypervisor and its guests, for libvirt and for the fakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pytest_vmstorage.guest.libvirt.confinement import Confinement


class Domain(Protocol):
    """A guest as the hypervisor sees it."""

    def wait_for_agent(self, timeout_s: float) -> bool:
        """Wait until the guest's agent opened its port; False at the time limit. Raises GuestDiedError."""

    def agent(self, command: str, arguments: Mapping[str, Any], timeout_s: float) -> Any:
        """One guest-agent command and its return value; raises GuestError, GuestDiedError."""

    def monitor(self, command: str, **arguments: Any) -> Any:
        """One QMP command and its return value; raises HypervisorError."""

    def xml(self) -> str:
        """The live XML, which libvirt made from ours."""

    def is_active(self) -> bool:
        """Whether QEMU still runs it."""

    def io_errors(self) -> tuple[str, ...]:
        """Reasons of failed reads and writes in QEMU's words, such as "No space left on device"."""

    def pause(self) -> None:
        """Stop its processors and write back what QEMU holds for its disk; raises GuestError, HypervisorError."""

    def resume(self) -> None:
        """Continue the guest, its clock where it stopped; raises GuestError, HypervisorError."""

    def save(self, path: str) -> None:
        """Save its state to a file on its host and end it; raises GuestError, HypervisorError."""

    def destroy(self) -> None:
        """End it at once and wait until QEMU is gone; no error if it is gone already."""


class Hypervisor(Protocol):
    """A connection to a lab host's libvirt."""

    def start(self, xml: str) -> Domain:
        """Make and start a transient guest; raises HypervisorError."""

    def restore(self, xml: str, path: str) -> Domain:
        """Continue a guest from the file in which it was saved, and which has that XML; raises HypervisorError."""

    def find(self, uuid: str) -> Domain | None:
        """The running guest of that UUID, None where there is none."""

    def forget(self, uuid: str) -> None:
        """Forget the passphrase of an ended guest, which a killed run may have left behind."""

    def versions(self) -> Mapping[str, str]:
        """Versions of `qemu` and `libvirt`."""

    def supports_kvm(self, emulator: str) -> bool:
        """Whether libvirt would start a KVM guest at all."""

    def disk_buses(self, emulator: str, machine: str) -> frozenset[str]:
        """libvirt's names of the disk buses of that machine type; none where there is no such machine."""

    def confinement(self) -> Confinement:
        """The user of QEMU there, and the security model that keeps it from files; raises HypervisorError."""

    def close(self) -> None:
        """Close the connection; the owner of the guests destroys them before."""
