"""Makes the place where a cell's image operations are measured, and removes it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost, ListedDataset, ListedGroup
from pytest_vmstorage.errors import UnsupportedError
from pytest_vmstorage.host.counters import Look
from pytest_vmstorage.host.folders import folder_facts
from pytest_vmstorage.host.guard import guard_of
from pytest_vmstorage.host.shell import Shell, has_program, read_values
from pytest_vmstorage.host.watch import HostWatch
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.measure.image_operations import Bench
from pytest_vmstorage.progress import Progress
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.storage.block import choose_listed
from pytest_vmstorage.storage.operations.files import FileImage, ImagePlace, room_needed, shares_blocks
from pytest_vmstorage.storage.operations.volumes import LvmImage, ZvolImage
from pytest_vmstorage.storage.volume import find_dataset, find_group
from pytest_vmstorage.workloads.image_operations import ImageOperations

_VERSIONS = r"""
qemu-img --version 2>/dev/null | sed -n '1s/^qemu-img version \([^ ]*\).*/qemu-img=\1/p'
lvm version 2>/dev/null | sed -n 's/^ *LVM version: *\([^ ]*\).*/lvm=\1/p'
zfs version 2>/dev/null | sed -n '1s/^zfs-/zfs=/p'
cp --version 2>/dev/null | sed -n '1s/.* /coreutils=/p'
"""


@contextlib.contextmanager
def image_bench(
    shell: Shell, host: LabHost, factory: GuestFactory, config: StorageConfig, workload: ImageOperations, say: Progress
) -> Iterator[Bench]:
    """A bench for these operations; all that was made for it is gone at the end, also after Ctrl-C.

    Raises ConfigError for a cell whose images do not suit them, UnsupportedError where this host lacks a tool,
    SpaceError, ProvisionError.
    """
    workload.check_fits(config)
    tools = _tools(shell, host.name)
    say("making the place for images")
    room = room_needed(config, workload.data, preallocates="preallocate" in workload.operations)
    made = factory.make_place(config, room)
    try:
        place = _place(shell, host, factory, config, workload, made.path)
        watch = HostWatch(shell, made.path)
        yield Bench(
            shell=shell,
            config=config,
            host=host.name,
            place=place,
            scratch=factory.folder,
            look=lambda: _look(watch),
            watch=watch.begin,
            notes=made.notes,
            tools=tools,
        )
    finally:
        factory.remove_place(made)


def _place(
    shell: Shell, host: LabHost, factory: GuestFactory, config: StorageConfig, workload: ImageOperations, folder: str
) -> ImagePlace:
    if config.backing_kind == "file":
        kind = folder_facts(shell, folder).file_system
        return FileImage(config, folder, workload, kind=kind, shares_blocks=shares_blocks(shell, folder))
    listed = choose_listed(host, config)
    numbers = (factory.next_number(), factory.next_number())
    volume: LvmImage | ZvolImage
    if isinstance(listed, ListedGroup):
        volume = LvmImage(config, folder, workload, find_group(shell, listed), factory.run_id, numbers)
    else:
        assert isinstance(listed, ListedDataset), listed
        volume = ZvolImage(config, folder, workload, find_dataset(shell, listed), factory.run_id, numbers)
    volume.check_room()
    for node in volume.nodes:
        guard_of(shell).allow(node)
    return volume


def _tools(shell: Shell, host: str) -> Mapping[str, str]:
    """Versions of the tools; raises UnsupportedError where one is missing."""
    for tool, package in (("qemu-img", "qemu-utils"), ("qemu-io", "qemu-utils"), ("bash", "bash")):
        if not has_program(shell, tool):
            raise UnsupportedError(
                f"Image operations need {tool}, and {host} has none.", hint=f"Install {package}.", code="VM329"
            )
    return read_values(shell, _VERSIONS)


def _look(watch: HostWatch) -> Look:
    """Counters of the device below, whoever used it: there is no QEMU process to read."""
    host = watch.look()
    return Look(moved=IoCounters(**(host.device.as_counters() if host.device else {})), pressure=host.pressure)
