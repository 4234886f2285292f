"""A guest that was started, and the facts about it that need no answer of the guest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.guest.protocol import Domain
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.image import ImageFacts

CONSOLE_LINES = 20


@dataclass(frozen=True)
class Begun:
    """A guest that begins, booted or restored from a saved guest."""

    domain: Domain
    is_restored: bool = False


@dataclass(frozen=True, eq=False)
class StartedGuest:
    """A guest that was started: its domain, its disk on the host, the host's shell; `is_restored` or booted."""

    spec: GuestSpec
    domain: Domain
    disk: HostDisk | None
    shell: Shell
    is_restored: bool = False

    @property
    def host_disk(self) -> HostDisk:
        """The cell's disk on the host; a canary has no disk, and nothing asks for it."""
        assert self.disk is not None
        return self.disk

    @property
    def notes(self) -> Mapping[str, str]:
        """Notes on how the guest was made, for the readers of its row."""
        pinned = {"pinning": str(self.spec.pinning)} if self.spec.pinning is not None else {}
        return {"boot": "restored" if self.is_restored else "fresh", **self.host_disk.notes, **pinned}

    @property
    def image(self) -> ImageFacts | None:
        """Facts of the disk's image on the host; None for a canary."""
        return self.disk.image if self.disk is not None else None

    @property
    def config(self) -> StorageConfig:
        """The cell; a canary has no cell, and nothing asks for it."""
        assert self.spec.config is not None
        return self.spec.config

    @property
    def domain_name(self) -> str:
        """libvirt's name of the guest."""
        return self.spec.name

    def console_tail(self, lines: int = CONSOLE_LINES) -> str:
        """The last lines the guest wrote to its serial console, 64 KiB of them at most."""
        done = self.shell.run(["tail", "-c", str(2**16), "--", self.spec.console])
        return "\n".join(done.stdout.replace("\r", "").strip().splitlines()[-lines:])
