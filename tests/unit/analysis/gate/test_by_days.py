"""The gate on saved days: which verdict a figure gets, and the sentence that says so.

Tests of `analysis.gate.by_days`, `analysis.gate.verdicts` and `analysis.comparability`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from pytest_vmstorage.analysis.calibration import DaySpread
from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import GatePolicy, ToleranceRule, Tolerated
from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.run import Measurement, Metric, Run
from pytest_vmstorage.results.saved import Baseline
from pytest_vmstorage.testing.builders import make_baseline, make_failure, make_host, make_measurement, make_run

QCOW2 = StorageConfig(format="qcow2")
QUIET = (1000.0, 1010.0, 990.0, 1005.0, 995.0, 1000.0, 1008.0, 992.0)
"""Eight days that differ by less than a hundredth."""
NOISY = (1000.0, 1300.0, 800.0, 1100.0, 900.0, 1200.0, 850.0, 1000.0)


def rounds(value: float, count: int = 3) -> tuple[float, ...]:
    """Rounds of one guest around a value."""
    return tuple(value * (1 + 0.001 * step) for step in range(-(count // 2), count - count // 2))


def day(number: int, *measurements: Measurement, **facts: object) -> Run:
    """A run of that day of January; `facts` replace those of the usual host."""
    hosts = [make_host("local", **facts)] if facts else None
    return make_run(*measurements, hosts=hosts, started=f"2026-01-{number:02}T03:04:05+00:00")


def saved(values: Sequence[float] = QUIET, config: StorageConfig | None = None) -> Baseline:
    """A baseline "main" of a day for each value."""
    return make_baseline(*(day(n, make_measurement(config, iops=rounds(value))) for n, value in enumerate(values, 1)))


def confirmed(first: float, fresh: float, config: StorageConfig | None = None) -> Measurement:
    """Three rounds in one guest, and six fresh ones in guests of their own."""
    values = (*rounds(first), *rounds(fresh, 6))
    return make_measurement(config, iops=values, boots=("a", "a", "a", *"bcdefg"), fresh=6)


def verdict(now: Measurement, baseline: Baseline, policy: GatePolicy | None = None) -> Verdict:
    """The primary metric judged, on the usual host."""
    return compare(make_run(now), baseline, policy or GatePolicy()).verdicts[0]


def judged(value: float, days: Sequence[float] = QUIET, policy: GatePolicy | None = None) -> Verdict:
    """Three rounds around that value against these days."""
    return verdict(make_measurement(iops=rounds(value)), saved(days), policy)


@pytest.mark.parametrize("count", [5, 8])
@pytest.mark.parametrize(
    ("value", "kind"), [(1000, Kind.PASS), (1300, Kind.IMPROVED), (880, Kind.SUSPECT), (500, Kind.SUSPECT)]
)
def test_from_five_days_on_a_figure_is_decided_or_suspected(count: int, value: float, kind: Kind) -> None:
    """However slow it is, it regresses only where fresh rounds say so too."""
    found = judged(value, QUIET[:count])
    assert found.kind is kind
    assert found.finding is not None
    assert found.finding.count == count
    assert (found.fails, found.is_open) == (False, kind is Kind.SUSPECT)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("value", [1000, 100])
def test_fewer_days_say_nothing_and_what_to_do(count: int, value: float) -> None:
    """The change is shown all the same."""
    found = judged(value, QUIET[:count])
    # what looks slower by more than is tolerated is no green cell, whatever it cannot be told by
    assert found.kind is (Kind.INCONCLUSIVE if value == 1000 else Kind.SUSPECT)
    more = f"{5 - count} more day{'s' * (count != 4)}"
    assert f"; save it on {more} with --vm-save, state --vm-day-spread, or run pairs with --vm-against;" in found.reason
    assert found.change == pytest.approx(value / 1000 - 1, abs=0.02)


def test_days_that_differ_much_exclude_nothing() -> None:
    """And say which loss they would have shown."""
    found = judged(1000, NOISY)
    assert found.kind is Kind.INCONCLUSIVE
    assert "a loss of 10 % is neither found nor excluded: 8 days of this spread show a loss of " in found.reason
    assert "in four of five cases; save more days, or run pairs with --vm-against;" in found.reason


@pytest.mark.parametrize(
    ("value", "spread", "kind"),
    [(1000, 0.01, Kind.PASS), (850, 0.01, Kind.SUSPECT), (1000, 0.2, Kind.INCONCLUSIVE), (1200, 0.01, Kind.IMPROVED)],
)
def test_with_a_stated_spread_one_day_is_enough(value: float, spread: float, kind: Kind) -> None:
    """Until five are saved: then they tell it themselves."""
    policy = GatePolicy(day_spread=spread)
    found = judged(value, QUIET[:1], policy)
    assert found.kind is kind
    assert found.finding is not None
    assert found.finding.wants == (4 if kind is Kind.INCONCLUSIVE else 0)
    assert judged(value, policy=policy) == judged(value)


def test_calibrations_of_several_days_tell_a_first_spread() -> None:
    """Of the row's host, where the user states none; it is said who says so."""
    stated = GatePolicy(day_spread=0.2, day_spreads={"local": DaySpread(0.01, 3)})
    assert judged(1000, QUIET[:1], stated) == judged(1000, QUIET[:1], GatePolicy(day_spread=0.2))
    found = judged(1000, QUIET[:1], GatePolicy(day_spreads={"local": DaySpread(0.2, 3)}))
    assert found.kind is Kind.INCONCLUSIVE
    assert "days that differ by 20 %, at most, as 3 days of calibrations say, and these rounds show" in found.reason
    assert judged(1000, QUIET[:1], GatePolicy(day_spreads={"local": DaySpread(0.01, 3)})).kind is Kind.PASS
    other = judged(1000, QUIET[:1], GatePolicy(day_spreads={"lab01": DaySpread(0.01, 3)}))
    assert other == judged(1000, QUIET[:1])


def test_a_loss_that_fresh_rounds_confirm_is_regressed() -> None:
    """The sentence is the red test's message: cell, days, loss with its interval, p, both figures with spread."""
    found = verdict(confirmed(800, 800), saved())
    assert found.kind is Kind.REGRESSED
    assert found.fails
    assert found.reason == (
        "iops of fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G is REGRESSED against baseline 'main': "
        "8 saved days, +25.1 % time per operation (95 % interval +22.8 % to +27.4 %): confirmed in fresh rounds with "
        "p = 8e-09, and above the tolerated 10 %; "
        "800 IOPS (798 IOPS to 802 IOPS in 9 rounds) against 992 IOPS (991 IOPS to 993 IOPS in 3 rounds)."
    )
    assert found.change == pytest.approx(-0.1935, abs=1e-3)
    assert found.worse_by == -found.change
    assert found.tolerated == 0.1


def test_a_sure_loss_of_more_than_half_is_said_to_be_that() -> None:
    """Nobody reads that 7 % were more than 10 %."""
    assert "and more than half of the tolerated 10 %;" in verdict(confirmed(930, 930), saved()).reason


def test_what_fresh_rounds_do_not_find_again_is_no_loss() -> None:
    """A slow guest is no slow disk."""
    found = verdict(confirmed(800, 1000), saved())
    assert found.kind is Kind.PASS
    assert "it looked slower at first; in fresh rounds, 8 saved days, " in found.reason


def test_fresh_rounds_do_not_make_a_suspect_of_what_was_none() -> None:
    """Only what looked slower at first is looked at again."""
    assert verdict(confirmed(1000, 800), saved()).kind is Kind.PASS


def job(others: int) -> tuple[Run, Baseline]:
    """A cell that is a tenth slower on days that differ by two hundredths, among so many that are not."""
    days = (1000.0, 1020.0, 980.0, 1030.0, 970.0, 1010.0, 990.0, 1000.0)
    cells = [StorageConfig(size=(n + 1) * 2**30) for n in range(others + 1)]
    past = [day(n, *(make_measurement(one, iops=rounds(value)) for one in cells)) for n, value in enumerate(days, 1)]
    now = [confirmed(900, 900, cells[0]), *(make_measurement(one, iops=rounds(1000)) for one in cells[1:])]
    return make_run(*now), make_baseline(*past)


def test_a_suspect_is_counted_among_all_cells() -> None:
    """What is sure enough of one cell by itself happens by chance among a hundred."""
    alone, among = (compare(*job(others), GatePolicy()).verdicts for others in (0, 99))
    assert alone[0].kind is Kind.REGRESSED
    assert among[0].kind is Kind.SUSPECT
    assert {one.kind for one in among[1:]} == {Kind.PASS}
    assert "slower in fresh rounds too, but p = " in among[0].reason
    assert " among 100 cells is not below 0.04: save more days, or run pairs with --vm-against;" in among[0].reason


def test_hosts_share_the_risk_of_a_false_alarm() -> None:
    """Each has an equal part of it: with a hundred what is sure enough of one cell alone is not."""
    kinds = [compare(*job(0), GatePolicy(parts=parts)).verdicts[0].kind for parts in (1, 2, 100)]
    assert kinds == [Kind.REGRESSED, Kind.REGRESSED, Kind.SUSPECT]


def test_cells_that_could_not_be_compared_are_not_counted() -> None:
    """New cells of a run take nothing from the others."""
    run, baseline = job(0)
    new = [make_measurement(StorageConfig(size=n * 2**30), iops=rounds(1000)) for n in range(2, 101)]
    more = run.model_copy(update={"measurements": (*run.measurements, *new)})
    assert compare(more, baseline, GatePolicy()).verdicts[0].kind is Kind.REGRESSED


def test_runs_of_one_date_are_one_day() -> None:
    """However many there are: what differs from day to day is the same in them."""
    runs = [day(1 + n % 4, make_measurement(iops=rounds(value))) for n, value in enumerate(QUIET)]
    found = verdict(make_measurement(iops=rounds(1000)), make_baseline(*runs))
    assert found.finding is not None
    assert (found.kind, found.finding.count) == (Kind.INCONCLUSIVE, 4)


def test_rounds_of_one_guest_are_one_value() -> None:
    """A guest with more rounds than the other does not weigh more."""
    values, boots = (1000.0, 1000.0, 1000.0, 500.0), ("a", "a", "a", "b")
    found = verdict(make_measurement(iops=values, boots=boots), saved([1000.0]))
    assert found.finding is not None
    assert found.finding.loss == pytest.approx(math.sqrt(2) - 1, abs=1e-3)


def test_days_of_another_stack_do_not_count() -> None:
    """They say nothing of how much the days of this one differ; what is new today is what a comparison is for."""
    old = [day(n, make_measurement(iops=rounds(value)), qemu="7.2.8") for n, value in enumerate(QUIET[:4], 1)]
    new = [day(n, make_measurement(iops=rounds(value))) for n, value in enumerate(QUIET[:5], 5)]
    today = make_run(make_measurement(iops=rounds(1000)), hosts=[make_host(qemu="8.0.0", kernel="6.2")])
    found = compare(today, make_baseline(*old, *new), GatePolicy())
    assert found.verdicts[0].kind is Kind.PASS
    assert found.verdicts[0].finding is not None
    assert found.verdicts[0].finding.count == 5
    assert found.stack == ("kernel was 6.1.0 and is 6.2 now", "QEMU was 7.2.9 and is 8.0.0 now")
    less = compare(today, make_baseline(*old, *new[:2]), GatePolicy()).verdicts[0]
    assert less.kind is Kind.INCONCLUSIVE
    assert "(4 saved days do not count, the last of them 2026-01-04: QEMU was 7.2.8 and is 7.2.9 now);" in less.reason


def test_a_day_that_cannot_be_compared_does_not_count() -> None:
    """One of them is named with its date; another run of that date still counts."""
    zero = day(9, make_measurement(iops=(0.0,)))
    runs = [day(n, make_measurement(iops=rounds(value))) for n, value in enumerate(QUIET[:4], 1)]
    found = verdict(make_measurement(iops=rounds(1000)), make_baseline(zero, *runs))
    assert (
        "(the saved day 2026-01-09 does not count: the saved figure is invalid: a round gave 0 IOPS);" in found.reason
    )
    again = day(9, make_measurement(iops=rounds(1000)))
    assert verdict(make_measurement(iops=rounds(1000)), make_baseline(zero, again, *runs)).kind is Kind.PASS
    few = verdict(make_measurement(iops=rounds(1000)), make_baseline(zero, again, *runs[:2]))
    assert few.kind is Kind.INCONCLUSIVE
    assert "does not count" not in few.reason


def test_what_differs_is_told_by_host_where_there_are_several() -> None:
    """A kernel of which nobody knows whose it is helps nobody."""
    names = ("lab1", "lab2")
    cells = [make_measurement(host=name) for name in names]
    now = make_run(*cells, hosts=[make_host("lab1"), make_host("lab2", libvirt="10.0.0")])
    assert compare(now, make_baseline(make_run(*cells)), GatePolicy()).stack == (
        "lab2: libvirt was 9.0.0 and is 10.0.0 now",
    )


def test_another_build_of_one_version_is_told() -> None:
    """A version does not say which build it is; where it says that already, or nobody knows, nothing is added."""
    then = make_measurement().model_copy(update={"made_from": {"qemu_sha256": "aa", "domain_xml_sha256": "11"}})
    now = then.model_copy(update={"made_from": {"qemu_sha256": "bb", "domain_xml_sha256": "11"}})
    baseline = make_baseline(make_run(then))
    assert compare(make_run(now), baseline, GatePolicy()).stack == ("QEMU's binary is another one in 1 measurement",)
    newer = compare(make_run(now, hosts=[make_host(qemu="8.0.0")]), baseline, GatePolicy())
    assert newer.stack == ("QEMU was 7.2.9 and is 8.0.0 now",)
    assert compare(make_run(make_measurement()), baseline, GatePolicy()).stack == ()


def test_a_guest_that_was_booted_then_and_is_restored_now_is_told() -> None:
    """The comparison is made; a baseline that does not know is no other one."""
    cell = make_measurement()
    fresh, restored = (cell.model_copy(update={"hygiene": {"boot": how}}) for how in ("fresh", "restored"))
    baseline = make_baseline(make_run(fresh))
    compared = compare(make_run(restored), baseline, GatePolicy())
    assert compared.stack == ("the guest's boot (fresh then, restored now) is another one in 1 measurement",)
    assert Kind.INVALID not in {verdict.kind for verdict in compared.verdicts} != set()
    assert compare(make_run(fresh), baseline, GatePolicy()).stack == ()
    assert compare(make_run(restored), make_baseline(make_run(cell)), GatePolicy()).stack == ()


UNSTEADY = (1000.0, 1500.0, 1000.0, 700.0, 1000.0)


def test_unsteady_rounds_are_not_compared() -> None:
    """Unless the user leaves that out; fresh rounds are of other guests, and are no part of it."""
    found = verdict(make_measurement(iops=UNSTEADY), saved())
    assert found.kind is Kind.INCONCLUSIVE
    assert (
        ": its rounds are not steady over 5 rounds: a range of 76.9% of the mean is over the limit of 2" in found.reason
    )
    assert "; --vm-without=steady-state compares them all the same; " in found.reason
    assert verdict(make_measurement(iops=UNSTEADY, without=("steady-state",)), saved()).finding is not None
    late = make_measurement(iops=(*rounds(700, 3), *UNSTEADY), boots=("a", "a", "a", *"bcdef"), fresh=5)
    assert verdict(late, saved()).finding is not None


DRIFTING = (790.0, 778.0, 766.0, 754.0, 742.0, 730.0, 718.0, 706.0)
"""A quarter slower, and slower by 11 % from the first round to the last."""


def test_a_loss_is_suspected_though_its_rounds_drift() -> None:
    """It was green: throttled from 1000 to 750, and not compared for a slope of 10.4 % over a limit of 10 %."""
    found = verdict(make_measurement(iops=DRIFTING), saved())
    assert found.kind is Kind.SUSPECT
    drift = verdict(make_measurement(iops=DRIFTING), saved(QUIET[:1]))
    assert drift.kind is Kind.SUSPECT
    assert "; its rounds are not steady over 8 rounds: a slope of -11.2% is over the limit of 10%; 748" in drift.reason
    assert "it looks slower by more than the tolerated 10 %" in drift.reason
    # and in fresh guests, where it is judged
    fresh = make_measurement(iops=(*DRIFTING, *rounds(750, 6)), boots=("a",) * 8 + tuple("bcdefg"), fresh=6)
    assert verdict(fresh, saved()).kind is Kind.REGRESSED
    gone = make_measurement(iops=(*DRIFTING, *rounds(1000, 6)), boots=("a",) * 8 + tuple("bcdefg"), fresh=6)
    assert verdict(gone, saved()).kind is Kind.PASS
    # a drift that makes nothing slower is harmless
    harmless = verdict(make_measurement(iops=tuple(value * 1.33 for value in DRIFTING)), saved())
    assert harmless.kind is Kind.INCONCLUSIVE
    assert "time per operation: its rounds are not steady over 8 rounds: a slope of" in harmless.reason


@pytest.mark.parametrize(("now", "kind"), [(1000, Kind.INCONCLUSIVE), (1300, Kind.INCONCLUSIVE), (760, Kind.SUSPECT)])
def test_one_round_each_is_no_verdict(now: float, kind: Kind) -> None:
    """Nothing changed, and it was IMPROVED by 24.5 %: the interval was the stated spread of days alone."""
    policy = GatePolicy(day_spread=0.02)
    one = make_baseline(day(1, make_measurement(iops=(1000.0,))))
    found = verdict(make_measurement(iops=(float(now),)), one, policy)
    assert found.kind is kind
    assert "95 % interval" not in found.reason


@pytest.mark.parametrize(
    ("now", "then", "facts", "reason"),
    [
        ({"nodeid": "t.py::renamed"}, {}, {}, "the baseline has no such cell"),
        ({"config": QCOW2, "nodeid": "t.py::a"}, {"nodeid": "t.py::a"}, {}, "the baseline has no such cell"),
        ({"workload": "fio randread 4k"}, {}, {}, "the baseline has no such cell"),
        ({}, {}, {"accel": "tcg"}, "it was saved under kvm and measured under tcg now"),
        ({}, {}, {"cpu": "Other"}, "the CPU was Example CPU 3.0 GHz and is Other now"),
        ({}, {}, {"cores": 64}, "the number of cores was 2 and is 64 now"),
        ({}, {}, {"memory_bytes": 4 * 2**30}, "the memory was 8 GiB and is 4 GiB now"),
        ({}, {}, {"file_system": "xfs"}, "the file system below the disks was ext4 and is xfs now"),
        ({"host": "lab2"}, {"host": "lab1"}, {}, "the host was lab1 and is lab2 now"),
        ({"guest": {"fio": "3.36"}}, {"guest": {"fio": "3.33"}}, {}, "the guest's fio was 3.33 and is 3.36 now"),
        ({}, {"bw": (5.0,)}, {}, "the baseline has no iops in IOPS for this cell"),
        ({}, {"iops": (math.nan,)}, {}, "the saved figure is invalid: a round gave no number"),
        ({}, {"iops": (0.0,)}, {}, "the saved figure is invalid: a round gave 0 IOPS"),
        ({"without": ("warmup",)}, {}, {}, "it was saved with all steps around its rounds and measured without warmup"
         " now (--vm-without)"),
        ({"without": ("sync", "host-caches")}, {"without": ("sync",)}, {}, "it was saved without sync and measured"
         " without host-caches, sync now (--vm-without)"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_inconclusive(
    now: dict[str, object], then: dict[str, object], facts: dict[str, object], reason: str
) -> None:
    """Each obstacle has its reason and none passes silently."""
    measured = make_measurement(**{"iops": (50.0,), **now})  # type: ignore[arg-type]
    before = make_measurement(**({"iops": (100.0,)} | then if "bw" not in then else then))  # type: ignore[arg-type]
    run = make_run(measured, hosts=[make_host(measured.host, **facts)])
    found = compare(run, make_baseline(make_run(before)), GatePolicy()).verdicts[0]
    assert found.kind is Kind.INCONCLUSIVE
    assert found.reason.endswith(f"was not compared with baseline 'main': {reason}.")
    assert (found.then, found.change, found.finding) == (None, None, None)
    assert found.is_open
    assert not found.fails


@pytest.mark.parametrize(
    ("field", "other", "said"),
    [
        ("device", "/dev/sdb1", "the device below the disks was /dev/sda1 and is /dev/sdb1 now"),
        ("governor", "powersave", "the CPU governor was performance and is powersave now"),
    ],
)
def test_what_was_not_known_of_the_host_is_no_obstacle(field: str, other: str, said: str) -> None:
    """An earlier version did not save it, or the host hides it; known on both days it has to be the same."""
    known: dict[str, object] = {"device": "/dev/sda1", "governor": "performance"}
    now, then = make_measurement(iops=(50.0,)), make_measurement(iops=(100.0,))

    def reason(before: HostFacts, today: HostFacts) -> str:
        found = compare(make_run(now, hosts=[today]), make_baseline(make_run(then, hosts=[before])), GatePolicy())
        return found.verdicts[0].reason

    assert said in reason(make_host(**known), make_host(**{**known, field: other}))
    for nothing in ("unknown", ""):
        assert "was not compared" not in reason(make_host(**known), make_host(**{**known, field: nothing}))


def test_memory_may_differ_by_what_a_kernel_keeps_for_itself() -> None:
    """Another kernel of the same machine is what a comparison is made for."""
    for memory_bytes in (int(7.9 * 2**30), 0):
        today = make_run(make_measurement(iops=rounds(1000)), hosts=[make_host(memory_bytes=memory_bytes)])
        assert compare(today, saved(), GatePolicy()).verdicts[0].kind is Kind.PASS


def test_another_command_is_another_figure() -> None:
    """Except on the host itself, where the line names files that are others in each run."""
    other = {"command": "fio --bs=8k"}
    now, then = make_measurement(iops=(50.0,)), make_measurement(iops=(100.0,))
    found = verdict(now.model_copy(update=other), make_baseline(make_run(then)))
    assert found.reason.endswith("it was measured with `fio randwrite 4k qd32 /dev/vda` and is with `fio --bs=8k` now.")
    on_host = {"on_host": True}
    found = verdict(
        now.model_copy(update={**other, **on_host}), make_baseline(make_run(then.model_copy(update=on_host)))
    )
    assert found.finding is not None


def test_what_only_judges_a_figure_keeps_none_from_being_compared() -> None:
    """Nor does the order in which the steps were named."""

    def of(*names: str) -> Measurement:
        return make_measurement(iops=(1000.0,), without=names)

    one, other = ("host-caches", "guest-caches"), ("guest-caches", "host-caches", "zero-check")
    for now, then in ((("steady-state", "cache-size"), ()), (one, other)):
        assert verdict(of(*now), make_baseline(make_run(of(*then)))).finding is not None


def test_a_cell_that_only_the_newest_run_lacks_is_said_to_be_that() -> None:
    """Somebody saved a part of the tests as the baseline."""
    part = day(9, make_measurement(QCOW2))
    found = verdict(make_measurement(iops=(1000.0,)), make_baseline(*saved().earlier, part))
    assert found.reason.endswith("was not compared with baseline 'main': the newest run of the baseline lacks it.")


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_an_impossible_figure_is_invalid(bad: float) -> None:
    """One bad round makes the figure invalid, although the median is finite, with or without a saved cell."""
    now = make_measurement(iops=(1000, bad, 1010))
    for baseline in (saved(), make_baseline(make_run())):
        found = verdict(now, baseline)
        assert found.kind is Kind.INVALID
        assert " is invalid: a round gave " in found.reason


def test_only_the_primary_metric_is_decided_about() -> None:
    """Other metrics are shown with their change, whatever it is."""
    then = make_measurement(iops=rounds(1000), clat=(0.001,) * 3)
    now = make_measurement(iops=rounds(1000), clat=(0.009,) * 3)
    runs = [day(n, then.model_copy()) for n in range(1, 7)]
    primary, other = compare(make_run(now), make_baseline(*runs), GatePolicy()).verdicts
    assert (primary.kind, primary.gates) == (Kind.PASS, True)
    assert (other.kind, other.gates, other.fails, other.is_open) == (Kind.SHOWN, False, False, False)
    assert other.worse_by == other.change == pytest.approx(8)
    assert other.reason.endswith(
        " is 800.0 % worse than baseline 'main': "
        "9 ms (9 ms to 9 ms in 3 rounds) against 1 ms (1 ms to 1 ms in 3 rounds)."
    )


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_what_is_no_rate_and_no_time_is_decided_about_too(better: str) -> None:
    """By its own factor and in its own direction; nothing is no factor of anything."""
    metric = Metric.model_validate({"name": "iops", "unit": "%", "better": better})

    def of(*values: float) -> Measurement:
        return make_measurement(iops=values).model_copy(update={"metrics": (metric,)})

    past = make_baseline(*(day(n, of(value / 20)) for n, value in enumerate(QUIET, 1)))
    worse, better_one = (30.0, 80.0) if better == "higher" else (80.0, 30.0)
    assert verdict(of(worse), past).kind is Kind.SUSPECT
    assert verdict(of(better_one), past).kind is Kind.IMPROVED
    zero = verdict(of(50.0, 0.0, 51.0), past)
    assert zero.kind is Kind.INCONCLUSIVE
    assert zero.reason.endswith("a round gave 0 %, and a change from there has no percentage.")
    older = verdict(of(50.0), make_baseline(day(1, of(50.0, 0.0, 51.0)), day(2, of(50.0))))
    assert "(the saved day 2026-01-01 does not count: a round gave 0 %, and " in older.reason
    old = verdict(of(50.0), make_baseline(make_run(of(50.0, 0.0, 51.0))))
    assert old.reason.endswith("when it was saved a round gave 0 %, and a change from there has no percentage.")


def test_less_than_nothing_is_better_where_less_is() -> None:
    """A file system may be found to have given back more than it took."""
    metric = Metric(name="taken", unit="B", better="lower")

    def of(value: float) -> Run:
        found = make_measurement(iops=(1000.0,), taken=(value,))
        return make_run(found.model_copy(update={"metrics": (found.metrics[0], metric)}))

    shown = compare(of(-200.0), make_baseline(of(-100.0)), GatePolicy()).verdicts[1]
    assert (shown.change, shown.worse_by) == (-1, -1)


def test_what_is_better_neither_way_is_more_or_less() -> None:
    """How long a timed job ran is no loss and no gain."""
    metric = Metric(name="runtime", unit="s", better="neither")

    def of(value: float) -> Run:
        found = make_measurement(iops=(1000.0,), runtime=(value,))
        return make_run(found.model_copy(update={"metrics": (found.metrics[0], metric)}))

    shown = compare(of(5.5), make_baseline(of(5.0)), GatePolicy()).verdicts[1]
    assert (shown.kind, shown.change, shown.worse_by) == (Kind.SHOWN, pytest.approx(0.1), None)
    assert " is 10.0 % more than baseline 'main': " in shown.reason


def by_rule(loss: float, cell: str = "*") -> tuple[ToleranceRule, ...]:
    """A rule of a gate file."""
    return (ToleranceRule(cell=cell, tolerated=Tolerated(fraction=loss)),)


@pytest.mark.parametrize(
    ("rules", "mark", "tolerated"),
    [((), "", 0.3), ((), "20%", 0.2), (by_rule(0.15), "20%", 0.15), (by_rule(0.15, "other*"), "20%", 0.2)],
)
def test_what_a_cell_may_lose(rules: tuple[ToleranceRule, ...], mark: str, tolerated: float) -> None:
    """As the file says of it, else as its test is marked, else as all."""
    policy = GatePolicy(tolerated=Tolerated(fraction=0.3), rules=rules)
    found = verdict(make_measurement(iops=rounds(1000), tolerated=mark), saved(), policy)
    assert found.tolerated == tolerated
    assert f"a loss of {tolerated * 100:g} % is excluded" in found.reason


def test_what_is_tolerated_may_be_learnt_from_saved_days() -> None:
    """It is what they show in four of five cases: little on quiet days, more on others."""
    policy = GatePolicy(tolerated=Tolerated(fraction=None))
    quiet, noisy = judged(1000, policy=policy), judged(1000, NOISY, policy)
    assert quiet.tolerated is not None
    assert noisy.tolerated is not None
    assert 0.01 < quiet.tolerated < 0.05
    assert noisy.tolerated > 0.4
    assert quiet.kind is noisy.kind is Kind.PASS


def test_what_is_learnt_is_what_shows_in_as_many_guests_as_today() -> None:
    """One guest shows less than the two of each saved day."""

    def of(*values: float) -> Measurement:
        return make_measurement(iops=values, boots=tuple("abc"[: len(values)]))

    past = make_baseline(*(day(n, of(value, value * 1.05)) for n, value in enumerate(QUIET, 1)))
    policy = GatePolicy(tolerated=Tolerated(fraction=None))
    one, two, three = (verdict(of(*values), past, policy).tolerated for values in ((1e3,), (1e3, 1e3), (1e3,) * 3))
    assert one is not None
    assert two is not None
    assert one > two
    assert two == three


@pytest.mark.parametrize(
    ("days", "said"),
    [
        (QUIET[:1], "what it may lose is to be learnt from 5 saved days, and there is 1."),
        (QUIET[:4], "what it may lose is to be learnt from 5 saved days, and there are 4."),
        ((1000.0,) * 6, "what it may lose is to be learnt from its saved days, and all 6 have one figure."),
    ],
)
def test_what_cannot_be_learnt_is_not_guessed(days: Sequence[float], said: str) -> None:
    """Nor is the usual tolerance taken in its place."""
    found = judged(1000, days, GatePolicy(tolerated=Tolerated(fraction=None)))
    assert found.kind is Kind.INCONCLUSIVE
    assert found.reason.endswith(said)


def test_a_workload_measured_twice_in_one_test_is_compared_in_order() -> None:
    """The second measurement of a test is compared with its saved second one."""
    run = make_run(make_measurement(iops=(10,)), make_measurement(iops=(20,)))
    then = make_baseline(make_run(make_measurement(iops=(10,)), make_measurement(iops=(40,))))
    assert [v.then for v in compare(run, then, GatePolicy()).verdicts] == [10, 40]


def test_of_two_saved_hosts_the_same_one_is_taken_and_the_other_is_missing() -> None:
    """A cell of a host that this run did not use is listed."""
    then = make_baseline(make_run(make_measurement(host="lab1", iops=(10,)), make_measurement(host="lab2", iops=(20,))))
    found = compare(make_run(make_measurement(host="lab2", iops=(20,))), then, GatePolicy())
    assert [v.then for v in found.verdicts] == [20]
    assert [cell.about for cell in found.missing] == ["fio randwrite 4k qd32 on raw-none-virtio-blk-off 1G, lab1"]


def test_saved_cells_that_were_not_measured_are_missing() -> None:
    """Except those that failed, which are loud already, and those the user left out."""
    gone = StorageConfig(cache="unsafe")
    then = make_baseline(make_run(make_measurement(), make_measurement(QCOW2), make_measurement(gone)))

    def missing(run: Run, left_out: Sequence[str] = ()) -> list[StorageConfig]:
        return [cell.config for cell in compare(run, then, GatePolicy(), left_out=left_out).missing]

    assert missing(make_run(make_measurement())) == [QCOW2, gone]
    run = make_run(make_measurement(), failures=[make_failure(QCOW2)])
    assert missing(run) == [gone]
    assert missing(run, [make_measurement(gone).nodeid]) == []


def test_verdicts_stand_in_the_order_of_the_run() -> None:
    """Whatever was decided first, and each is found by its figure."""
    cells = [StorageConfig(format=name) for name in ("raw", "qcow2", "qed")]
    then = make_baseline(make_run(*(make_measurement(one, iops=(10,), clat=(1,)) for one in cells[:2])))
    run = make_run(*(make_measurement(one, iops=(10,), clat=(1,)) for one in cells))
    found: Comparison = compare(run, then, GatePolicy())
    assert [(one.config, one.metric) for one in found.verdicts] == [
        (cell, metric) for cell in cells for metric in ("iops", "clat")
    ]
    assert found.against == "baseline 'main'"
    assert [found.of(one.key, one.host, one.metric) for one in found.verdicts] == list(found.verdicts)
    assert found.gated == found.verdicts[::2]


def drifting(draw: random.Random, cells: Sequence[StorageConfig]) -> tuple[Run, Baseline]:
    """Eight days and today, of cells that differ by a day's effect and a guest's; some part of a day is all cells'."""

    def one(config: StorageConfig, shared: float) -> Measurement:
        today = shared + draw.gauss(0, 0.03)
        guests = [math.exp(-today - draw.gauss(0, 0.03)) * 1000 for _ in range(4)]
        return make_measurement(config, iops=guests, boots=tuple("abcd"), fresh=2)

    runs = [
        day(n, *(one(config, shared) for config in cells)) for n in range(1, 10) for shared in [draw.gauss(0, 0.02)]
    ]
    return runs[-1], make_baseline(*runs[:-1])


def test_a_job_without_a_loss_is_seldom_red() -> None:
    """5 % of jobs of 20 cells at most, where days, guests and all cells of a day drift."""
    draw = random.Random(5)
    cells = [StorageConfig(size=(n + 1) * 2**30) for n in range(20)]
    jobs, red, suspected = 40, 0, 0
    for _ in range(jobs):
        found = compare(*drifting(draw, cells), GatePolicy()).verdicts
        red += any(one.kind is Kind.REGRESSED for one in found)
        suspected += any("in fresh rounds" in one.reason for one in found)
    assert suspected
    assert red <= 0.05 * jobs
