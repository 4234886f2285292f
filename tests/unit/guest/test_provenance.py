"""Hashes of what a guest was made from: the same for guests alike, others for what is other."""

import hashlib
import importlib.metadata
from pathlib import Path

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.guest.domain_xml import GuestSpec, definition_sha256
from pytest_vmstorage.guest.provenance import Provenance
from pytest_vmstorage.host.shell import LocalShell


def spec(name: str = "vms-1", **fields: object) -> GuestSpec:
    """What a guest is made from, its paths below a folder of its own."""
    paths = {what: f"/run/{name}/{what}" for what in ("disk", "kernel", "initrd", "root", "console")}
    made = {"name": name, "uuid": hashlib.md5(name.encode()).hexdigest(), "config": StorageConfig(), **paths}
    return GuestSpec.model_validate({**made, "cmdline": "quiet", "accel": "tcg", "emulator": "/usr/bin/qemu", **fields})


def test_guests_that_differ_in_names_alone_have_one_definition() -> None:
    """Else no two guests of a cell would be of the same XML."""
    assert definition_sha256(spec()) == definition_sha256(spec("vms-2"))


def test_another_definition_shows() -> None:
    """Be it the cell, the memory, the kernel's command line or the binary's path."""
    others = [
        spec(config=StorageConfig(cache="writeback")),
        spec(memory_bytes=2**30),
        spec(cmdline="loud"),
        spec(emulator="/opt/qemu"),
    ]
    assert len({definition_sha256(one) for one in [spec(), *others]}) == 5


def test_the_binary_behind_a_link_is_what_counts(tmp_path: Path) -> None:
    """The hash is of what is run, read once in a run, and left out where it cannot be read."""
    binary, link = tmp_path / "qemu-9", tmp_path / "qemu"
    binary.write_bytes(b"the emulator")
    link.symlink_to(binary)
    provenance = Provenance(LocalShell())
    found = provenance.of(spec(emulator=str(link), root_sha256="1234"))
    assert found["qemu_sha256"] == hashlib.sha256(b"the emulator").hexdigest()
    assert found["guest_image_sha256"] == "1234"
    binary.write_bytes(b"another one")
    assert provenance.of(spec(emulator=str(link), root_sha256="1234")) == found
    assert set(Provenance(LocalShell()).of(spec(emulator=str(tmp_path / "none")))) == {"domain_xml_sha256", "plugin"}


def test_the_firmware_is_the_first_in_qemus_folders(tmp_path: Path) -> None:
    """As QEMU itself looks for it; where no folder has it, it is left out."""
    emulator = tmp_path / "qemu"
    emulator.write_text(f"#!/bin/sh\n[ \"$*\" = '-L help' ] && printf '%s\\n' {tmp_path}/a {tmp_path}/b {tmp_path}/c\n")
    emulator.chmod(0o755)
    assert "firmware_sha256" not in Provenance(LocalShell()).of(spec(emulator=str(emulator)))
    for name in ("b", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "bios-256k.bin").write_text(f"SeaBIOS {name}")
    found = Provenance(LocalShell()).of(spec(emulator=str(emulator)))
    assert found["firmware_sha256"] == hashlib.sha256(b"SeaBIOS b").hexdigest()
    assert found["plugin"] == importlib.metadata.version("pytest-vmstorage")
