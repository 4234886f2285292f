"""iozone: sequential and random reads and writes of one file, over file sizes and record sizes."""

from __future__ import annotations

import base64
import gzip
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from pytest_vmstorage.errors import ConfigError, UnsupportedError, WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.text import quoted
from pytest_vmstorage.units import Bytes, format_size
from pytest_vmstorage.workloads.base import MIB, Commands, FileWorkload, Target, metrics_in
from pytest_vmstorage.workloads.script import FRESH, bash

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import IozoneOptions

_KIB = 2**10
_GUESSED_MIB_PER_SECOND = 50.0
_MISSING = "vmstorage: missing iozone"
_CHUNK = 24_000
"""Bytes of base64 in one command: larger messages break the stream to a guest's agent."""

TESTS: Mapping[int, tuple[str, ...]] = {
    0: ("write", "rewrite"),
    1: ("read", "reread"),
    2: ("random_read", "random_write"),
    3: ("bkwd_read",),
    4: ("record_rewrite",),
    5: ("stride_read",),
    6: ("fwrite", "frewrite"),
    7: ("fread", "freread"),
}
"""iozone's tests by the number of -i: the columns they fill, in the order of its table."""

_MAKE = f"""{FRESH}
fresh "$1" "$2"
check_room "$1" "$3" "iozone's largest file needs"
"""

# a binary that was given comes before an installed one
_RUN = r"""
set -eo pipefail
program=$2/iozone
[ -x "$program" ] || program=$(command -v iozone) || { echo "vmstorage: missing iozone"; exit 0; }
cd "$1"
options=$3
shift 3
for pair; do
  sync
  [ "$(id -u)" != 0 ] || echo 3 >/proc/sys/vm/drop_caches
  "$program" $options -s "${pair%:*}k" -r "${pair#*:}k" -f file
done
"""


class Iozone(FileWorkload):
    """iozone's `tests` for each pair of `file_size` and `record_size`, a whole matrix in one round.

    `tests` are the numbers of iozone's -i (`TESTS`): 0 write, 1 read, 2 random, 3 backwards, 4 one record again, 5
    strides, 6 and 7 the same by stdio. `flush` (-e) and `close` (-c) count fsync and close as part of a write;
    `direct` (-I) goes past the guest's page cache. Records larger than the file are left out. iozone is not in
    Debian's main archive: `binary` is a file on the machine that runs pytest, which is copied into the guest's memory;
    without it the guest's own is used, or one from this machine's PATH. Without any the test is skipped.

    Without `direct` it measures the guest's page cache as much as the disk: each read comes right after the write of
    the same file. Only files larger than the guest's memory measure the disk. The guest's caches are dropped
    before each pair, not between the tests of one. A study of 2010 does not state its sizes: `Iozone.auto()` has
    those of `iozone -a`.

    Figures: MiB/s, named test, file size, record size: `write_16M_4k`, `random_read_16M_64k`.
    """

    tool: ClassVar[str] = "iozone"

    file_size: tuple[Bytes, ...] = Field((16 * MIB,), description="Sizes of the file.")
    record_size: tuple[Bytes, ...] = Field(
        (4 * _KIB, 64 * _KIB, MIB), description="Sizes of a record; those larger than the file are left out."
    )
    tests: tuple[int, ...] = Field(
        (0, 1, 2),
        description="Numbers of iozone's -i: 0 write, 1 read, 2 random, 3 backwards, 4 one record again, 5 "
        "strides, 6 and 7 the same as 0 and 1 by stdio. 0 is needed, as the others work on its "
        "file.",
    )
    flush: bool = Field(True, description="Whether fsync counts as part of a write: iozone's -e.")
    close: bool = Field(False, description="Whether close counts as part of a write: iozone's -c.")
    direct: bool = Field(False, description="Use direct I/O: iozone's -I.")
    binary: str | None = Field(
        None,
        description="iozone's program on the machine that runs pytest, copied into the guest's memory; None is "
        "the guest's own.",
    )

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[IozoneOptions]) -> None: ...

    @field_validator("file_size", "record_size")
    @classmethod
    def _whole(cls, sizes: tuple[int, ...], info: Any) -> tuple[int, ...]:
        if not sizes or any(not size or size % _KIB for size in sizes):
            hint = 'Write for example ("16M",).'
            raise ConfigError(
                f"Iozone({info.field_name}={sizes}) is not a list of whole kilobytes.", hint=hint, code="VM302"
            )
        return tuple(dict.fromkeys(sizes))

    @field_validator("tests")
    @classmethod
    def _known(cls, tests: tuple[int, ...]) -> tuple[int, ...]:
        if 0 not in tests or not set(tests) <= set(TESTS):
            raise ConfigError(
                f"Iozone(tests={tests}) cannot be run.",
                hint="They are numbers from 0 to 7, and 0 among them: it writes the file for all others.",
                code="VM302",
            )
        return tuple(sorted(set(tests)))

    @model_validator(mode="after")
    def _holds_a_record(self) -> Iozone:
        if not self.pairs:
            raise ConfigError(
                "No file of this Iozone holds one of its records.", hint="Give a smaller record_size.", code="VM302"
            )
        # os.path reports a name that is too long as missing, where pathlib raises
        if self.binary is not None and not os.path.isfile(self.binary):  # noqa: PTH113
            raise ConfigError(
                f"Iozone(binary={quoted(self.binary)}) does not exist.", hint="Give iozone's path.", code="VM302"
            )
        return self

    @classmethod
    def auto(cls, **options: Unpack[IozoneOptions]) -> Iozone:
        """The sizes of `iozone -a`: files from 64k to 512M, records from 4k to 16M; any other option as given."""
        files = tuple(64 * _KIB << shift for shift in range(14))
        records = tuple(4 * _KIB << shift for shift in range(13))
        sizes: dict[str, Any] = {"file_size": files, "record_size": records}
        return cls(**(sizes | dict(options)))

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """File and record sizes, in bytes, in the order in which they are run."""
        return tuple((file, record) for file in self.file_size for record in self.record_size if record <= file)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of iozone's table for each pair."""
        return tuple(column for test in self.tests for column in TESTS[test])

    @property
    def label(self) -> str:
        """The sizes and tests, then how writes are counted."""
        files, records = ("/".join(map(format_size, sizes)) for sizes in (self.file_size, self.record_size))
        parts = ["iozone", files, records, f"i={''.join(map(str, self.tests))}"]
        parts += ["direct"] if self.direct else [] if self.flush else ["buffered"]
        return " ".join([*parts, *(["close"] if self.close else [])])

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Each column of each pair."""
        return metrics_in("MiB/s", "higher", *(_name(column, *pair) for pair in self.pairs for column in self.columns))

    @property
    def primary(self) -> str:
        """The first write of the last pair."""
        return _name(self.columns[0], *self.pairs[-1])

    @property
    def shown(self) -> tuple[str, ...]:
        """The last pair."""
        return tuple(_name(column, *self.pairs[-1]) for column in self.columns)

    @property
    def bytes_on_disk(self) -> int:
        """The largest file: each pair writes the same one anew."""
        return max(self.file_size)

    @property
    def expected_seconds(self) -> float:
        """A second, and the time of all its passes at 50 MiB/s."""
        passes = sum(file for file, _record in self.pairs) * len(self.columns)
        return 1.0 + passes / MIB / _GUESSED_MIB_PER_SECOND

    def setup(self, target: Target) -> Commands:
        """Folders of its own, and the binary in pieces where there is one to copy; fails without room."""
        own = self.scratch_path(target)
        commands = [bash(_MAKE, self.place(target), own, str(self.bytes_on_disk))]
        found = self.binary or shutil.which("iozone")
        if found is None:
            return tuple(commands)
        text = base64.b64encode(gzip.compress(Path(found).read_bytes())).decode()
        pieces = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
        commands += [("/bin/sh", "-c", 'printf %s "$1" >>"$2/packed"', "sh", piece, own) for piece in pieces]
        unpack = 'base64 -d "$1/packed" | gzip -d >"$1/iozone" && chmod 755 "$1/iozone" && rm "$1/packed"'
        return (*commands, ("/bin/sh", "-c", unpack, "sh", own))

    def argv(self, target: Target) -> tuple[str, ...]:
        """iozone once for each pair, caches dropped before."""
        given = {"-e": self.flush, "-c": self.close, "-I": self.direct}
        options = [*(f"-i {test}" for test in self.tests), *(option for option, on in given.items() if on)]
        pairs = (f"{file // _KIB}:{record // _KIB}" for file, record in self.pairs)
        return bash(_RUN, self.place(target), self.scratch_path(target), " ".join(options), *pairs)

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from iozone's tables; raises UnsupportedError without an iozone, WorkloadError for a missing row."""
        if _MISSING in text.splitlines():
            raise UnsupportedError(
                f"{self.label} needs iozone, which neither the guest nor this machine has.",
                hint="Give one with Iozone(binary=...), or install it (Debian: iozone3 of non-free).",
                code="VM328",
            )
        rows = [line.split() for line in text.splitlines()]
        numbers = [[int(word) for word in row] for row in rows if row and all(word.isdigit() for word in row)]
        found = {(row[0] * _KIB, row[1] * _KIB): row[2:] for row in numbers if len(row) == 2 + len(self.columns)}
        for file, record in self.pairs:
            if not all(found.get((file, record), [0])):
                what = f"a file of {format_size(file)} in records of {format_size(record)}"
                raise WorkloadError(f"iozone printed no figures for {what}.", output=text, code="VM702")
        return {
            _name(column, *pair): value / _KIB
            for pair in self.pairs
            for column, value in zip(self.columns, found[pair], strict=True)
        }

    def matrix(self, figures: Mapping[str, float], column: str) -> Mapping[tuple[int, int], float]:
        """The figures of one of `columns` in a round by (file size, record size) in bytes; raises ConfigError."""
        if column not in self.columns:
            raise ConfigError(
                f"{self.label} has no {column!r}.", hint=f"It has: {', '.join(self.columns)}.", code="VM313"
            )
        return {pair: figures[_name(column, *pair)] for pair in self.pairs}


def _name(column: str, file: int, record: int) -> str:
    return f"{column}_{format_size(file)}_{format_size(record)}"
