"""Real guests: these tests fail, and do not skip, where QEMU cannot boot."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.guest.instance import Begun
from pytest_vmstorage.guest.restore.states import is_proven, neutral_xml
from pytest_vmstorage.host.folders import cache_folder
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab

_CLONE_NEWUTS = 0x04000000
_SHARED = ("appliance", "test-images", "openssh-server")
"""What a worker of pytest-xdist has from the cache of all: what is built once."""


def pytest_configure(config: pytest.Config) -> None:
    """Marks of these tests; and with pytest-xdist a machine for each worker, as far as leases and caches go."""
    config.addinivalue_line("markers", "own_image: boots a cloud image, which is built once; takes minutes")
    config.addinivalue_line("markers", "restored: guests of the common kind may be restored, as runs do by default")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if worker and hasattr(config, "workerinput"):
        _be_a_machine(worker)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test comes first: with several workers the others are done beside it."""
    items.sort(key=lambda item: item.get_closest_marker("own_image") is None)


def _be_a_machine(worker: str) -> None:
    """Have a host name of its own, by which the host's lease goes, and a cache, in which runs find what was left.

    Runs of two workers would wait for each other otherwise, and reap what the other's tests leave to be reaped.
    """
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUTS) == 0:
        socket.sethostname(f"{socket.gethostname()}-{worker}")
    shared = cache_folder()
    own = shared / "test-workers" / worker
    own.mkdir(parents=True, exist_ok=True)
    for name in _SHARED:
        (shared / name).mkdir(exist_ok=True)
        if not (own / name).is_symlink():
            (own / name).symlink_to(shared / name)
    os.environ["VMSTORAGE_CACHE"] = str(own)


# a shell's background job ignores Ctrl-C, and so would the runs that are started here, of which some are sent one
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

COMMON = StorageConfig()
"""Its bus, its memory and the like are those of most tests' guests."""


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab on this machine for the tests that need no pytest run of their own; a process can open only one."""
    opened = open_lab(LabSettings(boot="fresh"), print)
    yield opened
    opened.close()
    # a removed file takes room as long as it is mapped
    assert opened.factory.folder not in Path("/proc/self/maps").read_text()


@pytest.fixture(autouse=True)
def _beginning(request: pytest.FixtureRequest) -> None:
    """Have guests begin as the test has it: each by a boot, or those of the common kind as a saved one."""
    if "lab" in request.fixturenames and "saved" not in request.fixturenames:
        lab: Lab = request.getfixturevalue("lab")
        is_restored = request.node.get_closest_marker("restored") is not None
        # a test that makes restoring fail would have the guests of all later ones in this process booted
        assert lab.provisioner.restoring is not None
        lab.provisioner.restoring._distrusted.clear()
        lab.factory.begin_by(functools.partial(_begin_quickly, lab) if is_restored else None)


def _begin_quickly(lab: Lab, spec: GuestSpec) -> Begun:
    """Restored if it is of the kind that most tests have; to save one of another kind takes longer than to boot it."""
    assert lab.provisioner.restoring is not None
    if is_proven(spec) and neutral_xml(spec) == neutral_xml(spec.model_copy(update={"config": COMMON})):
        return lab.provisioner.restoring.begin(spec)
    return Begun(lab.hypervisor.start(lab.factory.xml(spec)))
