"""What libvirt and QEMU say, as values."""

from __future__ import annotations

import pytest

from pytest_vmstorage.guest.libvirt.messages import io_error_reason

RECORDED = (
    '{"device":"","node-name":"libvirt-1-format","reason":"No space left on device","operation":"write",'
    '"action":"report"}'
)
"""QEMU 7.2, where the image's folder is full."""


@pytest.mark.parametrize(
    ("details", "reason"), [(RECORDED, "No space left on device"), ('{"device":""}', ""), (None, "")]
)
def test_why_an_io_failed_is_in_qemus_words(details: str | None, reason: str) -> None:
    """Old ones say nothing."""
    assert io_error_reason(details) == reason
