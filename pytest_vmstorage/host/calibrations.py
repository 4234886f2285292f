"""Calibrations of hosts, kept in the user's cache folder: a file for each host, the newest last."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from pytest_vmstorage.analysis.calibration import Calibration
from pytest_vmstorage.host.folders import cache_folder, use_cache_folder
from pytest_vmstorage.leftovers import write_whole
from pytest_vmstorage.results.host import HostFacts

KEPT = 60
"""Calibrations of a host that are kept: the spread of its days is told from them."""


def calibrations_of(host: str) -> tuple[Calibration, ...]:
    """All calibrations of the host of that name, oldest first; one that cannot be read is left out."""
    try:
        entries = json.loads(_path(cache_folder(), host).read_text())
    except (OSError, ValueError):
        return ()
    found = []
    for entry in entries if isinstance(entries, list) else ():
        try:
            found.append(Calibration.model_validate(entry))
        except ValidationError:
            # a later version may have written it
            continue
    return tuple(one for one in found if one.host.name == host)


def newest_calibration(host: str) -> Calibration | None:
    """The last calibration of the host of that name, None where there is none."""
    return next(reversed(calibrations_of(host)), None)


class Held(NamedTuple):
    """The calibration that a run uses, None without one, and a sentence: what it changes, or why one is not used."""

    calibration: Calibration | None
    told: str


def held_calibration(facts: HostFacts) -> Held:
    """The newest calibration of that host, unless something of the host changed since."""
    found = newest_calibration(facts.name)
    if found is None:
        return Held(None, "")
    lapsed = found.lapse(facts)
    return Held(None, lapsed) if lapsed else Held(found, found.told)


def keep_calibration(calibration: Calibration) -> Path:
    """Keep it beside the earlier ones of its host; returns the file. Raises HostError where it cannot be written."""
    path = _path(use_cache_folder(), calibration.host.name)
    kept = [*calibrations_of(calibration.host.name), calibration][-KEPT:]
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_whole(path, json.dumps([one.model_dump(mode="json") for one in kept], indent=1))
    return path


def _path(cache: Path, host: str) -> Path:
    # a host's name in vmstorage.toml may be anything
    word = "".join(letter for letter in host if letter.isascii() and (letter.isalnum() or letter in "-_."))[:40]
    return cache / "calibrations" / f"{word}-{hashlib.sha256(host.encode()).hexdigest()[:8]}.json"
