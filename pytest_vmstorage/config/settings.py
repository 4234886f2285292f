"""Settings of a run: host, folder, acceleration, hygiene, and wishes for the host; frozen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.guest_image import ListedImage
from pytest_vmstorage.config.inventory import Inventory
from pytest_vmstorage.errors import ConfigError


class HostWishes(BaseModel):
    """`pin`: a core for each of QEMU's threads. `strict`: threads that cannot be pinned are an error, not a caution.

    `governor` is that of all CPUs, `turbo` "on" or "off", `scheduler` that of the device below the disk; "" keeps each.
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
    "sync": "dirty pages of guest and host are written back before each round",
    "turns": "rounds are taken in turns with those of other cells",
    "warmup": "a round is run and thrown away before those measured",
    "steady-state": "five rounds or more are held against the SNIA's rule",
    "cache-size": "the region of a workload is held against the memory of guest and host",
    "zero-check": "zeros are not written where a layer stores them as nothing",
}
"""Each step that is on by default, by the name under which --vm-without leaves it out."""

_DROPS = ("guest-caches", "host-caches")

_JUDGES_ONLY = ("turns", "steady-state", "cache-size", "zero-check")
"""Steps that comment on a figure, refuse it, or spread it over the run, and do not change it."""


def matters(without: Iterable[str]) -> tuple[str, ...]:
    """The left-out steps whose absence changes figures, in order of STEPS."""
    left_out = set(without) - set(_JUDGES_ONLY)
    return tuple(name for name in STEPS if name in left_out)


class Hygiene(BaseModel):
    """The steps of a run; `without` are the left-out ones, by their names in STEPS."""

    model_config = ConfigDict(frozen=True)

    without: tuple[str, ...] = ()

    def has(self, step: str) -> bool:
        """Whether that step is taken."""
        return step not in self.without

    def words(self, step: str, *, done: str, left_out: str) -> str:
        """The text for that step in a row: `done`, or `left_out` with the option that leaves it out."""
        return done if self.has(step) else f"{left_out} ({_option(step)})"

    def caches(self, step: str, *, done: str) -> str:
        """The same for guest-caches or host-caches, which are written back even where they are not dropped."""
        left_out = "written back, not dropped" if self.has("sync") else "neither written back nor dropped"
        return self.words(step, done=done, left_out=left_out)


def parse_without(texts: Iterable[str]) -> Hygiene:
    """The steps that --vm-without names, separated by commas; raises ConfigError for an unknown name."""
    given = dict.fromkeys(name.strip() for text in texts for name in text.split(","))
    names = tuple(name for name in given if name)
    for name in names:
        if name not in STEPS:
            hint = f"It is one of: {', '.join(STEPS)}."
            raise ConfigError(f"{_option(name)} names no step that could be left out.", hint=hint, code="VM206")
    dropped = [name for name in _DROPS if name not in names]
    if "sync" in names and dropped:
        raise ConfigError(
            f"{_option('sync')} leaves nothing to drop: a page that was not written back stays in its cache.",
            hint=f"Leave out {' and '.join(dropped)} as well: {_option(','.join(['sync', *_DROPS]))}.",
            code="VM206",
        )
    return Hygiene(without=names)


def _option(names: str) -> str:
    return f"--vm-without={names}"


Accel = Literal["kvm", "tcg"]

AccelRequest = Literal["auto", "kvm", "tcg"]


class AccelChoice(BaseModel):
    """The acceleration of guests, the requested one, and the reason for the choice in one clause."""

    model_config = ConfigDict(frozen=True)

    used: Accel
    requested: AccelRequest
    reason: str


Boot = Literal["restore", "fresh"]
"""The start of guests: restored from a saved guest wherever possible, or booted each."""


class LabSettings(BaseModel):
    """The user's settings of a lab; `timeout_s` is a guest's time to boot, `wait_s` that to wait for the host's lease.

    Without `wait_s` the host is not leased for the whole run. `inventory` is the content of vmstorage.toml. Guests boot
    from `image`, None for the appliance. `boot`: restored wherever possible or never, None for where that is proven.
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
