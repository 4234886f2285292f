"""SQLite: rows inserted one by one, each a transaction of its own, by the sqlite3 shell. Pragmas are options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.workloads.base import Commands, FileWorkload, Many, Seed, Target, metrics_in
from pytest_vmstorage.workloads.script import TIMED, bash, seconds_of

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import SqliteOptions

_GUESSED_PER_SECOND = 100.0
_ROW_BYTES, _INDEXED_BYTES = 52, 12
_SYNCHRONOUS = {"OFF": 0, "NORMAL": 1, "FULL": 2, "EXTRA": 3}

# the statements lie in the scratch folder: reading them is no I/O of the disk under test
_MAKE = r"""
set -eo pipefail
rm -rf "$1"; mkdir "$1"
sqlite3 -bail -init /dev/null "$1/db" "$2" >/dev/null
awk -v n="$4" -v seed="$5" 'BEGIN {
  srand(seed); letters = "abcdefghijklmnopqrstuvwxyz"
  row = "INSERT INTO pts1 (I, F1, F2) VALUES (%d, \047%s\047, \047%s\047);\n"
  for (i = 1; i <= n; i++) {
    text = ""
    for (k = 0; k < 20; k++) text = text substr(letters, 1 + int(rand() * 26), 1)
    printf row, i, substr(text, 1, 4), substr(text, 5)
  }
}' >"$3"
"""

# synchronous belongs to a connection, not to the database: each shell sets it. SQLite ignores pragmas that it does not
# know, so the script asks which are in effect.
_RUN = (
    TIMED  # noqa: S608 (no input is part of it)
    + r"""
shell() { sqlite3 -bail -init /dev/null -cmd "$pragmas" "$db"; }
insert() { local run; for ((run = 0; run < runs; run++)); do shell <"$statements" >/dev/null; done; }
db=$1/db statements=$2 runs=$3 pragmas=$4
part insert insert
sqlite3 -init /dev/null "$db" "SELECT 'rows ' || count(*) FROM pts1"
echo 'PRAGMA journal_mode; PRAGMA synchronous;' | shell | tail -n 2 | paste -sd ' ' | sed 's/^/pragmas /'
"""
)


class Sqlite(FileWorkload):
    """`insertions` rows are inserted into a table, one transaction each, by `runs` shells one after the other.

    It is the work of Phoronix' pts/sqlite: a table of four columns, a file of INSERT statements read by the sqlite3
    shell three times, each statement durable before the next. What differs: that file is said to hold 2,500
    statements and is not shipped here, so rows are made by `seed`; the statements lie in memory, not on the disk; the
    SQLite is the guest's, where pts builds one of its own. pts calls its table indexed, and makes no index since its
    early versions; `index=True` adds one on `I`. `Sqlite.published()` is three runs of 2,500.

    `journal_mode` and `synchronous` are SQLite's pragmas, by default those of SQLite itself.

    It measures how fast small writes are made durable: with journal_mode DELETE and synchronous FULL each insertion
    makes, flushes and removes a journal. With synchronous OFF, or a layer that drops flushes, memory is measured.
    Reads and throughput are not: the database stays small.

    Figures: `seconds` for all insertions, and `insertions` a second.
    """

    tool: ClassVar[str] = "sqlite3"
    shown: ClassVar[tuple[str, ...]] = ("seconds", "insertions")
    metrics: ClassVar[tuple[Metric, ...]] = (
        *metrics_in("s", "lower", "seconds"),
        *metrics_in("insertions/s", "higher", "insertions"),
    )

    insertions: Many = Field(
        500, description="Number of rows that each shell inserts, each in a transaction of its own."
    )
    runs: Many = Field(1, description="Number of shells, one after the other.")
    journal_mode: Literal["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL", "OFF"] = Field(
        "DELETE", description="SQLite's pragma of that name."
    )
    synchronous: Literal["OFF", "NORMAL", "FULL", "EXTRA"] = Field(
        "FULL", description="SQLite's pragma of that name: OFF is not durable."
    )
    index: bool = Field(False, description="Whether the table has an index on its first column.")
    seed: Seed = Field(1, description="Number that decides the texts in the rows.")

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[SqliteOptions]) -> None: ...

    @classmethod
    def published(cls) -> Sqlite:
        """The amount of pts/sqlite, which a study of 2017 ran."""
        return cls(insertions=2500, runs=3)

    @property
    def label(self) -> str:
        """How many insertions, then options that differ from the defaults."""
        times = f"{self.runs}x" if self.runs > 1 else ""
        others = [*self._changed("journal_mode", "synchronous", "seed"), *(["indexed"] if self.index else [])]
        return " ".join(["sqlite", f"{times}{self.insertions} insertions", *others])

    @property
    def bytes_on_disk(self) -> int:
        """Its rows, and the index where there is one; the journal is as small as a transaction.

        52 bytes a row and 12 more of an index: databases of 50,000 rows that SQLite 3.40 made, by their size.
        """
        return self.insertions * self.runs * (_ROW_BYTES + (_INDEXED_BYTES if self.index else 0))

    @property
    def expected_seconds(self) -> float:
        """A second, and the time at a hundred insertions a second."""
        return 1.0 + self.insertions * self.runs / _GUESSED_PER_SECOND

    def setup(self, target: Target) -> Commands:
        """An empty table in a database of its own, and the statements."""
        table = (
            "CREATE TABLE pts1 (I SMALLINT NOT NULL, DT TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
            " F1 VARCHAR(4) NOT NULL, F2 VARCHAR(16) NOT NULL);"
        )
        index = " CREATE INDEX pts1_i ON pts1 (I);" if self.index else ""
        numbers = (str(self.insertions), str(self.seed))
        return (bash(_MAKE, self.place(target), self._pragmas + table + index, self.scratch_path(target), *numbers),)

    @property
    def _pragmas(self) -> str:
        return f"PRAGMA journal_mode={self.journal_mode}; PRAGMA synchronous={self.synchronous}; "

    def argv(self, target: Target) -> tuple[str, ...]:
        """All runs under a stopwatch, then the count of rows and the pragmas in effect."""
        return bash(_RUN, self.place(target), self.scratch_path(target), str(self.runs), self._pragmas)

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from the stopwatch; raises WorkloadError unless all rows are there and the pragmas were in effect."""
        said = [line.split() for line in text.splitlines()]
        wanted = self.insertions * self.runs
        if ["rows", str(wanted)] not in said:
            raise WorkloadError(f"The table does not hold {wanted} rows.", output=text, code="VM710")
        pragmas = ["pragmas", self.journal_mode.lower(), str(_SYNCHRONOUS[self.synchronous])]
        if pragmas not in said:
            asked = f"journal_mode={self.journal_mode} and synchronous={self.synchronous}"
            raise WorkloadError(f"SQLite did not run with {asked}.", output=text, code="VM712")
        seconds = seconds_of(("insert",), text)["insert"]
        return {"seconds": seconds, "insertions": wanted / seconds}
