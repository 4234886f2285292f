"""workloads.md: each workload with its options, and its metrics with unit, better direction and column."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Required, Union, get_args, get_origin, get_type_hints

from pytest_vmstorage import names
from pytest_vmstorage.cli.run.words import WORKLOADS
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import format_size
from pytest_vmstorage.workloads import signatures
from pytest_vmstorage.workloads.base import Workload
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.job import FioJob
from pytest_vmstorage.workloads.iozone import TESTS
from reference_pages.markdown import code, codes, contract, fill, first_paragraph, table

ORDER = (
    *("Fio", "Tiobench", "AioStress", "Dd", "Hdparm", "Ioping"),
    *("Tar", "Postmark", "Sqlite", "Web", "Iozone", "ImageOperations"),
)
"""The workloads of the page; a test holds them against those of the package."""

NEEDED: Mapping[str, Mapping[str, Any]] = {
    "Fio": {"rw": "randread"},
    "Tiobench": {"rw": "randread"},
    "Hdparm": {"t": True, "T": True},
}
"""Options without which a workload cannot be made, or has not all of its metrics."""

_BETTER = {"higher": "higher", "lower": "lower", "neither": "ranks nothing"}


def workloads_page() -> str:
    """The page of workloads."""
    kinds = {name: getattr(names, name) for name in ORDER}
    return fill(
        "workloads.md",
        table=table(("workload", "what it runs", "from the shell"), map(_overview, kinds.values())),
        workloads="\n\n".join(map(_section, kinds.values())),
        job=contract(FioJob),
        steady=_more_of_fio(_STEADY),
        syncs=_more_of_fio(_SYNCS),
        mixed=_more_of_fio(_MIXED),
    )


def _overview(kind: type[Workload]) -> tuple[str, str, str]:
    (option,) = (name for name, one in WORKLOADS.items() if one.call == kind.__name__)
    line = f'{option} "{WORKLOADS[option].example}"'
    module = inspect.getmodule(kind)
    what = first_paragraph(module) if not issubclass(kind, Fio) or kind is Fio else first_paragraph(kind)
    return f"[{code(kind.__name__)}](#{kind.__name__.lower()})", what, code(line)


def _section(kind: type[Workload]) -> str:
    parts = [f"## {kind.__name__}", contract(kind), _options(kind), *_ways(kind), _metrics(kind)]
    return "\n\n".join(parts)


def _options(kind: type[Workload]) -> str:
    fields = dict(kind.model_fields)
    others = ""
    if issubclass(kind, Fio) and kind is not Fio:
        fields = {name: one for name, one in fields.items() if _differs(kind, name)}
        others = "\n\nAll others are those of [`Fio`](#fio), with its defaults unless they follow as told above."
    taken = get_type_hints(getattr(signatures, f"{kind.__name__}Options"), include_extras=True)
    rows = (
        (code(name), told(taken[name]), default_of(kind, name), one.description or "") for name, one in fields.items()
    )
    return table(("option", "takes", "default", ""), rows) + others


def _differs(kind: type[Workload], name: str) -> bool:
    own, theirs = kind.model_fields[name], Fio.model_fields[name]
    return (own.default, own.description) != (theirs.default, theirs.description)


def default_of(kind: type[Workload], name: str) -> str:
    """The default of an option as a user would write it, "needed" where there is none."""
    field = kind.model_fields[name]
    if field.is_required():
        return "needed"
    if field.default is None:
        return "none"
    return code(_short(field.default, is_size="str" in _text_of(kind, name)))


def _text_of(kind: type[Workload], name: str) -> str:
    """The names of the types that an option takes: a size is written as a text too, a count is not."""
    return str(getattr(signatures, f"{kind.__name__}Options").__annotations__[name])


def _short(value: object, *, is_size: bool) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_short(one, is_size=is_size) for one in value) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, int) and not isinstance(value, bool) and is_size:
        return f'"{format_size(value)}"'
    return f'"{value}"' if isinstance(value, str) else repr(value)


def told(taken: Any) -> str:
    """What an option takes, in words."""
    origin, parts = get_origin(taken), get_args(taken)
    if origin is None:
        return {bool: "`True`, `False`", int: "a number", str: "a text", float: "a number"}[taken]
    if origin is Literal:
        return codes(parts)
    if origin in (Union, types.UnionType):
        return _either([one for one in parts if one is not type(None)])
    if origin is Required:
        return told(parts[0])
    kinds = {tuple: "a pair of", Sequence: "a list of"}
    return f"{kinds[origin]} {told(parts[0])}" if origin in kinds else "a dict of fio's names"


def _either(kinds: Sequence[Any]) -> str:
    if kinds == [int, str]:
        return "a size"
    if kinds == [float, str]:
        return "a time"
    return ", ".join(map(told, kinds))


def _ways(kind: type[Workload]) -> Iterator[str]:
    """Ways to make it other than by its options."""
    found = []
    for name, member in inspect.getmembers(kind):
        inherited = any(name in vars(other) for other in kind.__mro__[1:] if other.__module__ != "pydantic.main")
        own = name in vars(kind) and not name.startswith("_") and not hasattr(Workload, name) and not inherited
        if own and inspect.isroutine(member) and (inspect.ismethod(member) or name == "over") and name != "follows":
            found.append(f"- `{kind.__name__}.{name}{_arguments(member)}`: {first_paragraph(member)}")
    if found:
        yield "Other ways to make one:\n\n" + "\n".join(found)


def _arguments(member: Any) -> str:
    names_of = [one for one in inspect.signature(member).parameters.values() if one.name not in ("self", "cls")]
    shown = (f"**{one.name}" if one.kind is one.VAR_KEYWORD else one.name for one in names_of if one.name != "shown")
    return f"({', '.join(shown)})"


def _metrics(kind: type[Workload]) -> str:
    if kind.__name__ == "Iozone":
        rows = ((code(str(number)), codes(columns)) for number, columns in TESTS.items())
        note = "Each is in MiB/s, higher is better, and is named with its sizes: `write_16M_4k`. The first is primary."
        return f"{note}\n\n" + table(("test", "metrics, each before its sizes"), rows)
    made = kind(**NEEDED.get(kind.__name__, {}))
    return _metric_table(made.metrics, made.primary, made.shown)


def _metric_table(metrics: Iterable[Metric], primary: str, shown: Sequence[str]) -> str:
    rows = (
        (code(one.name), one.unit, _BETTER[one.better], _role(one.name, primary, shown))
        for one in metrics
    )  # fmt: skip
    return table(("metric", "unit", "better", ""), rows)


def _role(name: str, primary: str, shown: Sequence[str]) -> str:
    return "primary, column" if name == primary else "column" if name in shown else ""


_STEADY = {"steadystate": "iops:5%", "ss_dur": 10, "time_based": True, "runtime": 60}
_SYNCS = {"rw": "randwrite", "fsync": 1}
_MIXED = {"rw": "randrw"}
"""Options because of which a job has further metrics."""


def _more_of_fio(options: Mapping[str, Any]) -> str:
    return codes(_more_metrics(options))


def _more_metrics(options: Mapping[str, Any]) -> list[str]:
    """The metrics that a job has because of these options."""
    usual = {one.name for one in Fio(rw="randread").metrics}
    made = {"rw": "randread", **options}
    return [one.name for one in Fio(**made).metrics if one.name not in usual]


def metric_names() -> set[str]:
    """All metrics that the page names, without those of iozone, whose names have sizes."""
    found = {name for options in (_STEADY, _SYNCS, _MIXED) for name in _more_metrics(options)}
    for name in ORDER:
        if name != "Iozone":
            found |= {one.name for one in getattr(names, name)(**NEEDED.get(name, {})).metrics}
    return found
