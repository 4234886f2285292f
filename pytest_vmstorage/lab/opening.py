"""Opens labs on hosts, undoing all steps where one fails; reaches kept guests and removes what dead runs left."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pytest_vmstorage import leftovers
from pytest_vmstorage.config.buses import Bus
from pytest_vmstorage.config.inventory import LabHost, find_host
from pytest_vmstorage.config.settings import AccelChoice, HostWishes, LabSettings
from pytest_vmstorage.errors import ConfigError, UnsupportedError
from pytest_vmstorage.guest.acceleration import CanaryCache, device_refusal
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.appliance import build as appliances
from pytest_vmstorage.guest.appliance.build import Appliance
from pytest_vmstorage.guest.boot import BootFiles, place_appliance
from pytest_vmstorage.guest.cloud_image.image import place_image
from pytest_vmstorage.guest.cloud_image.network import ImageKeys
from pytest_vmstorage.guest.emulator import find_emulator
from pytest_vmstorage.guest.libvirt.confinement import Confinement
from pytest_vmstorage.guest.libvirt.hypervisor import LibvirtHypervisor, connect_embedded
from pytest_vmstorage.guest.pinning import Pinner
from pytest_vmstorage.guest.protocol import Domain, Hypervisor
from pytest_vmstorage.guest.restore.parking import PARKING
from pytest_vmstorage.guest.restore.restoring import Restoring
from pytest_vmstorage.guest.restore.states import States, remove_states
from pytest_vmstorage.host import shell, ssh
from pytest_vmstorage.host.calibrations import held_calibration
from pytest_vmstorage.host.facts import host_facts
from pytest_vmstorage.host.folders import cache_folder, find_folder, make_run_folder, use_cache_folder
from pytest_vmstorage.host.guard import Guard, Guarded
from pytest_vmstorage.host.lease import Lease, LeaseBook, RunLease, is_dead, new_lease
from pytest_vmstorage.host.lock import HostLease
from pytest_vmstorage.host.settings import HostSettings
from pytest_vmstorage.host.shell import LocalShell, Shell, open_shell
from pytest_vmstorage.lab.acceleration import find_accel
from pytest_vmstorage.lab.factory import GuestFactory, hold
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.machines import Machines
from pytest_vmstorage.lab.reaper import Reaped, daemon_logs, leases_of, reap, reap_remote, remove_logs
from pytest_vmstorage.leftovers import left_drafts
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.spans import span

MOST_AT_ONCE = 4
"""The most guests that boot side by side, on as many cores."""


def open_machines(settings: LabSettings, say: Progress = silent) -> Lab:
    """A lab without a host for guests, where every cell is a machine that the plugin did not make.

    Before a cell's turn nothing is made, and no machine is reached.
    """
    book = lease_book()
    for sentence in _reap_here(book):
        say(str(sentence))
    host = LabHost(name=socket.gethostname(), uri=None, ssh=None, folder="/nonexistent")
    held = RunLease(book, _lease(host).model_copy(update={"root": ""}))
    shell, hypervisor = LocalShell(), NoHypervisor()
    boot = BootFiles(emulator="", kernel="", initrd="", root="")
    machines, teardown = Machines(settings.inventory, book, wait_s=settings.wait_s), ExitStack()
    teardown.callback(machines.close)
    return Lab(
        settings=settings,
        host=host,
        shell=shell,
        hypervisor=hypervisor,
        factory=GuestFactory(shell=shell, host=host, hypervisor=hypervisor, boot=boot, lease=held),
        appliance=None,
        accel=AccelChoice(used="tcg", requested=settings.accel, reason="no guest is made"),
        facts=HostFacts(name=host.name),
        held=held,
        machines=machines,
        teardown=teardown,
        has_guests=False,
    )


def open_lab(settings: LabSettings, say: Progress = silent) -> Lab:
    """Connect to the host and find all that every cell needs; raises ConfigError, HostError, ProvisionError."""
    host = find_host(settings.host, settings.folder, settings.inventory)
    shell = open_shell(host)
    book = lease_book()
    for sentence in _reap_here(book):
        say(str(sentence))
    emulator = find_emulator(shell, host.name)
    pin = _pinner(host, shell, settings.wishes)
    # errors that are known at once are raised before another job is waited for
    chosen, shared = settings.folder is not None, host.uri is not None
    folder = find_folder(shell, host.folder, chosen=chosen, named=host.is_folder_named, shared=shared)
    host = host.model_copy(update={"folder": folder.path})
    with ExitStack() as teardown:
        # the steps run in reverse order: the guests go before the connection, the leases go last
        host_lease = _leased(host, shell, settings, say, teardown)
        held = RunLease(book, _lease(host))
        lease = held.lease
        hold(held, shell, teardown)
        make_run_folder(shell, lease.folder, shared=shared)
        hypervisor = _connect(host, lease, shell)
        teardown.push(held.removal(hypervisor.close))
        if not host.is_local:
            teardown.push(held.removal(lambda: None if held.is_kept else remove_logs(shell, lease.run_id)))
        for sentence in reap_remote(book, host, shell, hypervisor):
            say(str(sentence))
        if isinstance(shell, Guarded):
            shell.guard = _guard(host, lease)
        appliance = _appliance(settings, shell, say)
        boot = BootFiles(emulator=emulator, kernel="", initrd="", root="")
        if appliance is not None:
            boot = place_appliance(host, shell, appliance, emulator, draft=f"{lease.folder}/appliance", say=say)
        if settings.image is not None:
            keys = ImageKeys() if settings.image.reach == "ssh" else None
            placed = place_image(host, shell, settings.image, say, keys, draft=f"{lease.folder}/image")
            boot = boot.model_copy(update={"image": placed, "root_sha256": settings.image.sha256})
        host_settings = HostSettings(shell, lease, book, held.note_settings)
        teardown.push(held.removal(host_settings.restore))
        machines = Machines(settings.inventory, book, wait_s=settings.wait_s)
        teardown.push(held.removal(machines.close))
        factory = GuestFactory(shell=shell, host=host, hypervisor=hypervisor, boot=boot, lease=held, pin=pin)
        teardown.push(held.removal(factory.close))
        host_settings.apply(settings.wishes, lease.folder)
        accel, remember = find_accel(
            settings.accel,
            host=host.name,
            appliance_key=appliance.manifest.key if appliance is not None else "none",
            shell=shell,
            hypervisor=hypervisor,
            factory=factory,
            cache=CanaryCache(cache_folder() / "accel.json"),
            say=say,
            patience_s=settings.timeout_s,
        )
        facts = host_facts(host.name, shell, hypervisor.versions(), accel, folder)
        calibration, told = held_calibration(facts)
        if calibration is None and told:
            say(told)
        update = {"calibration": calibration.id if calibration is not None else "", "calibrated": told}
        facts = facts.model_copy(update=update)
        restorable = calibration.restorable if calibration is not None else {}
        restoring = _restoring(host, shell, hypervisor, factory, held, facts, settings.timeout_s, say, restorable)
        teardown.callback(restoring.close)
        factory.begin_by(restoring.way(settings.boot, accel.used))
        return Lab(
            settings=settings,
            host=host,
            shell=shell,
            hypervisor=hypervisor,
            factory=factory,
            appliance=appliance,
            accel=accel,
            facts=facts,
            calibration=calibration,
            held=held,
            remember_accel=remember,
            host_settings=host_settings,
            # more guests side by side would only wait for each other and for the disk
            at_once=max(1, min(facts.cores, MOST_AT_ONCE)),
            host_lease=host_lease,
            machines=machines,
            restoring=restoring,
            teardown=teardown.pop_all(),
        )


class NoHypervisor:
    """A hypervisor without guests, for labs that make none: it finds no guest and starts none."""

    def start(self, xml: str) -> Domain:  # noqa: ARG002 (as the protocol has it)
        """Raise UnsupportedError."""
        raise UnsupportedError(
            "No guest can be made: this run measures machines that the plugin did not make.", code="VM448"
        )

    def restore(self, xml: str, path: str) -> Domain:  # noqa: ARG002 (as the protocol has it)
        """Raise UnsupportedError."""
        return self.start(xml)

    def find(self, uuid: str) -> Domain | None:  # noqa: ARG002 (as the protocol has it)
        """None."""
        return None

    def forget(self, uuid: str) -> None:
        """Do nothing: no guest is known."""

    def versions(self) -> Mapping[str, str]:
        """No versions."""
        return {}

    def supports_kvm(self, emulator: str) -> bool:  # noqa: ARG002 (as the protocol has it)
        """False."""
        return False

    def disk_buses(self, emulator: str, machine: str) -> frozenset[str]:  # noqa: ARG002 (as the protocol has it)
        """No buses."""
        return frozenset()

    def confinement(self) -> Confinement:
        """No confinement."""
        return Confinement()

    def close(self) -> None:
        """Do nothing: there is no connection."""


def _restoring(
    host: LabHost,
    shell: Shell,
    hypervisor: Hypervisor,
    factory: GuestFactory,
    held: RunLease,
    facts: HostFacts,
    timeout_s: float,
    say: Progress,
    restorable: Mapping[Bus, bool],
) -> Restoring:
    """Restoring of guests from saved ones; a state is valid for this boot of the host and its versions."""
    ours = {"parking": PARKING}
    conditions = {"cpu": facts.cpu, "qemu": facts.qemu, "libvirt": facts.libvirt, "kernel": facts.kernel, **ours}
    boot_id = shell.read("/proc/sys/kernel/random/boot_id").strip()
    states = States(shell, states_folder(host), factory.folder, boot_id=boot_id, conditions=conditions)
    return Restoring(
        hypervisor,
        states,
        xml_of=factory.xml,
        note=held.note_domain,
        timeout_s=timeout_s,
        say=say,
        calibrated=restorable,
    )


def _guard(host: LabHost, lease: Lease) -> Guard:
    """The guard of files that the run may write to on the host, once its folder is there."""
    states, own = states_folder(host), (lease.folder, lease.root)
    kept = ("appliance-", "image-") if not host.is_local else ()
    folders = [f"{one}/" for one in (*own, states) if one]
    return Guard([*folders, *(f"{host.folder}/{one}" for one in kept), daemon_logs(lease.run_id)], of=host.name)


def states_folder(host: LabHost) -> str:
    """The folder of saved guests, from which others are restored."""
    return str(cache_folder() / "states") if host.is_local else f"{host.folder}/states"


def reap_host(host: LabHost, *, kept: bool = False, look_only: bool = False) -> list[Reaped]:
    """Remove, or only list, what dead runs left on that host and, for their leases, on this machine; a sentence each.

    Raises HostError where it cannot be reached.
    """
    book = lease_book()
    if host.uri is None:
        said = [*_reap_here(book, kept=kept, look_only=look_only), *_kept(book, host, kept=kept, look_only=look_only)]
        return [*said, *_reap_states(host, LocalShell(), look_only=look_only)]
    shell = open_shell(host)
    # checked before libvirt's own ssh, which would try for minutes
    shell.run(["true"])
    said = [*_sweep(look_only=look_only), *_kept(book, host, kept=kept, look_only=look_only)]
    said += _reap_states(host, shell, look_only=look_only)
    leases = list(leases_of(book, host, kept=kept))
    if not leases:
        return said
    # a machine that the plugin did not make has no guests of the plugin's, and need not have libvirt
    hypervisor = LibvirtHypervisor(host.uri) if any(one.uri is not None for one in leases) else NoHypervisor()
    try:
        return [*said, *reap_remote(book, host, shell, hypervisor, kept=kept, look_only=look_only)]
    finally:
        hypervisor.close()


def _kept(book: LeaseBook, host: LabHost, *, kept: bool, look_only: bool) -> list[Reaped]:
    """Guests of --vm-keep on that host that stay; listed only where `look_only` is set."""
    if kept or not look_only:
        return []
    here = [lease for lease in book if lease.kept and lease.ssh == host.ssh and not is_dead(lease)]
    again = f"`vmstorage reap --kept{'' if host.is_local else f' --host={host.listed_as}'}` removes it"
    return [Reaped(f"run {one.run_id} kept its guest ({one.owned_by}): {again}") for one in here]


def _reap_states(host: LabHost, shell: Shell, *, look_only: bool) -> list[Reaped]:
    """Remove saved guests; a run that needs one saves it anew."""
    count = remove_states(shell, states_folder(host), look_only=look_only)
    what = f"{count} saved guest(s) in {states_folder(host)}" + ("" if host.is_local else f" on {host.name}")
    told = f"{what} would be removed too; a run that needs one saves it anew" if look_only else f"removed {what}"
    return [Reaped(told)] if count else []


def _appliance(settings: LabSettings, shell: Shell, say: Progress) -> Appliance | None:
    """The appliance that guests boot; with a user's image only the canary needs it, and only where there may be KVM."""
    if settings.image is not None and (settings.accel == "tcg" or device_refusal(shell)):
        return None
    with span("appliance"):
        return appliances.ensure(LocalShell(), say=say)


def _reap_here(book: LeaseBook, *, kept: bool = False, look_only: bool = False) -> list[Reaped]:
    """Remove, or only list, what dead runs left on this machine."""
    return [*reap(book, LocalShell(), kept=kept, look_only=look_only), *_sweep(look_only=look_only)]


def _sweep(*, look_only: bool) -> list[Reaped]:
    """Remove, or only list, files made before there was a lease: their names say whose they are."""
    sweeps = (shell.sweep, ssh.sweep, leftovers.sweep, appliances.sweep)
    found = [phrase for sweep in sweeps for phrase in sweep(look_only=look_only)]
    for draft in () if look_only else left_drafts(cache_folder()):
        draft.unlink(missing_ok=True)
    return [Reaped(f"{one} {'is there' if look_only else 'is removed'}; its process is gone") for one in found]


_RECONNECT_S = 20.0


@contextmanager
def open_kept_guest(run_id: str) -> Iterator[Shell]:
    """A shell in the guest that a run left running with --vm-keep; raises ConfigError, HostError."""
    kept = [lease for lease in lease_book() if lease.kept]
    lease = next((lease for lease in kept if lease.run_id == run_id), None)
    if lease is None:
        there = ", ".join(lease.run_id for lease in kept) or "none"
        raise ConfigError(
            f"No kept guest belongs to run {run_id}.", hint=f"Runs with a kept guest: {there}.", code="VM445"
        )
    hypervisor = LibvirtHypervisor(lease.uri) if lease.uri is not None else _embedded(lease)
    try:
        for domain_uuid in reversed(lease.domains):
            domain = hypervisor.find(domain_uuid)
            if domain is not None and domain.answers(_RECONNECT_S):
                yield AgentShell(domain)
                return
        raise ConfigError(
            f"The guest of run {run_id} no longer runs.",
            hint="`vmstorage reap --kept` removes its remains.",
            code="VM445",
        )
    finally:
        hypervisor.close()


def find_leftover_hosts() -> list[str]:
    """Names of other machines on which dead runs have left leases."""
    return sorted({lease.host or lease.ssh for lease in lease_book() if lease.ssh is not None and is_dead(lease)})


def lease_book() -> LeaseBook:
    """This user's leases on this machine; raises HostError where the cache folder cannot be used."""
    return LeaseBook(use_cache_folder() / "leases")


def driver_cache() -> Path:
    """The folder in which libvirt's embedded driver caches QEMU's capabilities."""
    return cache_folder() / "libvirt"


def _lease(host: LabHost) -> Lease:
    # the root is short, and not below TMPDIR: sockets in it must stay under 108 characters
    root = "/tmp/vms-" if host.uri is None else ""
    return new_lease(f"{host.folder}/run-", uri=host.uri, ssh=host.ssh, host=host.listed_as, root=root)


def _leased(host: LabHost, shell: Shell, settings: LabSettings, say: Progress, undo: ExitStack) -> HostLease | None:
    """The host's lease while the lab is open, where the user wants one: even a canary disturbs a measurement."""
    if settings.wait_s is None:
        return None
    lease = HostLease(shell, host.name, wait_s=settings.wait_s)
    undo.callback(lease.close)
    lease.keep(say)
    return lease


def _pinner(host: LabHost, shell: Shell, wishes: HostWishes) -> Pinner | None:
    if not (wishes.pin or host.cpus):
        return None
    where = f"{host.inventory}, [hosts.{host.listed_as}]"
    pinner = Pinner(shell, strict=wishes.strict, apart=wishes.pin, within=host.cpus, where=where)
    pinner.check()
    return pinner


def _connect(host: LabHost, lease: Lease, shell: Shell) -> LibvirtHypervisor:
    if host.uri is not None:
        return LibvirtHypervisor(host.uri, reach=lambda: shell.run(["true"]))
    Path(lease.root).mkdir(mode=0o700)
    return _embedded(lease)


def _embedded(lease: Lease) -> LibvirtHypervisor:
    return connect_embedded(Path(lease.root), driver_cache(), as_root=os.geteuid() == 0)
