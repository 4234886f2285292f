"""Ratios of paired rounds against bounds: what holds, what fails, what nobody can say, and how often that is wrong."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_vmstorage.analysis.cell_pairs import Couple
from pytest_vmstorage.analysis.ratios import Bounds, Judgement, Outcome, weigh
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Measurement, Metric, Run
from pytest_vmstorage.stats import Interval
from pytest_vmstorage.testing.builders import in_turns, make_host, make_measurement, make_run

RAW, QCOW2 = StorageConfig(), StorageConfig(format="qcow2")
BUSES = ("virtio-blk", "virtio-scsi", "ide", "sata")


def noisy(middle: float, count: int, seed: int, sd: float = 0.02) -> tuple[float, ...]:
    """So many figures around the middle, each off by a factor."""
    draw = random.Random(seed)
    return tuple(middle * math.exp(draw.gauss(0, sd)) for _ in range(count))


def couple_of(first: Sequence[float], second: Sequence[float], metric: str = "iops", bus: Any = "virtio-blk") -> Couple:
    """qcow2 against raw, with these figures in rounds in turns."""
    cells = StorageConfig(format="qcow2", bus=bus), StorageConfig(bus=bus)
    figures: Any = [{metric: tuple(values)} for values in (first, second)]
    return Couple(*in_turns(*(make_measurement(c, **f) for c, f in zip(cells, figures, strict=True))))


def judged(bounds: Bounds, *couples: Couple, metric: str | None = None, **host: object) -> Judgement:
    """What the couples come to, all on one host."""
    run = make_run(*(m for couple in couples for m in couple), hosts=[make_host(**host)])
    return weigh("qcow2 keeps up", bounds, couples, run, metric)


@pytest.mark.parametrize(
    ("bounds", "interval", "outcome"),
    [
        (Bounds(at_least=0.9), (0.91, 1.2), Outcome.HOLDS),
        (Bounds(at_least=0.9), (0.9, 0.9), Outcome.HOLDS),
        (Bounds(at_least=0.9), (0.89, 0.91), Outcome.INCONCLUSIVE),
        (Bounds(at_least=0.9), (0.7, 0.89), Outcome.FAILS),
        (Bounds(at_most=1.1), (0.7, 1.1), Outcome.HOLDS),
        (Bounds(at_most=1.1), (1.0, 1.2), Outcome.INCONCLUSIVE),
        (Bounds(at_most=1.1), (1.11, 1.2), Outcome.FAILS),
        (Bounds(at_least=0.9, at_most=1.1), (0.95, 1.05), Outcome.HOLDS),
        (Bounds(at_least=0.9, at_most=1.1), (0.8, 1.2), Outcome.INCONCLUSIVE),
        (Bounds(at_least=0.9, at_most=1.1), (1.2, 1.3), Outcome.FAILS),
    ],
)
def test_all_of_the_interval_decides(bounds: Bounds, interval: tuple[float, float], outcome: Outcome) -> None:
    """And nothing less."""
    assert bounds.outcome(Interval(*map(math.log, interval))) is outcome


@pytest.mark.parametrize(
    ("bounds", "sentence"),
    [
        ({}, "a ratio needs a bound. Write at_least=0.9, at_most=1.1, or both."),
        ({"at_least": 0.0}, "a ratio of speeds is above 0, and a bound is 0."),
        ({"at_most": -1.0}, "a ratio of speeds is above 0, and a bound is -1."),
        ({"at_least": 1.1, "at_most": 0.9}, "no ratio is at least 1.1 and at most 0.9."),
    ],
)
def test_bounds_that_cannot_be_kept(bounds: dict[str, float], sentence: str) -> None:
    """One sentence each."""
    with pytest.raises(ConfigError) as caught:
        Bounds(**bounds)
    assert sentence in str(caught.value)


def test_a_ratio_with_its_interval() -> None:
    """qcow2 at 0.8 of raw: the estimate lies there, the interval around it, and the text has all that it takes."""
    found = judged(Bounds(at_least=0.9), couple_of(noisy(8000, 12, 1), noisy(10000, 12, 2)))
    (ratio,) = found.ratios
    assert found.outcome is ratio.outcome is Outcome.FAILS
    assert ratio.ratio == pytest.approx(0.8, rel=0.03)
    assert ratio.interval is not None
    assert ratio.interval.low < ratio.ratio < ratio.interval.high < 0.9
    assert ratio.pairs == 12
    assert ratio.text == (
        "fio randwrite 4k qd32 on qcow2-none-virtio-blk-off 1G, iops 8008 IOPS (7773 IOPS to 8235 IOPS in 12 rounds), "
        "against raw-none-virtio-blk-off 1G 9908 IOPS (9723 IOPS to 10.5k IOPS in 12 rounds): 0.803 times as fast, "
        "95 % interval 0.787 to 0.816 from 12 pairs of rounds"
    )
    assert "measured on local (Example CPU 3.0 GHz, kvm)" in found.text
    assert "one boot of its guest" in found.text
    assert found.text.startswith("qcow2 keeps up: it is not so\n")


def test_a_time_is_inverted() -> None:
    """Twice the latency is half the speed; a tenth more time is 0.91 times as fast."""
    (ratio,) = judged(Bounds(at_least=0.9), couple_of((0.002,) * 6, (0.001,) * 6, "clat_p99")).ratios
    assert ratio.ratio == pytest.approx(0.5)
    (ratio,) = judged(Bounds(at_least=0.9), couple_of((0.0011,) * 6, (0.001,) * 6, "clat_p99")).ratios
    assert ratio.outcome is Outcome.HOLDS


def test_a_ratio_of_just_the_bound_keeps_it() -> None:
    """Binary fractions do not decide."""
    couple = couple_of((9000.0, 9009.0, 8991.0) * 2, (10000.0, 10010.0, 9990.0) * 2)
    assert judged(Bounds(at_least=0.9, at_most=0.9), couple).outcome is Outcome.HOLDS


def test_too_few_rounds_are_inconclusive() -> None:
    """However clear five of them look; what it takes is said."""
    found = judged(Bounds(at_least=0.9), couple_of(noisy(5000, 5, 1), noisy(10000, 5, 2)))
    (ratio,) = found.ratios
    assert found.outcome is Outcome.INCONCLUSIVE
    assert ratio.interval is None
    assert ratio.needed == 6
    assert "5 pairs of rounds, and an interval takes 6; at least 6 rounds would tell (--vm-rounds=6 or" in ratio.text
    single = judged(Bounds(at_least=0.9), couple_of((5000.0,), (10000.0,)))
    assert "1 pair of rounds, and an interval takes 6" in single.sentence


def test_a_bound_inside_the_interval_is_inconclusive() -> None:
    """With the number of rounds that would see the difference from the bound, and it does."""
    (ratio,) = judged(Bounds(at_least=0.9), couple_of(noisy(9800, 8, 5, 0.08), noisy(10000, 8, 6, 0.08))).ratios
    assert ratio.outcome is Outcome.INCONCLUSIVE
    assert ratio.needed is not None
    assert 8 < ratio.needed < 1000
    assert f"about {ratio.needed} rounds would tell" in ratio.text
    wide = couple_of(noisy(9800, ratio.needed * 2, 5, 0.08), noisy(10000, ratio.needed * 2, 6, 0.08))
    assert judged(Bounds(at_least=0.9), wide).outcome is Outcome.HOLDS


def test_just_on_the_bound_no_number_of_rounds_would_tell() -> None:
    """And none is proposed."""
    values = (9000.0, 11000.0) * 4
    (ratio,) = judged(Bounds(at_least=1.0), couple_of(values, values[::-1])).ratios
    assert ratio.needed is None
    assert "1000 rounds would not tell" in ratio.text


def test_rounds_in_a_row_are_inconclusive() -> None:
    """Although their figures are all there."""
    first, second = couple_of(noisy(5000, 9, 1), noisy(10000, 9, 2))
    in_a_row = Couple(first, second.model_copy(update={"hygiene": {"rounds": "in a row"}}))
    found = judged(Bounds(at_least=0.9), in_a_row)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "rounds were taken in a row, so that what the host drifted meanwhile" in found.sentence


def test_emulated_and_native_rows_are_inconclusive() -> None:
    """Under the sentence that says why."""
    native = make_measurement(StorageConfig(backing="native"), iops=noisy(10000, 9, 1))
    couple = Couple(*in_turns(make_measurement(iops=noisy(5000, 9, 2)), native))
    assert judged(Bounds(at_least=0.9), couple).outcome is Outcome.FAILS
    found = judged(Bounds(at_least=0.9), couple, accel="tcg")
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "one ran under tcg and the other under native" in found.sentence


def test_emulation_is_said() -> None:
    """Both rows are emulated: the ratio is one, and no statement about performance."""
    found = judged(Bounds(at_least=0.9), couple_of(noisy(5000, 9, 1), noisy(10000, 9, 2)), accel="tcg")
    assert found.outcome is Outcome.FAILS
    assert "software emulation (TCG)" in found.text


@pytest.mark.parametrize("broken", [0.0, math.nan, math.inf])
def test_a_round_without_a_speed_is_inconclusive(broken: float) -> None:
    """Leaving it out would choose the rounds."""
    found = judged(Bounds(at_least=0.9), couple_of((*noisy(5000, 8, 1), broken), noisy(10000, 9, 2)))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "a round gave no figure that has a speed" in found.sentence


@pytest.mark.parametrize(
    ("metric", "sentence"),
    [
        ("lat", "fio randwrite 4k qd32 has no metric 'lat'; it has: iops"),
        ("share", "share of fio randwrite 4k qd32 is in %, and no speed."),
        ("runtime", "runtime of fio randwrite 4k qd32 is no speed: neither way is better."),
    ],
)
def test_a_metric_that_is_no_speed_or_not_there(metric: str, sentence: str) -> None:
    """An error, since no number of rounds would help."""
    couple = couple_of(noisy(5000, 6, 1), noisy(10000, 6, 2))
    others = (Metric(name="share", unit="%", better="higher"), Metric(name="runtime", unit="s", better="neither"))
    figures = {"share": 1.0, "runtime": 5.0}
    with_share = [
        m.model_copy(
            update={
                "metrics": (*m.metrics, *others),
                "samples": tuple(s.model_copy(update={"figures": {**s.figures, **figures}}) for s in m.samples),
            }
        )
        for m in couple
    ]
    with pytest.raises(ConfigError) as caught:
        judged(Bounds(at_least=0.9), Couple(*with_share), metric=metric)
    assert sentence in str(caught.value)


def test_all_couples_must_hold() -> None:
    """One that fails decides; one that is undecided keeps the others from holding; the worst is told first."""
    good = couple_of(noisy(10000, 9, 1), noisy(10000, 9, 2))
    bad = couple_of(noisy(5000, 9, 3), noisy(10000, 9, 4), bus="ide")
    few = couple_of(noisy(10000, 3, 5), noisy(10000, 3, 6), bus="sata")
    bounds = Bounds(at_least=0.9)
    assert judged(bounds, good).outcome is Outcome.HOLDS
    assert judged(bounds, good, few).outcome is Outcome.INCONCLUSIVE
    found = judged(bounds, good, few, bad)
    assert found.outcome is Outcome.FAILS
    assert found.sentence.startswith("qcow2 keeps up: 1 of 3 couples fail; fio randwrite 4k qd32 on qcow2-none-ide-off")
    assert "sata" not in found.text
    assert "the intervals of all 3 couples are right at once with 95 %" in found.text
    assert "2 of 3 couples hold" not in judged(bounds, good, few).text


@pytest.mark.parametrize(
    ("bounds", "order"), [(Bounds(at_least=0.9), [0.5, 1.0, 2.0, None]), (Bounds(at_most=1.1), [2.0, 1.0, 0.5, None])]
)
def test_couples_that_speak_most_against_it_come_first(bounds: Bounds, order: Sequence[float | None]) -> None:
    """Those with no ratio say nothing, and come last."""
    first, second = couple_of((10.0,) * 9, (10.0,) * 9, bus="nvme")
    unknown = Couple(first, second.model_copy(update={"hygiene": {"rounds": "in a row"}}))
    couples = [couple_of((speed,) * 9, (10.0,) * 9) for speed in (10.0, 5.0, 20.0)]
    found = judged(bounds, couples[0], unknown, *couples[1:])
    assert [one.ratio and round(one.ratio, 6) for one in found.ratios] == order


def test_many_couples_at_fault_are_not_all_told() -> None:
    """Eight are, and how many more there are."""
    couples = [couple_of((5.0,) * 12, (10.0,) * 12) for _ in range(11)]
    lines = judged(Bounds(at_least=0.9), *couples).text.splitlines()
    assert "  and 3 more" in lines
    assert sum("0.5 times as fast" in line for line in lines) == 8


def test_a_missing_cell_keeps_it_from_holding() -> None:
    """And is named first; a couple that fails fails all the same."""
    good = judged(Bounds(at_least=0.9), couple_of(noisy(10000, 9, 1), noisy(10000, 9, 2)))
    lacking = good.model_copy(update={"missing": ("raw-none-ide-off 1G has no figure: it did not boot",)})
    assert lacking.outcome is Outcome.INCONCLUSIVE
    assert lacking.sentence == "qcow2 keeps up: not decided; raw-none-ide-off 1G has no figure: it did not boot"
    two = lacking.model_copy(update={"ratios": lacking.ratios * 2})
    assert two.sentence.startswith("qcow2 keeps up: all 2 couples hold, but cells are missing; raw-none-ide-off 1G has")


def test_several_couples_take_more_rounds() -> None:
    """Six pairs are the fewest for one couple, eight for four: each has its part of the 5 %."""
    for couples, fewest in ((1, 6), (2, 7), (4, 8)):
        enough = [couple_of((5.0,) * fewest, (10.0,) * fewest, bus=BUSES[n]) for n in range(couples)]
        few = [couple_of((5.0,) * (fewest - 1), (10.0,) * (fewest - 1), bus=BUSES[n]) for n in range(couples)]
        assert judged(Bounds(at_least=0.9), *enough).outcome is Outcome.FAILS
        found = judged(Bounds(at_least=0.9), *few)
        assert found.outcome is Outcome.INCONCLUSIVE
        assert found.ratios[0].needed == fewest


def drifting(count: int, speeds: Sequence[float], draw: random.Random) -> list[Measurement]:
    """Measurements with these speeds, raw and qcow2 by turns, on a host that drifts by far more than they differ."""
    drift = [draw.gauss(0, 0.3) for _ in range(count)]
    rows = [
        make_measurement(
            (RAW, QCOW2)[n % 2].model_copy(update={"bus": BUSES[n // 2]}),
            iops=tuple(speed * math.exp(drift[r] + draw.gauss(0, 0.05)) for r in range(count)),
        )
        for n, speed in enumerate(speeds)
    ]
    return list(in_turns(*rows, seed=draw.randrange(1000)))


@pytest.mark.parametrize("couples", [1, 4])
def test_how_often_an_assertion_is_wrong(couples: int) -> None:
    """Every couple lies just on its bound: at most 5 of 100 assertions say anything else than INCONCLUSIVE of any.

    300 of them; a rate of 5 % gives more than 28 in one of a thousand such tests.
    """
    draw, wrong, trials = random.Random(5), 0, 300
    for _ in range(trials):
        rows = drifting(10, (10000.0, 9000.0) * couples, draw)
        pairs = [Couple(rows[n + 1], rows[n]) for n in range(0, len(rows), 2)]
        found = weigh("x", Bounds(at_least=0.9), pairs, Run(started=""))
        wrong += any(ratio.outcome is not Outcome.INCONCLUSIVE for ratio in found.ratios)
    assert 0 < wrong <= 28


def test_what_is_clear_is_seen_through_drift() -> None:
    """A fifth of the speed, on a host that drifts by a third meanwhile, in ten rounds."""
    draw, seen = random.Random(6), 0
    for _ in range(50):
        raw, qcow2 = drifting(10, (10000.0, 8000.0), draw)
        seen += weigh("x", Bounds(at_least=0.9), [Couple(qcow2, raw)], Run(started="")).outcome is Outcome.FAILS
    assert seen >= 40
