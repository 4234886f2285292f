"""Our modules are imported as Python does it, also while pytest's own importer is the first to be asked."""

from __future__ import annotations

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
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The spec of a module of ours, None for one of anybody else."""
        return PathFinder.find_spec(name, path, target) if name.startswith("pytest_vmstorage.") else None


def _forget() -> None:
    if PlainImports in sys.meta_path:
        sys.meta_path.remove(PlainImports)


# a test of pytest itself begins anew with what was imported, and keeps what imports it
if PlainImports not in sys.meta_path:
    sys.meta_path.insert(0, PlainImports)
    # Python takes 3 ms longer to end where a finder of somebody's is still in use then
    atexit.register(_forget)
