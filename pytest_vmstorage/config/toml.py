"""The one reader of the user's TOML files: text -> frozen model, or one sentence with file, key and remedy; pure.

A file is a `TomlTable` with its keys as fields. Their validators raise `SlipError`; `load_toml` adds the place.
"""

from __future__ import annotations

import datetime
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints, ValidationError, model_validator

from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import quoted


class SlipError(ValueError):
    """A refused value of a key: `reason` is the predicate of "KEY = VALUE", with `of_table` a whole clause of a table.

    "{key}" in `hint` stands for the key. Without a `code` it has that of its file.
    """

    def __init__(self, reason: str, hint: str, *, of_table: bool = False, code: str = "") -> None:
        super().__init__(reason)
        self.reason, self.hint, self.of_table, self.code = reason, hint, of_table, code


def check_known(keys: Iterable[str], known: Collection[str]) -> None:
    """Raise SlipError for the first key of a table that is not known."""
    for key in keys:
        if key not in known:
            hint = f"{close_to(key, known)}Known here: {', '.join(known)}."
            raise SlipError(f"{quoted(key)} is not known", hint, of_table=True)


class TomlTable(BaseModel):
    """A table of a file, whose fields are the known keys; the description of a required key tells how to write it."""

    # built when a file is read: most runs have none, and each table takes a millisecond
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _has_its_keys(cls, table: object) -> object:
        if isinstance(table, dict):
            check_known(table, cls.model_fields)
            for key, field in cls.model_fields.items():
                if field.is_required() and key not in table:
                    raise SlipError(f"{key} is missing", field.description or "", of_table=True)
        return table


def matching(pattern: str | re.Pattern[str], reason: str, hint: str) -> AfterValidator:
    """The check that the whole text matches."""

    def check(text: str) -> str:
        if re.fullmatch(pattern, text) is None:
            raise SlipError(reason, hint)
        return text

    return AfterValidator(check)


# pydantic before 2.10 gives one field's default to all fields that share a Field
Text = Annotated[str, StringConstraints(pattern=r"\S")]
"""A text with at least one character that is not blank."""

PlainName = Annotated[str, matching(r"\w[\w.-]*", "is not a name", "Use letters, digits, dots, - and _.")]

_TEXT = ("is not a text", 'Write {key} = "...".')
_TABLE = ("is not a table", "Write {table} above its keys.")
_REFUSALS: Mapping[str, tuple[str, str]] = {
    "string_type": _TEXT,
    "string_pattern_mismatch": _TEXT,
    "dict_type": _TABLE,
    "mapping_type": _TABLE,
    "model_type": _TABLE,
    "tuple_type": ("is not a list", "Write {list}."),
    "bool_type": ("is neither true nor false", "Write {key} = true."),
    "int_type": ("is not a whole number", "Write for example {key} = 1."),
    "date_type": ("is not a date", "Write for example {key} = 2027-03-31, without quotes."),
    "literal_error": ("is not known", "It is {expected}."),
}
"""Types of pydantic's errors (docs.pydantic.dev/latest/errors/validation_errors) as reason and remedy."""

_Model = TypeVar("_Model", bound=TomlTable)


def load_toml(model: type[_Model], text: str, source: str, *, code: str) -> _Model:
    """The model that a file says; raises ConfigError, one sentence that names `source`, the table and the key.

    `code` is the error's where its slip has none of its own.
    """
    try:
        document = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(
            f"{source} is not TOML: it is nested too deeply.", hint="Correct that line.", code="VM216"
        ) from None
    except ValueError as error:
        # TOMLDecodeError is a ValueError, as is the error of int() for thousands of digits
        raise ConfigError(f"{source} is not TOML: {error}.", hint="Correct that line.", code="VM216") from None
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False)[0], source, code) from None


def place(source: str, *path: str | int) -> str:
    """The table at that path of a file: "f.toml, [hosts.local]", "f.toml, [[cells]] 1", or the file alone."""
    names = ".".join(one for one in path if isinstance(one, str))
    number = next((f" {one + 1}" for one in path if isinstance(one, int)), "")
    return f"{source}, {f'[[{names}]]{number}' if number else f'[{names}]'}" if names else source


def _refusal(found: Any, source: str, code: str) -> ConfigError:
    """The first of pydantic's errors (ErrorDetails) as our sentence."""
    *path, key = found["loc"] or ("",)
    context, value = found.get("ctx", {}), found["input"]
    slip = context.get("error")
    if not isinstance(slip, SlipError):
        slip = SlipError(*_REFUSALS.get(found["type"], (f"is refused ({found['msg']})", "Correct it.")))
    code = slip.code or code
    if slip.of_table:
        return ConfigError(f"{place(source, *found['loc'])}: {slip.reason}.", hint=slip.hint, code=code)
    text = str(value) if isinstance(value, datetime.date | datetime.time) else quoted(value)
    table = place("", *found["loc"]).removeprefix(", ")
    if key == "[key]":
        *path, _ = path
        subject = text
    elif isinstance(key, int):
        table = table.rpartition(" ")[0]
        *path, key = path
        subject = f"{key} has {text}, which"
    else:
        subject = f"{key} = {text}"
    hint = slip.hint.replace("{key}", str(key)).replace("{table}", table)
    # a list at the top of a file is one of tables
    hint = hint.replace("{list}", f"{key} = [...]" if path else f"[[{key}]] above each of its tables")
    hint = hint.replace("{expected}", str(context.get("expected")))
    return ConfigError(f"{place(source, *path)}: {subject} {slip.reason}.", hint=hint, code=code)
