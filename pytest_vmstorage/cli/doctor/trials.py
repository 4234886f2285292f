"""What a lab host can do, found by doing it small in one round trip to its shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from importlib import resources

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.host.shell import Shell, check

_TIME_LIMIT_S = 60.0


class Trial(BaseModel):
    """What a command that was tried came to: whether its exit status was 0, and the last line of what it said."""

    model_config = ConfigDict(frozen=True)

    ok: bool
    said: str


NOT_TRIED = Trial(ok=False, said="it was not tried")

Trials = Mapping[str, Trial]


def run_trials(shell: Shell, folder: str, emulator: str) -> Trials:
    """Every trial by its name, made in `folder`, which is made and removed; `emulator` is QEMU's path or "".

    Raises ProvisionError where the folder cannot be made.
    """
    script = (resources.files(__package__ or "") / "trials.sh").read_text()
    # QEMU's path is no word of the command: it is run, and not written to
    text = f"emulator={shlex.quote(emulator)}\n{script}"
    try:
        done = shell.run(["sh", "-s", "--", folder], stdin=text.encode(), timeout_s=_TIME_LIMIT_S)
        return read_trials(check(done, f"trying out the folder {folder}").stdout)
    finally:
        # the script does this itself, unless it was killed
        shell.run(["rm", "-rf", "--", folder])


def read_trials(text: str) -> Trials:
    """The trials of the script's output: name, exit status and what was said in each line, tabs between them."""
    lines = (line.split("\t", 2) for line in text.splitlines() if line.count("\t") >= 2)
    return {name: Trial(ok=status == "0", said=_reason(said.strip(), status)) for name, status, said in lines}


def _reason(said: str, status: str) -> str:
    """What was said, without the sh that said it; a command that failed silently has its exit status."""
    missing = re.fullmatch(r"timeout: failed to run command '(.*)': No such file or directory", said)
    if missing:
        return f"{missing[1]}: command not found"
    # dash names the line, other shells do not
    said = re.sub(r"^sh: (line )?(\d+: )?", "", said)
    return said or ("" if status == "0" else f"exit status {status}")
