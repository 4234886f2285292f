"""What the user chose for a run, beside its tests."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.host_wishes import HostWishes
from pytest_vmstorage.hygiene import Hygiene
from pytest_vmstorage.image_choice import ListedImage
from pytest_vmstorage.inventory import Inventory
from pytest_vmstorage.provision.accel import AccelRequest

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
