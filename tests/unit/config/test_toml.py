"""The loader of TOML files: a model of what the file says, or one sentence with file, table, key and remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import pytest
from pydantic import Field, StrictBool, StrictInt

from pytest_vmstorage.config.toml import PlainName, TomlTable, load_toml, matching, place
from pytest_vmstorage.errors import ConfigError


class Inner(TomlTable):
    """A table of the file."""

    name: Annotated[str, matching("[a-z]+", "is not a word", "Write {key} in small letters.")] = Field(
        description='Write name = "a".'
    )
    count: StrictInt = 0
    flag: StrictBool = False
    mode: Literal["one", "two"] = "one"
    words: tuple[str, ...] = ()


class File(TomlTable):
    """A file with tables by name and a list of tables."""

    tables: Mapping[PlainName, Inner] = {}
    rows: tuple[Inner, ...] = ()


def test_a_file_becomes_a_frozen_model() -> None:
    """With defaults for the keys that it does not have."""
    file = load_toml(File, '[tables.a]\nname = "x"\n[[rows]]\nname = "y"\nwords = ["z"]', "f.toml", code="VM220")
    assert file == File(tables={"a": Inner(name="x")}, rows=(Inner(name="y", words=("z",)),))
    with pytest.raises(ValueError, match="frozen"):
        file.rows = ()  # type: ignore[misc]


SLIPS = {
    "= 1": "f.toml is not TOML: Invalid",
    "row = 1": "f.toml: 'row' is not known. Did you mean 'rows'? Known here: tables, rows.",
    "tables = 1": "f.toml: tables = 1 is not a table. Write [tables] above its keys.",
    "tables.a = 1": "f.toml, [tables]: a = 1 is not a table. Write [tables.a] above its keys.",
    "tables.'a b'.name = 'x'": "f.toml, [tables]: 'a b' is not a name. Use letters, digits, dots, - and _.",
    "rows = 1": "f.toml: rows = 1 is not a list. Write [[rows]] above each of its tables.",
    "rows = [1]": "f.toml: rows has 1, which is not a table. Write [[rows]] above its keys.",
    "[[rows]]": 'f.toml, [[rows]] 1: name is missing. Write name = "a".',
    "[tables.a]\nname = 1": 'f.toml, [tables.a]: name = 1 is not a text. Write name = "...".',
    "[tables.a]\nname = 'X'": "f.toml, [tables.a]: name = 'X' is not a word. Write name in small letters.",
    "[[rows]]\nname = 'x'\n[[rows]]\nname = 'x'\ncount = true": "f.toml, [[rows]] 2: count = True is not a whole",
    "[tables.a]\nname = 'x'\nflag = 1": "f.toml, [tables.a]: flag = 1 is neither true nor false. Write flag = true.",
    "[tables.a]\nname = 'x'\nmode = 'on'": "f.toml, [tables.a]: mode = 'on' is not known. It is 'one' or 'two'.",
    "[tables.a]\nname = 'x'\nwords = 'y'": "f.toml, [tables.a]: words = 'y' is not a list. Write words = [...].",
    "[tables.a]\nname = 'x'\nwords = [1]": "f.toml, [tables.a]: words has 1, which is not a text.",
}


@pytest.mark.parametrize("text", SLIPS)
def test_a_slip_is_told_with_file_table_key_and_remedy(text: str) -> None:
    """Whichever error pydantic has for it."""
    with pytest.raises(ConfigError) as caught:
        load_toml(File, text, "f.toml", code="VM220")
    assert str(caught.value).startswith(SLIPS[text])
    assert caught.value.hint


def test_a_place_is_written_as_its_header() -> None:
    """Lists count from 1; the top of the file is the file."""
    assert place("f.toml") == "f.toml"
    assert place("f.toml", "hosts", "local") == "f.toml, [hosts.local]"
    assert place("f.toml", "cells", 1) == "f.toml, [[cells]] 2"
