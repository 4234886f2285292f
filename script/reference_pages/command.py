"""command.md: `vmstorage` with its subcommands, as its parser has them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping

# it is the command's own, and nobody else's: what it says is here told once more
from pytest_vmstorage.cli.command import _parser
from reference_pages.markdown import code, escaped, fill, read_sections, table


def command_page() -> str:
    """The page of the command."""
    told = read_sections("command_texts.md")
    lines, parsers = commands(), _parsers()
    return fill(
        "command.md",
        table=table(("command", "what it is for"), ((f"[{code(name)}](#{name})", lines[name]) for name in parsers)),
        commands="\n\n".join(
            _section(name, parser, lines[name], told.get(name, "")) for name, parser in parsers.items()
        ),
    )


def commands() -> Mapping[str, str]:
    """The line of help of each subcommand, by its name."""
    return {one.dest: _plain(one.help or "") for one in _subparsers()._choices_actions}  # noqa: SLF001


def options_of(name: str) -> list[str]:
    """The options of a subcommand, in all their spellings."""
    return [word for action in _actions(_parsers()[name]) for word in action.option_strings]


def _parsers() -> Mapping[str, argparse.ArgumentParser]:
    return {name: _subparsers().choices[name] for name in commands()}


def _subparsers() -> argparse._SubParsersAction[argparse.ArgumentParser]:
    return next(one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction))  # noqa: SLF001


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    return (one for one in parser._actions if one.dest != "help")  # noqa: SLF001


def _plain(text: str) -> str:
    return text.replace("%%", "%")


def _section(name: str, parser: argparse.ArgumentParser, line: str, told: str) -> str:
    rows = [(_written(action), _plain(action.help or "")) for action in _actions(parser)]
    what = " ".join((parser.description or f"{line[0].upper()}{line[1:]}.").split())
    parts = [
        f"## {name}",
        escaped(what),
        *_examples(parser.epilog or ""),
        *([table(("", ""), rows)] if rows else []),
        *([escaped(told)] if told else []),
    ]
    return "\n\n".join(parts)


def _written(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else ""
    if not action.option_strings:
        return code(value or {"command": "COMMAND ..."}.get(action.dest, action.dest))
    return ", ".join(code(f"{word} {value}".strip() if action.nargs != 0 else word) for word in action.option_strings)


def _examples(epilog: str) -> Iterator[str]:
    """The lines of commands in a help's last part."""
    lines = [line.strip() for line in epilog.splitlines() if line.strip().startswith("vmstorage ")]
    if lines:
        yield "\n".join(["```console", *(f"$ {line}" for line in lines), "```"])
