"""postmark: a mail server's small files created, read, appended to and deleted. Options carry postmark's own names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import Bytes
from pytest_vmstorage.workloads.base import MIB, Commands, FileWorkload, Many, Seed, Target, metrics_in
from pytest_vmstorage.workloads.script import FRESH, TIMED, bash, seconds_of

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import PostmarkOptions

_BLOCK = 4096
_FACTORS = {"": 1, "kilo": 2**10, "mega": MIB, "giga": 2**30, "tera": 2**40}
_GUESSED_PER_SECOND = 1000.0
_COMMANDS = ("run", "show", "quit", "help")

_MAKE = f"""{FRESH}
fresh "$1"
check_room "$1" "$2" "postmark may write"
printf '%s' "$3" >"$4"
"""

# postmark counts whole seconds, and calls less than one a second; it prints each stage as it begins. It goes on after
# an error, and would give figures of work that it did not do.
_RUN = (
    TIMED
    + r"""
watched() {
  local line= char= begin= end=
  while IFS= read -r -N 1 char; do
    line+=$char
    printf %s "$char"
    case $line in
    *Error:*$'\n') exit 1 ;;
    *'Performing transactions') begin=$EPOCHREALTIME ;;
    'Deleting files') end=$EPOCHREALTIME ;;
    esac
    [ "$char" != $'\n' ] || line=
  done
  echo "part transactions $begin $end"
}
both() { postmark "$1" 2>&1 | watched; }
part total both "$1"
"""
)

_Tenths = Annotated[int, Field(ge=0, le=10)]
_OWN_SECONDS = re.compile(r"(\d+) seconds of transactions")
_DATA = re.compile(r"([\d.]+) (kilo|mega|giga|tera|)bytes (read|written) \(")


class Postmark(FileWorkload):
    """postmark's run: `number` files are made, `transactions` done on them, and all are deleted again.

    A transaction is a read or an append, and a creation or a deletion (`bias_read`, `bias_create`: chances out of
    10). `size` are the smallest and the largest file in bytes, `read` and `write` block sizes. The defaults are those
    of a study of 2010, with fewer files and transactions; `Postmark.published()` has all of them, and `from_file`
    takes postmark's own settings.

    It measures the file system's metadata first, then the guest's page cache, and the disk last: `buffering=False`
    means read(2) and write(2) instead of stdio, and never direct I/O. Nothing is flushed, and files that were deleted
    before the kernel wrote them never reach the disk: of the 78 MiB that a run of the defaults says it wrote, a guest
    of 512 MiB wrote 17. Files (`number` times the mean of `size`) that fit the guest's memory say little of the disk.

    Figures: `tps`, transactions per second, timed from outside, since postmark counts whole seconds (and they have to
    agree); `read_bw` and `write_bw`, MiB/s over the whole run, `seconds`, which creation and deletion are part of.
    """

    tool: ClassVar[str] = "postmark"
    shown: ClassVar[tuple[str, ...]] = ("tps", "read_bw", "write_bw")
    metrics: ClassVar[tuple[Metric, ...]] = (
        *metrics_in("transactions/s", "higher", "tps"),
        *metrics_in("MiB/s", "higher", "read_bw", "write_bw"),
        *metrics_in("s", "lower", "seconds"),
    )

    size: tuple[Bytes, Bytes] = Field((512, 65536), description="Bytes of the smallest and of the largest file.")
    number: Many = Field(1000, description="Number of files.")
    transactions: Many = Field(2000, description="Number of transactions.")
    read: Bytes = Field(4096, description="Block size of reads.")
    write: Bytes = Field(4096, description="Block size of writes.")
    subdirectories: Annotated[int, Field(ge=0, le=10**7)] = Field(
        5, description="Number of folders that the files lie in."
    )
    buffering: bool = Field(
        False, description="Whether files are accessed through stdio, and not by read(2) and write(2)."
    )
    bias_read: _Tenths = Field(5, description="Chance out of 10 that a transaction reads, and does not append.")
    bias_create: _Tenths = Field(5, description="Chance out of 10 that a transaction creates, and does not delete.")
    seed: Seed = Field(42, description="Seed of postmark's random numbers.")

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[PostmarkOptions]) -> None: ...

    @field_validator("read", "write")
    @classmethod
    def _moves(cls, value: int, info: Any) -> int:
        if not value:
            raise ConfigError(f"Postmark({info.field_name}=0) moves nothing.", hint="Give a block size.", code="VM302")
        return value

    @model_validator(mode="after")
    def _goes_together(self) -> Postmark:
        if not 0 < self.size[0] <= self.size[1]:
            hint = "Write for example (512, 65536)."
            raise ConfigError(
                f"Postmark(size={self.size}) must be the smallest and the largest file.", hint=hint, code="VM302"
            )
        return self

    @classmethod
    def published(cls) -> Postmark:
        """The settings of a study of 2010."""
        return cls(number=100_000, transactions=50_000)

    @classmethod
    def from_file(cls, path: str | Path) -> Postmark:
        """The settings of postmark's own file, with postmark's defaults for what it leaves out, and our location.

        Raises ConfigError for a file or a line that cannot be read.
        """
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"postmark's settings {path} cannot be read: {error}.", hint="Name a text file.", code="VM215"
            ) from None
        options: dict[str, Any] = dict.fromkeys(("number", "transactions"), 500) | dict.fromkeys(("read", "write"), 512)
        options |= {"size": (500, 10000), "subdirectories": 0, "buffering": True}
        for number, line in enumerate(lines, 1):
            options.update(_setting(line.split(), f"{path}, line {number}"))
        return cls(**options)

    @property
    def label(self) -> str:
        """Files and transactions, then options that differ from the defaults."""
        others = (name for name in type(self).model_fields if name not in ("number", "transactions"))
        parts = ["postmark", f"{self.number} files", f"{self.transactions} transactions"]
        return " ".join([*parts, *self._changed(*others)])

    def _text(self, name: str) -> str:
        """As postmark reads it: whole numbers of bytes, true or false."""
        value = getattr(self, name)
        return " ".join(map(str, value)) if isinstance(value, tuple) else str(value).lower()

    @property
    def expected_seconds(self) -> float:
        """A second, and the time at a thousand files or transactions a second."""
        return 1.0 + (2 * self.number + self.transactions) / _GUESSED_PER_SECOND

    @property
    def written_bytes(self) -> int:
        """About the most it writes: each file, and each that a transaction creates or appends to."""
        halves = self.transactions * (self.bias_create + 10 - self.bias_read) // 20
        return (self.number + halves) * (sum(self.size) // 2 + _BLOCK)

    @property
    def bytes_on_disk(self) -> int:
        """Its files as they are made, of the mean of `size` and half a block each, which transactions then change."""
        return self.number * (sum(self.size) // 2 + _BLOCK // 2)

    def setup(self, target: Target) -> Commands:
        """Make a folder of its own and the settings file; fails without room, as postmark does not notice that."""
        place = self.place(target)
        return (bash(_MAKE, place, str(self.written_bytes), self.settings(place), self.scratch_path(target)),)

    def settings(self, location: str) -> str:
        """postmark's settings file, with the commands that run it."""
        return "".join(f"{line}\n" for line in (*self._lines(location), "run", "quit"))

    def _lines(self, location: str) -> Iterator[str]:
        yield f"set location {location}"
        for name in type(self).model_fields:
            # postmark has no subdirectories by default, and refuses the number 0
            if name != "subdirectories" or self.subdirectories:
                yield f"set {name.replace('_', ' ')} {self._text(name)}"

    def argv(self, target: Target) -> tuple[str, ...]:
        """postmark under a stopwatch."""
        return bash(_RUN, self.scratch_path(target))

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from postmark's output and the stopwatch; raises WorkloadError where they do not agree."""
        own = _OWN_SECONDS.search(text)
        data = {way: float(number) * _FACTORS[unit] for number, unit, way in _DATA.findall(text)}
        if own is None or len(data) != 2 or "Eh?" in text:
            raise WorkloadError("postmark did not say what it did.", output=text, code="VM702")
        seconds = seconds_of(("transactions", "total"), text)
        if abs(seconds["transactions"] - int(own[1])) > 1.1:
            raise WorkloadError(
                f"postmark counted {own[1]} s for its transactions, and they took {seconds['transactions']:.1f} s.",
                output=text,
                code="VM711",
            )
        return {
            "tps": self.transactions / seconds["transactions"],
            "read_bw": data["read"] / MIB / seconds["total"],
            "write_bw": data["written"] / MIB / seconds["total"],
            "seconds": seconds["total"],
        }


def _setting(words: list[str], where: str) -> dict[str, Any]:
    """One line of a settings file as options; {} for its location and for commands."""
    if not words or words[0] in _COMMANDS or words[:2] in (["set", "location"], ["set", "report"]):
        return {}
    count = 2 if words[1:2] == ["bias"] else 1
    name, values = "_".join(words[1 : 1 + count]), words[1 + count :]
    wanted = 2 if name == "size" else 1
    if words[0] != "set" or name not in Postmark.model_fields or len(values) != wanted:
        raise ConfigError(
            f"{where}: {' '.join(words)!r} is not understood.", hint="Write for example: set number 1000", code="VM304"
        )
    return {name: tuple(values) if name == "size" else values[0]}
