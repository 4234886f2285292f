"""Makes the types that editors and type checkers have of workloads' options and of measurements' figures.

    python tests/signatures.py && ruff format     # workloads/signatures.py and results/figures.py of the package

Their sources are the fields and the metrics of the shipped workloads; `unit/workloads/test_signatures.py` holds the
files against them.
"""

from __future__ import annotations

import inspect
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pytest_vmstorage import names, units
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.workloads.base import Workload
from pytest_vmstorage.workloads.fio.extra import Extra
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.job import FioJob

PACKAGE = Path(__file__).parents[1] / "pytest_vmstorage"
SIGNATURES = PACKAGE / "workloads" / "signatures.py"
FIGURES = PACKAGE / "results" / "figures.py"

_MADE = "tests/signatures.py makes this file"
_TAKEN = (
    (units.Bytes, "int | str"),
    (units.MaybeBytes, "int | str | None"),
    (units.Seconds, "float | str"),
    (units.MaybeSeconds, "float | str | None"),
    (Extra, "Mapping[str, int | str]"),
)
"""Types of fields that take more than they hold."""

_FIGURES = "The figures that shipped workloads give under names that do not depend on options."
_OTHERS = """\
        A measurement has those of its workload. Others are had by their names, as those of several jobs or of a
        workload of the user's own: `result.figure("clat_p9999")`.
"""
_SHOWN = '    shown: Sequence[str] | None\n    """Names of the metrics that get a column in the matrix."""\n'


def kinds() -> list[type[Workload]]:
    """The shipped workloads, in the order of their names."""
    public = [getattr(names, name) for name, home in names.HOMES.items() if home.startswith("workloads.")]
    found = [kind for kind in public if isinstance(kind, type) and issubclass(kind, Workload) and kind is not Workload]
    return sorted([*found, FioJob], key=lambda kind: kind.__name__)


def signatures() -> str:
    """The text of workloads/signatures.py."""
    head = (
        f'"""Options of workloads as users write them, for editors and type checkers; {_MADE}."""\n\n'
        "from collections.abc import Mapping, Sequence\n"
        "from typing import Literal, Required, TypedDict\n"
    )
    return "\n\n".join([head, *map(_options, kinds()), _sweep()])


def _sweep() -> str:
    """The type of `Fio.over`: for each option the values that it goes over."""
    fields = (f"    {name}: Sequence[{written(_annotation(Fio, name))}]" for name in Fio.model_fields)
    return "\n".join(['class FioSweep(TypedDict, total=False):\n    """The options of `Fio.over`."""\n', *fields, ""])


def _options(kind: type[Workload]) -> str:
    lines = [f"class {kind.__name__}Options(TypedDict, total=False):", f'    """The options of `{kind.__name__}`."""\n']
    for name, field in kind.model_fields.items():
        taken = written(_annotation(kind, name))
        lines.append(f"    {name}: {f'Required[{taken}]' if field.is_required() else taken}")
        if field.description:
            said = textwrap.wrap(field.description, 110)
            lines.append('    """' + "\n    ".join(said if len(said) == 1 else [*said, ""]) + '"""')
    return "\n".join([*lines, _SHOWN])


def _annotation(kind: type[Workload], name: str) -> object:
    """The annotation of a field where it was written, with all that validators add to it."""
    home = next(one for one in kind.__mro__ if name in inspect.get_annotations(one))
    text = inspect.get_annotations(home)[name]
    return eval(text, vars(sys.modules[home.__module__])) if isinstance(text, str) else text


def written(kind: Any) -> str:
    """A type as an annotation of what users may write."""
    known = next((taken for one, taken in _TAKEN if kind == one), "")
    origin, parts = get_origin(kind), get_args(kind)
    if known or origin is None:
        return known or ("None" if kind is type(None) else kind.__name__)
    if origin is Annotated:
        return written(parts[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(_quoted, parts))}]"
    if origin in (Union, types.UnionType):
        return " | ".join(map(written, parts))
    return f"Sequence[{written(parts[0])}]" if parts[-1] is ... else f"tuple[{', '.join(map(written, parts))}]"


def _quoted(value: object) -> str:
    return f'"{value}"'


def figures() -> str:
    """The text of results/figures.py."""
    known = {metric.name: metric for metric in reversed(list(metrics()))}
    lines = [f'        {name}: Figure\n        """{_told(metric)}"""\n' for name, metric in sorted(known.items())]
    return (
        f'"""Figures of shipped workloads as attributes, for editors and type checkers; {_MADE}."""\n\n'
        "from __future__ import annotations\n\nfrom typing import TYPE_CHECKING\n\n"
        "if TYPE_CHECKING:\n    from pytest_vmstorage.results.run import Figure\n\n"
        f'    class Figures:\n        """{_FIGURES}\n\n{_OTHERS}        """\n\n{"".join(lines)}\n'
        f'else:\n\n    class Figures:\n        """{_FIGURES}"""\n'
    )


def _told(metric: Metric) -> str:
    better = "ranks nothing" if metric.better == "neither" else f"{metric.better} is better"
    return f"{metric.unit}; {better}."


def metrics() -> Iterator[Metric]:
    """The metrics of the shipped workloads whose names do not depend on options."""
    steady: dict[str, Any] = {"steadystate": "iops:5%", "ss_dur": 10, "time_based": True, "runtime": 60}
    yield from Fio(rw="randwrite", fsync=1, **steady).metrics
    yield from Fio(rw="randwrite").metrics
    yield from Fio(rw="randrw").metrics
    for kind in kinds():
        # the names of iozone's depend on its sizes
        if not issubclass(kind, Fio | FioJob) and kind.__name__ != "Iozone":
            needed = {"t": True, "T": True} if kind.__name__ == "Hdparm" else {}
            yield from kind(**needed).metrics


if __name__ == "__main__":
    SIGNATURES.write_text(signatures())
    FIGURES.write_text(figures())
