"""The gate of one pytest process: verdicts, the further rounds that they need, and the run's exit status."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest

from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.by_pairs import compare_pairs
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import Loss
from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import signed, split_code
from pytest_vmstorage.measure.rounds import Rounds
from pytest_vmstorage.plugin.settings import Settings, settings_of
from pytest_vmstorage.plugin.turns import Side, Turn, Turns
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.results.saved import CellKey, keyed

_FRESH_ROUNDS = 6

_Both = tuple[str, Turn, Turn | None]
"""A test's node id, one of its turns, and the turn that this one is paired with."""


class Gate:
    """The baseline or the variant that a run is judged against, and the verdicts so far.

    `lost` says of tests, by node id, why they get no further rounds; `suspects` are figures that are measured again.
    """

    def __init__(self, settings: Settings) -> None:
        self.policy, self.baseline, self.variant = settings.policy, settings.baseline, settings.variant
        self._confirms, self._limit_s = settings.confirm, settings.pairs_limit_s
        self._is_on = self.baseline is not None or self.variant is not None
        self._is_confirming = False
        self._decided: dict[str, tuple[Verdict, ...]] = {}
        self.lost: dict[str, str] = {}
        self.suspects = 0
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @property
    def wants_fresh_guests(self) -> bool:
        """Whether each round is to have a guest of its own: what guests differ by is part of the noise."""
        return self.variant is not None or self._is_confirming

    def cell_on(self, side: Side, cell: StorageConfig) -> StorageConfig:
        """The cell itself, or on the other side of a pair what it is paired with."""
        return self.variant.of(cell) if side == "other" and self.variant is not None else cell

    def first_rounds(self, asked: Rounds) -> Rounds:
        """The number of rounds before the first decision: as asked, or as many as the first look at pairs needs."""
        return asked if self.variant is None else Rounds(count=Loss().screening[0].pairs)

    def begin(self) -> None:
        """Tests come to further measurements: suspects among those are measured again in fresh guests too."""
        self._is_confirming, self.suspects = False, 0

    def forget(self, nodeid: str) -> None:
        """The test is measured anew: the verdicts on its figures go."""
        self._decided.pop(nodeid, None)

    def give_up(self, nodeid: str, reason: str) -> None:
        """The test is asked for no further rounds: one of its sides gave none."""
        self.lost.setdefault(nodeid, reason or "a round of it ended without a figure")

    def spent(self, nodeid: str, seconds: float) -> None:
        """A round of the test, on either side and with its guest, took so long."""
        self._seconds[nodeid] += seconds

    def further(self, turns: Turns, hosts: Sequence[HostFacts]) -> bool:
        """Decide with the rounds so far, and let turns have the rounds that they still want; whether any wants one."""
        measured = list(turns.pairs())
        if not (measured and (self.variant is not None or self._confirms)):
            return False
        verdicts = self._decide(measured, hosts)
        wishes = [self._wish(verdict, *one) for one, verdict in zip(measured, verdicts, strict=True)]
        if any(wishes) or self._begin_to_confirm(measured, verdicts):
            return True
        # once more, so that verdicts say where no time was left
        self._decide(measured, hosts)
        return False

    def _decide(self, measured: Sequence[_Both], hosts: Sequence[HostFacts]) -> tuple[Verdict, ...]:
        """The verdicts on all primary figures so far, in their order; they are kept with the others by test."""
        run = Run(
            started="",
            hosts=tuple(hosts),
            measurements=tuple(one.measurement() for _, one, _ in measured),
            against=tuple(other.measurement() for _, _, other in measured if other and other.rounds),
            recipe=self.variant.text if self.variant else "",
        )
        comparison, self._decided = self._compare(run), {}
        late = {nodeid for nodeid, turn, _ in measured if turn.is_late}
        for verdict in comparison.verdicts:
            told = self._remarked(verdict, is_late=verdict.nodeid in late)
            self._decided[verdict.nodeid] = (*self._decided.get(verdict.nodeid, ()), told)
        return comparison.gated

    def _remarked(self, verdict: Verdict, *, is_late: bool) -> Verdict:
        """The verdict with the reason why no further pairs were taken, where they could have decided."""
        if not verdict.is_open or verdict.finding is None or self.variant is None:
            return verdict
        reason = self.lost.get(verdict.nodeid, "")
        if not reason and is_late and verdict.kind is Kind.SUSPECT:
            reason = "the time limit came before (--vm-pairs-limit)"
        if not reason:
            return verdict
        said, code = split_code(reason)
        remark = signed(f"{verdict.reason} No further pairs: {said.rstrip('.')}.", code)
        return verdict.model_copy(update={"reason": remark, "finding": verdict.finding.model_copy(update={"wants": 0})})

    def _wish(self, verdict: Verdict, nodeid: str, turn: Turn, other: Turn | None) -> bool:
        """Let a pair of turns have the rounds that the next look at them wants; False where none is wanted."""
        wants = verdict.finding.wants if verdict.finding is not None else 0
        if not wants or other is None or not self._may_go_on(nodeid, turn):
            return False
        # a suspect that came when others had their fresh pairs has none yet
        turn.want(wants, fresh=verdict.finding is not None and not verdict.finding.count and not turn.has_fresh_rounds)
        other.want(wants)
        return True

    def _may_go_on(self, nodeid: str, turn: Turn) -> bool:
        """Whether there may be further rounds, and the time for them where it is limited."""
        if turn.is_settled:
            return False
        turn.is_late = self.variant is not None and self._seconds[nodeid] >= self._limit_s
        return not turn.is_late and nodeid not in self.lost

    def _begin_to_confirm(self, measured: Sequence[_Both], verdicts: Sequence[Verdict]) -> bool:
        if self._is_confirming:
            return False
        self._is_confirming = True
        count = Loss().confirmation[0].pairs if self.variant else _FRESH_ROUNDS
        suspects = [
            (turn, other)
            for (nodeid, turn, other), verdict in zip(measured, verdicts, strict=True)
            if verdict.kind is Kind.SUSPECT and self._may_go_on(nodeid, turn)
        ]
        for turn, other in suspects:
            turn.want(count, fresh=True)
            if other is not None:
                other.want(count)
        self.suspects = len(suspects)
        return bool(suspects)

    def _compare(self, run: Run) -> Comparison:
        if self.baseline is not None:
            return compare(run, self.baseline, self.policy)
        return compare_pairs(run, self.policy, self.lost)

    def verdicts(self, nodeid: str, measured: Sequence[Measurement], hosts: Sequence[HostFacts]) -> tuple[Verdict, ...]:
        """The verdicts on a test's figures: as they were decided with all others', else on these by themselves."""
        if not measured or not self._is_on:
            return ()
        found = self._decided.get(nodeid, ())
        decided = {_place(verdict.key) for verdict in found}
        rest = [one for key, one in keyed(measured) if _place(key) not in decided]
        if not rest:
            return found
        if nodeid not in self._decided:
            # such as what is measured on whole images
            self.give_up(nodeid, "it takes no rounds in turns")
        return (*found, *self._compare(Run(started="", hosts=tuple(hosts), measurements=tuple(rest))).verdicts)

    def judge(self, measured: Sequence[Measurement], verdicts: Sequence[Verdict]) -> None:
        """Raise pytest's outcome for a test that passed and has these verdicts; nothing where it may pass."""
        for one in measured if self._is_on else ():
            if waiver := self.policy.expired_of(one.nodeid, one.workload):
                said = (
                    f"The waiver of {waiver.cell} by {waiver.owner} expired on {waiver.expires} ({waiver.reason}). "
                    "Take it out of the gate file, or let its owner answer for it anew."
                )
                raise pytest.fail.Exception(signed(said, "VM805"), pytrace=False)
        if failed := [verdict.reason for verdict in verdicts if verdict.fails]:
            raise pytest.fail.Exception("\n".join(failed), pytrace=False)
        if unsure := [verdict.reason for verdict in verdicts if verdict.is_open]:
            suspected = any(verdict.gates and verdict.kind is Kind.SUSPECT for verdict in verdicts)
            if self.policy.inconclusive == "fail" or (self.policy.inconclusive == "suspect" and suspected):
                raise pytest.fail.Exception("\n".join(unsure), pytrace=False)
            raise pytest.skip.Exception("\n".join(unsure), _use_item_location=True)
        if waived := [f"{verdict.reason} {verdict.waiver}" for verdict in verdicts if verdict.waiver and verdict.gates]:
            raise pytest.xfail.Exception("\n".join(waived))


def _place(key: CellKey) -> tuple[str, int]:
    return key.workload, key.nth


GOOD, BAD, SKIP, ABORT = 0, 1, 125, 130
"""Exit statuses as `git bisect run` understands them; above 127 it ends."""


def bisect_status(status: int, run: Run | None, comparison: Comparison | None) -> int:
    """The exit status for `git bisect run`: 1 where something regressed, 0 where nothing did, 125 where none can say.

    A test that failed by an assertion of its own is as bad as a regression; a cell without a figure says nothing.
    """
    if status == pytest.ExitCode.INTERRUPTED:
        return ABORT
    verdicts = comparison.gated if comparison is not None else ()
    if any(verdict.fails for verdict in verdicts):
        return BAD
    is_open = any(verdict.is_open for verdict in verdicts) or not verdicts
    if is_open or run is None or run.failures or status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        return SKIP
    return BAD if status == pytest.ExitCode.TESTS_FAILED else GOOD


def fail_missing(session: pytest.Session, comparison: Comparison | None) -> None:
    """With --vm-missing=fail each cell that the run lacks is a failed test, in JUnit and in the exit status too."""
    missing = comparison.missing if comparison is not None else ()
    if not missing or settings_of(session.config).policy.missing != "fail":
        return
    for cell in missing:
        sentence = f"{cell.about} was measured before and is not in this run (--vm-missing=fail)."
        path = cell.nodeid.partition("::")[0]
        for when, outcome in (("setup", "passed"), ("call", "failed"), ("teardown", "passed")):
            report = pytest.TestReport(
                nodeid=f"{cell.nodeid} ({cell.workload}) missing",
                location=(path, None, cell.nodeid.partition("::")[2]),
                keywords={},
                outcome=outcome,  # type: ignore[arg-type]
                longrepr=sentence if outcome == "failed" else None,
                when=when,  # type: ignore[arg-type]
            )
            session.config.hook.pytest_runtest_logreport(report=report)
    if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
