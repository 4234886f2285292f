"""Trees of Debian packages, made as root: the root of the machine labvm, and those in which its parts are built."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from pytest_vmstorage.guest.appliance import debian
from pytest_vmstorage.host.shell import LocalShell

SUITE = "bookworm"

_UNWANTED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


def install(tree: Path, packages: Sequence[str], *, hooks: Sequence[str] = ()) -> None:
    """Install packages into the new tree, with their scripts run in it, then run mmdebstrap's customize hooks.

    Contrib is asked too. Raises RuntimeError with the last lines of what failed.
    """
    sources = debian.debian_sources(debian.host_sources(), SUITE)
    lines = "".join(f"{source.line()} contrib\n" for source in sources)
    argv = [
        # what it mounts in the tree is gone with it, and it with this process, whatever kills that
        *("setpriv", "--pdeathsig", "KILL", "unshare", "--mount-proc", "--pid", "--fork", "--kill-child"),
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", "--architectures=amd64"),
        *("--aptopt=APT::Install-Recommends false", "--aptopt=Acquire::Retries 3"),
        *(f"--aptopt={option}" for option in debian._proxies(LocalShell())),
        *(f"--dpkgopt=path-exclude={path}" for path in _UNWANTED),
        f"--include={','.join(packages)}",
        *(f"--customize-hook={hook}" for hook in hooks),
        *(SUITE, str(tree), "-"),
    ]
    run(argv, lines)


def run(argv: Sequence[str], stdin: str = "") -> str:
    """What the command printed; raises RuntimeError with its last 40 lines where it fails."""
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, env=environ, check=False)
    if done.returncode:
        raise RuntimeError(f"{argv[0]} failed:\n" + "\n".join((done.stdout + done.stderr).splitlines()[-40:]))
    return done.stdout
