"""KVM or software emulation: decided by a boot of this run's kernel, never by /dev/kvm alone.

On a host with a paravirtual or nested KVM every cheap test says yes, and a stock kernel still crawls
(facts: a kernel that boots in 2.3 s under TCG was in its decompressor after 24 s).
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from pathlib import Path

from pydantic import ValidationError

from pytest_vmstorage.config.settings import AccelChoice, AccelRequest
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.leftovers import write_whole

CANARY_S = 15.0
"""Time that a KVM guest has to answer: hardware needs 1 to 2 s, software emulation here 2 to 3 s."""


def choose_accel(
    requested: AccelRequest, *, kvm_refusal: Callable[[], str], try_kvm: Callable[[], float | str]
) -> AccelChoice:
    """Decide once for a run; `try_kvm` boots a KVM guest and returns its boot time in s, or the reason of its failure.

    Raises HostError where KVM was demanded and does not work.
    """
    if requested == "tcg":
        return AccelChoice(used="tcg", requested=requested, reason="asked for")
    reason = kvm_refusal()
    if not reason:
        outcome = try_kvm()
        if isinstance(outcome, float):
            return AccelChoice(used="kvm", requested=requested, reason=f"a test guest booted in {outcome:.1f} s")
        # QEMU's own words can be a page of them
        reason = textwrap.shorten(f"KVM opens, but {outcome.rstrip('.')}", 180, placeholder=" …")
    if requested == "kvm":
        raise HostError(
            f"--vm-accel=kvm: {reason}.", hint="Use --vm-accel=auto or tcg, or a host whose KVM works.", code="VM407"
        )
    return AccelChoice(used="tcg", requested=requested, reason=reason)


def device_refusal(shell: Shell) -> str:
    """The reason why /dev/kvm cannot be opened on the host, "" where it can, which proves nothing more."""
    if not shell.run(["test", "-e", "/dev/kvm"]).ok:
        return "there is no /dev/kvm"
    # not `test -r`: a container's device filter refuses only the open
    if not shell.run(["sh", "-c", "exec 3<>/dev/kvm"]).ok:
        return "/dev/kvm cannot be opened by this user"
    return ""


class CanaryCache:
    """Canary results by host, boot, QEMU and kernel, so that a run waits for a slow refusal once per boot."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get(self, key: str) -> AccelChoice | None:
        """The remembered choice, None where it is missing or unreadable."""
        try:
            return AccelChoice.model_validate(self._entries()[key])
        except (KeyError, ValidationError):
            return None

    def put(self, key: str, choice: AccelChoice) -> None:
        """Remember a choice; only the newest few dozen boots are kept."""
        entries = {**self._entries(), key: choice.model_dump()}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(dict(list(entries.items())[-32:])))

    def _entries(self) -> dict[str, object]:
        try:
            entries = json.loads(self._path.read_text())
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}
