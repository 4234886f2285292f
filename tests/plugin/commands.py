"""Command lines of documents: what they call, and whether pytest's and our own parsers take the words."""

from __future__ import annotations

import configparser
import contextlib
import io
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import pytest_benchmark.plugin
import xdist.plugin
from documents import ROOT

import pytest_vmstorage.plugin
from pytest_vmstorage.cli.command import _parser, file_of_run
from pytest_vmstorage.cli.run import words as run_words
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.variant import Variant
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.plugin.settings import settings_of

OTHER_PLUGINS = ("--reruns", "--timeout", "--html", "--json-report", "--alluredir", "--count", "--cov", "--force-sugar")
"""Options of plugins that documents name and that are not installed here."""

_BEFORE_A_COMMAND = ("if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "exec", "sudo", "env")


class CommandError(Exception):
    """What a parser says of a command line."""


def console_commands(text: str) -> Iterator[tuple[int, str]]:
    """The commands of a console block, with the line that each begins in; raises CommandError for what is none.

    A command begins with `$ ` and goes on in further lines as long as the shell wants more.
    """
    lines = list(enumerate(text.splitlines()))
    while lines:
        number, line = lines.pop(0)
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith("$ "):
            raise CommandError(
                f"{line!r} is no command, which begins with '$ '; what is printed has a block of `text` of its own"
            )
        command = line[2:]
        while lines and (command.endswith("\\") or _shell_says(command)) and not lines[0][1].startswith("$ "):
            command += "\n" + lines.pop(0)[1]
        yield number, command


def check_shell(text: str) -> None:
    """Raise CommandError for what is not the shell's language."""
    if said := _shell_says(text):
        raise CommandError(said)


def _shell_says(text: str) -> str:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    return done.stderr.strip() or ("bash -n refuses it" if done.returncode else "")


def simple_commands(text: str) -> Iterator[list[str]]:
    """The commands of a piece of shell with their words, whatever joins them; redirections are left out."""
    lines = text.replace("\\\n", " ").splitlines()
    while lines:
        line = lines.pop(0)
        while True:
            try:
                words = _words(line)
                break
            except ValueError:
                # a quotation goes on
                if not lines:
                    raise CommandError(f"a quotation has no end: {line!r}") from None
                line += "\n" + lines.pop(0)
        yield from _divided(words)


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def _divided(words: Sequence[str]) -> Iterator[list[str]]:
    command: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word[0] in "<>" or word in ("&>", "&>>"):
            if command and command[-1] in ("1", "2"):
                command.pop()
            rest = rest[1:]
        elif not set(word) - set("();|&"):
            yield from [command] if command else []
            command = []
        elif command or not (word in _BEFORE_A_COMMAND or re.match(r"\w+=", word)):
            command.append(word)
    yield from [command] if command else []


def _check_variant(variant: Variant) -> None:
    """Raise ConfigError where neither a raw image nor a qcow2 one can be changed so."""
    try:
        variant.of(StorageConfig())
    except ConfigError:
        variant.of(StorageConfig(format="qcow2"))


class Parsers:
    """pytest's parser with our plugin, the command's, and tox' environments; each raises CommandError."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self._pytester = pytester
        # named, since to look for them takes half of the time
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.plugins = [pytest_vmstorage.plugin, pytest_benchmark.plugin, xdist.plugin]

    def check(self, text: str) -> None:
        """Hold each command of a piece of shell against what would read it."""
        check_shell(text)
        for words in simple_commands(text):
            self._check_one(words)

    def _check_one(self, words: list[str]) -> None:
        name, *rest = words
        program = name.rpartition("/")[2]
        if program.startswith("python") and rest[:2] == ["-m", "pytest"]:
            program, rest = "pytest", rest[2:]
        if program in ("sh", "bash") and "-c" in rest:
            self.check(rest[rest.index("-c") + 1])
        elif program == "git" and rest[:2] == ["bisect", "run"]:
            self._check_one(rest[2:])
        elif program == "pytest":
            self.check_pytest(rest)
        elif program == "vmstorage":
            self._check_vmstorage(rest)
        elif program == "tox":
            self._check_tox(rest)
        elif name.startswith(("script/", ".ci/")):
            self._check_script(name, rest)

    def config(self, words: Sequence[str]) -> pytest.Config:
        """pytest's configuration as with these words."""
        words = [one for one in words if not one.startswith(OTHER_PLUGINS)]
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                return self._pytester.parseconfig(*words)
        except (pytest.UsageError, SystemExit) as error:
            raise CommandError(f"pytest {shlex.join(words)}: {error} {said.getvalue()}".strip()) from None

    def check_pytest(self, words: Sequence[str]) -> None:
        """Hold these words against pytest's parser, and the values of our options against what reads them."""
        config = self.config(words)
        try:
            settings = settings_of(config)
            if settings.variant is not None:
                _check_variant(settings.variant)
            if settings.matrix_file.text and settings.matrix_file.path.exists():
                _ = settings.matrix
            if settings.inventory is not None or not re.search("tag:|all", settings.host_names):
                _ = settings.hosts
        except VmStorageError as error:
            raise CommandError(str(error)) from None

    def _check_vmstorage(self, words: Sequence[str]) -> None:
        theirs: list[str] = []
        for word in words:
            # a job that the reader has
            if word.endswith(".fio") and not Path(word).exists():
                Path(word).write_text("[job]\nrw=randread\n")
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                if words[:1] == ["run"]:
                    ours, theirs = run_words.split_words(words[1:])
                    words = ["run", *ours]
                arguments = _parser().parse_args(list(words))
            if words[:1] == ["run"]:
                file_of_run(arguments, theirs)
        except (SystemExit, VmStorageError) as error:
            if not (isinstance(error, SystemExit) and error.code == 0):
                raise CommandError(f"vmstorage {shlex.join(words)}: {error} {said.getvalue()}".strip()) from None
        self.check_pytest(theirs)

    def _check_tox(self, words: Sequence[str]) -> None:
        known = configparser.ConfigParser(interpolation=None)
        known.read(ROOT / "tox.ini")
        text = " ".join(words)
        for name in ",".join(re.findall(r"-e[ =]?([\w,]+)", text)).split(","):
            if name and f"testenv:{name}" not in known and name not in known["tox"]["env_list"]:
                raise CommandError(f"tox.ini has no environment {name!r}")

    def _check_script(self, name: str, words: Sequence[str]) -> None:
        if not (ROOT / name).is_file():
            raise CommandError(f"there is no {name}")
        if name == "script/demo":
            self.check_pytest(words)
        elif name == "script/test":
            self._check_tox(words)
