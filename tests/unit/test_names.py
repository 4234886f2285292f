"""The public names: all there, and nothing loaded before it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys

import pytest

import pytest_vmstorage
from pytest_vmstorage import names

HEAVY = ("pydantic", "libvirt", "libvirt_qemu", "testinfra", "tabulate", "pytest_benchmark", "xdist")


def loaded_after(code: str) -> set[str]:
    """Which of the heavy modules a fresh interpreter has loaded after that code."""
    script = f"import sys\n{code}\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", pytest_vmstorage.__all__)
def test_a_public_name_can_be_imported(name: str) -> None:
    """Each is what its home module has under that name, and says in a docstring what it is."""
    found = getattr(pytest_vmstorage, name)
    assert found.__name__ == name
    assert found.__doc__
    assert name in dir(pytest_vmstorage)


def test_python_and_type_checkers_find_the_same_names() -> None:
    """The imports for type checkers are the homes, from which Python loads the names, in alphabetical order."""
    tree = ast.parse(inspect.getsource(names))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and "pytest_vm" in str(node.module)]
    typed = {alias.name: str(node.module).removeprefix("pytest_vmstorage.") for node in imports for alias in node.names}
    assert typed == names.HOMES
    assert list(names.HOMES) == sorted(names.HOMES) == pytest_vmstorage.__all__


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    """So that hasattr and `from ... import` say what they always say."""
    assert not hasattr(pytest_vmstorage, "Nothing")
    with pytest.raises(AttributeError, match="module 'pytest_vmstorage' has no attribute 'Nothing'"):
        _ = pytest_vmstorage.Nothing


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Every pytest run of everybody who installed it does that."""
    assert loaded_after("import pytest_vmstorage") == set()


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    """What pytest loads through the entry point is pytest and little else."""
    assert loaded_after("import pytest_vmstorage.plugin") == set()


def test_a_workload_loads_neither_libvirt_nor_testinfra() -> None:
    """A test module can be collected where no guest can run."""
    assert loaded_after("from pytest_vmstorage import Dd, Fio, Guest, Hdparm, StorageConfig") == {"pydantic"}


def test_the_fakes_need_neither_libvirt_nor_testinfra() -> None:
    """They are for machines that have neither."""
    assert loaded_after("import pytest_vmstorage.testing") == {"pydantic"}
