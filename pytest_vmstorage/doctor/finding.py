"""A finding: whether one value of one axis can be measured on a host, and why."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Status = Literal["yes", "limited", "no"]


class Finding(BaseModel):
    """`status` of one value, or one range of values, of an axis: "limited" where it can be, but not in every cell."""

    model_config = ConfigDict(frozen=True)

    axis: str
    value: str
    status: Status
    why: str
