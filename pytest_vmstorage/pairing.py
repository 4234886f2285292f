"""Is a run slower than what a recipe makes of it, measured in pairs in the same run? Pure: from the run to verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pytest_vmstorage.baseline import keyed
from pytest_vmstorage.fingerprint import flaw, no_ratio
from pytest_vmstorage.judging import Case, first_rounds, judge_all
from pytest_vmstorage.loss import Finding, Loss, Standing, at_least_suspect, differences
from pytest_vmstorage.results import Measurement, Run
from pytest_vmstorage.sequential import confirm, screen
from pytest_vmstorage.tolerance import GatePolicy
from pytest_vmstorage.verdict import Comparison

Place = tuple[str, str, int, str]
"""A measurement's test, workload, number among equal ones, and host: the same on both sides of a pair."""


class _Paired(NamedTuple):
    """A case, what it is paired with, and the loss that it may have."""

    case: Case
    then: Measurement
    policy: Loss

    @property
    def pairs(self) -> tuple[float, ...]:
        """The loss of each pair as a shift of logarithms; a round without its counterpart is none yet."""
        name = self.case.metric.name
        before, after = self.then.values(name), self.case.measured.values(name)
        count = min(len(before), len(after))
        return differences(self.case.metric, before[:count], after[:count])

    @property
    def first(self) -> tuple[float, ...]:
        """The pairs that are looked at first, without the fresh ones."""
        return self.pairs[: len(first_rounds(self.case.measured))]


def compare_pairs(run: Run, policy: GatePolicy, lost: Mapping[str, str] | None = None) -> Comparison:
    """Every shown metric of `run.measurements` against `run.against`; a primary one by its pairs.

    It is PASS, SUSPECT or INCONCLUSIVE by the first pairs, and REGRESSED only where `fresh` ones confirm it among all
    suspects of the run. `lost` says by node id why the other side has no figure.
    """
    against = f"the same with {run.recipe}"
    there = {(k.nodeid, k.workload, k.nth, m.host): m for k, m in keyed(run.against)}

    def find(case: Case) -> _Paired | str:
        then = there.get((case.key.nodeid, case.key.workload, case.key.nth, case.measured.host))
        return _case(case, then, policy, run.recipe, (lost or {}).get(case.key.nodeid, ""))

    return Comparison(against=against, verdicts=judge_all(run, against, policy, find, _decide))


def _case(case: Case, then: Measurement | None, policy: GatePolicy, recipe: str, lost: str) -> _Paired | str:
    """What the case is paired with, or why it cannot be."""
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
    # of what failed, the sentence without its evidence
    reason = (left_out.get(case.metric.name) or lost).strip().partition("\n")[0].rstrip(".")
    return f": {reason}" if reason else ""


def _in_time(one: _Paired, finding: Finding) -> Finding:
    if one.case.measured.ended.reason != "time limit" or finding.standing is not Standing.INCONCLUSIVE:
        return finding
    reason = f"{finding.reason}; the time for its pairs was over (--vm-pairs-limit)"
    return at_least_suspect(finding.model_copy(update={"reason": reason, "wants": 0}), one.policy)


def _decide(cases: Mapping[int, _Paired]) -> dict[int, Finding]:
    """A finding for each case: by its first pairs, and once any has fresh ones, for every suspect by those."""
    found = {number: screen(one.first, one.policy) for number, one in cases.items()}
    if any(one.case.measured.fresh for one in cases.values()):
        suspects = {number: cases[number] for number, one in found.items() if one.standing is Standing.SUSPECT}
        fresh = {number: one.pairs[len(one.first) :] for number, one in suspects.items()}
        found |= confirm(fresh, {number: one.policy for number, one in suspects.items()})
    return {number: _in_time(cases[number], finding) for number, finding in found.items()}
