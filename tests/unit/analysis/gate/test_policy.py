"""What a cell may lose, and what is waived for a while."""

from __future__ import annotations

import datetime

import pytest

from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import GatePolicy, Scope, ToleranceRule, Tolerated, Waiver, parse_tolerated
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.testing.builders import make_baseline, make_measurement, make_run

TODAY = datetime.date(2026, 6, 15)


@pytest.mark.parametrize(("text", "fraction"), [("10%", 0.1), ("2.5 %", 0.025), ("150%", 1.5), ("history", None)])
def test_a_tolerated_loss_is_a_percentage_or_history(text: str, fraction: float | None) -> None:
    """It says itself as it may be written."""
    found = parse_tolerated(text, "--vm-max-regression")
    assert found == Tolerated(fraction=fraction)
    assert parse_tolerated(str(found), "it").fraction == fraction


@pytest.mark.parametrize("text", ["0%", "0", "-5%", "many", "", "nan"])
def test_another_text_is_refused_with_its_place(text: str) -> None:
    """And with what may stand there."""
    with pytest.raises(ConfigError) as caught:
        parse_tolerated(text, "the mark tolerated_loss")
    assert caught.value.what.startswith(f"the mark tolerated_loss: {text!r} is not a percentage")
    assert "10%" in str(caught.value.hint)
    assert "history" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("cell", "workload", "covers"),
    [
        ("*", "*", True),
        ("t.py::test_a[qcow2-none]", "*", True),
        ("t.py::test_a[*]", "*", True),
        ("*[qcow2-*]", "fio *", True),
        ("t.py::test_?[qcow2-none]", "*", True),
        ("*[raw-*]", "*", False),
        ("t.py::test_a[q]", "*", False),
        ("t.py::test_[abc]*", "*", False),
        ("T.py*", "*", False),
        ("t.py", "*", False),
        ("*", "dd", False),
        ("*", "fio randread [4k]", False),
    ],
)
def test_a_pattern_takes_brackets_as_they_stand_in_a_node_id(cell: str, workload: str, covers: bool) -> None:
    """They are no set of characters."""
    assert Scope(cell=cell, workload=workload).covers("t.py::test_a[qcow2-none]", "fio randread 4k") is covers


def test_the_first_rule_that_covers_a_cell_is_taken() -> None:
    """Then the mark, then what holds for all."""
    rules = tuple(
        ToleranceRule(cell=cell, workload=workload, tolerated=Tolerated(fraction=fraction))
        for cell, workload, fraction in (("a*", "dd", 0.01), ("a*", "*", 0.02), ("*", "dd", 0.03))
    )
    policy = GatePolicy(rules=rules)
    asked = [("ab", "dd", "5%"), ("ab", "fio", "5%"), ("b", "dd", "5%"), ("b", "fio", "5%"), ("b", "fio", "")]
    assert [policy.tolerated_by(*one).fraction for one in asked] == [0.01, 0.02, 0.03, 0.05, 0.10]
    assert policy.tolerated_by("b", "fio", "history").fraction is None


def waiver(expires: datetime.date, cell: str = "*", workload: str = "*", owner: str = "jane") -> Waiver:
    """A waiver until that day."""
    return Waiver(cell=cell, workload=workload, reason="QEMU issue 1234", owner=owner, expires=expires)


def test_a_waiver_holds_on_its_last_day() -> None:
    """And on none after it."""
    assert not waiver(TODAY).has_expired(TODAY)
    assert waiver(TODAY).has_expired(TODAY + datetime.timedelta(days=1))
    assert str(waiver(TODAY)) == "waived by jane until 2026-06-15: QEMU issue 1234"


def test_of_several_waivers_the_longest_holds() -> None:
    """One that has expired is none as long as another holds."""
    old, short, long = (waiver(TODAY + datetime.timedelta(days=days)) for days in (-1, 0, 9))
    policy = GatePolicy(waivers=(old, short, long), today=TODAY)
    assert policy.waiver_of("t", "dd") == long
    assert policy.expired_of("t", "dd") is None
    alone = GatePolicy(waivers=(old, waiver(TODAY, cell="other")), today=TODAY)
    assert alone.waiver_of("t", "dd") is None
    assert alone.expired_of("t", "dd") == old
    assert alone.expired_of("other", "dd") is None


@pytest.mark.parametrize(
    ("given", "fails"),
    [
        (waiver(TODAY), False),
        (waiver(TODAY, cell="*[raw-none-virtio-blk-off]", workload="fio *"), False),
        (waiver(TODAY - datetime.timedelta(days=1)), True),
        (waiver(TODAY, cell="*[qcow2-*]"), True),
        (waiver(TODAY, workload="dd"), True),
    ],
)
def test_a_waived_loss_is_still_a_loss(given: Waiver, fails: bool) -> None:
    """It stays REGRESSED and turns no test red; what passes has no waiver beside it."""
    past = make_baseline(make_run(make_measurement(iops=(1000.0, 1001.0, 999.0))))
    policy = GatePolicy(day_spread=0.01, waivers=(given,), today=TODAY)
    slow = make_measurement(iops=(500.0, 501.0, 500.0, 501.0, 499.0), boots=tuple("aabcd"), fresh=3)
    (found,) = compare(make_run(slow), past, policy).verdicts
    assert (found.kind, found.fails, found.is_open) == (Kind.REGRESSED, fails, False)
    assert found.waiver == (None if fails else given)
    (same,) = compare(make_run(make_measurement(iops=(1000.0, 1001.0))), past, policy).verdicts
    assert (same.kind, same.waiver) == (Kind.PASS, None)


def test_a_pattern_that_matches_no_test_is_told_with_its_place() -> None:
    """A misspelt cell would else be judged as all others are, or waived by nobody's knowledge."""
    rule = ToleranceRule(cell="*::test_read[qcow2*", tolerated=Tolerated(fraction=0.2), where="gate.toml, [[cells]] 1")
    slip = waiver(TODAY, cell="*::test_raed*").model_copy(update={"where": "gate.toml, [[waivers]] 1"})
    policy = GatePolicy(rules=(rule,), waivers=(slip,))
    assert policy.idle(["t.py::test_read[qcow2-none]"]) == (
        "gate.toml, [[waivers]] 1: cell = '*::test_raed*' matches no test",
    )
    assert len(policy.idle([])) == 2
