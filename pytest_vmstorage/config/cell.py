"""StorageConfig: one cell of the matrix, with the rules that say which cells can exist."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from pytest_vmstorage.config.buses import Bus, Cache
from pytest_vmstorage.config.fs_options import mkfs_argv, mount_options
from pytest_vmstorage.config.rules import broken_rules
from pytest_vmstorage.config.rules.backing import BACKINGS, lacks
from pytest_vmstorage.config.rules.image import arrives_filled
from pytest_vmstorage.config.user_input import check_is_number, check_one_line, check_readable, close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import quoted
from pytest_vmstorage.units import Bytes, MaybeBytes, format_size, parse_size

Format = Literal["raw", "qcow2", "vmdk", "vdi", "qed", "vpc"]
Preallocation = Literal["off", "metadata", "falloc", "full"]
State = Literal["fresh", "filled", "rewritten", "aged"]
Machine = Literal["auto", "pc", "q35"]
Io = Literal["threads", "native", "io_uring"]
Discard = Literal["ignore", "unmap"]
DetectZeroes = Literal["off", "on", "unmap"]
Compression = Literal["off", "zlib", "zstd"]
Encryption = Literal["off", "luks"]
HostFs = Literal["as-found", "ext4", "xfs", "btrfs"]
GuestFs = Literal["none", "ext3", "ext4", "xfs", "btrfs"]
Scheduler = Literal["default", "none", "mq-deadline", "kyber", "bfq"]

# TOML has no null, and a sweep may want QEMU's own choice beside other values
_OrDefault = BeforeValidator(lambda value: None if value == "default" else value)

Count = Annotated[int, Field(ge=1)]
MaybeCount = Annotated[Count | None, _OrDefault]
MaybeSize = Annotated[MaybeBytes, _OrDefault]
MaybeText = Annotated[str | None, _OrDefault]
Depth = Annotated[int, Field(ge=0, le=64)]

SMALLEST_BYTES = 2**20
"""Below this a disk holds no workload; qcow2 metadata alone takes 200 KiB."""

DEFAULT_MEMORY_BYTES = 512 * 2**20
SMALLEST_MEMORY_BYTES = 256 * 2**20
"""Below this the appliance's kernel and the files that it unpacks into memory do not fit."""


class StorageConfig(BaseModel):
    """One storage configuration, in libvirt's and QEMU's words; `str()` is its part of a test id.

    Sizes are in bytes. With `backing` "native" the workload runs on the host itself, with "null" the guest's disk is
    QEMU's null driver, without storage, with "machine:NAME" it runs on a machine that the plugin did not make. None
    stands for QEMU's own choice, for no limit, or for the host's own emulator.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Format = Field("raw", description="Format of the disk image.")
    cache: Cache = Field("none", description="Way in which QEMU opens the image, and write cache that the guest sees.")
    bus: Bus = Field("virtio-blk", description="Bus, and with that the device, on which the guest has the disk.")
    preallocation: Preallocation = Field(
        "off",
        description="Blocks that are allocated before anything is written. It shows in first writes only: sweep it "
        'with `state="fresh"`.',
    )
    state: State = Field(
        "filled",
        description="Blocks that a workload meets: `filled`, written before; `fresh`, never written, so that the "
        "first write pays for allocation; `rewritten`, the whole disk written twice; `aged`, the whole "
        "disk written once in a seeded random order, so that an image which allocates late lies in "
        "pieces.",
    )
    subformat: MaybeText = Field(None, description="Variant of a vmdk or vpc image.")
    machine: Machine = Field(
        "auto", description="Machine type of the guest: `auto` is pc with ide, which q35 lacks, otherwise q35."
    )
    io: Io = Field("threads", description="Way in which QEMU submits I/O to the host.")
    iothread: bool = Field(
        False, description="Whether the disk is served by an I/O thread of its own, and not by QEMU's main loop."
    )
    queues: MaybeCount = Field(None, description="Number of request queues of the device.")
    queue_size: MaybeCount = Field(None, description="Number of requests that a queue holds.")
    discard: Discard = Field(
        "ignore", description="What becomes of the guest's discards: `unmap` hands them to the image."
    )
    detect_zeroes: DetectZeroes = Field(
        "off",
        description="Whether QEMU looks for writes of zeros: `on` makes them the format's own writes of zeros, `unmap` "
        "discards.",
    )
    total_iops_sec: MaybeCount = Field(
        None, description="Most I/Os that the disk serves in a second, reads and writes together."
    )
    total_bytes_sec: MaybeSize = Field(
        None, description='Most bytes that the disk serves in a second, reads and writes together, such as "50M".'
    )
    cluster_size: MaybeSize = Field(None, description="Size of qcow2's clusters, the unit in which it allocates.")
    lazy_refcounts: bool = Field(False, description="Whether qcow2 may write its reference counts later.")
    extended_l2: bool = Field(False, description="Whether qcow2 has subclusters: 32 in each cluster.")
    l2_cache_size: MaybeSize = Field(
        None,
        description="Memory for slices of qcow2's L2 tables, by which QEMU finds a block of the disk in the image.",
    )
    metadata_cache_size: MaybeSize = Field(
        None,
        description="Memory for qcow2's L2 tables and reference counts together, of which QEMU takes the first four "
        "clusters for reference counts.",
    )
    compression: Compression = Field(
        "off", description="Compression of qcow2: every cluster of the image is compressed before the guest starts."
    )
    encryption: Encryption = Field("off", description="Encryption of qcow2.")
    backing_chain: Depth = Field(
        0, description="Number of backing files below the image, each with its share of the data."
    )
    snapshots: Depth = Field(0, description="Number of internal snapshots in the image, each with clusters of its own.")
    backing: str = Field(
        "file",
        description="What lies under the image, or in the place of guest and image. A name of vmstorage.toml stands "
        'behind a colon ("device:fast"), and is needed where several are listed.',
    )
    host_fs: HostFs = Field(
        "as-found", description="File system of the host that is made for the image; `as-found` is that of the folder."
    )
    host_mkfs: str = Field("", description='Options of mkfs for host_fs, as one text such as "-d agcount=64".')
    host_mount: str = Field("", description='Options of mount for host_fs, such as "noatime".')
    guest_fs: GuestFs = Field(
        "none",
        description="File system that is made on the disk in the guest: workloads then run on a file there. `none` "
        "is the disk itself.",
    )
    guest_mkfs: str = Field("", description="Options of mkfs for guest_fs, as one text.")
    guest_mount: str = Field("", description="Options of mount for guest_fs.")
    scheduler: Scheduler = Field(
        "default", description="I/O scheduler of the guest's kernel for the disk; `default` is the kernel's choice."
    )
    vcpus: Count = Field(1, description="Number of the guest's processors.")
    memory: Bytes = Field(DEFAULT_MEMORY_BYTES, description="Memory of the guest: 256M or more, in whole MiB.")
    emulator: MaybeText = Field(
        None, description="Path on the lab host of the QEMU that runs the guest. Images are made by the host's own."
    )
    size: Bytes = Field(2**30, description="Size of the disk that the guest sees: 1M or more, a multiple of 512 bytes.")

    if TYPE_CHECKING:  # a type checker would refuse size="2G", which a validator makes bytes of

        def __init__(self, **values: Any) -> None: ...

    @field_validator("size")
    @classmethod
    def _size_holds_a_workload(cls, size: int) -> int:
        if size < SMALLEST_BYTES or size % 512:
            hint = "The size is at least 1M and a multiple of 512 bytes."
            raise ConfigError(f"a disk of {size} bytes cannot be made.", hint=hint, code="VM103")
        return size

    @field_validator("memory")
    @classmethod
    def _memory_boots(cls, memory: int) -> int:
        if memory < SMALLEST_MEMORY_BYTES or memory % 2**20:
            hint = "Give 256M or more, in whole MiB."
            raise ConfigError(f"a guest with {memory} bytes of memory does not boot.", hint=hint, code="VM104")
        return memory

    @field_validator("backing")
    @classmethod
    def _backing_is_known(cls, text: str) -> str:
        kind, colon, name = text.partition(":")
        if kind not in BACKINGS or bool(colon) != bool(name):
            raise ConfigError(
                f"backing={text!r} is not known.",
                hint=f"backing is one of: {', '.join(BACKINGS)}; or one of them with a name of vmstorage.toml, such as"
                ' "device:nvme0".',
                code="VM105",
            )
        return text

    @field_validator("*", mode="before")
    @classmethod
    def _is_one_line(cls, value: object, info: ValidationInfo) -> object:
        name = info.field_name or ""
        check_is_number(name, value, cls.model_fields[name].annotation if name in cls.model_fields else bool)
        if isinstance(value, str):
            check_one_line(info.field_name or "", value)
        return value

    @field_validator("emulator")
    @classmethod
    def _emulator_is_a_path(cls, path: str | None) -> str | None:
        if path is not None and not path.startswith("/"):
            raise ConfigError(
                f"emulator={path!r} is not the path of a QEMU binary.",
                hint='Write it from the root of the lab host, such as "/opt/qemu-9.2/bin/qemu-system-x86_64".',
                code="VM106",
            )
        return path

    @model_validator(mode="after")
    def _can_exist(self) -> Self:
        for rule in broken_rules(self):
            hint = "Leave the cell out of the parametrize lists, or deselect it with -k or --deselect."
            reason = f"{rule.reason} (rule {rule.name}; source: {rule.source})"
            raise ConfigError(f"{self} cannot exist: {reason}.", hint=hint, code=rule.code)
        for where, kind in (("host", self.host_fs), ("guest", self.guest_fs)):
            # refuses options that do more than shape a file system, or reach another device
            if kind not in ("as-found", "none"):
                mount_options(kind, getattr(self, f"{where}_mount"), field=f"{where}_mount")
                mkfs_argv(kind, getattr(self, f"{where}_mkfs"), "", field=f"{where}_mkfs", discard=False)
        return self

    def __str__(self) -> str:
        return _label(self)

    def is_chosen(self, name: str) -> bool:
        """Whether that field differs from its default."""
        return bool(getattr(self, name) != _DEFAULTS[name])

    @property
    def backing_kind(self) -> str:
        """The kind of `backing`, without its name in vmstorage.toml."""
        return self.backing.partition(":")[0]

    @property
    def is_native(self) -> bool:
        """Whether the workload runs on the host itself, without a guest."""
        return self.backing_kind == "native"

    @property
    def is_machine(self) -> bool:
        """Whether the workload runs on a machine that the plugin did not make."""
        return self.backing_kind == "machine"

    @property
    def has_guest(self) -> bool:
        """Whether a guest is made for the cell."""
        return self.backing_kind not in ("native", "machine")

    @property
    def is_null(self) -> bool:
        """Whether the guest's disk is QEMU's null driver, behind which there is no storage."""
        return self.backing_kind == "null"

    def lacks(self, name: str) -> bool:
        """Whether the cell has nothing of that field, because it has no guest or no storage."""
        return lacks(self, name)

    @property
    def backing_name(self) -> str:
        """The name of `backing` in vmstorage.toml; "" where the only one is meant."""
        return self.backing.partition(":")[2]

    @property
    def arrives_filled(self) -> bool:
        """Whether the image is made with data in every block, so that the guest need not fill the disk."""
        return arrives_filled(self)

    @property
    def machine_type(self) -> str:
        """The guest's machine type: for "auto" pc with IDE, which q35 lacks, otherwise q35."""
        return ("pc" if self.bus == "ide" else "q35") if self.machine == "auto" else self.machine

    @property
    def label(self) -> str:
        """The cell's name in messages and files: its id and its size."""
        return f"{self} {format_size(self.size)}"


_DEFAULTS = {name: field.default for name, field in StorageConfig.model_fields.items()}

FIELDS = tuple(StorageConfig.model_fields)
"""The keywords of `@pytest.mark.storage(...)`."""

AXES = tuple(name for name in FIELDS if name != "size")
"""The fields that can be swept, in the order of a test id.

`size` can be swept, too, where a test has no other argument of that name: see plugin/parametrize.py.
"""


def varying_fields(configs: Iterable[StorageConfig]) -> tuple[str, ...]:
    """The fields in which not all of these are equal, in the order of `FIELDS`; quick for thousands of them."""
    columns = zip(*map(_VALUES, map(vars, configs)), strict=True)
    return tuple(name for name, column in zip(FIELDS, columns, strict=False) if column.count(column[0]) < len(column))


_VALUES = itemgetter(*FIELDS)
"""All values of a cell, in the order of `FIELDS`, from its `vars`: in one step, which takes half the time of 37."""


ALLOWED: Mapping[str, tuple[str, ...]] = {
    name: get_args(field.annotation)
    for name, field in StorageConfig.model_fields.items()
    if get_origin(field.annotation) is Literal
}
"""The words of each axis that has a list of them."""

_SPEAKING = ("format", "cache", "bus", "preallocation", "state", "subformat", "io")

BYTE_FIELDS = ("total_bytes_sec", "cluster_size", "l2_cache_size", "metadata_cache_size", "memory", "size")
"""The fields whose values are bytes, and written as sizes such as "64k"."""


def axis_text(name: str, value: object) -> str:
    """An axis's value in an id: the value itself where it speaks, "queues=4" where it is a number or a yes."""
    value = "default" if value is None else value
    if name in _SPEAKING:
        return str(value)
    if name in BYTE_FIELDS and value != "default":
        value = format_size(parse_size(value))
    return f"{name}={'yes' if value is True else 'no' if value is False else value}"


def check_field(name: str) -> None:
    """Raise ConfigError, with the name that is spelt most like it, where no field has that name."""
    if name not in FIELDS:
        hint = f"{close_to(name, FIELDS)}It has: {', '.join(FIELDS)}."
        raise ConfigError(f"a storage configuration has no field {name!r}.", hint=hint, code="VM101")


@lru_cache(maxsize=16384)
def _label(cell: StorageConfig) -> str:
    """The cell's id: each round, journal line and message has it, and it is put together from all axes."""
    # without a guest there is no format, cache mode or bus, without storage no format and no preallocation
    first: tuple[str, ...] = {
        "machine": ("backing",),
        "native": ("backing", "preallocation"),
        "null": ("backing", "cache", "bus"),
    }.get(cell.backing_kind, AXES[:4])
    chosen = [name for name in AXES[4:] if cell.is_chosen(name) and name not in first]
    return "-".join(
        [*(getattr(cell, name) for name in first), *(axis_text(name, getattr(cell, name)) for name in chosen)]
    )


def make_config(values: Mapping[str, Any]) -> StorageConfig:
    """The cell with these values and defaults for the rest.

    Raises ConfigError, one sentence, for an unknown field, an unknown value, or a cell that cannot exist.
    """
    for name, value in values.items():
        check_field(name)
        check_readable(name, value)
        allowed = ALLOWED.get(name)
        if allowed is not None and value not in allowed:
            raise ConfigError(
                f"{name}={quoted(value)} is not known.", hint=f"{name} is one of: {', '.join(allowed)}.", code="VM102"
            )
    try:
        return StorageConfig(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ", ".join(values)
        raise ConfigError(f"{name}={quoted(values.get(name))}: {first['msg']}.", code="VM102") from None
