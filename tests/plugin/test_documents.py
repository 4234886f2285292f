"""Every code block of the documents is run on the fake lab, or read by what would read it.

The language of a fence says how its block is held to be true:

- `python` with a test in it is a whole test file that passes; other Python is compiled. A first line that is a comment
  with a file's name (`# conftest.py`, `# test_disk.py`, `# vmstorage.toml`) puts a block into a folder with the others
  of its page that have one; a name that comes again begins another folder.
- `console` has commands, behind `$ `, and `sh` is a script: the words of pytest, `vmstorage`, tox and script/ go
  through their own parsers, and so do `run:` lines of `yaml` and `addopts` of `ini`.
- `toml` is read as what its tables say it is: vmstorage.toml, a matrix, a gate file, pyproject.toml.
- `text` is printed by a program: `<!-- output: NAME -->` says by which script of docs/outputs, its title at which
  commit; script/outputs makes both.
- a fence without a language is a drawing.

`<!-- test: parse -->` on the line before: compiled or read only. `<!-- test: fails -->`: its tests fail, or the run is
refused.
"""

from __future__ import annotations

import ast
import configparser
import datetime
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

import pytest
from commands import CommandError, Parsers, console_commands, simple_commands
from documents import OUTPUTS, ROOT, Block, UnclosedFenceError, blocks_of, marks_of, pages, with_output
from projects import RANDOM_WRITE, text_of

from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.gate.policy_file import load_gate_file
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.config.matrix import load_matrix
from pytest_vmstorage.errors import ConfigError

PAGES = pages()
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
PRINTED_AT = re.compile(
    r"printed at [0-9a-f]{7,12}(?P<where>, under software emulation \(TCG\)|, under KVM|, without a guest)?"
)
FIGURES = re.compile(r"\d ?k? IOPS|\d [KMG]i?B/s|±")


def blocks(page: str) -> list[Block]:
    """The page's blocks."""
    return list(blocks_of(page, TEXTS[page]))


def told(flaws: list[str]) -> str:
    """All of them, a line each."""
    return "\n".join(["", *filter(None, flaws)])


class Reader:
    """What reads blocks; each of its methods raises for a block that cannot be read, and returns what it found."""

    def __init__(self, parsers: Parsers) -> None:
        self.parsers = parsers

    def flaw(self, block: Block) -> str:
        """What is wrong with the block, "" for nothing."""
        wrong = [mark for mark in block.marks if (mark.name, mark.value) not in KNOWN_MARKS and mark.name != "output"]
        if wrong:
            return f"{block.place}: nobody knows <!-- {wrong[0].name}: {wrong[0].value} -->"
        if block.rest:
            return f"{block.place}: nobody knows {block.rest!r} behind the language"
        read = getattr(self, f"read_{block.language or 'drawing'}", None)
        if read is None:
            return f"{block.place}: nobody reads the language {block.language!r}"
        try:
            read(block)
        except READERS_SAY as error:
            return f"{block.place}: {type(error).__name__}: {error}"
        return ""

    def read_python(self, block: Block) -> None:
        """Python's own compiler."""
        compile(block.text, block.place, "exec", dont_inherit=True)

    def read_console(self, block: Block) -> None:
        """Each command by the parser of what it calls."""
        for _, command in console_commands(block.text):
            self.parsers.check(command)

    def read_sh(self, block: Block) -> None:
        """The same of a script."""
        self.parsers.check(block.text)

    def read_toml(self, block: Block) -> None:
        """The loader of files with these tables."""
        tables = tomllib.loads(block.text)
        if {"tool", "project", "build-system", "dependency-groups"} & tables.keys():
            self._check_ini(tables.get("tool", {}).get("pytest", {}).get("ini_options", {}))
        elif {"hosts", "machines", "images"} & tables.keys():
            load_inventory(block.text, block.place)
        elif {"axes", "only", "exclude", "reduce"} & tables.keys():
            load_matrix(block.text, block.place)
        elif {"tolerated", "day_spread", "cells", "waivers", "levels", "history"} & tables.keys():
            load_gate_file(block.text, block.place, GatePolicy(today=datetime.date(2026, 1, 1)))
        else:
            raise CommandError(f"no file has {', '.join(tables)} at its top")

    def read_ini(self, block: Block) -> None:
        """pytest's own options of its section, and tox' commands."""
        parser = configparser.ConfigParser(interpolation=None)
        parser.read_string(block.text)
        for name in parser.sections():
            if name in ("pytest", "tool:pytest"):
                self._check_ini(parser[name])
            elif "commands" in parser[name]:
                self.parsers.check(parser[name]["commands"].strip())

    def _check_ini(self, options: Mapping[str, object]) -> None:
        known = self.parsers.config(())._parser._inidict
        unknown = options.keys() - known.keys()
        if unknown:
            raise CommandError(f"pytest knows no ini option {', '.join(sorted(unknown))}")
        given = options.get("addopts", "")
        self.parsers.check_pytest(shlex.split(given) if isinstance(given, str) else list(given))
        for name, value in options.items():
            if name.startswith("vm_") and name != "vm_not_axes":
                self.parsers.check_pytest([f"-o{name}={value}"])

    def read_yaml(self, block: Block) -> None:
        """YAML's parser, and each `run:` as a script."""
        yaml = pytest.importorskip("yaml")
        try:
            found = yaml.safe_load(block.text)
        except yaml.YAMLError as error:
            raise CommandError(str(error)) from None
        for script in _runs(found):
            self.parsers.check(script)

    def read_json(self, block: Block) -> None:
        """JSON's parser."""
        json.loads(block.text)

    def read_xml(self, block: Block) -> None:
        """XML's parser."""
        ElementTree.fromstring(block.text)

    def read_text(self, block: Block) -> None:
        """What a script of docs/outputs printed, under a title with the commit."""
        made_by = block.values("output")
        if len(made_by) != 1:
            raise CommandError("a text is printed by a script: say <!-- output: NAME -->, or leave the language away")
        if not (OUTPUTS / f"{made_by[0]}.sh").is_file():
            raise CommandError(f"there is no docs/outputs/{made_by[0]}.sh")
        printed = PRINTED_AT.fullmatch(block.title)
        if not printed:
            raise CommandError(f"{block.title!r} is no title: `script/outputs {made_by[0]}` makes text and title")
        if FIGURES.search(block.text) and not printed["where"]:
            raise CommandError(
                "a title says where figures are from: ', under software emulation (TCG)', ', under KVM' or"
                " ', without a guest'"
            )

    def read_drawing(self, block: Block) -> None:
        """Nobody, if it is a drawing."""
        if FIGURES.search(block.text):
            raise CommandError("figures are printed by a script: write ```text, and who makes it")


KNOWN_MARKS = (("test", "parse"), ("test", "fails"))
READERS_SAY = (CommandError, ConfigError, SyntaxError, ValueError, configparser.Error, ElementTree.ParseError)


def _runs(found: object) -> Iterator[str]:
    if isinstance(found, Mapping):
        for key, value in found.items():
            yield from [value] if key == "run" and isinstance(value, str) else _runs(value)
    elif isinstance(found, list):
        for one in found:
            yield from _runs(one)


@pytest.fixture
def reader(project, monkeypatch):
    """A reader in an empty folder."""
    return Reader(Parsers(project.pytester, monkeypatch))


@pytest.mark.parametrize("page", PAGES)
def test_each_block_is_read_by_what_would_read_it(page, reader, project):
    """Options that do not exist, values that are refused, misspelt fields, unknown languages and marks are flaws."""
    for block in blocks(page):
        # commands of the page may name them
        if block.file and block.language in ("toml", "ini"):
            (project.path / block.file).write_text(block.text)
    flaws = [reader.flaw(block) for block in blocks(page) if block.language != "yaml"]
    assert not any(flaws), told(flaws)


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.language == "yaml" for block in blocks(page))])
def test_each_workflow_is_read_with_its_commands(page, reader):
    """By PyYAML, which the environments for one version of pytest have not."""
    pytest.importorskip("yaml")
    flaws = [reader.flaw(block) for block in blocks(page) if block.language == "yaml"]
    assert not any(flaws), told(flaws)


@pytest.mark.parametrize("page", PAGES)
def test_each_mark_stands_right_before_a_block(page):
    """Or nothing would read it."""
    heeded = {mark for block in blocks(page) for mark in block.marks}
    flaws = [f"{page}:{mark.line}: {mark.value}" for mark in marks_of(page, TEXTS[page]) if mark not in heeded]
    flaws += [block.place for block in blocks(page) if block.values("output") and block.language != "text"]
    assert not flaws, told(flaws)


def has_test(block: Block) -> bool:
    """Whether it is a test file."""
    if block.language != "python":
        return False
    names = [node.name for node in ast.parse(block.text).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return any(name.startswith(("test_", "Test")) for name in names)


# beside a conftest.py that stands alone
MEASURES = (
    RANDOM_WRITE + '@pytest.mark.parametrize("format", ["raw", "qcow2"])\ndef test_it(measure):\n    measure(FIO)\n'
)
BETWEEN_CELLS = re.compile(r"\b(?:cells|assert_(?:ratio|fastest|monotonic))\b")


def folders_of(found: list[Block]) -> list[dict[str, Block]]:
    """The blocks that are run, by their files' names: a folder for each test file, and one for named files together."""
    named: list[dict[str, Block]] = []
    alone: list[dict[str, Block]] = []
    for block in found:
        if "parse" in block.values("test"):
            continue
        if block.file:
            if not named or block.file in named[-1]:
                named.append({})
            named[-1][block.file] = block
        elif has_test(block):
            alone.append({f"test_{re.sub(r'[^a-z0-9]+', '_', block.page.lower())}_{block.line}.py": block})
    return [*alone, *(one for one in named if "conftest.py" in one or any(map(has_test, one.values())))]


FOLDERS = [folder for page in PAGES for folder in folders_of(blocks(page))]
TOGETHER = [
    folder
    for folder in FOLDERS
    if len(folder) == 1
    and not any(block.file or block.values("test") or BETWEEN_CELLS.search(block.text) for block in folder.values())
]
"""Those that may share a run: nothing in them is of all tests."""
APART = [folder for folder in FOLDERS if folder not in TOGETHER]


def run_files(project, folder, *options):
    """What a run of these files printed, and its reports by file."""
    for name, block in folder.items():
        (project.path / name).write_text(block.text)
    if not any(map(has_test, folder.values())):
        project.write(test_of_the_documents=MEASURES)
    result = project.run(
        "--vm-seed=1", "-p", "no:cacheprovider", "--tb=short", "--continue-on-collection-errors", *options
    )
    reports = [
        one for one in result.reprec.getreports("pytest_runtest_logreport") if one.when == "call" or not one.passed
    ]
    return result, {name: [one for one in reports if one.nodeid.startswith(f"{name}::")] for name in folder}


def test_test_files_pass_that_may_share_a_run(project):
    """Each of their tests."""
    together = {name: block for folder in TOGETHER for name, block in folder.items()}
    result, reports = run_files(project, together)
    flaws = [
        f"{together[name].place}: {', '.join(f'{one.nodeid} {one.outcome}' for one in found) or 'no test ran'}"
        for name, found in reports.items()
        if not found or any(one.outcome != "passed" for one in found)
    ]
    assert not flaws, told([*text_of(result).splitlines()[-20:], *flaws])
    assert result.ret == 0


@pytest.mark.parametrize("folder", APART, ids=[next(iter(folder.values())).place for folder in APART])
def test_test_files_do_what_the_page_says_that_want_a_run_of_their_own(folder, project):
    """They pass, or fail where the page says so: those with a conftest.py or between cells, and files of one folder."""
    # as many rounds as tests between cells need to decide
    between = any(BETWEEN_CELLS.search(block.text) for block in folder.values())
    result, reports = run_files(project, folder, *(["--vm-rounds=10"] if between else []))
    assert "INTERNALERROR" not in text_of(result)
    fails = [block for block in folder.values() if "fails" in block.values("test")]
    assert (result.ret != 0) == bool(fails), text_of(result)
    if not fails:
        assert [one.nodeid for found in reports.values() for one in found if one.outcome != "passed"] == []


SCRIPTS = sorted(path.stem for path in OUTPUTS.glob("*.sh"))
OUTPUT_BLOCKS = [block for page in PAGES for block in blocks(page) if block.values("output")]


def test_each_script_of_outputs_is_used():
    """By a page at least."""
    assert sorted({block.values("output")[0] for block in OUTPUT_BLOCKS}) == SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_each_script_of_outputs_can_be_run(name, reader):
    """It says what it prints, is the shell's language, its options exist, and so do the blocks that it cuts out."""
    path = OUTPUTS / f"{name}.sh"
    text = path.read_text()
    assert re.match(r"#!/bin/bash\n# .", text)
    assert subprocess.run(["bash", "-n", path], check=False).returncode == 0
    without_files = re.sub(r"<<'?(\w+)'?\n.*?\n\1\n", "\n", text, flags=re.DOTALL)
    for words in simple_commands(without_files.replace("$folder", "/opt")):
        # what docs/outputs/lib calls so is a run of pytest
        program = "pytest" if words[0] == "measured" else words[0]
        if program in ("pytest", "vmstorage"):
            reader.parsers.check(shlex.join([program, *words[1:]]))
    for language, page, number in re.findall(r"\bblock (\w+) (\S+) (\d+)", text):
        of_language = [block for block in blocks(f"docs/{page}") if block.language == language]
        assert len(of_language) >= int(number), f"docs/{page} has {len(of_language)} blocks of {language}"


FLAWS = [
    ("```python\ndef test(:\n```", "a.md:1: SyntaxError"),
    ("text\n\n```perl\n1\n```", "a.md:3: nobody reads the language 'perl'"),
    ("<!-- test: skip -->\n```python\n```", "a.md:2: nobody knows <!-- test: skip -->"),
    ("```python linenums=1\n```", "a.md:1: nobody knows 'linenums=1'"),
    ("```console\n$ pytest --vm-huhu=1\n```", "--vm-huhu"),
    ("```console\n$ pytest --vm-accel=warp\n```", "--vm-accel=warp is not known"),
    ("```console\n$ pytest --vm-against=cache=fast\n```", "fast"),
    ("```console\n$ cd x && pytest --vm-rounds=0 | tee y\n```", "--vm-rounds=0 is not a number of rounds"),
    ("```console\n$ git bisect run sh -c 'make &&\n  pytest --vm-nothing'\n```", "--vm-nothing"),
    ("```console\n$ ls 'a\n```", "bash"),
    ("```console\n$ pytest\n4 passed\n```", "'4 passed' is no command"),
    ("```console\n$ vmstorage shwo CELL\n```", "invalid choice: 'shwo'"),
    ("```console\n$ vmstorage doctor --json --fast\n```", "--fast"),
    ('```console\n$ vmstorage run --axis format=raw --fio "rw=randred bs=4k"\n```', "randred"),
    ("```console\n$ vmstorage run --fio rw=randread -- --strange\n```", "--strange"),
    ("```console\n$ tox -e nowhere\n```", "tox.ini has no environment 'nowhere'"),
    ("```console\n$ script/nothing\n```", "there is no script/nothing"),
    ("```sh\nif true; then pytest --vm-huhu; fi\n```", "--vm-huhu"),
    ("```sh\nif true; then\n```", "syntax error"),
    ('```toml\n[hosts.lab01]\nsshd = "x"\n```', "sshd"),
    ('```toml\n[axes]\nformt = ["raw"]\n```', "formt"),
    ('```toml\ntolerated = "lots"\n```', "lots"),
    ("```toml\n[tool.pytest.ini_options]\nvm_hots = 1\n```", "no ini option vm_hots"),
    ("```toml\n[garden]\n```", "no file has garden at its top"),
    ("```toml\na = \n```", "a.md:1: TOMLDecodeError"),
    ("```ini\n[pytest]\naddopts = --vm-huhu\n```", "--vm-huhu"),
    ("```ini\n[pytest]\nvm_units = miles\n```", "--vm-units=miles is not known"),
    ("```json\n{\n```", "JSONDecodeError"),
    ("```xml\n<a>\n```", "ParseError"),
    ("```text\nx\n```", "say <!-- output: NAME -->"),
    ("<!-- output: nobody -->\n```text\nx\n```", "there is no docs/outputs/nobody.sh"),
    ("```\nraw 12k IOPS\n```", "figures are printed by a script"),
]


@pytest.mark.parametrize(("page", "sentence"), FLAWS)
def test_a_flaw_is_told_with_page_and_line(page, sentence, reader):
    """Of each kind once."""
    (block,) = blocks_of("a.md", page)
    assert sentence in reader.flaw(block)


def test_a_workflow_is_read_with_its_commands(reader):
    """`run:` at any depth, and none that is not one."""
    pytest.importorskip("yaml")
    for text, sentence in (
        ("- run: pytest --vm-huhu", "--vm-huhu"),
        ("jobs:\n  a:\n    steps:\n    - run: |\n        set -e\n        pytest --vm-units=si", ""),
        ("a: [", "a.md:1: "),
    ):
        (block,) = blocks_of("a.md", f"```yaml\n{text}\n```")
        flaw = reader.flaw(block)
        assert sentence in flaw
        assert bool(flaw) == bool(sentence)


def test_titles_are_those_of_the_command(tmp_path, monkeypatch):
    """With a commit, and the acceleration behind which figures stand."""
    monkeypatch.setattr("test_documents.OUTPUTS", tmp_path)
    (tmp_path / "x.sh").touch()
    for title, text, sentence in (
        ("", "x", "is no title"),
        ("printed today", "x", "is no title"),
        ("printed at 01f382e", "x", ""),
        ("printed at 01f382e", "raw 10k IOPS", "a title says where figures are from"),
        ("printed at 01f382e, under software emulation (TCG)", "raw 10k IOPS", ""),
    ):
        (block,) = blocks_of("a.md", f'<!-- output: x -->\n```text title="{title}"\n{text}\n```')
        flaw = Reader(None).flaw(block)
        assert sentence in flaw
        assert bool(flaw) == bool(sentence)


def test_blocks_are_found_where_they_are():
    """In a list, in a longer fence, behind several marks, and an end that is missing is told."""
    page = (
        "1. a\n\n   <!-- output: x -->\n   <!-- test: parse -->\n"
        '   ```text title="t"\n   one\n\n     two\n   ```\n\n````markdown\n```python\n````\n'
    )
    first, second = blocks_of("a.md", page)
    assert (first.line, first.language, first.title, first.text) == (5, "text", "t", "one\n\n  two\n")
    assert (first.values("output"), first.values("test")) == (["x"], ["parse"])
    assert (second.line, second.language, second.text) == (11, "markdown", "```python\n")
    assert [mark.line for mark in marks_of("a.md", page)] == [3, 4]
    with pytest.raises(UnclosedFenceError, match=r"a\.md:1"):
        list(blocks_of("a.md", "```python\n"))


def test_an_output_is_written_into_its_blocks():
    """In each that names it, with the indentation of its fence; others stay."""
    page = '<!-- output: x -->\n```text title="printed"\nold\n```\n- a\n\n  <!-- output: x -->\n  ```text\n  ```\nend\n'
    made = with_output("a.md", page, "x", "one\n\ntwo", "printed at 01f382e")
    fence = '```text title="printed at 01f382e"\none\n\ntwo\n```\n'
    assert made == (
        f"<!-- output: x -->\n{fence}- a\n\n  <!-- output: x -->\n  "
        + fence.replace("\n", "\n  ").replace("  \n", "\n").removesuffix("  ")
        + "end\n"
    )
    assert with_output("a.md", made, "y", "three", "printed") == made


def test_files_that_a_page_names_share_a_folder():
    """A name that comes again begins another one; those that are only read are in none."""
    page = (
        "```python\ndef test_alone(): pass\n```\n```python\n# conftest.py\nx = 1\n```\n"
        "```toml\n# vmstorage.toml\n```\n```python\n# test_a.py\ndef test_a(): pass\n```\n"
        "<!-- test: parse -->\n```python\ndef test_b(): pass\n```\n```python\n# conftest.py\nx = 2\n```\n"
    )
    found = folders_of(list(blocks_of("docs/a-b.md", page)))
    assert [sorted(folder) for folder in found] == [
        ["test_docs_a_b_md_1.py"],
        ["conftest.py", "test_a.py", "vmstorage.toml"],
        ["conftest.py"],
    ]
