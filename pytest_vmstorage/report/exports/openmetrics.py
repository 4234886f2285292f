"""OpenMetrics text, which `promtool tsdb create-blocks-from openmetrics` reads into Prometheus with its times; pure.

Source: the OpenMetrics specification 1.0.0. A name ends with its unit, in base units; samples of a series stand
together, in the order of time. The spread is in families of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_vmstorage.report.exports.rows import ExportRow, ExportValue
from pytest_vmstorage.text import plain_line

_PREFIX = "vmstorage_"
_ROUNDS = f"{_PREFIX}rounds"
_SOFTWARE = f"{_PREFIX}software"
_EMULATED = "rows with emulated=yes say nothing about performance"

_Labels = tuple[tuple[str, str], ...]


@dataclass
class _Family:
    """A family with its samples by series, each a time and a number."""

    kind: str
    says: str
    unit: str = ""
    samples: dict[_Labels, list[tuple[str, str]]] = field(default_factory=dict)

    def lines(self, name: str) -> Iterator[str]:
        """Its text."""
        yield f"# TYPE {name} {self.kind}"
        if self.unit:
            yield f"# UNIT {name} {self.unit}"
        yield f"# HELP {name} {_escaped(self.says)}"
        for series, numbers in self.samples.items():
            labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in series)
            for when, number in numbers:
                yield f"{name}{'_info' if self.kind == 'info' else ''}{{{labels}}} {number} {when}"


def render_openmetrics(rows: Sequence[ExportRow]) -> str:
    """The rows, the oldest first, as gauges in base units with the times of their first rounds; ends with "# EOF"."""
    families: dict[str, _Family] = {}
    for row in rows:
        when = f"{row.when.timestamp():.3f}"
        for value in row.values:
            for name, number in value.numbers.items():
                family = families.setdefault(_family_name(name), _Family("gauge", _told(name, value), value.unit.words))
                family.samples.setdefault(row.series, []).append((when, repr(number)))
        rounds = families.setdefault(_ROUNDS, _Family("gauge", "Rounds that a row's figures are medians of"))
        rounds.samples.setdefault(row.series, []).append((when, str(row.rounds)))
        software = families.setdefault(_SOFTWARE, _Family("info", "Software that a row was measured with"))
        software.samples.setdefault(_versions(row.labels, row.facts), []).append((when, "1"))
    lines = [line for name, family in families.items() for line in family.lines(name)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _family_name(name: str) -> str:
    """The name behind our prefix, unless it is one of those beside the figures."""
    full = f"{_PREFIX}{name}"
    return f"{_PREFIX}figure_{name}" if full in (_ROUNDS, _SOFTWARE, f"{_SOFTWARE}_info") else full


def _told(name: str, value: ExportValue) -> str:
    which = {value.named("round_min"): "Smallest round of", value.named("round_max"): "Largest round of"}
    better = "" if value.better == "neither" else f", {value.better} is better"
    return f"{which.get(name, 'Median of the rounds of')} {plain_line(value.metric)}{better}; {_EMULATED}"


def _versions(labels: Mapping[str, str], facts: Mapping[str, str]) -> _Labels:
    kept = ("workload", "cell", "host", "nodeid", "repeat")
    return (*_some(labels, kept), *_some(facts, [name for name in facts if name not in ("run", "outcome")]))


def _some(texts: Mapping[str, str], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((name, texts[name]) for name in names if name in texts)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
