"""What moves what, in words: a line for each workload, the most moved first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_vmstorage.effects import Effect, Moved, effects
from pytest_vmstorage.results import Run

MOST_LINES = 12

_IN_A_ROW = "rounds were taken in a row: what the host drifted meanwhile is in these ratios"


def effect_lines(run: Run) -> Iterator[str]:
    """A line for each workload; where that makes many, what is within its spread is named in one line at the end."""
    moved = effects(run)
    told = [one for one in moved if one.effects]
    is_long = len(told) > MOST_LINES
    much = [one for one in told if one.effects[0].matters][:MOST_LINES]
    hosts = {one.host for one in moved}
    for one in much if is_long else told:
        where = f" on {one.host}" if len(hosts) > 1 else ""
        yield _line(one, where, [effect for effect in one.effects if effect.matters or not is_long])
    rest = [one for one in told if one not in much] if is_long else []
    if rest:
        yield f"less, or within its spread: {', '.join(one.workload for one in rest)}"
    if tied := _tied(moved):
        yield f"of {', '.join(tied)} nothing can be said: no two cells differ in it alone"
    if told and any(one.in_a_row for one in told):
        yield _IN_A_ROW


def _line(moved: Moved, where: str, shown: Sequence[Effect]) -> str:
    first, *others = shown
    if first.matters:
        texts = [f"{first.axis} moves {moved.workload}{where} by {_size(first)}", *map(_clause, others)]
        return "; ".join(texts)
    return f"{moved.workload}{where}: {'; '.join(map(_clause, shown))}"


def _clause(effect: Effect) -> str:
    return f"{effect.axis} by {_size(effect)}"


def _size(effect: Effect) -> str:
    if effect.matters:
        return f"{effect.ratio:.2f}x ({effect.fastest} fastest, {effect.slowest} slowest; {_basis(effect)})"
    if effect.interval is None:
        return f"{effect.ratio:.2f}x ({_basis(effect)}), too few to tell"
    return "less than 1 %" if effect.is_sure else f"{effect.ratio:.2f}x, within its spread"


def _basis(effect: Effect) -> str:
    """What the ratio rests on: its interval, or without one the smallest and the largest that there are."""
    counted = f"{effect.couples} couple{'' if effect.couples == 1 else 's'}"
    if effect.interval is not None:
        return f"{counted}, 95 % interval {effect.interval.low:.2f}x to {effect.interval.high:.2f}x"
    if effect.rounds == 1:
        return f"{counted} of 1 round"
    return f"{counted}, {'rounds ' if effect.couples == 1 else ''}{effect.low:.2f}x to {effect.high:.2f}x"


def _tied(moved: Sequence[Moved]) -> list[str]:
    """Axes that vary, and of which no workload can say anything."""
    told = {effect.axis for one in moved for effect in one.effects}
    return list(dict.fromkeys(axis for one in moved for axis in one.tied if axis not in told))
