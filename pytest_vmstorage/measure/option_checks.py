"""Options that only a tool knows are checked by the tool itself: on the host before a guest boots, or where it runs."""

from __future__ import annotations

import re

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.host.shell import Shell, check_time, has_program
from pytest_vmstorage.progress import Progress
from pytest_vmstorage.workloads.base import OptionCheck, Workload

_TIMEOUT_S = 60.0
_FIRST_LINES = 4
_DROPPED = re.compile(r"fio: job .* dropped")
_CANNOT_JUDGE = re.compile(r"engine \S+ not loadable")
"""A package of fio may lack an engine that the guest's has, and with it the engine's options."""


class OptionChecks:
    """The checks of one run: each workload's options once on the host, and in the guest where the host cannot."""

    def __init__(self) -> None:
        self._done: set[OptionCheck] = set()
        self._told: set[OptionCheck] = set()

    def on_host(self, shell: Shell, host: str, workload: Workload, say: Progress) -> None:
        """Let the tool on the host check the options; raises ConfigError where it refuses them.

        A host without the tool, or without a part of it, can refuse nothing: `say` gets a sentence then.
        """
        check = workload.option_check
        if check is None or check in self._done | self._told:
            return
        tool = check.argv[0]
        why = "" if has_program(shell, tool) else f"{host} has no {tool}"
        if not why:
            why = self._checked(shell, f"{tool} on {host}", workload, check)
        if why:
            self._told.add(check)
            say(f"{why}: the options of {workload.label} are checked where it runs, before its first round")

    def where_it_runs(self, shell: Shell, workload: Workload) -> None:
        """Let the tool there check the options that no tool has checked so far; raises ConfigError."""
        check = workload.option_check
        if check is None or check in self._done:
            return
        if why := self._checked(shell, f"{check.argv[0]} there", workload, check):
            raise ConfigError(f"{workload.label} cannot run: {why}.", hint="Choose another ioengine.", code="VM320")

    def _checked(self, shell: Shell, who: str, workload: Workload, check: OptionCheck) -> str:
        """Run the check; returns why the tool could not judge, "" where it has passed the options."""
        done = shell.run(check.argv, timeout_s=_TIMEOUT_S, stdin=check.stdin.encode())
        check_time(done, f"The check of {workload.label}'s options")
        text = f"{done.stdout}\n{done.stderr}"
        if not done.ok and (engine := _CANNOT_JUDGE.search(text)):
            return f"{who} says {engine[0]}"
        if not done.ok:
            said = [
                " ".join(line.split()).removeprefix("fio: ") for line in text.splitlines() if not _DROPPED.match(line)
            ]
            lines = [line for line in said if line]
            reason = ". ".join(lines[:_FIRST_LINES]) or f"exit status {done.returncode}"
            raise ConfigError(
                f"{who} refuses the options of {workload.label}: {reason.rstrip('.?')}.",
                hint="Correct what it names.",
                code="VM319",
            )
        self._done.add(check)
        return ""
