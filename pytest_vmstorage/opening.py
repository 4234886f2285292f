"""Opens a lab: connects to its host, finds all that every cell needs, and undoes that where one step fails."""

from __future__ import annotations

import os
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

from pytest_vmstorage.command import LocalShell
from pytest_vmstorage.facts import host_facts
from pytest_vmstorage.inventory import LabHost, find_host
from pytest_vmstorage.lab import Lab, LabSettings
from pytest_vmstorage.provision import appliance as appliances
from pytest_vmstorage.provision.accel import CanaryCache
from pytest_vmstorage.provision.boot import find_emulator, place_appliance
from pytest_vmstorage.provision.canary import find_accel
from pytest_vmstorage.provision.disk import prepare_folder
from pytest_vmstorage.provision.embedded import connect_embedded
from pytest_vmstorage.provision.host_settings import HostSettings
from pytest_vmstorage.provision.hypervisor import LibvirtHypervisor
from pytest_vmstorage.provision.lease import LIFETIME_S, Lease, LeaseBook, this_process
from pytest_vmstorage.provision.pinning import Pinner
from pytest_vmstorage.provision.pool import GuestPool
from pytest_vmstorage.provision.reaper import reap, reap_remote
from pytest_vmstorage.say import Say, silent

MOST_AT_ONCE = 4
"""Guests that boot side by side at most, on as many cores."""


def open_lab(settings: LabSettings, say: Say = silent) -> Lab:
    """Connect to the host and find all that every cell needs; raises ConfigError, HostError, ProvisionError."""
    host = find_host(settings.host, settings.folder, settings.inventory)
    shell = host.shell()
    book = lease_book()
    for sentence in reap(book, LocalShell()):
        say(sentence)
    emulator = find_emulator(shell, host.name)
    folder = prepare_folder(shell, host.folder, chosen=settings.folder is not None)
    lease = _lease(host)
    book.write(lease)
    with ExitStack() as undo:
        # the last line here is the first to be run: the guests go before the connection, the lease goes last
        undo.callback(book.drop, lease)
        undo.callback(shell.run, ["rm", "-rf", "--one-file-system", "--", *filter(None, (lease.folder, lease.root))])
        hypervisor = _connect(host, lease)
        undo.callback(hypervisor.close)
        for sentence in reap_remote(book, host, shell, hypervisor):
            say(sentence)
        appliance = appliances.ensure(LocalShell(), say=say)
        shell.run(["mkdir", "-p", "-m", "755", "--", lease.folder])
        boot = place_appliance(host, shell, appliance, emulator, say)
        pin = Pinner(shell, strict=settings.wishes.strict) if settings.wishes.pin else None
        pool = GuestPool(shell=shell, host=host, hypervisor=hypervisor, boot=boot, lease=lease, book=book, pin=pin)
        undo.callback(pool.close)
        host_settings = HostSettings(shell, lease, book, pool.note_settings)
        pool.when_closed(host_settings.restore)
        host_settings.apply(settings.wishes, lease.folder)
        accel, remember = find_accel(
            settings.accel,
            host=host.name,
            appliance_key=appliance.manifest.key,
            shell=shell,
            hypervisor=hypervisor,
            pool=pool,
            cache=CanaryCache(appliances.cache_folder() / "accel.json"),
            say=say,
        )
        facts = host_facts(host.name, shell, hypervisor.versions(), accel, folder)
        undo.pop_all()
    # more side by side would only wait for each other and for the disk
    at_once = max(1, min(facts.cores, MOST_AT_ONCE))
    return Lab(
        settings, host, shell, hypervisor, pool, appliance, accel, facts, lease, remember, host_settings, at_once
    )


def lease_book() -> LeaseBook:
    """This user's leases on this machine."""
    return LeaseBook(appliances.cache_folder() / "leases")


def driver_cache() -> Path:
    """Where libvirt's embedded driver keeps what it found out about QEMU."""
    return appliances.cache_folder() / "libvirt"


def _lease(host: LabHost) -> Lease:
    run_id = uuid.uuid4().hex[:10]
    return Lease(
        run_id=run_id,
        owner=this_process(),
        expires=time.time() + LIFETIME_S,
        uri=host.uri,
        ssh=host.ssh,
        folder=f"{host.folder}/run-{run_id}",
        # short, and not below TMPDIR: sockets in it must stay under 108 characters
        root=f"/tmp/vms-{run_id}" if host.uri is None else "",
    )


def _connect(host: LabHost, lease: Lease) -> LibvirtHypervisor:
    if host.uri is not None:
        return LibvirtHypervisor(host.uri)
    root = Path(lease.root)
    root.mkdir(mode=0o700)
    return connect_embedded(root, driver_cache(), as_root=os.geteuid() == 0)
