"""Facts of a lab host that stand with every figure, read through its shell; a hidden fact is "unknown"."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vmstorage.config.settings import AccelChoice
from pytest_vmstorage.host.folders import FolderFacts
from pytest_vmstorage.host.shell import Shell, read_values
from pytest_vmstorage.results.host import HostFacts

PROBE = r"""
echo "cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
echo "cores=$(getconf _NPROCESSORS_ONLN)"
echo "memory_kib=$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
echo "kernel=$(uname -r)"
echo "governor=$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
"""
"""Prints each fact as NAME=VALUE, NAME being that of its field; a new fact is a line here and a field."""


TOOL_VERSIONS = r"""
fio --version 2>/dev/null | sed 's/^fio-/fio=/'
dd --version 2>/dev/null | sed -n '1s/.* /coreutils=/p'
hdparm -V 2>/dev/null | sed -n '1s/.* v/hdparm=/p'
"""
"""Prints the version of each tool that a host or a machine has; see `host.shell.read_values`."""


def read_facts(said: Mapping[str, str]) -> Mapping[str, object]:
    """The fields of HostFacts that the script printed, as far as it had a value for them."""
    texts = {name: value for name, value in said.items() if name in HostFacts.model_fields and value}
    cores, kib = (said.get(name, "") for name in ("cores", "memory_kib"))
    return {
        **texts,
        "cores": int(cores) if cores.isdecimal() else 0,
        "memory_bytes": int(kib) * 1024 if kib.isdecimal() else 0,
    }


def host_facts(
    name: str, shell: Shell, versions: Mapping[str, str], accel: AccelChoice, folder: FolderFacts
) -> HostFacts:
    """The host's facts, read in one round trip."""
    said = read_facts(read_values(shell, PROBE))
    programs = {name: version for name, version in versions.items() if name in ("qemu", "libvirt")}
    accelerated = {"accel": accel.used, "accel_requested": accel.requested, "accel_reason": accel.reason}
    place = {"folder": folder.path, "file_system": folder.file_system, "device": folder.device}
    return HostFacts.model_validate({**said, "name": name, **programs, **accelerated, **place})
