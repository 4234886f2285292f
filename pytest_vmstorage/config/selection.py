"""The choice of cells to measure: few that cover all pairs, or those that a time budget allows; pure."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import StorageConfig

Pair = tuple[tuple[str, Hashable], ...]
"""Two names with a value each; one where a single name varies."""


def pairs_of(values: Mapping[str, Any], names: Sequence[str]) -> frozenset[Pair]:
    """Every pair among the values of these names; single values where there is one name only."""
    chosen = [(name, values[name]) for name in names]
    return frozenset(itertools.combinations(chosen, min(2, len(chosen))) if chosen else ())


def varying(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names whose value differs between rows, in the first row's order."""
    return tuple(name for name in (rows[0] if rows else ()) if any(row[name] != rows[0][name] for row in rows))


def reduce_pairwise(rows: Sequence[Mapping[str, Any]], seed: int = 0) -> tuple[int, ...]:
    """The places of few rows, ascending, that contain every pair of any row; the same for one seed.

    Greedy: always the row with most pairs not met before; then rows that others make superfluous go.
    """
    if not rows:
        return ()
    names = varying(rows)
    pairs = [pairs_of(row, names) for row in rows]
    tie = list(range(len(rows)))
    random.Random(seed).shuffle(tie)  # noqa: S311 (an order, no secret)
    chosen = _greedy(pairs, tie)
    return tuple(sorted(_needed(chosen, pairs))) or (0,)


def _greedy(pairs: Sequence[frozenset[Pair]], tie: Sequence[int]) -> list[int]:
    # a row's gain only ever falls, so the old figure of those further down is an upper bound
    heap = [(-len(found), tie[n], n) for n, found in enumerate(pairs)]
    heapq.heapify(heap)
    met: set[Pair] = set()
    chosen = []
    while heap:
        _, rank, n = heapq.heappop(heap)
        gain = len(pairs[n] - met)
        if gain == 0:
            continue
        if heap and (-gain, rank) > heap[0][:2]:
            heapq.heappush(heap, (-gain, rank, n))
            continue
        chosen.append(n)
        met |= pairs[n]
    return chosen


def _needed(chosen: Sequence[int], pairs: Sequence[frozenset[Pair]]) -> list[int]:
    """Without the rows whose pairs all occur in others, the last chosen first."""
    times = Counter(pair for n in chosen for pair in pairs[n])
    kept = list(chosen)
    for n in reversed(chosen):
        if all(times[pair] > 1 for pair in pairs[n]):
            times.subtract(pairs[n])
            kept.remove(n)
    return kept


Covered = tuple[str, Pair]
"""A test with a pair of values that it meets."""


class Candidate(BaseModel):
    """A cell with the tests that share its guest, and the seconds all of it takes.

    `tests` are names without parameters. `last` is when the one among them that waited longest was measured (UTC,
    ISO 8601), "" for never; `failed` whether one of them failed last time.
    """

    model_config = ConfigDict(frozen=True)

    config: StorageConfig
    tests: tuple[str, ...]
    seconds: float
    failed: bool = False
    last: str = ""


class Choice(BaseModel):
    """The candidates that fit, by place, ascending; their seconds; pairs of values that no chosen cell meets."""

    model_config = ConfigDict(frozen=True)

    chosen: tuple[int, ...]
    seconds: float
    pairs: int
    uncovered: tuple[Covered, ...]


def choose(candidates: Sequence[Candidate], budget_s: float) -> Choice:
    """The candidates that fit into the budget.

    First those that bring a test most new pairs of values for their time, until every pair is met; then those
    that failed last time; then those that were not measured for longest, never measured ones first.
    """
    covers = coverage(candidates)
    chosen, met = _spread(candidates, covers, budget_s)
    left_s = budget_s - sum(candidates[n].seconds for n in chosen)
    for n in sorted(set(range(len(candidates))) - set(chosen), key=lambda n: (_urgency(candidates[n]), n)):
        if candidates[n].seconds <= left_s:
            chosen.append(n)
            left_s -= candidates[n].seconds
    wanted = frozenset().union(*covers)
    return Choice(
        chosen=tuple(sorted(chosen)),
        seconds=sum(candidates[n].seconds for n in chosen),
        pairs=len(wanted),
        uncovered=tuple(sorted(wanted - met, key=repr)),
    )


def _spread(
    candidates: Sequence[Candidate], covers: Sequence[frozenset[Covered]], left_s: float
) -> tuple[list[int], set[Covered]]:
    """Candidates that meet as many pairs as the time allows, and those pairs."""
    chosen: list[int] = []
    met: set[Covered] = set()
    while True:
        gains = {n: len(covers[n] - met) for n, one in enumerate(candidates) if one.seconds <= left_s}
        useful = [n for n, gain in gains.items() if gain]
        if not useful:
            return chosen, met
        best = min(useful, key=lambda n: (-gains[n] / max(candidates[n].seconds, 0.001), _urgency(candidates[n]), n))
        chosen.append(best)
        met |= covers[best]
        left_s -= candidates[best].seconds


def coverage(candidates: Sequence[Candidate]) -> list[frozenset[Covered]]:
    """The pairs that each candidate meets for each of its tests, of the fields that vary over that test's cells."""
    rows = [dict(one.config) for one in candidates]
    found: list[set[Covered]] = [set() for _ in candidates]
    for test in {name: None for one in candidates for name in one.tests}:
        places = [n for n, one in enumerate(candidates) if test in one.tests]
        names = varying([rows[n] for n in places])
        for n in places:
            found[n] |= {(test, pair) for pair in pairs_of(rows[n], names)}
    return [frozenset(one) for one in found]


def _urgency(candidate: Candidate) -> tuple[bool, str]:
    return (not candidate.failed, candidate.last)
