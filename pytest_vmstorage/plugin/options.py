"""The plugin's options, each on the command line and in the ini file; read into one Settings at the door."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_vmstorage.plugin.keys import BASELINE
from pytest_vmstorage.plugin.post import post_of

if TYPE_CHECKING:
    from pytest_vmstorage.baseline import Baseline
    from pytest_vmstorage.host_wishes import HostWishes
    from pytest_vmstorage.inventory import Inventory
    from pytest_vmstorage.lab_settings import LabSettings
    from pytest_vmstorage.matrix import Matrix
    from pytest_vmstorage.stopping import Rounds

ACCELS = ("auto", "kvm", "tcg")
BOOTS = ("restore", "fresh")
SPREADS = ("shard", "each")
STEPS = ("guest-caches", "host-caches", "sync", "turns", "warmup", "steady-state", "cache-size", "zero-check")
"""Those of pytest_vmstorage.hygiene, which a run without storage tests need not import for its --help."""


class Option(NamedTuple):
    """An option that is `--vm-NAME` and ini `vm_NAME`."""

    name: str
    help: str
    default: str
    metavar: str


OPTIONS = (
    Option("host", "lab hosts that run the guests: names, tag:TAG, all (default: this machine)", "", "NAME,..."),
    Option("spread", "several hosts: shard (cells are divided) or each (every cell on every host)", "shard", "HOW"),
    Option("wait", "how long to wait for a host that another job measures on; 0: not at all", "10m", "TIME"),
    Option("accel", "auto, kvm (fail without it) or tcg; auto boots a test guest to find out", "auto", "WHICH"),
    Option(
        "dir",
        "folder on the host for the disks under test; its file system is part of the result",
        "",
        "FOLDER",
    ),
    Option("inventory", "file that lists hosts and devices (default: vmstorage.toml upwards of rootdir)", "", "FILE"),
    Option("timeout", "time limit for a guest to boot, and spare time of a workload", "120s", "TIME"),
    Option("boot", "how guests begin: restore (from a saved one) or fresh (default: restore where proven)", "", "HOW"),
    Option("rounds", "measured rounds of each workload; auto: until its figure is narrow enough", "3", "N"),
    Option("precision", "with --vm-rounds=auto: how near to the median its 95 % interval must be", "5%", "PERCENT"),
    Option("rounds-limit", "with --vm-rounds=auto: time for the rounds of one workload in one cell", "5m", "TIME"),
    Option("seed", "number that decides the order in which cells take turns (default: a new one)", "", "N"),
    Option("governor", "CPU governor of the host for this run, such as performance; set back at its end", "", "NAME"),
    Option("turbo", "turbo of the host's CPUs for this run; set back at its end", "", "on|off"),
    Option("host-scheduler", "I/O scheduler of the host's device below the disks; set back at the end", "", "NAME"),
    Option("timeline", "file for where the time went, in the Trace Event format of Perfetto", "", "FILE"),
    Option("matrix", "TOML file with axes and rules; storage tests that sweep none are run in its cells", "", "FILE"),
    Option("budget", "choose cells that fit into this time: pairs of values, last failed, stalest", "", "TIME"),
)


def add_options(group: pytest.OptionGroup, parser: pytest.Parser) -> None:
    """Declare the options to pytest."""
    add_values(group, parser, OPTIONS)
    group.addoption(
        "--vm-report",
        metavar="FILE",
        action="append",
        default=None,
        help="write the matrix to FILE, by its ending: .md, .csv or .json (may be given more than once)",
    )
    parser.addini("vm_report", "files to write the matrix to", type="linelist", default=[])
    text = f"leave out a step around the rounds: {', '.join(STEPS)} (several with commas)"
    group.addoption("--vm-without", metavar="WHAT", action="append", default=None, help=text)
    parser.addini("vm_without", text, type="linelist", default=[])
    add_flags(
        group,
        parser,
        (
            ("keep", "leave a guest running at the end: the first one a test failed in, or the last"),
            ("pin", "give each vCPU, the I/O thread and the rest of QEMU a core of the host for itself"),
            ("strict", "fail, and do not skip, what this host cannot do"),
            ("plan", "print cells, guests, disk space and estimated time of the selected tests, and run nothing"),
        ),
    )


def add_values(group: pytest.OptionGroup, parser: pytest.Parser, options: Sequence[Option]) -> None:
    """Declare options that have a value."""
    for option in options:
        text = f"{option.help} [{option.default}]" if option.default else option.help
        # percent signs are argparse's own
        group.addoption(f"--vm-{option.name}", metavar=option.metavar, default=None, help=text.replace("%", "%%"))
        parser.addini(_ini(option.name), text, default=option.default)


def add_flags(group: pytest.OptionGroup, parser: pytest.Parser, flags: Iterable[tuple[str, str]]) -> None:
    """Declare options that are on or off, each with its text."""
    for name, text in flags:
        group.addoption(f"--vm-{name}", action="store_true", default=None, help=text)
        parser.addini(_ini(name), text, type="bool", default=False)


def value(config: pytest.Config, name: str) -> Any:
    """An option's value: the command line's, else the ini file's, else the default."""
    given = config.getoption(f"vm_{name.replace('-', '_')}")
    return config.getini(_ini(name)) if given is None else given


def any_given(config: pytest.Config, others: Sequence[Option]) -> bool:
    """Whether the user chose anything, of these options or of `others`, so that there is something to check."""
    values = (*OPTIONS, *others)
    defaults: dict[str, object] = {option.name: option.default for option in values} | {"report": [], "without": []}
    return any(value(config, name) != default for name, default in defaults.items())


def lab_settings(config: pytest.Config) -> LabSettings:
    """What the user chose for the lab; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.hygiene import parse_without
    from pytest_vmstorage.lab_settings import LabSettings
    from pytest_vmstorage.units import parse_duration

    accel = value(config, "accel")
    if accel not in ACCELS:
        raise ConfigError(f"--vm-accel={accel} is not known.", hint=f"It is one of: {', '.join(ACCELS)}.")
    boot = value(config, "boot") or None
    if boot not in (*BOOTS, None):
        raise ConfigError(f"--vm-boot={boot} is not known.", hint=f"It is one of: {', '.join(BOOTS)}.")
    timeout_s = parse_duration(value(config, "timeout"))
    if not timeout_s:
        raise ConfigError("--vm-timeout=0 leaves a guest no time to boot.", hint='Write for example "90s".')
    folder = value(config, "dir")
    host = own_host(config)
    if folder and host == "local":
        folder = str((base_of(config, "dir") / Path(folder).expanduser()).resolve())
    return LabSettings(
        host=None if host == "local" else host,
        folder=folder or None,
        accel=accel,
        timeout_s=timeout_s,
        boot=boot,
        keep=bool(value(config, "keep")),
        inventory=inventory(config),
        hygiene=parse_without(value(config, "without")),
        wishes=_wishes(config),
        wait_s=parse_duration(value(config, "wait")),
    )


def hosts(config: pytest.Config) -> tuple[str, ...]:
    """The hosts that the user chose, "local" for this machine; raises ConfigError."""
    from pytest_vmstorage.host_choice import choose_hosts

    return choose_hosts(value(config, "host"), inventory(config))


def own_host(config: pytest.Config) -> str:
    """The host of this process: a worker's own, or else the first that the user chose; raises ConfigError."""
    post = post_of(config)
    return (post.host if post is not None else "") or hosts(config)[0]


def swept_hosts(config: pytest.Config) -> tuple[str, ...]:
    """The hosts of which each has every cell, with --vm-spread=each, else none; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError

    spread, post = value(config, "spread"), post_of(config)
    if spread not in SPREADS:
        raise ConfigError(f"--vm-spread={spread} is not known.", hint="It is shard or each.")
    if spread == "shard":
        return ()
    return hosts(config) if post is None else post.hosts


def _wishes(config: pytest.Config) -> HostWishes:
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.host_wishes import HostWishes

    turbo, names = value(config, "turbo"), {name: value(config, name) for name in ("governor", "host-scheduler")}
    if turbo not in ("", "on", "off"):
        raise ConfigError(f"--vm-turbo={turbo} is not known.", hint="It is on or off.")
    for name, given in names.items():
        if not given.replace("-", "").replace("_", "").isalnum() and given:
            raise ConfigError(f"--vm-{name}={given} is no name of one.", hint="Write a single word.")
    return HostWishes(
        pin=bool(value(config, "pin")),
        strict=bool(value(config, "strict")),
        governor=names["governor"],
        turbo=turbo,
        scheduler=names["host-scheduler"],
    )


def inventory(config: pytest.Config) -> Inventory | None:
    """What vmstorage.toml says, None where there is none; raises ConfigError."""
    from pytest_vmstorage.inventory_file import find_inventory, read_inventory

    name = value(config, "inventory")
    if name:
        return read_inventory(base_of(config, "inventory") / name, f"--vm-inventory={name}")
    path = find_inventory(config.rootpath)
    return read_inventory(path, str(path)) if path is not None else None


def rounds(config: pytest.Config) -> Rounds:
    """How many measured rounds a workload gets; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.stopping import Rounds
    from pytest_vmstorage.units import parse_duration, parse_percent

    text = str(value(config, "rounds"))
    precision, limit_s = parse_percent(value(config, "precision")), parse_duration(value(config, "rounds-limit"))
    if not limit_s:
        raise ConfigError("--vm-rounds-limit=0 leaves no time to measure.", hint='Write for example "5m".')
    if text == "auto":
        return Rounds(count=None, precision=precision, limit_s=limit_s)
    if not text.isdecimal() or int(text) < 1:
        raise ConfigError(f"--vm-rounds={text} is not a number of rounds.", hint="Write 1 or more, or auto.")
    return Rounds(count=int(text))


def seed(config: pytest.Config) -> int:
    """What the order in which cells take turns is made from; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError

    text = str(value(config, "seed"))
    if not text:
        return random.SystemRandom().randrange(10**6)
    if not text.isdecimal():
        raise ConfigError(f"--vm-seed={text} is not a number.", hint="Write the one that an earlier report names.")
    return int(text)


def baseline(config: pytest.Config) -> Baseline | None:
    """The saved run to judge against, or None; raises ConfigError.

    Read once: pytest-benchmark may save this run under the same name before the report is made.
    """
    if BASELINE not in config.stash:
        from pytest_vmstorage.baseline import load_baseline

        name = value(config, "baseline")
        config.stash[BASELINE] = load_baseline(name, storage_folder(config)) if name else None
    return config.stash[BASELINE]


def storage_folder(config: pytest.Config) -> Path:
    """Where pytest-benchmark keeps saved runs: its --benchmark-storage, read as a folder."""
    location = str(config.getoption("benchmark_storage", default="") or "file://./.benchmarks")
    return config.invocation_params.dir / location.removeprefix("file://")


def matrix(config: pytest.Config) -> Matrix | None:
    """The matrix file, read and checked, or None; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.matrix_file import load_matrix

    name = value(config, "matrix")
    if not name:
        return None
    try:
        text = (base_of(config, "matrix") / name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no UTF-8 text"
        raise ConfigError(f"--vm-matrix={name} cannot be read: {reason}.", hint="Name a TOML file.") from None
    return load_matrix(text, name)


def budget_s(config: pytest.Config) -> float | None:
    """The time that cells are chosen for in seconds, None for all the time there is; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.units import parse_duration

    text = value(config, "budget")
    if not text:
        return None
    seconds = parse_duration(text)
    if not seconds:
        raise ConfigError("--vm-budget=0 leaves no time to measure.", hint='Write for example "90m".')
    return seconds


def report_paths(config: pytest.Config) -> list[Path]:
    """The files the matrix is written to."""
    return [base_of(config, "report") / name for name in value(config, "report")]


def timeline_path(config: pytest.Config) -> Path | None:
    """The file that says where the time went, None where none is wanted."""
    name = value(config, "timeline")
    return base_of(config, "timeline") / name if name else None


def base_of(config: pytest.Config, name: str) -> Path:
    """What an option's relative path begins at: the shell's folder, or that of the ini file it stands in."""
    if config.getoption(f"vm_{name}") is not None or config.inipath is None:
        return config.invocation_params.dir
    return config.inipath.parent


def _ini(name: str) -> str:
    return f"vm_{name.replace('-', '_')}"
