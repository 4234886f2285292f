"""The series of a window: increments between readings, thinned without a loss, and read back as they were saved."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_vmstorage.results.run import ROUNDS, Sample, steadiness, steady_part
from pytest_vmstorage.results.series import (
    LARGEST_STEPS,
    STEP_S,
    Counted,
    Counts,
    Series,
    read_device_counts,
    read_qemu_counts,
    series_of,
)


def counts(number: int) -> Counts:
    """Those of a disk that has read and written a multiple of `number`."""
    return Counts(number, 2 * number, 4096 * number, 8192 * number, number // 10, 100 * number, 200 * number, 0)


def growing(increments: list[int], times: list[float]) -> list[Counted]:
    """Readings of a disk that moves so much between them."""
    total, readings = 7, [Counted(0.0, counts(7))]
    for more, at_s in zip(increments, times, strict=True):
        total += more
        readings.append(Counted(at_s, counts(total)))
    return readings


def test_a_series_has_what_moved_between_readings() -> None:
    """Operations, bytes and times in each step; rates and mean times come from them."""
    made = series_of(growing([100, 300, 0], [0.5, 1.001, 1.5]), warm_up_s=0.5)
    assert (made.steps_ms, made.edges_s) == ((500, 501, 499), (0.0, 0.5, 1.001, 1.5))
    assert (made.reads, made.writes) == ((100, 300, 0), (200, 600, 0))
    assert (made.read_bytes, made.written_bytes) == ((409600, 1228800, 0), (819200, 2457600, 0))
    assert made.rates("reads", "writes") == pytest.approx((600.0, 900 / 0.501, 0.0))
    assert made.mean_us("read") == (100.0, 100.0, None)
    assert made.mean_us("flush") == (0.0, 0.0, None)
    assert (made.total("reads"), made.warm_up_s, made.merged, made.lost, made.gaps) == (400, 0.5, 1, 0, ())


def test_what_nothing_counts_is_none_and_not_zero() -> None:
    """A kernel without a count of flushes, an emulator without times."""
    readings = [Counted(at_s, counts(number)._replace(flushes=None, read_us=None)) for number, at_s in ((1, 0), (2, 1))]
    made = series_of(readings, "host")
    assert (made.flushes, made.read_us, made.flush_us) == (None, None, (0,))
    assert (made.total("flushes"), made.mean_us("flush"), made.mean_us("read")) == (None, (None,), (None,))
    assert Series.model_validate_json(made.model_dump_json()) == made


@given(st.integers(0, 700), st.integers(0, 2**32))
def test_thinning_loses_no_operation(number: int, seed: int) -> None:
    """Whatever was read when: sums and the last moment stay, and no more steps are there than may be."""
    # numbers drawn one by one take longer than the rest
    chance = random.Random(seed)
    increments = [chance.choice((0, 1, chance.randrange(10**7))) for _ in range(number)]
    moments = list(itertools.accumulate(chance.choice((0.0, 0.0004, chance.uniform(0, 3))) for _ in range(number)))
    readings = growing(increments, moments)
    made = series_of(readings)
    assert len(made) <= LARGEST_STEPS
    for name in Counts._fields:
        assert made.total(name) == getattr(readings[-1].counts, name) - getattr(readings[0].counts, name)
    # steps of less than a millisecond have one
    assert made.edges_s[-1] - readings[-1].at_s == pytest.approx(0, abs=0.0005 + 0.001 * len(made))
    assert Series.model_validate(json.loads(made.model_dump_json())) == made


@pytest.mark.parametrize(("readings", "merged"), [(1, 1), (240, 1), (241, 1), (242, 2), (481, 2), (482, 3), (5000, 21)])
def test_long_windows_have_longer_steps(readings: int, merged: int) -> None:
    """Up to two minutes a step has half a second; then neighbours are one."""
    made = series_of([Counted(place * STEP_S, counts(place)) for place in range(readings)])
    assert made.merged == merged
    assert set(made.steps_ms[:-1]) <= {500 * merged}
    assert all(250 * merged <= step < 750 * merged for step in made.steps_ms[-1:])
    assert made.gaps == ()


def test_a_last_step_of_milliseconds_belongs_to_the_one_before() -> None:
    """Its rate would say nothing."""
    assert series_of(growing([1, 1, 1], [0.5, 1.0, 1.24])).steps_ms == (500, 740)
    assert series_of(growing([1, 1, 1], [0.5, 1.0, 1.25])).steps_ms == (500, 500, 250)
    assert series_of(growing([1], [0.01])).steps_ms == (10,)


@pytest.mark.parametrize("merged", [1, 4])
def test_a_lost_reading_is_a_gap(merged: int) -> None:
    """The step over it is longer, and is named; a last step that has a part of the next is none."""
    every = [Counted(place * STEP_S, counts(place)) for place in range(240 * merged + 1)]
    whole = [*every[:100], *every[101:], every[-1]._replace(at_s=every[-1].at_s + 0.1)]
    made = series_of(whole, lost=1)
    assert (made.merged, made.lost) == (merged, 1)
    assert made.gaps == ((100 - 1) // merged,)
    assert Series(lost=3).gaps == ()


def test_a_series_is_saved_short() -> None:
    """Without columns of zeros, and without what is usual; all of it is there when it is read."""
    made = series_of(
        [Counted(0.0, Counts(1, 0, 4096, 0, 0, 5, 0, 0)), Counted(0.5, Counts(3, 0, 12288, 0, 0, 9, 0, 0))]
    )
    assert made.model_dump(mode="json") == {"steps_ms": [500], "reads": [2], "read_bytes": [8192], "read_us": [4]}
    assert Series.model_validate(made.model_dump()).writes == (0,)
    assert Series().model_dump() == {}


@pytest.mark.parametrize("damaged", [{"steps_ms": [500], "reads": [1, 2]}, {"steps_ms": [-5]}, {"reads": [1]}, [1]])
def test_a_damaged_series_is_refused(damaged: object) -> None:
    """Columns of other lengths, times that go back, no table at all."""
    with pytest.raises(ValidationError):
        Series.model_validate(damaged)


def test_a_counter_that_begins_anew_counts_nothing() -> None:
    """The kernel's times have 32 bits."""
    assert series_of([Counted(0.0, counts(9)), Counted(0.5, counts(2))]).reads == (0,)


def test_qemus_counts() -> None:
    """Of QMP query-blockstats; nanoseconds are microseconds, and what an emulator leaves out is not counted."""
    stats = {"rd_bytes": 8192, "wr_bytes": 4096, "rd_operations": 2, "wr_operations": 1, "flush_operations": 3}
    assert read_qemu_counts(stats) == Counts(2, 1, 8192, 4096, 3)
    times = {"rd_total_time_ns": 1999, "wr_total_time_ns": 1000, "flush_total_time_ns": 999}
    assert read_qemu_counts(stats | times) == Counts(2, 1, 8192, 4096, 3, 1, 1, 0)


def test_the_kernels_counts() -> None:
    """Of /sys/block/X/stat, with 17 fields since Linux 5.5, and 11 before 4.18."""
    line = "   10  1  80  5   20  2  160  7  0  9  12  1 2 3 4  6 8\n"
    assert read_device_counts(line) == Counts(10, 20, 80 * 512, 160 * 512, 6, 5000, 7000, 8000)
    assert read_device_counts(" ".join(line.split()[:11])) == Counts(10, 20, 80 * 512, 160 * 512, None, 5000, 7000)
    assert read_device_counts("") is None


@given(st.lists(st.integers(0, 100), max_size=14))
def test_the_longest_steady_part_is_that_of_all_parts(figures: list[int]) -> None:
    """By the limits of rounds: tried with each part of the figures."""
    parts = [range(first, end) for first in range(len(figures)) for end in range(first + ROUNDS, len(figures) + 1)]
    steady = [part for part in parts if steadiness(figures[part.start : part.stop]).is_steady]
    assert steady_part(figures) == max(steady, key=len, default=None)


def test_a_sample_names_its_steady_part() -> None:
    """From when to when, in seconds of the window: without the start of the tool and its last step."""
    level = [1000] * 8
    made = series_of(growing([100, 500, *level, 200], [0.5 * number for number in range(1, 12)]))
    sample = Sample(figures={}, started="", seconds=5.5, raw="", series=made)
    assert sample.steady_s == (1.0, 5.0)
    assert sample.model_copy(update={"series": None}).steady_s is None
    assert sample.model_copy(update={"series": series_of(growing([1] * 4, [0.5, 1.0, 1.5, 2.0]))}).steady_s is None
