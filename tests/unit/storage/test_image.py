"""The disk under test: its qemu-img line, what its image proves, and where it may lie. Recordings of Debian 12.

Tests of `storage.image` and `storage.caches`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.config.cell import Format, Preallocation, StorageConfig
from pytest_vmstorage.config.rules.image import PREALLOCATIONS
from pytest_vmstorage.errors import AttestationError, ProvisionError
from pytest_vmstorage.host.folders import FolderFacts, folder_facts
from pytest_vmstorage.host.shell import NOT_FOUND, CommandResult, LocalShell
from pytest_vmstorage.storage.caches import DROP_CACHES, drop_caches
from pytest_vmstorage.storage.image import (
    ImageFacts,
    check_space,
    create_argv,
    create_options,
    image_facts,
    image_files,
    make_disk,
    observed_preallocation,
    remove_disk,
    verify_preallocation,
)
from pytest_vmstorage.storage.space import HEADROOM_BYTES
from pytest_vmstorage.testing.shell import FakeShell

RECORDINGS = Path(__file__).parents[1] / "recordings"
SIZE = 8 * 2**20
CELLS = [
    StorageConfig(format=kind, preallocation=preallocation, size=SIZE)
    for kind, preallocations in PREALLOCATIONS.items()
    for preallocation in preallocations
]


def recording(name: str) -> str:
    """What the real tool said."""
    return (RECORDINGS / f"{name}.txt").read_text()


class Tools:
    """This machine as if it were another one, with stubs in place of some tools, which exit with these codes.

    `done` is what they were asked.
    """

    put = LocalShell.put
    read = LocalShell.read

    def __init__(self, folder: Path, *, can_drop: bool = False, **codes: int) -> None:
        self._folder = folder / "bin"
        self._folder.mkdir()
        self._log = folder / "log"
        self.drop = folder / "drop" if can_drop else folder / "nowhere" / "drop"
        for name, code in codes.items():
            stub = self._folder / name
            stub.write_text(f'#!/bin/sh\necho "{name} $*" >>"{self._log}"\nexit {code}\n')
            stub.chmod(0o755)

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Run argv with the stubs before the tools, and with a file in place of the kernel's."""
        words = [str(self.drop) if word == DROP_CACHES else word for word in argv]
        path = f"PATH={self._folder}:{os.environ['PATH']}"
        return LocalShell().run(["env", path, *words], timeout_s=timeout_s, stdin=stdin)

    @property
    def done(self) -> list[str]:
        """Their command lines."""
        return self._log.read_text().splitlines()


def plain() -> FakeShell:
    """A host on which no path is a block device."""
    return FakeShell().answer(re.compile("^test -b "), returncode=1)


def host(image: str = "raw-off") -> FakeShell:
    """A host on which every image is that recorded one."""
    shell = plain()
    shell.answer(re.compile("^stat "), recording(f"stat-9.1-{image}"))
    shell.answer(re.compile("^filefrag "), recording(f"filefrag-1.47.0-{image}"))
    shell.answer(re.compile("^qemu-img create "))
    return shell


def name(config: StorageConfig) -> str:
    """The cell's part of a recording's name."""
    return f"{config.format}-{config.preallocation}"


def test_a_raw_disk_is_made_by_one_line() -> None:
    """The format is said, the size is bytes."""
    config = StorageConfig(preallocation="falloc", size="1G")
    assert (
        " ".join(create_argv(config, "/srv/d")) == "qemu-img create -q -f raw -o preallocation=falloc /srv/d 1073741824"
    )


def test_a_qcow2_disk_says_its_version() -> None:
    """Old tools make compat 0.10, which has no zero clusters."""
    config = StorageConfig(format="qcow2", preallocation="metadata", size="1G")
    (options,) = [word for word in create_argv(config, "/srv/d") if "=" in word]
    assert options.startswith("preallocation=metadata,compat=1.1,")


def chosen_options(**values: object) -> list[str]:
    """What qemu-img is given with -o for a cell with these values."""
    return list(create_options(StorageConfig(**values)))


def test_a_qcow2_disk_has_what_its_cell_asks_for() -> None:
    """Each option by qemu-img's name of it, and none that was left to it."""
    assert chosen_options(format="qcow2") == ["preallocation=off", "compat=1.1", "lazy_refcounts=off"]
    chosen = chosen_options(format="qcow2", cluster_size="128k", lazy_refcounts=True, extended_l2=True)
    assert chosen[2:] == ["cluster_size=131072", "lazy_refcounts=on", "extended_l2=on"]


def test_a_format_that_ignores_preallocation_is_not_asked_for_it() -> None:
    """And a vpc keeps the size asked for."""
    assert chosen_options(format="vdi") == chosen_options(format="qed") == []
    assert chosen_options(format="vmdk", subformat="monolithicFlat") == ["subformat=monolithicFlat"]
    assert chosen_options(format="vpc", subformat="fixed") == ["subformat=fixed", "force_size=on"]
    assert "-o" not in create_argv(StorageConfig(format="vdi"), "/srv/d")


def test_all_files_of_a_vmdk_are_looked_at_and_forgotten(tmp_path: Path) -> None:
    """What its extents take is what the image takes; the descriptor beside them holds no data."""
    path = str(tmp_path / "disk-1.vmdk")
    (tmp_path / "disk-1.vmdk").write_bytes(b"x" * 300)
    (tmp_path / "disk-1-flat.vmdk").write_bytes(b"x" * 2**20)
    facts = image_facts(LocalShell(), path)
    assert facts.length_bytes == 2**20 + 300
    assert facts.allocated_bytes >= 2**20
    assert image_files(LocalShell(), path) == (path, f"{tmp_path}/disk-1-flat.vmdk")
    assert image_files(LocalShell(), "/srv/d.raw") == ("/srv/d.raw",)
    tools = Tools(tmp_path, sync=0, dd=0)
    assert drop_caches(tools, path) == "image evicted by advice before each round"
    flat = f"{tmp_path}/disk-1-flat.vmdk"
    advice = "iflag=nocache count=0 status=none"
    assert tools.done == [f"sync -- {path} {flat}", f"dd if={path} {advice}", f"dd if={flat} {advice}"]


def test_all_files_of_a_vmdk_are_removed(tmp_path: Path) -> None:
    """Its extents lie beside it; what else lies there stays."""
    for one in ("disk-1.vmdk", "disk-1-flat.vmdk", "disk-1-s001.vmdk", "disk-1-f001.vmdk", "disk-10.vmdk", "x"):
        (tmp_path / one).touch()
    remove_disk(LocalShell(), str(tmp_path / "disk-1.vmdk"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk-10.vmdk", "x"]


@pytest.mark.parametrize("config", CELLS, ids=name)
def test_what_qemu_img_made_is_seen_as_what_was_asked(config: StorageConfig) -> None:
    """On ext4 every preallocation can be told from every other by length, blocks and extents."""
    facts = image_facts(host(name(config)), "/srv/d")
    assert observed_preallocation(config, facts) == config.preallocation
    verify_preallocation(config, facts)


@pytest.mark.parametrize("config", CELLS, ids=name)
def test_a_preallocation_that_was_ignored_is_an_error(config: StorageConfig) -> None:
    """Every image is refused in the place of every other; both values are told."""
    for other in CELLS:
        if other.format == config.format and other != config:
            with pytest.raises(AttestationError) as caught:
                verify_preallocation(config, image_facts(host(name(other)), "/srv/d"))
            assert (caught.value.asked, caught.value.found.split()[0]) == (config.preallocation, other.preallocation)


@pytest.mark.parametrize(
    ("kind", "length", "allocated", "unwritten", "found"),
    [
        ("raw", SIZE, 0, False, "off"),
        ("raw", SIZE, SIZE // 2, False, "off"),
        ("raw", SIZE, SIZE // 2 + 1, False, "partial"),
        ("raw", SIZE, SIZE, True, "falloc"),
        ("raw", SIZE, SIZE, False, "full"),
        ("raw", SIZE, SIZE, None, "falloc or full"),
        ("qcow2", 196616, 200704, False, "off"),
        ("qcow2", SIZE + 327680, 266240, False, "metadata"),
        ("qcow2", SIZE + 327680, 266240, None, "metadata"),
        ("qcow2", SIZE + 327680, SIZE, None, "falloc or full"),
    ],
)
def test_what_an_image_says_of_its_preallocation(
    kind: Format, length: int, allocated: int, unwritten: bool | None, found: str
) -> None:
    """Length, blocks and extents decide, and what cannot be seen is not guessed."""
    facts = ImageFacts(length_bytes=length, allocated_bytes=allocated, unwritten=unwritten)
    assert observed_preallocation(StorageConfig(format=kind, size=SIZE), facts) == found


@pytest.mark.parametrize(
    "told",
    [
        {"stderr": "FIBMAP/FIEMAP unsupported", "returncode": 22},
        {"stdout": recording("filefrag-1.47.0-raw-full").replace(" of 4096 bytes", "")},
    ],
    ids=["unsupported", "unreadable"],
)
@pytest.mark.parametrize("asked", ["falloc", "full"])
def test_where_extents_cannot_be_seen_both_full_allocations_pass(asked: Preallocation, told: dict[str, Any]) -> None:
    """A tmpfs has no FIEMAP; half a proof is taken, a wrong one is not."""
    shell = host("raw-full").answer(re.compile("^filefrag "), **told)
    facts = image_facts(shell, "/srv/d")
    assert facts.unwritten is None
    verify_preallocation(StorageConfig(preallocation=asked, size=SIZE), facts)
    with pytest.raises(AttestationError, match="asked to be off but is falloc or full"):
        verify_preallocation(StorageConfig(size=SIZE), facts)


def test_a_path_does_not_count_as_an_extent() -> None:
    """filefrag prints the path, which may hold the very word that is looked for."""
    text = recording("filefrag-1.47.0-raw-full").replace("d-raw-full", "/srv/unwritten data/d")
    assert image_facts(host("raw-full").answer(re.compile("^filefrag "), text), "/srv/d").unwritten is False


def test_an_attestation_error_tells_what_was_allocated() -> None:
    """Sizes of both sides and what may be the cause."""
    with pytest.raises(AttestationError) as caught:
        make_disk(host("raw-off"), StorageConfig(preallocation="full", size=SIZE), "/srv/d")
    assert caught.value.told == (
        "preallocation of the raw image was asked to be full but is off (4 KiB of 8 MiB allocated). "
        "The folder's file system may compress, or lack fallocate; try another --vm-dir."
    )


def test_a_disk_is_made_proved_and_told_of() -> None:
    """One qemu-img and no more; the facts come back in bytes."""
    shell = host("qcow2-metadata")
    facts = make_disk(shell, StorageConfig(format="qcow2", preallocation="metadata", size=SIZE), "/srv/d")
    assert facts == ImageFacts(length_bytes=8716288, allocated_bytes=520 * 512, unwritten=False)
    assert [asked.argv[0] for asked in shell.asked].count("qemu-img") == 1


def test_a_failing_qemu_img_speaks_for_itself() -> None:
    """The cell, the tool's words, the line to try by hand."""
    shell = plain().answer(re.compile("qemu-img"), stderr="qemu-img: No space left on device", returncode=1)
    with pytest.raises(ProvisionError) as caught:
        make_disk(shell, StorageConfig(size=SIZE), "/srv/d")
    assert str(caught.value).startswith(
        "making the disk for raw-none-virtio-blk-off failed: qemu-img: No space left on device (command:"
    )
    assert not caught.value.hint


def test_without_qemu_img_the_package_is_named() -> None:
    """What to install stands in the message."""
    shell = plain().answer(re.compile("qemu-img"), stderr="qemu-img: command not found", returncode=NOT_FOUND)
    with pytest.raises(ProvisionError, match=r"command not found .* Install qemu-utils\. \[VM443\]$"):
        make_disk(shell, StorageConfig(size=SIZE), "/srv/d")


def test_a_disk_that_cannot_be_removed_is_told() -> None:
    """A leftover of a gigabyte is no detail."""
    remove_disk(plain().answer(["rm", "-f", "--", "/srv/d"]), "/srv/d")
    with pytest.raises(ProvisionError, match="removing /srv/d failed: Read-only"):
        remove_disk(plain().answer(["rm", "-f", "--", "/srv/d"], stderr="Read-only", returncode=1), "/srv/d")


def device_host(size: int) -> FakeShell:
    """A host whose every path is a block device of that size."""
    shell = FakeShell().answer(re.compile("^test -b ")).answer(re.compile("^blockdev --getsize64 "), f"{size}\n")
    shell.answer(re.compile("^qemu-img info "), '{"format": "raw"}')
    return shell.answer(re.compile("^sync ")).answer(re.compile("^blockdev --flushbufs "))


def test_a_block_device_is_never_removed() -> None:
    """Nor is anything that would be beside an image of that name."""
    shell = device_host(SIZE)
    remove_disk(shell, "/dev/sdx")
    assert shell.lines == ["test -b /dev/sdx"]


def test_raw_on_a_block_device_is_made_by_nothing() -> None:
    """Its size and header are looked at, and nothing else; one that is too small is refused with both sizes."""
    shell = device_host(SIZE)
    facts = make_disk(shell, StorageConfig(size=SIZE), "/dev/sdx")
    assert facts == ImageFacts(length_bytes=SIZE, allocated_bytes=0, unwritten=None, is_block=True)
    assert observed_preallocation(StorageConfig(size=SIZE), facts) == "off"
    assert {line.split()[0] for line in shell.lines} == {"test", "blockdev", "qemu-img"}
    with pytest.raises(ProvisionError, match=r"/dev/sdx has 8 MiB, and a raw disk of 16 MiB needs 16 MiB\."):
        make_disk(device_host(SIZE), StorageConfig(size=2 * SIZE), "/dev/sdx")
    with pytest.raises(ProvisionError, match="a qcow2 disk of 8 MiB needs"):
        make_disk(device_host(SIZE), StorageConfig(format="qcow2", size=SIZE), "/dev/sdx")


@pytest.mark.parametrize(("end", "found"), [(327680, "off"), (SIZE + 327680, "metadata")])
def test_a_qcow2_on_a_block_device_tells_its_preallocation_by_its_tables(end: int, found: str) -> None:
    """A device has no blocks that could be counted."""
    shell = device_host(2 * SIZE).answer(re.compile("^qemu-img create "))
    shell.answer(re.compile("^qemu-img check "), f'{{"image-end-offset": {end}}}')
    config = StorageConfig(format="qcow2", preallocation=found, size=SIZE)
    assert observed_preallocation(config, make_disk(shell, config, "/dev/sdx")) == found
    other = StorageConfig(format="qcow2", preallocation="off" if found == "metadata" else "metadata", size=SIZE)
    with pytest.raises(AttestationError, match=f"but is {found}"):
        make_disk(shell, other, "/dev/sdx")


@pytest.mark.parametrize("can_drop", [True, False])
def test_this_machine_forgets_an_image_without_a_program(
    tmp_path: Path, can_drop: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All files of it are written back; by advice their pages are gone, where the whole cache cannot go."""
    files, drop = [tmp_path / "[it's] d.vmdk", tmp_path / "[it's] d-flat.vmdk"], tmp_path / "drop"
    for one in files:
        one.write_bytes(b"x" * 2**20)
    if can_drop:
        drop.touch()
    synced = list[str]()

    def fsync(file: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{file}").readlink()))

    monkeypatch.setattr(os, "fsync", fsync)
    os.sync()
    for _ in range(20):
        for one in files:
            one.read_bytes()
        cached = LocalShell().run(["fincore", "-nb", "-o", "PAGES", *map(str, files)])
        # somebody who measures on this machine may just have dropped the caches of all
        if cached.stdout.split() == ["256", "256"]:
            break
    monkeypatch.setattr(LocalShell, "run", None)
    said = drop_caches(LocalShell(), str(files[0]), str(drop))
    monkeypatch.undo()
    assert synced == [str(one) for one in files]
    assert cached.stdout.split() == ["256", "256"]
    assert LocalShell().run(["stat", "-f", "-c", "%T", str(tmp_path)]).stdout != "tmpfs\n", "no page of a tmpfs goes"
    if can_drop:
        assert (said, drop.read_text()) == ("dropped before each round", "3\n")
    else:
        assert said == "image evicted by advice before each round"
        now = LocalShell().run(["fincore", "-nb", "-o", "PAGES", *map(str, files)])
        assert now.stdout.split() == ["0", "0"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_this_machine_flushes_a_devices_own_pages(tmp_path: Path) -> None:
    """A loop device's, though the whole cache cannot go."""
    device = tmp_path / "device"
    os.mknod(device, 0o600 | stat.S_IFBLK, os.makedev(7, 0))
    assert (
        drop_caches(LocalShell(), str(device), str(tmp_path / "nowhere" / "drop")) == "device flushed before each round"
    )


def test_an_image_that_this_machine_cannot_open_is_not_forgotten(tmp_path: Path) -> None:
    """And the report says so, though a file beside it is there."""
    (tmp_path / "none-flat.vmdk").touch()
    drop = str(tmp_path / "nowhere" / "drop")
    assert drop_caches(LocalShell(), str(tmp_path / "none.vmdk"), drop) == "not dropped"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
@pytest.mark.parametrize(
    ("can_drop", "flush", "said"),
    [
        (True, 1, "dropped before each round"),
        (False, 0, "device flushed before each round"),
        (False, 1, "image evicted by advice before each round"),
    ],
)
def test_a_devices_pages_are_flushed(tmp_path: Path, can_drop: bool, flush: int, said: str) -> None:
    """By blockdev, where the whole cache cannot go."""
    tools, device = Tools(tmp_path, can_drop=can_drop, sync=0, blockdev=flush, dd=0), f"{tmp_path}/device"
    os.mknod(device, 0o600 | stat.S_IFBLK, os.makedev(7, 0))
    assert drop_caches(tools, device) == said
    assert tools.done[:2] == [f"sync -- {device}", f"blockdev --flushbufs {device}"]
    assert len(tools.done) == (3 if "advice" in said else 2)


def test_an_encrypted_image_is_tried_again_where_qemu_measures_no_cpu_time() -> None:
    """QEMU 7.2 can refuse by chance; any other image is tried once."""
    error = "qemu-img: /srv/d: Unable to get accurate CPU usage"
    for encryption, tries in (("luks", 5), ("off", 1)):
        shell = plain().answer(re.compile("^qemu-img create "), stderr=error, returncode=1)
        with pytest.raises(ProvisionError, match="accurate CPU usage"):
            make_disk(shell, StorageConfig(format="qcow2", encryption=encryption, size=SIZE), "/srv/d")
        assert len([line for line in shell.lines if line.startswith("qemu-img create")]) == tries


@pytest.mark.parametrize(
    ("recorded", "kind", "device", "free"),
    [("ext4", "ext4", "/dev/vda", 83880488960), ("tmpfs", "tmpfs", "tmpfs", 25276502016)],
)
def test_a_folder_tells_what_it_lies_on(recorded: str, kind: str, device: str, free: int) -> None:
    """df's three columns, bytes as bytes."""
    facts = folder_facts(FakeShell().answer(re.compile("^df "), recording(f"df-9.1-{recorded}")), "/srv")
    assert (facts.file_system, facts.device, facts.free_bytes) == (kind, device, free)


def folder(free_bytes: int) -> FolderFacts:
    """A folder with that much free."""
    return FolderFacts(path="/srv", file_system="ext4", device="/dev/vda", free_bytes=free_bytes)


def test_a_disk_must_fit_with_some_room_beside_it() -> None:
    """To the byte; the sentence has what is free, what is needed, and three ways out."""
    config = StorageConfig(size="1G")
    check_space(folder(config.size + HEADROOM_BYTES), config)
    with pytest.raises(ProvisionError) as caught:
        check_space(folder(config.size + HEADROOM_BYTES - 1), config)
    assert caught.value.told == (
        "/srv has 1.06 GiB free, but a disk of 1 GiB may need 1.06 GiB. "
        "Free some space, name another folder with --vm-dir, or ask for a smaller size."
    )


@pytest.mark.parametrize(
    ("can_drop", "dd", "said"),
    [
        (True, 1, "dropped before each round"),
        (False, 0, "image evicted by advice before each round"),
        (False, 1, "not dropped"),
    ],
)
def test_how_the_hosts_caches_were_dropped_is_told(tmp_path: Path, can_drop: bool, dd: int, said: str) -> None:
    """The best means this user has, after the image was synced, and its name in the report."""
    tools = Tools(tmp_path, can_drop=can_drop, sync=0, dd=dd, blockdev=0)
    (tmp_path / "it's d.raw").touch()
    assert drop_caches(tools, f"{tmp_path}/it's d.raw") == said
    assert tools.done[0] == f"sync -- {tmp_path}/it's d.raw"
    assert not [line for line in tools.done if line.startswith("blockdev")]
    assert (tools.drop.read_text() if can_drop else "") == ("3\n" if can_drop else "")
