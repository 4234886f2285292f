"""Guests from a user's image without an agent: reached by ssh, with keys that the run made for both sides."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import BootTimeoutError, GuestDiedError, HostError
from pytest_vmstorage.guest.cloud_image.image import PlacedImage, boot_of
from pytest_vmstorage.guest.cloud_image.network import Door, ImageKeys, door_of
from pytest_vmstorage.guest.cloud_image.seed import seed_texts
from pytest_vmstorage.guest.disk_xml import QEMU_NAMESPACE
from pytest_vmstorage.guest.domain_xml import GuestSpec, domain_xml
from pytest_vmstorage.guest.guest import reach
from pytest_vmstorage.guest.instance import StartedGuest
from pytest_vmstorage.host.shell import SshShell

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="keys are made by ssh-keygen")
IMAGE = PlacedImage(path="/i", format="raw", description="i", keys="/keys")


@pytest.fixture
def keys() -> ImageKeys:
    """Keys of a run."""
    return ImageKeys()


@needs_ssh
def test_both_keys_are_told_to_the_guest_and_known_here(keys: ImageKeys) -> None:
    """So that no guest's key is taken on trust, and no key of the user's is offered to it."""
    door = door_of("vms-1", str(keys.folder), "")
    texts = seed_texts("vms-1", door)
    user, guest = keys.text("user.pub").strip(), keys.text("guest.pub").strip()
    lines = texts["user-data"].splitlines()
    assert lines[0] == "#cloud-config"
    assert f"  - {user}" in lines
    assert f"  ed25519_public: {guest}" in lines
    begin = lines.index("  ed25519_private: |") + 1
    private = keys.text("guest").splitlines()
    assert lines[begin : begin + len(private)] == [f"    {line}" for line in private]
    assert keys.text("known_hosts").split()[1:] == guest.split()[:2]
    assert door.mac in texts["network-config"]
    assert keys.folder.stat().st_mode & 0o077 == 0


def test_a_guest_with_an_agent_has_a_network_and_no_keys() -> None:
    """Images wait for a network as they boot; what is behind this one is nothing."""
    door = door_of("vms-1", "", "")
    texts = seed_texts("vms-1", door)
    assert not door.is_open
    assert "ssh_" not in texts["user-data"].replace("ssh_pwauth", "").replace("ssh_genkeytypes", "")
    assert door.mac in texts["network-config"]


def test_keys_need_ssh_keygen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has it is said."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError, match="need ssh-keygen on this machine"):
        ImageKeys()


def test_each_guest_has_a_door_of_its_own() -> None:
    """Told by its name, so that nothing need be remembered; over the lab host where that is another machine."""
    one, other = door_of("vms-1", "/k", ""), door_of("vms-2", "/k", "root@lab01")
    assert one == door_of("vms-1", "/k", "")
    assert (one.port, one.mac) != (other.port, other.mac)
    assert 20000 <= one.port < 60000
    assert one.mac.startswith("52:54:00:")
    assert "-J" not in one.options
    assert other.options[-2:] == ("-J", "root@lab01")
    assert f"Port={one.port}" in one.options
    assert "StrictHostKeyChecking=yes" in one.options


@pytest.mark.parametrize("bus", ["virtio-blk", "nvme", "ide"])
def test_the_guest_gets_one_network_device_with_one_port(bus: str) -> None:
    """Restricted to it, in the one list of QEMU's own options that libvirt takes."""
    spec = GuestSpec(
        name="vms-1",
        uuid="u",
        config=StorageConfig.model_validate({"bus": bus}),
        disk="/d",
        kernel="",
        initrd="",
        cmdline="",
        root="",
        console="/c",
        accel="tcg",
        emulator="/qemu",
        image=boot_of(IMAGE, "/run", "vms-1"),
    )
    domain = ET.fromstring(domain_xml(spec))
    (commandline,) = domain.findall(f"{{{QEMU_NAMESPACE}}}commandline")
    words = [arg.get("value", "") for arg in commandline]
    netdev = words[words.index("-netdev") + 1]
    shut = spec.model_copy(update={"image": boot_of(IMAGE.model_copy(update={"keys": ""}), "/run", "vms-1")})
    assert 'value="user,id=vms-net,restrict=on"' in domain_xml(shut)
    port = door_of("vms-1", "/keys", "").port
    assert netdev == f"user,id=vms-net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22"
    assert words[-1].endswith(f"bus={'pci.0' if bus == 'ide' else 'pcie.0'},addr=0x1d")
    assert domain.find("devices/interface") is None


def machine(*, alive: bool = True) -> StartedGuest:
    """A guest that ssh reaches, as far as this needs one."""
    door = Door(port=20001, mac="52:54:00:00:00:01", folder="/keys")
    image = boot_of(IMAGE, "/run", "vms-1").model_copy(update={"door": door})
    known: Any = SimpleNamespace(
        spec=SimpleNamespace(image=image), config=StorageConfig(), domain=SimpleNamespace(is_active=lambda: alive)
    )
    return cast("StartedGuest", known)


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ssh that fails as many times as the file `fails` has lines, and then runs what it is told to."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("pytest_vmstorage.guest.guest._AGAIN_S", 0.01)
    script = tmp_path / "ssh"
    script.write_text(
        f"""#!/bin/sh
echo "$*" >>{tmp_path}/asked
if [ -s {tmp_path}/fails ]; then sed -i 1d {tmp_path}/fails; echo 'kex_exchange: Connection closed' >&2; exit 255; fi
for last; do :; done
case "$*" in *" -N "*) exit 0 ;; esac
exec sh -c "$last"
"""
    )
    script.chmod(0o755)
    return tmp_path


def test_a_guest_is_asked_until_its_sshd_answers(ssh: Path) -> None:
    """While it boots the port is there, and nobody behind it."""
    (ssh / "fails").write_text("1\n2\n3\n")
    shell = reach(machine(), 20)
    assert isinstance(shell, SshShell)
    assert shell.run(["echo", "hello"]).stdout == "hello\n"
    first = (ssh / "asked").read_text().splitlines()[0]
    assert "Port=20001" in first
    assert "IdentityFile=/keys/user" in first
    assert "root@127.0.0.1" in first


def test_a_guest_that_never_lets_ssh_in_is_told(ssh: Path) -> None:
    """With ssh's own last word, and what the image needs."""
    (ssh / "fails").write_text("1\n" * 10000)
    with pytest.raises(BootTimeoutError) as caught:
        reach(machine(), 0.2)
    assert "Connection closed" in caught.value.hint
    assert "sshd on which root may log in with a key" in caught.value.hint


def test_a_guest_that_ended_is_not_waited_for(ssh: Path) -> None:
    """Its time limit may be minutes away."""
    (ssh / "fails").write_text("1\n" * 10000)
    with pytest.raises(GuestDiedError, match="ended before ssh reached it"):
        reach(machine(alive=False), 600)
