"""Facts of a guest and its disk: the script that prints them, and its pure reader."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import DiskMissingError, GuestError
from pytest_vmstorage.guest.domain_xml import ROOT_SERIAL, SEED_SERIAL
from pytest_vmstorage.host.file_systems import FileSystem, read_mounts

NO_DISK = "loop*|ram*|zram*|sr*|fd*|nullb*"
"""Names in /sys/block, as a pattern of sh, of what is never the disk under test."""

# One round trip for all that is wanted of a fresh guest: a line of facts, one for each disk, one for each mount. The
# shell reads for itself: each process takes an emulated guest longer than its work.
PROBE = r"""
read -r kernel </proc/sys/kernel/osrelease
read -r _ memory _ </proc/meminfo
cpus=0; while read -r word _; do case $word in processor) cpus=$((cpus + 1));; esac; done </proc/cpuinfo
echo "$kernel|$cpus|$memory"
for path in /sys/block/*; do
  name=${path##*/}
  case $name in @NO_DISK@) continue;; esac
  read -r size <"$path/size"
  serial=; [ -r "$path/serial" ] && read -r serial <"$path/serial"
  read -r cache <"$path/queue/write_cache"; read -r scheduler <"$path/queue/scheduler"
  read -r block <"$path/queue/logical_block_size"; read -r rotational <"$path/queue/rotational"
  read -r discard <"$path/queue/discard_max_bytes"
  driver=
  for link in "$path/device/device/driver" "$path/device/driver"; do
    [ -e "$link" ] && driver=$(cd -P -- "$link" && echo "$PWD")
  done
  host=
  for file in "$path"/device/../../scsi_host/host*/proc_name; do [ -r "$file" ] && read -r host <"$file"; done
  queues=0; for queue in "$path"/mq/*; do [ -d "$queue" ] && queues=$((queues + 1)); done
  echo "$name|$size|$serial|$cache|$scheduler|$block|$rotational|${driver##*/}|$host|$queues|$discard"
done
while read -r line; do printf 'mount|%s\n' "$line"; done </proc/self/mountinfo
""".replace("@NO_DISK@", NO_DISK)
_MOUNT = "mount|"


class GuestFacts(BaseModel):
    """Facts of the guest and of the disk under test; memory in KiB as its kernel has it, sizes in bytes.

    `host_driver` drives the disk's SCSI or ATA host ("" without one); `queues` are the hardware queues in use.
    `mounted` are the disk's mounted file systems; None where the guest did not tell.
    """

    model_config = ConfigDict(frozen=True)

    kernel: str
    cpus: int
    memory_kib: int
    disk: str
    disk_bytes: int
    write_cache: str
    scheduler: str
    logical_block_bytes: int
    rotational: bool
    driver: str
    host_driver: str = ""
    queues: int = 0
    discard_max_bytes: int = 0
    mounted: tuple[FileSystem, ...] | None = None
    tools: Mapping[str, str] = {}

    def as_text(self) -> Mapping[str, str]:
        """The facts that stand with each row; the versions of tools are in `tools`."""
        return {
            "kernel": self.kernel,
            "cpus": str(self.cpus),
            "write_cache": self.write_cache,
            "scheduler": self.scheduler,
            "logical_block_size": str(self.logical_block_bytes),
            "rotational": "yes" if self.rotational else "no",
            "driver": self.driver,
        }


def read_facts(text: str, config: StorageConfig, tools: Mapping[str, str]) -> GuestFacts:
    """Facts from the probe's lines; raises GuestError for lines of another kind.

    Raises DiskMissingError unless exactly one disk other than the root has the cell's size.
    """
    try:
        return _facts_of(text, config, tools)
    except (ValueError, IndexError):
        raise GuestError(
            f"The guest of {config} answered the question for its facts with: {text!r}.", code="VM506"
        ) from None


def _facts_of(text: str, config: StorageConfig, tools: Mapping[str, str]) -> GuestFacts:
    lines = [line for line in text.splitlines() if line.strip()]
    mounts = read_mounts("\n".join(line.partition("|")[2] for line in lines if line.startswith(_MOUNT)))
    head, *disks = [line.split("|") for line in lines if not line.startswith(_MOUNT)]
    found = [disk for disk in disks if disk[2] not in (ROOT_SERIAL, SEED_SERIAL) and int(disk[1]) * 512 == config.size]
    if len(found) != 1:
        there = ", ".join(f"{disk[0]} of {int(disk[1]) * 512} bytes" for disk in disks) or "none"
        raise DiskMissingError(
            f"The guest of {config} does not see its disk of {config.size} bytes on {config.bus} (disks: {there}).",
            hint="Its kernel may lack the driver of that bus.",
            code="VM505",
        )
    name, size, _serial, cache, scheduler, block, rotational, driver, host_driver, queues, discard = found[0]
    return GuestFacts(
        kernel=head[0],
        cpus=int(head[1]),
        memory_kib=int(head[2]),
        disk=f"/dev/{name}",
        disk_bytes=int(size) * 512,
        write_cache=cache,
        scheduler=chosen_scheduler(scheduler),
        logical_block_bytes=int(block),
        rotational=rotational == "1",
        driver=driver,
        host_driver=host_driver,
        queues=int(queues),
        discard_max_bytes=int(discard),
        # every kernel has mounts: an empty list means that the guest did not tell
        mounted=tuple(one for one in mounts if one.device == f"/dev/{name}") if mounts else None,
        tools=dict(tools),
    )


def chosen_scheduler(text: str) -> str:
    """The I/O scheduler in use: the kernel lists all, with this one in brackets, or a single name."""
    return next((word.strip("[]") for word in text.split() if word.startswith("[")), text.strip())
