"""Every option of the plugin, as it is declared: on the command line and in the ini file; all that every run loads.

A pytest run that has no storage test pays for this module and hardly any other, each time that its bytecode cannot be
kept: so it imports nothing, and what reads the options is elsewhere (`settings`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from typing import Any, Literal

    import pytest

    Kind = Literal["string", "linelist", "bool"]
    Option = tuple[str, Kind, str, str, str]

STEPS = ("guest-caches", "host-caches", "sync", "turns", "warmup", "steady-state", "cache-size", "zero-check")
"""The steps of pytest_vmstorage.config.settings, which --help must not import; a test holds the two equal."""

OPTIONS: tuple[tuple[str, str, tuple[Option, ...]], ...] = (
    # what it is about, and the options of that group, each: name, kind, what stands for its value, default, help
    (
        "where",
        "where guests run",
        (
            ("host", "string", "NAME,...", "", "lab hosts to use: names, tag:TAG, all [this machine]"),
            ("dir", "string", "FOLDER", "", "folder on the host for disks [/var/tmp/pytest-vmstorage-USER]"),
            ("accel", "string", "WHICH", "auto", "kvm, tcg, or auto: kvm where a test guest boots with it"),
            ("keep", "bool", "", "", "leave a guest running at the end: the first that failed, or the last"),
            ("image", "string", "IMAGE", "", "boot guests from this qcow2 file, or vmstorage.toml's of that name"),
            ("image-sha256", "string", "SUM", "", "its SHA-256 [vmstorage.toml's, or that in IMAGE.sha256]"),
            ("image-reach", "string", "agent|ssh", "", "commands come into its guests by their agent, or by ssh"),
            ("spread", "string", "HOW", "shard", "several hosts: shard (divide the cells) or each (all cells on each)"),
            ("wait", "string", "TIME", "10m", "how long to wait for a host that is in use; 0: not at all"),
            ("inventory", "string", "FILE", "", "hosts and devices [vmstorage.toml, from rootdir upwards]"),
        ),
    ),
    (
        "what",
        "what is measured",
        (
            ("plan", "bool", "", "", "print cells, guests, disk space and time; run nothing"),
            ("matrix", "string", "FILE", "", "TOML file of axes and rules, for tests that sweep none"),
            ("budget", "string", "TIME", "", "choose cells for this time: pairs of values, last failed, stalest"),
            ("strict", "bool", "", "", "fail, and do not skip, what this host cannot do"),
        ),
    ),
    (
        "measure",
        "how it is measured",
        (
            ("rounds", "string", "N", "3", "measured rounds of a workload; auto: until --vm-precision is reached"),
            ("precision", "string", "N%", "5%", "--vm-rounds=auto: how near to the median its 95 % interval must be"),
            ("rounds-limit", "string", "TIME", "5m", "--vm-rounds=auto: time for the rounds of a workload in a cell"),
            ("pin", "bool", "", "", "a core for each vCPU, the I/O thread, the rest of QEMU"),
            ("boot", "string", "HOW", "", "restore (saved guests) or fresh [restore where proven]"),
            ("timeout", "string", "TIME", "120s", "limit of a boot, and spare time of a workload"),
            ("without", "linelist", "WHAT", "", f"leave out steps of a round: {', '.join(STEPS)}"),
            ("seed", "string", "N", "", "number that decides the order of turns [a new one]"),
            ("governor", "string", "NAME", "", "CPU governor of the host during the run: performance"),
            ("turbo", "string", "on|off", "", "turbo of the host's CPUs during the run"),
            ("host-scheduler", "string", "NAME", "", "I/O scheduler below the disks during the run: none"),
        ),
    ),
    (
        "judge",
        "how it is judged",
        (
            ("save", "string", "NAME", "", "save this run as a day of the baseline NAME"),
            ("baseline", "string", "NAME", "", "judge against saved runs: a name, a number or a file"),
            ("max-regression", "string", "N%", "10%", "tolerated loss of speed; history: what saved days can show"),
            ("against", "string", "RECIPE", "", "run each cell in pairs with itself so changed: AXIS=VALUE,..."),
            ("confirm", "bool", "", "", "call REGRESSED only what is slower again in fresh guests"),
            ("gate", "string", "FILE", "", "tolerated losses, waivers [ROOTDIR/vmstorage-gate.toml]"),
            ("inconclusive", "string", "WHICH", "suspect", "undecided: suspect (fail what looks slower), fail, warn"),
            ("missing", "string", "WHAT", "warn", "cells of the baseline that this run lacks: fail or warn"),
            ("day-spread", "string", "N%", "", "how much days differ, until five of them are saved"),
            ("pairs-limit", "string", "TIME", "30m", "--vm-against: time for the pairs of a test"),
            ("bisect", "bool", "", "", "exit 0 if nothing REGRESSED, 1 if so, 125 if unsure (git bisect run)"),
        ),
    ),
    (
        "report",
        "what is reported",
        (
            ("report", "linelist", "FILE", "", "write the matrix to FILE (.html, .md, .svg, .csv, .json); repeatable"),
            ("columns", "linelist", "NAME", "", "metrics shown: iops,usr_cpu; +usr_cpu: beside the usual"),
            ("details", "bool", "", "", "print all of the report at the end, as -v does"),
            ("units", "string", "iec|si", "iec", "data rates in the matrix: MiB/s (iec) or MB/s (si)"),
            ("timeline", "string", "FILE", "", "where time went, in Perfetto's Trace Event format"),
        ),
    ),
)
"""All options in their groups, those used most first: `--vm-NAME` on the command line, `vm_NAME` in the ini file.

A string is one value; a linelist may be given several times, in the ini file a line each; a bool is on or off.
"""

NOT_AXES = "vm_not_axes"
"""In the ini file alone: names of parameters that are the tests' own, however near they are to an axis."""

VERBOSITY = "verbosity_vmstorage"
"""In the ini file alone: the name that pytest's `Config.get_verbosity` gives to a verbosity of our own."""

_CHECKED_LATER = ("details", "keep", "pin", "strict", "plan")


def add_options(
    parser: pytest.Parser, completing: Callable[[str, str], str | type[argparse.Action]] | None = None
) -> None:
    """Declare the options to pytest, a group of its help for each of ours.

    Where a shell wants to complete words, `completing` gives an option's action by its name and its usual action.
    """
    for group_name, title, options in OPTIONS:
        group = parser.getgroup(f"vmstorage-{group_name}", f"VM storage: {title}")
        for name, kind, metavar, default, text in options:
            attribute = ini_name(name)
            # percent signs are argparse's own
            shown = (f"{text} [{default}]" if default else text).replace("%", "%%")
            # with its attribute given, pytest need not compare it with that of each option so far
            if kind == "bool":
                group.addoption(f"--vm-{name}", dest=attribute, action="store_true", default=None, help=shown)
            else:
                action: Any = "append" if kind == "linelist" else "store"
                if completing is not None:
                    action = completing(name, action)
                group.addoption(
                    f"--vm-{name}", dest=attribute, metavar=metavar, action=action, default=None, help=shown
                )
            parser.addini(attribute, f"see --vm-{name}", type=kind, default=default_of(kind, default))
    parser.addini(VERBOSITY, "pytest's verbosity for the report at the end alone: -2 to 1", default="auto")
    parser.addini(NOT_AXES, "parameters of the tests' own that look like a misspelt axis", type="linelist", default=[])


def ini_name(name: str) -> str:
    """An option's name in the ini file, which is also that of its attribute."""
    return "vm_" + name.replace("-", "_")


def value(config: pytest.Config, name: str) -> Any:
    """An option's value: the command line's, else the ini file's, else the default."""
    given = config.getoption(ini_name(name))
    return config.getini(ini_name(name)) if given is None else given


def any_given(config: pytest.Config) -> bool:
    """Whether the user chose anything that can be wrong, so that there is something to check."""
    # on the command line its default too: beside other options it may do nothing
    is_chosen = config.getini(NOT_AXES) != [] or config.getini(VERBOSITY) != "auto"
    return is_chosen or any(
        config.getoption(ini_name(name)) is not None or config.getini(ini_name(name)) != default
        for name, default in _defaults()
    )


def default_of(kind: Kind, default: str) -> Any:
    """What an option is that nobody gave: its default, no lines, or off."""
    return default if kind == "string" else [] if kind == "linelist" else False


def _defaults() -> Iterator[tuple[str, object]]:
    for _, _, options in OPTIONS:
        for name, kind, _, default, _ in options:
            if name not in _CHECKED_LATER:
                yield name, default_of(kind, default)
