"""The image that guests boot in place of the appliance: named by the user and identified by its checksum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pytest_vmstorage.config.toml import SlipError, Text, TomlTable
from pytest_vmstorage.errors import ConfigError

Reach = Literal["agent", "ssh"]

_OPTION = "--vm-image"


class ListedImage(BaseModel):
    """A disk image of the user: `path` on this machine, `sha256` its required checksum; nothing writes to it.

    `reach` is the way of commands into its guests.
    """

    model_config = ConfigDict(frozen=True)

    path: Path
    sha256: str
    reach: Reach = "agent"

    @property
    def description(self) -> str:
        """The file's name with the first 16 digits of its checksum, as each row shows it."""
        return f"{self.path.name} sha256:{self.sha256[:16]}"


def _absolute(text: str) -> str:
    if not Path(text).expanduser().is_absolute():
        raise SlipError("is not absolute", "Write it from / or ~ on.")
    return text


def _sha256(text: str) -> str:
    found = text.strip().lower()
    if re.fullmatch(r"[0-9a-f]{64}", found) is None:
        raise SlipError("is not a SHA-256", "`sha256sum IMAGE` prints 64 hexadecimal digits.")
    return found


class NamedImage(TomlTable):
    """An image as vmstorage.toml has it; without `sha256` its checksum lies in a file next to it."""

    path: Annotated[Text, AfterValidator(_absolute)] = Field(description="Write it from / or ~ on.")
    sha256: Annotated[Text, AfterValidator(_sha256)] | None = None
    reach: Reach | None = None


def choose_image(
    name: str, sha256: str, reach: str, listed: Mapping[str, NamedImage], folder: Path
) -> ListedImage | None:
    """The image of that name in vmstorage.toml, else at that path; None for no name. Raises ConfigError.

    A relative path begins at `folder`. The checksum is the given one, else vmstorage.toml's, else that in the file
    IMAGE.sha256 next to the image: without any of them nobody would know what was measured.
    """
    if not name:
        for given, what in ((sha256, "sha256"), (reach, "reach")):
            if given:
                raise ConfigError(
                    f"{_OPTION}-{what} needs an image.", hint=f"Name it with {_OPTION}=PATH.", code="VM202"
                )
        return None
    entry = listed.get(name)
    path = Path(entry.path if entry is not None else folder / Path(name).expanduser()).expanduser().resolve()
    if not path.is_file():
        has = f" vmstorage.toml has no image of that name either: {', '.join(listed)}." if listed else ""
        raise ConfigError(
            f"{_OPTION}={name}: there is no file {path}.{has}", hint="Name a qcow2 or raw image.", code="VM225"
        )
    if reach not in ("", *get_args(Reach)):
        hint = f"It is one of: {', '.join(get_args(Reach))}."
        raise ConfigError(f"{_OPTION}-reach={reach} is not known.", hint=hint, code="VM225")
    known = _checked(sha256, f"{_OPTION}-sha256={sha256}") if sha256 else entry and entry.sha256
    by: Any = reach or (entry and entry.reach) or "agent"
    return ListedImage(path=path, sha256=known or _neighbour(path), reach=by)


def _neighbour(path: Path) -> str:
    """The checksum in the file IMAGE.sha256."""
    file = path.with_name(f"{path.name}.sha256")
    try:
        words = file.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError):
        words = []
    if not words:
        raise ConfigError(
            f"the image {path} has no checksum, and without one nobody knows what was measured.",
            hint=f"Write it next to the image: `sha256sum {path.name} >{file.name}`, or give {_OPTION}-sha256.",
            code="VM226",
        )
    return _checked(words[0], f"{file} begins with {words[0]!r}, which")


def _checked(text: str, what: str) -> str:
    try:
        return _sha256(text)
    except SlipError as slip:
        raise ConfigError(f"{what} {slip.reason}.", hint=slip.hint, code="VM225") from None
