"""Completion of the command's words by argcomplete, where a shell wants them; nothing else loads this."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from pytest_vmstorage.cli.doctor.examine import KVM
from pytest_vmstorage.lab import completion
from pytest_vmstorage.workloads.metrics import known_names


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Print the words that the shell's line may go on with, and end; return where the shell asked another command.

    Without argcomplete there are none.
    """
    try:
        import argcomplete
    except ImportError:
        os._exit(1)
    metrics = completion.one_of(f"{name}=" for name in sorted(known_names()))
    words = {
        "vm_host": completion.one_of(completion.hosts()),
        "need": lambda begun: [*completion.one_of([KVM])(begun), *completion.axis_value(begun)],
        "axis": completion.axis_value,
        "storage": completion.axis_value,
        "impossible": completion.one_of(("refuse", "leave-out")),
        "at_least": metrics,
        "at_most": metrics,
        "cell": completion.listing(completion.cells),
        "saved": completion.one_of(completion.saved_names()),
        "name": completion.one_of(completion.saved_names()),
    }
    for one in _all(parser):
        for action in one._actions:  # noqa: SLF001 (argparse has no public name for it, and argcomplete reads it too)
            # --storage of promote is a folder
            if action.dest in words and not (action.dest == "storage" and action.default == completion.SAVED):
                action.completer = _completer(words[action.dest])  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _completer(complete: completion.Complete) -> object:
    return lambda prefix, **_: complete(prefix)


def _all(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parser and those of its subcommands."""
    yield parser
    for action in parser._actions:  # noqa: SLF001 (as above)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices.values()
