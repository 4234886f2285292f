"""The line that starts a bare QEMU: it has the processor that the plugin's own guest has."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from pytest_vmstorage.cli.calibrate.bare import qemu_argv
from pytest_vmstorage.guest.domain_xml import domain_xml
from unit.guest.restore.test_states import spec


@pytest.mark.parametrize(("accel", "cpu"), [("kvm", "host"), ("tcg", "qemu64")])
def test_the_processor_is_the_hosts_under_kvm(tmp_path: Path, accel: str, cpu: str) -> None:
    """As in the XML; else the bare guest would be slower by what its processor lacks."""
    one = spec().model_copy(update={"accel": accel})
    argv = qemu_argv(one, tmp_path)
    assert argv[argv.index("-cpu") + 1] == cpu
    assert ("host-passthrough" in domain_xml(one)) is (cpu == "host")
    assert f"accel={accel}" in argv[argv.index("-machine") + 1]


@pytest.mark.parametrize("accel", ["kvm", "tcg"])
@pytest.mark.parametrize("vcpus", [1, 2, 4])
def test_it_has_as_many_processors(tmp_path: Path, accel: str, vcpus: int) -> None:
    """Those that are there, and the one that is absent beside one that is emulated."""
    one = spec().model_copy(update={"accel": accel, "vcpus": vcpus})
    argv = qemu_argv(one, tmp_path)
    there, _, most = argv[argv.index("-smp") + 1].partition(",maxcpus=")
    (vcpu,) = ET.fromstring(domain_xml(one)).iterfind("vcpu")
    assert (there, most or there) == (vcpu.get("current", vcpu.text), vcpu.text)
    assert bool(most) is (vcpus == 1 and accel == "tcg")
