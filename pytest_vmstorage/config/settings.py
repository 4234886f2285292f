"""What the user chose for a run beside its tests: host, folder, acceleration, hygiene, settings of the host; frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.guest_image import ListedImage
from pytest_vmstorage.config.inventory import Inventory
from pytest_vmstorage.errors import ConfigError


class HostWishes(BaseModel):
    """`pin`: a core for each of QEMU's threads. `strict`: what cannot be pinned is refused, and not only said.

    `governor` is that of all CPUs, `turbo` "on" or "off", `scheduler` that of the device below the disk; "" leaves it.
    """

    model_config = ConfigDict(frozen=True)

    pin: bool = False
    strict: bool = False
    governor: str = ""
    turbo: str = ""
    scheduler: str = ""


STEPS: Mapping[str, str] = {
    "guest-caches": "the disk's pages are dropped from the guest's cache before each round",
    "host-caches": "the host's cached pages are dropped before each round",
    "sync": "what guest and host hold is written back before each round",
    "turns": "rounds are taken in turns with those of other cells",
    "warmup": "a round is run and thrown away before those measured",
    "steady-state": "five rounds or more are held against the SNIA's rule",
    "cache-size": "what a workload works on is held against the memory of guest and host",
    "zero-check": "zeros are not written where a layer stores them as nothing",
}
"""Each step that is on by default, by the name under which --vm-without leaves it out."""

_DROPS = ("guest-caches", "host-caches")


_JUDGES_ONLY = ("turns", "steady-state", "cache-size", "zero-check")
"""Steps that say something of a figure, refuse it, or spread it over the run, and do not change it."""


def matters(without: Iterable[str]) -> tuple[str, ...]:
    """Of steps that were left out those without which a figure is another, in order of STEPS."""
    left_out = set(without)
    return tuple(name for name in STEPS if name in left_out and name not in _JUDGES_ONLY)


class Hygiene(BaseModel):
    """The steps of a run; `without` are those left out, by their names in STEPS."""

    model_config = ConfigDict(frozen=True)

    without: tuple[str, ...] = ()

    def has(self, step: str) -> bool:
        """Whether that step is taken."""
        return step not in self.without

    def words(self, step: str, *, done: str, left_out: str) -> str:
        """What stands in the row of that step: what was done, or what was not and by which option."""
        return done if self.has(step) else f"{left_out} ({_option(step)})"

    def caches(self, step: str, *, done: str) -> str:
        """The same of guest-caches or host-caches, which are written back even where they are not dropped."""
        left_out = "written back, not dropped" if self.has("sync") else "neither written back nor dropped"
        return self.words(step, done=done, left_out=left_out)


def parse_without(texts: Iterable[str]) -> Hygiene:
    """What --vm-without names, commas between names; raises ConfigError for a name that no step has."""
    given = dict.fromkeys(name.strip() for text in texts for name in text.split(","))
    names = tuple(name for name in given if name)
    for name in names:
        if name not in STEPS:
            raise ConfigError(
                f"{_option(name)} names no step that could be left out.", hint=f"It is one of: {', '.join(STEPS)}."
            )
    dropped = [name for name in _DROPS if name not in names]
    if "sync" in names and dropped:
        raise ConfigError(
            f"{_option('sync')} leaves nothing to drop: a page that was not written back stays in its cache.",
            hint=f"Leave out {' and '.join(dropped)} as well: {_option(','.join(['sync', *_DROPS]))}.",
        )
    return Hygiene(without=names)


def _option(names: str) -> str:
    return f"--vm-without={names}"


Accel = Literal["kvm", "tcg"]

AccelRequest = Literal["auto", "kvm", "tcg"]


class AccelChoice(BaseModel):
    """What guests run under, what was asked for, and why it was chosen in one clause."""

    model_config = ConfigDict(frozen=True)

    used: Accel
    requested: AccelRequest
    reason: str


Boot = Literal["restore", "fresh"]
"""How guests begin: restored from a saved one wherever that can be, or booted each."""


class LabSettings(BaseModel):
    """What the user chose; `timeout_s` is a guest's time to boot, `wait_s` how long to wait for the host's lease.

    Without it the host is not leased for the whole run. `inventory` is what vmstorage.toml says. Guests boot from
    `image`, None for the appliance. `boot` says whether they are restored where they can be, None where that is proven.
    """

    model_config = ConfigDict(frozen=True)

    host: str | None = None
    folder: str | None = None
    accel: AccelRequest = "auto"
    timeout_s: float = 120.0
    keep: bool = False
    inventory: Inventory | None = None
    hygiene: Hygiene = Hygiene()
    wishes: HostWishes = HostWishes()
    wait_s: float | None = None
    image: ListedImage | None = None
    boot: Boot | None = None
