"""Pairs of values: what few cells must cover so that each value met each other; pure."""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

Pair = tuple[tuple[str, Hashable], ...]
"""Two names with a value each; one where a single name varies."""


def pairs_of(values: Mapping[str, Any], names: Sequence[str]) -> frozenset[Pair]:
    """Every pair among the values of these names; single values where there is one name only."""
    chosen = [(name, values[name]) for name in names]
    return frozenset(itertools.combinations(chosen, min(2, len(chosen))) if chosen else ())


def varying(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The names that do not have one and the same value in all rows, in the first row's order."""
    return tuple(name for name in (rows[0] if rows else ()) if any(row[name] != rows[0][name] for row in rows))


def reduced(rows: Sequence[Mapping[str, Any]], seed: int = 0) -> tuple[int, ...]:
    """The places of few rows, ascending, in which every pair that occurs in any row occurs; the same for one seed.

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
