"""What every workload is: a tool with its own option names, how to run it and how to read it. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results import Metric


class Target(BaseModel):
    """What a workload runs on: a block device or file, and the region of it that the workload may use, in bytes.

    With `is_file` the path is a file's, and `device` the block device below it ("" where there is none). `scratch` is
    a folder for the tool's own output.
    `folder` is where files can be made on the file system under test, "" where the disk has none.
    """

    model_config = ConfigDict(frozen=True)

    path: str
    size_bytes: int
    offset_bytes: int = 0
    is_file: bool = False
    device: str = ""
    scratch: str = "/tmp"
    folder: str = ""

    @property
    def block_device(self) -> str:
        """The block device itself, "" where the target is a file and lies on none."""
        return self.device if self.is_file else self.path


class Workload(BaseModel, ABC):
    """A tool with its parameters; frozen, checked when made, so that a slip is found before a guest is.

    A subclass names its tool, its metrics, the argv that runs it, and reads what it printed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: ClassVar[str]
    package: ClassVar[str] = ""
    """Name of the package whose version is the tool's, where it is not the tool's own name."""

    def __init__(self, **options: Any) -> None:
        try:
            super().__init__(**options)
        except ValidationError as error:
            raise ConfigError(_sentence(type(self), error)) from None

    @property
    @abstractmethod
    def label(self) -> str:
        """The column this workload stands in, such as "fio randwrite 4k qd32"."""

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """All that `parse` returns, with unit and direction."""

    @property
    @abstractmethod
    def primary(self) -> str:
        """Name of the metric that is gated and saved as a time."""

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the metrics that get a column in the matrix."""
        return (self.primary,)

    @property
    @abstractmethod
    def region_bytes(self) -> int | None:
        """How much of the target it touches from the offset on; None is all of it."""

    @property
    @abstractmethod
    def reads(self) -> bool:
        """Whether it reads, so that what it reads must have been written before."""

    @property
    def writes(self) -> bool:
        """Whether it writes."""
        return not self.reads

    @property
    def needs_folder(self) -> bool:
        """Whether it makes files of its own: the cell then needs a file system, and `region_bytes` is 0."""
        return False

    @property
    def needs_image(self) -> bool:
        """Whether it works on images of the host and not on a guest's disk: `measure_image` runs it, not `measure`."""
        return False

    @property
    def fresh_is_possible(self) -> bool:
        """Whether it can measure first writes: it only writes and can be given an untouched region."""
        return not self.reads

    @property
    @abstractmethod
    def expected_seconds(self) -> float:
        """About how long one round takes; a measurement is not disturbed by questions before that."""

    @abstractmethod
    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line for one round."""

    def setup(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Commands before each round, outside of what is measured; caches are dropped after them."""
        del target
        return ()

    def cleanup(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Commands after each round, also after one that failed."""
        del target
        return ()

    def output_file(self, target: Target) -> str | None:
        """The file in which the tool leaves its result, in the target's scratch folder; None where it prints it."""
        del target
        return None

    def moved_bytes(self, text: str) -> int | None:
        """Bytes a round moved past the guest's page cache, by the tool's own word; None where it does not say."""
        del text
        return None

    def failure(self, output: str) -> str:
        """What a tool that ended with an error means by it, as a predicate; "" where its exit status says it all."""
        del output
        return ""

    def remarks(self, text: str) -> tuple[str, ...]:
        """What a reader of a round's figures must know and cannot see in them: clauses, from the tool's raw output."""
        del text
        return ()

    @abstractmethod
    def parse(self, text: str) -> Mapping[str, float]:
        """Figures by metric name from the tool's raw output; raises WorkloadError."""


def _sentence(kind: type[Workload], error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "its options"
    if first["type"] == "extra_forbidden":
        known = ", ".join(kind.model_fields)
        return f"{kind.__name__} has no option {name!r}; it has: {known}."
    given = "" if first["type"] == "missing" else f"={first['input']!r}"
    return f"{kind.__name__}({name}{given}): {first['msg']}."
