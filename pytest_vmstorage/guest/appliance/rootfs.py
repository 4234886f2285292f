"""The appliance's root: a Debian tree stripped to what the workloads need, with our init, as an image."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final

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
)
from pytest_vmstorage.guest.appliance.recipe import Recipe
from pytest_vmstorage.host.shell import Shell, check

_DROP: Final = (
    *("boot", "dev", "etc/apt", "etc/init.d", "home", "media", "mnt", "opt", "root", "run", "srv", "tmp", "var"),
    *("proc", "sys", "usr/games", "usr/include", "usr/local", "usr/share", "usr/src", "downloaded-packages"),
    *("usr/bin/perl*", "usr/bin/python*", "usr/lib/python*", "usr/lib/klibc*", "usr/lib/locale", "usr/lib/modules"),
    *("usr/lib/systemd", "usr/lib/udev", "usr/lib/valgrind", "usr/lib/x86_64-linux-gnu/gconv"),
    *("usr/lib/x86_64-linux-gnu/perl*", "usr/lib/x86_64-linux-gnu/libperl*", "usr/sbin/init"),
)
_FOLDERS: Final = ("dev", "mnt", "proc", "root", "run", "sys", "tmp", "var/tmp", "usr/share")
_LINKS: Final = {
    # Static busybox starts faster than the dynamic originals, and no package script made these links.
    **{f"usr/sbin/{name}": "../bin/busybox" for name in ("modprobe", "insmod", "rmmod", "lsmod")},
    "usr/bin/awk": "gawk",
    "etc/mtab": "../proc/self/mounts",
}
_TMPFS: Final = ("run", "tmp", "var/tmp", "mnt", "root")
_FILES: Final = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ndisk:x:6:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/hostname": "vmstorage\n",
    "etc/fstab": "proc /proc proc defaults 0 0\n" + "".join(f"tmpfs /{d} tmpfs mode=1777 0 0\n" for d in _TMPFS),
    "etc/ld.so.conf": "/usr/lib/x86_64-linux-gnu\n",
}
_SHUTDOWN: Final = """#!/bin/busybox sh
# The guest agent calls `shutdown -P|-H|-r +0 message`; there is no init system to ask.
/bin/busybox sync
case " $* " in
*' -r '*) exec /bin/busybox reboot -f ;;
*) exec /bin/busybox poweroff -f ;;
esac
"""
_IMAGE_TIMEOUT_S: Final = 600.0


def kernel_release(tree: Path) -> str:
    """The release, such as 6.1.0-18-amd64, of the one kernel in an extracted tree."""
    releases = [file.name.removeprefix("vmlinuz-") for file in tree.glob("boot/vmlinuz-*")]
    if len(releases) != 1:
        raise ProvisionError(
            f"One kernel expected in the downloaded packages, found {releases or 'none'}.", code="VM522"
        )
    return releases[0]


def read_modules(tree: Path, wanted: tuple[str, ...]) -> dict[str, Module]:
    """`wanted` modules and their dependencies by name; modules missing in the tree are built into the kernel."""
    files = {module_name(file.name): file for file in (tree / "usr/lib/modules").rglob("*.ko*")}
    found: dict[str, Module] = {}
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name in files and name not in found:
            found[name] = module(files[name].name, files[name].read_bytes())
            waiting += found[name].needs
    return found


def initrd(tree: Path, modules: Mapping[str, Module], recipe: Recipe) -> bytes:
    """The initrd as bytes: busybox, our init and the modules that find the root and the agent's port."""
    order = load_order(recipe.boot_modules, modules)
    busybox = (tree / "usr/bin/busybox").read_bytes()
    return archive(
        [
            *(Entry(path=name, kind="folder", mode=0o755) for name in ("bin", "dev", "modules", "root", "sys")),
            # The kernel opens it for the first process, before devtmpfs can be mounted.
            Entry(path="dev/console", kind="node", mode=0o600, device=(5, 1)),
            Entry(path="bin/busybox", mode=0o755, data=busybox),
            Entry(path="init", mode=0o755, data=recipe.initrd_init.encode()),
            *(Entry(path=f"modules/{n:02}-{name}.ko", data=modules[name].data) for n, name in enumerate(order)),
        ]
    )


def strip(tree: Path, modules: Mapping[str, Module], recipe: Recipe) -> None:
    """Turn an extracted tree into the appliance's root, in place."""
    release = kernel_release(tree)
    for pattern in _DROP:
        for path in tree.glob(pattern):
            _remove(path)
    for name in _FOLDERS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    folder = f"usr/lib/modules/{release}"
    texts = {f"{folder}/modules.dep": dependency_file(modules), f"{folder}/modules.alias": alias_file(modules)}
    for name, text in {**_FILES, **texts}.items():
        _write(tree / name, text.encode())
    for found in modules.values():
        _write(tree / f"{folder}/kernel/{found.name}.ko", found.data)
    for name, target in _LINKS.items():
        _remove(tree / name)
        (tree / name).symlink_to(target)
    _write(tree / "usr/sbin/init", recipe.guest_init.encode(), mode=0o755)
    _write(tree / "usr/sbin/shutdown", _SHUTDOWN.encode(), mode=0o755)


def image(tree: Path, target: Path, shell: Shell) -> None:
    """Write `tree` as an lz4-compressed erofs file, all of it owned by root; raises ProvisionError."""
    options = ("-zlz4hc", "-C65536", "-x-1", "-T0", "-U00000000-0000-0000-0000-000000000000", "--all-root")
    done = shell.run(["mkfs.erofs", *options, str(target), str(tree)], timeout_s=_IMAGE_TIMEOUT_S)
    check(done, "writing the guest appliance's root", hint="Is the disk full? Is erofs-utils 1.5 or newer?")


def _write(file: Path, data: bytes, mode: int = 0o644) -> None:
    # Unlinked first: a package may have left a link to elsewhere, even out of the tree.
    _remove(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    file.chmod(mode)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
