"""Image operations on volumes, by LVM's commands or by zfs; pure except for `taken` and `clear`.

Only converting makes a file, in the run's folder. A thick LVM volume has no clone except its writable snapshot.
The lines of zfs are those of its manual pages (OpenZFS 2.1).
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.config.cell import Format, StorageConfig
from pytest_vmstorage.errors import SpaceError
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.storage.operations.files import (
    Impossible,
    OperationStep,
    Steps,
    clear_folder,
    convert_argv,
    files_bytes,
    rm_argv,
    step,
)
from pytest_vmstorage.storage.volume import (
    RUN_PROPERTY,
    VolumeRoom,
    lvcreate_argv,
    lvs_bytes,
    remove_lv,
    remove_zvol,
    volume_name,
    wait_argv,
    zvol_argv,
    zvols_bytes,
)
from pytest_vmstorage.units import format_about
from pytest_vmstorage.workloads.image_operations import ImageOperations, Operation

_MIB = 2**20


class VolumeImage:
    """The common part of LVM's and ZFS's images; `numbers` are those of the image's volume and of its copy."""

    kind: str

    def __init__(
        self, config: StorageConfig, folder: str, workload: ImageOperations, room: VolumeRoom, run_id: str,
        numbers: tuple[int, int],
    ) -> None:  # fmt: skip
        self.folder = folder
        self._room = room
        self._run_id = run_id
        self._size = _up(config.size, max(room.unit_bytes, _MIB))
        self._growth = _up(workload.data, max(room.unit_bytes, _MIB))
        self._kept = _up(workload.data + workload.data // 50 + 4 * _MIB, room.unit_bytes)
        self.names = tuple(f"{room.name}/{volume_name(run_id, number)}" for number in numbers)
        self.path, self._other = (self._node(name) for name in self.names)
        target = workload.target_format(config)
        self._target = f"{folder}/converted.{target}"
        self.image: tuple[str, str] = (self.path, "raw")
        self.clone: tuple[str, str] = (self._other, "raw")
        self.converted: tuple[str, str] = (self._target, target)
        self.steps: Steps = dict(self._steps(config, target))

    def _node(self, name: str) -> str:
        raise NotImplementedError

    def _steps(self, config: StorageConfig, target: Format) -> Iterator[tuple[Operation, OperationStep | Impossible]]:
        argv = convert_argv(config, self.path, target, self._target)
        yield "convert", step(f"qemu-img convert -O {target}, into a file", argv, undo=rm_argv(self._target))

    @property
    def nodes(self) -> tuple[str, str]:
        """The devices of the volumes, by names with the run's mark in a listed group or dataset."""
        return (self.path, self._other)

    def check_room(self) -> None:
        """Raise SpaceError where the volume, its snapshot and what it grows by do not fit."""
        need = self._size + self._kept + self._growth
        if self._room.free_bytes < need:
            raise SpaceError(
                f"{self._room.name} has {format_about(self._room.free_bytes)} free, but the image operations need"
                f" {format_about(need)}: the volume, its snapshot, and what it grows by.",
                hint="Free some space there, or lower size or data.",
                code="VM438",
            )


class LvmImage(VolumeImage):
    """A thick logical volume, its snapshots with room for all that is written anew."""

    kind = "lvm"

    def _node(self, name: str) -> str:
        return f"/dev/{name}"

    def _steps(self, config: StorageConfig, target: Format) -> Iterator[tuple[Operation, OperationStep | Impossible]]:
        volume, snapshot = self.names
        tag = f"vmstorage-{self._run_id}"
        yield "create", step("lvcreate", lvcreate_argv(volume, self._size, self._run_id))
        yield "preallocate", Impossible("a thick LVM volume has all its extents when it is made, and create times that")
        keep = ("lvcreate", "--yes", "--snapshot", "--addtag", tag, "--size", f"{self._kept}b")
        yield "snapshot", step("lvcreate --snapshot", (*keep, "--name", snapshot.rpartition("/")[2], volume))
        # lvconvert polls the kernel at this interval for the end of the merge; by default every 15 s
        merge = ("lvconvert", "--yes", "--merge", "--interval", "0", snapshot)
        yield "rollback", step("lvconvert --merge", merge)
        yield "clone", Impossible("a clone of a thick LVM volume is its writable snapshot, which snapshot times")
        yield "resize", step("lvextend", ("lvextend", "--size", f"+{self._growth}b", volume))
        yield "delete", step("lvremove", ("lvremove", "--yes", "--force", volume))
        yield from super()._steps(config, target)

    def taken(self, shell: Shell) -> int:
        """Extents of volume and snapshot (lvs), and what the converted file takes."""
        return lvs_bytes(shell, self._run_id, self.names) + files_bytes(shell, self.folder)

    def clear(self, shell: Shell) -> None:
        """Remove snapshot, volume and file."""
        clear_folder(shell, self.folder)
        for name in reversed(self.names):
            remove_lv(shell, name, self._run_id)


class ZvolImage(VolumeImage):
    """A ZFS volume that is not sparse."""

    kind = "zvol"

    def _node(self, name: str) -> str:
        return f"/dev/zvol/{name}"

    def _steps(self, config: StorageConfig, target: Format) -> Iterator[tuple[Operation, OperationStep | Impossible]]:
        volume, clone = self.names
        snapshot = f"{volume}@s1"
        create = zvol_argv(volume, self._size, self._run_id)
        yield "create", step("zfs create -V, until its node is there", create, wait_argv(self.path))
        yield "preallocate", Impossible("a ZFS volume is reserved when it is made, and create times that")
        yield "snapshot", step("zfs snapshot", ("zfs", "snapshot", snapshot))
        yield "rollback", step("zfs rollback", ("zfs", "rollback", snapshot))
        argv = ("zfs", "clone", "-o", f"{RUN_PROPERTY}={self._run_id}", snapshot, clone)
        yield (
            "clone",
            step("zfs clone, until its node is there", argv, wait_argv(self._other), undo=("zfs", "destroy", clone)),
        )
        yield "resize", step("zfs set volsize", ("zfs", "set", f"volsize={self._size + self._growth}", volume))
        yield "delete", step("zfs destroy -r", ("zfs", "destroy", "-r", volume))
        yield from super()._steps(config, target)

    def taken(self, shell: Shell) -> int:
        """`used` of volume and clone, snapshots and reservations with them, and what the converted file takes."""
        return zvols_bytes(shell, self.names) + files_bytes(shell, self.folder)

    def clear(self, shell: Shell) -> None:
        """Destroy clone, volume and snapshot, and remove the file."""
        clear_folder(shell, self.folder)
        for name in reversed(self.names):
            remove_zvol(shell, name, self._run_id)


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit
