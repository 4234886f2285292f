"""A run's data rates in MB/s in place of MiB/s, for who compares with tools and data sheets that count so; pure."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_vmstorage.results.run import Measurement, Metric, Run

_IEC, _SI = "MiB/s", "MB/s"
_FACTOR = 2**20 / 10**6


def in_si(run: Run) -> Run:
    """The run with each metric in MiB/s as one in MB/s, 10**6 bytes a second; all else is as it was."""
    return run.model_copy(update={"measurements": tuple(map(_in_si, run.measurements))})


def _in_si(m: Measurement) -> Measurement:
    names = {metric.name for metric in m.metrics if metric.unit == _IEC}
    if not names:
        return m
    samples = (sample.model_copy(update={"figures": _converted(sample.figures, names)}) for sample in m.samples)
    left_out = (one.model_copy(update={"metric": _metric(one.metric)}) for one in m.left_out)
    return m.model_copy(
        update={
            "metrics": tuple(map(_metric, m.metrics)),
            "samples": tuple(samples),
            "left_out": tuple(left_out),
        }
    )


def _metric(metric: Metric) -> Metric:
    return metric.model_copy(update={"unit": _SI}) if metric.unit == _IEC else metric


def _converted(figures: Mapping[str, float], names: set[str]) -> Mapping[str, float]:
    return {name: value * _FACTOR if name in names else value for name, value in figures.items()}
