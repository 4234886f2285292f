"""The types that editors and type checkers have are those of the fields and metrics.

Tests of `results.figures` and `plugin.fixture_types` too.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

from pytest_vmstorage import AssertFastest, AssertMonotonic, AssertRatio, Cells, Fio
from pytest_vmstorage.names import HOMES
from pytest_vmstorage.plugin import fixtures
from pytest_vmstorage.results.figures import Figures
from pytest_vmstorage.results.run import Measurement
from pytest_vmstorage.workloads import signatures

sys.path.insert(0, str(Path(__file__).parents[2]))
import signatures as maker


@pytest.mark.parametrize(
    ("path", "made"), [(maker.SIGNATURES, maker.signatures()), (maker.FIGURES, maker.figures())], ids=lambda one: ""
)
def test_the_files_are_those_that_the_fields_and_metrics_make(path: Path, made: str) -> None:
    """Otherwise: python tests/signatures.py && ruff format."""
    assert ast.dump(ast.parse(path.read_text())) == ast.dump(ast.parse(made))


def test_each_workload_takes_the_options_of_its_own_type() -> None:
    """Its class says so to type checkers alone, so its source is read."""
    for kind in maker.kinds():
        assert f"def __init__(self, **options: Unpack[{kind.__name__}Options]) -> None: ..." in inspect.getsource(kind)
        assert getattr(signatures, f"{kind.__name__}Options").__optional_keys__ >= {"shown"}
    assert signatures.FioOptions.__required_keys__ == {"rw"}
    assert signatures.FioSweep.__optional_keys__ == Fio.model_fields.keys()
    assert signatures.FioOptions.__optional_keys__ == Fio.model_fields.keys() - {"rw"} | {"shown"}


def test_the_declared_figures_are_no_fields() -> None:
    """They cost nothing in a run, and a measurement has those of its own workload only."""
    assert not set(vars(Figures)) & {"iops", "bw"}
    assert "iops" not in Measurement.model_fields


@pytest.mark.parametrize(
    ("kind", "name"), [(AssertRatio, "ratio"), (AssertFastest, "fastest"), (AssertMonotonic, "monotonic")]
)
def test_types_of_fixtures_are_those_of_what_they_return(kind: type, name: str) -> None:
    """With the same arguments and defaults."""
    method = inspect.signature(getattr(Cells, f"assert_{name}"))
    assert inspect.signature(kind.__call__).parameters == method.parameters


def test_the_fixtures_are_of_public_types() -> None:
    """What `def test_x(measure: Measure)` needs comes from the package itself."""
    of = {
        node.name: ast.unparse(node.returns)
        for node in ast.parse(inspect.getsource(fixtures)).body
        if isinstance(node, ast.FunctionDef) and node.returns is not None
    }
    assert {"storage", "guest", "measure", "result", "results", "cells", "measure_image", "assert_ratio"} <= of.keys()
    for name, kind in of.items():
        assert set(re.findall(r"\w+", kind)) - {"Mapping", "str"} <= HOMES.keys(), name
