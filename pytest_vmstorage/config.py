"""StorageConfig: one cell of the matrix, with the rules that say which cells can exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator, model_validator

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import Bytes, format_size

Format = Literal["raw", "qcow2"]
Cache = Literal["none", "directsync", "writethrough", "writeback", "unsafe"]
Bus = Literal["virtio-blk", "virtio-scsi", "ide", "sata"]
Preallocation = Literal["off", "metadata", "falloc", "full"]
State = Literal["fresh", "filled"]

SMALLEST_BYTES = 2**20
"""Below this a disk holds no workload; qcow2 metadata alone takes 200 KiB."""

_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "format": get_args(Format),
    "cache": get_args(Cache),
    "bus": get_args(Bus),
    "preallocation": get_args(Preallocation),
    "state": get_args(State),
}


class StorageConfig(BaseModel):
    """One storage configuration, in libvirt's and QEMU's words; `str()` is its part of a test id.

    `size` is the virtual size of the disk under test in bytes. `state` says what a workload meets: `filled`,
    blocks that were written before, or `fresh`, blocks that nothing has written yet (the first write pays for
    allocation, and only there does preallocation show).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Format = "raw"
    cache: Cache = "none"
    bus: Bus = "virtio-blk"
    preallocation: Preallocation = "off"
    state: State = "filled"
    size: Bytes = 2**30

    if TYPE_CHECKING:  # a type checker would refuse size="2G", which a validator makes bytes of

        def __init__(self, **values: Any) -> None: ...

    @field_validator("size")
    @classmethod
    def _size_holds_a_workload(cls, size: int) -> int:
        if size < SMALLEST_BYTES or size % 512:
            raise ConfigError(
                f"a disk of {size} bytes cannot be made.",
                hint="The size is at least 1M and a multiple of 512 bytes.",
            )
        return size

    @model_validator(mode="after")
    def _can_exist(self) -> Self:
        reason = refusal(self)
        if reason:
            raise ConfigError(f"{self} cannot exist: {reason}.", hint=_REFUSED_HINT)
        return self

    def __str__(self) -> str:
        cell = f"{self.format}-{self.cache}-{self.bus}-{self.preallocation}"
        return cell if self.state == "filled" else f"{cell}-{self.state}"

    @property
    def label(self) -> str:
        """The cell's name in messages and files: its id and its size."""
        return f"{self} {format_size(self.size)}"


AXES = ("format", "cache", "bus", "preallocation", "state")
"""The axes in the order in which they stand in a test id."""

FIELDS = tuple(StorageConfig.model_fields)
"""All that `@pytest.mark.storage(...)` takes."""


def make_config(values: Mapping[str, Any]) -> StorageConfig:
    """The cell with these values and defaults for the rest.

    Raises ConfigError, one sentence, for an unknown field, an unknown value, or a cell that cannot exist.
    """
    for name, value in values.items():
        _check_name(name)
        _check_value(name, value)
    try:
        return StorageConfig(**values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(f"{first['loc'][0]}={values.get(str(first['loc'][0]))!r}: {first['msg']}.") from None


_REFUSED_HINT = "Leave the cell out of the parametrize lists, or deselect it with -k or --deselect."


def refusal(config: StorageConfig) -> str:
    """Why this cell cannot exist, or an empty text.

    Source: qemu-img 7.2 refuses raw with metadata ("Unexpected preallocation mode"), tried by hand.
    """
    if config.format == "raw" and config.preallocation == "metadata":
        return "raw has no metadata to preallocate; qcow2 has, and raw can have off, falloc or full"
    return ""


def _check_name(name: str) -> None:
    if name not in FIELDS:
        raise ConfigError(f"a storage configuration has no field {name!r}.", hint=f"It has: {', '.join(FIELDS)}.")


def _check_value(name: str, value: Any) -> None:
    allowed = _ALLOWED.get(name)
    if allowed is not None and value not in allowed:
        raise ConfigError(f"{name}={value!r} is not known.", hint=f"{name} is one of: {', '.join(allowed)}.")
