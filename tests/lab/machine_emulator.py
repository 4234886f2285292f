"""The emulator of the lab host that is a virtual machine: Debian's QEMU with one fault of its nested KVM mended.

Debian's own lets a guest of the machine's KVM stand still now and then, as later versions do; the patch says why. It is
built once, as root, from Debian's source, with the devices of that machine alone, and kept in the plugin's cache under
a name that is made of all that decides its content but the archive's version of that day.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import time
from pathlib import Path

import debian_tree

from pytest_vmstorage.guest.appliance import build
from pytest_vmstorage.host.folders import cache_folder
from pytest_vmstorage.progress import Progress, silent

HERE = Path(__file__).parent
PATCH = HERE / "svm-injected-once.patch"

_PACKAGES = (
    *("gcc", "libc6-dev", "make", "ninja-build", "meson", "pkg-config", "python3", "perl"),
    *("dpkg-dev", "xz-utils", "bzip2", "patch"),
    *("libglib2.0-dev", "libpixman-1-dev", "libslirp-dev", "libfdt-dev", "zlib1g-dev"),
)
_DEVICES = ("Q35", "HPET", "VIRTIO_PCI", "VIRTIO_BLK", "VIRTIO_NET", "VIRTIO_RNG")
_BUILD = rf"""
set -eu
cd /root
sed 's/^deb /deb-src /' /etc/apt/sources.list >/etc/apt/sources.list.d/sources.list
apt-get -q update
apt-get -q source qemu
cd qemu-*/
patch --strip=1 --fuzz=0 </root/{PATCH.name}
printf 'CONFIG_%s=y\n' {" ".join(_DEVICES)} >configs/devices/x86_64-softmmu/labvm.mak
mkdir build
cd build
../configure --target-list=x86_64-softmmu --without-default-features --without-default-devices \
    --with-devices-x86_64=labvm --enable-tcg --enable-slirp --enable-fdt=system \
    --disable-tools --disable-docs --disable-debug-info --disable-werror
ninja qemu-system-x86_64
strip qemu-system-x86_64
"""


def machine_emulator(say: Progress = silent) -> Path:
    """The emulator out of the cache, or built into it; raises RuntimeError with the last lines of what failed."""
    place = cache_folder() / "labvm" / f"emulator-{_key()}"
    with build._locked(place, say):
        if not place.exists():
            _build(place, say)
    return place / "qemu-system-x86_64"


def _key() -> str:
    parts = (Path(__file__).read_text(), Path(debian_tree.__file__).read_text(), PATCH.read_text())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _build(place: Path, say: Progress) -> None:
    begin = time.monotonic()
    for left in place.parent.glob("emulator-*[!k]"):
        shutil.rmtree(left)
    say("Building labvm's emulator: QEMU from Debian's source (once, some minutes) ...")
    with build._scratch(place) as scratch:
        tree, made = scratch / "tree", scratch / "made"
        debian_tree.install(
            tree, _PACKAGES, hooks=(f"copy-in {PATCH} /root", f'chroot "$1" sh -c {shlex.quote(_BUILD)}')
        )
        made.mkdir()
        (built,) = tree.glob("root/qemu-*/build/qemu-system-x86_64")
        built.rename(made / built.name)
        made.rename(place)
    say(f"labvm's emulator is built, in {time.monotonic() - begin:.0f} s.")
