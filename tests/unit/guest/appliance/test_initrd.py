"""Modules in load order and the cpio archive, byte by byte."""

from __future__ import annotations

import gzip
import lzma
import shutil
import subprocess
from collections.abc import Callable

import pytest

from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.guest.appliance.initrd import (
    Entry,
    Module,
    alias_file,
    archive,
    dependency_file,
    load_order,
    module,
    module_name,
    plain_module,
)

ELF = b"\x7fELF module body\0"
SIGNED = (
    ELF + b"S" * 300 + bytes([0, 0, 2, 0, 0, 0, 0, 0]) + (300).to_bytes(4, "big") + b"~Module signature appended~\n"
)


def named(name: str, *needs: str, aliases: tuple[str, ...] = ()) -> Module:
    """A module without content."""
    return Module(name=name, data=ELF, needs=needs, aliases=aliases)


def graph(*modules: Module) -> dict[str, Module]:
    """Modules by name."""
    return {each.name: each for each in modules}


def test_needs_come_before_what_needs_them() -> None:
    """A diamond is loaded bottom first, the shared module once."""
    modules = graph(named("top", "left", "right"), named("left", "base"), named("right", "base"), named("base"))
    assert load_order(["top", "base"], modules) == ("base", "left", "right", "top")


def test_module_that_is_not_there_counts_as_built_in() -> None:
    """Which drivers are modules differs between kernels."""
    assert load_order(["virtio", "ext4"], graph(named("ext4", "crc32c"))) == ("ext4",)


def test_circle_of_needs_is_named() -> None:
    """Instead of recursing for ever."""
    with pytest.raises(ProvisionError, match="a -> b -> a"):
        load_order(["a"], graph(named("a", "b"), named("b", "a")))


def test_dependency_file_lists_nearest_need_first() -> None:
    """Modprobe loads the list from its end."""
    modules = graph(named("nvme", "nvme_core"), named("nvme_core", "t10_pi"), named("t10_pi"))
    assert dependency_file(modules).splitlines() == [
        "kernel/nvme.ko: kernel/nvme_core.ko kernel/t10_pi.ko",
        "kernel/nvme_core.ko: kernel/t10_pi.ko",
        "kernel/t10_pi.ko:",
    ]


def test_alias_file_names_what_the_kernel_asks_for() -> None:
    """A mount of xfs asks for fs-xfs."""
    assert alias_file(graph(named("xfs", aliases=("fs-xfs",)), named("brd"))) == "alias fs-xfs xfs\n"


def test_modinfo_gives_needs_and_aliases() -> None:
    """Depends and softdep pre are needs; post is not, and a device alias is left out."""
    info = (
        ELF + b"license=GPL\0alias=fs-btrfs\0alias=pci:v00001AF4d*\0depends=raid6_pq,nvme-core\0"
        b"softdep=pre: crc32c xxhash64 post: blake2b\0"
    )
    found = module("kernel/fs/btrfs/btrfs.ko", info)
    assert found.name == "btrfs"
    assert found.needs == ("raid6_pq", "nvme_core", "crc32c", "xxhash64")
    assert found.aliases == ("fs-btrfs",)


def test_empty_depends_needs_nothing() -> None:
    """Modpost writes the field even then."""
    assert module("brd.ko", ELF + b"depends=\0").needs == ()


@pytest.mark.parametrize(
    ("file", "name"), [("kernel/drivers/nvme/host/nvme-core.ko.xz", "nvme_core"), ("sd_mod.ko", "sd_mod")]
)
def test_module_name_is_the_kernels(file: str, name: str) -> None:
    """Dashes become underscores, endings go."""
    assert module_name(file) == name


@pytest.mark.parametrize("pack", [bytes, lzma.compress, gzip.compress], ids=["plain", "xz", "gzip"])
@pytest.mark.parametrize("data", [ELF, SIGNED], ids=["unsigned", "signed"])
def test_plain_module_has_neither_compression_nor_signature(pack: Callable[[bytes], bytes], data: bytes) -> None:
    """What is left is exactly the module."""
    assert plain_module(pack(data)) == ELF


def test_module_compressed_in_another_way_is_refused() -> None:
    """Loading it would fail in the guest, where nobody sees why."""
    with pytest.raises(ProvisionError, match="unknown way"):
        plain_module(b"\x28\xb5\x2f\xfd")


def test_archive_layout() -> None:
    """Header, name and data are padded to four bytes; the numbers are hexadecimal; the trailer ends it."""
    made = archive([Entry(path="init", mode=0o755, data=b"#!x")])
    assert made[:6] == b"070701"
    assert made[14:22] == b"000081ED"
    assert made[54:62] == b"00000003"
    assert made[110:115] == b"init\0"
    assert made[116:120] == b"#!x\0"
    assert made[120:126] == b"070701"
    assert b"TRAILER!!!" in made[120:]
    assert len(made) % 4 == 0


def test_archive_keeps_a_nodes_numbers() -> None:
    """The console's node is character device 5, 1."""
    made = archive([Entry(path="dev/console", kind="node", mode=0o600, device=(5, 1))])
    assert made[14:22] == b"00002180"
    assert made[78:94] == b"0000000500000001"


@pytest.mark.skipif(not shutil.which("cpio"), reason="cpio is not installed")
def test_archive_is_read_by_cpio() -> None:
    """An independent reader lists every member, in order."""
    entries = [
        Entry(path="bin", kind="folder", mode=0o755),
        Entry(path="bin/sh", kind="link", mode=0o777, data=b"busybox"),
        Entry(path="bin/busybox", mode=0o755, data=b"12345"),
    ]
    done = subprocess.run(["cpio", "-t", "--quiet"], input=archive(entries), capture_output=True, check=True)
    assert done.stdout.decode().split() == ["bin", "bin/sh", "bin/busybox"]
