"""The pytest plugin: the only folder that imports pytest. This module is its entry point.

pytest takes each module of an installed plugin for one whose assertions it is to rewrite: it parses and compiles them
anew in each run where bytecode cannot be kept (PYTHONDONTWRITEBYTECODE, a read-only install). No module of ours wants
that, so Python's own importer loads all that come after this one, by the bytecode that pip has written. This one is
short, and PYTEST_DONT_REWRITE leaves only the compiling.
"""

import sys
from importlib.machinery import PathFinder

sys.meta_path.insert(0, PathFinder)
try:
    from pytest_vmstorage.plugin import plain_imports  # noqa: F401
finally:
    sys.meta_path.remove(PathFinder)

from pytest_vmstorage.plugin.fixtures import *  # noqa: E402, F403
from pytest_vmstorage.plugin.hooks import *  # noqa: E402, F403
