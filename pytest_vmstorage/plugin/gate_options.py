"""The options of the gate, on the command line and in the ini file; read into one policy at the door."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vmstorage.plugin.option_table import value
from pytest_vmstorage.plugin.options import base_of
from pytest_vmstorage.plugin.post import post_of

if TYPE_CHECKING:
    from pytest_vmstorage.recipe import Recipe
    from pytest_vmstorage.tolerance import GatePolicy, Undecided, Unsure


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
    from pytest_vmstorage.gate_file import FILE_NAME, load_gate_file
    from pytest_vmstorage.tolerance import GatePolicy, parse_tolerated
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
    from pytest_vmstorage.user_input import read_user_text

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


def recipe(config: pytest.Config) -> Recipe | None:
    """What each cell is paired with, or None; raises ConfigError."""
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.recipe import parse_recipe
    from pytest_vmstorage.tolerance import HISTORY

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
    from pytest_vmstorage.errors import ConfigError
    from pytest_vmstorage.hygiene import parse_without

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
