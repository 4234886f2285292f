"""Histograms of fio's json+ output: merged by counts, and percentiles as fio itself gives them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vmstorage.analysis.histograms import (
    Histogram,
    IoKind,
    completion_histograms,
    histogram_of,
    merged,
)

RECORDINGS = Path(__file__).parents[1] / "recordings"
WITH_BINS = sorted(
    path.name
    for path in RECORDINGS.glob("fio-*.json")
    # these failed before any I/O
    if not path.stem.endswith(("einval-error", "nofile-error"))
)

COUNTS = st.dictionaries(st.integers(1, 10**10), st.integers(1, 50), min_size=1, max_size=40)


def jobs_of(name: str) -> list[dict[str, Any]]:
    """The jobs of a recording, read by the test."""
    text = (RECORDINGS / name).read_text()
    jobs: list[dict[str, Any]] = json.loads(text[text.index("\n{") + 1 if not text.startswith("{") else 0 :])["jobs"]
    return jobs


@pytest.mark.parametrize("name", WITH_BINS)
def test_percentiles_are_those_that_fio_gives(name: str) -> None:
    """In recordings of fio 3.28, 3.33 and 3.42: each direction of each job, each percentile that fio printed."""
    found = completion_histograms((RECORDINGS / name).read_text())
    jobs = jobs_of(name)
    compared = 0
    for job in jobs:
        for way in ("read", "write"):
            if not job[way]["total_ios"]:
                continue
            histogram = found[IoKind(job["jobname"] if len(jobs) > 1 else "", way)]
            latencies = job[way]["clat_ns"]
            assert histogram.ios == latencies["N"]
            for percent, value_ns in latencies["percentile"].items():
                assert histogram.percentile_s(float(percent)) == pytest.approx(value_ns / 1e9), percent
                compared += 1
    assert compared


def test_flushes_have_a_histogram_of_their_own() -> None:
    """With fsync or fdatasync fio times each of them."""
    found = completion_histograms((RECORDINGS / "fio-3.33-randwrite-fdatasync.json").read_text())
    assert list(found) == [IoKind("", "write"), IoKind("", "fsync")]
    sync = jobs_of("fio-3.33-randwrite-fdatasync.json")[0]["sync"]["lat_ns"]
    assert found[IoKind("", "fsync")].ios == sync["N"] == 127
    assert found[IoKind("", "fsync")].percentile_s(99.0) == pytest.approx(sync["percentile"]["99.000000"] / 1e9)


@given(st.lists(COUNTS, min_size=1, max_size=5), st.floats(0, 100))
def test_merged_percentiles_are_those_of_all_io(rounds: list[dict[int, int]], percent: float) -> None:
    """The same as from a list of every single I/O of all rounds."""
    whole = merged(histogram_of(counts) for counts in rounds)
    every = sorted(middle for counts in rounds for middle, count in counts.items() for _ in range(count))
    assert whole.ios == len(every)
    found = whole.percentile_s(percent)
    # so many of them do not exceed it, and without its bin they would be too few
    assert sum(one / 1e9 <= found for one in every) >= percent / 100 * len(every) * (1 - 1e-12)
    below = sum(one / 1e9 < found for one in every)
    assert below == 0 or below < percent / 100 * len(every) * (1 + 1e-12)


def test_merging_is_no_mean_of_percentiles() -> None:
    """Nine fast rounds in ten hide nothing: the 95th percentile is that of the slow one."""
    fast, slow = histogram_of({1_000: 100}), histogram_of({1_000_000: 100})
    rounds = [*[fast] * 9, slow]
    averaged = math.fsum(one.percentile_s(95) for one in rounds) / 10
    assert merged(rounds).percentile_s(95) == 1e-3
    assert averaged == pytest.approx(1.009e-4)


def test_ends_of_a_histogram() -> None:
    """0 % is the fastest, 100 % the slowest; without I/O there is neither."""
    one = histogram_of({30: 1, 10: 3, 20: 0})
    assert one == Histogram((10, 30), (3, 4))
    assert (one.percentile_s(0), one.percentile_s(75), one.percentile_s(75.1), one.percentile_s(100)) == (
        1e-8, 1e-8, 3e-8, 3e-8,
    )  # fmt: skip
    with pytest.raises(ValueError, match="no percentile"):
        histogram_of({}).percentile_s(50)


@pytest.mark.parametrize(
    "raw",
    ["", "262144+0 records in", "{", "{}", '{"jobs": 3}', '{"jobs": [3]}', '{"jobs": [{"read": {"clat_ns": 1}}]}',
     '{"jobs": [{"read": {"clat_ns": {"bins": {"x": 1, "5": "y", "6": true, "-3": 1}}}}]}', "[" * 100_000],
)  # fmt: skip
def test_any_other_output_has_none(raw: str) -> None:
    """Other tools' output, a cut one, one that somebody edited."""
    assert completion_histograms(raw) == {}


def test_fio_prints_before_its_json() -> None:
    """Warnings in front are passed over, and jobs of one name are one kind."""
    job = {"jobname": "a", "write": {"clat_ns": {"bins": {"100": 2}}}}
    raw = "fio: a warning {\n" + json.dumps({"jobs": [job, job]})
    assert completion_histograms(raw) == {IoKind("a", "write"): histogram_of({100: 4})}
    assert str(IoKind("a", "write")) == "a write"
