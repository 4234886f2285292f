"""What every workload is: a tool with its own option names, how to run it, how to read it, its columns; pure."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from pytest_vmstorage.config.user_input import check_is_number, check_readable, close_to
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.text import shown

_NAME = re.compile(r"\+?[\w*?\[\]!-]+")


class Columns(BaseModel):
    """What a user chose for all workloads: `names` in the place of the usual columns, `added` behind them.

    Each is a metric's name or a pattern of fnmatch.
    """

    model_config = ConfigDict(frozen=True)

    names: tuple[str, ...] = ()
    added: tuple[str, ...] = ()

    @property
    def all_names(self) -> tuple[str, ...]:
        """All that was chosen, in order."""
        return (*self.names, *self.added)

    def of(self, there: Sequence[str], usual: Sequence[str]) -> tuple[str, ...]:
        """The columns of a workload that has these metrics; the usual ones where it has none of those chosen."""
        chosen = [one for name in self.names for one in matching(name, there)] or usual
        return tuple(dict.fromkeys([*chosen, *(one for name in self.added for one in matching(name, there))]))


def parse_columns(texts: Iterable[str], what: str) -> Columns:
    """Columns from texts with commas between names: "iops,clat_p99" or "+usr_cpu". Raises ConfigError.

    `what` is the option's name, for the sentence.
    """
    words = [word.strip() for text in texts for word in text.split(",")]
    for word in filter(None, words):
        if _NAME.fullmatch(word) is None:
            raise ConfigError(
                f"{what} names {shown(word)}, which is no name of a metric.",
                hint=f"Write for example {what}=iops,clat_p99 or {what}=+usr_cpu.",
            )
    return Columns(
        names=tuple(word for word in words if word and not word.startswith("+")),
        added=tuple(word[1:] for word in words if word.startswith("+")),
    )


def matching(name: str, there: Collection[str]) -> list[str]:
    """Those of a workload's metrics that are meant by a name or a pattern.

    Where none is called so, those that end so: of a mixed fio job "clat_p99" means that of reads and that of writes.
    """
    found = [one for one in there if fnmatchcase(one, name)]
    return found or [one for one in there if fnmatchcase(one, f"*_{name}")]


_GUESSED_SECONDS = 5.0


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

    A subclass names its `tool` and its `metrics` and has an `argv`; its options are fields. What is not said is taken
    at its most careful: that all of the disk is used, read and written. One that makes files says `needs_folder`. What
    takes no argument may be a plain attribute: `metrics = (Metric(name="seconds", unit="s", better="lower"),)`.

    Every workload takes `shown=("iops", "usr_cpu")` beside its options: the metrics that get a column in the matrix.
    """

    # what may stand without an annotation, since it is no option: `needs_folder = True`, `metrics = (...)`
    model_config = ConfigDict(frozen=True, extra="forbid", ignored_types=(bool, str, tuple))

    tool: ClassVar[str]
    package: ClassVar[str] = ""
    """Name of the package whose version is the tool's, where it is not the tool's own name."""

    _chosen: tuple[str, ...] = PrivateAttr(default=())

    def __init__(self, **options: Any) -> None:
        # pytest shows the line of the test that has the slip, and none of ours
        __tracebackhide__ = True
        try:
            # no field: what is shown changes neither what is measured nor what it is called
            chosen = options.pop("shown", None)
            for name, value in options.items():
                check_readable(f"{type(self).__name__}({name})", value)
                if name in type(self).model_fields:
                    check_is_number(f"{type(self).__name__}({name})", value, type(self).model_fields[name].annotation)
            super().__init__(**options)
            check_promises(self)
            if chosen is not None:
                self._chosen = _chosen_of(self, chosen)
        except ValidationError as error:
            raise ConfigError(_sentence(type(self), error)) from None
        except ConfigError as error:
            raise error.with_traceback(None) from None

    @property
    def label(self) -> str:
        """The column this workload stands in, such as "fio randwrite 4k qd32"; by default its name and options."""
        return " ".join([type(self).__name__, *(f"{name}={value}" for name, value in self)])

    @property
    @abstractmethod
    def metrics(self) -> tuple[Metric, ...]:
        """All that `parse` returns, with unit and direction."""

    @property
    def primary(self) -> str:
        """Name of the metric that is gated and saved as a time; by default the first."""
        return self.metrics[0].name

    @property
    def shown(self) -> tuple[str, ...]:
        """Names of the metrics that get a column in the matrix, unless they are chosen."""
        return (self.primary,)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the metrics that get one: those that were chosen, else those of `shown`."""
        return self._chosen or self.shown

    def showing(self, columns: Columns) -> Self:
        """The same with the columns that the user chose for all workloads, as far as it has them."""
        other = self.model_copy()
        names = [metric.name for metric in self.metrics]
        other._chosen = columns.of(names, self.columns)  # noqa: SLF001 (one of its own kind)
        return other

    @property
    def point(self) -> Mapping[str, float]:
        """Options that a sweep goes over, by name: where it stands on a curve. {} where it is on none."""
        return {}

    @property
    def shape(self) -> str:
        """What its curve is called: the label without what `point` holds."""
        return self.label

    @property
    def writes_zeros(self) -> bool:
        """Whether it writes nothing but zeros, which some layers store as nothing."""
        return False

    @property
    def needs_folder(self) -> bool:
        """Whether it makes files of its own: the cell then needs a file system, and `region_bytes` is 0."""
        return False

    @property
    def checks_data(self) -> bool:
        """Whether it fails where what it reads is not what was written."""
        return False

    @property
    def region_bytes(self) -> int | None:
        """How much of the target it touches from the offset on; None, all of it, unless it makes files of its own."""
        return 0 if self.needs_folder else None

    @property
    def bytes_on_disk(self) -> int | None:
        """How many bytes of the disk it takes at once, by its options; None where these do not say.

        A disk that is smaller is refused before anything runs.
        """
        return None if self.needs_folder else self.region_bytes

    @property
    def reads(self) -> bool:
        """Whether it reads what it did not write, so that this must have been written before."""
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
        """Whether it can measure first writes: it only writes and can be given an untouched region."""
        return not self.reads

    @property
    def expected_seconds(self) -> float:
        """About how long one round takes; a measurement is not disturbed by questions before that."""
        return _GUESSED_SECONDS

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

    def set_aside(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Commands in place of `cleanup` after a round on a fresh disk, whose next round is to write unwritten blocks.

        A file system gives the blocks of removed files to the next ones. By default those of `cleanup` all the same.
        """
        return self.cleanup(target)

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

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures by metric name from the tool's raw output; raises WorkloadError.

        By default from lines of a metric's name and its number, such as "seconds 1.25".
        """
        words = [line.split() for line in text.splitlines()]
        said = {line[0]: line[1] for line in words if len(line) == 2}
        try:
            return {metric.name: float(said[metric.name]) for metric in self.metrics}
        except (KeyError, ValueError) as error:
            raise WorkloadError(f"{self.label} printed no line with a number for {error}.", output=text) from None


def check_promises(workload: Workload) -> None:
    """Raise ConfigError for a workload whose class does not say what is measured, or says it against itself."""
    kind = type(workload).__name__
    if not getattr(workload, "tool", ""):
        raise ConfigError(f"{kind} names no tool.", hint=f'Write in the class: tool = "{kind.lower()}"')
    names = [metric.name for metric in workload.metrics]
    twice = [name for name in names if names.count(name) > 1]
    if not names or twice:
        what = f"has two metrics {twice[0]!r}" if twice else "has no metrics"
        raise ConfigError(f"{kind} {what}.", hint="Give each figure that it returns one Metric.")
    if any(metric.name == workload.primary and metric.better == "neither" for metric in workload.metrics):
        raise ConfigError(
            f"{kind} has {workload.primary!r} for its primary metric, of which neither way is better.",
            hint="Name one that says which cell is faster.",
        )
    for name in (workload.primary, *workload.shown):
        if name not in names:
            raise ConfigError(
                f"{kind} has no metric {name!r}, which its primary or shown names.", hint=f"It has: {', '.join(names)}."
            )


def _chosen_of(workload: Workload, names: object) -> tuple[str, ...]:
    """The metrics that `shown=` names; raises ConfigError for one that the workload has not."""
    kind, there = type(workload).__name__, [metric.name for metric in workload.metrics]
    if not isinstance(names, tuple | list) or not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(
            f"{kind}(shown={shown(names)}) is no list of metrics.", hint=f'Write for example shown=("{there[0]}",).'
        )
    found = [matching(name, there) for name in names]
    for name, those in zip(names, found, strict=True):
        if not those:
            raise ConfigError(
                f"{kind}(shown=...) names {shown(name)}, which it has not.",
                hint=f"{close_to(name, there)}It has: {', '.join(there)}.",
            )
    return tuple(dict.fromkeys(one for those in found for one in those))


def figures_of(workload: Workload, text: str) -> dict[str, float]:
    """What its `parse` returns, all of it and nothing else; raises WorkloadError where metrics promise another."""
    figures = dict(workload.parse(text))
    names = [metric.name for metric in workload.metrics]
    for name in [*names, *figures]:
        if name not in names:
            raise WorkloadError(
                f"parse of {workload.label} returned {name!r}, which is not among its metrics: {', '.join(names)}."
            )
        if not isinstance(figures.get(name), int | float):
            got = f"{figures[name]!r} for" if name in figures else "no"
            raise WorkloadError(f"parse of {workload.label} returned {got} {name!r}.", output=text)
    return figures


def _sentence(kind: type[Workload], error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "its options"
    if first["type"] == "extra_forbidden":
        known = ", ".join(kind.model_fields)
        return f"{kind.__name__} has no option {name!r}. {close_to(name, kind.model_fields)}It has: {known}."
    given = "" if first["type"] == "missing" else f"={shown(first['input'])}"
    return f"{kind.__name__}({name}{given}): {first['msg']}."


Many = Annotated[int, Field(ge=1, le=10**7)]
"""How many files or operations: a tool that makes more of them has its list in memory, and guests have little."""


class FileWorkload(Workload):
    """A tool that works on files of its own, in a folder beside the test file; it reads only what it made itself."""

    needs_folder: ClassVar[bool] = True

    def place(self, target: Target) -> str:
        """Its folder on the file system under test."""
        return f"{target.folder}/vmstorage-{self.tool}"

    def beside(self, target: Target) -> str:
        """A file or folder of its own in the scratch folder, for what is no I/O of the disk, as the tool's settings."""
        # a native row's scratch folder is the one in which its files are made
        return f"{target.scratch}/vmstorage-{self.tool}.own"

    def set_aside(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Its files stay, under another name."""
        rename = 'n=1; while [ -e "$1.$n" ]; do n=$((n + 1)); done; mv "$1" "$1.$n"; rm -rf "$2"'
        return (("/bin/sh", "-c", rename, "sh", self.place(target), self.beside(target)),)

    def cleanup(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Remove both."""
        return (("rm", "-rf", self.place(target), self.beside(target)),)
