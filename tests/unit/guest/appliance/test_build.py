"""The appliance's cache: built once, damage noticed, builders kept apart; Debian's tools are imitated.

Tests of `guest.appliance.build`, `guest.appliance.recipe` and `guest.appliance.rootfs`.
"""

from __future__ import annotations

import fcntl
import gzip
import struct
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_vmstorage.config.buses import BUSES
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.guest.appliance import build, debian
from pytest_vmstorage.guest.appliance.build import Appliance, ensure, load
from pytest_vmstorage.guest.appliance.recipe import kernel_cmdline, recipe
from pytest_vmstorage.host.shell import CommandResult

PVH_NOTE = struct.pack("<III", 4, 8, 18) + b"Xen\0"
KERNEL = b"\x7fELF kernel" + PVH_NOTE


def bzimage() -> bytes:
    """A kernel image of 1.5 KiB."""
    packed = gzip.compress(KERNEL)
    image = bytearray(1024)
    image[0x1F1] = 1
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, 0x020F)
    struct.pack_into("<II", image, 0x248, 0, len(packed))
    return bytes(image) + packed


class Debian:
    """A shell on which mmdebstrap and mkfs.erofs do a small part of their work; all else just succeeds."""

    def __init__(self, missing: str = "", failing: str = "") -> None:
        self.missing = missing
        self.failing = failing
        self.calls: list[tuple[str, ...]] = []

    def run(self, argv: Sequence[str], *, timeout_s: float | None = None, stdin: bytes | None = None) -> CommandResult:
        """Do what argv[0] does."""
        self.calls.append(tuple(argv))
        out = f"missing {self.missing}\n" if argv[0] == "sh" and self.missing else ""
        if argv[0] == self.failing:
            return CommandResult(argv=tuple(argv), returncode=25, stdout="", stderr="E: no archive", seconds=0)
        if argv[0] == "mmdebstrap":
            self._tree(Path(argv[-2]))
        if argv[0] == "mkfs.erofs":
            Path(argv[-2]).write_bytes(b"image of the root")
        return CommandResult(argv=tuple(argv), returncode=0, stdout=out, stderr="", seconds=0)

    def put(self, source: Path, target: str) -> None:
        """Never used here."""
        raise AssertionError(target)

    def read(self, path: str) -> str:
        """Never used here either."""
        raise AssertionError(path)

    def builds(self) -> int:
        """How often packages were downloaded."""
        return sum(argv[0] == "mmdebstrap" for argv in self.calls)

    @staticmethod
    def _tree(tree: Path) -> None:
        modules = tree / "usr/lib/modules/6.1.0-1-amd64/kernel"
        for folder in (tree / "boot", tree / "usr/bin", tree / "usr/sbin", tree / "usr/share/doc", modules):
            folder.mkdir(parents=True)
        (tree / "boot/vmlinuz-6.1.0-1-amd64").write_bytes(bzimage())
        (tree / "usr/bin/busybox").write_bytes(b"busybox")
        (modules / "virtio_blk.ko").write_bytes(b"\x7fELF\0depends=\0")
        (tree / "downloaded-packages").write_text("fio_3.33-3_amd64.deb\nqemu-guest-agent_1%3a7.2_amd64.deb\npartial\n")


@pytest.fixture(autouse=True)
def _keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "keyring.gpg"
    file.touch()
    monkeypatch.setattr(debian, "KEYRING", file)


def folder_of(made: Appliance) -> Path:
    """Where an appliance lies."""
    return made.kernel.parent


def test_first_call_builds_and_second_reads_the_cache(tmp_path: Path) -> None:
    """A session starts with a build only once; the manifest knows versions and the kernel."""
    shell = Debian()
    first = ensure(shell, folder=tmp_path)
    assert ensure(shell, folder=tmp_path) == first
    assert shell.builds() == 1
    assert first.kernel.read_bytes() == KERNEL
    assert first.manifest.tools == {"fio": "3.33-3", "qemu-guest-agent": "1:7.2"}
    assert first.manifest.kernel_version == "6.1.0-1-amd64"


def test_nothing_but_the_appliance_and_its_lock_is_left(tmp_path: Path) -> None:
    """The extracted tree is hundreds of megabytes."""
    made = ensure(Debian(), folder=tmp_path)
    key = made.manifest.key
    assert sorted(path.name for path in (tmp_path / "appliance").iterdir()) == [key, f"{key}.lock"]
    assert sorted(path.name for path in folder_of(made).iterdir()) == [
        "initrd",
        "manifest.json",
        "root.erofs",
        "vmlinux",
    ]


def _flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "flipped-bit": (lambda folder: _flip(folder / "vmlinux"), "vmlinux has changed since"),
    "truncated": (lambda folder: (folder / "root.erofs").write_bytes(b"image"), "root.erofs has 5 bytes instead of 17"),
    "missing-file": (lambda folder: (folder / "initrd").unlink(), "initrd cannot be read"),
    "bad-json": (lambda folder: (folder / "manifest.json").write_text('{"key":'), "manifest.json cannot be read"),
    "no-manifest": (lambda folder: (folder / "manifest.json").unlink(), "manifest.json cannot be read"),
    "no-files": (
        lambda folder: (folder / "manifest.json").write_text(
            load(folder, folder.name).manifest.model_copy(update={"files": {}}).model_dump_json()
        ),
        "another recipe",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_noticed_said_and_repaired(tmp_path: Path, damage: str) -> None:
    """Whatever happened to the folder, the next run says it and builds a whole one."""
    harm, sentence = DAMAGES[damage]
    shell, said = Debian(), list[str]()
    good = ensure(shell, folder=tmp_path)
    harm(folder_of(good))
    with pytest.raises(ProvisionError, match=sentence):
        load(folder_of(good), good.manifest.key)
    again = ensure(shell, folder=tmp_path, say=said.append)
    assert shell.builds() == 2
    assert sentence in said[0]
    assert "removed and built again" in said[0]
    assert again.manifest.files == good.manifest.files


def test_failed_build_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    """Half a download must not be taken for an appliance by the next run."""
    with pytest.raises(ProvisionError, match="E: no archive"):
        ensure(Debian(failing="mmdebstrap"), folder=tmp_path)
    assert [path.suffix for path in (tmp_path / "appliance").iterdir()] == [".lock"]
    assert ensure(Debian(), folder=tmp_path)


def test_leftovers_of_a_killed_builder_are_removed(tmp_path: Path) -> None:
    """A builder that was killed cannot tidy up; the next one does."""
    made = ensure(Debian(), folder=tmp_path)
    left = tmp_path / "appliance" / f".{made.manifest.key}-killed" / "tree"
    left.mkdir(parents=True)
    (folder_of(made) / "initrd").unlink()
    ensure(Debian(), folder=tmp_path)
    assert not left.exists()


def test_missing_tools_are_named_with_their_packages(tmp_path: Path) -> None:
    """The user reads what to install."""
    with pytest.raises(ProvisionError, match=r"without mkfs\.erofs.*apt install erofs-utils"):
        ensure(Debian(missing="mkfs.erofs"), folder=tmp_path)


def test_second_builder_waits_and_takes_the_firsts_result(tmp_path: Path) -> None:
    """Two pytest processes on a fresh machine download once."""
    key = build.current_recipe().key
    (tmp_path / "appliance").mkdir()
    shell, made, waiting = Debian(), list[Appliance](), threading.Event()
    with (tmp_path / "appliance" / f"{key}.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(
            target=lambda: made.append(ensure(shell, folder=tmp_path, say=lambda _: waiting.set()))
        )
        second.start()
        assert waiting.wait(60)
        first = build.build(build.current_recipe(), tmp_path / "appliance" / key, Debian())
    second.join(60)
    assert made == [first]
    assert shell.builds() == 0


def test_cache_that_cannot_be_written_says_what_to_set(tmp_path: Path) -> None:
    """For instance a home folder that is a file, or read-only."""
    (tmp_path / "file").touch()
    with pytest.raises(ProvisionError, match="Set VMSTORAGE_CACHE"):
        ensure(Debian(), folder=tmp_path / "file")


def test_key_changes_with_the_recipe() -> None:
    """Another suite, package or script is another folder; the same recipe is the same."""
    one = recipe("bookworm")
    others: list[dict[str, object]] = [
        {"suite": "trixie"},
        {"packages": ("fio",)},
        {"guest_init": "#!/bin/sh\n"},
        {"schema_number": 99},
    ]
    keys = {one.key, recipe("bookworm").key, *(one.model_copy(update=other).key for other in others)}
    assert len(keys) == 1 + len(others)


def test_scripts_of_the_recipe_are_filled_in() -> None:
    """The initrd mounts the format the root really has."""
    made = recipe("bookworm")
    assert "mount -t erofs" in made.initrd_init
    assert "@" not in made.initrd_init
    assert "vmstorage: agent started" in made.guest_init


def test_every_module_of_a_bus_is_in_the_appliance() -> None:
    """Otherwise the disk under test would never appear in the guest."""
    assert {name for bus in BUSES.values() for name in bus.modules} <= set(recipe("bookworm").modules)


def test_command_line_names_the_modules() -> None:
    """The guest's init splits them at commas."""
    assert kernel_cmdline(("ahci", "sd_mod"), is_emulated=False).endswith(" vmstorage.modules=ahci,sd_mod")
    assert kernel_cmdline(is_emulated=True).startswith("console=ttyS0 quiet loglevel=5 panic=-1 ")


def test_an_emulated_guest_has_no_random_addresses_and_a_real_one_has() -> None:
    """They cost an emulated CPU most of what a process takes, and are as usual where a figure is a statement."""
    assert "norandmaps" in kernel_cmdline(is_emulated=True).split()
    assert "norandmaps" not in kernel_cmdline(is_emulated=False).split()


def test_a_sweep_takes_half_made_appliances_of_every_recipe(tmp_path: Path) -> None:
    """Also of one that nobody builds any more; one that is being built stays, and finished ones do."""
    cache = tmp_path / "appliance"
    for key in ("aaa", "bbb", "ccc"):
        (cache / f".{key}-x1" / "tree").mkdir(parents=True)
        (cache / key).mkdir()
        (cache / f"{key}.lock").touch()
    with (cache / "bbb.lock").open("ab") as building:
        fcntl.flock(building, fcntl.LOCK_EX)
        said = build.sweep(folder=tmp_path, look_only=True)
        assert said == [f"half-made guest appliance {cache}/.{key}-x1" for key in ("aaa", "ccc")]
        assert (cache / ".aaa-x1").exists()
        assert build.sweep(folder=tmp_path) == said
        assert {path.name for path in cache.glob(".*")} == {".bbb-x1"}
    assert {path.name for path in cache.iterdir() if path.is_dir()} == {".bbb-x1", "aaa", "bbb", "ccc"}
