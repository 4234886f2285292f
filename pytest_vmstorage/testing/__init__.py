"""The shipped fakes: builders of runs, a shell that replays, a hypervisor and its guests, a lab of these.

They are real implementations of the protocols that the project itself works through, so that a user's workload,
hook or report can be tested in milliseconds, on a machine without libvirt and QEMU.
"""

from __future__ import annotations

from pytest_vmstorage.testing.builders import (
    in_turns,
    make_baseline,
    make_failure,
    make_host,
    make_measurement,
    make_metric,
    make_run,
)
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.lab import make_guest_shell, make_lab
from pytest_vmstorage.testing.options import LabOptions
from pytest_vmstorage.testing.shell import Asked, FakeShell, NoRecordingError

__all__ = [
    "Asked",
    "FakeDomain",
    "FakeHypervisor",
    "FakeShell",
    "LabOptions",
    "NoRecordingError",
    "in_turns",
    "make_baseline",
    "make_failure",
    "make_guest_shell",
    "make_host",
    "make_host_shell",
    "make_lab",
    "make_measurement",
    "make_metric",
    "make_run",
]
