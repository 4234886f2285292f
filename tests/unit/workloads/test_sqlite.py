"""SQLite: what is set up, what runs, and the real output of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.workloads.base import Target
from pytest_vmstorage.workloads.sqlite import Sqlite

RECORDINGS = Path(__file__).parents[1] / "recordings"
TARGET = Target(path="/dev/vdb", size_bytes=0, folder="/mnt/x", scratch="/tmp")


def recorded(name: str) -> str:
    """What the script really printed in a guest with sqlite3 3.40.1."""
    return (RECORDINGS / f"sqlite-3.40.1-{name}.txt").read_text()


TWICE = recorded("2x300-insertions")


def test_the_database_is_on_the_disk_and_the_statements_are_not() -> None:
    """Both are removed."""
    sqlite = Sqlite(insertions=300, runs=2, seed=9)
    (setup,) = sqlite.setup(TARGET)
    pragmas = "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL; "
    assert setup[6] == "/mnt/x/vmstorage-sqlite3"
    assert setup[7].startswith(pragmas + "CREATE TABLE pts1 (I SMALLINT NOT NULL, DT TIMESTAMP")
    assert setup[8:] == ("/tmp/vmstorage-sqlite3.own", "300", "9")
    assert sqlite.argv(TARGET)[6:] == ("/mnt/x/vmstorage-sqlite3", "/tmp/vmstorage-sqlite3.own", "2", pragmas)
    assert sqlite.cleanup(TARGET) == (("rm", "-rf", "/mnt/x/vmstorage-sqlite3", "/tmp/vmstorage-sqlite3.own"),)


@pytest.mark.parametrize("index", [False, True])
def test_an_index_is_made_where_it_is_asked_for(index: bool) -> None:
    """pts has none."""
    assert ("CREATE INDEX" in Sqlite(index=index).setup(TARGET)[0][7]) is index


def test_figures_of_a_real_run() -> None:
    """All insertions of all runs, over their time."""
    sqlite = Sqlite(insertions=300, runs=2)
    figures = sqlite.parse(TWICE)
    assert figures == {"seconds": pytest.approx(3.617724), "insertions": pytest.approx(165.85, abs=0.01)}
    assert [metric.name for metric in sqlite.metrics] == list(figures)
    assert [metric.unit for metric in sqlite.metrics] == ["s", "insertions/s"]
    assert sqlite.primary in sqlite.shown
    assert set(sqlite.shown) <= set(figures)


def test_pragmas_in_effect_are_those_asked_for() -> None:
    """SQLite ignores what it does not know; a file system may have no shared memory for a WAL."""
    wal = Sqlite(insertions=300, journal_mode="WAL", synchronous="NORMAL")
    assert wal.parse(recorded("wal-normal"))["seconds"] == pytest.approx(0.403276)
    for other in ({"journal_mode": "WAL"}, {"synchronous": "NORMAL"}):
        with pytest.raises(WorkloadError, match="SQLite did not run with journal_mode="):
            Sqlite(insertions=300, **other).parse(recorded("wal-normal"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (TWICE.replace("rows 600", "rows 599"), "does not hold 600 rows"),
        ("", "does not hold 600 rows"),
        (TWICE.replace("part insert", "part other"), "'insert' printed no time"),
    ],
)
def test_output_of_less_than_all_is_an_error(text: str, sentence: str) -> None:
    """A shell that ended early would be a fast one."""
    with pytest.raises(WorkloadError, match=sentence):
        Sqlite(insertions=300, runs=2).parse(text)


def test_the_preset_is_the_amount_of_pts() -> None:
    """One file of 2,500 statements, read three times, with SQLite's own pragmas."""
    assert Sqlite.published().label == "sqlite 3x2500 insertions"
    assert Sqlite.published().expected_seconds == 76


@pytest.mark.parametrize(
    "options",
    [
        {"insertions": 0},
        {"runs": 0},
        {"journal_mode": "wal2"},
        {"synchronous": "FULL; DROP TABLE pts1"},
        {"page_size": 1},
    ],
)
def test_options_that_mean_nothing_are_refused(options: dict[str, Any]) -> None:
    """Before there is a guest."""
    with pytest.raises(ConfigError, match="Sqlite"):
        Sqlite(**options)


def test_what_it_does_to_the_disk() -> None:
    """It needs a file system and nothing written before."""
    sqlite = Sqlite(journal_mode="WAL", index=True, seed=3)
    assert sqlite.label == "sqlite 500 insertions journal_mode=WAL seed=3 indexed"
    assert (sqlite.needs_folder, sqlite.reads, sqlite.writes, sqlite.region_bytes) == (True, False, True, 0)
    assert sqlite.fresh_is_possible
    assert sqlite.moved_bytes(TWICE) is None
