"""A small cloud image for tests: Debian with its cloud kernel, boot loader, cloud-init, guest agent, sshd and fio.

Built once from the Debian archive, as root, and kept in the plugin's cache under a name made of how it is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from pytest_vmstorage.guest.appliance import debian
from pytest_vmstorage.host.folders import cache_folder

SUITE = "bookworm"
SIZE = "2G"
PACKAGES = (
    *("systemd-sysv", "udev", "dbus", "kmod", "procps", "linux-image-cloud-amd64", "initramfs-tools", "extlinux"),
    *("cloud-init", "qemu-guest-agent", "openssh-server", "iproute2", "fio", "e2fsprogs", "util-linux"),
)
_LOADER = """DEFAULT linux
PROMPT 0
SERIAL 0 115200
LABEL linux
 KERNEL /boot/vmlinuz
 INITRD /boot/initrd.img
 APPEND root=LABEL=root ro console=ttyS0 net.ifnames=0
"""
_HOOKS = (
    'echo "LABEL=root / ext4 defaults 0 1" >"$1/etc/fstab"',
    'mkdir "$1/boot/extlinux" && printf "%s" "$LOADER" >"$1/boot/extlinux/extlinux.conf"',
    'cp "$1"/boot/vmlinuz-* "$1/boot/vmlinuz" && cp "$1"/boot/initrd.img-* "$1/boot/initrd.img"',
    'rm -rf "$1"/var/cache/apt/archives/*.deb "$1/usr/share/doc" "$1/usr/share/man" "$1/usr/share/locale"',
    # as Debian's own cloud images have it
    'chroot "$1" systemctl enable systemd-networkd.service',
    # it looks for LVM snapshots to remove, of which there are none, while cloud-init needs the emulated processor
    'chroot "$1" systemctl mask e2scrub_reap.service',
    # as cloud images have them: none of their own, so that two guests share neither
    'rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/machine-id" && touch "$1/etc/machine-id"',
)
# the loader reads ext4 without these, and needs no partition: the firmware starts the file system's own boot sector
_MKFS = ("mkfs.ext4", "-q", "-L", "root", "-O", "^64bit,^metadata_csum,^orphan_file", "-d")
MINUTES = 15


def cloud_image() -> Path:
    """The image's path; beside it lies its checksum, as IMAGE.sha256. Needs root, mmdebstrap and loop devices."""
    folder = cache_folder() / "test-images"
    folder.mkdir(parents=True, exist_ok=True)
    text = repr((SUITE, SIZE, PACKAGES, _LOADER, _HOOKS, _MKFS))
    image = folder / f"cloud-{hashlib.sha256(text.encode()).hexdigest()[:16]}.qcow2"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not image.with_name(f"{image.name}.sha256").is_file():
            with tempfile.TemporaryDirectory(prefix="vmstorage-cloud-", dir="/var/tmp") as scratch:
                _build(Path(scratch), image)
    return image


def _build(scratch: Path, image: Path) -> None:
    tree, raw = scratch / "tree", scratch / "raw"
    hooks = [f"--customize-hook={hook}" for hook in _HOOKS]
    sources = "".join(f"{source.line()}\n" for source in debian.debian_sources(debian.host_sources(), SUITE))
    argv = ["mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--architectures=amd64"]
    argv += ["--aptopt=APT::Install-Recommends false", "--aptopt=Acquire::Retries 3"]
    argv += [f"--include={','.join(PACKAGES)}", *hooks, SUITE, str(tree), "-"]
    _run(argv, stdin=sources, environ={"LOADER": _LOADER})
    _run(["truncate", "-s", SIZE, str(raw)])
    _run([*_MKFS, str(tree), str(raw)])
    shutil.rmtree(tree)
    _install_loader(scratch / "mounted", raw)
    draft = scratch / "image"
    _run(["qemu-img", "convert", "-c", "-f", "raw", "-O", "qcow2", str(raw), str(draft)])
    shutil.copyfile(draft, image)
    with image.open("rb") as stream:
        found = hashlib.file_digest(stream, "sha256").hexdigest()
    # last, for it is what says that the image is whole
    image.with_name(f"{image.name}.sha256").write_text(f"{found}  {image.name}\n")
    for old in image.parent.glob("cloud-*"):
        if not old.name.startswith(image.name):
            old.unlink()


def _install_loader(mounted: Path, raw: Path) -> None:
    """Let the image's own loader write itself into the file system and its boot sector."""
    mounted.mkdir()
    with ExitStack() as undo:
        for what, where, options in (
            (str(raw), mounted, ["-o", "loop"]),
            ("/dev", mounted / "dev", ["--bind"]),
            ("/proc", mounted / "proc", ["--bind"]),
            ("/sys", mounted / "sys", ["--bind"]),
        ):
            _run(["mount", *options, what, str(where)])
            undo.callback(_run, ["umount", str(where)])
        _run(["chroot", str(mounted), "extlinux", "--install", "/boot/extlinux"])


def _run(argv: list[str], stdin: str = "", environ: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        argv,
        input=stdin.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=MINUTES * 60,
        check=False,
        env={**os.environ, **(environ or {})},
    )
    if done.returncode:
        raise RuntimeError(f"{argv[0]} failed: {done.stdout.decode(errors='replace')[-3000:]}")
