"""The image of the lab host that is a virtual machine: Debian's generic kernel, LVM, OpenZFS, libvirt and QEMU.

It is built once, as root, and kept in the plugin's cache under a name that is made of all that decides its content but
the archive's versions of that day, which its manifest has. OpenZFS's modules are built natively in a tree of their own
that has headers and compiler, and are kept by themselves: another image with the same kernel takes them as they are.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import time
from importlib import resources
from pathlib import Path

import debian_tree
from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.guest.appliance import build, rootfs
from pytest_vmstorage.guest.appliance.initrd import vmlinux
from pytest_vmstorage.guest.appliance.recipe import Recipe
from pytest_vmstorage.host.folders import cache_folder
from pytest_vmstorage.progress import Progress, silent

HERE = Path(__file__).parent
SETUP = HERE / "machine_setup.sh"
ROOM = "3G"

_PACKAGES = (
    *("linux-image-amd64", "systemd-sysv", "udev", "dbus", "kmod", "iproute2", "procps", "busybox-static"),
    *("openssh-server", "libvirt-daemon-system", "libvirt-clients", "qemu-system-x86", "qemu-utils"),
    *("lvm2", "zfsutils-linux", "gdisk", "fio", "hdparm", "e2fsprogs", "xfsprogs"),
)
_TOLD = ("linux-image-amd64", "zfsutils-linux", "lvm2", "libvirt-daemon-system", "qemu-system-x86", "fio")
_BOOT_MODULES = ("crc32c_generic", "virtio_pci", "virtio_blk", "ext4")
_BUILD_MODULES = r"""
set -eu
version=$(basename /usr/src/zfs-*)
version=${version#zfs-}
module=/var/lib/dkms/zfs/$version/$1/x86_64/module
# the package's own script builds for the kernel that runs, and for others as it sees fit
ls $module/zfs.ko* >/dev/null 2>&1 || dkms build -m zfs -v "$version" -k "$1" || {
    tail -n 40 /var/lib/dkms/zfs/"$version"/build/make.log >&2
    exit 1
}
mkdir /made
cp $module/*.ko* /made/
"""


class MachineImage(BaseModel):
    """Paths of a built image's three files; `versions` of its packages, and for how long it was built, in seconds.

    `modules_s` is the part of that for OpenZFS's modules, 0 where they were kept from another image.
    """

    model_config = ConfigDict(frozen=True)

    kernel: Path
    initrd: Path
    root: Path
    release: str
    versions: dict[str, str]
    build_s: float = 0.0
    modules_s: float = 0.0


def machine_image(say: Progress = silent) -> MachineImage:
    """The image out of the cache, or built into it; raises RuntimeError with the last lines of what failed."""
    place = cache_folder() / "labvm" / f"image-{_key()}"
    with build._locked(place, say):
        if not place.exists():
            _build(place, say)
    return MachineImage.model_validate_json((place / "manifest.json").read_text())


def _key() -> str:
    # this file's own text as well: how it is built is part of what it is
    parts = (*(Path(file).read_text() for file in (__file__, debian_tree.__file__, SETUP)), _recipe().model_dump_json())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _recipe() -> Recipe:
    """What the initrd is made of: the appliance's own, but for the kind of root that it looks for."""
    script = (resources.files("pytest_vmstorage.guest.appliance") / "initrd_init.sh").read_text()
    return Recipe(
        suite=debian_tree.SUITE,
        boot_modules=_BOOT_MODULES,
        initrd_init=script.replace("@FORMAT@", "ext4"),
        guest_init="",
    )


def _build(place: Path, say: Progress) -> None:
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        raise RuntimeError("The image of labvm is built as root, on x86_64.")
    begin = time.monotonic()
    for left in place.parent.glob("image-*[!k]"):
        # of another version of this file: a gigabyte that nobody asks for any more
        shutil.rmtree(left)
    with build._scratch(place) as scratch:
        tree = scratch / "tree"
        say("Building labvm's image: Debian packages ...")
        debian_tree.install(tree, _PACKAGES)
        debian_tree.run(["sh", str(SETUP), str(tree)])
        modules_s = _add_zfs(tree, place.parent, say)
        say("Building labvm's image: kernel, initrd and root ...")
        image = _write(tree, scratch / "made", place).model_copy(
            update={"build_s": time.monotonic() - begin, "modules_s": modules_s}
        )
        (scratch / "made" / "manifest.json").write_text(image.model_dump_json(indent=1))
        (scratch / "made").rename(place)
    say(f"labvm's image is built, in {image.build_s:.0f} s, {modules_s:.0f} s of them for OpenZFS's modules.")


def _write(tree: Path, made: Path, place: Path) -> MachineImage:
    """Write kernel, initrd and root into the folder `made`, which is to be moved to `place`."""
    made.mkdir()
    release, versions = rootfs.kernel_release(tree), _versions(tree)
    (made / "vmlinux").write_bytes(vmlinux((tree / f"boot/vmlinuz-{release}").read_bytes(), _unzstd))
    drivers = rootfs.read_modules(tree, _BOOT_MODULES)
    (made / "initrd").write_bytes(rootfs.initrd(tree, drivers, _recipe()))
    for name in (f"vmlinuz-{release}", f"initrd.img-{release}"):
        (tree / "boot" / name).unlink(missing_ok=True)
    debian_tree.run(["mkfs.ext4", "-q", "-E", "lazy_itable_init=1", "-d", str(tree), str(made / "root.ext4"), ROOM])
    paths = {name: place / file for name, file in (("kernel", "vmlinux"), ("initrd", "initrd"), ("root", "root.ext4"))}
    return MachineImage(**paths, release=release, versions=versions)


def _add_zfs(tree: Path, cache: Path, say: Progress) -> float:
    """Put OpenZFS's modules for its kernel into the tree; for how long they were built, 0 where they were kept."""
    release = rootfs.kernel_release(tree)
    modules, seconds = _zfs_modules(release, cache, say)
    shutil.copytree(modules, tree / f"usr/lib/modules/{release}/updates", dirs_exist_ok=True)
    debian_tree.run(["chroot", str(tree), "depmod", release])
    return seconds


def _zfs_modules(release: str, cache: Path, say: Progress) -> tuple[Path, float]:
    """The folder with OpenZFS's modules for that kernel, and for how long they were built just now, in seconds."""
    key = hashlib.sha256(_BUILD_MODULES.encode()).hexdigest()[:16]
    place = cache / f"zfs-{release}-{key}"
    if place.exists():
        return place, 0.0
    begin = time.monotonic()
    say(f"Building labvm's image: OpenZFS's modules for {release} ...")
    with build._scratch(place) as scratch:
        tree = scratch / "tree"
        debian_tree.install(tree, (f"linux-headers-{release}", "zfs-dkms"))
        debian_tree.run(["chroot", str(tree), "sh", "-c", _BUILD_MODULES, "sh", release])
        (tree / "made").rename(place)
    return place, time.monotonic() - begin


def _versions(tree: Path) -> dict[str, str]:
    said = debian_tree.run(["chroot", str(tree), "dpkg-query", "-W", "-f", "${Package} ${Version}\n", *_TOLD])
    return dict(line.split() for line in said.splitlines())


def _unzstd(packed: bytes) -> bytes:
    return subprocess.run(["zstd", "-d", "-q"], input=packed, capture_output=True, check=True).stdout
