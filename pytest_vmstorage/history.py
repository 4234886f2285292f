"""What earlier runs say of each test: when it was last measured and how long it takes; pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.user_input import parse_json

GUEST_S = 5.0
"""Assumed for a guest: its disk made, booted, torn down."""

ROUND_S = 5.0
"""Assumed for a round of a test that no journal knows."""

WARMUP_ROUNDS = 1


class Past(BaseModel):
    """How a test went when it was last measured: seconds a round of all its workloads, and how many rounds.

    `last` is when its last round began: UTC, ISO 8601.
    """

    model_config = ConfigDict(frozen=True)

    round_s: float
    rounds: int
    last: str


class Estimate(NamedTuple):
    """About how long a test takes in seconds, guest not counted, and what says so."""

    seconds: float
    basis: Literal["measured", "other cells", "assumed"]


class History(BaseModel):
    """The last time of each test by node id."""

    model_config = ConfigDict(frozen=True)

    tests: Mapping[str, Past] = {}

    def last(self, nodeid: str) -> str:
        """When the test was last measured, "" for never; times sort as texts."""
        past = self.tests.get(nodeid)
        return "" if past is None else past.last

    def estimate(self, nodeid: str, rounds: int) -> Estimate:
        """The time of a test that measures: its own last one, the median of its other cells', or an assumption.

        As many rounds as last time are counted, `rounds` at least, and the warm-up. Filling the disk is not known.
        """
        past = self.tests.get(nodeid)
        if past is not None:
            return Estimate(_seconds(past, rounds), "measured")
        stem = stem_of(nodeid)
        others = [_seconds(one, rounds) for name, one in self.tests.items() if stem_of(name) == stem]
        if others:
            return Estimate(statistics.median(others), "other cells")
        return Estimate((rounds + WARMUP_ROUNDS) * ROUND_S, "assumed")


def stem_of(nodeid: str) -> str:
    """A node id without its parameters; a folder may have brackets in its name too."""
    file, separator, name = nodeid.partition("::")
    return file + separator + name.partition("[")[0]


def read_history(journals: Iterable[Iterable[str]]) -> History:
    """The history that journals tell, each given by its lines; the journal that measured a test last speaks for it.

    A line that is no sample, such as one cut short by a crash, is passed over.
    """
    tests: dict[str, Past] = {}
    for lines in journals:
        for nodeid, past in _journal(lines).items():
            if nodeid not in tests or past.last > tests[nodeid].last:
                tests[nodeid] = past
    return History(tests=tests)


def _journal(lines: Iterable[str]) -> dict[str, Past]:
    found: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for line in lines:
        try:
            record = parse_json(line)
            nodeid, workload, sample = record["nodeid"], record["workload"], record["sample"]
            seconds, started = float(sample["seconds"]), str(sample["started"])
        except (ValueError, TypeError, KeyError):
            continue
        if 0 <= seconds < math.inf:
            kept = {"seconds": seconds, "started": started}
            found.setdefault(str(nodeid), {}).setdefault(str(workload), []).append(kept)
    return {nodeid: _past(list(workloads.values())) for nodeid, workloads in found.items()}


def _past(workloads: list[list[Mapping[str, Any]]]) -> Past:
    return Past(
        round_s=sum(statistics.mean(one["seconds"] for one in samples) for samples in workloads),
        rounds=max(len(samples) for samples in workloads),
        last=max(one["started"] for samples in workloads for one in samples),
    )


def _seconds(past: Past, rounds: int) -> float:
    return past.round_s * (max(past.rounds, rounds) + WARMUP_ROUNDS)
