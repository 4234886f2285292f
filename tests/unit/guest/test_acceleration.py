"""KVM or emulation: decided by trying, told with its reason, remembered for one boot.

Tests of `guest.acceleration` and `lab.acceleration`.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from pytest_vmstorage.config.settings import AccelChoice, AccelRequest
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.guest.acceleration import CanaryCache, choose_accel, device_refusal
from pytest_vmstorage.lab.acceleration import find_accel
from pytest_vmstorage.testing.shell import FakeShell


def never() -> str:
    """What must not be asked."""
    raise AssertionError("asked in vain")


def outcome(value: float | str) -> Callable[[], float | str]:
    """A test guest that ended so."""
    return lambda: value


def test_emulation_that_was_asked_for_needs_no_trial() -> None:
    """tcg is tcg."""
    choice = choose_accel("tcg", kvm_refusal=never, try_kvm=never)
    assert choice == AccelChoice(used="tcg", requested="tcg", reason="asked for")


@pytest.mark.parametrize("requested", ["auto", "kvm"])
def test_kvm_is_used_where_a_guest_booted_under_it(requested: AccelRequest) -> None:
    """And the row says how long that took."""
    choice = choose_accel(requested, kvm_refusal=lambda: "", try_kvm=outcome(1.23))
    assert (choice.used, choice.requested, choice.reason) == ("kvm", requested, "a test guest booted in 1.2 s")


def test_without_a_device_no_guest_is_tried() -> None:
    """The reason is the device's."""
    choice = choose_accel("auto", kvm_refusal=lambda: "there is no /dev/kvm", try_kvm=never)
    assert (choice.used, choice.reason) == ("tcg", "there is no /dev/kvm")


def test_a_kvm_that_opens_and_does_not_boot_is_not_used() -> None:
    """A paravirtual KVM says yes to every cheap question."""
    choice = choose_accel("auto", kvm_refusal=lambda: "", try_kvm=outcome("a test guest did not boot within 15 s."))
    assert choice.used == "tcg"
    assert choice.reason == "KVM opens, but a test guest did not boot within 15 s"


@pytest.mark.parametrize("refused", ["there is no /dev/kvm", ""])
def test_a_kvm_that_was_demanded_is_never_replaced(refused: str) -> None:
    """One sentence with the reason and the ways out."""
    with pytest.raises(HostError) as caught:
        choose_accel("kvm", kvm_refusal=lambda: refused, try_kvm=outcome("it died."))
    reason = refused or "KVM opens, but it died"
    assert caught.value.told == f"--vm-accel=kvm: {reason}. Use --vm-accel=auto or tcg, or a host whose KVM works."


@pytest.mark.parametrize(
    ("exists", "opens", "reason"),
    [(1, 0, "there is no /dev/kvm"), (0, 2, "/dev/kvm cannot be opened by this user"), (0, 0, "")],
)
def test_a_device_is_opened_and_not_looked_at(exists: int, opens: int, reason: str) -> None:
    """A container's device filter refuses only the opening."""
    shell = FakeShell().answer(["test", "-e", "/dev/kvm"], returncode=exists)
    shell.answer(["sh", "-c", "exec 3<>/dev/kvm"], returncode=opens)
    assert device_refusal(shell) == reason


CHOICE = AccelChoice(used="kvm", requested="auto", reason="a test guest booted in 1.0 s")


def test_a_choice_is_remembered_by_its_key(tmp_path: Path) -> None:
    """Another boot, QEMU or appliance is another key."""
    cache = CanaryCache(tmp_path / "not" / "yet" / "accel.json")
    assert cache.get("a") is None
    cache.put("a", CHOICE)
    assert cache.get("a") == CHOICE
    assert cache.get("b") is None


def test_only_the_newest_choices_are_kept(tmp_path: Path) -> None:
    """A machine that boots daily does not grow the file for ever."""
    cache = CanaryCache(tmp_path / "accel.json")
    for number in range(40):
        cache.put(str(number), CHOICE)
    assert len(json.loads((tmp_path / "accel.json").read_text())) == 32
    assert cache.get("7") is None
    assert cache.get("39") == CHOICE


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"a": 3}', '{"a": {"used": "xen"}}'])
def test_a_damaged_memory_is_none(tmp_path: Path, text: str) -> None:
    """It costs another trial, and no traceback."""
    (tmp_path / "accel.json").write_text(text)
    cache = CanaryCache(tmp_path / "accel.json")
    assert cache.get("a") is None
    cache.put("a", CHOICE)
    assert cache.get("a") == CHOICE


def test_a_draft_is_no_other_processs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """xdist workers write at the same time: the one that comes second still has its draft."""
    moved = threading.Event()
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        if not moved.is_set():
            moved.set()
            monkeypatch.setattr("os.getpid", lambda: 4711)
            CanaryCache(tmp_path / "accel.json").put("other", CHOICE)
        return real(self, target)

    monkeypatch.setattr(Path, "replace", replace)
    CanaryCache(tmp_path / "accel.json").put("mine", CHOICE)
    assert CanaryCache(tmp_path / "accel.json").get("mine") == CHOICE
    assert [path.name for path in tmp_path.iterdir()] == ["accel.json"]


class SlowPool:
    """A pool whose test guest answers after that many seconds; `asked` is for how long it was waited for."""

    emulator = "/usr/bin/qemu-system-x86_64"

    def __init__(self, answers_after_s: float) -> None:
        self.asked = 0.0
        self._after_s = answers_after_s
        self.domain = self

    def make(self, *_what: object) -> SlowPool:
        """The guest."""
        return self

    def discard(self, _machine: object) -> None:
        """It goes."""

    def wait_for_agent(self, limit_s: float) -> bool:
        """Without waiting."""
        self.asked = limit_s
        return self._after_s < limit_s

    def versions(self) -> dict[str, str]:
        """Of the hypervisor."""
        return {"qemu": "7.2"}

    def supports_kvm(self, _emulator: str) -> bool:
        """Of the hypervisor."""
        return True


@pytest.mark.parametrize(("requested", "used", "asked_s"), [("auto", "tcg", 15.0), ("kvm", "kvm", 600.0)])
def test_a_slow_kvm_is_for_who_demands_it(requested: AccelRequest, used: str, asked_s: float, tmp_path: Path) -> None:
    """As in a host that is itself a guest: by itself a run turns to emulation after 15 s, asked for KVM it waits."""
    pool = SlowPool(50.0)
    shell = FakeShell().answer(re.compile("kvm")).answer(re.compile("boot_id"), "b\n")
    choice, _ = find_accel(
        requested,
        host="lab01",
        appliance_key="k",
        shell=shell,
        hypervisor=cast("Any", pool),
        factory=cast("Any", pool),
        cache=CanaryCache(tmp_path / "accel.json"),
        say=lambda _sentence: None,
        patience_s=600.0,
    )
    assert (choice.used, pool.asked) == (used, asked_s)
