"""Real guests: these tests fail, and do not skip, where QEMU cannot boot."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pytest_vmstorage.lab import Lab
from pytest_vmstorage.lab_settings import LabSettings
from pytest_vmstorage.opening import open_lab


def pytest_configure(config: pytest.Config) -> None:
    """Marks of these tests."""
    config.addinivalue_line("markers", "own_image: boots a cloud image, which is built once; takes minutes")


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab on this machine for the tests that need no pytest run of their own; a process can open only one."""
    opened = open_lab(LabSettings(boot="fresh"), print)
    yield opened
    opened.close()
