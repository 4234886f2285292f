"""libvirt's embedded driver: the local host's guests, without a daemon and without root."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_vmstorage.guest.libvirt.hypervisor import LibvirtHypervisor

EMBED_CONF = """\
stdio_handler = "file"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
"""
"""qemu.conf of the embedded driver: without these it wants virtlogd, cgroups and root (tried on libvirt 9.0)."""


def connect_embedded(root: Path, cache: Path, *, as_root: bool) -> LibvirtHypervisor:
    """The embedded driver with its state below root, a short private folder: no daemon is needed.

    `cache` outlives the run: what libvirt found out about QEMU takes it seconds to find again. Raises HostError
    where libvirt's Python binding, its QEMU driver or QEMU itself is missing.
    """
    conf = root / "etc" / "qemu.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    # an ordinary user may not name one: QEMU then runs as that user anyway
    user = 'user = "root"\ngroup = "root"\n' if as_root else ""
    conf.write_text(EMBED_CONF + user)
    cache.mkdir(parents=True, exist_ok=True)
    if not (root / "cache").exists():
        (root / "cache").symlink_to(cache)
    # the driver logs from inside this process; read when libvirt is first imported
    os.environ.setdefault("LIBVIRT_LOG_OUTPUTS", f"3:file:{root}/libvirt.log")
    return LibvirtHypervisor(f"qemu:///embed?root={root}", pids=root / "run" / "qemu")
