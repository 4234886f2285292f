"""A lab host examined: opened as for a run, tried out in a folder of that run, and judged axis by axis."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.cli.doctor import backing, device, image
from pytest_vmstorage.cli.doctor.device import MACHINES
from pytest_vmstorage.cli.doctor.seen import AxisFinding, Seen, look_at_listed, look_at_machines
from pytest_vmstorage.cli.doctor.trials import run_trials
from pytest_vmstorage.config.cell import AXES
from pytest_vmstorage.config.inventory import Inventory, LabHost, find_host
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.guest.appliance.build import current_recipe
from pytest_vmstorage.guest.boot import find_emulator
from pytest_vmstorage.host.folders import find_folder, make_run_folder
from pytest_vmstorage.host.lease import LIFETIME_S, Lease, this_process
from pytest_vmstorage.host.shell import open_shell
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import lease_book, open_lab
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.host import HostFacts

_JUDGES: tuple[Callable[[Seen], Iterator[AxisFinding]], ...] = (
    *(image.formats, image.subformats, image.preallocations, image.cluster_sizes, image.lazy_refcounts),
    *(image.extended_l2, image.l2_cache_sizes, image.compressions, image.encryptions, image.backing_chains),
    *(image.snapshots, device.caches, device.buses, device.machines, device.ios, device.iothreads, device.queues),
    *(device.queue_sizes, device.discards, device.detect_zeroes, device.limits, device.schedulers, device.vcpus),
    *(device.memories, device.emulators, backing.states, backing.backings, backing.host_fs, backing.guest_fs),
)


def findings(seen: Seen) -> tuple[AxisFinding, ...]:
    """Every value of every axis, as far as values can be listed."""
    found = [finding for judge in _JUDGES for finding in judge(seen)]
    return tuple(sorted(found, key=lambda finding: AXES.index(finding.axis)))


class Diagnosis(BaseModel):
    """What was found on a host: `problem` says in one sentence why no guest can run, "" where guests can.

    `host`, `kernel` (the guests') and `appliance` (its folder) are None and "" where none can; `free_bytes` is the
    folder's, `drops_caches` says whether the host's page cache can be dropped as a whole. `io_helper` is the program by
    which libvirt restores guests, "" where it is missing.
    """

    model_config = ConfigDict(frozen=True)

    problem: str = ""
    host: HostFacts | None = None
    kernel: str = ""
    appliance: str = ""
    free_bytes: int = 0
    drops_caches: bool = False
    io_helper: str = ""
    findings: tuple[AxisFinding, ...] = ()


def examine(settings: LabSettings, say: Progress = silent) -> Diagnosis:
    """Open the host's lab and try it out; where that fails, what can be told without guests.

    Raises ConfigError where no host of that name can be.
    """
    host = find_host(settings.host, settings.folder, settings.inventory)
    try:
        lab = open_lab(settings, say)
    except VmStorageError as error:
        return Diagnosis(problem=str(error), findings=_without_guests(host, settings.inventory))
    try:
        return examine_lab(lab)
    finally:
        lab.close()


def examine_lab(lab: Lab) -> Diagnosis:
    """What can be measured in an open lab; what is made lies in the run's folder, and is removed."""
    assert lab.appliance is not None, "a lab for guests has what they boot"
    emulator, manifest = lab.factory.emulator, lab.appliance.manifest
    folder = lab.factory.folder_facts()
    seen = Seen(
        trials=run_trials(lab.shell, f"{lab.factory.folder}/doctor", emulator),
        folder=folder,
        libvirt=lab.facts.libvirt,
        qemu=lab.facts.qemu,
        accel=lab.facts.accel,
        buses={name: lab.hypervisor.disk_buses(emulator, name) for name in MACHINES},
        modules=frozenset(current_recipe().modules),
        tools=manifest.tools,
        listed=(*look_at_listed(lab.shell, lab.host), *look_at_machines(lab.settings.inventory)),
    )
    return Diagnosis(
        host=lab.facts,
        kernel=manifest.kernel_version,
        appliance=str(lab.appliance.kernel.parent),
        free_bytes=folder.free_bytes,
        drops_caches=seen.trial("drop_caches").ok,
        io_helper=seen.trial("io_helper").said if seen.trial("io_helper").ok else "",
        findings=findings(seen),
    )


def _without_guests(host: LabHost, inventory: Inventory | None) -> tuple[AxisFinding, ...]:
    """The findings that need no guest; none where the host's shell or folder cannot be used either."""
    shell, run_id = open_shell(host), uuid.uuid4().hex[:10]
    try:
        found = find_folder(shell, host.folder, chosen=True)
    except VmStorageError:
        return ()
    folder = f"{found.path}/run-{run_id}"
    lease = Lease(
        run_id=run_id,
        owner=this_process(),
        expires=time.time() + LIFETIME_S,
        uri=host.uri,
        ssh=host.ssh,
        folder=folder,
        host=host.listed_as,
    )
    try:
        emulator = find_emulator(shell, host.name)
    except VmStorageError:
        emulator = ""
    book = lease_book()
    try:
        book.write(lease)
        make_run_folder(shell, folder, shared=False)
        trials, machines = run_trials(shell, folder, emulator), look_at_machines(inventory)
        seen = Seen(trials=trials, folder=found, listed=machines)
    except (VmStorageError, OSError):
        return ()
    finally:
        book.drop(lease)
    return findings(seen)
