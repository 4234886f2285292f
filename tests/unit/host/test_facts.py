"""A host's facts, as its shell tells them."""

from __future__ import annotations

import os
import re

from pytest_vmstorage.config.settings import AccelChoice
from pytest_vmstorage.host.facts import host_facts
from pytest_vmstorage.host.folders import FolderFacts
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.testing.shell import FakeShell

ACCEL = AccelChoice(used="tcg", requested="auto", reason="no /dev/kvm")
FOLDER = FolderFacts(path="/srv/vms", file_system="xfs", device="/dev/sdb1", free_bytes=1)


def test_this_host_has_facts() -> None:
    """Its kernel, processors and memory are found; folder and acceleration are those given."""
    facts = host_facts("lab01", LocalShell(), {"qemu": "7.2.22"}, ACCEL, FOLDER)
    assert (facts.name, facts.kernel, facts.cores) == ("lab01", os.uname().release, os.sysconf("SC_NPROCESSORS_ONLN"))
    assert facts.memory_bytes > 2**20
    assert (facts.qemu, facts.libvirt) == ("7.2.22", "unknown")
    assert (facts.accel, facts.accel_reason, facts.folder, facts.file_system) == (
        "tcg",
        "no /dev/kvm",
        "/srv/vms",
        "xfs",
    )


def test_a_fact_that_is_hidden_is_unknown() -> None:
    """A host without /proc/cpuinfo or cpufreq, as some containers are."""
    shell = FakeShell()
    shell.answer(re.compile("getconf"), "cpu=\ncores=\nmemory_kib=\nkernel=6.1.0\ngovernor=\n")
    facts = host_facts("lab01", shell, {}, ACCEL, FOLDER)
    assert (facts.cpu, facts.cores, facts.memory_bytes) == ("unknown", 0, 0)
    assert (facts.kernel, facts.governor) == ("6.1.0", "unknown")
