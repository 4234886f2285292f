"""A test module that is no file: `-p pytest_vmstorage.plugin.text_module --vm-test-text=TEXT .` collects it alone.

`vmstorage run` starts pytest so. The module has the place and the node ids of test_vmstorage.py in the folder in which
pytest is started, and nothing is written there: a run that is killed leaves no file, and workers of xdist, which get
the same words, need none. That folder's conftest.py and ini file count as for any run. PYTEST_DONT_REWRITE is for this
plugin, which asserts nothing itself.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion.rewrite import rewrite_asserts

FILE = "test_vmstorage.py"
"""The file whose place the module takes; `vmstorage run --print-test` writes it."""

_SHOWN = "<vmstorage run>"
"""Stands for the file in tracebacks: a file of that place may be there, with other lines."""

_OPTION = "--vm-test-text"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option, which only this plugin has."""
    parser.getgroup("vmstorage").addoption(
        _OPTION, dest="vm_test_text", metavar="TEXT", help=f"text of a test module, collected as {FILE}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """In place of all files of the folder in which pytest was started collect the text."""
    config = parent.config
    if config.option.vm_test_text is None or path != config.invocation_params.dir:
        return None
    folder: pytest.Collector = TextFolder.from_parent(parent, path=path)
    return folder


class TextFolder(pytest.Directory):
    """A folder with one module, which is not in it."""

    def collect(self) -> Iterator[pytest.Collector]:
        """The module."""
        yield TextModule.from_parent(self, path=self.path / FILE)


class TextModule(pytest.Module):
    """A module of the option's text, with assertions that pytest explains as those of a file."""

    def _getobj(self) -> types.ModuleType:
        # pytest calls this once, and imports a file in it
        text = str(self.config.option.vm_test_text)
        module = types.ModuleType(self.path.stem)
        module.__file__ = _SHOWN
        tree = ast.parse(text, _SHOWN)
        if self.config.getoption("assertmode", "rewrite") == "rewrite":
            rewrite_asserts(tree, text.encode(), _SHOWN, self.config)
        # with a size but no time an entry is never looked for on disk
        linecache.cache[_SHOWN] = (len(text), None, text.splitlines(keepends=True), _SHOWN)
        exec(compile(tree, _SHOWN, "exec", dont_inherit=True), module.__dict__)  # noqa: S102 (a test file is run, too)
        return module

    def funcnamefilter(self, name: str) -> Any:
        """Tests are those that the text calls so, whatever the ini file's python_functions."""
        return name.startswith("test_")
