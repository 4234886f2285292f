"""What `vmstorage run` is asked for: axes, fixed fields, workloads and thresholds, checked before anything is made."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage import names
from pytest_vmstorage.cli.run.texts import field_value, field_values, fio_values, parse_options
from pytest_vmstorage.cli.run.words import WORKLOADS
from pytest_vmstorage.config.cell import FIELDS, StorageConfig, axis_text, make_config
from pytest_vmstorage.config.matrix import MOST_CELLS, ExcludedCell, by_reason, cell_text, listed
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.measure.preconditioning import check_fits
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.text import quoted
from pytest_vmstorage.units import format_size, parse_duration
from pytest_vmstorage.workloads.base import Workload, find_metrics
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.image_operations import check_cell

Sign = Literal[">=", "<="]

_CANNOT = " cannot exist: "
_SHOWN = 3
"""Impossible cells that a sentence names before it counts the rest."""


class Threshold(NamedTuple):
    """A bound that a figure must keep: `number` in the metric's own unit."""

    metric: str
    sign: Sign
    number: float


class Measured(BaseModel):
    """A workload that is asked for: `made` by calling `call` with `options`, `job` for a job file's path.

    `test` is the name of its test function.
    """

    model_config = ConfigDict(frozen=True)

    call: str
    job: str = ""
    options: Mapping[str, Any] = {}
    made: Workload
    test: str = ""
    thresholds: tuple[Threshold, ...] = ()

    @property
    def fixture(self) -> str:
        """The fixture that has its figures, or for images the one that runs it."""
        return "measure_image" if self.made.needs_image else "result"


class Request(BaseModel):
    """All that is asked: swept values by axis, in the order of ids, and `rows` where not all combinations are cells."""

    model_config = ConfigDict(frozen=True)

    axes: Mapping[str, tuple[Any, ...]] = {}
    storage: Mapping[str, Any] = {}
    rows: tuple[tuple[Any, ...], ...] | None = None
    workloads: tuple[Measured, ...] = ()


def read_request(
    *,
    axes: Sequence[str] = (),
    storage: Sequence[str] = (),
    workloads: Sequence[tuple[str, str]] = (),
    at_least: Sequence[str] = (),
    at_most: Sequence[str] = (),
    impossible: Sequence[str] = (),
    matrix: bool = False,
) -> Request:
    """The request of the options' texts; with `matrix` a matrix file has the axes. Raises ConfigError, one sentence."""
    swept, fixed = _axes(axes), _storage(storage)
    for name in swept:
        if name in fixed:
            raise ConfigError(
                f"{name} is given by --axis and by --storage.", hint="Give it by one of them.", code="VM242"
            )
    if swept and matrix:
        raise ConfigError(
            "--axis and --vm-matrix both say which cells there are.", hint="Give one of them.", code="VM242"
        )
    if not workloads:
        raise ConfigError(
            "there is nothing to run.",
            hint='Give a workload, such as --fio "rw=randwrite bs=4k runtime=5".',
            code="VM243",
        )
    measured = _with_thresholds(_named([_measured(option, text) for option, text in workloads]), at_least, at_most)
    cells, rows = _cells(swept, fixed, leaves_out=_leaves_out(impossible))
    if not matrix:
        _check_fit(cells, zip(measured, workloads, strict=True))
    return Request(axes=swept, storage=fixed, rows=rows, workloads=tuple(measured))


def _axes(texts: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, given = _field("--axis", text, "format=raw,qcow2")
        if name in found:
            raise ConfigError(f"--axis {name} is given twice.", hint=f"Write --axis {name}=VALUE,VALUE.", code="VM242")
        values = [_value("--axis", name, value.strip()) for value in given.split(",")]
        ids = [axis_text(name, value) for value in values]
        for number, one in enumerate(ids):
            if one in ids[:number]:
                raise ConfigError(f"--axis {text} has {one} twice.", hint="Take one of them away.", code="VM242")
        found[name] = tuple(values)
    return {name: found[name] for name in FIELDS if name in found}


def _storage(texts: Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        name, given = _field("--storage", text, "size=2G")
        if name in found:
            raise ConfigError(
                f"--storage {name} is given twice.", hint=f"Sweep it: --axis {name}=VALUE,VALUE.", code="VM242"
            )
        found[name] = _value("--storage", name, given)
    return {name: found[name] for name in FIELDS if name in found}


def _field(option: str, text: str, example: str) -> tuple[str, str]:
    """The field and the text of its value; raises ConfigError where it is no field or has no value."""
    name, _, given = text.partition("=")
    name = name.strip()
    if name not in FIELDS:
        what = "axis" if option == "--axis" else "field"
        hint = f"{close_to(name, FIELDS)}There are: {', '.join(FIELDS)}."
        raise ConfigError(f"{option} {text}: there is no {what} {name!r}.", hint=hint, code="VM241")
    if not all(part.strip() for part in given.split(",")):
        raise ConfigError(f"{option} {text} lacks a value.", hint=f"Write it as in {option} {example}.", code="VM241")
    return name, given


def _value(option: str, name: str, text: str) -> Any:
    """The field's value of that text; raises ConfigError where the field cannot have it in any cell."""
    try:
        value = field_value(StorageConfig, name, text)
        make_config({name: value})
    except ConfigError as error:
        # a value that goes with no default may go with what else is asked for
        if _CANNOT not in error.what:
            known = _literals(StorageConfig.model_fields[name].annotation)
            hint = f"{close_to(text, known)}{error.hint}"
            raise ConfigError(f"{option} {name}={text}: {error.what}", hint=hint, code=error.code) from None
    return value


def _literals(annotation: Any) -> tuple[str, ...]:
    return tuple(value for value in getattr(annotation, "__args__", ()) if isinstance(value, str))


def _leaves_out(texts: Sequence[str]) -> bool:
    for text in texts:
        if text not in ("refuse", "leave-out"):
            hint = f"{close_to(text, ('refuse', 'leave-out'))}It is refuse or leave-out."
            raise ConfigError(f"--impossible {text} is not known.", hint=hint, code="VM241")
    return bool(texts) and texts[-1] == "leave-out"


def _cells(
    axes: Mapping[str, tuple[Any, ...]], storage: Mapping[str, Any], *, leaves_out: bool
) -> tuple[list[StorageConfig], tuple[tuple[Any, ...], ...] | None]:
    """The cells, and the values of each where combinations were left out, None where all are cells."""
    count = math.prod(map(len, axes.values()))
    if count > MOST_CELLS:
        raise ConfigError(
            f"these axes have {count} combinations; {MOST_CELLS} are the most.", hint="Give fewer.", code="VM231"
        )
    cells, rows, impossible = [], [], []
    for row in itertools.product(*axes.values()):
        values = dict(zip(axes, row, strict=True))
        try:
            cells.append(make_config({**storage, **values}))
            rows.append(row)
        except ConfigError as error:
            reason = (error.what.partition(_CANNOT)[2] or error.what).rstrip(".")
            impossible.append(ExcludedCell(cell_text(values or storage), reason))
    if impossible and not (leaves_out and cells):
        groups = "; ".join(f"{listed(those, _SHOWN)}: {why}" for why, those in by_reason(impossible).items())
        hint = "--impossible=leave-out measures the others." if cells else "Give other values."
        raise ConfigError(f"{len(impossible)} of {count} cells cannot be: {groups}.", hint=hint, code="VM232")
    return cells, tuple(rows) if impossible else None


def _measured(option: str, text: str) -> Measured:
    """The workload of an option's text; raises ConfigError that names both."""
    call = WORKLOADS[option].call
    kind: type[Workload] = getattr(names, call)
    job, _, variables = text.strip().partition(" ")
    try:
        if kind is Fio and job.endswith(".fio") and "=" not in job:
            given = parse_options(variables)
            return Measured(call="Fio.from_job", job=job, options=given, made=Fio.from_job(job, **given))
        options = _options(kind, option, text)
        return Measured(call=call, options=options, made=kind(**options))
    except ConfigError as error:
        raise _retold(error, option, text) from None


def _options(kind: type[Workload], option: str, text: str) -> dict[str, Any]:
    # presets have all they need
    if issubclass(kind, Fio) and text.strip():
        return fio_values(kind, text, option)
    return field_values(kind, parse_options(text))


def _retold(error: ConfigError, option: str, text: str) -> ConfigError:
    where = f"{option} {quoted(text)}" if text else option
    return ConfigError(f"{where}: {error.what}", hint=error.hint, code=error.code)


def _named(workloads: Sequence[Measured]) -> Iterator[Measured]:
    """The workloads with the names of their tests, which follow from their labels and not from their places.

    Letters keep their case: hdparm's -t is another timing than its -T.
    """
    met: dict[str, int] = {}
    for number, one in enumerate(workloads):
        if one in workloads[:number]:
            raise ConfigError(f"{one.made.label} is given twice.", hint="Take one of them away.", code="VM242")
        name = "test_" + re.sub(r"\W+", "_", one.made.label, flags=re.ASCII).strip("_")
        met[name] = met.get(name, 0) + 1
        yield one.model_copy(update={"test": name if met[name] == 1 else f"{name}_{met[name]}"})


def _with_thresholds(workloads: Iterable[Measured], at_least: Sequence[str], at_most: Sequence[str]) -> list[Measured]:
    """The workloads, each with the thresholds for metrics that it has; raises ConfigError for one that none has."""
    found = list(workloads)
    for option, sign, texts in (("--at-least", ">=", at_least), ("--at-most", "<=", at_most)):
        for text in texts:
            name, is_given, number = map(str.strip, text.partition("="))
            if not is_given or not number:
                raise ConfigError(
                    f"{option} {text} has no number.", hint=f"Write it as in {option} iops=500.", code="VM244"
                )
            kept = [_bounded(one, option, name, sign, number) for one in found]
            if kept == found:
                there = list(dict.fromkeys(metric.name for one in found for metric in one.made.metrics))
                hint = f"{close_to(name, there)}There are: {', '.join(there)}."
                raise ConfigError(f"{option} {text}: no workload here has a metric {name!r}.", hint=hint, code="VM244")
            found = kept
    return found


def _bounded(one: Measured, option: str, name: str, sign: Any, text: str) -> Measured:
    units = {metric.name: metric.unit for metric in one.made.metrics}
    more = tuple(
        Threshold(metric, sign, _number(option, name, text, units[metric]))
        for metric in find_metrics(name, list(units))
    )
    return one.model_copy(update={"thresholds": (*one.thresholds, *more)})


def _number(option: str, name: str, text: str, unit: str) -> float:
    """A number in the metric's unit; seconds may be written as "5ms"."""
    try:
        number = parse_duration(text) if unit == "s" else float(text)
    except (ValueError, ConfigError):
        number = math.nan
    if not math.isfinite(number):
        example = "as 0.005 or 5ms" if unit == "s" else f"in {unit}"
        raise ConfigError(f"{option} {name}={text} is not a number.", hint=f"Write one {example}.", code="VM241")
    return number


def _check_fit(cells: Sequence[StorageConfig], workloads: Iterable[tuple[Measured, tuple[str, str]]]) -> None:
    """Raise ConfigError for a workload that cannot run in one of the cells."""
    for measured, (option, text) in workloads:
        workload = measured.made
        for cell in cells:
            try:
                _check_one(cell, workload)
            except ConfigError as error:
                raise _retold(error, option, text) from None


def _check_one(cell: StorageConfig, workload: Workload) -> None:
    needed = max(workload.region_bytes or 0, workload.bytes_on_disk or 0)
    if workload.needs_image:
        check_cell(cell)
        return
    if workload.needs_folder and cell.has_guest and cell.guest_fs == "none":
        raise ConfigError(
            f"{workload.label} makes files, and the disk of {cell} has no file system.",
            hint="Give it one: --storage guest_fs=ext4.",
            code="VM307",
        )
    if needed > cell.size and cell.has_guest:
        raise ConfigError(
            f"{workload.label} needs {format_size(needed)}, and the disk of {cell} has {format_size(cell.size)}.",
            hint=f"Make it larger: --storage size={format_size(-(-needed // 2**30) * 2**30)}.",
            code="VM306",
        )
    # of one round: how many there will be is pytest's to know
    check_fits(cell, workload, Plan(rounds=1))
