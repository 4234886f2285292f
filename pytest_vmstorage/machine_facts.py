"""What a machine that the plugin did not make says of itself: hardware, kernel, and what it runs on."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vmstorage.command import Shell, check
from pytest_vmstorage.inventory import ListedMachine
from pytest_vmstorage.provision.disk import folder_facts
from pytest_vmstorage.provision.hostdisk import HostDisk
from pytest_vmstorage.results import HostFacts

SAID = "(said)"
"""What stands behind a hypervisor that the machine names, and nobody here has seen."""

_UNKNOWN = "unknown"

# systemd-detect-virt ends with 1 where it prints none; DMI and Xen's node are there without it
_PROBE = r"""
dmi() { cat "/sys/class/dmi/id/$1" 2>/dev/null; }
echo "cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)"
echo "cpus=$(getconf _NPROCESSORS_ONLN)"
echo "memory_kib=$(sed -n 's/^MemTotal: *\([0-9]*\).*/\1/p' /proc/meminfo)"
echo "kernel=$(uname -r)"
echo "governor=$(cat /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor 2>/dev/null)"
echo "os=$(. /etc/os-release 2>/dev/null && echo "$PRETTY_NAME")"
if command -v systemd-detect-virt >/dev/null; then echo "hypervisor=$(systemd-detect-virt --vm)"
elif [ -r /sys/hypervisor/type ]; then echo "hypervisor=$(cat /sys/hypervisor/type)"
elif ! grep -qw hypervisor /proc/cpuinfo; then echo "hypervisor=none"; fi
echo "hardware=$(dmi sys_vendor) $(dmi product_name)"
echo "machine id=$(sha256sum 2>/dev/null </etc/machine-id | cut -c 1-12)"
echo "boot=$(cat /proc/sys/kernel/random/boot_id)"
"""

_OF_THE_ROW = ("kernel", "cpus", "os", "hypervisor", "hardware", "machine id")


def ask_machine(shell: Shell, name: str) -> Mapping[str, str]:
    """All it says, by what it is: "unknown" where it does not; raises HostError, ProvisionError."""
    done = check(shell.run(["sh", "-c", _PROBE]), f"asking {name} for its facts")
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    return {key: " ".join(said.get(key, "").split()) or _UNKNOWN for key in (*said, *_OF_THE_ROW)}


def row_facts(said: Mapping[str, str]) -> Mapping[str, str]:
    """What stands with each of its rows, and must be the same where rows are compared."""
    return {key: said[key] for key in _OF_THE_ROW}


def unreached(listed: ListedMachine) -> HostFacts:
    """The machine as vmstorage.toml has it, before anybody asked it."""
    return HostFacts(name=listed.name, stated=listed.label, is_machine=True, qemu="none", libvirt="none")


def machine_facts(listed: ListedMachine, said: Mapping[str, str], shell: Shell, disk: HostDisk) -> HostFacts:
    """The machine as a host of its own; what it measures on is known by its id, which is no other's."""
    if disk.block is not None:
        place = {"folder": "its disk", "file_system": "none", "device": disk.block.description}
    else:
        found = folder_facts(shell, listed.folder or "/")
        place = {"folder": found.path, "file_system": found.file_system, "device": found.device}
    known: Mapping[str, object] = {
        "cpu": said.get("cpu", _UNKNOWN),
        "cores": _number(said.get("cpus", "")),
        "memory_bytes": _number(said.get("memory_kib", "")) * 1024,
        "kernel": said["kernel"],
        "governor": said.get("governor", _UNKNOWN),
        "accel": _UNKNOWN if said["hypervisor"] == _UNKNOWN else f"{said['hypervisor']} {SAID}",
        "accel_reason": "it says so itself",
    }
    return unreached(listed).model_copy(update={**known, **place})


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
