"""Projects with the fake lab of the plugin's own tests, beside other people's plugins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "plugin"))

from plugged import PluginProject
from projects import HERE


@pytest.fixture
def project(pytester, monkeypatch, tmp_path_factory):
    """An empty project with a fake lab."""
    monkeypatch.syspath_prepend(str(HERE))
    return PluginProject(pytester, monkeypatch, tmp_path_factory)
