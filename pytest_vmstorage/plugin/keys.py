"""Where the plugin keeps its things on pytest's objects; light, so that hooks can look without importing more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_vmstorage.config import StorageConfig
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.plugin.session import StorageSession
    from pytest_vmstorage.results import Measurement

SESSION: pytest.StashKey[StorageSession] = pytest.StashKey()
"""On the config: what this process measures with."""

CONFIG: pytest.StashKey[StorageConfig] = pytest.StashKey()
"""On an item: its cell."""

REFUSAL: pytest.StashKey[ConfigError] = pytest.StashKey()
"""On an item: why it has no cell."""

MEASURED: pytest.StashKey[list[Measurement]] = pytest.StashKey()
"""On an item: what it measured."""

FAILED: pytest.StashKey[str] = pytest.StashKey()
"""On an item: why its cell has no figure."""


def is_storage_item(item: pytest.Item) -> bool:
    """Whether the test uses a storage configuration."""
    return "storage" in getattr(item, "fixturenames", ())
