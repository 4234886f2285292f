"""QEMU binaries on a host: found by name, checked before a guest is made, and identified in the guest's process."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.errors import ConfigError, HostError
from pytest_vmstorage.host.shell import TIMED_OUT, Shell, check

_TIME_LIMIT_S = 20.0

# RHEL and its kin have it at the second place, outside PATH
_FIND_EMULATOR = "command -v qemu-system-x86_64 || ls /usr/libexec/qemu-kvm"

_LOOK = """# reads
[ -e "$1" ] || { echo 'there is no such file' >&2; exit 1; }
[ -f "$1" ] || { echo 'it is not a file' >&2; exit 1; }
[ -x "$1" ] || { echo 'it is not executable' >&2; exit 1; }
exec "$1" --version
"""

# -ef compares the files themselves: a link is the same, and a binary that was replaced meanwhile is not
_RUNNING = """# reads
pid=$(pgrep -f -- "-uuid $2" | head -n 1)
exe=/proc/${pid:-none}/exe
readlink "$exe" || echo
[ "$exe" -ef "$1" ] && echo same || echo other
[ "$(head -c 2 -- "$1" | tr -d '\\000')" = '#!' ] && echo script || echo binary
"$1" --version
"""

_VERSION = re.compile(r"^QEMU emulator version (.+)$", re.MULTILINE)


class RunningEmulator(BaseModel):
    """The program of a guest's process, compared with the binary that its cell names.

    `exe` is the file that QEMU's process runs, "" where this user may not see it. `is_named` says whether it is the
    named file, `is_script` whether the named file is a script, which starts another. `version` is the named file's.
    """

    model_config = ConfigDict(frozen=True)

    exe: str
    is_named: bool
    is_script: bool
    version: str


def find_emulator(shell: Shell, host: str) -> str:
    """Path of QEMU on the host; raises HostError that names the package."""
    done = shell.run(["sh", "-c", _FIND_EMULATOR])
    if not done.ok:
        raise HostError(
            f"There is no QEMU on {host}: qemu-system-x86_64 is not in PATH.",
            hint="Install qemu-system-x86 and qemu-utils there (Debian), or name another host with --vm-host.",
            code="VM403",
        )
    return done.stdout.strip()


def check_emulator(shell: Shell, path: str, host: str) -> str:
    """Version of the QEMU binary at a path on the host; raises ConfigError where it is not QEMU or does not run."""
    done = shell.run(["sh", "-c", _LOOK, "sh", path], timeout_s=_TIME_LIMIT_S)
    version = read_version(done.stdout)
    if done.ok and version:
        return version
    if done.returncode == TIMED_OUT:
        why = f"its --version does not end within {_TIME_LIMIT_S:.0f} s"
    elif done.ok:
        said = done.stdout.strip().partition("\n")[0]
        why = f"it prints {said!r} in place of QEMU's version" if said else "it does not say that it is QEMU"
    else:
        why = done.tail(1) or f"its --version fails with exit status {done.returncode}"
    raise ConfigError(
        f"emulator={path} cannot be used on {host}: {why.rstrip('.')}.",
        hint="Give the path of a qemu-system-x86_64 that runs there.",
        code="VM404",
    )


def read_version(text: str) -> str:
    """The version, with its package's, in the output of `qemu-system-x86_64 --version`; "" where there is none."""
    found = _VERSION.search(text)
    return found[1].strip() if found else ""


def running_emulator(shell: Shell, path: str, uuid: str) -> RunningEmulator:
    """Look at the process that runs the guest of that UUID; raises ProvisionError where the binary is gone."""
    done = shell.run(["sh", "-c", _RUNNING, "sh", path, uuid], timeout_s=_TIME_LIMIT_S)
    exe, same, kind, *said = check(done, f"looking at the QEMU of {path}").stdout.splitlines()
    version = read_version("\n".join(said))
    return RunningEmulator(exe=exe, is_named=same == "same", is_script=kind == "script", version=version)
