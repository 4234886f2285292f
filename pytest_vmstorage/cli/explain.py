"""What the code of a refusal means: the entries of `codes.toml`, for `vmstorage explain` and for the reference."""

from __future__ import annotations

import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from itertools import groupby
from typing import NamedTuple

from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError

AREAS = {
    "1": "A cell's configuration",
    "2": "Options, files and the command",
    "3": "Workloads",
    "4": "Hosts and devices",
    "5": "Guests and images",
    "6": "Proof",
    "7": "Measuring",
    "8": "Gate and assertions",
}
"""What refusals are about, by the first digit of their code."""


class Explanation(NamedTuple):
    """A code with its title, what its refusals mean, what to do, and an example of what is refused."""

    code: str
    title: str
    means: str
    remedy: str
    example: str

    @property
    def area(self) -> str:
        """The heading that it stands under."""
        return AREAS[self.code[2]]


@cache
def entries() -> Mapping[str, Explanation]:
    """All entries by their codes, in the order of the codes."""
    text = (resources.files("pytest_vmstorage") / "codes.toml").read_text(encoding="utf-8")
    tables = {code: table for code, table in tomllib.loads(text).items() if isinstance(table, dict)}
    return {code: Explanation(code=code, **tables[code]) for code in sorted(tables)}


def find_entry(text: str) -> Explanation:
    """The entry of a code, written as VM141, vm141, 141 or [VM141]; raises ConfigError for a code that there is not."""
    code = text.strip().strip("[]").upper()
    code = f"VM{code}" if code.isdigit() else code
    if code not in entries():
        near = close_to(code, entries())
        hint = f"{near}`vmstorage explain` without a code lists all {len(entries())}."
        raise ConfigError(f"no refusal has the code {text!r}.", hint=hint, code="VM262")
    return entries()[code]


def entry_lines(entry: Explanation, width: int) -> Iterator[str]:
    """The entry for a terminal of that width."""
    yield f"{entry.code}: {entry.title}"
    yield ""
    for word, text in (("means", entry.means), ("do", entry.remedy), ("example", entry.example)):
        yield from textwrap.wrap(text, width, initial_indent=f"{word:8}", subsequent_indent=" " * 8)


def list_lines() -> Iterator[str]:
    """A line for each code, under the headings of their areas."""
    for area, those in groupby(entries().values(), key=lambda entry: entry.area):
        yield f"{area}:"
        yield from (f"  {entry.code}  {entry.title}" for entry in those)


def errors_page() -> str:
    """The page errors.md of the reference: each code with an anchor of its own, such as errors.md#vm141."""
    parts = [
        "<!-- `script/reference` writes this page. To change it, change pytest_vmstorage/codes.toml, and run that"
        " program again. -->\n\n# Errors\n\n"
        "Each refusal ends with a code in brackets, such as `[VM141]`: one code for all that is answered in the same "
        "way. `vmstorage explain VM141` prints the entry that stands here, and `vmstorage explain` alone lists all "
        "codes. A code keeps its meaning, and is never used again for another. In the JSON and CSV reports it is the "
        "field `code` of a cell that has no figure and of a test that failed. An error that a workload of your own "
        "raises has none.\n"
    ]
    for area, those in groupby(entries().values(), key=lambda entry: entry.area):
        parts.append(f"## {area}\n")
        parts += [
            f"### {entry.code}\n\n**{entry.title}.** {entry.means} {entry.remedy}\n\n    {entry.example}\n"
            for entry in those
        ]
    return "\n".join(parts)
