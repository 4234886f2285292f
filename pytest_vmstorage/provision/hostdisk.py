"""The disk under test as the host has it: what lies under it and the image itself, made and removed together."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.command import Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.provision.disk import ImageFacts, check_space, folder_facts, make_disk, remove_disk


class HostDisk(BaseModel):
    """A cell's disk on the host: its path there and what its image takes; a block device with `is_block`."""

    model_config = ConfigDict(frozen=True)

    config: StorageConfig
    path: str
    is_block: bool = False
    image: ImageFacts | None = None


class HostDisks:
    """Makes and removes the disks of one run in its folder on the host."""

    def __init__(self, shell: Shell, folder: str, run_id: str) -> None:
        self._shell = shell
        self._folder = folder
        self._run_id = run_id

    def make(self, config: StorageConfig, number: int) -> HostDisk:
        """Make the cell's disk; raises ProvisionError, AttestationError, UnsupportedError; nothing is left then."""
        disk = HostDisk(config=config, path=f"{self._folder}/disk-{number}.{config.format}")
        try:
            check_space(folder_facts(self._shell, self._folder), config)
            return disk.model_copy(update={"image": make_disk(self._shell, config, disk.path)})
        except BaseException:
            self.remove(disk)
            raise

    def remove(self, disk: HostDisk) -> None:
        """Remove the image and what was made under it; nothing there is no error."""
        remove_disk(self._shell, disk.path)
