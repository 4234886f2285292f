"""As whom QEMU runs on a lab host, and disks that libvirt does not give to it: from libvirt's own words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ProvisionError, UnsupportedError
from pytest_vmstorage.guest.libvirt.confinement import Confinement, check_opens, is_unknown, let_open, read_confinement
from pytest_vmstorage.host.shell import LocalShell

# of libvirt 9.0.0 (Debian 12), whose kernel here has no AppArmor
DEBIAN = (Path(__file__).parents[2] / "recordings" / "libvirt-9.0-capabilities-debian-12.xml").read_text()
# what it says instead of "none" where the kernel has
APPARMOR = DEBIAN.replace("<model>none</model>", "<model>apparmor</model>")
SELINUX = DEBIAN.replace(
    "<model>none</model>", "<model>selinux</model><baselabel type='kvm'>system_u:system_r:svirt_t:s0</baselabel>"
)
NVME = StorageConfig(bus="nvme")


@pytest.mark.parametrize(("text", "profiles"), [(DEBIAN, ""), (APPARMOR, "AppArmor"), (SELINUX, "SELinux")])
def test_libvirt_says_as_whom_qemu_runs_and_what_it_may(text: str, profiles: str) -> None:
    """In its capabilities."""
    assert read_confinement(text) == Confinement(owner="64055:64055", profiles=profiles)


def test_an_embedded_driver_confines_nothing() -> None:
    """QEMU runs as this process does."""
    assert read_confinement("<capabilities><host><secmodel><model>none</model></secmodel></host></capabilities>") == (
        Confinement()
    )


def test_only_an_nvme_disk_with_storage_is_unknown_to_libvirt() -> None:
    """All others are in its XML."""
    assert is_unknown(NVME)
    assert not is_unknown(StorageConfig(bus="nvme", backing="null"))
    assert not is_unknown(StorageConfig(bus="sata"))


def test_a_disk_that_qemu_would_not_be_let_open_is_refused() -> None:
    """With what keeps it from it, and what to do."""
    with pytest.raises(UnsupportedError, match=r"on lab01: .* the profile of the guest \(AppArmor\) does not let QEMU"):
        check_opens(NVME, Confinement(owner="64055:64055", profiles="AppArmor"), "lab01", is_block=False)
    with pytest.raises(UnsupportedError, match=r"does not give the block device to QEMU's user \(64055:64055\)"):
        check_opens(NVME, Confinement(owner="64055:64055"), "lab01", is_block=True)
    check_opens(NVME, Confinement(owner="64055:64055"), "lab01", is_block=False)
    check_opens(NVME, Confinement(), "lab01", is_block=True)


def test_all_files_of_a_disk_are_given_and_no_others(tmp_path: Path) -> None:
    """Its extents and what lies below it; a disk whose number begins alike stays as it is."""
    ours = ("disk-1.vmdk", "disk-1-s001.vmdk", "disk-1.1-of-1.qcow2")
    for name in (*ours, "disk-10.raw", "disk-2.raw"):
        (tmp_path / name).touch()
    owner = f"{os.getuid()}:{os.getgid()}" if os.getuid() else "1234:1234"
    let_open(LocalShell(), Confinement(owner=owner), str(tmp_path / "disk-1.vmdk"))
    given = {path.name for path in tmp_path.iterdir() if path.stat().st_uid == int(owner.partition(":")[0])}
    if not os.getuid():
        assert given == set(ours)
    with pytest.raises(ProvisionError, match=r"giving .*disk-3\.raw to QEMU's user failed"):
        let_open(LocalShell(), Confinement(owner=owner), str(tmp_path / "disk-3.raw"))
    let_open(LocalShell(), Confinement(), str(tmp_path / "disk-3.raw"))
