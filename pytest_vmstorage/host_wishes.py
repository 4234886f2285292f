"""What a run asks of its host beside what every run gets: set on request, recorded always; frozen."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class HostWishes(BaseModel):
    """`pin`: a core for each of QEMU's threads. `strict`: what cannot be had is refused, and not only said."""

    model_config = ConfigDict(frozen=True)

    pin: bool = False
    strict: bool = False
