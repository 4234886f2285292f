"""Operations on whole images, each timed on the host with the room that it takes; needs no guest."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from pytest_vmstorage.config.cell import Format, StorageConfig
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import Bytes, format_size
from pytest_vmstorage.workloads.base import MIB, Target, Workload, metrics_in
from pytest_vmstorage.workloads.script import seconds_of

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import ImageOperationsOptions

Operation = Literal["create", "preallocate", "snapshot", "rollback", "clone", "convert", "resize", "delete"]

OPERATIONS: tuple[Operation, ...] = (
    *("create", "preallocate", "snapshot", "rollback"),
    *("clone", "convert", "resize", "delete"),
)
"""In the order in which a round does them."""

TAKING: tuple[Operation, ...] = ("create", "preallocate", "snapshot", "clone", "convert", "resize")
"""Operations that take room; the others give some back."""

_UNIT = 2**16
_TAKEN = re.compile(r"^taken (\w+) (\d+) (\d+)$", re.MULTILINE)


class ImageOperations(Workload):
    """Makes and fills an image of the cell, then does with it all that hosts do to images; `measure_image` runs it.

    - `create`: the image as the cell has it, format options and preallocation included.
    - `preallocate`: a second one with full preallocation, to compare with `create`.
    - `snapshot`: taken once `data` bytes are written that no layer shrinks; then all of them are written anew.
    - `rollback`: back to the snapshot.
    - `clone`: a second image on top of the first one, which shares its data.
    - `convert`: all of it into an image of `convert_to` (qcow2 of a raw image, raw of any other, unless chosen).
    - `resize`: larger by `data`.
    - `delete`: the image and its snapshot.

    Who does it: `qemu-img`; for backing=lvm `lvcreate`, `lvconvert --merge`, `lvextend`, `lvremove`; for a zvol `zfs`;
    and `cp --reflink=always`, where the format has no snapshot or clone and the file system shares blocks (xfs,
    btrfs). Each row says which. An operation that nothing there can do has no figure, and the row says why.

    `operations` chooses some: the others are done untimed where these need them. Every operation begins with the host's
    caches dropped and its tool's program in memory, and ends when its data is on the device: `sync` of the files and of
    their folder is part of its time. The data is read back before the operation counts: a rollback, clone or conversion
    without it, or a size that did not change, is an error.

    Figures: seconds of each operation by its name and of all together (`seconds`, primary); bytes that image, snapshots
    and copies take before and after it (`clone_before`, `clone_after`: blocks of files, each shared one once; extents
    of LVM; `used` of ZFS), and their difference where it takes room (`clone_taken`).
    """

    tool: ClassVar[str] = "qemu-img"
    needs_image: ClassVar[bool] = True
    region_bytes: ClassVar[int] = 0
    reads: ClassVar[bool] = False

    data: Bytes = Field(64 * MIB, description="Bytes that are written into the image before it is operated on.")
    operations: tuple[Operation, ...] = Field(
        OPERATIONS, description="Operations that are timed; others that these need are done untimed."
    )
    convert_to: Format | None = Field(
        None, description="Format into which `convert` writes; None is qcow2 of a raw image, raw of any other."
    )

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[ImageOperationsOptions]) -> None: ...

    @field_validator("data")
    @classmethod
    def _is_in_whole_clusters(cls, data: int) -> int:
        if data < MIB or data % _UNIT:
            raise ConfigError(
                f"ImageOperations(data={format_size(data)}) cannot be written in whole clusters.",
                hint="Give 1M or more, in multiples of 64k.",
                code="VM302",
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
            raise ConfigError(f"ImageOperations has {what}.", hint=f"It has: {', '.join(OPERATIONS)}.", code="VM302")
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
        return (*metrics_in("s", "lower", "seconds"), *self.metrics_of(self.operations))

    @staticmethod
    def metrics_of(operations: Collection[Operation]) -> tuple[Metric, ...]:
        """Time, room taken, and room before and after, of each of these operations."""
        return tuple(
            metric
            for name in operations
            for metric in (
                *metrics_in("s", "lower", name),
                *(metrics_in("B", "lower", f"{name}_taken") if name in TAKING else ()),
                *metrics_in("B", "lower", f"{name}_before", f"{name}_after"),
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
        return len(self.operations) + 3 * self.data / MIB / 100

    def target_format(self, config: StorageConfig) -> Format:
        """The format that the cell's image is converted to."""
        return self.convert_to or ("qcow2" if config.format == "raw" else "raw")

    def argv(self, target: Target) -> tuple[str, ...]:
        """Raises ConfigError: `measure_image` knows its steps, which are not a single command."""
        raise ConfigError(
            f"{self.label} works on images of the host and not on {target.path}.",
            hint="Run it with measure_image.",
            code="VM315",
        )

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures of all operations in a round's text; raises WorkloadError where one has no time."""
        taken = {name: (int(before), int(after)) for name, before, after in _TAKEN.findall(text)}
        if not taken:
            raise WorkloadError(f"{self.label} reported no operation.", output=text, code="VM702")
        figures: dict[str, float] = dict(seconds_of(tuple(taken), text))
        figures["seconds"] = sum(figures.values())
        for name, (before, after) in taken.items():
            figures |= {f"{name}_before": before, f"{name}_after": after}
            figures |= {f"{name}_taken": after - before} if name in TAKING else {}
        return figures

    def check_fits(self, config: StorageConfig) -> None:
        """Raise ConfigError where the cell's image does not hold the data, or its operations cannot be timed."""
        check_cell(config)
        cluster = config.cluster_size or _UNIT
        if self.data % cluster:
            raise ConfigError(
                f"{self.label} cannot be written in whole clusters of {format_size(cluster)}.",
                hint="Give data in multiples of that.",
                code="VM316",
            )
        if self.data > config.size:
            raise ConfigError(
                f"{self.label} writes {format_size(self.data)}, but the image has {format_size(config.size)}.",
                hint="Make the image larger with @pytest.mark.storage(size=...), or data smaller.",
                code="VM306",
            )


def space_line(operation: Operation, before: int, after: int) -> str:
    """The line of a round's text with the bytes that were taken before and after an operation."""
    return f"taken {operation} {before} {after}"


def check_cell(config: StorageConfig) -> None:
    """Raise ConfigError for a cell whose image operations cannot be timed, with the reason."""
    for is_so, why, hint in (
        (
            config.backing_kind in ("native", "partition", "device", "machine"),
            f"backing={config.backing} has no image to create and delete",
            "Measure image operations with backing file, lvm or zvol.",
        ),
        (
            config.backing_kind in ("lvm", "zvol") and config.format != "raw",
            f"on backing={config.backing} the volume itself is created, cloned and resized, not a {config.format}"
            " in it",
            "Use format=raw there.",
        ),
        (
            bool(config.backing_chain or config.snapshots),
            "backing_chain and snapshots are made before a measurement, and these operations make their own",
            "Leave them out.",
        ),
    ):
        if is_so:
            raise ConfigError(f"{config} cannot be measured with measure_image: {why}.", hint=hint, code="VM316")
