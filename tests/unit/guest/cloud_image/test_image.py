"""A user's own image: looked at before anything is made, never written to, and an overlay and a seed for each guest.

Tests of `guest.cloud_image.image`, `guest.cloud_image.seed` and `guest.cloud_image.guest`.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.guest_image import ListedImage
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.errors import BootTimeoutError, GuestError, HostError, ProvisionError, UnsupportedError
from pytest_vmstorage.guest.boot import BootFiles
from pytest_vmstorage.guest.cloud_image.guest import check_programs, settle
from pytest_vmstorage.guest.cloud_image.image import PlacedImage, boot_of, make_boot, place_image, remove_boot
from pytest_vmstorage.guest.cloud_image.network import door_of
from pytest_vmstorage.guest.cloud_image.seed import check_seed_tools, make_seed, seed_texts
from pytest_vmstorage.guest.domain_xml import GuestSpec, domain_xml
from pytest_vmstorage.guest.facts import read_facts
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.progress import silent
from pytest_vmstorage.testing.shell import FakeShell

needs_qemu = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="images are made and read by qemu-img")
needs_mtools = pytest.mark.skipif(shutil.which("mformat") is None, reason="seeds are made by mtools")
DRAFT = "/srv/run-1/image"
LOCAL = LabHost(name="here", uri=None, ssh=None, folder="/srv")
FAR = LabHost(name="lab01", uri="qemu+ssh://lab01/system", ssh="lab01", folder="/srv")


@pytest.fixture(autouse=True)
def _seed_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken to be there; what is missing has a test of its own."""
    monkeypatch.setattr("pytest_vmstorage.guest.cloud_image.image.check_seed_tools", lambda: None)


def listed(path: Path) -> ListedImage:
    """The image with its own checksum."""
    return ListedImage(path=path, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


def make_image(path: Path, *words: str, kind: str = "qcow2") -> Path:
    """An image of 1 MiB."""
    subprocess.run(["qemu-img", "create", "-q", "-f", kind, *words, str(path), "1M"], check=True)
    return path


@needs_qemu
@pytest.mark.parametrize("kind", ["qcow2", "raw"])
def test_an_image_is_used_where_it_lies(tmp_path: Path, kind: str) -> None:
    """On this machine nothing is copied."""
    image = listed(make_image(tmp_path / "i", kind=kind))
    placed = place_image(LOCAL, LocalShell(), image, silent, draft=DRAFT)
    assert placed == PlacedImage(path=str(tmp_path / "i"), format=kind, description=image.description)  # type: ignore[arg-type]


@needs_qemu
def test_an_image_with_another_content_is_refused(tmp_path: Path) -> None:
    """Half a download, or one that somebody booted."""
    image = listed(make_image(tmp_path / "i"))
    with (tmp_path / "i").open("ab") as stream:
        stream.write(b"x")
    with pytest.raises(HostError, match="does not match its checksum"):
        place_image(LOCAL, LocalShell(), image, silent, draft=DRAFT)
    (tmp_path / "i").unlink()
    with pytest.raises(HostError, match="cannot be read: No such file or directory"):
        place_image(LOCAL, LocalShell(), image, silent, draft=DRAFT)


@needs_qemu
def test_an_image_that_is_none_of_these_or_half_of_one_is_refused(tmp_path: Path) -> None:
    """A file below it could change, whatever its checksum says."""
    with pytest.raises(HostError, match=r"is vdi, and guests boot from qcow2 or raw\. Make one of it: qemu-img"):
        place_image(LOCAL, LocalShell(), listed(make_image(tmp_path / "v", kind="vdi")), silent, draft=DRAFT)
    below = make_image(tmp_path / "below")
    above = make_image(tmp_path / "above", "-b", str(below), "-F", "qcow2")
    with pytest.raises(HostError, match=r"depends on another file, .*below, which its checksum does not cover"):
        place_image(LOCAL, LocalShell(), listed(above), silent, draft=DRAFT)


@needs_qemu
def test_an_image_is_copied_once_to_another_machine(tmp_path: Path) -> None:
    """Under a name made of its checksum, which is looked at before each run; a damaged copy is made anew."""
    image = listed(make_image(tmp_path / "i"))
    target = f"/srv/image-{image.sha256[:32]}"
    said: list[str] = []
    shell = FakeShell().answer(re.compile("^test -e"), returncode=1).answer(re.compile("^(chmod|mv|sha256sum) "))
    assert place_image(FAR, shell, image, said.append, draft=DRAFT).path == target
    assert said == ["copying the image i to lab01 (192 KiB)"]
    assert shell.files[DRAFT] == (tmp_path / "i").read_bytes()
    assert [asked.stdin for asked in shell.asked if asked.argv[0] == "sha256sum"] == [
        f"{image.sha256}  {target}\n".encode()
    ]
    there = FakeShell().answer(re.compile("^(test -e|sha256sum) "))
    assert place_image(FAR, there, image, said.append, draft=DRAFT).path == target
    assert (there.files, len(said)) == ({}, 1)
    damaged = FakeShell().answer(re.compile("^(test -e|chmod|mv) ")).answer(re.compile("^sha256sum"), returncode=1)
    with pytest.raises(ProvisionError, match="checking the image's copy on lab01 failed"):
        place_image(FAR, damaged, image, said.append, draft=DRAFT)


@needs_qemu
@needs_mtools
def test_each_guest_writes_to_an_overlay_of_its_own(tmp_path: Path) -> None:
    """The image stays what it was, and nothing of the guest remains."""
    image = place_image(LOCAL, LocalShell(), listed(make_image(tmp_path / "i")), silent, draft=DRAFT)
    before = (tmp_path / "i").read_bytes()
    make_boot(LocalShell(), image, str(tmp_path), "vms-1")
    made = boot_of(image, str(tmp_path), "vms-1")
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", "write -P 7 0 1M", made.overlay], check=True, capture_output=True)
    assert (tmp_path / "i").read_bytes() == before
    told = json.loads(
        subprocess.run(["qemu-img", "info", "--output=json", made.overlay], check=True, capture_output=True).stdout
    )
    assert (told["backing-filename"], told["backing-filename-format"]) == (image.path, "qcow2")
    remove_boot(LocalShell(), image, str(tmp_path), "vms-1")
    assert [path.name for path in tmp_path.iterdir()] == ["i"]
    remove_boot(LocalShell(), image, str(tmp_path), "vms-1")


@needs_mtools
def test_a_seed_is_what_nocloud_reads(tmp_path: Path) -> None:
    """A vfat with that label and three files, each guest another instance."""
    texts, other = (seed_texts(name, door_of(name, "", "")) for name in ("vms-1", "vms-2"))
    make_seed(tmp_path / "seed", texts)
    head = (tmp_path / "seed").read_bytes()
    assert b"CIDATA     " in head
    for name, text in texts.items():
        done = subprocess.run(["mtype", "-i", str(tmp_path / "seed"), f"::{name}"], check=True, capture_output=True)
        assert done.stdout.decode() == text
    assert texts["meta-data"] != other["meta-data"]
    assert texts["user-data"].startswith("#cloud-config\n")


def test_tools_for_a_seed_are_named_where_they_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the package that has them."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostError) as caught:
        check_seed_tools()
    assert caught.value.what.startswith("Guests from your own image need mformat and mcopy, which this machine lacks")
    assert caught.value.hint == "apt install mtools"


IMAGE = PlacedImage(path="/i.qcow2", format="qcow2", description="i.qcow2 sha256:0123")
BOOT = BootFiles(emulator="/qemu", kernel="/k", initrd="/i", root="/r", image=IMAGE)


def test_only_guests_of_cells_boot_from_the_image() -> None:
    """A canary boots the appliance: it is to answer soon, and only to show that KVM works."""
    assert BOOT.image_boot(None, "/run", "vms-1") is None
    made = BOOT.image_boot(StorageConfig(), "/run", "vms-1")
    assert made is not None
    assert (made.overlay, made.seed) == ("/run/vms-1.root", "/run/vms-1.seed")
    canary = FakeShell()
    BOOT.make(canary, None, "/run", "vms-1")
    assert canary.asked == []


def test_the_guest_boots_from_its_own_loader() -> None:
    """By the firmware, from the overlay and from no other disk; the disk under test is what it is for any guest."""
    spec = GuestSpec(
        name="vms-1",
        uuid="u",
        config=StorageConfig(),
        disk="/d",
        kernel="/k",
        initrd="/i",
        cmdline="quiet",
        root="/r",
        console="/c",
        accel="tcg",
        emulator="/qemu",
        image=boot_of(IMAGE, "/run", "vms-1"),
    )
    with_image = ET.fromstring(domain_xml(spec))
    assert [element.tag for element in with_image.find("os") or ()] == ["type"]
    disks = with_image.findall("devices/disk")
    sources = [disk.find("source") for disk in disks]
    assert [one.get("file") for one in sources if one is not None] == ["/run/vms-1.root", "/run/vms-1.seed", "/d"]
    assert [disk.find("boot") is not None for disk in disks] == [True, False, False]
    assert [disk.find("readonly") is not None for disk in disks] == [False, True, False]
    without = ET.fromstring(domain_xml(spec.model_copy(update={"image": None})))
    assert ET.tostring(disks[2]) == ET.tostring(without.findall("devices/disk")[1])


def test_neither_root_nor_seed_is_taken_for_the_disk_under_test() -> None:
    """Also where they are as large as it is."""
    line = "|{size}|{serial}|write back|none|512|1|virtio_blk||1|0\n"
    disks = (("vda", "vmstorage-root"), ("vdc", "vmstorage-seed"), ("vdb", "vmstorage-test"))
    text = "6.1|1|450000\n" + "".join(name + line.format(size=2**21, serial=serial) for name, serial in disks)
    assert read_facts(text, StorageConfig(), {}).disk == "/dev/vdb"


def guest_shell(missing: str = "", cloud_init: int = 0, said: str = "status: done") -> FakeShell:
    """A guest from an image, at the end of cloud-init."""
    shell = FakeShell().answer(re.compile("cloud-init status --wait"), said, returncode=cloud_init)
    shell.answer(re.compile("command -v .*echo"), missing)
    return shell.answer(re.compile("dpkg-query"), "fio=3.33\nfio=3.33-3\ncoreutils=9.1-1\n")


def test_a_guest_is_ready_when_cloud_init_is_at_its_end() -> None:
    """Its programs' versions stand with each row; a package's version is the one that counts."""
    assert settle(guest_shell(), "i", 60) == {"fio": "3.33-3", "coreutils": "9.1-1"}
    # what it only complains of is no failure
    assert settle(guest_shell(cloud_init=2), "i", 60)["fio"] == "3.33-3"


def test_a_guest_whose_cloud_init_fails_or_has_no_end_is_told() -> None:
    """Nobody knows what still runs in it."""
    with pytest.raises(GuestError, match="cloud-init of i failed: status: error") as failed:
        settle(guest_shell(cloud_init=1, said="status: error"), "i", 60)
    assert "cloud-init status --long" in failed.value.hint
    told = guest_shell(cloud_init=1)
    told.files["/run/cloud-init/result.json"] = b'{"v1": {"errors": ["(\'locale\', no such locale)"]}}'
    with pytest.raises(GuestError, match=r"cloud-init of i failed: \('locale', no such locale\)\."):
        settle(told, "i", 60)
    slow = guest_shell()
    slow.answer(re.compile("cloud-init status --wait"), seconds=61)
    with pytest.raises(BootTimeoutError, match="cloud-init of i did not finish within 1 min"):
        settle(slow, "i", 60)


def test_programs_that_an_image_lacks_are_named() -> None:
    """A skip: this image cannot do it, and nothing is installed in it."""
    with pytest.raises(UnsupportedError) as caught:
        settle(guest_shell(missing="blockdev\ndmesg\n"), "i", 60)
    assert caught.value.what == "The image i lacks blockdev and dmesg."
    with pytest.raises(UnsupportedError, match="The image i lacks fio"):
        check_programs(guest_shell(missing="fio\n"), "i", ("fio", "fio"))
    check_programs(LocalShell(), "i", ("sh",))
