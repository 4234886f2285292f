"""Options of fio that have no field here: how they are read, those that are refused, and what the others change; pure.

Names and values are held to a narrow form, because fio itself gives more to them than it says: its command takes any
unambiguous beginning of a name (getopt_long_only), and a value with "$" or a quote may reach a shell (bc_calc in its
options.c). Which names there are, and which values they take, only fio knows: `check_file` is what it is asked.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from pytest_vmstorage.config.user_input import check_readable
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import quoted
from pytest_vmstorage.workloads.fio.job_file import ALIASES, REFUSED

Extra = tuple[tuple[str, str], ...]
"""Options by fio's own names with their values as text, in the order of names."""

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_VALUE = re.compile(r"[\w.,:%/+=@|-]+", re.ASCII)
_PATH = re.compile(r"^/|:/|\.\./|=/")
_COMMAND = (
    "append-terse", "aux-path", "bandwidth-log", "client", "cmdhelp", "cpuclock-test", "crctest", "daemonize", "debug",
    "enghelp", "eta", "eta-interval", "eta-newline", "help", "idle-prof", "inflate-log", "max-jobs", "memcpytest",
    "merge-blktrace-only", "minimal", "output", "output-format", "parse-only", "readonly", "remote-config", "section",
    "server", "showcmd", "status-interval", "terse-version", "trigger", "trigger-file", "trigger-remote",
    "trigger-timeout", "version", "warnings-fatal",
)  # fmt: skip
"""Options of fio's command that no job has (fio 3.33, --help)."""

_REFUSED: Mapping[str, str] = {
    **REFUSED,
    **dict.fromkeys(_COMMAND, "is for the fio command and not for a job"),
    **dict.fromkeys(("filename", "unique_filename", "lockfile"), "names another place than the disk under test"),
    **dict.fromkeys(("offset", "offset_align"), "leaves the region that is measured"),
    **dict.fromkeys(("name", "stonewall", "new_group", "flow", "flow_id", "flow_sleep"), "is for several jobs"),
    **dict.fromkeys(
        (
            *("group_reporting", "fallocate", "allow_file_create"),
            *("slat_percentiles", "clat_percentiles", "lat_percentiles"),
        ),
        "is always set here",
    ),
    **dict.fromkeys(("verify_dump", "verify_state_save", "write_iolog"), "leaves files in the guest"),
    **dict.fromkeys(("ignore_error", "error_dump"), "hides I/O that failed"),
    "allow_mounted_write": "permits writes to a mounted file system",
    "buffered": "is the opposite of direct: give direct=False",
    "read_iolog_chunked": REFUSED["read_iolog"],
    "verify_only": "removes figures",
}
_REFUSED_BEGINNINGS = {
    "replay_": REFUSED["read_iolog"],
    "merge_blktrace_": REFUSED["read_iolog"],
    "log_": "is for logs, which would leave files in the guest",
    "per_job_logs": "is for logs, which would leave files in the guest",
}

ZONES = ("zonemode", "zonesize", "zonerange", "zonecapacity", "zoneskip")
"""Options with which I/O may go on behind the region that `size` has, up to the end of the disk."""

_ONCE = (
    "atomic", "buffer_compress_chunk", "buffer_compress_percentage", "buffer_pattern", "clocksource", "cmdprio",
    "cpumask", "cpus_allowed", "cpus_allowed_policy", "dedupe_global", "dedupe_mode", "dedupe_percentage",
    "dedupe_working_set_percentage", "description", "fixedbufs", "hipri", "hugepage-size", "invalidate", "lockmem",
    "mem", "nice", "numa_cpu_nodes", "numa_mem_policy", "prio", "prioclass", "registerfiles", "scramble_buffers",
    "sqthread_poll", "thread", "thinktime_spin", "write_hint", "zero_buffers",
)  # fmt: skip
"""Options that change neither the blocks that a job writes nor how often: with any other a block may come twice."""


def read_extra(given: object, fields: Collection[str]) -> Extra:
    """The options of a mapping of names to texts and integers; raises ConfigError where one of them cannot be had.

    `fields` are the options that have a field, under which they are to be given.
    """
    pairs = tuple(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ConfigError(
            f"Fio(extra={quoted(given)}) is no mapping of names to values.",
            hint='Write for example extra={"dedupe_percentage": 50}.',
            code="VM303",
        )
    return tuple(sorted((_checked_name(name, fields), _checked_value(name, value)) for name, value in pairs))


def _checked_name(name: object, fields: Collection[str]) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"Fio(extra=...) has {quoted(name)}, which is not the name of an option of fio.",
            hint='Names are as in fio\'s job files, such as "dedupe_percentage".',
            code="VM303",
        )
    own = ALIASES.get(name, name)
    if own in fields:
        raise ConfigError(
            f"Fio(extra=...) has {name}, which has a field of its own.", hint=f"Write Fio({own}=...).", code="VM303"
        )
    if why := refusal(name):
        raise ConfigError(f"Fio refuses fio's option {name}, which {why}.", hint=f"Leave {name} out.", code="VM303")
    for other in sorted({*fields, *_REFUSED}):
        # fio takes "filena" for filename
        if other.startswith(name) and name not in _WHOLE:
            raise ConfigError(
                f"Fio(extra=...) has {name}, which fio's command would take for {other}.",
                hint="Write the whole name.",
                code="VM303",
            )
    return own


_WHOLE = frozenset(("ba", "mem"))
"""Options whose names other options begin with."""


def refusal(name: str) -> str:
    """The reason why that option of fio is refused, as a clause; "" for one that may be given."""
    begun = (why for beginning, why in _REFUSED_BEGINNINGS.items() if name.startswith(beginning))
    return _REFUSED.get(ALIASES.get(name, name)) or next(begun, "")


def _checked_value(name: object, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        remedy = f"Write {int(value)}." if isinstance(value, bool) else "Write it as fio's job files have it."
        raise ConfigError(
            f"Fio(extra={{{name!r}: {quoted(value)}}}) is neither a text nor an integer.", hint=remedy, code="VM303"
        )
    check_readable(f"Fio(extra={{{name!r}: ...}})", value)
    text = str(value)
    if not _VALUE.fullmatch(text):
        raise ConfigError(
            f"Fio(extra={{{name!r}: {quoted(value)}}}) has a character that values have not here, or is empty.",
            hint="A value is one word of letters, digits and .,:%/+=@|-_; a switch has 1, a pattern its hexadecimal"
            " digits.",
            code="VM303",
        )
    if _PATH.search(text) or (name in ("mem", "iomem") and ":" in text):
        raise ConfigError(
            f"Fio(extra={{{name!r}: {quoted(value)}}}) names a file.",
            hint="A job has the disk under test and no other file: leave it out.",
            code="VM303",
        )
    return text


def keeps_each_block_once(extra: Extra) -> bool:
    """Whether none of these options lets a job write a block twice."""
    return all(name in _ONCE for name, _ in extra)


def check_file(options: Iterable[str]) -> str:
    """A job file of these lines without a disk, for `fio --parse-only`; it takes only whole names of a job's options.

    A name that is abbreviated, or is for the command alone, is an error there.
    """
    return "\n".join(("[vmstorage]", *options)) + "\n"
