"""A lab host examined: opened as for a run, tried out in a folder of that run, judged axis by axis, shown as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.cli.doctor import backing, device, image
from pytest_vmstorage.cli.doctor.device import MACHINES
from pytest_vmstorage.cli.doctor.seen import AxisFinding, Observations, look_at_listed, look_at_machines, run_trials
from pytest_vmstorage.config.cell import AXES
from pytest_vmstorage.config.inventory import Inventory, LabHost, find_host
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.guest.appliance.build import current_recipe
from pytest_vmstorage.guest.emulator import find_emulator
from pytest_vmstorage.guest.libvirt.messages import IO_HELPER, IO_HELPER_PACKAGE
from pytest_vmstorage.host.folders import find_folder, make_run_folder
from pytest_vmstorage.host.lease import new_lease
from pytest_vmstorage.host.shell import open_shell
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import lease_book, open_lab
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.report.calibration import doctor_lines
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.units import format_about


def findings(seen: Observations) -> tuple[AxisFinding, ...]:
    """Every value of every axis, as far as values can be listed."""
    found = (*image.findings(seen), *device.findings(seen), *backing.findings(seen))
    return tuple(sorted(found, key=lambda one: AXES.index(one.axis)))


class Diagnosis(BaseModel):
    """The findings of a host: `problem` says in one sentence why no guest can run, "" where guests can.

    `host`, `kernel` (the guests') and `appliance` (its folder) are None and "" where none can; `free_bytes` is the
    folder's, `drops_caches` says whether the host's page cache can be dropped as a whole. `io_helper` is the program by
    which libvirt restores guests, "" where it is missing. `calibration` are lines on the host's
    calibration: what it says, or why it does not hold; none for a host that was not calibrated.
    """

    model_config = ConfigDict(frozen=True)

    problem: str = ""
    host: HostFacts | None = None
    kernel: str = ""
    appliance: str = ""
    free_bytes: int = 0
    drops_caches: bool = False
    io_helper: str = ""
    calibration: tuple[str, ...] = ()
    findings: tuple[AxisFinding, ...] = ()


def examine(settings: LabSettings, say: Progress = silent) -> Diagnosis:
    """Open the host's lab and try it out; where that fails, judge what needs no guest.

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
    """The diagnosis of an open lab; the trials' files lie in the run's folder, and are removed."""
    assert lab.appliance is not None, "a lab for guests has what they boot"
    emulator, manifest = lab.factory.emulator, lab.appliance.manifest
    folder = lab.factory.folder_facts()
    seen = Observations(
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
        calibration=tuple(calibration_said(lab)),
        findings=findings(seen),
    )


def calibration_said(lab: Lab) -> Sequence[str]:
    """Lines on the calibration of the lab's host."""
    if lab.calibration is not None:
        return doctor_lines(lab.calibration)
    return [lab.facts.calibrated] if lab.facts.calibrated else []


def _without_guests(host: LabHost, inventory: Inventory | None) -> tuple[AxisFinding, ...]:
    """The findings that need no guest; none where the host's shell or folder cannot be used either."""
    shell = open_shell(host)
    try:
        found = find_folder(shell, host.folder, chosen=True)
    except VmStorageError:
        return ()
    lease = new_lease(f"{found.path}/run-", uri=host.uri, ssh=host.ssh, host=host.listed_as)
    try:
        emulator = find_emulator(shell, host.name)
    except VmStorageError:
        emulator = ""
    book = lease_book()
    try:
        book.write(lease)
        make_run_folder(shell, lease.folder, shared=False)
        trials, machines = run_trials(shell, lease.folder, emulator), look_at_machines(inventory)
        seen = Observations(trials=trials, folder=found, listed=machines)
    except (VmStorageError, OSError):
        return ()
    finally:
        book.drop(lease)
    return findings(seen)


KVM = "kvm"
"""What may be needed beside values of axes: guests with hardware acceleration."""


def check_needs(needs: Sequence[str]) -> None:
    """Raise ConfigError for a need that no host could meet, before one is examined."""
    for need in needs:
        axis, _, value = need.partition("=")
        if need != KVM and not (axis in AXES and value):
            raise ConfigError(
                f"--need={need} is nothing that can be needed.",
                hint=f"{close_to(axis, AXES)}Write {KVM}, or a value of an axis, such as bus=nvme.",
                code="VM265",
            )


def lacks(found: Diagnosis, needs: Sequence[str]) -> Iterator[str]:
    """A sentence for each need that the host does not meet: kvm, or a value of an axis such as "bus=nvme".

    A value that some cells can have, and not all ("limited"), is met. Raises ConfigError for a value without a finding.
    """
    there = {f"{one.axis}={one.value}": one for one in found.findings}
    for need in needs:
        if need == KVM:
            if found.host is None or found.host.accel != KVM:
                why = found.host.accel_reason if found.host is not None else found.problem
                yield f"{KVM} is needed, and not here: {why}"
        elif need in there:
            if there[need].status == "no":
                yield f"{need} is needed, and not here: {there[need].why}"
        elif found.problem:
            yield f"{need} is needed, and could not be tried: {found.problem}"
        else:
            axis = need.partition("=")[0]
            raise ConfigError(
                f"--need={need} is no value that is looked at.",
                hint=f"Of {axis} there are: {', '.join(one.value for one in found.findings if one.axis == axis)}.",
                code="VM265",
            )


_GAP = "  "
_NARROWEST_WHY = 40
"""Below this a reason is no longer read; the lines then are wider than the terminal."""


def diagnosis_lines(found: Diagnosis, width: int) -> Sequence[str]:
    """The lines to print, the table's at most `width` characters wide where that leaves room for the reasons."""
    header = [*_header(found, found.host), ""] if found.host is not None else []
    return [*header, *_table(found.findings, width)]


def _header(found: Diagnosis, facts: HostFacts) -> Iterator[str]:
    yield f"host          {facts.name}: {facts.cpu}, {facts.cores} cores, {format_about(facts.memory_bytes)}"
    yield f"kernel        {facts.kernel}, CPU governor {facts.governor}"
    yield f"hypervisor    QEMU {facts.qemu}, libvirt {facts.libvirt}"
    yield f"acceleration  {facts.accel}: {facts.accel_reason}"
    yield f"disks         {facts.folder} on {facts.file_system} ({facts.device}), {format_about(found.free_bytes)} free"
    yield f"appliance     kernel {found.kernel}, in {found.appliance}"
    if found.io_helper:
        yield f"guests        can be restored from saved ones: {found.io_helper} is there"
    else:
        yield f"guests        are booted each: {IO_HELPER} is missing; install {IO_HELPER_PACKAGE}"
    dropped = "dropped before each round" if found.drops_caches else "images are evicted by advice: not root"
    yield f"host caches   {dropped}"
    for number, line in enumerate(found.calibration):
        yield f"{'calibration' if number == 0 else '':<14}{line}"


def _table(findings: Sequence[AxisFinding], width: int) -> Iterator[str]:
    if not findings:
        return
    rows = [("axis", "value", "here", "why"), *((one.axis, one.value, one.status, one.why) for one in findings)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    left = sum(widths) + 3 * len(_GAP)
    last = ""
    for axis, value, status, why in rows:
        # an axis is named once, where its values begin
        words = ("" if axis == last else axis, value, status)
        start = _GAP.join(word.ljust(size) for word, size in zip(words, widths, strict=True)) + _GAP
        room = max(width - left, _NARROWEST_WHY)
        first, *more = textwrap.wrap(why, room, break_on_hyphens=False) or [""]
        yield (start + first).rstrip()
        yield from (" " * left + line for line in more)
        last = axis
