"""How a fake lab behaves: how fast its tools are, how much they scatter, which cells fail and when."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import Accel

T = TypeVar("T")


class LabOptions(BaseModel):
    """How a fake lab behaves; without options all cells work and measure alike.

    Keys of mappings are patterns that a cell's id is held against (`fnmatch`), and the first that matches counts;
    `full`, `write_through` and `cached` are such patterns. Rounds are those of one guest, from 1, warm-ups counted.

    `speed` is a factor on each figure of 10,000 IOPS (fio) or 200 MiB/s (dd), or factors for one round after the other;
    `noise` the standard deviation of each figure's logarithm, drawn from `seed`; `round_s` how many seconds a round
    takes, and `boot_s` a boot. `boots` is how many guests of a cell answer: further ones, and with 0 all, never do.
    `dies` is the round in which each guest of the cell ends, `hangs` the first one that does not end within its time
    limit. `unsupported` is why the host cannot have the cell (UnsupportedError). The host has no room (SpaceError) for
    cells that match `full`. In each round a guest that matches `write_through` turns its disk's write cache off.

    `name` is the host's, and `accel` its guests'. Of cells that match `cached` no byte reaches the host's device.
    `memory_bytes` is how much is left for further guests, None where the host does not say; `free_bytes` is what the
    folder for disks has free. With `keeps_files` nothing on the host can be removed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    speed: float | Mapping[str, float | tuple[float, ...]] = 1.0
    noise: float = 0.0
    seed: int = 7
    round_s: float = 0.0
    boot_s: Mapping[str, float] = {}
    boots: Mapping[str, int] = {}
    dies: Mapping[str, int] = {}
    hangs: Mapping[str, int] = {}
    unsupported: Mapping[str, str] = {}
    full: str = ""
    write_through: str = ""
    name: str = "local"
    accel: Accel = "tcg"
    cached: str = ""
    memory_bytes: int | None = None
    free_bytes: int = 100 * 2**30
    keeps_files: bool = False

    def factor(self, config: StorageConfig, number: int) -> float:
        """The factor on the cell's figures in the round of that number in its guest, from 1."""
        speed = self.speed if isinstance(self.speed, int | float) else chosen(self.speed, config, 1.0)
        return speed[(number - 1) % len(speed)] if isinstance(speed, tuple) else speed


def chosen(by_pattern: Mapping[str, T], config: StorageConfig, default: T) -> T:
    """The value of the first pattern that matches the cell's id."""
    return next((value for pattern, value in by_pattern.items() if matches(pattern, config)), default)


def matches(pattern: str, config: StorageConfig) -> bool:
    """Whether the cell's id matches."""
    return fnmatch.fnmatchcase(str(config), pattern)
