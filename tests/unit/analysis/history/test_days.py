"""Saved runs by cell, host and day, and what changed around them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType

import pytest

from pytest_vmstorage.analysis.history.days import Gathered, day_figure, gather, guests_of
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.testing import make_host, make_measurement, make_metric, make_run

RAW = StorageConfig()


def saved(day: int, *iops: float, hour: int = 3, facts: Mapping[str, str] = MappingProxyType({})) -> Run:
    """A run of a cell on that day of November, each round in a guest of its own."""
    boots = [f"{day} {hour} {number}" for number in range(len(iops))]
    measured = make_measurement(RAW, iops=iops or (1000.0,), boots=boots or ("one",))
    return make_run(measured, hosts=[make_host(**facts)], started=f"2026-11-{day:02}T{hour:02}:00:00+00:00")


def days_of(found: Gathered) -> dict[date, float]:
    """The days of the only series, as IOPS."""
    (series,) = found.series
    return {day.day: math.exp(-day.log) for day in series.days}


def test_runs_of_one_date_are_one_day() -> None:
    """In any order; the figure is that of all their guests."""
    found = gather([saved(4, 900.0, hour=20), saved(3, 1000.0), saved(4, 1000.0, 1000.0)])
    assert days_of(found) == {date(2026, 11, 3): pytest.approx(1000), date(2026, 11, 4): pytest.approx(1000, rel=0.06)}
    assert [len(day.guests) for day in found.series[0].days] == [1, 3]


def test_a_bad_guest_hardly_moves_a_day() -> None:
    """Four guests agree, one takes twice as long."""
    figures = [math.log(1 / iops) for iops in (1000.0, 1010.0, 990.0, 1000.0, 500.0)]
    assert math.exp(-day_figure(figures)) == pytest.approx(1000, rel=0.02)


def test_rounds_of_one_guest_are_one_value() -> None:
    """Their median, which is the figure that other reports show."""
    measured = make_measurement(RAW, iops=(1000.0, 1010.0, 400.0), boots=("a", "a", "a"))
    assert [math.exp(-log) for log in guests_of(make_metric("iops"), measured.samples)] == [pytest.approx(1000)]


def test_hosts_are_never_mixed() -> None:
    """The same cell on two hosts has two series."""
    one, other = (make_run(make_measurement(RAW, host=name, iops=(1.0,))) for name in ("lab01", "lab02"))
    assert [series.host for series in gather([one, other]).series] == ["lab01", "lab02"]


@pytest.mark.parametrize(
    ("facts", "clause"),
    [
        ({"accel": "tcg"}, "it was saved under tcg and measured under kvm now"),
        ({"cpu": "Other CPU"}, "the CPU was Other CPU and is Example CPU 3.0 GHz now"),
        ({"governor": "powersave"}, ""),
    ],
)
def test_days_that_may_not_be_compared_have_no_part(facts: dict[str, str], clause: str) -> None:
    """By the rules of comparisons; with too few days left that is the reason why nothing is judged."""
    found = gather([saved(1, facts=facts), saved(2, facts=facts), saved(3)])
    assert list(days_of(found)) == [date(2026, 11, day) for day in ((3,) if clause else (1, 2, 3))]
    assert found.series[0].why_not == clause


def test_kernel_qemu_and_libvirt_are_marks() -> None:
    """They part no series: it is for them that comparisons are made."""
    found = gather(
        [
            saved(1),
            saved(2, facts={"kernel": "6.2.0", "libvirt": "9.1.0"}),
            saved(4, facts={"kernel": "6.2.0", "qemu": "9.2"}),
        ]
    )
    assert len(days_of(found)) == 3
    assert [(one.what, one.after.day, one.on.day) for one in found.shifts] == [
        ("kernel was 6.1.0 and is 6.2.0 now", 1, 2),
        ("libvirt was 9.0.0 and is 9.1.0 now", 1, 2),
        ("QEMU was 7.2.9 and is 9.2 now", 2, 4),
        ("libvirt was 9.1.0 and is 9.0.0 now", 2, 4),
    ]


def test_parts_of_guests_are_marks_of_their_cells() -> None:
    """Another guest image is one of the cells that have it."""
    runs = []
    for day, image in ((1, "aa"), (2, "bb")):
        other = make_measurement(StorageConfig(bus="ide"), iops=(1.0,))
        one = make_measurement(RAW, iops=(1.0,)).model_copy(update={"made_from": {"guest_image_sha256": image}})
        runs.append(make_run(one, other, started=f"2026-11-{day:02}T03:00:00+00:00"))
    (shift,) = gather(runs).shifts
    assert (shift.what, shift.on, shift.places) == ("the guest image is another one", date(2026, 11, 2), frozenset({0}))


def test_firmware_and_the_plugin_are_marks_too() -> None:
    """The plugin's with its versions; days that saved neither changed nothing."""
    runs = []
    for day, made in (
        (1, {}),
        (2, {"plugin": "0.1", "firmware_sha256": "a"}),
        (3, {"plugin": "0.2", "firmware_sha256": "b"}),
    ):
        one = make_measurement(RAW, iops=(1.0,)).model_copy(update={"made_from": made})
        runs.append(make_run(one, started=f"2026-11-{day:02}T03:00:00+00:00"))
    assert [(shift.what, shift.on.day) for shift in gather(runs).shifts] == [
        ("pytest-vmstorage (0.1 then, 0.2 now)", 3),
        ("the firmware is another one", 3),
    ]


def test_a_cell_that_no_run_has_any_more_is_gone() -> None:
    """After two weeks."""
    runs = [saved(1), make_run(make_measurement(StorageConfig(bus="ide")), started="2026-11-15T03:00:00+00:00")]
    assert [series.why_not for series in gather(runs).series] == ["gone", ""]


def test_a_figure_without_a_logarithm_is_no_day() -> None:
    """A round that gave nothing."""
    found = gather([saved(1, 0.0), saved(2, 1000.0)])
    assert list(days_of(found)) == [date(2026, 11, 2)]


def test_another_metric_can_be_asked_for() -> None:
    """Cells that lack it have no series."""
    both = make_measurement(RAW, iops=(1000.0,), clat_p99=(0.002,))
    other = make_measurement(StorageConfig(bus="ide"), iops=(1000.0,))
    (series,) = gather([make_run(both, other)], "clat_p99").series
    assert (series.key.config, series.metric.unit) == (RAW, "s")
    assert math.exp(series.days[0].log) == pytest.approx(0.002)
