"""Builders of runs, to test reports and gates without a guest."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.run import Better, Failure, Measurement, Metric, Run, Sample
from pytest_vmstorage.results.saved import Baseline

_UNITS: Mapping[str, tuple[str, Better]] = {
    "iops": ("IOPS", "higher"),
    "bw": ("MiB/s", "higher"),
    "buffered_read": ("MiB/s", "higher"),
}


def make_metric(name: str) -> Metric:
    """A metric with the usual unit of that name; any other name is a latency in seconds, lower is better."""
    unit, better = _UNITS.get(name, ("s", "lower"))
    return Metric(name=name, unit=unit, better=better)


def make_measurement(
    config: StorageConfig | None = None,
    *,
    workload: str = "fio randwrite 4k qd32",
    test: str = "tests/test_disk.py::test_random_write",
    host: str = "local",
    nodeid: str | None = None,
    hygiene: Mapping[str, str] | None = None,
    guest: Mapping[str, str] | None = None,
    boots: Sequence[str] = (),
    fresh: int = 0,
    tolerated: str = "",
    without: Sequence[str] = (),
    **figures: Sequence[float],
) -> Measurement:
    """A measurement with a sample a round: `make_measurement(iops=(14100, 14200), clat_p99=(0.002, 0.0021))`.

    The first metric is the primary one and all are shown; the node id is `test[config]` unless given. `boots` names
    the guest of each round; without it all were taken in one. The last `fresh` rounds are those that confirm.
    """
    config = config or StorageConfig()
    figures = figures or {"iops": (1000.0,)}
    rounds = list(zip(*figures.values(), strict=True))
    return Measurement(
        workload=workload,
        tool=workload.split(maxsplit=1)[0],
        command=f"{workload} /dev/vda",
        config=config,
        host=host,
        metrics=tuple(make_metric(name) for name in figures),
        primary=next(iter(figures)),
        shown=tuple(figures),
        samples=tuple(
            Sample(
                figures=dict(zip(figures, values, strict=True)),
                started="2026-01-02T03:04:05+00:00",
                seconds=5.0,
                raw="",
                boot=boot,
            )
            for values, boot in zip(rounds, boots or [""] * len(rounds), strict=True)
        ),
        hygiene=hygiene or {},
        guest=guest or {},
        without=tuple(without),
        fresh=fresh,
        tolerated=tolerated,
        nodeid=nodeid or f"{test}[{config}]",
    )


def in_turns(*measurements: Measurement, seed: int = 1) -> tuple[Measurement, ...]:
    """These measurements as if their rounds had been taken in turns, each pass in a seeded random order of them."""
    order, place = random.Random(seed), itertools.count(1)  # noqa: S311 (an order, no secret)
    taken: list[list[Sample]] = [[] for _ in measurements]
    for number in range(max((len(m.samples) for m in measurements), default=0)):
        turn = [index for index, m in enumerate(measurements) if number < len(m.samples)]
        order.shuffle(turn)
        for index in turn:
            taken[index].append(measurements[index].samples[number].model_copy(update={"order": next(place)}))
    rounds = f"in turns with {len(measurements) - 1} other cells, --vm-seed={seed}"
    return tuple(
        m.model_copy(update={"samples": tuple(samples), "hygiene": {**m.hygiene, "rounds": rounds}})
        for m, samples in zip(measurements, taken, strict=True)
    )


def make_failure(
    config: StorageConfig | None = None,
    *,
    reason: str = "The guest did not answer within 60 s.",
    test: str = "tests/test_disk.py::test_random_write",
    host: str = "local",
) -> Failure:
    """A cell without a figure."""
    config = config or StorageConfig()
    return Failure(nodeid=f"{test}[{config}]", config=config, host=host, reason=reason)


def make_host(name: str = "local", **facts: object) -> HostFacts:
    """A host with KVM and known versions; `facts` replace them."""
    known = {
        "cpu": "Example CPU 3.0 GHz",
        "cores": 2,
        "memory_bytes": 8 * 2**30,
        "kernel": "6.1.0",
        "qemu": "7.2.9",
        "libvirt": "9.0.0",
        "accel": "kvm",
        "accel_reason": "a guest booted under it",
        "folder": "/srv/vm",
        "file_system": "ext4",
    }
    return HostFacts.model_validate({"name": name, **known, **facts})


def make_run(
    *measurements: Measurement,
    failures: Sequence[Failure] = (),
    hosts: Sequence[HostFacts] | None = None,
    started: str = "2026-01-02T03:04:05+00:00",
    against: Sequence[Measurement] = (),
    recipe: str = "",
) -> Run:
    """A run of these measurements; without `hosts` each host named in them is `make_host(name)`.

    `against` are the other sides of pairs, and `recipe` says what makes them so.
    """
    names = dict.fromkeys([m.host for m in measurements] + [f.host for f in failures])
    return Run(
        started=started,
        hosts=tuple(make_host(name) for name in names) if hosts is None else tuple(hosts),
        measurements=measurements,
        failures=tuple(failures),
        against=tuple(against),
        recipe=recipe,
    )


def make_baseline(*runs: Run, name: str = "main") -> Baseline:
    """A baseline of these saved runs, the newest last; each has the date that it was started on."""
    *earlier, newest = runs
    return Baseline(name=name, path=Path(f"0001_{name}.json"), run=newest, earlier=tuple(earlier))
