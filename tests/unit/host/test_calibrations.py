"""Calibrations are kept for each host, in the user's cache folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.analysis.calibration import Calibration
from pytest_vmstorage.host.calibrations import KEPT, calibrations_of, keep_calibration, newest_calibration
from pytest_vmstorage.testing.builders import make_host


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VMSTORAGE_CACHE", str(tmp_path / "cache"))


def calibration(name: str = "lab01", **known: Any) -> Calibration:
    """A calibration of that host."""
    plain: dict[str, Any] = {"id": "1", "started": "2026-11-28T02:00:00+00:00", "seconds": 9.0, "limit_s": 10.0}
    return Calibration.model_validate({**plain, "host": make_host(name), **known})


def test_each_host_has_its_own_and_the_newest_is_the_last() -> None:
    """Names of hosts that differ in one sign that no file has are two hosts, too."""
    assert newest_calibration("lab01") is None
    first, second, other = calibration(id="1"), calibration(id="2"), calibration("lab/01", id="3")
    paths = {keep_calibration(one) for one in (first, second, other)}
    assert len(paths) == 2
    assert calibrations_of("lab01") == (first, second)
    assert newest_calibration("lab01") == second
    assert newest_calibration("lab/01") == other


def test_old_ones_go() -> None:
    """The newest of them are kept."""
    for number in range(KEPT + 2):
        keep_calibration(calibration(id=str(number)))
    assert [one.id for one in calibrations_of("lab01")] == [str(number) for number in range(2, KEPT + 2)]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"id": 1}]', "nothing"])
def test_what_cannot_be_read_is_none(text: str) -> None:
    """And is replaced by the next one; beside it others are still read."""
    path = keep_calibration(calibration())
    path.write_text(text)
    assert calibrations_of("lab01") == ()
    keep_calibration(calibration(id="7"))
    assert [one.id for one in calibrations_of("lab01")] == ["7"]
    path.write_text(json.dumps([{"id": 1}, *json.loads(path.read_text())]))
    assert [one.id for one in calibrations_of("lab01")] == ["7"]
