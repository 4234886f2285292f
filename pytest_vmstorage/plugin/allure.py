"""What allure-pytest writes of a test: held while the test is entered, since it writes a result for each entry."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pluggy
import pytest

_LISTENER = "allure_listener"
_ALLURE = pluggy.HookimplMarker("allure")


def end_result(config: pytest.Config, **arguments: Any) -> None:
    """Let allure-pytest end its result of a test, or of an attempt, as pytest does by `pytest_runtest_logfinish`."""
    if listener := config.pluginmanager.get_plugin(_LISTENER):
        others = config.pluginmanager.get_plugins() - {listener}
        config.pluginmanager.subset_hook_caller("pytest_runtest_logfinish", others)(**arguments)


class _AllureWriter:
    """Stands for what writes Allure's files: it holds what there is to write."""

    def __init__(self, writer: Any, hold: Callable[[Callable[[], object]], None]) -> None:
        self._writer, self._hold = writer, hold

    @_ALLURE
    def report_result(self, result: Any) -> None:
        """Hold a test's result."""
        self._hold(partial(self._writer.report_result, result=result))

    @_ALLURE
    def report_container(self, container: Any) -> None:
        """Hold what a fixture's set-up and teardown came to."""
        self._hold(partial(self._writer.report_container, container=container))

    @_ALLURE
    def report_attached_file(self, source: str, file_name: str) -> None:
        """Hold a file's content: the test may remove it."""
        self.report_attached_data(Path(source).read_bytes(), file_name)

    @_ALLURE
    def report_attached_data(self, body: str | bytes, file_name: str) -> None:
        """Hold an attachment."""
        self._hold(partial(self._writer.report_attached_data, body=body, file_name=file_name))

    @_ALLURE
    def report_globals(self, globals_item: Any) -> None:
        """Hold what belongs to no test."""
        self._hold(partial(self._writer.report_globals, globals_item=globals_item))


@contextmanager
def allure_held(config: pytest.Config, hold: Callable[[Callable[[], object]], None]) -> Generator[None]:
    """Meanwhile what allure-pytest is to write goes to `hold`, as a function that writes it.

    It writes a result whenever pytest's protocol for a test ends, whether or not there was a report.
    """
    if not config.pluginmanager.has_plugin(_LISTENER):
        yield
        return
    manager: pluggy.PluginManager = importlib.import_module("allure_commons").plugin_manager
    stands: dict[Any, _AllureWriter] = {}
    for found in manager.hook.report_result.get_hookimpls():
        manager.unregister(found.plugin)
        stands[found.plugin] = _AllureWriter(found.plugin, hold)
        manager.register(stands[found.plugin])
    try:
        yield
    finally:
        for writer, stand in stands.items():
            manager.unregister(stand)
            manager.register(writer)
