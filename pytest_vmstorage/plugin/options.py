"""What the user chose by the plugin's options, read into settings at the door."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vmstorage.plugin.keys import BASELINE, IGNORED
from pytest_vmstorage.plugin.option_table import ACCELS, BOOTS, SPREADS, ini_name, value
from pytest_vmstorage.plugin.post import post_of

if TYPE_CHECKING:
    from pytest_vmstorage.baseline import Baseline
    from pytest_vmstorage.host_wishes import HostWishes
    from pytest_vmstorage.inventory import Inventory
    from pytest_vmstorage.lab_settings import LabSettings
    from pytest_vmstorage.matrix import Matrix
    from pytest_vmstorage.stopping import Rounds
    from pytest_vmstorage.workloads.chosen import Columns


_DIGITS = 18
_SHOWN = 40
"""As much of what the user wrote as a sentence can bear."""


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
        try:
            folder = str((base_of(config, "dir") / Path(folder).expanduser()).resolve())
        except (OSError, RuntimeError, ValueError):
            # RuntimeError is pathlib's for links in a circle and for a user that is not there
            raise ConfigError(f"--vm-dir={folder} leads nowhere.", hint="Name a folder on a disk.") from None
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
    path, config.stash[IGNORED] = find_inventory(config.rootpath)
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
    if not _is_number(text) or int(text) < 1:
        raise ConfigError(f"--vm-rounds={text[:_SHOWN]} is not a number of rounds.", hint="Write 1 or more, or auto.")
    return Rounds(count=int(text))


def _is_number(text: str) -> bool:
    """Whether it is one, of a size that somebody means; int() itself refuses thousands of digits."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


def seed(config: pytest.Config) -> int:
    """What the order in which cells take turns is made from; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError

    text = str(value(config, "seed"))
    if not text:
        return random.SystemRandom().randrange(10**6)
    if not _is_number(text):
        raise ConfigError(
            f"--vm-seed={text[:_SHOWN]} is not a number.",
            hint="Write the one that an earlier report names.",
        )
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
    from pytest_vmstorage.matrix_file import load_matrix
    from pytest_vmstorage.user_input import read_user_text

    name = value(config, "matrix")
    if not name:
        return None
    text = read_user_text(base_of(config, "matrix") / name, f"--vm-matrix={name}", hint="Name a TOML file.")
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


def columns(config: pytest.Config) -> Columns:
    """Which metrics the matrix is to show; raises ConfigError."""
    from pytest_vmstorage.workloads.chosen import parse_columns

    return parse_columns(value(config, "columns"), "--vm-columns")


def wants_si(config: pytest.Config) -> bool:
    """Whether the matrix has MB/s in place of MiB/s; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError

    units = value(config, "units")
    if units not in ("iec", "si"):
        raise ConfigError(f"--vm-units={units} is not known.", hint="It is iec (MiB/s) or si (MB/s).")
    return bool(units == "si")


def report_paths(config: pytest.Config) -> list[Path]:
    """The files the matrix is written to."""
    return [base_of(config, "report") / Path(name).expanduser() for name in value(config, "report")]


def timeline_path(config: pytest.Config) -> Path | None:
    """The file that says where the time went, None where none is wanted."""
    name = value(config, "timeline")
    return base_of(config, "timeline") / Path(name).expanduser() if name else None


def base_of(config: pytest.Config, name: str) -> Path:
    """What an option's relative path begins at: the shell's folder, or that of the ini file it stands in."""
    if config.getoption(ini_name(name)) is not None or config.inipath is None:
        return config.invocation_params.dir
    return config.inipath.parent
