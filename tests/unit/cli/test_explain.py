"""`cli.explain`: each refusal of the product has a code, each code an entry, and each entry a page."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import pytest_vmstorage
from pytest_vmstorage import errors
from pytest_vmstorage.cli.command import main
from pytest_vmstorage.cli.explain import AREAS, entries, entry_lines, errors_page, find_entry, list_lines
from pytest_vmstorage.config.cell import make_config
from pytest_vmstorage.config.rules import RULES, broken_rules
from pytest_vmstorage.config.selector import cell
from pytest_vmstorage.errors import ConfigError, VmStorageError, signed, split_code, where_more
from pytest_vmstorage.results.failures import CODES, OUTCOMES

PACKAGE = Path(pytest_vmstorage.__file__).parent
ROOT = PACKAGE.parent
OURS = {name for name, thing in vars(errors).items() if isinstance(thing, type) and issubclass(thing, VmStorageError)}
WITHOUT = {"error"}
"""Names of a class that a parameter gives; host/file_systems.py raises what its caller asks for."""


@functools.cache
def sources() -> Mapping[Path, ast.Module]:
    """The product's modules, parsed."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def _made() -> Iterator[tuple[str, ast.Call]]:
    """Each place where an error of ours is made, with its file and line."""
    for path, tree in sources().items():
        raised = {id(one.exc) for one in ast.walk(tree) if isinstance(one, ast.Raise)}
        for one in ast.walk(tree):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name):
                name = one.func.id
                if name in OURS or (name in WITHOUT and id(one) in raised):
                    yield f"{path}:{one.lineno}", one


def _used() -> set[str]:
    """All codes that stand in the code."""
    constants = (one for tree in sources().values() for one in ast.walk(tree) if isinstance(one, ast.Constant))
    return {str(one.value) for one in constants if re.fullmatch(r"VM\d{3}", str(one.value))}


def test_each_error_of_ours_is_made_with_a_code() -> None:
    """What a user's own workload raises has none; the product has no such place."""
    made = list(_made())
    assert len(made) > 400
    assert [where for where, one in made if "code" not in {keyword.arg for keyword in one.keywords}] == []


def test_usage_errors_are_signed() -> None:
    """An error of pytest's that is no error of ours ends with its code too."""
    told = []
    for path, tree in sources().items():
        for one in ast.walk(tree):
            if isinstance(one, ast.Call) and ast.unparse(one.func) == "pytest.UsageError":
                said = ast.unparse(one.args[0])
                if not said.startswith(("str(error)", "signed(", "self.refused", "'\\n'.join(refused)")):
                    told.append(f"{path}:{one.lineno}: {said}")
    assert told == []


def test_each_code_is_used_and_has_an_entry() -> None:
    """Neither an entry of nothing, nor a code that nobody explains."""
    assert _used() == set(entries())


def test_no_code_is_of_two_things_or_used_again() -> None:
    """TOML refuses a table that is there twice; what is gone stays gone."""
    text = (PACKAGE / "codes.toml").read_text(encoding="utf-8")
    assert tomllib.loads(text)["gone"] == [code for code in tomllib.loads(text)["gone"] if code not in entries()]
    headings = re.findall(r"^\[(VM\d{3})\]$", text, re.MULTILINE)
    assert headings == sorted(headings) == list(entries())
    titles = Counter(entry.title for entry in entries().values())
    assert [title for title, count in titles.items() if count > 1] == []


def test_each_entry_says_what_it_means_what_to_do_and_an_example() -> None:
    """Sentences end with a full stop, unless a command ends them; a title is a clause."""
    for entry in entries().values():
        assert entry.area in AREAS.values()
        assert re.search(r"[^.]$", entry.title), entry
        assert entry.means.endswith("."), entry
        assert entry.remedy.endswith((".", "`")), entry
        assert entry.example, entry


KNOWN = {"storage": lambda **values: make_config(values), "cell": cell}
KNOWN |= {name: getattr(pytest_vmstorage, name) for name in dir(pytest_vmstorage) if name[0].isupper()}
IN_CONTEXT = ("VM310", "VM319", "VM320", "VM328")
"""Codes of workloads whose example is refused where it runs."""

EXAMPLES = {
    code: entry.example
    for code, entry in entries().items()
    if code[2] in "13" and re.fullmatch(r"[A-Za-z]+\(.*\)(\.over\(.*\))?", entry.example) and entry.example[0] != "m"
}
"""The examples that are one expression."""


@pytest.mark.parametrize(
    ("code", "example"), {code: text for code, text in EXAMPLES.items() if code not in IN_CONTEXT}.items()
)
def test_an_example_is_refused_with_the_code_of_its_entry(code: str, example: str) -> None:
    """A cell with the rule that it breaks first; a workload with what it cannot be."""
    with pytest.raises(ConfigError) as caught:
        eval(example, {**KNOWN})
    assert caught.value.code == code
    assert str(caught.value).endswith(f" [{code}]")


def test_each_rule_has_a_code_of_its_own_and_an_example() -> None:
    """A rule is one thing that a user does something about."""
    assert len({rule.code for rule in RULES}) == len(RULES)
    assert {rule.code for rule in RULES} <= EXAMPLES.keys()
    assert not list(broken_rules(make_config({})))


def test_each_outcome_has_a_code() -> None:
    """A cell that failed by name is explained by that name's entry."""
    assert set(CODES) == set(OUTCOMES)


@pytest.mark.parametrize("text", ["VM141", "vm141", "141", "[VM141]"])
def test_a_code_is_found_as_people_write_it(text: str) -> None:
    """With or without the letters and the brackets."""
    assert find_entry(text).code == "VM141"


def test_the_command_prints_an_entry(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Title, meaning, remedy and example, in the terminal's width."""
    monkeypatch.setenv("COLUMNS", "60")
    assert main(["explain", "VM141"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "VM141: Metadata of raw"
    assert [line.split()[0] for line in lines if line and not line.startswith(" ")][1:] == ["means", "do", "example"]
    assert max(map(len, lines)) <= 60
    assert list(entry_lines(find_entry("141"), 60)) == lines


def test_the_command_lists_all_codes(capsys: pytest.CaptureFixture[str]) -> None:
    """Each in a line, under its area."""
    assert main(["explain"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines() == list(list_lines())
    assert re.findall(r"VM\d{3}", out) == list(entries())
    assert all(f"{area}:\n" in out for area in AREAS.values())


def test_a_code_that_there_is_not_is_refused_with_one_that_is_near(capsys: pytest.CaptureFixture[str]) -> None:
    """The refusal has a code itself, and says how to read its entry."""
    assert main(["explain", "VM1411"]) == 1
    said = capsys.readouterr().err
    assert "no refusal has the code 'VM1411'. Did you mean 'VM" in said
    assert "[VM262]\nvmstorage: `vmstorage explain VM262` says more.\n" in said


def test_a_code_is_put_on_and_taken_off() -> None:
    """At the end of a line, also where a console's follow; other brackets stay."""
    assert signed("No [x].", "VM141") == "No [x]. [VM141]"
    assert signed("No.", "") == "No."
    assert split_code("No [x]. [VM141]") == ("No [x].", "VM141")
    assert split_code("Ended. [VM502]\n  | panic") == ("Ended.\n  | panic", "VM502")
    assert split_code("Not [VM141] here.") == ("Not [VM141] here.", "")


def test_where_more_is_said_names_the_code_or_that_there_are_several() -> None:
    """Nothing where no line ends with a code."""
    assert where_more("No. [VM141]\n") == "`vmstorage explain VM141` says more."
    assert where_more("No. [VM141]\nNor so. [VM141]\nNor that. [VM142]") == "`vmstorage explain CODE` says more."
    assert where_more("No [VM141] here.") == ""


def test_the_page_has_each_entry_under_an_anchor() -> None:
    """docs/reference/errors.md is what the entries say."""
    assert (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8") == errors_page()
    assert re.findall(r"^### (VM\d{3})$", errors_page(), re.MULTILINE) == list(entries())
