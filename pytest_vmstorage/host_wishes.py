"""What a run asks of its host beside what every run gets: set on request, recorded always; frozen."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


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
