"""The KVM canary: boots this run's kernel once per boot of the host, and remembers the result."""

from __future__ import annotations

import time
from collections.abc import Callable

from pytest_vmstorage.config.settings import AccelChoice, AccelRequest
from pytest_vmstorage.errors import GuestDiedError, HypervisorError
from pytest_vmstorage.guest.acceleration import CANARY_S, CanaryCache, choose_accel, device_refusal
from pytest_vmstorage.guest.protocol import Hypervisor
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.lab.factory import GuestFactory
from pytest_vmstorage.progress import Progress
from pytest_vmstorage.results.spans import span


def find_accel(
    requested: AccelRequest,
    *,
    host: str,
    appliance_key: str,
    shell: Shell,
    hypervisor: Hypervisor,
    factory: GuestFactory,
    cache: CanaryCache,
    say: Progress,
    patience_s: float = CANARY_S,
) -> tuple[AccelChoice, Callable[[], None]]:
    """The acceleration for guests of this run, and a function that remembers it once a guest has booted under it.

    Where KVM is demanded the test guest has `patience_s`, a guest's own time to boot, because there is no alternative.
    Were it remembered earlier, a host on which no guest starts would count as one without KVM until its next boot.
    """
    device = "" if requested == "tcg" else device_refusal(shell)
    boot_id = shell.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.strip()
    # with the device's refusal, so that a user who gains access to /dev/kvm need not reboot the host
    words = (host, boot_id, *hypervisor.versions().values(), appliance_key, requested, device)
    key = " ".join(words)
    known = cache.get(key)
    if known is not None:
        return known, lambda: None

    def kvm_refusal() -> str:
        return device or ("" if hypervisor.supports_kvm(factory.emulator) else "libvirt has no KVM here")

    limit_s = max(CANARY_S, patience_s) if requested == "kvm" else CANARY_S
    with span("canary"):
        choice = choose_accel(requested, kvm_refusal=kvm_refusal, try_kvm=lambda: _try_kvm(factory, say, limit_s))
    return choice, lambda: cache.put(key, choice)


def _try_kvm(factory: GuestFactory, say: Progress, limit_s: float) -> float | str:
    """Seconds after which a KVM guest answered, or the reason why none did."""
    say("trying KVM with a test guest")
    begin = time.monotonic()
    try:
        machine = factory.make(None, "kvm")
    except HypervisorError as error:
        return error.what
    try:
        answered = machine.domain.wait_for_agent(limit_s)
    except GuestDiedError as error:
        return error.what
    finally:
        factory.discard(machine)
    return time.monotonic() - begin if answered else f"a test guest did not boot within {limit_s:.0f} s"
