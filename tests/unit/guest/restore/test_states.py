"""Saved guests in a folder: named by what they depend on, checked, copied, and kept within a limit."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import get_args

import pytest
from page_cache import ON_DISK, cached_bytes

from pytest_vmstorage.config.buses import Cache
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ProvisionError
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.guest.restore.states import (
    KEPT_BYTES,
    SaveImage,
    States,
    is_meant_for,
    is_restorable,
    remove_states,
)
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.units import format_about

ROOT = Path(__file__).parents[4]

HEAD = SaveImage(xml="<domain/>", cookie=b"<cookie/>\0", room=4096)
STREAM = b"QEVM" * 300_000
FILE = HEAD.with_xml(HEAD.xml) + STREAM


def spec(**fields: object) -> GuestSpec:
    """A guest of a cell with those fields."""
    config = StorageConfig.model_validate(fields)
    return GuestSpec(
        name="vms-r-1",
        uuid=str(uuid.uuid4()),
        config=config,
        vcpus=config.vcpus,
        memory_bytes=config.memory,
        disk="/srv/vms-r-1.raw",
        kernel="/k",
        initrd="/i",
        cmdline="quiet",
        root="/r",
        root_sha256="ab" * 32,
        console="/srv/console",
        accel="kvm",
        emulator="/usr/bin/env",
    )


def states(folder: Path, own: str = "run", *, boot_id: str = "b1", kept_bytes: int = 2**30) -> States:
    """The states in a folder, as one run has them."""
    (folder / own).mkdir(exist_ok=True)
    conditions = {"cpu": "one"}
    return States(
        LocalShell(), str(folder / "kept"), str(folder / own), boot_id=boot_id, conditions=conditions,
        kept_bytes=kept_bytes,
    )  # fmt: skip


def saved(folder: Path, of: States, name: str) -> None:
    """Have a guest been saved and kept."""
    Path(of.path(name)).write_bytes(FILE)
    of.keep(name)


def names(folder: Path) -> list[str]:
    """All that is kept."""
    return sorted(path.name for path in (folder / "kept").iterdir() if path.suffix != ".sum")


@pytest.mark.parametrize(
    "fields",
    [
        {"format": "qcow2"},
        {"cache": "directsync"},
        {"size": "4G"},
        {"io": "native"},
        {"discard": "unmap"},
        {"total_iops_sec": 100},
        {"backing": "lvm:vg0"},
        {"format": "qcow2", "encryption": "luks"},
    ],
)
def test_what_only_the_host_knows_needs_no_other_state(tmp_path: Path, fields: dict[str, object]) -> None:
    """One saved guest is enough for all formats, cache modes and sizes."""
    of = states(tmp_path)
    assert of.name(spec(**fields)) == of.name(spec())


@pytest.mark.parametrize(
    "fields",
    [{"bus": "virtio-scsi"}, {"memory": "1G"}, {"vcpus": 2}, {"machine": "pc"}, {"queues": 2}, {"iothread": True}],
)
def test_what_the_guest_has_needs_a_state_of_its_own(tmp_path: Path, fields: dict[str, object]) -> None:
    """Its bus, memory, processors, machine and queues."""
    of = states(tmp_path)
    assert of.name(spec(**fields)) != of.name(spec())


def test_a_state_is_bound_to_where_it_was_made(tmp_path: Path) -> None:
    """Host, its boot, accelerator, QEMU, kernel, appliance; for ATA, whose disks are saved, to the size too."""
    of, one = states(tmp_path), spec()
    others = [
        states(tmp_path, boot_id="b2").name(one),
        States(LocalShell(), "k", "o", boot_id="b1", conditions={"cpu": "another"}).name(one),
        of.name(one.model_copy(update={"accel": "tcg"})),
        of.name(one.model_copy(update={"emulator": "/usr/bin/id"})),
        of.name(one.model_copy(update={"kernel": "/k2"})),
        of.name(one.model_copy(update={"root_sha256": "cd" * 32})),
    ]
    assert len({of.name(one), *others}) == 7
    ata = [of.name(spec(bus="sata", **more)) for more in ({}, {"size": "4G"})]
    assert len(set(ata)) == 2
    assert of.name(spec(bus="sata", format="qcow2")) == ata[0]
    # what its guest sees of these is one write cache
    assert {of.name(spec(bus="sata", cache=cache)) for cache in ("none", "writeback", "unsafe")} == {ata[0]}


def test_names_of_two_guests_of_a_kind_are_the_same(tmp_path: Path) -> None:
    """Whatever they are called, and wherever their files lie."""
    update = {"name": "n", "disk": "/d", "console": "/c", "genid": None}
    of = states(tmp_path)
    assert of.name(spec().model_copy(update=update)) == of.name(spec())


def test_a_run_has_its_own_copy_and_writes_its_beginning(tmp_path: Path) -> None:
    """What is kept stays as it was saved."""
    of = states(tmp_path)
    name = of.name(spec())
    assert of.take(name) is None
    saved(tmp_path, of := states(tmp_path), name)
    state = states(tmp_path, "other").take(name)
    assert state is not None
    of.write_head(state, "<domain><name>x</name></domain>")
    data = Path(state.path).read_bytes()
    assert data == HEAD.with_xml("<domain><name>x</name></domain>") + STREAM
    assert (tmp_path / "kept" / name).read_bytes() == FILE
    with pytest.raises(ProvisionError, match="does not fit"):
        of.write_head(state, "x" * 5000)


def test_a_runs_copy_stays_in_the_page_cache_until_it_is_dropped_or_the_run_ends() -> None:
    """Caches are dropped before each round, and each pair of guests would read theirs from the disk."""
    with tempfile.TemporaryDirectory(dir=ON_DISK) as name:
        folder = Path(name)
        of = states(folder)
        state = of.name(spec())
        saved(folder, of, state)
        first = cached_bytes(Path(of.path(state)))
        other = states(folder, "other")
        assert other.take(state) is not None
        pages = [first, cached_bytes(Path(other.path(state)))]
        assert min(pages) >= len(FILE), pages
        # its file goes, and another name of it is still there
        removed = folder / "removed"
        os.link(other.path(state), removed)
        other.drop(state)
        assert cached_bytes(removed) == 0
        of.close()
        assert cached_bytes(Path(of.path(state))) == 0


@pytest.mark.parametrize(
    "damage",
    # named here: pytest before 9 takes the bytes themselves for a name, which is too long for its environment
    [
        pytest.param(b"", id="empty"),
        pytest.param(FILE[:-1], id="short"),
        pytest.param(FILE[:5000] + b"x" + FILE[5001:], id="another byte"),
        pytest.param(b"another" + FILE, id="another file"),
    ],
)
def test_what_is_damaged_is_removed(tmp_path: Path, damage: bytes) -> None:
    """Nobody restores it, and the next one is made in its place."""
    of = states(tmp_path)
    name = of.name(spec())
    saved(tmp_path, of, name)
    (tmp_path / "kept" / name).write_bytes(damage)
    assert states(tmp_path, "other").take(name) is None
    assert names(tmp_path) == []
    assert not list((tmp_path / "other").iterdir())


def test_a_copy_that_fails_is_not_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full: what is kept is whole, and the run's own copy is not."""
    of = states(tmp_path)
    name = of.name(spec())
    saved(tmp_path, of, name)
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "cp"
    stub.write_text('#!/bin/sh\nfor last; do :; done\nhead -c 10000 "$4" >"$last"\nexit 1\n')
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    other = states(tmp_path, "other")
    assert other.take(name) is None
    assert not Path(other.path(name)).exists()
    assert names(tmp_path) == [name]
    monkeypatch.undo()
    assert states(tmp_path, "third").take(name) is not None


def test_what_was_not_saved_is_not_kept(tmp_path: Path) -> None:
    """A file that is no saved guest, or none at all."""
    of = states(tmp_path)
    with pytest.raises(ProvisionError, match="is not what libvirt saves a guest in"):
        of.keep("state-1")
    Path(of.path("state-1")).write_bytes(b"LibvirtQemudPart" + FILE[16:])
    with pytest.raises(ProvisionError, match="is not what libvirt saves a guest in"):
        of.keep("state-1")
    assert not (tmp_path / "kept").exists()


def test_the_oldest_go_where_there_is_too_much(tmp_path: Path) -> None:
    """Within a limit in bytes; those of another boot of the host go in any case."""
    of = states(tmp_path, kept_bytes=3 * len(FILE) - 1)
    kept = [of.name(spec(vcpus=count)) for count in (1, 2, 3, 4)]
    for number, name in enumerate(kept):
        saved(tmp_path, of, name)
        os.utime(tmp_path / "kept" / name, (number, number))
    assert names(tmp_path) == sorted(kept[2:])
    # a run that was killed as it kept one; there is never another at it, for the host is leased
    (tmp_path / "kept" / f".{kept[0]}.new").write_bytes(b"half")
    later = states(tmp_path, boot_id="b2")
    saved(tmp_path, later, later.name(spec()))
    name = later.name(spec())
    assert {path.name for path in (tmp_path / "kept").iterdir()} == {name, f"{name}.sum"}


@pytest.mark.parametrize("page", ["README.md", "docs/explanation/clean-up.md", "docs/explanation/restored-guests.md"])
def test_documents_name_the_limit(page: str) -> None:
    """The limit in force for all saved guests, which lie in a user's home."""
    assert f"{format_about(KEPT_BYTES)} at most" in (ROOT / page).read_text()


def test_two_are_kept_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes what is half kept for a killed run's, and removes it."""
    of = states(tmp_path)
    one, other = (of.name(spec(vcpus=count)) for count in (1, 2))
    (tmp_path / "bin").mkdir()
    stub = tmp_path / "bin" / "b2sum"
    # whoever is first waits in the middle until the other one is as far, or may be waited for no longer
    wait = f"for _ in 1 2 3 4 5; do [ -e {tmp_path}/second ] || sleep 0.1; done"
    stub.write_text(
        f"#!/bin/sh\nif mkdir {tmp_path}/first 2>/dev/null; then {wait}; else touch {tmp_path}/second; fi\n"
        f'exec {shutil.which("b2sum")} "$@"\n'
    )
    stub.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    with ThreadPoolExecutor(2) as workers:
        first = workers.submit(saved, tmp_path, of, one)
        while not (tmp_path / "first").exists() and not first.done():
            time.sleep(0.001)
        saved(tmp_path, of, other)
        first.result(60)
    assert names(tmp_path) == sorted((one, other))
    monkeypatch.undo()
    assert all(states(tmp_path, "other").take(name) is not None for name in (one, other))


def test_all_are_told_and_removed(tmp_path: Path) -> None:
    """As `vmstorage reap` does; a folder that is not there has none."""
    folder = str(tmp_path / "kept")
    assert remove_states(LocalShell(), folder) == 0
    of = states(tmp_path)
    saved(tmp_path, of, of.name(spec()))
    saved(tmp_path, of, of.name(spec(vcpus=2)))
    assert remove_states(LocalShell(), folder, look_only=True) == 2
    assert len(names(tmp_path)) == 2
    assert remove_states(LocalShell(), folder) == 2
    assert not (tmp_path / "kept").exists()


def test_what_cannot_be_restored_is_not(tmp_path: Path) -> None:
    """NVMe, which QEMU does not save, a disk without storage, and ATA disks whose write cache QEMU would turn on."""
    assert is_restorable(spec())
    for bus, cache in itertools.product(("sata", "ide", "virtio-blk"), get_args(Cache)):
        is_kept = bus == "virtio-blk" or cache in ("none", "writeback", "unsafe")
        assert is_restorable(spec(bus=bus, cache=cache)) is is_kept
        assert is_meant_for(StorageConfig(bus=bus, cache=cache), None, "tcg") is is_kept
    assert not is_restorable(spec(bus="nvme"))
    assert not is_restorable(spec(backing="null"))
    assert not is_restorable(spec().model_copy(update={"config": None}))
