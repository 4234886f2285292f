"""The appliance on another machine: copied once, known by its checksums, and never booted from half of it."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.config.settings import Accel
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.guest import boot
from pytest_vmstorage.guest.appliance.build import Appliance, FileRecord, Manifest
from pytest_vmstorage.guest.boot import BootFiles, place_appliance
from pytest_vmstorage.host.shell import LocalShell

FILES = ("vmlinux", "initrd", "root.erofs")


def appliance(folder: Path, text: str = "") -> Appliance:
    """An appliance whose three files are a word each."""
    folder.mkdir(exist_ok=True)
    for name in FILES:
        (folder / name).write_text(name + text)
    return Appliance(
        kernel=folder / "vmlinux",
        initrd=folder / "initrd",
        root=folder / "root.erofs",
        root_format="erofs",
        manifest=Manifest(
            schema_number=1,
            key="the-recipe",
            suite="bookworm",
            arch="amd64",
            kernel_version="6.1",
            root_format="erofs",
            files={
                name: FileRecord(sha256=hashlib.sha256((name + text).encode()).hexdigest(), size=len(name + text))
                for name in FILES
            },
            tools={},
            built_at=datetime(2025, 1, 1, tzinfo=UTC),
        ),
    )


class Scene:
    """A lab host whose folder is here, and what is said."""

    def __init__(self, folder: Path) -> None:
        self.said: list[str] = []
        self.folder = folder / "host"
        self.draft = self.folder / "run-1" / "appliance"
        self.host = LabHost(name="lab01", uri="qemu+ssh://lab01/system", ssh="lab01", folder=str(self.folder))

    def place(self, made: Appliance, shell: LocalShell | None = None) -> BootFiles:
        """Place it, as at the begin of a run."""
        return place_appliance(
            self.host, shell or LocalShell(), made, "/usr/bin/qemu", draft=str(self.draft), say=self.said.append
        )

    def copies(self) -> list[Path]:
        """What is kept."""
        return sorted(self.folder.glob("appliance-*"))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A host without any appliance."""
    return Scene(tmp_path)


def test_it_is_copied_once_and_kept(scene: Scene, tmp_path: Path) -> None:
    """The second run says nothing; anybody may read it, whatever this user's umask."""
    made = appliance(tmp_path / "made")
    files = scene.place(made)
    assert scene.said == ["copying the guest appliance to lab01 (23 B)"]
    assert Path(files.root).read_text() == "root.erofs"
    assert {oct(Path(path).stat().st_mode & 0o777) for path in (files.kernel, files.initrd, files.root)} == {"0o644"}
    assert scene.place(made) == files
    assert len(scene.said) == 1
    assert not scene.draft.exists()


def test_one_of_the_same_recipe_with_other_packages_is_another(scene: Scene, tmp_path: Path) -> None:
    """As after `vmstorage image --rebuild`."""
    first = scene.place(appliance(tmp_path / "made"))
    second = scene.place(appliance(tmp_path / "made", "2"))
    assert second.root != first.root
    assert Path(second.root).read_text() == "root.erofs2"
    assert len(scene.copies()) == 2


def test_a_damaged_copy_is_told_and_replaced(scene: Scene, tmp_path: Path) -> None:
    """A flipped bit, or a file that is gone."""
    made = appliance(tmp_path / "made")
    files = scene.place(made)
    Path(files.root).write_text("root.erofz")
    assert scene.place(made) == files
    assert scene.said[1:] == ["the guest appliance on lab01 is damaged", "copying the guest appliance to lab01 (23 B)"]
    assert Path(files.root).read_text() == "root.erofs"
    Path(files.kernel).unlink()
    assert Path(scene.place(made).kernel).exists()


class Lossy(LocalShell):
    """A way on which half of each file is lost."""

    def put(self, source: Path, target: str, *, moved: object = None) -> None:
        """Write half of it."""
        del moved
        Path(target).write_bytes(source.read_bytes()[:4])


def test_a_copy_that_went_wrong_is_never_kept(scene: Scene, tmp_path: Path) -> None:
    """By the sum of what arrived, not by the way's exit status."""
    with pytest.raises(ProvisionError, match=r"checking the appliance's copy on lab01 failed: .*did NOT match"):
        scene.place(appliance(tmp_path / "made"), Lossy())
    assert scene.copies() == []


def test_another_run_may_be_faster(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its copy is used where it is whole."""
    made = appliance(tmp_path / "made")
    files = scene.place(made)
    monkeypatch.setattr(boot, "_is_there", lambda *_: False)
    assert scene.place(made) == files
    Path(files.root).write_text("of a run that was killed")
    with pytest.raises(ProvisionError, match="keeping the appliance in "):
        scene.place(made)


def test_a_copy_that_lasts_says_how_far_it_is(scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every few seconds."""

    class Slow(LocalShell):
        def put(self, source: Path, target: str, *, moved: object = None) -> None:
            super().put(source, target)
            assert callable(moved)
            moved(source.stat().st_size)

    monkeypatch.setattr(boot, "PROGRESS_S", 0.0)
    scene.place(appliance(tmp_path / "made"), Slow())
    assert scene.said[1:] == ["copied 7 B of 23 B", "copied 13 B of 23 B", "copied 23 B of 23 B"]


def test_what_a_kernel_is_told_depends_on_bus_and_accelerator() -> None:
    """Only an emulated CPU is spared random addresses, and only a bus that needs a driver has it loaded."""
    files = BootFiles(emulator="/q", kernel="/k", initrd="/i", root="/r")
    lines = {accel: files.cmdline(StorageConfig(bus="sata"), accel).split() for accel in get_args(Accel)}
    assert {accel: "norandmaps" in words for accel, words in lines.items()} == {"kvm": False, "tcg": True}
    assert {words[-1] for words in lines.values()} == {"vmstorage.modules=ahci,sd_mod"}
    assert files.cmdline(None, "tcg").endswith(" vmstorage.modules=")
