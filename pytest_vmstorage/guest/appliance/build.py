"""The guest appliance: kernel, initrd and read-only root in a folder named by their recipe.

It is built once and verified at each load. The folder appears by one rename, so it is whole or not there; what
happens to it later is noticed by SHA-256.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_vmstorage.errors import ProvisionError, UnsupportedError
from pytest_vmstorage.guest.appliance import debian, rootfs
from pytest_vmstorage.guest.appliance.initrd import has_pvh_entry, vmlinux
from pytest_vmstorage.guest.appliance.recipe import ROOT_FORMAT, SCHEMA, TOOLS, Recipe, recipe
from pytest_vmstorage.host.folders import cache_folder
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.progress import Progress, silent

_KERNEL: Final = "vmlinux"
_INITRD: Final = "initrd"
_ROOT: Final = f"root.{ROOT_FORMAT}"
_MANIFEST: Final = "manifest.json"
_BUILD_TOOLS: Final = {"mmdebstrap": "mmdebstrap", "dpkg-deb": "dpkg", "apt-get": "apt", "mkfs.erofs": "erofs-utils"}


class FileRecord(BaseModel):
    """The expected `size` in bytes and SHA-256 in hexadecimal of a file of the appliance."""

    model_config = ConfigDict(frozen=True)

    sha256: str
    size: int


class Manifest(BaseModel):
    """The identity of a built appliance and the versions in it; the saved results quote it."""

    model_config = ConfigDict(frozen=True)

    schema_number: int
    key: str
    suite: str
    arch: str
    kernel_version: str
    root_format: Literal["erofs", "squashfs"]
    files: Mapping[str, FileRecord]
    tools: Mapping[str, str]
    built_at: datetime


class Appliance(BaseModel):
    """A verified appliance: absolute paths of its three files, and its manifest."""

    model_config = ConfigDict(frozen=True)

    kernel: Path
    initrd: Path
    root: Path
    root_format: Literal["erofs", "squashfs"]
    manifest: Manifest


def current_recipe(os_release: Path = Path("/etc/os-release")) -> Recipe:
    """The recipe this version of the plugin would build on this machine."""
    text = os_release.read_text() if os_release.is_file() else ""
    return recipe(debian.host_suite(text))


def ensure(shell: Shell, *, folder: Path | None = None, say: Progress = silent) -> Appliance:
    """The appliance from the cache, or built into it; `shell` is this machine's, `say` reports slow steps.

    Several processes may call it at once: one builds, the others wait for it. Raises ProvisionError.
    """
    wanted = current_recipe()
    place = (folder or cache_folder()) / "appliance" / wanted.key
    try:
        return load(place, wanted.key)
    except ProvisionError:
        # Absent, damaged, or just being renamed by another process: only the holder of the lock can tell.
        pass
    with _locked(place, say):
        return _cached(place, wanted.key, say) or build(wanted, place, shell, say)


def discard(*, folder: Path | None = None) -> None:
    """Remove this recipe's appliance from the cache, so that `ensure` builds it with today's packages."""
    place = (folder or cache_folder()) / "appliance" / current_recipe().key
    with _locked(place, silent):
        if place.exists():
            with _scratch(place) as scratch:
                place.rename(scratch / "discarded")


def load(folder: Path, key: str) -> Appliance:
    """The appliance in `folder`, whose files must agree with the manifest; raises ProvisionError."""
    try:
        manifest = Manifest.model_validate_json((folder / _MANIFEST).read_bytes())
    except (OSError, ValidationError) as why:
        raise _damaged(folder, f"{_MANIFEST} cannot be read ({type(why).__name__})") from why
    if manifest.key != key or set(manifest.files) != {_KERNEL, _INITRD, _ROOT}:
        raise _damaged(folder, "its manifest belongs to another recipe")
    for name, record in manifest.files.items():
        _verify(folder / name, record)
    paths = {"kernel": folder / _KERNEL, "initrd": folder / _INITRD, "root": folder / _ROOT}
    return Appliance(**paths, root_format=manifest.root_format, manifest=manifest)


def build(wanted: Recipe, folder: Path, shell: Shell, say: Progress = silent) -> Appliance:
    """Build the appliance beside `folder`, which must not exist, and rename it; the caller holds the lock.

    Needs the Debian archive, about 1 GB of room for half a minute, and no root rights. Raises ProvisionError.
    """
    if platform.machine() != "x86_64":
        raise UnsupportedError(f"The guest appliance is built for x86_64 only, not {platform.machine()}.", code="VM520")
    debian.require(_BUILD_TOOLS, shell)
    if not debian.KEYRING.is_file():
        raise ProvisionError(f"{debian.KEYRING} is missing.", hint="apt install debian-archive-keyring", code="VM521")
    with _scratch(folder) as scratch:
        made = scratch / "made"
        made.mkdir()
        manifest = _make(wanted, made, scratch / "tree", shell, say)
        (made / _MANIFEST).write_text(manifest.model_dump_json(indent=1))
        made.rename(folder)
    say("The guest appliance is built.")
    return load(folder, wanted.key)


def _make(wanted: Recipe, made: Path, tree: Path, shell: Shell, say: Progress) -> Manifest:
    say("Building the guest appliance: downloading Debian packages (once, about half a minute) ...")
    sources = debian.debian_sources(debian.host_sources(), wanted.suite)
    versions = debian.unpack(wanted.packages, sources, wanted.suite, tree, shell, root=os.geteuid() == 0)
    say("Building the guest appliance: kernel, initrd and root ...")
    release = rootfs.kernel_release(tree)
    kernel = vmlinux((tree / f"boot/vmlinuz-{release}").read_bytes(), lambda packed: _unzstd(packed, tree, shell))
    if not has_pvh_entry(kernel):
        raise ProvisionError(
            f"Debian's kernel {release} has no PVH entry, so QEMU cannot start it uncompressed.", code="VM522"
        )
    (made / _KERNEL).write_bytes(kernel)
    modules = rootfs.read_modules(tree, wanted.modules)
    (made / _INITRD).write_bytes(rootfs.initrd(tree, modules, wanted))
    rootfs.strip(tree, modules, wanted)
    rootfs.image(tree, made / _ROOT, shell)
    return Manifest(
        schema_number=SCHEMA,
        key=wanted.key,
        suite=wanted.suite,
        arch=wanted.arch,
        kernel_version=release,
        root_format=ROOT_FORMAT,
        files={name: _record(made / name) for name in (_KERNEL, _INITRD, _ROOT)},
        tools={name: versions[name] for name in TOOLS if name in versions},
        built_at=datetime.now(UTC),
    )


def _unzstd(packed: bytes, tree: Path, shell: Shell) -> bytes:
    source, target = tree.with_name("kernel.zst"), tree.with_name("kernel")
    source.write_bytes(packed)
    done = shell.run(["zstd", "-d", "-q", "-f", str(source), "-o", str(target)])
    check(done, "decompressing the guest's kernel", hint="apt install zstd")
    return target.read_bytes()


def _cached(place: Path, key: str, say: Progress) -> Appliance | None:
    """The appliance in `place`; a damaged one is removed. The caller holds the lock."""
    if not place.exists():
        return None
    try:
        return load(place, key)
    except ProvisionError as why:
        say(f"{why} It is removed and built again.")
    # Renamed first, so that no process finds a half-removed folder.
    with _scratch(place) as scratch:
        place.rename(scratch / "damaged")
    return None


def _verify(file: Path, wanted: FileRecord) -> None:
    try:
        found = _record(file)
    except OSError as why:
        raise _damaged(file.parent, f"{file.name} cannot be read ({why.strerror})") from why
    if found.size != wanted.size:
        raise _damaged(file.parent, f"{file.name} has {found.size} bytes instead of {wanted.size}")
    if found.sha256 != wanted.sha256:
        raise _damaged(file.parent, f"{file.name} has changed since it was built")


def _damaged(folder: Path, what: str) -> ProvisionError:
    return ProvisionError(f"The guest appliance in {folder} is damaged: {what}.", code="VM523")


def _record(file: Path) -> FileRecord:
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            size += len(block)
    return FileRecord(sha256=digest.hexdigest(), size=size)


def sweep(*, folder: Path | None = None, look_only: bool = False) -> list[str]:
    """Remove the half-made appliances of killed processes, of any recipe; returns a phrase for each."""
    said = []
    for lock in sorted(((folder or cache_folder()) / "appliance").glob("*.lock")):
        with lock.open("ab") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                # a live process builds it
                continue
            for left in lock.parent.glob(f".{lock.stem}-*"):
                said.append(f"half-made guest appliance {left}")
                if not look_only:
                    shutil.rmtree(left, ignore_errors=True)
    return said


@contextmanager
def _scratch(place: Path) -> Iterator[Path]:
    """A temporary folder next to `place`; those of killed processes are removed first."""
    prefix = f".{place.name}-"
    for left in place.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=prefix, dir=place.parent))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def _locked(place: Path, say: Progress) -> Iterator[None]:
    """Hold the lock of this recipe; the kernel drops it with its owner, so there is no stale one."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        stream = place.with_suffix(".lock").open("ab")
    except OSError as why:
        hint = "Set VMSTORAGE_CACHE to a folder of yours."
        raise ProvisionError(f"{place.parent} cannot be written: {why.strerror}.", hint=hint, code="VM524") from why
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process is building the guest appliance: waiting for it ...")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
