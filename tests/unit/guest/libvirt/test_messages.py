"""What libvirt and QEMU say, as values."""

from __future__ import annotations

import pytest

from pytest_vmstorage.guest.libvirt.messages import given_up, io_error_reason

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


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (
            # QEMU 7.2.22
            "0xfffffff0:  0f ae 2f                 xrstor   (%bx)\r\n",
            "QEMU gave the guest up: KVM failed with an internal error at the instruction 'xrstor (%bx)',"
            " which it cannot run.",
        ),
        (
            # of a long instruction
            "0xffffffff81a01234:  f0 48 0f c7 4e 20        lock cmpxchg16b 0x20(%rsi)\r\n",
            "QEMU gave the guest up: KVM failed with an internal error at the instruction 'lock cmpxchg16b 0x20(%rsi)',"
            " which it cannot run.",
        ),
        ("Cannot access memory\r\n", "QEMU gave the guest up: KVM failed with an internal error."),
        ("", "QEMU gave the guest up: KVM failed with an internal error."),
    ],
)
def test_a_guest_that_was_given_up_is_told_with_its_instruction(said: str, sentence: str) -> None:
    """As QEMU's monitor shows it, without address and bytes."""
    assert given_up(said) == sentence
