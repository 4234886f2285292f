"""Takes a calibration on an open lab: noise first, what follows from it next, and what the time does not reach is told.

Booted and restored guests are compared in pairs of fresh guests that follow each other, the order of the two turned
from pair to pair, so that a drift of the host meets both alike.
"""

from __future__ import annotations

import datetime
import math
import statistics
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pytest_vmstorage.analysis.calibration import (
    CUT_SHORT,
    FEWEST_PAIRS,
    Calibration,
    Equality,
    Noise,
    Place,
    RestoredBus,
    Warmth,
    Yardstick,
    calibrate_line,
    pairs_to_take,
)
from pytest_vmstorage.cli.calibrate.bare import bare_speeds
from pytest_vmstorage.config.buses import BUSES, Bus
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import find_host
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.host.calibrations import keep_calibration, newest_calibration
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab
from pytest_vmstorage.lab.pool import Environment
from pytest_vmstorage.measure.runner import Measuring
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.run import Measurement, steadiness
from pytest_vmstorage.units import format_duration, parse_duration
from pytest_vmstorage.workloads.fio.fio import Fio

WORKLOADS = tuple(
    Fio(rw=rw, bs="4k", iodepth=32, size="64M", runtime=1, time_based=True) for rw in ("randread", "randwrite")
)
"""What a host is calibrated with: reads and writes whose figure depends on all layers, in windows of a second."""

SIZE = 256 * 2**20
CELL = StorageConfig(format="raw", cache="none", bus="virtio-blk", size=SIZE)

BOOTS, ROUNDS, FIRST_ROUNDS = 6, 4, 6
"""Guests whose rounds tell the noise, and rounds in each, the first of which warms up; more in the first guest, since
five rounds are judged for being steady."""

BARE_PAIRS = 6

_BUSES: tuple[Bus, ...] = tuple(name for name, bus in BUSES.items() if bus.is_restorable)
"""Buses on which guests can be restored, the most used ones first: where the time ends, the others are left out."""

_Speeds = Callable[[], Mapping[str, float]]
"""Measures a fresh guest: its figure of each workload, by the workload's label."""

_MARGIN = 1.15
"""How much longer than the median a guest and a round are foreseen to take."""

_MAIN = 2
"""The first buses share the time that is left; each further one takes what then remains."""

LEAST_S = 120.0
"""Less time than the noise alone takes, with the host's first guest."""


def check_time(text: str) -> float:
    """Seconds of the time that --time gives; raises ConfigError."""
    limit_s = parse_duration(text)
    if limit_s < LEAST_S:
        raise ConfigError(
            f"--time={text} leaves no time to calibrate a host: its noise alone takes about"
            f" {format_duration(LEAST_S)}.",
            hint="Give it 10m or more; without the option it takes 20m.",
            code="VM266",
        )
    return limit_s


def last_calibration(settings: LabSettings) -> Calibration:
    """The newest calibration of the host that is kept; raises ConfigError where there is none."""
    host = find_host(settings.host, settings.folder, settings.inventory)
    found = newest_calibration(host.name)
    if found is None:
        again = calibrate_line("" if host.is_local else host.listed_as)
        raise ConfigError(f"{host.name} was not calibrated yet.", hint=f"`{again}` does it.", code="VM267")
    return found


def take_calibration(settings: LabSettings, limit_s: float, say: Progress = silent) -> Calibration:
    """Calibrate the host within about `limit_s` seconds, and keep it; what was found before Ctrl-C is kept too.

    Raises as `open_lab`, and whatever error keeps the noise from being measured.
    """
    begin = time.monotonic()
    lab = open_lab(settings, say)
    try:
        taking = Taking(lab, begin + limit_s, say)
        with lab.alone(say):
            taking.take()
        made = taking.calibration(time.monotonic() - begin, limit_s)
        say(f"kept in {keep_calibration(made)}")
        return made
    finally:
        lab.close()


class Taking:
    """One calibration in the making: each step adds to what is known, or a clause to what was left out."""

    def __init__(
        self, lab: Lab, deadline: float, say: Progress = silent, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lab, self._deadline, self._say, self._clock = lab, deadline, say, clock
        self._started = datetime.datetime.now(datetime.UTC)
        self._boots: dict[str, list[list[float]]] = {}
        self._warm: dict[str, list[float]] = {}
        self._rows: list[Measurement] = []
        self._noise: tuple[Noise, ...] = ()
        self._booted_s: list[float] = []
        self._restored_s: list[float] = []
        self._rounds_s: list[float] = []
        self._windows_s: list[float] = []
        self._restored: list[RestoredBus] = []
        self._bare: tuple[Equality, ...] = ()
        self._yardsticks: list[Yardstick] = []
        self._left_out: list[str] = []

    def take(self) -> None:
        """Take all steps for which there is time; Ctrl-C ends the steps after the noise, and is told."""
        self._take_noise()
        try:
            for place, config in _PLACES.items():
                seconds = self._guest_s() + self._round_s() * ROUNDS
                self._try(f"the yardstick {place}", seconds, partial(self._take_yardstick, place, config))
            if self._lab.host.is_local:
                self._try("the plugin over a bare fio", self._pair_s() * BARE_PAIRS, self._take_bare)
            for number, bus in enumerate(_BUSES):
                # the first one makes the state that the others are restored from, by a boot
                room_s = (self._deadline - self._clock()) / max(1, _MAIN - number) - 2 * self._guest_s()
                count = max(FEWEST_PAIRS, min(pairs_to_take(self._noise), int(room_s / self._pair_s())))
                seconds = 2 * self._guest_s() + count * self._pair_s()
                self._try(f"restored guests on {bus}", seconds, partial(self._take_bus, bus, count))
        except KeyboardInterrupt:
            self._left_out.append(CUT_SHORT)

    def calibration(self, seconds: float, limit_s: float) -> Calibration:
        """What was found so far."""
        pressed = [one for row in self._rows for sample in row.samples for one in sample.pressed.items()]
        resources = dict.fromkeys(name for name, _ in pressed)
        others = [row.around.others_cpu for row in self._rows if row.around and row.around.others_cpu is not None]
        return Calibration(
            id=uuid.uuid4().hex[:10],
            started=self._started.isoformat(timespec="seconds"),
            seconds=round(seconds, 1),
            limit_s=limit_s,
            host=self._lab.facts.model_copy(update={"calibration": "", "calibrated": ""}),
            listed_as="" if self._lab.host.is_local else self._lab.host.listed_as,
            noise=self._noise,
            warmth=tuple(
                Warmth(workload=label, first=statistics.median(found), after=steadiness(self._boots[label][0]))
                for label, found in self._warm.items()
            ),
            restored=tuple(self._restored),
            bare=self._bare,
            yardsticks=tuple(self._yardsticks),
            booted_s=_median(self._booted_s),
            restored_s=_median(self._restored_s),
            around_s=_median([whole - window for whole, window in zip(self._rounds_s, self._windows_s, strict=True)]),
            pressed={name: statistics.median(value for one, value in pressed if one == name) for name in resources},
            others_cpu=max(others, default=None),
            left_out=tuple(self._left_out),
        )

    def _try(self, what: str, seconds: float, step: Callable[[], None]) -> None:
        """Take a step, left out where less than `seconds` are left for it, or where it cannot be done here."""
        left = self._deadline - self._clock()
        if seconds > left:
            told = f"it takes {format_duration(seconds)}, and {format_duration(max(0.0, left))} are left"
            self._left_out.append(f"{what}: {told}")
            return
        self._say(f"calibrating {self._lab.facts.name}: {what}, {format_duration(left)} left")
        try:
            step()
        except (VmStorageError, _CannotError) as error:
            why = error.what if isinstance(error, VmStorageError) else str(error)
            self._left_out.append(f"{what}: {why.rstrip('.')}")
            self._lab.drop()

    def _take_noise(self) -> None:
        for boot in range(BOOTS):
            self._say(f"calibrating {self._lab.facts.name}: noise, guest {boot + 1}/{BOOTS}")
            environment = self._new_guest(CELL, fresh=True)
            for workload in WORKLOADS:
                first, *later = self._rounds(environment, workload, FIRST_ROUNDS if boot == 0 else ROUNDS)
                self._boots.setdefault(workload.label, []).append(later)
                self._warm.setdefault(workload.label, []).append(first / statistics.median(later))
        units = {row.workload: row.metric(row.primary).unit for row in self._rows}
        self._noise = tuple(Noise.of(label, units[label], boots) for label, boots in self._boots.items())

    def _take_yardstick(self, place: Place, config: StorageConfig) -> None:
        if config.is_native:
            self._lab.drop()
            environment = self._lab.environment(config)
        else:
            environment = self._new_guest(config, fresh=True)
        for noise, workload in zip(self._noise, WORKLOADS, strict=True):
            figures = self._rounds(environment, workload, ROUNDS)[1:]
            self._yardsticks.append(
                Yardstick(
                    place=place,
                    workload=workload.label,
                    unit=noise.unit,
                    figure=statistics.median(figures),
                    low=min(figures),
                    high=max(figures),
                    guest_over=noise.figure / statistics.median(figures),
                )
            )

    def _take_bare(self) -> None:
        ours = partial(self._speeds, CELL, fresh=True)
        self._bare = self._compared("the plugin over a bare fio", BARE_PAIRS, ours, self._bare_speeds)

    def _bare_speeds(self) -> Mapping[str, float]:
        self._lab.drop()
        self._lab.settle()
        return bare_speeds(self._lab, CELL, WORKLOADS)

    def _take_bus(self, bus: Bus, count: int) -> None:
        """Compare in so many pairs, a number fixed before the first of them."""
        config = CELL.model_copy(update={"bus": bus})
        if not self._new_guest(config, fresh=False).identity.is_restored:
            raise _CannotError("guests cannot be restored there")
        restored, booted = (partial(self._speeds, config, fresh=is_fresh) for is_fresh in (False, True))
        compared = self._compared(f"restored guests on {bus}", count, restored, booted)
        self._restored.append(RestoredBus(bus=bus, compared=compared))

    def _compared(self, what: str, count: int, speeds: _Speeds, others: _Speeds) -> tuple[Equality, ...]:
        """The speeds of each workload over the others, in so many pairs whose order turns."""
        logs: dict[str, list[float]] = {workload.label: [] for workload in WORKLOADS}
        for number in range(count):
            self._say(f"calibrating {self._lab.facts.name}: {what}, pair {number + 1}/{count}")
            found = {side: side() for side in ((others, speeds), (speeds, others))[number % 2]}
            for label, kept in logs.items():
                kept.append(math.log(found[speeds][label] / found[others][label]))
        return tuple(Equality.of(label, kept) for label, kept in logs.items())

    def _speeds(self, config: StorageConfig, *, fresh: bool) -> dict[str, float]:
        """A fresh guest's figure of each workload, after a warm-up; raises where it was to be restored, and was not."""
        environment = self._new_guest(config, fresh=fresh)
        if environment.identity.is_restored is fresh:
            raise _CannotError("a guest could not be restored")
        return {workload.label: self._rounds(environment, workload, 2)[1] for workload in WORKLOADS}

    def _new_guest(self, config: StorageConfig, *, fresh: bool) -> Environment:
        self._lab.drop()
        self._lab.settle()
        begin = self._clock()
        made = self._lab.renew(config, fresh=fresh)
        (self._restored_s if made.identity.is_restored else self._booted_s).append(self._clock() - begin)
        return made

    def _rounds(self, environment: Environment, workload: Fio, count: int) -> list[float]:
        measuring = Measuring(workload, Plan(rounds=count, warmup=0))
        begin = self._clock()
        measuring.take(environment, count)
        self._rounds_s.append((self._clock() - begin) / count)
        self._windows_s.append(statistics.median(sample.seconds for sample in measuring.samples))
        self._rows.append(measuring.measurement())
        return list(measuring.values)

    def _guest_s(self) -> float:
        return statistics.median(self._booted_s) * _MARGIN

    def _round_s(self) -> float:
        """A round of each workload."""
        return statistics.median(self._rounds_s) * _MARGIN * len(WORKLOADS)

    def _pair_s(self) -> float:
        """Two guests, each with a warm-up and a round of each workload."""
        return 2 * (self._guest_s() + 2 * self._round_s())


class _CannotError(Exception):
    """Why a step is left out, in a clause."""


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


_PLACES: Mapping[Place, StorageConfig] = {
    "null": CELL.model_copy(update={"backing": "null"}),
    "native": CELL.model_copy(update={"backing": "native"}),
    "page cache": CELL.model_copy(update={"cache": "writeback"}),
}
"""The cells of the yardsticks."""
