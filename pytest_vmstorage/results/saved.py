"""A saved run to compare with: found by name among pytest-benchmark's files, read, and keyed by cell."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, ValidationError

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.user_input import parse_json, read_user_text
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.packed import check_lzma, without_evidence
from pytest_vmstorage.results.run import SCHEMA, Measurement, Run
from pytest_vmstorage.text import plain_line

PROMOTED = "vmstorage_promoted"
"""Key beside pytest-benchmark's in a file that `vmstorage promote` made: when, from which file."""


_SHOWN_NUMBERS = 5
_LONGEST_NUMBER = 9
_NUMBERED = re.compile(rf"[0-9]{{1,{_LONGEST_NUMBER}}}_")


class CellKey(NamedTuple):
    """The identity of a measurement across runs; `nth` counts repeats within one test, from 0."""

    nodeid: str
    workload: str
    config: StorageConfig
    nth: int


class Baseline(BaseModel):
    """A saved run, the name that the user gave for it, and its file.

    `earlier` are the runs that were saved under that name before, oldest first, back to the last one that was promoted:
    with it the name begins anew.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    path: Path
    run: Run
    earlier: tuple[Run, ...] = ()

    @cached_property
    def _cells(self) -> Sequence[Mapping[CellKey, Mapping[str, Measurement]]]:
        """The measurements of each run by cell and host, the newest run last: a cell is looked up after each pass."""
        return [_by_cell(run) for run in self._all]

    def find(self, key: CellKey, host: str) -> Measurement | None:
        """The newest run's measurement of that cell: of that host if there is one, else of any host, else None."""
        by_host = self._cells[-1].get(key, {})
        return by_host.get(host) or next(iter(by_host.values()), None)

    @property
    def nodeids(self) -> frozenset[str]:
        """The tests that have figures in it."""
        return frozenset(measurement.nodeid for measurement in self.run.measurements)

    def history(self, key: CellKey, host: str) -> list[tuple[Run, Measurement]]:
        """Every saved measurement of that cell on that host with its run, the newest last."""
        found = ((run, cells.get(key, {})) for run, cells in zip(self._all, self._cells, strict=True))
        return [(run, by_host[host]) for run, by_host in found if host in by_host]

    @property
    def _all(self) -> tuple[Run, ...]:
        return (*self.earlier, self.run)


def _by_cell(run: Run) -> Mapping[CellKey, Mapping[str, Measurement]]:
    cells: dict[CellKey, dict[str, Measurement]] = {}
    for key, measurement in keyed(run.measurements):
        cells.setdefault(key, {})[measurement.host] = measurement
    return cells


def keyed(measurements: Iterable[Measurement]) -> list[tuple[CellKey, Measurement]]:
    """Each measurement with its key, in the order given; hosts are counted apart."""
    seen: dict[tuple[object, ...], count[int]] = {}
    pairs = []
    for measurement in measurements:
        cell = (measurement.nodeid, measurement.workload, measurement.config)
        # one look for each of thousands of rows: the hash of a configuration takes long
        places = seen.setdefault((*cell, measurement.host), count())
        pairs.append((CellKey(*cell, next(places)), measurement))
    return pairs


def host_of(run: Run, name: str) -> HostFacts:
    """The facts of the host in that run; all "unknown" where the run has none."""
    # made only where it is needed: a report of thousands of rows asks for each of them
    return next((host for host in run.hosts if host.name == name), None) or HostFacts(name=name)


def load_baseline(name_or_path: str, storage_folder: Path) -> Baseline:
    """The newest saved run of that name, number ("0001", or 1) or path; `storage_folder` is pytest-benchmark's.

    Raises ConfigError, one sentence, where there is none or where it cannot be read as ours.
    """
    direct = Path(name_or_path)
    if direct.suffix == ".json" and direct.is_file():
        return Baseline(name=name_or_path, path=direct, run=_read(direct))
    saved = saved_files(storage_folder)
    candidates = sorted((path for path in saved if _matches(name_or_path, path)), key=_age)
    if not candidates:
        raise _no_such(name_or_path, storage_folder, saved)
    path = candidates[-1]
    # a number, or a number with its name, is one run
    named = [one for one in candidates if name_of(one) == name_or_path.removesuffix(".json")]
    earlier = _before_it(named) if path in named else ()
    return Baseline(name=name_or_path, path=path, run=_read(path), earlier=earlier)


def saved_files(storage_folder: Path) -> list[Path]:
    """All runs that pytest-benchmark saved there, by machine and number."""
    found = sorted(storage_folder.glob("*/[0-9]*_*.json")) + sorted(storage_folder.glob("[0-9]*_*.json"))
    # the folder may hold other files: those of pytest-benchmark begin with a number
    return [path for path in found if _NUMBERED.match(path.name) and path.is_file()]


def name_of(path: Path) -> str:
    """The name that a run was saved under: the file's without its number."""
    return path.stem.partition("_")[2]


def saved_runs(name: str, storage_folder: Path) -> Iterator[Run]:
    """All runs that were saved under that name, each read when it is asked for, without raw outputs and proofs.

    Runs before one that was promoted are among them, a promoted copy is not. Raises ConfigError as `load_baseline`
    does.
    """
    saved = saved_files(storage_folder)
    named = [path for path in saved if name_of(path) == name]
    if not named:
        raise _no_such(name, storage_folder, saved)
    begun: set[str] = set()
    for path in named:
        content = _parse(path)
        if "vmstorage" in content:
            run = _run_of(path, content, without_evidence)
            if run.started not in begun:
                begun.add(run.started)
                yield run


def _before_it(paths: Sequence[Path]) -> tuple[Run, ...]:
    """The runs of these files but the last, oldest first, from the last file that was promoted.

    Files of that name that were saved without this plugin are skipped.
    """
    contents = [_parse(path) for path in paths]
    first = max((place for place, content in enumerate(contents) if content.get(PROMOTED)), default=0)
    return tuple(_read(path) for path in paths[first:-1] if "vmstorage" in contents[paths.index(path)])


def _matches(wanted: str, path: Path) -> bool:
    number, _, name = path.stem.partition("_")
    # numbers in file names have leading zeros: 4 is 0004
    is_number = wanted.isascii() and wanted.isdecimal() and len(wanted) <= _LONGEST_NUMBER
    return wanted.removesuffix(".json") in (name, path.stem) or (is_number and int(wanted) == int(number))


def _age(path: Path) -> tuple[str, int]:
    """The time of saving in the file, as file times do not survive a git checkout; then its number."""
    return str(_parse(path).get("datetime", "")), int(path.stem.partition("_")[0])


def _no_such(wanted: str, folder: Path, saved: Iterable[Path]) -> ConfigError:
    numbers: dict[str, list[str]] = {}
    for path in saved:
        numbers.setdefault(name_of(path), []).append(path.stem.partition("_")[0])
    named = (f"{name} ({', '.join(those[-_SHOWN_NUMBERS:])})" for name, those in numbers.items())
    hint = f"There are: {', '.join(named)}." if numbers else "Save one with --vm-save=NAME."
    if not _is_path(wanted):
        return ConfigError(f"there is no baseline {wanted!r} in {folder}.", hint=hint, code="VM250")
    # unlike Path.is_dir it takes a text of any length
    if os.path.isdir(wanted):  # noqa: PTH112
        said, hint = f"{wanted!r} is a folder, not a saved run.", f"Name a file in it, or a baseline. {hint}"
    else:
        said = f"there is no file {wanted!r}, and no baseline of that name in {folder}."
    return ConfigError(said, hint=hint, code="VM250")


def _is_path(wanted: str) -> bool:
    return wanted in (".", "..") or "/" in wanted or wanted.endswith(".json")


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        content = parse_json(read_user_text(path, f"the baseline {path}"))
    except ValueError:
        raise ConfigError(
            f"the baseline {path} is not JSON.", hint="Remove it or save it again.", code="VM251"
        ) from None
    return content if isinstance(content, dict) else {}


def _lacks(measured: Measurement) -> str:
    """A sentence on figures that a measurement lacks, or an empty text; no version of the plugin saves such a file."""
    known = {metric.name for metric in measured.metrics}
    if not measured.samples:
        return f"{measured.nodeid} has no rounds."
    if measured.primary not in known or any(measured.primary not in one.figures for one in measured.samples):
        return f"{measured.nodeid} has a round without {measured.primary}."
    return ""


def _read(path: Path) -> Run:
    return _run_of(path, _parse(path), dict)


def _run_of(path: Path, content: Mapping[str, Any], prepared: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Run:
    """The run that a file of that content holds; raises ConfigError, one sentence, where it holds none of ours."""
    # a --vm-report=FILE.json holds the run itself and serves as a baseline too
    block = content if "schema_version" in content else content.get("vmstorage")
    if not isinstance(block, dict):
        raise ConfigError(
            f"the baseline {path} holds no figures of ours: it was saved without pytest-vmstorage.",
            hint="Save it again with --vm-save=NAME.",
            code="VM252",
        )
    version = block.get("schema_version", 0)
    if not isinstance(version, int) or version > SCHEMA:
        raise ConfigError(
            f"the baseline {path} has version {version}, but this pytest-vmstorage reads up to {SCHEMA}.",
            hint="Update pytest-vmstorage, or save the baseline again.",
            code="VM253",
        )
    if "packed" in block:
        check_lzma()
    try:
        run = Run.model_validate(prepared(block))
        flaw = next((flaw for flaw in map(_lacks, run.measurements) if flaw), "")
        if not flaw:
            return run
    except ValidationError as error:
        flaw = plain_line(".".join(map(str, error.errors()[0]["loc"]))) + " cannot be read."
    except ConfigError as error:
        flaw = error.what
    raise ConfigError(f"the baseline {path} is damaged: {flaw}", hint="Save it again.", code="VM251")
