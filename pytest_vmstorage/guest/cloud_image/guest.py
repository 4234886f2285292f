"""Guests from a user's image after their first answer: the end of cloud-init, and the programs they have."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping

from pytest_vmstorage.errors import BootTimeoutError, GuestError, UnsupportedError
from pytest_vmstorage.host.shell import TIMED_OUT, Shell
from pytest_vmstorage.text import read_pairs
from pytest_vmstorage.units import format_duration

_NEEDED = ("blockdev", "dd", "dmesg", "stat", "sync", "timeout", "truncate")
"""Programs that run in every guest in addition to the workload's tool."""

_PACKAGES = (
    "fio hdparm ioping postmark sqlite3 nginx wrk e2fsprogs xfsprogs btrfs-progs qemu-guest-agent bash coreutils tar"
    " util-linux"
)

# the versions of packages, and fio's own output where fio was built by hand
_VERSIONS = r"""
fio --version 2>/dev/null | sed 's/^fio-/fio=/'
dpkg-query -W -f '${db:Status-Status}=${Package}=${Version}\n' "$@" 2>/dev/null | sed -n 's/^installed=//p' ||:
command -v rpm >/dev/null && rpm -q --qf '%{NAME}=%{VERSION}-%{RELEASE}\n' "$@" | grep =
:
"""

# cloud-init ends with 1 where a module failed, with 2 where it only complains, and is not in every image
_CLOUD_INIT = "command -v cloud-init >/dev/null || exit 0; cloud-init status --wait"
_RESULT = "/run/cloud-init/result.json"
_LONGEST = 300
_MISSING = 'for tool; do command -v "$tool" >/dev/null || echo "$tool"; done'


def settle(shell: Shell, image: str, timeout_s: float) -> Mapping[str, str]:
    """Wait for the end of cloud-init, and check the programs of every round; returns versions by package.

    Raises BootTimeoutError, GuestError where cloud-init failed, UnsupportedError that names the missing programs.
    """
    done = shell.run(["/bin/sh", "-c", _CLOUD_INIT], timeout_s=timeout_s)
    if done.returncode == TIMED_OUT:
        raise BootTimeoutError(
            f"cloud-init of {image} did not finish within {format_duration(timeout_s)}.",
            hint="Give it more time with --vm-timeout, or look into it with --vm-keep.",
            code="VM511",
        )
    if done.returncode not in (0, 2):
        raise GuestError(
            f"cloud-init of {image} failed: {_errors(shell) or done.tail(1).strip('. ')}.",
            hint="Keep a guest with --vm-keep, and run `cloud-init status --long` in it with `vmstorage exec`.",
            code="VM511",
        )
    check_programs(shell, image, _NEEDED)
    said = shell.run(["/bin/sh", "-c", _VERSIONS, "sh", *_PACKAGES.split()]).stdout
    return read_pairs(said)


def _errors(shell: Shell) -> str:
    """The errors of cloud-init on one line, "" where it reports none."""
    try:
        errors = json.loads(shell.read(_RESULT))["v1"]["errors"]
    except (ValueError, KeyError, TypeError):
        return ""
    return textwrap.shorten("; ".join(map(str, errors)), _LONGEST, placeholder=" ...").rstrip(".")


def check_programs(shell: Shell, image: str, programs: Iterable[str]) -> None:
    """Raise UnsupportedError that names the programs that the guest lacks."""
    done = shell.run(["/bin/sh", "-c", _MISSING, "sh", *dict.fromkeys(programs)], timeout_s=60)
    missing = done.stdout.split()
    if not done.ok or missing:
        raise UnsupportedError(
            f"The image {image} lacks {' and '.join(missing) or 'a shell that answers'}.",
            hint="Install it in the image; the plugin changes nothing in it.",
            code="VM512",
        )
