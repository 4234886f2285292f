"""Completion of our options' values by argcomplete, which pytest asks where a shell wants words."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from pytest_vmstorage.lab.choices import Complete, completes


def completing() -> Callable[[str, str], str | type[argparse.Action]]:
    """A function that gives for an option, by its name and its usual action, an action that argcomplete can ask."""
    known = completes()
    return lambda name, usual: _asked(known[name], usual) if name in known else usual


def _asked(complete: Complete, usual: str) -> type[argparse.Action]:
    class Asked(argparse.Action):
        """Stores or appends a value, as the usual action does."""

        @staticmethod
        def completer(prefix: str, **_: object) -> list[str]:
            """The words that argcomplete shows."""
            return complete(prefix)

        def __call__(
            self, _: object, namespace: argparse.Namespace, values: str | Sequence[Any] | None, *__: object
        ) -> None:
            before = getattr(namespace, self.dest) or []
            setattr(namespace, self.dest, [*before, values] if usual == "append" else values)

    return Asked
