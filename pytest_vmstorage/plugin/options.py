"""Every option of the plugin, as it is declared: on the command line and in the ini file; all that every run loads.

A pytest run that has no storage test pays for this module and hardly any other, each time that its bytecode cannot be
kept: so it imports nothing, and what reads the options is elsewhere (`settings`).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import pytest


STEPS = ("guest-caches", "host-caches", "sync", "turns", "warmup", "steady-state", "cache-size", "zero-check")
"""The steps of pytest_vmstorage.config.settings, which --help must not import; a test holds the two equal."""

VALUES = (
    # name, help, default, what stands for its value
    ("host", "lab hosts that run the guests: names, tag:TAG, all (default: this machine)", "", "NAME,..."),
    ("spread", "several hosts: shard (cells are divided) or each (every cell on every host)", "shard", "HOW"),
    ("wait", "how long to wait for a host that another job measures on; 0: not at all", "10m", "TIME"),
    ("accel", "auto, kvm (fail without it) or tcg; auto boots a test guest to find out", "auto", "WHICH"),
    (
        "dir",
        "folder on the host for the disks under test; its file system is part of the result",
        "",
        "FOLDER",
    ),
    ("inventory", "file that lists hosts and devices (default: vmstorage.toml upwards of rootdir)", "", "FILE"),
    ("timeout", "time limit for a guest to boot, and spare time of a workload", "120s", "TIME"),
    ("boot", "how guests begin: restore (from a saved one) or fresh (default: restore where proven)", "", "HOW"),
    ("rounds", "measured rounds of each workload; auto: until its figure is narrow enough", "3", "N"),
    ("precision", "with --vm-rounds=auto: how near to the median its 95 % interval must be", "5%", "PERCENT"),
    ("rounds-limit", "with --vm-rounds=auto: time for the rounds of one workload in one cell", "5m", "TIME"),
    ("seed", "number that decides the order in which cells take turns (default: a new one)", "", "N"),
    ("governor", "CPU governor of the host for this run, such as performance; set back at its end", "", "NAME"),
    ("turbo", "turbo of the host's CPUs for this run; set back at its end", "", "on|off"),
    ("host-scheduler", "I/O scheduler of the host's device below the disks; set back at the end", "", "NAME"),
    ("units", "data rates in the matrix: iec (MiB/s) or si (MB/s); CSV and JSON have MiB/s", "iec", "iec|si"),
    ("timeline", "file for where the time went, in the Trace Event format of Perfetto", "", "FILE"),
    ("matrix", "TOML file with axes and rules; storage tests that sweep none are run in its cells", "", "FILE"),
    ("budget", "choose cells that fit into this time: pairs of values, last failed, stalest", "", "TIME"),
    ("save", "save this run under that name: a day of the baseline NAME (as --benchmark-save)", "", "NAME"),
    ("baseline", "saved runs to judge against: a name given to --vm-save, a number, or a file", "", "NAME"),
    ("against", "run each test in pairs with the same cell changed so: AXIS=VALUE, several with commas", "", "RECIPE"),
    ("max-regression", "loss of speed that is tolerated, or history: what saved days can show", "10%", "PERCENT"),
    ("day-spread", "how much the host differs from day to day, until five days are saved", "", "PERCENT"),
    ("pairs-limit", "with --vm-against: time for the pairs of a test, after which it gets no more", "30m", "TIME"),
    (
        "inconclusive",
        "what of undecided tests fails: suspect (what looks slower than tolerated), fail (all), warn (none)",
        "suspect",
        "WHICH",
    ),
    ("missing", "fail or warn: what becomes of cells of the baseline that this run lacks", "warn", "WHAT"),
    ("gate", "file of tolerated losses and waivers (default: vmstorage-gate.toml in rootdir)", "", "FILE"),
    ("image", "boot guests from this qcow2 image of yours, or one of vmstorage.toml's [images]", "", "IMAGE"),
    ("image-sha256", "its SHA-256 (default: vmstorage.toml's, or that in the file IMAGE.sha256)", "", "SUM"),
    ("image-reach", "how commands come into its guests: by their agent, or by ssh", "", "agent|ssh"),
)
"""Options with a value: `--vm-NAME`, and `vm_NAME` in the ini file."""

LISTS = (
    ("report", "write the matrix to FILE, by its ending: .md, .csv or .json (may be given more than once)", "FILE"),
    ("columns", "metrics that the matrix shows, as iops,usr_cpu, or beside the usual ones, as +usr_cpu", "NAME,..."),
    ("without", f"leave out a step around the rounds: {', '.join(STEPS)} (several with commas)", "WHAT"),
)
"""Options that may be given several times; in the ini file a line each."""

FLAGS = (
    ("keep", "leave a guest running at the end: the first one a test failed in, or the last"),
    ("pin", "give each vCPU, the I/O thread and the rest of QEMU a core of the host for itself"),
    ("strict", "fail, and do not skip, what this host cannot do"),
    ("plan", "print cells, guests, disk space and estimated time of the selected tests, and run nothing"),
    ("confirm", "measure what looks slower than the baseline again, in fresh guests: only then it can be REGRESSED"),
    (
        "bisect",
        "exit with 0 where nothing regressed, 1 where something did, 125 where it cannot be said (git bisect run)",
    ),
)
"""Options that are on or off."""

NOT_AXES = "vm_not_axes"
"""In the ini file alone: names of parameters that are the tests' own, however near they are to an axis."""

_CHECKED_LATER = ("keep", "pin", "strict", "plan")


def add_options(parser: pytest.Parser) -> None:
    """Declare the options to pytest."""
    group = parser.getgroup("vmstorage", "VM storage measurements")
    # with its attribute given, pytest need not compare it with that of each option so far
    for name, text, default, metavar in VALUES:
        shown = f"{text} [{default}]" if default else text
        attribute = ini_name(name)
        # percent signs are argparse's own
        group.addoption(f"--vm-{name}", dest=attribute, metavar=metavar, default=None, help=shown.replace("%", "%%"))
        parser.addini(attribute, shown, default=default)
    for name, text, metavar in LISTS:
        attribute = ini_name(name)
        group.addoption(f"--vm-{name}", dest=attribute, metavar=metavar, action="append", default=None, help=text)
        parser.addini(attribute, text, type="linelist", default=[])
    for name, text in FLAGS:
        attribute = ini_name(name)
        group.addoption(f"--vm-{name}", dest=attribute, action="store_true", default=None, help=text)
        parser.addini(attribute, text, type="bool", default=False)
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
    return config.getini(NOT_AXES) != [] or any(
        config.getoption(ini_name(name)) is not None or config.getini(ini_name(name)) != default
        for name, default in _defaults()
    )


def _defaults() -> Iterator[tuple[str, object]]:
    for name, _, default, _ in VALUES:
        yield name, default
    for name, _, _ in LISTS:
        yield name, []
    for name, _ in FLAGS:
        if name not in _CHECKED_LATER:
            yield name, False
