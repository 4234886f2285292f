"""QEMU's user on a lab host, and the security model that keeps it from files unknown to libvirt.

libvirt gives QEMU's user the files of the disks in its XML, and writes them into that guest's profile. NVMe disks are
on the command line, as libvirt before 11.5 does not have the bus; a profile keeps QEMU from them (tried with AppArmor,
libvirt 9.0).
"""

from __future__ import annotations

from pathlib import PurePosixPath
from xml.etree import ElementTree as ET

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import UnsupportedError
from pytest_vmstorage.host.shell import Shell, check

_PROFILES = {"apparmor": "AppArmor", "selinux": "SELinux"}


class Confinement(BaseModel):
    """QEMU's `owner`, a user and group as chown takes them, "" if it is this process's.

    `profiles` names the security model that gives each guest its own profile, "" where there is none.
    """

    model_config = ConfigDict(frozen=True)

    owner: str = ""
    profiles: str = ""


def read_confinement(capabilities: str) -> Confinement:
    """The confinement in libvirt's capabilities, which have a security model for each driver in use."""
    models = {one.findtext("model", ""): one for one in ET.fromstring(capabilities).iterfind("host/secmodel")}  # noqa: S314 (libvirt's own)
    labels = {one.get("type"): one.text or "" for one in models["dac"].iterfind("baselabel")} if "dac" in models else {}
    # "+64055:+64055": numbers, and no names
    owner = next(iter(labels.values()), "").replace("+", "")
    return Confinement(owner=owner, profiles=next((_PROFILES[one] for one in models if one in _PROFILES), ""))


def is_unknown(config: StorageConfig) -> bool:
    """Whether libvirt does not know the cell's disk."""
    return config.bus == "nvme" and not config.is_null


def check_opens(config: StorageConfig, found: Confinement, host: str, *, is_block: bool) -> None:
    """Raise UnsupportedError for a disk that QEMU on that host may not open."""
    if found.profiles:
        raise UnsupportedError(
            f"{config} is not possible on {host}: libvirt before 11.5 knows no NVMe disk, so the profile of the guest"
            f" ({found.profiles}) does not let QEMU open it.",
            hint='Measure another bus there, or set security_driver = "none" in its /etc/libvirt/qemu.conf.',
            code="VM530",
        )
    if is_block and found.owner:
        raise UnsupportedError(
            f"{config} is not possible on {host}: libvirt before 11.5 knows no NVMe disk, so it does not give the block"
            f" device to QEMU's user ({found.owner}).",
            hint="Measure another bus there, or an image file.",
            code="VM530",
        )


def let_open(shell: Shell, found: Confinement, path: str) -> None:
    """Give a disk's files to QEMU's user, as libvirt does for disks that it knows; raises ProvisionError."""
    if found.owner:
        stem = str(PurePosixPath(path).with_suffix(""))
        # the image, its extents, what is below it
        argv = ["sh", "-c", 'chown -- "$1" "$2"[.-]*', "sh", found.owner, stem]
        check(shell.run(argv), f"giving {path} to QEMU's user")
