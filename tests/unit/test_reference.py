"""docs/reference is what the code says, and what any document names of options, axes, metrics and others exists."""

from __future__ import annotations

import ast
import functools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vmstorage import names
from pytest_vmstorage.cli.run.words import WORKLOADS
from pytest_vmstorage.config.cell import ALLOWED, FIELDS, StorageConfig
from pytest_vmstorage.config.rules import RULES
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.guest.facts import GuestFacts
from pytest_vmstorage.measure.proof.cell import attest, attest_guest
from pytest_vmstorage.measure.proof.evidence import Evidence
from pytest_vmstorage.plugin.options import NOT_AXES, OPTIONS, ini_name
from pytest_vmstorage.report.csv import HEADER
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.workloads.base import Workload

sys.path.insert(0, str(Path(__file__).parents[2] / "script"))
from reference_pages import axes, command, fixtures, hooks, markdown, workloads
from reference_pages.pages import PAGES

ROOT = Path(__file__).parents[2]
RECORDINGS = Path(__file__).parent / "recordings"
REFERENCE = ROOT / "docs" / "reference"

DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    # it shows the slips that errors are about
    if path != REFERENCE / "errors.md"
}
OPTION_NAMES = [one[0] for _, _, options in OPTIONS for one in options]


def page(name: str) -> str:
    """A page of the reference, as it is checked in."""
    return (REFERENCE / name).read_text(encoding="utf-8")


def found(pattern: str) -> Iterator[tuple[str, str]]:
    """What a pattern's group matches in any document, each with that document."""
    return ((one, name) for name, text in DOCUMENTS.items() for one in re.findall(pattern, text))


def unknown(pattern: str, known: object) -> set[tuple[str, str]]:
    """What a pattern's group matches and is not known, with its document."""
    assert hasattr(known, "__contains__")
    return {(one, name) for one, name in found(pattern) if one not in known}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    """Otherwise: .venv/bin/python script/reference."""
    assert page(name) == PAGES[name]()


def test_no_page_is_left_of_what_was_once_made() -> None:
    """A page whose program is gone would never be written anew."""
    made = {str(path.relative_to(REFERENCE)) for path in REFERENCE.rglob("*.json")}
    made |= {
        str(path.relative_to(REFERENCE))
        for path in REFERENCE.rglob("*.md")
        if "`script/reference` writes this page" in path.read_text(encoding="utf-8")
    }
    assert made == {*PAGES}


def test_every_text_is_of_something_that_exists() -> None:
    """A text about what was taken away is read by nobody, and told by no page."""
    assert markdown.read_sections("option_texts.md", steps="").keys() == {*OPTION_NAMES, NOT_AXES}
    assert markdown.read_sections("axis_texts.md", buses="", caches="").keys() == {*FIELDS}
    assert markdown.read_sections("command_texts.md").keys() <= command.commands().keys()
    assert markdown.read_sections("mark_texts.md").keys() == {*fixtures.mark_names()}
    assert markdown.read_sections("hook_texts.md").keys() == {*hooks.hook_names()}
    assert markdown.read_sections("column_texts.md").keys() <= {*HEADER}


def test_all_that_exists_stands_in_the_reference() -> None:
    """Options, axes, rules, fixtures, marks, workloads with options and metrics, commands, hooks, columns."""
    public = {getattr(names, name) for name, home in names.HOMES.items() if home.startswith("workloads.")}
    kinds = {one.__name__ for one in public if issubclass(one, Workload) and one is not Workload}
    assert {*workloads.ORDER} == kinds == {one.call for one in WORKLOADS.values()}
    fields = {name for kind in workloads.ORDER for name in getattr(names, kind).model_fields}
    for where, wanted in {
        "options.md": [f"`--vm-{name}" for name in OPTION_NAMES] + [ini_name(name) for name in OPTION_NAMES],
        "axes.md": [f"### {name}\n" for name in FIELDS] + [f"### Rule {rule.name}\n" for rule in RULES],
        "fixtures.md": [f"## {name}\n" for name in fixtures.fixture_names()],
        "marks.md": [f"## {name}\n" for name in fixtures.mark_names()],
        "workloads.md": [f"| `{name}` |" for name in fields] + [f"`{name}`" for name in workloads.metric_names()],
        "command.md": [f"## {name}\n" for name in command.commands()],
        "hooks.md": [f"## {name}\n" for name in hooks.hook_names()],
        "files.md": [f"`{name}`" for name in (*HEADER, *Run.model_fields)],
    }.items():
        assert [one for one in wanted if one not in page(where)] == [], where


def test_axes_have_a_description() -> None:
    """The first line of each axis, which JSON schemas have too."""
    assert [name for name in FIELDS if not StorageConfig.model_fields[name].description] == []


def test_a_rule_is_told_at_each_axis_that_has_a_part_in_it() -> None:
    """Found by changing one field of a cell that breaks it."""
    assert axes.fields_of(next(rule for rule in RULES if rule.name == "raw-metadata")) == ("format", "preallocation")
    last = next(rule for rule in RULES if rule.name == "vcpus-of-machine")
    assert axes.fields_of(last) == ("bus", "machine", "vcpus")


def recorded() -> Iterator[tuple[str, str]]:
    """Each field that recordings of real guests prove something of, with the source."""
    for path in sorted(RECORDINGS.glob("evidence-qemu-7.2-*.json")):
        saved = json.loads(path.read_text())
        try:
            config = StorageConfig(**saved["config"])
        except ConfigError:
            # rules refuse it by now
            continue
        facts = attest_guest(config, GuestFacts.model_validate(saved["guest"])) if saved["guest"] else ()
        for proof in (*attest(config, "tcg", Evidence.model_validate(saved["evidence"])), *facts):
            yield proof.field, proof.where.partition(",")[0]


def test_the_sources_of_a_proof_are_those_that_the_page_names() -> None:
    """Of each axis, as far as guests were recorded."""
    told = {
        name: " ".join(text.partition("Proven by:")[2].split())
        for name, text in markdown.read_sections("axis_texts.md", buses="", caches="").items()
    }
    sources = {(field, where) for field, where in recorded() if where and field in FIELDS}
    assert len(sources) > 60
    assert {(field, where) for field, where in sources if where not in told[field]} == set()


def test_options_that_documents_name_exist() -> None:
    """Of pytest and of the command, and their names in the ini file."""
    known = {*OPTION_NAMES} | {
        word.removeprefix("--vm-") for name in command.commands() for word in command.options_of(name)
    }
    # begun, for a shell to complete
    known |= {"acc"}
    assert unknown(r"--vm-([a-z0-9]+(?:-[a-z0-9]+)*)", known) == set()
    assert unknown(r"(?<![\w/-])(vm_[a-z_]+\w) = ", {*map(ini_name, OPTION_NAMES), NOT_AXES}) == set()


def test_marks_fixtures_and_hooks_that_documents_name_exist() -> None:
    """Beside pytest's own."""
    own = {"parametrize", "skip", "skipif", "xfail", "usefixtures", "filterwarnings"}
    assert unknown(r"pytest\.mark\.(\w+)", {*fixtures.mark_names(), *own}) == set()
    shipped = {"pytest_vmstorage_user"} | {*hooks.hook_names()}
    assert unknown(r"\b(pytest_vmstorage_\w+)", shipped) == set()


def test_subcommands_that_documents_name_exist() -> None:
    """In code spans and in lines of a shell."""
    assert unknown(r"(?:`|\$ )vmstorage ([a-z]+)\b", command.commands()) == set()


def test_axes_and_their_values_that_documents_name_exist() -> None:
    """In marks, in code spans such as `backing="native"`, and in lists of parametrize."""
    assert unknown(r"mark\.storage\((\w+)=", FIELDS) == set()
    for axis, words in ALLOWED.items():
        said = {one for one, _ in found(rf'(?<![\w.-]){axis}="([\w-]+)"')}
        assert said <= {*words}, axis
        swept = [re.findall(r'"([\w-]+)"', one) for one, _ in found(rf'parametrize\("{axis}", \[([^\]]*)\]')]
        assert {word for line in swept for word in line} <= {*words, "default"}, axis


def test_defaults_that_documents_name_are_those_of_the_code() -> None:
    """The table of axes is made from the fields; a sentence such as "the axis's default, `writeback`" is nobody's."""
    rows = re.findall(r"^\| \[`(\w+)`\]\(#\1\) \| .* \| (.+) \|$", page("axes.md"), re.MULTILINE)
    assert [name for name, _ in rows] == [*FIELDS]
    assert {name: said for name, said in rows if said != axes.default_of(name)} == {}


def test_workloads_with_their_options_that_documents_name_exist() -> None:
    """Each keyword of a call, in code and in code spans."""
    for kind in workloads.ORDER:
        # nosuch is shown as an error
        fields = {*getattr(names, kind).model_fields, "shown", "nosuch"}
        calls = [one for one, _ in found(rf"\b{kind}\(([^()]*)\)")]
        assert {word for call in calls for word in re.findall(r"\b(\w+)=", call)} <= fields, kind


def test_metrics_that_documents_name_exist() -> None:
    """Attributes of a result, thresholds by name."""
    known = (
        workloads.metric_names()
        | {*Measurement.model_fields}
        | {name for name in dir(Measurement) if not name.startswith("_")}
    )
    # shown as an error, and short for each metric that ends so
    known |= {"iopsss", "p99"}
    assert unknown(r"\bresult\.([a-z]\w*)", known) == set()
    assert unknown(r'at_(?:least|most)=\{"(\w+)"', known) == set()
    assert unknown(r"--at-(?:least|most)[ =](\w+)=\d", known) == set()


def test_sentences_of_errors_that_documents_quote_are_in_the_code() -> None:
    """All that stands behind "ERROR:", the remedy included; what scripts print anew is real by itself."""
    quoted = [(" ".join(one.split()), name) for one, name in found(r"\nERROR: ((?:[^\n`]+(?:`[^\n`]+`[^\n`]*)*\n)+)")]
    assert quoted
    assert [(one, name) for one, name in quoted if not is_told(one)] == []


def is_told(text: str) -> bool:
    """Whether the code has a sentence and a remedy that make up this text, but for the values in them."""
    text = re.sub(r" \[VM\d+\]$", "", text)
    begins = (re.match(one, text) for one in patterns_for(text))
    rests = {text[one.end() :].strip() for one in begins if one}
    return any(not rest or any(re.fullmatch(one, rest) for one in patterns_for(rest)) for rest in rests)


def patterns_for(text: str) -> Iterator[str]:
    """Patterns of the sentences whose longest piece is in the text: values may be anything."""
    for pieces in sentences():
        if max(pieces, key=len) in text:
            yield ".+?".join(map(re.escape, pieces))


@functools.cache
def sentences() -> tuple[tuple[str, ...], ...]:
    """The texts in the package that may be sentences, each as the pieces between its values."""
    made = set()
    for path in (ROOT / "pytest_vmstorage").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if "Error(" in text else ():
            if isinstance(node, ast.Constant | ast.JoinedStr):
                made.add(pieces_of(node))
    # what says nothing without its values fits everything
    return tuple(one for one in made if sum(map(len, one)) >= 12)


def pieces_of(node: ast.Constant | ast.JoinedStr) -> tuple[str, ...]:
    """The constant pieces of a text, "" where a value begins or ends it; nothing for what is no text."""
    if isinstance(node, ast.Constant):
        return (node.value,) if isinstance(node.value, str) else ()
    pieces = [""]
    for one in node.values:
        if isinstance(one, ast.Constant):
            pieces[-1] += str(one.value)
        else:
            pieces.append("")
    return tuple(pieces)


def test_a_change_of_the_code_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page of axes is made from the rules as they are now."""
    first, *rest = RULES
    monkeypatch.setattr(axes, "RULES", (first._replace(reason="it is another"), *rest))
    assert PAGES["axes.md"]() != page("axes.md")


def test_a_sentence_that_no_code_has_is_seen() -> None:
    """The check above is one that can fail: for another sentence, and for another remedy."""
    assert is_told("--vm-wait= is empty and does nothing. Give it a value, or leave it out.")
    assert not is_told("--vm-wait= is empty and does nothing. Give it two values.")
    assert not is_told("--vm-wait=3m is a time that nobody has.")
