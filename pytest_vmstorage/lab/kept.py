"""Reaches a guest that --vm-keep left running, after its run has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.guest.agent import AgentShell
from pytest_vmstorage.guest.libvirt.embedded import connect_embedded
from pytest_vmstorage.guest.libvirt.hypervisor import LibvirtHypervisor
from pytest_vmstorage.host.lease import Lease
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.lab.opening import driver_cache, lease_book

_RECONNECT_S = 20.0


@contextmanager
def open_kept(run_id: str) -> Iterator[Shell]:
    """A shell in the guest that a run left running with --vm-keep; raises ConfigError, HostError."""
    kept = [lease for lease in lease_book() if lease.kept]
    lease = next((lease for lease in kept if lease.run_id == run_id), None)
    if lease is None:
        there = ", ".join(lease.run_id for lease in kept) or "none"
        raise ConfigError(f"No kept guest belongs to run {run_id}.", hint=f"Runs with a kept guest: {there}.")
    hypervisor = _reconnect(lease)
    try:
        for domain_uuid in reversed(lease.domains):
            domain = hypervisor.find(domain_uuid)
            if domain is not None and domain.answers(_RECONNECT_S):
                yield AgentShell(domain)
                return
        raise ConfigError(f"The guest of run {run_id} runs no more.", hint="`vmstorage reap --kept` clears it away.")
    finally:
        hypervisor.close()


def _reconnect(lease: Lease) -> LibvirtHypervisor:
    if lease.uri is not None:
        return LibvirtHypervisor(lease.uri)
    return connect_embedded(Path(lease.root), driver_cache(), as_root=os.geteuid() == 0)
