"""The gate by pairs: judges a cell and its variant, which one run measures in turns, as their pairs come in; pure.

A pair is a run of the old stack and one of the new, minutes apart on one host, each in a fresh guest. Its difference is
log(seconds per operation after / before). Each look counts a fixed number of the first pairs, so that a decision
stays whatever pairs come later.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypeVar

from pytest_vmstorage.analysis.comparability import flaw, no_ratio
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import (
    Finding,
    GatePolicy,
    InterimLook,
    Loss,
    above,
    at_least_suspect,
    change,
    differences,
    fractions,
    p_text,
    percent,
)
from pytest_vmstorage.analysis.gate.verdicts import Case, ComparedCase, Comparison, first_rounds, judge_all
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.results.saved import keyed
from pytest_vmstorage.stats import (
    MOST_PAIRS,
    count_to_see,
    hodges_lehmann,
    holm,
    shift_interval,
    signed_rank_p,
    upper_bound,
    visible_shift,
)

Cell = TypeVar("Cell", bound=Hashable)


def screen(differences: Sequence[float], policy: Loss | None = None) -> Finding:
    """All pairs of one cell so far: PASS, SUSPECT, or INCONCLUSIVE with the number of pairs that the next look wants.

    A cell that looks slower is a suspect also where the tolerated loss seems excluded: fresh pairs will tell. A cell
    that looks slower and is no suspect can pass at the last look only. After the last look a cell whose estimate is
    above the tolerated loss is SUSPECT at least.
    """
    policy = policy or Loss()
    for look in policy.screening:
        seen = differences[: look.pairs]
        if obstacle := _obstacle(seen, look, policy):
            return obstacle
        p, looks_slower = signed_rank_p(seen), hodges_lehmann(seen) >= policy.half
        if p < policy.suspicion_at(look) and looks_slower:
            return _finding(Kind.SUSPECT, seen, f"{p_text(p)}, to be confirmed on fresh pairs", p)
        # one outlier can hide a loss when there are few pairs
        waits = looks_slower and look != policy.screening[-1]
        if not waits and (passed := _passed(seen, look, policy)):
            return passed
    return at_least_suspect(_undecided(differences[: policy.screening[-1].pairs], policy), policy)


def confirm(
    suspects: Mapping[Cell, Sequence[float]], policies: Mapping[Cell, Loss] | None = None
) -> dict[Cell, Finding]:
    """All suspects of a job, each with its fresh pairs so far: PASS, REGRESSED, or undecided as in `screen`.

    Holm's steps count the suspects, so all of them must be given, also those that were decided before, without the
    pairs that made them suspects. `policies` have each cell's loss; their looks are the same.
    """
    of = {cell: (policies or {}).get(cell, Loss()) for cell in suspects}
    looks = next(iter(of.values()), Loss()).confirmation
    decided: dict[Cell, Finding] = {}
    for look in looks:
        p_values = holm([_evidence(decided.get(cell), pairs, look) for cell, pairs in suspects.items()])
        for (cell, pairs), p in zip(suspects.items(), p_values, strict=True):
            if cell not in decided and (found := _confirmed(pairs[: look.pairs], look, p, of[cell])):
                decided[cell] = found
    last = looks[-1].pairs
    return {
        cell: decided.get(cell) or at_least_suspect(_undecided(pairs[:last], of[cell]), of[cell], was_suspect=True)
        for cell, pairs in suspects.items()
    }


def _evidence(decided: Finding | None, pairs: Sequence[float], look: InterimLook) -> float:
    """A suspect's p-value at that look: 0 if it was REGRESSED before, 1 if it passed or lacks pairs.

    A suspect that passed counts as a kept hypothesis. Counted as rejected, it would lend its share of the risk to the
    others, and the job would give more false alarms than promised.
    """
    if decided:
        return 0.0 if decided.kind is Kind.REGRESSED else 1.0
    seen = pairs[: look.pairs]
    return signed_rank_p(seen) if len(seen) == look.pairs and all(map(math.isfinite, seen)) else 1.0


def _confirmed(seen: Sequence[float], look: InterimLook, p: float, policy: Loss) -> Finding | None:
    """A suspect's finding at that look; None where the next look is to decide."""
    if found := _obstacle(seen, look, policy) or _passed(seen, look, policy):
        return found
    shift = hodges_lehmann(seen)
    if p > policy.alarm_risk or shift < policy.half:
        return None
    return _finding(Kind.REGRESSED, seen, f"confirmed on fresh pairs with {p_text(p)}, and {above(shift, policy)}", p)


def _obstacle(seen: Sequence[float], look: InterimLook, policy: Loss) -> Finding | None:
    """The finding of a look that cannot decide, or None."""
    for place, difference in enumerate(seen, 1):
        if not math.isfinite(difference):
            reason = f"pair {place} has no figure, and a gate that left it out would choose its pairs"
            return Finding(kind=Kind.INCONCLUSIVE, count=len(seen), reason=reason)
    wants = look.pairs - len(seen)
    if not wants:
        return None
    if not seen:
        return Finding(kind=Kind.INCONCLUSIVE, count=0, wants=wants, reason=f"no pairs, of at least {wants}")
    return _undecided(seen, policy, f"{look.pairs} pairs are needed for the next look, ", wants)


def _passed(seen: Sequence[float], look: InterimLook, policy: Loss) -> Finding | None:
    bound = upper_bound(seen, look.pass_risk)
    if bound >= policy.limit:
        return None
    return _finding(Kind.PASS, seen, f"a loss of {percent(policy.limit)} is excluded, and any above {percent(bound)}")


def _undecided(seen: Sequence[float], policy: Loss, wish: str = "", wants: int = 0) -> Finding:
    """The finding of a loss that is neither found nor excluded, with the number of pairs that would decide."""
    tolerated = percent(policy.limit)
    if len(seen) < 2:
        return _finding(Kind.INCONCLUSIVE, seen, f"{wish}and one has no spread", wants=wants)
    spread = statistics.stdev(seen)
    visible, needed = visible_shift(spread, len(seen)), count_to_see(policy.limit, spread)
    reason = (
        f"{wish}a loss of {tolerated} is neither found nor excluded: {len(seen)} pairs of this spread see one of "
        f"{percent(visible)} in four of five cases"
    )
    if needed is None or needed > len(seen):
        reason += f", and {tolerated} takes {needed or f'more than {MOST_PAIRS}'} pairs"
    elif not wants:
        reason += ", and these did not"
    return _finding(Kind.INCONCLUSIVE, seen, reason, visible=math.expm1(visible), needed=needed, wants=wants)


def _finding(kind: Kind, seen: Sequence[float], reason: str, p: float | None = None, **power: Any) -> Finding:
    """A finding whose reason begins with the pairs' estimate and interval."""
    shift, interval = hodges_lehmann(seen), shift_interval(seen)
    return Finding(
        kind=kind,
        count=len(seen),
        reason=f"{len(seen)} {'pair' if len(seen) == 1 else 'pairs'}, {change(shift, interval)}: {reason}",
        loss=math.expm1(shift),
        interval=fractions(interval),
        p=p,
        **power,
    )


class _Paired(ComparedCase):
    """A case with the other side of its pairs."""

    @property
    def pairs(self) -> tuple[float, ...]:
        """The loss of each pair as a shift of logarithms; a round without its counterpart makes no pair yet."""
        before, after = (m.values(self.case.metric.name) for m in (self.then, self.case.measured))
        count = min(len(before), len(after))
        return differences(self.case.metric, before[:count], after[:count])

    @property
    def first(self) -> tuple[float, ...]:
        """The pairs before the fresh ones."""
        return self.pairs[: len(first_rounds(self.case.measured))]


def compare_pairs(run: Run, policy: GatePolicy, lost: Mapping[str, str] | None = None) -> Comparison:
    """Every shown metric of `run.measurements` against `run.against`; a primary one by its pairs.

    A primary one is PASS, SUSPECT or INCONCLUSIVE by the first pairs, and REGRESSED only where `fresh` ones confirm it
    among all suspects of the run. `lost` has by node id the reason why the other side has no figure.
    """
    against = f"the same with {run.recipe}"
    there = {(k.nodeid, k.workload, k.nth, m.host): m for k, m in keyed(run.against)}

    def find(case: Case) -> _Paired | str:
        then = there.get((case.key.nodeid, case.key.workload, case.key.nth, case.measured.host))
        return _case(case, then, policy, run.recipe, (lost or {}).get(case.key.nodeid, ""))

    return Comparison(against=against, verdicts=judge_all(run, against, policy, find, _decide))


def _case(case: Case, then: Measurement | None, policy: GatePolicy, recipe: str, lost: str) -> _Paired | str:
    """The other side of a case, or a clause why there is none."""
    if then is None or case.metric not in then.metrics:
        return f"with {recipe} it has no figure{_why(case, then, lost)}"
    if found := flaw(case.figure) or (no_ratio(case.figure) if case.gates else ""):
        return found
    figure = then.figure(case.metric.name)
    if found := flaw(figure) or (no_ratio(figure) if case.gates or float(figure) == 0 else ""):
        return f"with {recipe} {found}"
    if not case.gates:
        return _Paired(case, then, Loss())
    tolerated = policy.tolerated_by(case.key.nodeid, case.key.workload, case.measured.tolerated).fraction
    if tolerated is None:
        return "what it may lose is to be learnt from saved days, and pairs have none"
    return _Paired(case, then, Loss(tolerated=tolerated).shared(policy.parts))


def _why(case: Case, then: Measurement | None, lost: str) -> str:
    left_out = {one.metric.name: one.why for one in then.left_out} if then is not None else {}
    # the first line of a failure is its sentence, the others are evidence
    reason = (left_out.get(case.metric.name) or lost).strip().partition("\n")[0].rstrip(".")
    return f": {reason}" if reason else ""


def _in_time(one: _Paired, finding: Finding) -> Finding:
    if one.case.measured.ended.reason != "time limit" or finding.kind is not Kind.INCONCLUSIVE:
        return finding
    reason = f"{finding.reason}; the time for its pairs was over (--vm-pairs-limit)"
    return at_least_suspect(finding.model_copy(update={"reason": reason, "wants": 0}), one.policy)


def _decide(cases: Mapping[int, _Paired]) -> dict[int, Finding]:
    """A finding for each case: by its first pairs, and for every suspect by fresh ones as soon as any case has them."""
    found = {number: screen(one.first, one.policy) for number, one in cases.items()}
    if any(one.case.measured.fresh for one in cases.values()):
        suspects = {number: cases[number] for number, one in found.items() if one.kind is Kind.SUSPECT}
        fresh = {number: one.pairs[len(one.first) :] for number, one in suspects.items()}
        found |= confirm(fresh, {number: one.policy for number, one in suspects.items()})
    return {number: _in_time(cases[number], finding) for number, finding in found.items()}
