"""Which host a name means, with and without a vmstorage.toml, and which file that is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pytest_vmstorage.config.inventory import LabHost, find_host, find_inventory
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.host.shell import LocalShell, SshShell, open_shell

TEXT = """
[hosts.local]
folder = "/srv/here"
[hosts.local.devices.fast]
id = "wwn-0x5002538e40a1b2c3"
allow_destroy = true
[hosts.local.partitions.p1]
id = "by-partuuid/0a1b2c3d-01"
[hosts.local.volume_groups.vg0]
[hosts.local.datasets.tank]
name = "tank/vms"

[hosts.lab01]
ssh = "root@10.0.0.5"
[hosts.lab02]
uri = "qemu+tls://lab02/system"
folder = "/data"
cpus = "2-3"
"""

INVENTORY = load_inventory(TEXT, "vmstorage.toml")


def test_without_an_inventory_nothing_is_listed() -> None:
    """The two-argument call is what it was, and nothing may be written to but files."""
    host = find_host("lab01", None)
    assert host == LabHost(
        name="lab01",
        uri="qemu+ssh://lab01/system?no_tty=1",
        ssh="lab01",
        folder="/var/lib/libvirt/images/vmstorage",
        listed_as="lab01",
    )
    assert list(host.listed()) == []
    assert isinstance(open_shell(host), SshShell)


def test_this_machine_has_what_is_listed_as_local() -> None:
    """By any of both names; the option for the folder goes before the file."""
    for name in (None, "local"):
        host = find_host(name, None, INVENTORY)
        assert (host.name, host.uri, host.ssh, host.folder) == (socket.gethostname(), None, None, "/srv/here")
        assert (host.listed_as, host.inventory) == ("local", "vmstorage.toml")
        assert [(one.kind, one.name) for one in host.listed()] == [
            ("device", "fast"),
            ("partition", "p1"),
            ("lvm", "vg0"),
            ("zvol", "tank"),
        ]
        assert [one.name for one in host.listed("lvm")] == ["vg0"]
    assert isinstance(open_shell(host), LocalShell)
    assert find_host(None, "/other", INVENTORY).folder == "/other"


def test_another_host_is_reached_as_its_entry_says() -> None:
    """ssh's target makes the URI, a URI of its own replaces it, and what is listed elsewhere is not this one's."""
    lab01, lab02 = find_host("lab01", None, INVENTORY), find_host("lab02", None, INVENTORY)
    assert (lab01.uri, lab01.ssh) == ("qemu+ssh://root@10.0.0.5/system?no_tty=1", "root@10.0.0.5")
    assert (lab02.uri, lab02.ssh, lab02.folder) == ("qemu+tls://lab02/system", "lab02", "/data")
    assert list(lab01.listed()) == []
    assert (lab01.cpus, lab02.cpus) == ((), (2, 3))


def test_a_host_that_is_not_in_the_file_has_the_defaults() -> None:
    """A file that lists some hosts takes none away."""
    assert find_host("lab09", None, INVENTORY).uri == "qemu+ssh://lab09/system?no_tty=1"


def test_the_nearest_file_upwards_is_found(tmp_path: Path) -> None:
    """From the rootdir up to the root; a folder of that name is none."""
    below = tmp_path / "a" / "b"
    (below / "vmstorage.toml").mkdir(parents=True)
    told = f"{below}/vmstorage.toml is ignored: it is not a regular file."
    assert find_inventory(below) == (None, (told,))
    (tmp_path / "vmstorage.toml").touch()
    assert find_inventory(below) == (tmp_path / "vmstorage.toml", (told,))
    (tmp_path / "a" / "vmstorage.toml").touch()
    assert find_inventory(below).path == tmp_path / "a" / "vmstorage.toml"
    assert find_inventory(tmp_path) == (tmp_path / "vmstorage.toml", ())


@pytest.mark.parametrize("kind", ["pipe", "circle", "dangling link"])
def test_what_is_no_file_is_told(kind: str, tmp_path: Path) -> None:
    """And not silently taken for none."""
    path = tmp_path / "vmstorage.toml"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(path if kind == "circle" else tmp_path / "nowhere")
    found, (sentence,) = find_inventory(tmp_path)
    assert found is None
    assert sentence.startswith(f"{path} is ignored: it ")


@pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give files away")
@pytest.mark.parametrize("kind", ["owner", "link", "mode", "folder"])
def test_a_file_that_another_user_can_change_is_ignored(kind: str, tmp_path: Path) -> None:
    """It would tell root where to write; a file of one's own further up is used, and the sentence names the remedy."""
    (tmp_path / "vmstorage.toml").touch()
    below = tmp_path / "below"
    below.mkdir()
    path = below / "vmstorage.toml"
    path.touch()
    if kind == "owner":
        os.chown(path, 65534, 65534)
    elif kind == "link":
        theirs = tmp_path / "theirs"
        path.replace(theirs)
        os.chown(theirs, 65534, 65534)
        path.symlink_to(theirs)
    elif kind == "mode":
        path.chmod(0o666)
    else:
        below.chmod(0o777)
    found, (sentence,) = find_inventory(below)
    assert found == tmp_path / "vmstorage.toml"
    assert sentence.startswith(f"{path} is ignored: ")
    assert f"--vm-inventory={path}" in sentence
    assert ("belongs to the user nobody" in sentence) is (kind in ("owner", "link"))
