"""The variant of --vm-against: a cell with other values of some axes, or another setting of the host; pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.config.cell import AXES, StorageConfig, make_config
from pytest_vmstorage.config.settings import HostWishes
from pytest_vmstorage.errors import ConfigError

_YES = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}

HOST = {"governor": "governor", "turbo": "turbo", "host-scheduler": "scheduler"}
"""Settings of the host in a recipe, in the words of the options, with their fields of HostWishes."""


class Variant(BaseModel):
    """Values that replace those of a cell; `text` is as the user wrote it, `host` has its settings of the host."""

    model_config = ConfigDict(frozen=True)

    text: str
    values: Mapping[str, str | int | bool | None]
    host: Mapping[str, str] = {}

    def on_host(self, wishes: HostWishes) -> HostWishes:
        """The settings of the host for the variant, where the run itself has those wishes."""
        return wishes.model_copy(update=dict(self.host))

    def of(self, config: StorageConfig) -> StorageConfig:
        """The cell with these values; raises ConfigError, one sentence, where it cannot exist or is the cell itself."""
        try:
            made = make_config({**config.model_dump(), **self.values})
        except ConfigError as error:
            raise ConfigError(
                f"--vm-against={self.text} of {config}: {error.what}", hint=error.hint, code=error.code
            ) from None
        if made == config and not self.host:
            raise ConfigError(
                f"--vm-against={self.text} changes nothing in {config}, which would be measured against itself.",
                hint="Name another value, or deselect the cell with -k.",
                code="VM208",
            )
        return made


def parse_recipe(text: str) -> Variant:
    """The variant of a recipe such as `cache=none,cluster_size=64k`; raises ConfigError, one sentence."""
    values: dict[str, Any] = {}
    host: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value:
            hint = "Write for example cache=none,io=native."
            raise ConfigError(f"--vm-against={text}: {part.strip()!r} is not AXIS=VALUE.", hint=hint, code="VM207")
        if name not in (*AXES, *HOST):
            hint = f"There are: {', '.join((*AXES, *HOST))}."
            raise ConfigError(f"--vm-against={text}: {name} is not an axis.", hint=hint, code="VM207")
        if name in values or HOST.get(name) in host:
            raise ConfigError(f"--vm-against={text} has {name} twice.", hint="Take one of them away.", code="VM207")
        if name in HOST:
            host[HOST[name]] = value
        else:
            values[name] = _plain(name, value)
    return Variant(text=text, values=values, host=host)


def _plain(name: str, value: str) -> str | int | bool | None:
    """A value as a test would write it in a parametrize list."""
    default = StorageConfig.model_fields[name].default
    if isinstance(default, bool):
        if value.lower() not in _YES:
            raise ConfigError(
                f"--vm-against: {name}={value} is neither yes nor no.", hint=f"Write {name}=yes.", code="VM207"
            )
        return _YES[value.lower()]
    if value == "default" and default is None:
        return None
    return int(value) if value.isdecimal() else value
