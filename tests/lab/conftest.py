"""The laboratory of these tests, one for all of them; a host that a test broke is mended before the next."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from kvm_host import KvmHost, on_lab_host, on_machine
from laboratory import Host, Laboratory, laboratory
from machine import Machine
from machine_image import machine_image
from project import Project, project_on


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which host the tests of KVM are about."""
    parser.addoption(
        "--kvm", choices=("machine", "here"), default="machine", help="whose KVM is tested (tox -e kvm: here)"
    )


@pytest.fixture(scope="session")
def whole_laboratory() -> Iterator[Laboratory]:
    """The one laboratory."""
    with laboratory() as made:
        yield made


@pytest.fixture
def lab(whole_laboratory: Laboratory) -> Iterator[Laboratory]:
    """The laboratory, mended afterwards."""
    yield whole_laboratory
    whole_laboratory.mend()


@pytest.fixture
def lab01(lab: Laboratory) -> Host:
    """The first lab host."""
    return lab.host("lab01")


@pytest.fixture
def project(lab: Laboratory) -> Project:
    """A project with one test of one cell."""
    return Project(lab, Path(tempfile.mkdtemp(prefix="project-", dir=lab.folder)))


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest) -> Iterator[Machine]:
    """The lab host that is a virtual machine; what takes long is told on the terminal."""
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    assert reporter is not None
    with (
        laboratory(hosts=False) as made,
        Machine(made, machine_image(reporter.write_line)).running(reporter.write_line) as running,
    ):
        yield running


@pytest.fixture
def machine_project(machine: Machine) -> Project:
    """A project for runs on that machine, with its group and its dataset listed."""
    return project_on(machine)


@pytest.fixture(scope="session")
def kvm_host(request: pytest.FixtureRequest) -> KvmHost:
    """The lab host with KVM: the machine, or by `--kvm=here` a lab host of this machine."""
    if request.config.getoption("--kvm") == "machine":
        return on_machine(request.getfixturevalue("machine"))
    lab = request.getfixturevalue("whole_laboratory")
    return on_lab_host(lab, lab.host("lab01"))
