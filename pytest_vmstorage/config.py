"""StorageConfig: one cell of the matrix, with the rules that say which cells can exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.rules import broken_rules
from pytest_vmstorage.units import Bytes, MaybeBytes, format_size, parse_size

Format = Literal["raw", "qcow2", "vmdk", "vdi", "qed", "vpc"]
Cache = Literal["none", "directsync", "writethrough", "writeback", "unsafe"]
Bus = Literal["virtio-blk", "virtio-scsi", "ide", "sata", "usb", "nvme", "lsilogic", "vmpvscsi"]
Preallocation = Literal["off", "metadata", "falloc", "full"]
State = Literal["fresh", "filled"]
Machine = Literal["auto", "pc", "q35"]
Io = Literal["threads", "native", "io_uring"]
Discard = Literal["ignore", "unmap"]
DetectZeroes = Literal["off", "on", "unmap"]

Count = Annotated[int, Field(ge=1)]

SMALLEST_BYTES = 2**20
"""Below this a disk holds no workload; qcow2 metadata alone takes 200 KiB."""

_ALLOWED: Mapping[str, tuple[str, ...]] = {
    "format": get_args(Format),
    "cache": get_args(Cache),
    "bus": get_args(Bus),
    "preallocation": get_args(Preallocation),
    "state": get_args(State),
    "machine": get_args(Machine),
    "io": get_args(Io),
    "discard": get_args(Discard),
    "detect_zeroes": get_args(DetectZeroes),
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
    subformat: str | None = None
    machine: Machine = "auto"
    io: Io = "threads"
    iothread: bool = False
    queues: Count | None = None
    queue_size: Count | None = None
    discard: Discard = "ignore"
    detect_zeroes: DetectZeroes = "off"
    cluster_size: MaybeBytes = None
    lazy_refcounts: bool = False
    extended_l2: bool = False
    l2_cache_size: MaybeBytes = None
    vcpus: Count = 1
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
        for rule in broken_rules(self):
            raise ConfigError(
                f"{self} cannot exist: {rule.reason} (rule {rule.name}; source: {rule.source}).", hint=_REFUSED_HINT
            )
        return self

    def __str__(self) -> str:
        first = [self.format, self.cache, self.bus, self.preallocation]
        more = [axis_text(name, getattr(self, name)) for name in AXES[len(first) :] if self.is_chosen(name)]
        return "-".join([*first, *more])

    def is_chosen(self, name: str) -> bool:
        """Whether that field differs from its default."""
        return bool(getattr(self, name) != type(self).model_fields[name].default)

    @property
    def machine_type(self) -> str:
        """The machine the guest gets: pc for IDE, which q35 has not, otherwise q35 unless asked for."""
        if self.machine != "auto":
            return self.machine
        return "pc" if self.bus == "ide" else "q35"

    @property
    def label(self) -> str:
        """The cell's name in messages and files: its id and its size."""
        return f"{self} {format_size(self.size)}"


FIELDS = tuple(StorageConfig.model_fields)
"""All that `@pytest.mark.storage(...)` takes."""

AXES = tuple(name for name in FIELDS if name != "size")
"""What can be swept, in the order in which it stands in a test id; `size` is what tests call other things."""

_SPEAKING = ("format", "cache", "bus", "preallocation", "state", "subformat", "io")
_SIZES = ("cluster_size", "l2_cache_size")


def axis_text(name: str, value: object) -> str:
    """An axis's value in an id: the value itself where it speaks, "queues=4" where it is a number or a yes."""
    if name in _SPEAKING:
        return str(value)
    if name in _SIZES and value is not None:
        value = format_size(parse_size(value))
    return f"{name}={'yes' if value is True else 'no' if value is False else value}"


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


def _check_name(name: str) -> None:
    if name not in FIELDS:
        raise ConfigError(f"a storage configuration has no field {name!r}.", hint=f"It has: {', '.join(FIELDS)}.")


def _check_value(name: str, value: Any) -> None:
    allowed = _ALLOWED.get(name)
    if allowed is not None and value not in allowed:
        raise ConfigError(f"{name}={value!r} is not known.", hint=f"{name} is one of: {', '.join(allowed)}.")
