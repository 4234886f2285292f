"""Facts of a lab host that stand with every figure, read through its shell; a hidden fact is "unknown"."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vmstorage.config.settings import AccelChoice
from pytest_vmstorage.host.folders import FolderFacts
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.text import read_pairs

_PROBE = r"""
echo "cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
echo "cores=$(getconf _NPROCESSORS_ONLN)"
echo "memory_kib=$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
echo "kernel=$(uname -r)"
echo "governor=$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
"""


def host_facts(
    name: str, shell: Shell, versions: Mapping[str, str], accel: AccelChoice, folder: FolderFacts
) -> HostFacts:
    """The host's facts, read in one round trip."""
    done = shell.run(["sh", "-c", _PROBE])
    said = read_pairs(done.stdout)
    return HostFacts(
        name=name,
        cpu=said.get("cpu") or "unknown",
        cores=int(said.get("cores") or 0),
        memory_bytes=int(said.get("memory_kib") or 0) * 1024,
        kernel=said.get("kernel") or "unknown",
        governor=said.get("governor") or "unknown",
        qemu=versions.get("qemu", "unknown"),
        libvirt=versions.get("libvirt", "unknown"),
        accel=accel.used,
        accel_requested=accel.requested,
        accel_reason=accel.reason,
        folder=folder.path,
        file_system=folder.file_system,
        device=folder.device,
    )
