"""Errors: data with a sentence, and one outcome each."""

from __future__ import annotations

import inspect
import threading
from types import SimpleNamespace

import pytest

from pytest_vmstorage import errors
from pytest_vmstorage.errors import (
    AttestationError,
    BootTimeoutError,
    GuestDiedError,
    GuestSilentError,
    HypervisorError,
    VmStorageError,
    WorkloadError,
)
from pytest_vmstorage.guest.libvirt import hypervisor


def test_an_error_is_a_sentence_and_what_to_do() -> None:
    """str() is both, `what` the first alone; without a hint there is no stray space."""
    assert str(VmStorageError("It broke.", hint="Mend it.")) == "It broke. Mend it."
    assert VmStorageError("It broke.", hint="Mend it.").what == "It broke."
    assert str(VmStorageError("It broke.")) == "It broke."


def test_a_guests_error_ends_with_its_console() -> None:
    """The console's lines stand below the sentence, marked as what they are."""
    error = BootTimeoutError("No answer.", console="one\ntwo")
    assert str(error) == "No answer.\n  the guest's console ended with:\n    | one\n    | two"
    assert str(BootTimeoutError("No answer.")) == "No answer."


def test_a_tools_error_ends_with_its_last_15_lines() -> None:
    """A tool that prints a book is quoted, not reprinted."""
    text = str(WorkloadError("fio failed.", hint="Look.", output="\n".join(f"line {n}" for n in range(40))))
    assert text.startswith("fio failed. Look.\n  the tool's output ended with:\n    | line 25\n")
    assert text.endswith("    | line 39")


def test_an_attestation_error_shows_both_values() -> None:
    """Field, asked and found are data and stand in the sentence."""
    error = AttestationError("cache", asked="none", found="writeback", hint="Look.")
    assert str(error) == "cache was asked to be none but is writeback. Look."
    assert (error.field, error.asked, error.found) == ("cache", "none", "writeback")


def test_a_hypervisors_error_carries_libvirts_number() -> None:
    """-1 where libvirt gave none."""
    assert HypervisorError("No.", number=67).number == 67
    assert HypervisorError("No.").number == -1


def test_the_tree_in_the_docstring_is_the_tree_in_the_code() -> None:
    """Every class stands in the drawing, as deep as it is derived."""
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        name = next((word for word in line.split() if word.endswith("Error")), None)
        if name is not None:
            drawn[name] = (len(line) - len(line.lstrip(" │├└─"))) // 4
    found = {
        name: len(kind.__mro__) - len(VmStorageError.__mro__)
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, VmStorageError)
    }
    assert drawn == found


class LibvirtError(Exception):
    """As much of libvirt.libvirtError as is read."""

    def __init__(self, code: int, message: str) -> None:
        self._code = code
        self._message = message

    def get_error_code(self) -> int:
        """libvirt's number."""
        return self._code

    def get_error_message(self) -> str:
        """libvirt's words."""
        return self._message


LIBVIRT = SimpleNamespace(
    libvirtError=LibvirtError,
    VIR_ERR_NO_DOMAIN=42,
    VIR_ERR_OPERATION_INVALID=55,
    VIR_ERR_AGENT_UNRESPONSIVE=86,
    VIR_ERR_AGENT_UNSYNCED=92,
)
"""As much of the module libvirt as is read, with its numbers."""


@pytest.mark.parametrize(
    ("code", "ended", "kind", "what"),
    [
        (67, None, HypervisorError, "doing it failed: not supported: no such bus."),
        (55, None, HypervisorError, "doing it failed: not supported: no such bus."),
        (67, False, HypervisorError, "doing it failed: not supported: no such bus."),
        (86, False, GuestSilentError, "doing it: the guest's agent does not answer (not supported: no such bus)."),
        (42, False, GuestDiedError, "The guest ended during: doing it."),
        (55, False, GuestDiedError, "The guest ended during: doing it."),
        (38, True, GuestDiedError, "The guest ended during: doing it."),
    ],
)
def test_libvirts_errors_become_ours(
    monkeypatch: pytest.MonkeyPatch, code: int, ended: bool | None, kind: type[VmStorageError], what: str
) -> None:
    """A guest can only have died where there was one: else libvirt's own words are told, with its number."""
    monkeypatch.setattr(hypervisor, "load_libvirt", lambda: LIBVIRT)
    event = None if ended is None else threading.Event()
    if event is not None and ended:
        event.set()
    with pytest.raises(VmStorageError) as caught, hypervisor.translation("doing it", ended=event):
        raise LibvirtError(code, "not supported:\n no such  bus")
    assert type(caught.value) is kind
    assert caught.value.what == what
    assert getattr(caught.value, "number", code) == code


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (38, "Unable to read from agent: Connection reset by peer"),
        (38, "Unable to write to agent: Broken pipe"),
        (1, "internal error: End of file from agent socket"),
    ],
)
def test_a_channel_that_breaks_is_that_of_a_guest_that_ends(
    monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    """libvirt's agent channel is reset by a QEMU that was killed; that it ended libvirt tells a moment later."""
    monkeypatch.setattr(hypervisor, "load_libvirt", lambda: LIBVIRT)
    ended = threading.Event()
    threading.Timer(0.1, ended.set).start()
    asking = hypervisor.translation("asking it", ended=ended)
    with pytest.raises(GuestDiedError, match="The guest ended during: asking it"), asking:
        raise LibvirtError(code, message)


def test_a_binding_that_fails_without_a_reason_is_an_error_of_ours() -> None:
    """As libvirt's did once with a damaged saved guest."""
    said = "<built-in function virDomainRestoreFlags> returned a result with an exception set"
    with pytest.raises(HypervisorError, match=r"restoring it failed, and libvirt's .* gave no reason"):
        fail_in_a_binding(said)


def fail_in_a_binding(said: str) -> None:
    """What CPython raises where an extension module returns a result and an exception."""
    with hypervisor.translation("restoring it"):
        raise SystemError(said)
