"""A comparison in few lines: how many cells stand where, what they lost, what of the stack is new; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pytest_vmstorage.config import AXES, axis_text
from pytest_vmstorage.shared import Compared, shared_by
from pytest_vmstorage.verdict import Comparison, Kind, Verdict


def summary_lines(comparison: Comparison) -> Iterator[str]:
    """How many primary figures got which verdict, and what of the host's software differs from then."""
    counts = Counter("waived" if verdict.waiver else verdict.kind.value for verdict in comparison.gated)
    order = (Kind.REGRESSED, "waived", Kind.SUSPECT, Kind.INVALID, Kind.INCONCLUSIVE, Kind.IMPROVED, Kind.PASS)
    said = [f"{counts[name]} {name}" for name in map(str, order) if counts[name]]
    if comparison.missing:
        said.append(f"{len(comparison.missing)} missing")
    if said:
        yield ", ".join(said)
    compared = _compared(comparison)
    if sum(one.regressed for one in compared) > 1:
        yield shared_by(compared)
    if comparison.stack:
        yield f"what differs of the host since then: {', '.join(comparison.stack)}"
    yield from comparison.idle


def _compared(comparison: Comparison) -> list[Compared]:
    """Each decided cell with its values of the axes, its workload, its host, and whether it regressed."""
    return [
        Compared(
            {
                "workload": verdict.workload,
                "host": verdict.host,
                **{name: axis_text(name, getattr(verdict.config, name)).removeprefix(f"{name}=") for name in AXES},
            },
            regressed=verdict.kind is Kind.REGRESSED,
        )
        for verdict in comparison.gated
        if verdict.kind.is_decided
    ]


def loss_text(verdict: Verdict) -> str:
    """What a primary figure lost with its interval: "+12.4 % (+9 % to +16 %)", "" where nothing was found."""
    found = verdict.finding
    if found is None or found.loss is None:
        return ""
    told = f"{found.loss * 100:+.3g} %"
    if found.interval is None:
        return told
    return f"{told} ({found.interval.low * 100:+.3g} % to {found.interval.high * 100:+.3g} %)"
