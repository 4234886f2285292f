"""What the user chose by the plugin's options, read into settings and into the gate's policy at the door."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vmstorage.plugin.options import ACCELS, BOOTS, SPREADS, ini_name, value
from pytest_vmstorage.plugin.stash import BASELINE, IGNORED
from pytest_vmstorage.plugin.xdist.channel import post_of

if TYPE_CHECKING:
    from pytest_vmstorage.config.inventory import Inventory
    from pytest_vmstorage.config.matrix import Matrix
    from pytest_vmstorage.config.settings import HostWishes, LabSettings
    from pytest_vmstorage.measure.rounds import Rounds
    from pytest_vmstorage.results.saved import Baseline
    from pytest_vmstorage.workloads.base import Columns
if TYPE_CHECKING:
    from pytest_vmstorage.analysis.gate.policy import GatePolicy, Undecided, Unsure
    from pytest_vmstorage.config.variant import Variant
if TYPE_CHECKING:
    from pytest_vmstorage.config.guest_image import ListedImage
    from pytest_vmstorage.config.settings import LabSettings


_DIGITS = 18
_SHOWN = 40
"""As much of what the user wrote as a sentence can bear."""


def lab_settings(config: pytest.Config) -> LabSettings:
    """What the user chose for the lab; raises ConfigError."""
    from pytest_vmstorage.config.settings import LabSettings, parse_without
    from pytest_vmstorage.errors import ConfigError
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
    from pytest_vmstorage.config.inventory import choose_hosts

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
    from pytest_vmstorage.config.settings import HostWishes
    from pytest_vmstorage.errors import ConfigError

    turbo, names = value(config, "turbo"), {name: value(config, name) for name in ("governor", "host-scheduler")}
    if turbo not in ("", "on", "off"):
        raise ConfigError(f"--vm-turbo={turbo} is not known.", hint="It is on or off.")
    for (name, given), example in zip(names.items(), ("performance", "none"), strict=True):
        if not given.replace("-", "").replace("_", "").isalnum() and given:
            raise ConfigError(f"--vm-{name}={given}: the option takes one word, such as {example}.")
    return HostWishes(
        pin=bool(value(config, "pin")),
        strict=bool(value(config, "strict")),
        governor=names["governor"],
        turbo=turbo,
        scheduler=names["host-scheduler"],
    )


def inventory(config: pytest.Config) -> Inventory | None:
    """What vmstorage.toml says, None where there is none; raises ConfigError."""
    from pytest_vmstorage.config.inventory_file import find_inventory, read_inventory

    name = value(config, "inventory")
    if name:
        return read_inventory(base_of(config, "inventory") / name, f"--vm-inventory={name}")
    path, config.stash[IGNORED] = find_inventory(config.rootpath)
    return read_inventory(path, str(path)) if path is not None else None


def rounds(config: pytest.Config) -> Rounds:
    """How many measured rounds a workload gets; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.measure.rounds import Rounds
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
        from pytest_vmstorage.results.saved import load_baseline

        name = value(config, "baseline")
        config.stash[BASELINE] = load_baseline(name, storage_folder(config)) if name else None
    return config.stash[BASELINE]


def storage_folder(config: pytest.Config) -> Path:
    """Where pytest-benchmark keeps saved runs: its --benchmark-storage, read as a folder."""
    location = str(config.getoption("benchmark_storage", default="") or "file://./.benchmarks")
    return config.invocation_params.dir / location.removeprefix("file://")


def matrix(config: pytest.Config) -> Matrix | None:
    """The matrix file, read and checked, or None; raises ConfigError."""
    from pytest_vmstorage.config.matrix import load_matrix
    from pytest_vmstorage.config.user_input import read_user_text

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
    from pytest_vmstorage.workloads.base import parse_columns

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


_LONGEST_NAME = 100
"""With number and ending it is to be a file's name, of which most file systems take 255 bytes."""


def use_save(config: pytest.Config) -> None:
    """Let pytest-benchmark save the run under --vm-save's name; before it reads its own options.

    Raises pytest.UsageError where it cannot.
    """
    name = value(config, "save")
    if not name:
        return
    if not hasattr(config.option, "benchmark_save"):
        raise pytest.UsageError(
            "--vm-save needs pytest-benchmark, which is switched off here. Take away -p no:benchmark."
        )
    other = config.option.benchmark_save
    if other and other != name:
        raise pytest.UsageError(f"--vm-save={name} and --benchmark-save={other} name one file. Give one of them.")
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise pytest.UsageError(f"--vm-save={name} is no name of a file. Write letters, digits, '-', '_' and '.'.")
    if len(name) > _LONGEST_NAME:
        raise pytest.UsageError(f"--vm-save={name[:20]}... is too long for a file's name. Write a shorter one.")
    if name.isdecimal():
        raise pytest.UsageError(f"--vm-save={name} is a number, and each saved run has one. Write a name.")
    config.option.benchmark_save = name


def policy(config: pytest.Config) -> GatePolicy:
    """How this run is judged; raises ConfigError."""
    from pytest_vmstorage.analysis.gate.policy import GatePolicy, parse_tolerated
    from pytest_vmstorage.analysis.gate.policy_file import FILE_NAME, load_gate_file
    from pytest_vmstorage.units import parse_percent

    spread = value(config, "day-spread")
    found = GatePolicy(
        tolerated=parse_tolerated(value(config, "max-regression"), "--vm-max-regression"),
        day_spread=parse_percent(spread) if spread else None,
        inconclusive=_unsure(config),
        missing=_undecided(config, "missing"),
        today=datetime.datetime.now(datetime.UTC).date(),
        parts=len(post.hosts) if (post := post_of(config)) is not None else 1,
    )
    name = value(config, "gate")
    path = base_of(config, "gate") / name if name else config.rootpath / FILE_NAME
    if not name and not path.is_file():
        return found
    read = load_gate_file(_text(path, name), name or FILE_NAME, found)
    given = {} if config.getoption("vm_max_regression") is None else {"tolerated": found.tolerated}
    return read.model_copy(update=given | ({"day_spread": found.day_spread} if spread else {}))


def _text(path: Path, name: str) -> str:
    from pytest_vmstorage.config.user_input import read_user_text

    return read_user_text(path, f"--vm-gate={name or path}", hint="Name a TOML file.")


def _unsure(config: pytest.Config) -> Unsure:
    from pytest_vmstorage.errors import ConfigError

    given = value(config, "inconclusive")
    known: tuple[Unsure, ...] = ("fail", "suspect", "warn")
    for one in known:
        if given == one:
            return one
    raise ConfigError(f"--vm-inconclusive={given} is not known.", hint="It is fail, suspect or warn.")


def _undecided(config: pytest.Config, name: str) -> Undecided:
    from pytest_vmstorage.errors import ConfigError

    given = value(config, name)
    if given == "fail":
        return "fail"
    if given == "warn":
        return "warn"
    raise ConfigError(f"--vm-{name}={given} is not known.", hint="It is fail or warn.")


def recipe(config: pytest.Config) -> Variant | None:
    """What each cell is paired with, or None; raises ConfigError."""
    from pytest_vmstorage.analysis.gate.policy import HISTORY
    from pytest_vmstorage.config.variant import parse_recipe
    from pytest_vmstorage.errors import ConfigError

    text = value(config, "against")
    if not text:
        return None
    if value(config, "baseline"):
        raise ConfigError("--vm-against and --vm-baseline are two things to judge against.", hint="Give one of them.")
    _check_turns(config, "--vm-against takes its pairs in turns")
    _check_given(config)
    if value(config, "max-regression") == HISTORY:
        raise ConfigError(
            f"--vm-max-regression={HISTORY} is learnt from saved days, and --vm-against has none.",
            hint="Write a percentage.",
        )
    return parse_recipe(text)


def _check_given(config: pytest.Config) -> None:
    """Raise ConfigError for what the user asks of this run and pairs have no use for."""
    from pytest_vmstorage.errors import ConfigError

    if config.getoption("vm_rounds", None) is not None:
        raise ConfigError(
            "--vm-rounds is not used by --vm-against, whose pairs end when they have decided.", hint="Leave it out."
        )
    if value(config, "budget"):
        raise ConfigError(
            "--vm-budget does not count the pairs of --vm-against.",
            hint="Choose tests with -k or -m, and limit the time of each with --vm-pairs-limit.",
        )


def _check_turns(config: pytest.Config, what: str) -> None:
    """Raise ConfigError where this run takes no rounds in turns; `what` is a clause about what needs them."""
    from pytest_vmstorage.config.settings import parse_without
    from pytest_vmstorage.errors import ConfigError

    for name, is_given in (
        ("--pdb", config.getoption("usepdb", False)),
        ("--vm-without=turns", "turns" in parse_without(value(config, "without")).without),
    ):
        if is_given:
            raise ConfigError(f"{what}, and there are none with {name}.", hint="Leave one of the two out.")


def pairs_limit_s(config: pytest.Config) -> float:
    """After how many seconds no further pairs of a test are begun; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.units import parse_duration

    seconds = parse_duration(value(config, "pairs-limit"))
    if not seconds:
        raise ConfigError("--vm-pairs-limit=0 leaves no time to measure.", hint='Write for example "30m".')
    return seconds


def confirms(config: pytest.Config) -> bool:
    """Whether suspects are measured again; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError

    if not value(config, "confirm"):
        return False
    if not value(config, "baseline"):
        raise ConfigError("--vm-confirm without a baseline has no suspects.", hint="Add --vm-baseline=NAME.")
    _check_turns(config, "--vm-confirm takes fresh rounds in turns")
    return True


def takes_more(config: pytest.Config) -> bool:
    """Whether further rounds may be wanted, or another side of each cell; raises ConfigError."""
    return recipe(config) is not None or confirms(config)


def check(config: pytest.Config) -> None:
    """Read all of it; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError

    policy(config)
    recipe(config)
    confirms(config)
    pairs_limit_s(config)
    if value(config, "bisect") and not (value(config, "baseline") or value(config, "against")):
        raise ConfigError("--vm-bisect has nothing to judge against.", hint="Add --vm-baseline or --vm-against.")


def image(config: pytest.Config) -> ListedImage | None:
    """The image that guests boot, None for the appliance; raises ConfigError."""
    from pytest_vmstorage.config.guest_image import choose_image

    listed = inventory(config)
    name, sha256, reach = (str(value(config, name)) for name in ("image", "image-sha256", "image-reach"))
    return choose_image(name, sha256, reach, listed.images if listed else {}, base_of(config, "image"))


def settings_with_image(config: pytest.Config) -> LabSettings:
    """What the user chose for the lab, the image with it; raises ConfigError."""
    return lab_settings(config).model_copy(update={"image": image(config)})
