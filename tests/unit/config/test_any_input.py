"""Anything at all at every door, by hypothesis: a value, or one sentence of ours; never another exception.

test_bad_input.py beside it has what once went wrong, and pipes, devices and options.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from unit.config.test_bad_input import WORKLOADS

pytest.importorskip("hypothesis", reason="install hypothesis to have this tested")

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_vmstorage import StorageConfig, Workload
from pytest_vmstorage.analysis.gate.policy import GatePolicy, parse_tolerated
from pytest_vmstorage.analysis.gate.policy_file import load_gate_file
from pytest_vmstorage.config.cell import FIELDS, make_config
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.config.matrix import load_matrix
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.plugin.session import check_workload
from pytest_vmstorage.results.journal import read_history, read_timelines
from pytest_vmstorage.results.packed import pack, pack_evidence, pack_run, unpack
from pytest_vmstorage.results.saved import load_baseline
from pytest_vmstorage.testing.builders import make_measurement, make_run
from pytest_vmstorage.text import plain
from pytest_vmstorage.units import format_size, parse_duration, parse_percent, parse_size
from pytest_vmstorage.workloads.base import Target

LONGEST = 2000
"""Letters of a sentence, remedy included."""


def some(count: int) -> settings:
    """So many examples, in each run the same ones, and nothing kept of them.

    They are few: all that once went wrong was found, and stands in test_bad_input.py; more find what is new, by hand.
    """
    return settings(
        derandomize=True,
        max_examples=count,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


WORDS = (
    "", "raw", "native", "device:", "none", "4k", "1.5G", "10%", "history", "-1", "nan", "1e400", "²", "\x00", "a\nb",
    "\x1b[2J", "\u202e", "\ud800", "$(id)", "read", "randwrite", "direct", "auto", "10:2",
    "qemu:///system", "/dev/null", "tag:x",
)  # fmt: skip
"""What stands in some field, and in all others does not."""

TEXTS = st.text(max_size=20) | st.sampled_from(WORDS)
NUMBERS = st.integers() | st.integers(-2, 2**41) | st.floats()
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
VALUES = (
    JSON
    | st.binary(max_size=8)
    | st.decimals()
    | st.complex_numbers()
    | st.dates()
    | st.fractions()
    | st.sampled_from((object(), len, StorageConfig, set(), (), ("4k", "64k"), (0, 1), range(3)))
    | st.tuples(NUMBERS | TEXTS, NUMBERS | TEXTS)
)


def told(call: Callable[[], object]) -> str:
    """The sentence that refuses it, "" where it is taken; any other exception is the failure that is looked for."""
    try:
        call()
    except VmStorageError as error:
        said = str(error)
        # one line that any file and terminal holds
        assert plain(said) == said == said.replace("\n", "").replace("\t", "")
        assert len(said) <= LONGEST, said
        return said
    return ""


@pytest.mark.parametrize("field", FIELDS)
@some(8)
@given(value=VALUES)
def test_any_value_of_a_field_of_the_configuration(field: str, value: object) -> None:
    """What is taken has a name that can be shown."""
    told(lambda: make_config({field: value}).label)


@some(60)
@given(values=st.dictionaries(st.sampled_from(FIELDS) | TEXTS, VALUES, max_size=5))
def test_any_arguments_of_the_mark_storage(values: Mapping[str, object]) -> None:
    """Several together, and such as no configuration has."""
    told(lambda: make_config(values).label)


TARGET = Target(path="/dev/vdb", size_bytes=2**26, folder="/mnt/x")


def used(workload: Workload) -> None:
    """All that is asked of a workload before it is run."""
    _ = workload.label, workload.metrics, workload.shown, workload.expected_seconds, workload.region_bytes
    _ = workload.bytes_on_disk, workload.point, workload.shape, workload.reads, workload.writes
    workload.setup(TARGET)
    workload.argv(TARGET)


@pytest.mark.parametrize(
    ("kind", "field"),
    [(kind, field) for kind in WORKLOADS for field in sorted(kind.model_fields)],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
@some(6)
@given(value=VALUES)
def test_any_value_of_a_workloads_option(kind: type[Workload], field: str, value: object) -> None:
    """What is taken has a label and a command."""
    told(lambda: used(kind(**{**WORKLOADS[kind], field: value})))


@pytest.mark.parametrize("kind", WORKLOADS, ids=lambda kind: kind.__name__)
@some(6)
@given(options=st.dictionaries(TEXTS, VALUES, max_size=3))
def test_any_options_of_a_workload(kind: type[Workload], options: Mapping[str, object]) -> None:
    """Such as it does not have."""
    told(lambda: used(kind(**{**WORKLOADS[kind], **options})))


@some(80)
@given(workload=VALUES, rounds=VALUES, warmup=VALUES)
def test_any_arguments_of_measure(workload: object, rounds: object, warmup: object) -> None:
    """None of them is a workload."""
    assert told(lambda: check_workload(workload, rounds, warmup, "measure"))


@some(80)
@given(value=VALUES)
def test_any_argument_of_the_mark_tolerated_loss(value: object) -> None:
    """A share, or refused with the test's name."""
    said = told(lambda: parse_tolerated(value, "t.py::t"))
    assert not said or said.startswith("t.py::t: ")


@pytest.mark.parametrize("parse", [parse_size, parse_duration, parse_percent])
@some(60)
@given(value=VALUES | st.from_regex(r"\d{1,400}(\.\d*)?\s?[a-zA-Z%]{0,3}"))
@example("9" * 5000)
def test_any_size_duration_and_share(parse: Callable[[object], float], value: object) -> None:
    """A number that is none is refused, and never half read."""
    told(lambda: parse(value))


@some(60)
@given(size=st.integers(0, 2**63 - 1))
def test_a_size_is_read_as_it_is_written(size: int) -> None:
    """Whatever its unit."""
    assert parse_size(format_size(size)) == size


KEYS = (
    *("hosts", "local", "lab01", "uri", "ssh", "folder", "cpus", "tags", "devices", "partitions", "volume_groups"),
    *("datasets", "id", "uuid", "name", "allow_destroy", "images", "machines", "path", "sha256", "reach", "label"),
    *("axes", "storage", "exclude", "only", "if", "then", "reduce", "impossible", "format", "cache", "size"),
    *("tolerated", "waivers", "max_regression", "cell", "workload", "reason", "owner", "until", "default"),
)
"""Of all three files: what one has, the others have not."""


def toml_of(value: Any) -> str:
    """A value as TOML has it on one line."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(str(key))} = {toml_of(one)}" for key, one in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_of, value))}]"
    return '""' if value is None else json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf")


TABLES = st.recursive(
    st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | TEXTS, inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS), TABLES, max_size=4).map(
    lambda tables: "\n".join(f"{key} = {toml_of(value)}" for key, value in tables.items())
)


@pytest.mark.parametrize(
    "load",
    [
        lambda text: load_inventory(text, "f.toml"),
        lambda text: load_matrix(text, "f.toml"),
        lambda text: load_gate_file(text, "f.toml", GatePolicy()),
    ],
    ids=["vmstorage.toml", "matrix", "gate"],
)
@some(80)
@given(text=DOCUMENTS | st.text())
def test_any_text_of_a_toml_file(load: Callable[[str], object], text: str) -> None:
    """It is read, or refused with the file's name."""
    said = told(lambda: load(text))
    assert not said or said.startswith("f.toml")


SAMPLE = {
    "nodeid": "t.py::t",
    "workload": "fio",
    "sample": {"seconds": 1.0, "started": "2026-01-01T00:00:00+00:00"},
}
SPAN = {"process": "main", "began": "2026-01-01", "span": {"step": "window", "begin_s": 0.0, "seconds": 1.0}}


def paths_of(document: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in it."""
    pairs = (
        document.items() if isinstance(document, dict) else enumerate(document if isinstance(document, list) else ())
    )
    for key, value in pairs:
        yield (*here, key)
        yield from paths_of(value, (*here, key))


def changed(document: Any, path: tuple[Any, ...], value: object) -> Any:
    """The document with something else in that place."""
    made = copy.deepcopy(document)
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return made


def with_a_flaw(document: Any) -> st.SearchStrategy[Any]:
    """The document with anything in some place of it."""
    return st.builds(changed, st.just(document), st.sampled_from(list(paths_of(document))), JSON)


def packed_spans(content: Any) -> str:
    """A line of a journal whose packed part is this."""
    return json.dumps({"process": "main", "began": "2026-01-01", "packed": pack(content, quick=True)})


LINES = st.lists(
    st.text()
    | JSON.map(json.dumps)
    | with_a_flaw(SAMPLE).map(json.dumps)
    | with_a_flaw(SPAN).map(json.dumps)
    | with_a_flaw([SPAN["span"]]).map(packed_spans),
    max_size=4,
)


@some(60)
@given(lines=LINES)
def test_any_line_of_a_journal(lines: list[str]) -> None:
    """It is passed over where it says nothing; what the others say is used."""
    history = read_history([[*lines, json.dumps(SAMPLE)]])
    assert history.estimate("t.py::t", 3).seconds >= 0
    read_timelines(lines)


RUN = json.loads(make_run(make_measurement()).model_dump_json())
PACKED = [pack_evidence(RUN), pack_run(RUN)]


def with_a_packed_flaw(document: dict[str, Any]) -> st.SearchStrategy[Any]:
    """The document of a run with anything in some place of its packed part."""
    return with_a_flaw(unpack(document["packed"])).map(
        lambda content: {**document, "packed": pack(content, quick=True)}
    )


@some(100)
@given(
    document=JSON
    | with_a_flaw(RUN)
    | with_a_flaw({"vmstorage": RUN, "datetime": "2026-01-01"})
    | st.one_of(*(with_a_flaw(one) for one in PACKED), *(with_a_packed_flaw(one) for one in PACKED))
)
def test_any_saved_run(document: object, tmp_path: Path) -> None:
    """It is read, or refused with the file's name."""
    path = tmp_path / "0001_main.json"
    path.write_text(json.dumps(document))
    for asked in (str(path), "main"):
        said = told(lambda asked=asked: load_baseline(asked, tmp_path).nodeids)  # type: ignore[misc]
        assert not said or path.name in said
