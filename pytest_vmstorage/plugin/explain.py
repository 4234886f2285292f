"""The failure message of a threshold: figure, unit, spread and configuration."""

from __future__ import annotations

from pytest_vmstorage.results.run import Figure
from pytest_vmstorage.units import format_figure

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def explain(op: str, left: object, right: object) -> list[str] | None:
    """Lines for pytest's assertion message, None where neither side is a figure."""
    if isinstance(left, Figure):
        return _lines(left, op, right)
    if isinstance(right, Figure):
        return _lines(right, _MIRRORED.get(op, op), left)
    return None


def _lines(figure: Figure, op: str, other: object) -> list[str]:
    metric = figure.metric
    bound = other
    if isinstance(other, Figure):
        bound = f"{format_figure(other, other.metric.unit)} ({other.spread}, {other.where})"
    elif isinstance(other, int | float):
        bound = format_figure(float(other), metric.unit)
    return [
        f"{metric.name} {format_figure(figure, metric.unit)} {op} {bound}",
        f"measured: {figure.spread}" + ("" if metric.better == "neither" else f"; {metric.better} is better"),
        f"where: {figure.where}",
    ]
