"""The disk under test on the host: the image and what lies under it, made and removed together."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.host.folders import check_room, folder_facts, keep_private
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.block import BlockPlace, make_block, needs_block, reap_blocks, remove_block
from pytest_vmstorage.storage.fill import HostFill
from pytest_vmstorage.storage.host_file_system import HostFs, host_fs_bytes, make_host_fs, remove_folder, remove_host_fs
from pytest_vmstorage.storage.image import ImageFacts, check_space, image_files, make_disk, remove_disk
from pytest_vmstorage.storage.operations.files import room_needed
from pytest_vmstorage.storage.space import HEADROOM_BYTES, space_needed
from pytest_vmstorage.storage.template import Templates


class HostDisk(BaseModel):
    """A cell's disk on the host: its path, the size of its image, and what was made under it.

    `filled_bytes`, from its start, were written on the host after its image was looked at: of its test file, where the
    host gave it the guest's file system. `block` is the host's block
    device and `host_fs` the file system that were made or taken for it, None where the image lies in the folder as it
    was found.
    """

    model_config = ConfigDict(frozen=True)

    config: StorageConfig
    path: str
    image: ImageFacts | None = None
    filled_bytes: int = 0
    block: BlockPlace | None = None
    host_fs: HostFs | None = None

    @property
    def is_block(self) -> bool:
        """Whether the path is a block device, and no file."""
        return self.block is not None and self.host_fs is None

    @property
    def has_guest_fs(self) -> bool:
        """Whether the host gave it the guest's file system, with a filled test file."""
        return self.config.guest_fs != "none" and self.filled_bytes > 0

    @property
    def notes(self) -> Mapping[str, str]:
        """Notes for the disk's row on what lies under it: the device, and reservations about its file system."""
        device = {"disk lies on": self.block.description} if self.block is not None else {}
        noted = {"host_fs": self.host_fs.note} if self.host_fs is not None and self.host_fs.note else {}
        return {**device, **noted}


def folder_bytes(config: StorageConfig) -> int:
    """Bytes of the folder that the cell's disk takes once it is written in full; 0 for a disk on a device."""
    if needs_block(config) or config.is_machine:
        return 0
    if config.host_fs != "as-found":
        return host_fs_bytes(config)
    return space_needed(config) - HEADROOM_BYTES


def images_bytes(config: StorageConfig) -> int:
    """Bytes of the folder that operations on the cell's images take, with as much data as an image holds."""
    room = room_needed(config, config.size)
    if config.backing_name and config.backing_kind == "file":
        return 0
    return room if config.host_fs == "as-found" else host_fs_bytes(config, room)


class HostDisks:
    """Makes and removes the disks of one run in its folder on the host."""

    def __init__(self, shell: Shell, host: LabHost, folder: str, run_id: str) -> None:
        self._shell = shell
        self._host = host
        self._folder = folder
        self._is_shared = host.uri is not None
        self._run_id = run_id
        self._has_blocks = False
        self._fill = HostFill(shell, folder)
        self.templates = Templates(shell, folder)

    def make(self, config: StorageConfig, number: int, *, fill_bytes: int = 0) -> HostDisk:
        """Make the cell's disk and what lies under it; after an error nothing of it is left.

        `fill_bytes` are written from its start, or into the test file on its guest's file system, unless that is too
        much for the host or needs a template that is not there. Raises ConfigError, HostError, UnsupportedError,
        ProvisionError, AttestationError.
        """
        disk = HostDisk(config=config, path="")
        try:
            if needs_block(config):
                self._has_blocks = True
                block = make_block(self._shell, self._host, config, run_id=self._run_id, number=number)
                disk = disk.model_copy(update={"block": block, "path": block.path})
            if config.host_fs != "as-found":
                disk = disk.model_copy(update={"host_fs": self._host_fs(disk, number)})
            if not disk.is_block:
                folder = disk.host_fs.mountpoint if disk.host_fs else self._folder
                disk = disk.model_copy(update={"path": f"{folder}/disk-{number}.{config.format}"})
                check_space(folder_facts(self._shell, folder), config)
            disk = disk.model_copy(update={"image": make_disk(self._shell, config, disk.path)})
            if self._is_shared and not disk.is_block:
                # others pass through the folder, as QEMU's own user must
                keep_private(self._shell, image_files(self._shell, disk.path))
            template = self.templates.find(config, fill_bytes) if config.guest_fs != "none" else None
            if not fill_bytes or (template is None and config.guest_fs != "none"):
                return disk
            with span("filling", cell=config):
                filled = self._fill.fill(config, disk.path, fill_bytes, template)
            return disk.model_copy(update={"filled_bytes": filled})
        except BaseException:
            self._undo(disk)
            raise

    def make_place(self, config: StorageConfig, number: int, image_bytes: int) -> HostDisk:
        """Make a folder for images of the cell, and its host_fs with room for `image_bytes`; no image.

        The path is the folder's. The caller makes volumes of LVM and ZFS; `close` removes them at the latest.
        Raises as `make` does.
        """
        place = HostDisk(config=config, path="")
        try:
            self._has_blocks = self._has_blocks or needs_block(config)
            if config.host_fs != "as-found":
                if needs_block(config):
                    block = make_block(self._shell, self._host, config, run_id=self._run_id, number=number)
                    place = place.model_copy(update={"block": block})
                place = place.model_copy(update={"host_fs": self._host_fs(place, number, image_bytes)})
            folder = place.host_fs.mountpoint if place.host_fs else self._folder
            check_room(folder_facts(self._shell, folder), image_bytes, f"images of {config}")
            path = f"{folder}/images-{number}"
            check(self._shell.run(["mkdir", "--", path]), f"making {path}")
            return place.model_copy(update={"path": path})
        except BaseException:
            self._undo(place)
            raise

    def remove_place(self, place: HostDisk) -> None:
        """Remove the folder and its contents, and what was made under it. Raises ProvisionError."""
        check(self._shell.run(["rm", "-rf", "--one-file-system", "--", place.path]), f"removing {place.path}")
        self.remove(place.model_copy(update={"path": ""}))

    def _host_fs(self, disk: HostDisk, number: int, image_bytes: int | None = None) -> HostFs:
        device = disk.block.path if disk.block is not None else None
        return make_host_fs(
            self._shell, self._folder, disk.config, number=number, device=device, image_bytes=image_bytes
        )

    def _undo(self, disk: HostDisk) -> None:
        try:
            self.remove(disk)
        except VmStorageError:
            # the error of `make` is raised; the rest goes with the run's folder, or is found by its mark
            return

    def close(self) -> None:
        """Remove the run's folder, and volumes that are left of it. Raises ProvisionError."""
        self._fill.close()
        remove_folder(self._shell, self._folder)
        if self._has_blocks:
            reap_blocks(self._shell, self._run_id)

    def remove(self, disk: HostDisk) -> None:
        """Remove the image and what was made under it, once no guest uses them."""
        if disk.path and not disk.is_block:
            remove_disk(self._shell, disk.path)
        if disk.host_fs is not None:
            remove_host_fs(self._shell, disk.host_fs)
        if disk.block is not None:
            remove_block(self._shell, disk.block)
