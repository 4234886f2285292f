"""The guest appliance's recipe: packages, modules and scripts, whose digest names the cached folder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib import resources
from typing import Final

from pydantic import BaseModel, ConfigDict

SCHEMA: Final = 1
"""Number to raise whenever the code makes another appliance of the same packages, modules and scripts."""

ROOT_FORMAT: Final = "erofs"

TOOLS: Final = (
    *("fio", "hdparm", "ioping", "postmark", "sqlite3", "nginx", "wrk"),
    *("e2fsprogs", "xfsprogs", "btrfs-progs"),
    *("qemu-guest-agent", "busybox-static", "bash", "coreutils", "tar", "util-linux"),
)
"""Debian packages whose versions the manifest keeps, because a figure may depend on them."""

_PACKAGES: Final = (
    *TOOLS,
    *("linux-image-amd64", "dash", "findutils", "gawk", "grep", "gzip", "libc-bin", "mount", "procps", "sed"),
)

BOOT_MODULES: Final = ("crc32c_generic", "virtio_pci", "virtio_blk", "virtio_console", ROOT_FORMAT)
"""Modules that the initrd loads to find the root and the agent's port."""

_MODULES: Final = (
    *BOOT_MODULES,
    *("virtio_scsi", "sd_mod", "sg", "ata_piix", "ahci", "ata_generic", "nvme", "vmw_pvscsi", "megaraid_sas"),
    *("mptspi", "mptsas", "sym53c8xx", "usb_storage", "uas", "xhci_pci", "ehci_pci", "uhci_hcd"),
    *("ext4", "xfs", "btrfs", "vfat", "nls_cp437", "nls_ascii", "nls_utf8", "overlay"),
    *(
        "loop",
        "null_blk",
        "brd",
        "dm_mod",
        "dm_snapshot",
        "bfq",
        "kyber_iosched",
        "mq_deadline",
        "virtio_balloon",
        "virtio_rng",
    ),
    # The crypto layer asks for these by an alias only while it runs, so no module names them as a need.
    *("crc32c_intel", "crct10dif_generic", "crct10dif_pclmul", "crc64_rocksoft_generic", "xxhash_generic"),
    *("blake2b_generic", "sha256_generic"),
)

# cryptomgr.notests: the ciphers' self-tests take an emulated CPU 0.2 s. no_timer_check: KVM guests skip it
# anyway. mitigations= and tsc= are left alone, for they change what is measured.
# loglevel: warnings too, among them a command that was lost, reach the console, where the host reads them.
_FLAGS: Final = ("console=ttyS0", "quiet", "loglevel=5", "panic=-1", "cryptomgr.notests", "no_timer_check")


# TCG translates a program's code for its addresses: with random ones it translates each process again, which is most of
# the time of a short process
_EMULATED: Final = ("norandmaps",)


def kernel_cmdline(modules: Sequence[str] = (), *, is_emulated: bool) -> str:
    """The kernel's command line; the guest loads `modules` and their dependencies before the agent starts."""
    emulated = _EMULATED if is_emulated else ()
    return " ".join((*_FLAGS, *emulated, f"vmstorage.modules={','.join(modules)}"))


class Recipe(BaseModel):
    """All inputs of a build, except the versions that the archive holds on that day."""

    model_config = ConfigDict(frozen=True)

    schema_number: int = SCHEMA
    suite: str
    arch: str = "amd64"
    packages: tuple[str, ...] = _PACKAGES
    modules: tuple[str, ...] = _MODULES
    boot_modules: tuple[str, ...] = BOOT_MODULES
    root_format: str = ROOT_FORMAT
    initrd_init: str
    guest_init: str

    @property
    def key(self) -> str:
        """The cached folder's name: 16 hexadecimal digits of the recipe's SHA-256."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:16]


def recipe(suite: str) -> Recipe:
    """The recipe for a Debian suite such as "bookworm", with the scripts shipped in this package."""
    here = resources.files(__package__ or "")
    return Recipe(
        suite=suite,
        initrd_init=(here / "initrd_init.sh").read_text().replace("@FORMAT@", ROOT_FORMAT),
        guest_init=(here / "guest_init.sh").read_text(),
    )
