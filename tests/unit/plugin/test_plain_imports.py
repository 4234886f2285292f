"""Our modules are found by Python's own finder alone."""

from __future__ import annotations

import subprocess
import sys

ASKED = """
import sys
class Other:
    asked = []
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        cls.asked.append(name)
sys.meta_path.insert(0, Other)
from pytest_vmstorage.plugin import plain_imports
Other.asked.clear()
import pytest_vmstorage.text, colorsys
print("pytest_vmstorage.text" in Other.asked, "colorsys" in Other.asked)
"""
"""As pytest does it: another finder is the first to be asked before ours is there."""


def test_no_other_finder_is_asked_for_ours() -> None:
    """One that looks at each module would cost more than the module; those of others are its own as before."""
    done = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
