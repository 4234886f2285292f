"""The `vmstorage` command itself: its version, and an output that nobody reads on."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from pytest_vmstorage.cli import command
from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.testing.builders import make_measurement, make_run


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    """By the option that every command has."""
    with pytest.raises(SystemExit) as ended:
        command.main(["--version"])
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out == f"pytest-vmstorage {version('pytest-vmstorage')}\n"


def test_without_a_word_it_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """With the status of wrong usage."""
    assert command.main([]) == 2
    said = capsys.readouterr().err
    assert all(f"\n    {name} " in said for name in COMMANDS)


def test_run_has_help_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """With examples, wherever the option stands."""
    for words in (["--help"], ["--axis", "format=raw", "-h"]):
        with pytest.raises(SystemExit) as ended:
            command.main(["run", *words])
        assert ended.value.code in (0, None)
        assert '  vmstorage run --axis format=raw,qcow2 --axis cache=none,writeback --fio "' in capsys.readouterr().out


COMMANDS = ("run", "doctor", "image", "reap", "exec", "show", "time", "report", "promote")


def help_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What --help prints behind these words."""
    with pytest.raises(SystemExit) as ended:
        command.main([*words, "--help"])
    assert ended.value.code in (0, None)
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_says_what_a_command_is_for_with_examples(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 80 columns; each example but those of `run`, which has tests of its own, is one that can be written."""
    monkeypatch.setenv("COLUMNS", "80")
    said = help_of([name] if name else [], capsys)
    examples = [shlex.split(line, comments=True) for line in said.splitlines() if line.startswith("  vmstorage ")]
    assert "\nexamples:\n" in said
    assert len(examples) >= 2
    assert not said.partition("\n\n")[2].startswith("options:")
    for _, *words in examples:
        # what stands behind a pipe is the shell's
        own = list(itertools.takewhile(lambda word: word != "|", words))
        assert not name or own[0] == name
        if own[0] != "run":
            assert command._parser().parse_args(own).run
    if name != "run":
        assert max(map(len, said.splitlines())) <= 80


def test_a_host_is_named_alike_everywhere() -> None:
    """--vm-host as in pytest, and --host for short."""
    for name in ("doctor", "reap"):
        for option in ("--vm-host", "--host"):
            assert command._parser().parse_args([name, option, "lab01"]).vm_host == "lab01"


PROOFS = tuple(
    Proof(field="format", asked="raw", found=str(number), status="proven", where="live XML") for number in range(9999)
)


@pytest.mark.parametrize(("command", "proofs"), [("show", ()), ("show", PROOFS), ("--version", ())])
def test_an_output_that_nobody_reads_is_no_error(tmp_path: Path, command: str, proofs: tuple[Proof, ...]) -> None:
    """As with `| head -3`: no traceback, and the status of a program that SIGPIPE ended, however much it had to say."""
    report = tmp_path / "r.json"
    report.write_text(render_json(make_run(make_measurement().model_copy(update={"proof": proofs}))))
    arguments = [command, *(["raw-none-virtio-blk-off", str(report)] if command == "show" else [])]
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest_vmstorage.cli.command", *arguments],
            stdout=write, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    finally:
        os.close(write)
    assert done.stderr == ""
    assert done.returncode == 141


def test_another_pipe_that_broke_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """One to a command that the plugin runs has nothing to do with who reads this one's output."""

    def broken(*_: object) -> object:
        raise BrokenPipeError("of another")

    monkeypatch.setattr(command, "show_cell", broken)
    monkeypatch.setattr(command, "newest_run", broken)
    with pytest.raises(BrokenPipeError, match="of another"):
        command.main(["show", "raw"])


@pytest.mark.parametrize(
    ("words", "line"),
    [(["uname", "-a"], "uname -a"), (["cat", "/my file"], "cat '/my file'"), (["ls /; id"], "ls /; id")],
    ids=str,
)
def test_a_single_word_of_exec_is_a_line_of_sh(words: list[str], line: str) -> None:
    """As ssh takes it."""
    assert command.command_line(words) == line
