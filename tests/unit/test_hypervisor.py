"""In which order guests are begun through libvirt; none is begun, real ones are in tests/guest."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import NoReturn

import pytest
from test_states import spec

from pytest_vmstorage.provision import hypervisor as hypervisor_module
from pytest_vmstorage.provision.domain import domain_xml
from pytest_vmstorage.provision.hypervisor import LibvirtHypervisor


@pytest.mark.parametrize(("encryption", "alone"), [("luks", True), ("off", False)])
def test_a_guest_with_a_passphrase_is_begun_alone(
    monkeypatch: pytest.MonkeyPatch, encryption: str, alone: bool
) -> None:
    """Restored or booted: the process knows the passphrase, and would forget it for another one."""
    pytest.importorskip("libvirt_qemu")
    connection = SimpleNamespace(current=lambda: None, close=lambda: None)
    monkeypatch.setattr(hypervisor_module, "Connection", lambda *_args, **_options: connection)
    monkeypatch.setattr(hypervisor_module, "start_event_loop", lambda _libvirt: None)
    hypervisor = LibvirtHypervisor("qemu:///system")
    begun: list[tuple[str, str, bool]] = []

    def one(name: str, emulator: str, *, alone: bool) -> NoReturn:
        begun.append((name, emulator, alone))
        raise InterruptedError

    monkeypatch.setattr(hypervisor, "_starts", SimpleNamespace(one=one))
    xml = domain_xml(spec(format="qcow2", encryption=encryption))
    for begin in (lambda: hypervisor.start(xml), lambda: hypervisor.restore(xml, "/srv/state-1")):
        with contextlib.suppress(InterruptedError):
            begin()
    assert begun == [("vms-r-1", "/usr/bin/env", alone)] * 2
