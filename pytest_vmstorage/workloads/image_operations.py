"""What is done to whole images, each operation timed on the host with the room it takes; needs no guest."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import field_validator

from pytest_vmstorage.config.cell import Format, StorageConfig
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import Bytes, format_size
from pytest_vmstorage.workloads.base import Target, Workload
from pytest_vmstorage.workloads.shell_timer import seconds_of

Operation = Literal["create", "preallocate", "snapshot", "rollback", "clone", "convert", "resize", "delete"]

OPERATIONS: tuple[Operation, ...] = (
    *("create", "preallocate", "snapshot", "rollback"),
    *("clone", "convert", "resize", "delete"),
)
"""In the order in which a round does them."""

TAKING: tuple[Operation, ...] = ("create", "preallocate", "snapshot", "clone", "convert", "resize")
"""Operations that take room; the others give some back."""

_UNIT = 2**16
_MIB = 2**20
_TAKEN = re.compile(r"^taken (\w+) (\d+) (\d+)$", re.MULTILINE)


class ImageOperations(Workload):
    """An image of the cell is made, filled, and gone through all that a host does to images; `measure_image` runs it.

    - `create`: the image as the cell has it, format options and preallocation included.
    - `preallocate`: a second one with full preallocation, beside what `create` took.
    - `snapshot`: taken once `data` bytes are written that no layer shrinks; then all of them are written anew.
    - `rollback`: back to the snapshot.
    - `clone`: a second image on top of the first one, which shares its data.
    - `convert`: all of it into an image of `convert_to` (qcow2 of a raw image, raw of any other, unless chosen).
    - `resize`: larger by `data`.
    - `delete`: the image and its snapshot.

    Who does it: `qemu-img`; for backing=lvm `lvcreate`, `lvconvert --merge`, `lvextend`, `lvremove`; for a zvol `zfs`;
    and `cp --reflink=always`, where the format has no snapshot or clone and the file system shares blocks (xfs,
    btrfs). Each row says which. What nothing there can do has no figure, and the row says why.

    `operations` chooses some: the others are done untimed where these need them. Every operation begins with the host's
    caches dropped and its tool's program in memory, and ends when what it wrote is on the device: `sync` of the files
    and of their folder is part of its time. What it wrote is read back before it counts: a rollback, clone or
    conversion without the data, or a size that did not change, is an error.

    Figures: seconds of each operation by its name and of all together (`seconds`, primary); bytes that image, snapshots
    and copies take before and after it (`clone_before`, `clone_after`: blocks of files, each shared one once; extents
    of LVM; `used` of ZFS), and their difference where it takes room (`clone_taken`).
    """

    tool: ClassVar[str] = "qemu-img"
    needs_image: ClassVar[bool] = True
    primary: ClassVar[str] = "seconds"
    region_bytes: ClassVar[int] = 0
    reads: ClassVar[bool] = False

    data: Bytes = 64 * _MIB
    operations: tuple[Operation, ...] = OPERATIONS
    convert_to: Format | None = None

    if TYPE_CHECKING:  # a type checker would refuse data="64M", which a validator makes bytes of

        def __init__(self, **options: Any) -> None: ...

    @field_validator("data")
    @classmethod
    def _is_in_whole_clusters(cls, data: int) -> int:
        if data < _MIB or data % _UNIT:
            raise ConfigError(
                f"ImageOperations(data={format_size(data)}) cannot be written in whole clusters.",
                hint="Give 1M or more, in multiples of 64k.",
            )
        return data

    @field_validator("operations", mode="before")
    @classmethod
    def _are_known(cls, given: object) -> tuple[object, ...]:
        # a bare "snapshot" would be read letter by letter
        names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Collection) else (given,)
        unknown = [str(name) for name in names if name not in OPERATIONS]
        if unknown or not names:
            what = f"no operation {unknown[0]!r}" if unknown else "nothing to do"
            raise ConfigError(f"ImageOperations has {what}.", hint=f"It has: {', '.join(OPERATIONS)}.")
        return tuple(one for one in OPERATIONS if one in names)

    @property
    def label(self) -> str:
        """How much data, and what differs from the defaults."""
        parts = ["image operations", format_size(self.data)]
        parts += [] if self.operations == OPERATIONS else [",".join(self.operations)]
        return " ".join([*parts, *([f"to {self.convert_to}"] if self.convert_to else [])])

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All together, then each operation's time and room."""
        return (Metric(name="seconds", unit="s", better="lower"), *self.metrics_of(self.operations))

    @staticmethod
    def metrics_of(operations: Collection[Operation]) -> tuple[Metric, ...]:
        """Time, room before and after, and what was taken, of these operations."""
        return tuple(
            metric
            for name in operations
            for metric in (
                Metric(name=name, unit="s", better="lower"),
                *([_bytes(f"{name}_taken")] if name in TAKING else []),
                _bytes(f"{name}_before"),
                _bytes(f"{name}_after"),
            )
        )

    @property
    def shown(self) -> tuple[str, ...]:
        """Each operation's time, and the room that it takes."""
        return self.shown_of(self.operations)

    @staticmethod
    def shown_of(operations: Collection[Operation]) -> tuple[str, ...]:
        """The same of these operations."""
        return tuple(metric for name in operations for metric in (name, *([f"{name}_taken"] if name in TAKING else [])))

    @property
    def bytes_on_disk(self) -> int:
        """The data that the image is filled with."""
        return self.data

    @property
    def expected_seconds(self) -> float:
        """Each operation a second, and the data three times at 100 MiB/s."""
        return len(self.operations) + 3 * self.data / _MIB / 100

    def target_format(self, config: StorageConfig) -> Format:
        """What the cell's image is converted to."""
        return self.convert_to or ("qcow2" if config.format == "raw" else "raw")

    def argv(self, target: Target) -> tuple[str, ...]:
        """None: it is no single command, and `measure_image` knows its steps. Raises ConfigError."""
        raise ConfigError(
            f"{self.label} works on images of the host and not on {target.path}.", hint="Run it with measure_image."
        )

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures of all operations of which a round's text tells; raises WorkloadError where one has no time."""
        taken = {name: (int(before), int(after)) for name, before, after in _TAKEN.findall(text)}
        if not taken:
            raise WorkloadError(f"{self.label} told of no operation.", output=text)
        figures: dict[str, float] = dict(seconds_of(tuple(taken), text))
        figures["seconds"] = sum(figures.values())
        for name, (before, after) in taken.items():
            figures |= {f"{name}_before": before, f"{name}_after": after}
            figures |= {f"{name}_taken": after - before} if name in TAKING else {}
        return figures

    def check_fits(self, config: StorageConfig) -> None:
        """Raise ConfigError where the cell's image does not hold the data, or is none whose operations are timed."""
        check_cell(config)
        if self.data % (config.cluster_size or _UNIT):
            raise ConfigError(
                f"{self.label} cannot be written in whole clusters of {format_size(config.cluster_size or _UNIT)}.",
                hint="Give data in multiples of that.",
            )
        if self.data > config.size:
            raise ConfigError(
                f"{self.label} writes {format_size(self.data)}, but the image has {format_size(config.size)}.",
                hint="Make the image larger with @pytest.mark.storage(size=...), or data smaller.",
            )


def taken_line(operation: Operation, before: int, after: int) -> str:
    """How a round's text tells of the room, in bytes, that there was taken before and after an operation."""
    return f"taken {operation} {before} {after}"


def _bytes(name: str) -> Metric:
    return Metric(name=name, unit="B", better="lower")


def check_cell(config: StorageConfig) -> None:
    """Raise ConfigError for a cell on whose image no operations are timed, with the reason."""
    for is_so, why, hint in (
        (
            config.backing_kind in ("native", "partition", "device", "machine"),
            f"backing={config.backing} has no image that is made and deleted",
            "Measure image operations with backing file, lvm or zvol.",
        ),
        (
            config.backing_kind in ("lvm", "zvol") and config.format != "raw",
            f"on backing={config.backing} the volume itself is what is made, cloned and resized, and not a"
            f" {config.format} in it",
            "Use format=raw there.",
        ),
        (
            bool(config.backing_chain or config.snapshots),
            "backing_chain and snapshots are made before a measurement, and these operations make their own",
            "Leave them out.",
        ),
    ):
        if is_so:
            raise ConfigError(f"{config} cannot be measured with measure_image: {why}.", hint=hint)
