"""The contract of a workload: a tool with its own option names, how to run it, how to read it, its columns; pure."""

# ruff: noqa: ARG002 (a default of the contract needs none of its arguments)

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from pytest_vmstorage.config.user_input import check_is_integer, check_is_number, check_readable, close_to
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results.run import Better, Metric
from pytest_vmstorage.text import quoted
from pytest_vmstorage.units import format_size

MIB = 2**20
Commands = tuple[tuple[str, ...], ...]
_GUESSED_SECONDS = 5.0
_NAME = re.compile(r"\+?[\w*?\[\]!-]+")


class Columns(BaseModel):
    """The user's choice for all workloads: `names` replace the usual columns, `added` follow them.

    Each is a metric's name or a pattern of fnmatch.
    """

    model_config = ConfigDict(frozen=True)

    names: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """All that was chosen, in order."""
        return (*self.names, *self.added)

    def select(self, metrics: Sequence[str], usual: Sequence[str]) -> tuple[str, ...]:
        """The columns of a workload with these metrics; the usual ones where it has none of `names`."""
        chosen = [found for name in self.names for found in find_metrics(name, metrics)] or usual
        return tuple(dict.fromkeys([*chosen, *(found for name in self.added for found in find_metrics(name, metrics))]))


def parse_columns(texts: Iterable[str], what: str) -> Columns:
    """Columns from texts with commas between names: "iops,clat_p99" or "+usr_cpu".

    `what` is the option's name, for the sentence of the ConfigError that a text without metrics' names raises.
    """
    words = [word for text in texts for word in map(str.strip, text.split(",")) if word]
    for word in words:
        if _NAME.fullmatch(word) is None:
            raise ConfigError(
                f"{what} names {quoted(word)}, which is not the name of a metric.",
                hint=f"Write for example {what}=iops,clat_p99 or {what}=+usr_cpu.",
                code="VM235",
            )
    return Columns(
        names=tuple(word for word in words if not word.startswith("+")),
        added=tuple(word[1:] for word in words if word.startswith("+")),
    )


def find_metrics(name: str, metrics: Collection[str]) -> list[str]:
    """The metrics that a name or a pattern means: those of that name, otherwise those that end with it.

    For a mixed fio job "clat_p99" means that of reads and that of writes.
    """
    found = [metric for metric in metrics if fnmatchcase(metric, name)]
    return found or [metric for metric in metrics if fnmatchcase(metric, f"*_{name}")]


def metrics_in(unit: str, better: Better, *names: str) -> tuple[Metric, ...]:
    """Metrics of these names that have one unit and one better direction."""
    return tuple(_metric(name, unit, better) for name in names)


@lru_cache(maxsize=4096)
def _metric(name: str, unit: str, better: Better) -> Metric:
    """A metric, which each of a workload's rounds asks for again."""
    return Metric(name=name, unit=unit, better=better)


class Target(BaseModel):
    """The place that a workload runs on: a block device or file, and the region of it to use, in bytes.

    With `is_file` the path is a file's, and `device` the block device below it ("" where there is none). `scratch` is
    a folder for the tool's own output. `folder` is where files can be made on the file system under test, "" where the
    disk has none.
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
        """The block device itself, "" for a file that lies on none."""
        return self.device if self.is_file else self.path


class OptionCheck(NamedTuple):
    """A command by which a tool checks options and does nothing else, and its input; it fails where they are wrong."""

    argv: tuple[str, ...]
    stdin: str


class Workload(BaseModel, ABC):
    """A tool with its parameters; frozen, and checked when made, so that an error is found before a guest is started.

    A subclass names its `tool` and its `metrics` and has an `argv`; its options are fields. The defaults of everything
    else are the most careful: all of the disk is used, read and written. A workload that makes files of its own sets
    `needs_folder`. A property may be overridden by a plain attribute:
    `metrics = (Metric(name="seconds", unit="s", better="lower"),)`.

    Every workload takes `shown=("iops", "usr_cpu")` in addition to its options: the metrics that get a column in the
    matrix.
    """

    # types of attributes that need no annotation, as they are not options: `needs_folder = True`, `metrics = (...)`
    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(bool, str, tuple))

    tool: ClassVar[str]
    package: ClassVar[str] = ""
    """Name of the package whose version is the tool's, where it is not the tool's own name."""

    _chosen: tuple[str, ...] = PrivateAttr(default=())

    def __init__(self, **options: Any) -> None:
        __tracebackhide__ = True  # pytest shows the line of the test that has the error
        try:
            # not a field: the choice of columns changes neither the measurement nor its name
            chosen = options.pop("shown", None)
            for name, value in options.items():
                check_readable(f"{type(self).__name__}({name})", value)
                if name in type(self).model_fields:
                    kind = type(self).model_fields[name].annotation
                    check_is_number(f"{type(self).__name__}({name})", value, kind)
                    check_is_integer(f"{type(self).__name__}({name})", value, kind)
            super().__init__(**options)
            check_promises(self)
            if chosen is not None:
                self._chosen = _chosen_metrics(self, chosen)
        except ValidationError as error:
            raise ConfigError(_sentence(type(self), error), code="VM301") from None
        except ConfigError as error:
            raise error.with_traceback(None) from None

    @classmethod
    def hint_for(cls, unknown: str) -> str:
        """A remedy for an option that it does not have, with a blank behind it; by default the one that is near."""
        return close_to(unknown, (*cls.model_fields, "shown"))

    @property
    def label(self) -> str:
        """The heading of its column, such as "fio randwrite 4k qd32"; by default its name and options."""
        return " ".join([type(self).__name__, *(f"{name}={value}" for name, value in self)])

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """All figures that `parse` returns, with unit and direction."""

    @property
    def primary(self) -> str:
        """Name of the metric that is gated and saved as a time; by default the first."""
        return self.metrics[0].name

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the metrics that get a column in the matrix unless the user chooses others."""
        return (self.primary,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the metrics that get a column: the user's choice, otherwise `shown`."""
        return self._chosen or self.shown

    def with_columns(self, columns: Columns) -> Self:
        """A copy with the columns that the user chose for all workloads, as far as it has them."""
        other = self.model_copy()
        other._chosen = columns.select([metric.name for metric in self.metrics], self.columns)  # noqa: SLF001
        return other

    @property
    def point(self) -> Mapping[str, float]:
        """The options that a sweep varies, by name: its position on a curve. {} for a workload without curves."""
        return {}

    @property
    def shape(self) -> str:
        """The name of its curve: the label without the options of `point`."""
        return self.label

    @property
    def writes_zeros(self) -> bool:
        """Whether it writes only zeros, which some layers do not store."""
        return False

    @property
    def needs_folder(self) -> bool:
        """Whether it makes files of its own: the cell then needs a file system, and `region_bytes` is 0."""
        return False

    @property
    def checks_data(self) -> bool:
        """Whether it fails when it reads data other than what was written."""
        return False

    @property
    def region_bytes(self) -> int | None:
        """The bytes of the target that it touches from the offset on; None for all of it."""
        return 0 if self.needs_folder else None

    @property
    def bytes_on_disk(self) -> int | None:
        """The bytes of the disk that it takes, None where its options do not say; smaller disks are refused."""
        return None if self.needs_folder else self.region_bytes

    @property
    def reads(self) -> bool:
        """Whether it reads data that it did not write, so that the disk must be filled before."""
        return not self.needs_folder

    @property
    def writes(self) -> bool:
        """Whether it writes."""
        return True

    @property
    def needs_image(self) -> bool:
        """Whether it works on images of the host and not on a guest's disk: `measure_image` runs it, not `measure`."""
        return False

    @property
    def fresh_is_possible(self) -> bool:
        """Whether it can measure first writes: it only writes, each block once."""
        return not self.reads

    @property
    def expected_seconds(self) -> float:
        """About how long one round takes; the guest is not asked whether it has ended before that."""
        return _GUESSED_SECONDS

    @property
    def unmeasured_s(self) -> float:
        """Seconds at the beginning of a round that the tool leaves out of its figures, such as fio's ramp_time."""
        return 0.0

    @property
    def option_check(self) -> OptionCheck | None:
        """The command that checks options which only the tool itself knows; None where there are none."""
        return None

    @abstractmethod
    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line for one round."""

    def setup(self, target: Target) -> Commands:
        """Commands before each round, which are not measured; caches are dropped after them."""
        return ()

    def cleanup(self, target: Target) -> Commands:
        """Commands after each round, also after one that failed."""
        return ()

    def set_aside(self, target: Target) -> Commands:
        """Commands in place of `cleanup` after a round on a fresh disk, whose next round must write unwritten blocks.

        A file system gives the blocks of removed files to the next ones. By default the commands of `cleanup`.
        """
        return self.cleanup(target)

    def output_file(self, target: Target) -> str | None:
        """The file in which the tool leaves its result, in the target's scratch folder; None where it prints it."""
        return None

    def moved_bytes(self, text: str) -> int | None:
        """Bytes that a round moved past the guest's page cache, as its output says; None where it does not."""
        return None

    def failure(self, output: str) -> str:
        """The reason why the tool failed, as a predicate, from its output; "" where the exit status is all there is."""
        return ""

    def remarks(self, text: str) -> tuple[str, ...]:
        """Clauses that a reader of a round's figures must know, from the tool's raw output."""
        return ()

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures by metric name from the tool's raw output; raises WorkloadError.

        By default from lines of a metric's name and its number, such as "seconds 1.25".
        """
        said = {words[0]: words[1] for words in map(str.split, text.splitlines()) if len(words) == 2}
        try:
            return {metric.name: float(said[metric.name]) for metric in self.metrics}
        except (KeyError, ValueError) as error:
            raise WorkloadError(
                f"{self.label} printed no line with a number for {error}.", output=text, code="VM702"
            ) from None

    def _usual(self, name: str) -> object:
        """The default of an option."""
        return type(self).model_fields[name].default

    def _text(self, name: str) -> str:
        """The value of an option as labels have it."""
        return str(getattr(self, name))

    def _changed(self, *names: str) -> list[str]:
        """The parts of a label that name those of these options whose values are not the defaults: ["count=4"]."""
        return [f"{name}={self._text(name)}" for name in names if getattr(self, name) != self._usual(name)]

    def _check_room(self, target: Target, option: str) -> None:
        """Raise ConfigError where the region is larger than the target; `option` is the one that makes it smaller."""
        if (needed := self.region_bytes or 0) > target.size_bytes:
            raise ConfigError(
                f"{self.label} needs {format_size(needed)}, but {target.path} has {format_size(target.size_bytes)}"
                " for it.",
                hint=f"Make the disk larger (the cell's size) or the workload's {option} smaller.",
                code="VM306",
            )


def check_promises(workload: Workload) -> None:
    """Raise ConfigError for a workload whose class does not say what it measures, or contradicts itself."""
    kind = type(workload).__name__
    if not getattr(workload, "tool", ""):
        raise ConfigError(f"{kind} names no tool.", hint=f'Write in the class: tool = "{kind.lower()}"', code="VM312")
    metrics = workload.metrics
    names = [metric.name for metric in metrics]
    twice = [name for name in names if names.count(name) > 1]
    if not names or twice:
        what = f"has two metrics {twice[0]!r}" if twice else "has no metrics"
        raise ConfigError(f"{kind} {what}.", hint="Give each figure that it returns one Metric.", code="VM312")
    primary = workload.primary
    if any(metric.name == primary and metric.better == "neither" for metric in metrics):
        raise ConfigError(
            f"{kind}'s primary metric {primary!r} has no better direction.",
            hint="Name one that says which cell is faster.",
            code="VM312",
        )
    for name in (primary, *workload.shown):
        if name not in names:
            raise ConfigError(
                f"{kind} names {name!r} in primary or shown, which is not among its metrics.",
                hint=f"It has: {', '.join(names)}.",
                code="VM312",
            )


def _chosen_metrics(workload: Workload, names: object) -> tuple[str, ...]:
    """The metrics that `shown=` names; raises ConfigError for one that the workload does not have."""
    kind, there = type(workload).__name__, [metric.name for metric in workload.metrics]
    if not isinstance(names, tuple | list) or not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"{kind}(shown={quoted(names)}) is not a list of metrics.",
            hint=f'Write for example shown=("{there[0]}",).',
            code="VM313",
        )
    found = {name: find_metrics(name, there) for name in names}
    for name in names:
        if not found[name]:
            raise ConfigError(
                f"{kind}(shown=...) names {quoted(name)}, which it does not have.",
                hint=f"{close_to(name, there)}It has: {', '.join(there)}.",
                code="VM313",
            )
    return tuple(dict.fromkeys(metric for metrics in found.values() for metric in metrics))


def figures_of(workload: Workload, text: str) -> dict[str, float]:
    """The figures that its `parse` returns; raises WorkloadError where they are not those that its metrics promise."""
    figures = dict(workload.parse(text))
    names = [metric.name for metric in workload.metrics]
    for name in [*names, *figures]:
        if name not in names:
            raise WorkloadError(
                f"parse of {workload.label} returned {name!r}, which is not among its metrics: {', '.join(names)}.",
                code="VM317",
            )
        if not isinstance(figures.get(name), int | float):
            got = f"{figures[name]!r} for" if name in figures else "no"
            raise WorkloadError(f"parse of {workload.label} returned {got} {name!r}.", output=text, code="VM317")
    return figures


def _sentence(kind: type[Workload], error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "its options"
    if first["type"] == "extra_forbidden":
        known = ", ".join(kind.model_fields)
        return f"{kind.__name__} has no option {name!r}. {kind.hint_for(name)}It has: {known}."
    given = "" if first["type"] == "missing" else f"={quoted(first['input'])}"
    return f"{kind.__name__}({name}{given}): {first['msg']}."


Many = Annotated[int, Field(ge=1, le=10**7)]
"""A number of files or operations: a tool that makes more of them has its list in memory, and guests have little."""

Seed = Annotated[int, Field(ge=0)]


class FileWorkload(Workload):
    """A tool that works on files of its own, in a folder next to the test file; it reads only what it made itself."""

    needs_folder: ClassVar[bool] = True

    def place(self, target: Target) -> str:
        """Its folder on the file system under test."""
        return f"{target.folder}/vmstorage-{self.tool}"

    def scratch_path(self, target: Target) -> str:
        """Its file or folder in the scratch folder, for the tool's settings and other data not on the disk."""
        # a native row's scratch folder is the one in which its files are made
        return f"{target.scratch}/vmstorage-{self.tool}.own"

    def set_aside(self, target: Target) -> Commands:
        """Rename its files, and remove those in the scratch folder."""
        rename = 'n=1; while [ -e "$1.$n" ]; do n=$((n + 1)); done; mv "$1" "$1.$n"; rm -rf "$2"'
        return (("/bin/sh", "-c", rename, "sh", self.place(target), self.scratch_path(target)),)

    def cleanup(self, target: Target) -> Commands:
        """Remove both."""
        return (("rm", "-rf", self.place(target), self.scratch_path(target)),)
