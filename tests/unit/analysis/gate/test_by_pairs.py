"""The gate on pairs: a run against what a recipe makes of it, and the sentence that says how it went."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import pytest

from pytest_vmstorage.analysis.gate.by_pairs import compare_pairs
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import GatePolicy, Tolerated
from pytest_vmstorage.analysis.gate.verdicts import Verdict
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.run import Ending, LeftOut, Measurement, Metric
from pytest_vmstorage.testing.builders import make_measurement, make_run

QCOW2, OTHER = StorageConfig(format="qcow2"), StorageConfig(format="qcow2", cache="unsafe")
NODEID = "t.py::test_disk[qcow2]"


def noisy(count: int, value: float = 1000.0, spread: float = 0.01, seed: int = 1) -> list[float]:
    """Rounds around that value."""
    draw = random.Random(seed)
    return [value * math.exp(draw.gauss(0, spread)) for _ in range(count)]


def side(config: StorageConfig, values: Sequence[float], *, nodeid: str = NODEID, fresh: int = 0) -> Measurement:
    """One side of pairs, a round in each guest."""
    boots = [str(number) for number, _ in enumerate(values)]
    return make_measurement(config, iops=values, nodeid=nodeid, boots=boots, fresh=fresh)


def paired(now: Sequence[float], then: Sequence[float], *, fresh: int = 0, policy: GatePolicy | None = None) -> Verdict:
    """The verdict on one cell."""
    run = make_run(side(QCOW2, now, fresh=fresh), against=[side(OTHER, then)], recipe="cache=unsafe")
    (found,) = compare_pairs(run, policy or GatePolicy()).verdicts
    return found


def test_pairs_that_exclude_the_loss_pass() -> None:
    """Each sentence names what it was measured against."""
    found = paired(noisy(6), noisy(6, seed=2))
    assert found.kind is Kind.PASS
    assert found.reason.startswith(
        "iops of fio randwrite 4k qd32 on qcow2-none-virtio-blk-off 1G is PASS against the same with cache=unsafe: "
        "6 pairs, "
    )
    assert "a loss of 10 % is excluded" in found.reason


def test_faster_beyond_doubt_is_improved() -> None:
    """The loss is excluded, and no change too."""
    assert paired(noisy(6, 1200), noisy(6, seed=2)).kind is Kind.IMPROVED


def test_what_looks_slower_is_suspected_until_fresh_pairs_tell() -> None:
    """And without them nothing is red."""
    found = paired(noisy(6, 850), noisy(6, seed=2))
    assert (found.kind, found.fails, found.is_open) == (Kind.SUSPECT, False, True)


def test_fresh_pairs_confirm_a_loss() -> None:
    """The pairs that made it a suspect are not among those that are counted."""
    found = paired(noisy(18, 850), noisy(18, seed=2), fresh=12)
    assert (found.kind, found.fails) == (Kind.REGRESSED, True)
    assert "12 pairs, " in found.reason
    assert "confirmed on fresh pairs with p = " in found.reason
    assert found.finding is not None
    assert found.finding.count == 12


def test_fresh_pairs_that_find_nothing_let_it_pass() -> None:
    """Six slow rounds by chance are no slow disk."""
    now = [*noisy(6, 850), *noisy(12)]
    assert paired(now, noisy(18, seed=2), fresh=12).kind is Kind.PASS


def test_pairs_that_say_nothing_want_more() -> None:
    """As many as the next look has, and what the tolerated loss would take."""
    found = paired(noisy(6, spread=0.15), noisy(6, spread=0.15, seed=2))
    assert found.kind is Kind.INCONCLUSIVE
    assert found.finding is not None
    assert found.finding.wants == 6
    assert found.finding.visible is not None
    assert found.finding.visible > 0.1
    few = paired(noisy(4), noisy(4, seed=2)).finding
    assert few is not None
    assert few.wants == 2


def test_a_time_limit_is_named_and_ends_the_wishes() -> None:
    """What passed before it passed."""
    late = {"ended": Ending(reason="time limit")}
    for spread, kind in ((0.15, Kind.INCONCLUSIVE), (0.01, Kind.PASS)):
        now = side(QCOW2, noisy(6, spread=spread)).model_copy(update=late)
        run = make_run(now, against=[side(OTHER, noisy(6, spread=spread, seed=2))], recipe="cache=unsafe")
        (found,) = compare_pairs(run, GatePolicy()).verdicts
        assert found.kind is kind
        assert found.finding is not None
        assert found.finding.wants == 0
        told = "; the time for its pairs was over (--vm-pairs-limit); "
        assert (told in found.reason) is (kind is Kind.INCONCLUSIVE)


def test_a_round_without_its_counterpart_is_no_pair() -> None:
    """Whichever side has more; fresh ones are told from the first by the cell's own rounds."""
    for now, then in ((7, 6), (6, 7)):
        found = paired(noisy(now), noisy(then, seed=2)).finding
        assert found is not None
        assert found.count == 6
    found = paired(noisy(18, 850), noisy(17, seed=2), fresh=12).finding
    assert found is not None
    assert (found.count, found.wants) == (11, 1)


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ({}, "with cache=unsafe it has no figure."),
        (
            {NODEID: "The guest did not boot.\nconsole tail"},
            "with cache=unsafe it has no figure: The guest did not boot.",
        ),
    ],
)
def test_a_lost_side_is_no_pass(lost: Mapping[str, str], said: str) -> None:
    """Its reason is told, without the evidence that stands below it."""
    (found,) = compare_pairs(make_run(side(QCOW2, noisy(6)), recipe="cache=unsafe"), GatePolicy(), lost).verdicts
    assert found.kind is Kind.INCONCLUSIVE
    assert found.reason.endswith(f"was not compared with the same with cache=unsafe: {said}")


def test_what_the_other_side_cannot_do_is_said() -> None:
    """A recipe may make a cell that lacks an operation."""
    metric = Metric(name="iops", unit="IOPS", better="higher")
    lacks = {"metrics": (), "left_out": (LeftOut(metric=metric, why="raw has no internal snapshots"),)}
    then = side(OTHER, noisy(6)).model_copy(update=lacks)
    run = make_run(side(QCOW2, noisy(6)), against=[then], recipe="format=raw")
    (found,) = compare_pairs(run, GatePolicy()).verdicts
    assert found.reason.endswith("with format=raw it has no figure: raw has no internal snapshots.")


@pytest.mark.parametrize(
    ("now", "then", "kind", "said"),
    [
        (math.nan, 1.0, Kind.INVALID, "is invalid: a round gave no number."),
        (0.0, 1.0, Kind.INVALID, "is invalid: a round gave 0 IOPS."),
        (1.0, math.nan, Kind.INCONCLUSIVE, ": with cache=unsafe a round gave no number."),
        (1.0, 0.0, Kind.INCONCLUSIVE, ": with cache=unsafe a round gave 0 IOPS."),
    ],
)
def test_what_is_no_figure_is_no_pair(now: float, then: float, kind: Kind, said: str) -> None:
    """And it is said on which side it is."""
    found = paired([*noisy(5), now], [*noisy(5, seed=2), then])
    assert found.kind is kind
    assert found.reason.endswith(said)


def test_a_metric_beside_the_primary_one_is_shown() -> None:
    """Also one with a round of 0, of which the median differs all the same."""
    taken = Metric(name="taken", unit="B", better="lower")

    def of(config: StorageConfig, *values: float) -> Measurement:
        found = make_measurement(config, iops=noisy(len(values)), taken=values, nodeid=NODEID)
        return found.model_copy(update={"metrics": (found.metrics[0], taken)})

    def shown(now: Sequence[float], then: Sequence[float]) -> Verdict:
        policy = GatePolicy(tolerated=Tolerated(fraction=None))
        run = make_run(of(QCOW2, *now), against=[of(OTHER, *then)], recipe="cache=unsafe")
        return compare_pairs(run, policy).verdicts[1]

    found = shown([0, 20, 20], [10, 10, 0])
    assert (found.kind, found.change, found.is_open) == (Kind.SHOWN, 1, False)
    assert shown([5, 5, 5], [0, 0, 5]).reason.endswith(
        "with cache=unsafe a round gave 0 B, and a change from there has no percentage."
    )


def test_pairs_learn_nothing_of_days() -> None:
    """What `history` asks for needs saved ones, and a percentage is not guessed."""
    found = paired(noisy(6), noisy(6), policy=GatePolicy(tolerated=Tolerated(fraction=None)))
    assert found.kind is Kind.INCONCLUSIVE
    assert found.reason.endswith("what it may lose is to be learnt from saved days, and pairs have none.")


def test_hosts_share_the_risk_of_a_false_alarm() -> None:
    """What is sure enough for one host alone may not be so for one of a thousand."""
    for parts, kind in ((1, Kind.REGRESSED), (2, Kind.REGRESSED), (1000, Kind.INCONCLUSIVE)):
        found = paired(noisy(18, 850), noisy(18, seed=2), fresh=12, policy=GatePolicy(parts=parts))
        assert found.kind is kind, parts


def test_each_cell_has_its_own_tolerance() -> None:
    """Fresh pairs of one make every suspect one that is confirmed or not."""
    names = [f"t.py::test_{name}" for name in "abc"]
    now = [
        side(QCOW2, noisy(18, 850), nodeid=names[0], fresh=12),
        side(QCOW2, noisy(18, 850), nodeid=names[1], fresh=12),
    ]
    now[1] = now[1].model_copy(update={"tolerated": "50%"})
    now.append(side(QCOW2, noisy(6, 850), nodeid=names[2]))
    against = [side(OTHER, noisy(18, seed=2), nodeid=name) for name in names]
    found = compare_pairs(make_run(*now, against=against, recipe="cache=unsafe"), GatePolicy()).verdicts
    assert [one.kind for one in found] == [Kind.REGRESSED, Kind.PASS, Kind.INCONCLUSIVE]
    assert [one.tolerated for one in found] == [0.1, 0.5, 0.1]
    assert found[2].finding is not None
    assert found[2].finding.wants == 12


def test_sides_are_told_apart_by_test_workload_host_and_number() -> None:
    """The configuration is what differs."""
    run = make_run(
        *(make_measurement(QCOW2, iops=(value,), nodeid=NODEID) for value in (10, 20)),
        make_measurement(QCOW2, iops=(30,), nodeid=NODEID, workload="dd"),
        against=[
            make_measurement(OTHER, iops=(3,), nodeid=NODEID, workload="dd"),
            *(make_measurement(OTHER, iops=(value,), nodeid=NODEID) for value in (1, 2)),
            make_measurement(OTHER, iops=(9,), nodeid=NODEID, host="lab2"),
        ],
        recipe="cache=unsafe",
    )
    found = compare_pairs(run, GatePolicy())
    assert found.against == "the same with cache=unsafe"
    assert [one.then for one in found.verdicts] == [1, 2, 3]
