"""The rules of tolerated loss, and figures as logarithms of seconds per operation.

Tests of `analysis.gate.policy`.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.analysis.gate.policy import InterimLook, Loss, differences, log_seconds, percent
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Metric

IOPS = Metric(name="iops", unit="IOPS", better="higher")
SECONDS = Metric(name="latency", unit="s", better="lower")


def looks(*counts: int, pass_risk: float = 0.005) -> tuple[InterimLook, ...]:
    """Looks at so many pairs."""
    return tuple(InterimLook(pairs=count, pass_risk=pass_risk) for count in counts)


def test_a_loss_is_of_time_whatever_way_the_metric_goes() -> None:
    """A tenth fewer operations in a second take a ninth longer; a tenth longer is a tenth longer."""
    assert differences(IOPS, [1000.0], [900.0]) == pytest.approx((math.log(10 / 9),))
    assert differences(SECONDS, [1.0], [1.1]) == pytest.approx((math.log(1.1),))
    assert differences(IOPS, [900.0, 5.0], [1000.0, 5.0]) == pytest.approx((-math.log(10 / 9), 0.0))


def test_figures_become_logarithms_of_seconds() -> None:
    """1000 in a second take a millisecond each."""
    assert log_seconds(IOPS, [1000.0, 1.0]) == pytest.approx((math.log(0.001), 0.0))


def test_what_is_neither_a_rate_nor_a_time_is_counted_as_it_is() -> None:
    """Twice the bytes are as much worse as twice the time, and half of what is wished for too."""
    taken, hits = Metric(name="taken", unit="B", better="lower"), Metric(name="hits", unit="%", better="higher")
    assert differences(taken, [100.0], [200.0]) == pytest.approx((math.log(2),))
    assert differences(hits, [80.0], [40.0]) == pytest.approx((math.log(2),))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        (IOPS, 0.0),
        (SECONDS, 0.0),
        (SECONDS, math.nan),
        (IOPS, math.inf),
        (Metric(name="cpu", unit="%", better="lower"), 0.0),
        (Metric(name="taken", unit="B", better="lower"), -5.0),
    ],
)
def test_what_has_no_logarithm_is_refused(metric: Metric, value: float) -> None:
    """And never becomes a difference that could be counted."""
    with pytest.raises(ValueError, match=metric.name):
        log_seconds(metric, [value])


@pytest.mark.parametrize(
    ("shift", "said"),
    [(math.log(1.1), "+10 %"), (-0.0000236, "+0 %"), (0.00123, "+0.12 %"), (-0.2, "-18.1 %"), (5.0, "+14741 %")],
)
def test_a_shift_is_said_in_percent(shift: float, said: str) -> None:
    """With as many digits as anybody reads."""
    assert percent(shift, "+") == said


def test_a_pair_is_of_two() -> None:
    """A figure without its partner is a slip of the caller."""
    with pytest.raises(ValueError, match="shorter"):
        differences(IOPS, [1.0, 2.0], [1.0])


def test_what_is_promised_adds_up() -> None:
    """All looks together let a loss of just the tolerated size pass in 5 % at most; six pairs can pass and suspect."""
    policy = Loss()
    spent = sum(look.pass_risk for look in (*policy.screening, *policy.confirmation))
    assert spent == pytest.approx(0.05)
    assert policy.alarm_risk * len(policy.confirmation) <= 0.05
    assert [look.pairs for look in policy.screening] == [6, 12, 18, 24]
    assert [look.pairs for look in policy.confirmation] == [12, 24, 48, 72]
    assert policy.screening[0].pass_risk >= 1 / 64
    assert math.expm1(policy.limit) == pytest.approx(0.10)
    assert math.expm1(policy.half) == pytest.approx(0.05)


def test_the_document_names_these_rules() -> None:
    """docs/explanation/gate.md says the looks and thresholds in words."""
    policy, text = Loss(), (Path(__file__).parents[4] / "docs" / "explanation" / "gate.md").read_text()
    for looks in (policy.screening, policy.confirmation):
        *first, last = (look.pairs for look in looks)
        assert f"at {', '.join(map(str, first))} and {last}" in text
    assert f"p < {policy.suspicion:g} " in text
    assert f"p < {policy.last_suspicion:.2f} is enough" in text
    assert f"is REGRESSED is {policy.false_alarm:.0%}".replace("%", " %") in " ".join(text.split())
    assert f"wrongly is {policy.false_pass:.0%}".replace("%", " %") in text


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tolerated": 0.0}, "the tolerated loss is 0"),
        ({"tolerated": -0.1}, "the tolerated loss is -0.1"),
        ({"tolerated": math.nan}, "the tolerated loss is nan"),
        ({"screening": ()}, "screening looks at [] pairs"),
        ({"screening": looks(6, 6)}, "screening looks at [6, 6] pairs"),
        ({"confirmation": looks(24, 12)}, "confirmation looks at [24, 12] pairs"),
        ({"screening": looks(5, 10)}, "5 pairs never reach p < 0.025"),
        ({"screening": looks(6, 12, pass_risk=0.03)}, "its looks spend 0.072 of 0.05 false passes"),
    ],
)
def test_rules_that_cannot_hold_are_refused(fields: dict[str, Any], said: str) -> None:
    """One sentence, and what to do."""
    with pytest.raises(ConfigError) as caught:
        Loss(**fields)
    assert said in caught.value.what
    assert caught.value.hint
