"""libvirt's messages as values and sentences; pure."""

from __future__ import annotations

import json
import re
from typing import Any
from xml.etree import ElementTree

from pytest_vmstorage.errors import HostError

_START = "`systemctl enable --now libvirtd` (Debian: libvirt-daemon-system)"
_WHY_NO_CONNECTION = (
    # libvirt's fallback where there is no virt-ssh-helper
    (r"\bnc: ", f"libvirt is not installed there, or is too old. Install it and start its daemon: {_START}."),
    ("connect socket", f"libvirtd does not run there, or this user may not use it. To start it: {_START}."),
    ("", "Check the name given to --vm-host, that ssh to it works without a password, and that libvirtd runs."),
)
"""Remedies by a pattern of libvirt's sentence."""


def bus_names(capabilities: str) -> frozenset[str]:
    """libvirt's names of the disk buses in the XML of domain capabilities."""
    tree = ElementTree.fromstring(capabilities)  # noqa: S314 (libvirt's own)
    return frozenset(value.text or "" for value in tree.iterfind("devices/disk/enum[@name='bus']/value"))


def one_line(error: Any) -> str:
    """libvirt's sentence on one line, without the timestamps of QEMU's own lines in it."""
    text = " ".join(str(error.get_error_message() or error).split())
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z ", "", text)


def connection_error(uri: str, error: Any) -> HostError:
    """The error, with its remedy, of a connection to that URI that failed."""
    # libvirt wraps the last line of ssh or of its program on the host
    message = re.sub(r"^End of file while reading data: (.+): Input/output error$", r"\1", one_line(error))
    if uri.startswith("qemu:///embed"):
        if "Failed to parse user" in message:
            return HostError(
                f"libvirt's QEMU driver cannot start as root: {message}.",
                hint="Install libvirt-daemon-system, or make the users and groups that it would make.",
                code="VM405",
            )
        return HostError(
            f"libvirt's embedded QEMU driver cannot be used: {message}.",
            hint="Install qemu-system-x86, libvirt-daemon-driver-qemu and libvirt-daemon, or name a host by --vm-host.",
            code="VM405",
        )
    what = f"libvirt at {uri.partition('?')[0]} cannot be reached: {message}."
    return HostError(
        what, hint=next(hint for words, hint in _WHY_NO_CONNECTION if re.search(words, message)), code="VM405"
    )


def is_broken_channel(message: str) -> bool:
    """Whether libvirt's sentence says that the other end of an agent's channel is gone (qemu_agent.c)."""
    return re.search("from agent socket|(read from|write to) agent", message) is not None


def refusal_hint(message: str) -> str:
    """The remedy where a daemon's QEMU could not open a file, "" for another refusal."""
    if "Permission denied" not in message and "Operation not permitted" not in message:
        return ""
    return (
        "QEMU runs as another user there (libvirt-qemu, qemu), perhaps confined by AppArmor or SELinux. Put the disks"
        " where it may read them, as below /var/lib/libvirt/images (--vm-dir, or folder in vmstorage.toml)."
    )


IO_HELPER = "libvirt_iohelper"
"""The program by which libvirt saves and restores guests; its QEMU driver alone does not bring it."""

IO_HELPER_PACKAGE = "libvirt-daemon (Debian 12, Ubuntu) or libvirt-daemon-common (where libvirt-daemon is split)"


def lacks_io_helper(sentence: str) -> bool:
    """Whether libvirt's sentence says that its program to save and restore guests is missing."""
    return re.search(rf"cannot execute binary \S*{IO_HELPER}\b", sentence) is not None


def io_error_reason(details: str | None) -> str:
    """The reason of a failed I/O in the JSON of QEMU's BLOCK_IO_ERROR, "" where it has none."""
    return str(json.loads(details or "{}").get("reason", ""))


GIVEN_UP_HINT = "Use --vm-accel=tcg here, or a host whose KVM runs this kernel."


def given_up(line: str) -> str:
    """The sentence on a guest that QEMU stopped after an internal error of KVM.

    `line` is QEMU's disassembly of one instruction ("x/1i $pc"): its address, its bytes since QEMU 5.1, and its words.
    """
    found = re.match(r"\s*0x[0-9a-f]+:\s+(?:(?:[0-9a-f]{2} )+\s)?\s*(\S.*)", line)
    at = f" at the instruction {' '.join(found[1].split())!r}, which it cannot run" if found else ""
    return f"QEMU gave the guest up: KVM failed with an internal error{at}."


def version_text(number: int) -> str:
    """The text of libvirt's version number: 7002022 is 7.2.22."""
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


def is_since(version: str, first: tuple[int, int]) -> bool:
    """Whether a version such as "11.5.0" is `first` or later; False for an unreadable one."""
    words = version.split(".")
    return len(words) > 1 and all(map(str.isdigit, words[:2])) and (int(words[0]), int(words[1])) >= first


def null_lacks(bus: str, version: str) -> str:
    """The reason why a libvirt of that version cannot use QEMU's null driver on that bus, "" where it can.

    qemu:override is there since 8.2, and any use of it ended libvirt's process as late as 8.4
    (gitlab.com/libvirt/libvirt/-/issues/321). NVMe disks have a command line of their own.
    """
    return "" if bus == "nvme" or is_since(version, (8, 5)) else f"libvirt {version} has no qemu:override; 8.5 has"
