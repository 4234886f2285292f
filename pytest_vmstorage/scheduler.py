"""The guest's I/O scheduler of the disk under test: loaded and chosen through the guest's sysfs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from pytest_vmstorage.command import Shell
from pytest_vmstorage.config import Scheduler, StorageConfig
from pytest_vmstorage.errors import UnsupportedError

MODULES: Mapping[Scheduler, str] = {"mq-deadline": "mq-deadline", "kyber": "kyber-iosched", "bfq": "bfq"}
"""Kernel modules of the schedulers; built in where modprobe finds none."""

_CHOOSE = r"""
file=/sys/block/$1/queue/scheduler
case " $(cat "$file") " in *"[$2]"*) exit 0;; esac
[ -z "$3" ] || modprobe "$3" 2>/dev/null
echo "$2" >"$file" 2>/dev/null && exit 0
cat "$file"; exit 1
"""


def set_scheduler(shell: Shell, disk: str, config: StorageConfig) -> None:
    """Choose the cell's scheduler for that disk of the guest; "default" leaves what is there.

    Raises UnsupportedError where the guest's kernel has none of that name.
    """
    if config.scheduler == "default":
        return
    name = PurePosixPath(disk).name
    argv = ["/bin/sh", "-c", _CHOOSE, "sh", name, config.scheduler, MODULES.get(config.scheduler, "")]
    done = shell.run(argv, timeout_s=60)
    if not done.ok:
        there = done.stdout.replace("[", "").replace("]", "").split()
        raise UnsupportedError(
            f"The guest's kernel has no I/O scheduler {config.scheduler} for {disk} (it has: {', '.join(there)})."
        )
