"""The pytest plugin: the only folder that imports pytest. This module is its entry point.

pytest takes each module of an installed plugin for one whose assertions it is to rewrite: it parses and compiles them
anew in each run where bytecode cannot be kept (PYTHONDONTWRITEBYTECODE, a read-only install). No module of ours wants
that, so Python's own importer loads all that come after this one, by the bytecode that pip has written. This one is
short, and leaves only the compiling: PYTEST_DONT_REWRITE
"""

import atexit
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType


class PlainImports:
    """Finds our modules as Python does, before the importer that pytest puts in front of Python's own."""

    @staticmethod
    def find_spec(
        name: str, path: "Sequence[str] | None" = None, target: "ModuleType | None" = None
    ) -> "ModuleSpec | None":
        """Where that module is, None for one of anybody else."""
        return PathFinder.find_spec(name, path, target) if name.startswith("pytest_vmstorage.") else None


# a test of pytest itself begins anew with what was imported, and keeps what imports it
if PlainImports not in sys.meta_path:
    sys.meta_path.insert(0, PlainImports)
    # Python takes 3 ms longer to end where a finder of somebody's is still in use then
    atexit.register(lambda: sys.meta_path.remove(PlainImports) if PlainImports in sys.meta_path else None)

from pytest_vmstorage.plugin.hooks import *  # noqa: E402, F403
