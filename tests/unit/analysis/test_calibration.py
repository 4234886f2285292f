"""What follows from a host's calibration: noise, equality, power, the spread of days, and its lapse."""

from __future__ import annotations

import math
import random
import statistics
from typing import Any

import pytest

from pytest_vmstorage.analysis.calibration import (
    Calibration,
    Equality,
    Noise,
    RestoredBus,
    day_spread,
    pairs_to_take,
    power_clause,
)
from pytest_vmstorage.stats import count_to_equal, visible_shift
from pytest_vmstorage.testing.builders import make_host

HOST = make_host("lab01", accel="kvm")


def calibration(**known: Any) -> Calibration:
    """A calibration of the host, with what is known of it."""
    plain: dict[str, Any] = {
        "id": "c0ffee0001", "started": "2026-11-28T02:00:00+00:00", "seconds": 1100.0, "limit_s": 1200.0, "host": HOST
    }  # fmt: skip
    return Calibration.model_validate({**plain, **known})


def noise(workload: str = "fio randread 4k", **known: float) -> Noise:
    """A noise with round 3 % and boot 5 %."""
    plain: dict[str, Any] = {"unit": "IOPS", "figure": 10000.0, "round": 0.03, "boot": 0.05, "boots": 6, "rounds": 18}
    return Noise.model_validate({"workload": workload, **plain, **known})


def logs(seed: int, shift: float, spread: float, count: int) -> list[float]:
    """Logarithms of ratios, drawn."""
    draw = random.Random(seed)
    return [draw.gauss(shift, spread) for _ in range(count)]


def test_the_noise_of_rounds_and_boots_is_told_apart() -> None:
    """Simulated boots that differ by 8 % and rounds by 3 %: each is found, and neither counts for the other."""
    draw = random.Random(11)
    boots = []
    for _ in range(400):
        boot = draw.gauss(9, 0.08)
        boots.append([math.exp(boot + draw.gauss(0, 0.03)) for _ in range(4)])
    found = Noise.of("fio", "IOPS", boots)
    assert found.round == pytest.approx(0.03, rel=0.1)
    assert found.boot == pytest.approx(0.08, rel=0.1)
    assert (found.boots, found.rounds) == (400, 1600)
    assert found.figure == pytest.approx(math.exp(9), rel=0.02)
    assert found.pair == pytest.approx(math.sqrt(2 * (0.03**2 + 0.08**2)), rel=0.1)
    quiet = Noise.of("fio", "IOPS", [[100.0, 110.0], [110.0, 100.0]])
    assert (quiet.boot, quiet.figure) == (0.0, 105.0)
    with pytest.raises(ValueError, match="two boots"):
        Noise.of("fio", "IOPS", [[1.0, 2.0]])


def test_the_rounds_and_pairs_are_those_of_the_gates_arithmetic() -> None:
    """As many as show the difference, and one fewer does not; pairs of fresh guests take more where boots differ."""
    one = noise()
    rounds, pairs = one.rounds_to_see(0.05), one.pairs_to_see(0.05)
    assert rounds is not None
    assert pairs is not None
    assert visible_shift(one.turn, rounds) <= math.log1p(0.05) < visible_shift(one.turn, rounds - 1)
    assert visible_shift(one.pair, pairs) <= math.log1p(0.05) < visible_shift(one.pair, pairs - 1)
    assert pairs > 2 * rounds
    assert noise(round=3.0).rounds_to_see(0.05) is None
    assert one.visible(1) is None
    shown = one.visible(rounds)
    assert shown is not None
    assert shown <= 0.05


@pytest.mark.parametrize("spread", [0.02, 0.05, 0.1])
def test_so_many_rounds_have_an_interval_as_narrow_as_asked(spread: float) -> None:
    """By simulation: the median of so many lies within 5 % of the true one in some 95 of 100 cases."""
    count, draw = noise(round=spread).rounds_within(0.05), random.Random(5)
    medians = [statistics.median(draw.gauss(0, spread) for _ in range(count)) for _ in range(2000)]
    assert sum(abs(median) <= math.log1p(0.05) for median in medians) / 2000 >= 0.93


def test_guests_are_equal_different_or_neither() -> None:
    """Ten pairs within 2 %; ten that are 5 % apart; ten noisy ones, with the number that would tell."""
    equal = Equality.of("fio", logs(1, 0.0, 0.01, 12))
    assert (equal.verdict, equal.pairs) == ("equal", 12)
    assert equal.low is not None
    assert equal.high is not None
    assert equal.low < equal.ratio < equal.high
    for shift in (0.05, -0.05):
        assert Equality.of("fio", logs(2, shift, 0.01, 12)).verdict == "differs"
    noisy = Equality.of("fio", logs(3, 0.0, 0.1, 12))
    assert noisy.verdict == "open"
    assert noisy.needed is not None
    assert noisy.needed > 100
    few = Equality.of("fio", [0.0, 0.001])
    assert (few.low, few.high, few.verdict) == (None, None, "open")


def test_the_number_of_pairs_is_fixed_by_the_noise() -> None:
    """Of the noisier workload, and within limits."""
    assert pairs_to_take([noise(round=0.001, boot=0)]) == 6
    assert pairs_to_take([noise(round=0.1, boot=0.1)]) == 40
    between = pairs_to_take([noise(round=0.001, boot=0), noise(round=0.02, boot=0.005)])
    assert between == count_to_equal(math.log1p(0.02), noise(round=0.02, boot=0.005).pair)
    assert 6 < between < 40
    assert pairs_to_take([]) == 6


def test_a_bus_is_equal_where_all_its_workloads_are() -> None:
    """One that is open keeps it open, one that differs decides."""
    equal, open_, differs = (
        Equality.of("fio", logs(4, shift, spread, 12)) for shift, spread in ((0, 0.005), (0, 0.2), (0.1, 0.005))
    )
    found = {
        "equal": (equal, equal),
        "open": (equal, open_),
        "differs": (open_, differs),
    }
    assert {name: RestoredBus(bus="sata", compared=both).verdict for name, both in found.items()} == {
        name: name for name in found
    }
    one = calibration(
        restored=(
            RestoredBus(bus="virtio-blk", compared=(equal,)),
            RestoredBus(bus="sata", compared=(differs,)),
            RestoredBus(bus="ide", compared=(open_,)),
        )
    )
    assert one.restorable == {"virtio-blk": True, "sata": False}


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"qemu": "8.0.0"}, "QEMU was 7.2.22 and is 8.0.0"),
        ({"libvirt": "10.0.0"}, "libvirt was 9.0.0 and is 10.0.0"),
        ({"kernel": "6.12.1"}, "kernel was 6.1.0-18-amd64 and is 6.12.1"),
        ({"accel": "tcg"}, "acceleration was kvm and is tcg"),
        ({"device": "/dev/sdz"}, "device below the disks was /dev/nvme0n1 and is /dev/sdz"),
    ],
)
def test_it_lapses_when_the_host_changes(change: dict[str, str], clause: str) -> None:
    """One sentence says what changed, and what makes another one."""
    then = HOST.model_copy(
        update={"qemu": "7.2.22", "libvirt": "9.0.0", "kernel": "6.1.0-18-amd64", "device": "/dev/nvme0n1"}
    )
    one = calibration(host=then, listed_as="lab01")
    assert one.lapse(then) == ""
    said = one.lapse(then.model_copy(update=change))
    assert said == (
        f"the calibration c0ffee0001 of 2026-11-28 does not hold on lab01 now, and nothing of it is used: {clause};"
        " `vmstorage calibrate --host=lab01` makes another one"
    )


def test_what_a_host_hides_is_no_change_and_what_hardly_matters_neither() -> None:
    """Such as a governor that cannot be read today; the memory and the folder may be others."""
    one = calibration(host=HOST.model_copy(update={"governor": "performance"}))
    other = HOST.model_copy(update={"governor": "unknown", "cores": 0, "folder": "/elsewhere", "memory_bytes": 1})
    assert one.lapse(other) == ""


def test_the_spread_of_days_takes_three_of_one_host() -> None:
    """The larger of the workloads'; calibrations of one day are one day, and those before a change do not count."""

    def day(date: int, read: float, write: float, **changes: str) -> Calibration:
        found = (noise("fio randread", figure=read), noise("fio randwrite", figure=write))
        host = HOST.model_copy(update=changes)
        return calibration(started=f"2026-11-{date}T01:00:00+00:00", noise=found, host=host)

    days = [day(20, 1000, 500), day(21, 1010, 550), day(22, 1000, 500)]
    spread = day_spread(days)
    deviation = statistics.stdev([0, math.log(1.1), 0])
    assert spread is not None
    assert spread.days == 3
    # scipy.stats.chi2.ppf(0.1, 2) is 0.2107; the approximation differs by some hundredths
    assert spread.upper == pytest.approx(math.expm1(deviation * math.sqrt(2 / 0.2107)), rel=0.1)
    many = day_spread([day(number, 1000 * 1.1 ** (number % 2), 500) for number in range(1, 29)])
    assert many is not None
    assert many.days == 28
    assert 0.05 < many.upper < 0.065
    assert day_spread(days[:2]) is None
    assert day_spread([*days[:2], day(21, 1, 1)]) is None
    assert day_spread([day(20, 1, 1, qemu="1.0"), *days[1:]]) is None
    assert day_spread([day(19, 1, 1, qemu="1.0"), *days]) == spread
    assert day_spread([]) is None


def test_the_power_of_a_runs_rounds_is_said() -> None:
    """With one number for both workloads where it is the same."""
    both = calibration(noise=(noise("reads"), noise("writes", round=0.06)))
    one = calibration(noise=(noise("reads"), noise("writes")))
    reads, writes = (found.visible(3) or 0 for found in both.noise)
    takes = [found.rounds_to_see(0.05) for found in both.noise]
    assert power_clause(both, 3) == (
        f"3 rounds: {reads * 100:.0f} % (reads) and {writes * 100:.0f} % (writes) in 4 of 5 cases;"
        f" 5 % would take {takes[0]} (reads) and {takes[1]} (writes)"
    )
    assert power_clause(one, 3) == f"3 rounds: {reads * 100:.0f} % in 4 of 5 cases; 5 % would take {takes[0]}"
    assert power_clause(one, 1).startswith("1 round: no difference can be told from noise; ")
    assert power_clause(calibration(), 3) == ""
    assert power_clause(calibration(noise=(noise(round=5.0),)), 3).endswith("5 % would take more than 1000")
