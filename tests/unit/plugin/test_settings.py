"""The options of a run, read once: their defaults are the models' own, and files are read when they are wanted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_vmstorage.analysis.gate.policy import GatePolicy, Loss
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.measure.rounds import Rounds
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.plugin.options import NOT_AXES, OPTIONS, VERBOSITY, any_given, default_of, ini_name
from pytest_vmstorage.plugin.settings import Settings, settings_of

GIVEN_A_VALUE = {name: kind for _, _, options in OPTIONS for name, kind, *_ in options if kind != "bool"}
"""Options that take a value, and the kind of each."""


class FakeConfig:
    """pytest's config, with these options of ours on its command line."""

    def __init__(self, folder: Path, given: dict[str, Any]) -> None:
        self.rootpath = folder
        self.inipath = None
        self.invocation_params = SimpleNamespace(dir=folder)
        self.option = SimpleNamespace(benchmark_save=None)
        self.stash = pytest.Stash()
        self._given = {ini_name(name.replace("_", "-")): value for name, value in given.items()}
        self._defaults: dict[str, Any] = {NOT_AXES: [], VERBOSITY: "auto"}
        for _, _, options in OPTIONS:
            self._defaults |= {ini_name(name): default_of(kind, default) for name, kind, _, default, _ in options}

    def getoption(self, name: str, default: object = None) -> object:
        """What the command line says."""
        return self._given.get(name, default)

    def getini(self, name: str) -> object:
        """What the ini file says: nothing."""
        return self._defaults[name]


def config_of(folder: Path, **given: object) -> pytest.Config:
    """A config with these options."""
    return cast("pytest.Config", FakeConfig(folder, given))


def read(folder: Path, **given: object) -> Settings:
    """The settings with these options."""
    return settings_of(config_of(folder, **given))


def test_defaults_of_options_are_those_of_the_models(tmp_path: Path) -> None:
    """--help shows them and must not import the models, so they stand in two places, which this holds equal."""
    settings = read(tmp_path)
    assert settings.lab_options == LabSettings(wait_s=600.0)
    assert settings.rounds == Rounds()
    assert read(tmp_path, rounds="auto").rounds == Rounds(count=None)
    assert settings.gate_options == GatePolicy(today=settings.gate_options.today)
    assert settings.gate_options.tolerated.fraction == Loss().tolerated
    assert Plan().model_dump() == Plan(rounds=3, timeout_s=settings.lab_options.timeout_s).model_dump()


def test_options_are_read_once(tmp_path: Path) -> None:
    """The seed that the first reader got is everybody's."""
    config = config_of(tmp_path)
    assert settings_of(config) is settings_of(config)


def test_files_are_read_when_they_are_wanted(tmp_path: Path) -> None:
    """A run that collects only does not mind a vmstorage.toml that is wrong; a file that was read is kept."""
    file = tmp_path / "vmstorage.toml"
    file.write_text("nonsense = 1\n")
    settings = read(tmp_path)
    assert settings.swept_hosts == ()
    with pytest.raises(ConfigError, match="'nonsense' is not known"):
        _ = settings.hosts
    file.write_text("[hosts.lab01]\n")
    assert settings.inventory is not None
    file.unlink()
    assert list(settings.inventory.hosts) == ["lab01"]
    assert settings.lab.inventory is settings.inventory


@pytest.mark.parametrize("name", ["dir", "matrix", "gate", "inventory", "report", "timeline"])
def test_a_path_of_a_user_that_is_not_there(name: str, tmp_path: Path) -> None:
    """One sentence that names the option."""
    text: Any = "~nosuchuser/x.toml"

    def read_all() -> object:
        settings = read(tmp_path, **{name: [text] if name == "report" else text})
        return settings.lab, settings.matrix, settings.policy

    with pytest.raises(ConfigError, match=f"^--vm-{name}=~nosuchuser/x.toml leads nowhere"):
        read_all()


@pytest.mark.parametrize("name", GIVEN_A_VALUE)
def test_an_empty_option_is_refused(name: str, tmp_path: Path) -> None:
    """A variable of the shell that is not set makes one, and the run would do less than it was meant to."""
    empty = {name: [""] if GIVEN_A_VALUE[name] == "linelist" else ""}
    assert any_given(config_of(tmp_path, **empty))
    with pytest.raises(ConfigError):
        read(tmp_path, **empty)


@pytest.mark.parametrize("name", GIVEN_A_VALUE)
def test_any_option_with_a_value_is_checked_when_it_is_given(name: str, tmp_path: Path) -> None:
    """And a run that gives none has nothing to check."""
    assert not any_given(config_of(tmp_path))
    assert any_given(config_of(tmp_path, **{name: "x"}))
