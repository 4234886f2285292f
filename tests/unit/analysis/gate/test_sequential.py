"""Pairs screened and suspects confirmed: each way a cell can go, and the error rates of a whole job.

Tests of `analysis.gate.by_pairs`.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence

import pytest

from pytest_vmstorage.analysis.gate.by_pairs import confirm, screen
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import Loss
from pytest_vmstorage.stats import hodges_lehmann, signed_rank_p, visible_shift

POLICY = Loss()
PASS, SUSPECT, REGRESSED, INCONCLUSIVE = Kind.PASS, Kind.SUSPECT, Kind.REGRESSED, Kind.INCONCLUSIVE
SCREENED, CONFIRMED = POLICY.screening[-1].pairs, POLICY.confirmation[-1].pairs


def around(shift: float, spread: float, count: int, seed: int = 1) -> list[float]:
    """So many differences, scattered about a shift."""
    draw = random.Random(seed)
    return [draw.gauss(shift, spread) for _ in range(count)]


def at(percent: float) -> float:
    """A loss of so many per cent as a shift."""
    return math.log1p(percent / 100)


def test_six_pairs_that_are_all_slower_are_suspected() -> None:
    """The estimate is what fresh pairs are to confirm, and no more pairs are wanted here."""
    found = screen([at(loss) for loss in (12, 11, 10, 13, 9, 14)])
    assert (found.kind, found.count, found.wants) == (SUSPECT, 6, 0)
    assert found.p == 1 / 64
    assert found.loss == pytest.approx(0.115, abs=0.002)
    assert found.interval is not None
    assert found.interval == pytest.approx((0.09, 0.14))
    assert found.reason == (
        "6 pairs, +11.5 % time per operation (95 % interval +9 % to +14 %): p = 0.016, to be confirmed on fresh pairs"
    )


def test_six_quiet_pairs_pass() -> None:
    """Because 10 % is excluded, and not because nothing was found: the bound is named."""
    found = screen([at(loss) for loss in (-2, 1, 0.5, 2, -1, 3)])
    assert (found.kind, found.count) == (PASS, 6)
    assert found.reason.endswith("a loss of 10 % is excluded, and any above 3 %")


def test_a_small_loss_that_is_sure_passes() -> None:
    """3 % in every pair is a loss, and a tolerated one."""
    found = screen([at(loss) for loss in (3, 3.1, 2.9, 3.2, 2.8, 3.3)])
    assert found.kind is PASS
    assert found.loss == pytest.approx(0.03, abs=0.001)


@pytest.mark.parametrize("shift", [at(0), at(10)])
def test_what_was_decided_stays_decided(shift: float) -> None:
    """Pairs that come after change nothing, whatever they say."""
    pairs = around(shift, 0.03, 6)
    found = screen(pairs)
    assert found.kind in (PASS, SUSPECT)
    assert screen(pairs + [-3.0] * 12) == screen(pairs + [3.0] * 12) == found


@pytest.mark.parametrize(
    ("count", "wants"), [(0, 6), (1, 5), (2, 4), (5, 1), (6, 6), (7, 5), (12, 6), (17, 1), (18, 6)]
)
def test_between_looks_nothing_is_decided(count: int, wants: int) -> None:
    """Where a time budget ends there, the cell is INCONCLUSIVE and says how many pairs the next look wants."""
    # neither slower nor excluded, at any look
    found = screen(([at(-30), at(40)] * 12)[:count])
    assert (found.kind, found.count, found.wants) == (INCONCLUSIVE, count, wants)
    assert str(count + wants) in found.reason
    assert (found.visible is None) == (count < 2)


def test_after_the_last_look_it_says_what_could_have_been_seen() -> None:
    """The smallest loss that so many see, and how many the tolerated one takes."""
    pairs = [at(-20), at(26)] * 12
    found = screen(pairs)
    spread = statistics.stdev(pairs)
    assert (found.kind, found.count, found.wants) == (INCONCLUSIVE, 24, 0)
    assert found.visible == pytest.approx(math.expm1(visible_shift(spread, 24)))
    assert found.needed is not None
    assert visible_shift(spread, found.needed) <= at(10) < visible_shift(spread, found.needed - 1)
    assert f"and 10 % takes {found.needed} pairs" in found.reason
    assert f"24 pairs of this spread see one of {found.visible * 100:.3g} %" in found.reason


def test_a_spread_that_no_number_of_pairs_overcomes() -> None:
    """Then no number is named that nobody would run."""
    found = screen([-2.0, 2.04] * 12)
    assert found.needed is None
    assert "10 % takes more than 1000 pairs" in found.reason


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_pair_without_a_figure_is_never_left_out(bad: float) -> None:
    """Nor sorted somewhere: comparisons with NaN are false in silence."""
    found = screen([0.0, 0.01, bad, 0.0, -0.01, 0.0])
    assert (found.kind, found.p, found.loss) == (INCONCLUSIVE, None, None)
    assert "pair 3 has no figure" in found.reason
    assert confirm({"a": [bad] * CONFIRMED})["a"].kind is INCONCLUSIVE
    # the other suspects are judged all the same
    both = confirm({"a": [bad] * CONFIRMED, "b": around(at(20), 0.03, CONFIRMED)})
    assert [found.kind for found in both.values()] == [INCONCLUSIVE, REGRESSED]


def test_the_last_look_suspects_more_easily() -> None:
    """A cell that p = 0.05 speaks against has no other chance there, and has one before."""
    ranks = (7, 12, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24)
    pairs = [(0.10 + rank / 100) * (-1 if rank in (7, 12, 17, 18, 20, 24) else 1) for rank in ranks]
    assert 0.025 < signed_rank_p(pairs[:12]) < 0.10
    assert screen(pairs[:12]).kind is INCONCLUSIVE
    assert POLICY.suspicion < signed_rank_p(pairs) < POLICY.last_suspicion
    assert screen(pairs).kind is SUSPECT


def test_what_looks_slower_does_not_pass_before_the_last_look() -> None:
    """Five pairs say +8 %, a wild one the contrary: all six lie below 10 %, and that is chance in one of 64 cases."""
    pairs = [at(loss) for loss in (8, 7, 9, 8.5, 7.5, -50)]
    assert max(pairs) < POLICY.limit
    found = screen(pairs)
    assert (found.kind, found.wants) == (INCONCLUSIVE, 6)
    assert screen([*pairs, *pairs]).kind is INCONCLUSIVE
    # with nothing slower in the other five it passes
    assert screen([pair - at(8) for pair in pairs]).kind is PASS
    # and after the last look, what is excluded is excluded
    late = Loss(screening=(POLICY.screening[0],), last_suspicion=0.01)
    assert screen(pairs, late).kind is PASS


def test_a_suspect_is_confirmed_on_fresh_pairs() -> None:
    """With its p-value among the suspects."""
    found = confirm({"cell": around(at(12), 0.03, CONFIRMED)})["cell"]
    assert (found.kind, found.count) == (REGRESSED, 12)
    assert found.p == 1 / 4096
    assert "confirmed on fresh pairs with p = 0.00024, and above the tolerated 10 %" in found.reason


def test_a_suspect_that_was_chance_passes() -> None:
    """The tolerated loss is excluded on fresh pairs."""
    found = confirm({"cell": around(0.0, 0.05, CONFIRMED)})["cell"]
    assert (found.kind, found.count) == (PASS, 12)


def test_a_loss_within_what_is_tolerated_is_no_regression() -> None:
    """6 %, in every pair and beyond doubt: p is tiny and the estimate above half, but 10 % is excluded."""
    pairs = around(at(6), 0.01, CONFIRMED)
    assert signed_rank_p(pairs[:12]) < 0.001
    assert confirm({"cell": pairs})["cell"].kind is PASS


def test_a_suspect_between_the_looks_wants_more_pairs() -> None:
    """And none at all are not an error."""
    assert confirm({}) == {}
    found = confirm({"a": [], "b": around(at(10), 0.3, 11), "c": around(at(15), 0.02, 12)})
    assert [(one.kind, one.wants) for one in found.values()] == [
        (INCONCLUSIVE, 12),
        (INCONCLUSIVE, 1),
        (REGRESSED, 0),
    ]


def test_a_suspect_that_is_neither_confirmed_nor_cleared() -> None:
    """After the last look it is INCONCLUSIVE, with what could have been seen."""
    found = confirm({"cell": around(0.0, 0.4, CONFIRMED)})["cell"]
    assert (found.kind, found.count, found.wants) == (INCONCLUSIVE, CONFIRMED, 0)
    assert found.visible is not None
    assert found.needed is not None
    assert found.visible > 0.10
    assert found.needed > CONFIRMED
    assert f"and 10 % takes {found.needed} pairs" in found.reason


def test_what_enough_pairs_leave_open_takes_no_fewer() -> None:
    """They see a loss of 10 % in four of five cases, and here is the fifth: nothing is said of pairs it takes."""
    found = confirm({"cell": around(0.0, 0.3, CONFIRMED)})["cell"]
    assert found.kind is INCONCLUSIVE
    assert found.needed is not None
    assert found.needed < CONFIRMED
    assert found.reason.endswith("in four of five cases, and these did not")
    # before a look nothing is said of what its pairs did
    early = screen(around(at(6), 0.01, 5))
    assert (early.kind, early.needed, early.wants) == (INCONCLUSIVE, 3, 1)
    assert early.reason.endswith("in four of five cases")


def test_less_than_half_of_what_is_tolerated_is_no_regression() -> None:
    """However small p is: a larger loss is not excluded there, and is not what the pairs show."""
    for seed in range(10000):
        pairs = around(at(4.5), 0.12, CONFIRMED, seed)
        if signed_rank_p(pairs) <= POLICY.alarm_risk and hodges_lehmann(pairs) < POLICY.half:
            found = confirm({"cell": pairs})["cell"]
            if found.count == CONFIRMED and found.kind is not PASS:
                break
    assert found.kind is INCONCLUSIVE


def borderline(share: float, least: float = 0.0) -> list[float]:
    """Fresh pairs whose p-value at some look is below the risk of one among `share`, and never below that of more.

    `least` is how many suspects would be too many for it.
    """
    for seed in range(10000):
        pairs = around(at(9), 0.17, CONFIRMED, seed)
        p_values = [signed_rank_p(pairs[: look.pairs]) for look in POLICY.confirmation]
        if POLICY.alarm_risk / least < min(p_values) <= POLICY.alarm_risk / share and (
            confirm({"alone": pairs})["alone"].kind is REGRESSED
        ):
            return pairs
    raise AssertionError("no such pairs")


def test_a_suspect_that_passed_keeps_its_share_of_the_risk() -> None:
    """Two suspects, one of which passes at once: for the other p has to be below half of the risk all the same."""
    pairs = borderline(1, 2)
    assert confirm({"cell": pairs})["cell"].kind is REGRESSED
    both = confirm({"quiet": around(0.0, 0.02, CONFIRMED), "cell": pairs})
    assert [found.kind for found in both.values()] == [PASS, SUSPECT]


def test_a_suspect_that_regressed_gives_its_share_to_the_others() -> None:
    """Holm's step: also at a look after the one that it was decided at."""
    pairs = borderline(1, 2)
    both = confirm({"slow": around(at(20), 0.02, CONFIRMED), "cell": pairs})
    assert [found.kind for found in both.values()] == [REGRESSED, REGRESSED]
    assert both["slow"].count == 12


def alarmed(jobs: Sequence[int], suspects: int, quick: int) -> float:
    """The share of jobs in which any of so many unchanged, noisy suspects is REGRESSED, beside `quick` that pass."""
    alarms = 0
    for seed in jobs:
        draw = random.Random(seed)
        job = {place: [draw.gauss(0, 0.4) for _ in range(CONFIRMED)] for place in range(suspects)}
        job |= {-1 - place: [draw.gauss(-0.2, 0.01) for _ in range(CONFIRMED)] for place in range(quick)}
        alarms += any(found.kind is REGRESSED for found in confirm(job).values())
    return alarms / len(jobs)


def test_a_whole_job_keeps_its_risk() -> None:
    """Whether or not some of its suspects pass; the share of 600 jobs is known to 0.9 points."""
    assert 0.005 < alarmed(range(600), suspects=3, quick=0) < 0.05 + 0.018
    assert alarmed(range(600), suspects=2, quick=4) < 0.03


@pytest.mark.parametrize("spread", [0.04, 0.11, 0.2])
def test_a_loss_of_just_the_tolerated_size_seldom_passes(spread: float) -> None:
    """5 % at most over all looks of both stages, of 1200 cells, which is known to 0.6 points."""
    draw = random.Random(1)
    passed = 0
    for _ in range(1200):
        found = screen([draw.gauss(POLICY.limit, spread) for _ in range(SCREENED)])
        if found.kind is SUSPECT:
            found = confirm({0: [draw.gauss(POLICY.limit, spread) for _ in range(CONFIRMED)]})[0]
        passed += found.kind is PASS
    assert 0 < passed / 1200 < 0.05
