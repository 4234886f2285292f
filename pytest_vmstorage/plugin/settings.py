"""The options of a run, parsed, checked and frozen: read once from pytest's config and handed on from its stash."""

from __future__ import annotations

import datetime
import random
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import pytest
from pydantic import BaseModel, ConfigDict

from pytest_vmstorage.analysis.gate.policy import GATE_FILE, HISTORY, GatePolicy, Undecided, Unsure, parse_tolerated
from pytest_vmstorage.config.cell import AXES
from pytest_vmstorage.config.guest_image import ListedImage, choose_image
from pytest_vmstorage.config.inventory import LOCAL, FoundInventory, Inventory, choose_hosts, find_host, find_inventory
from pytest_vmstorage.config.settings import AccelRequest, Boot, HostWishes, Hygiene, LabSettings, parse_without
from pytest_vmstorage.config.user_input import read_user_text
from pytest_vmstorage.config.variant import Variant, parse_recipe
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.measure.rounds import Rounds
from pytest_vmstorage.plugin.options import NOT_AXES, OPTIONS, VERBOSITY, ini_name, value
from pytest_vmstorage.plugin.stash import SETTINGS
from pytest_vmstorage.plugin.xdist.channel import post_of
from pytest_vmstorage.results.saved import Baseline, load_baseline
from pytest_vmstorage.text import quoted
from pytest_vmstorage.units import parse_duration, parse_percent
from pytest_vmstorage.workloads.base import Columns, parse_columns

if TYPE_CHECKING:
    from pytest_vmstorage.analysis.calibration import DaySpread
    from pytest_vmstorage.config.matrix import Matrix

Spread = Literal["shard", "each"]
"""Ways in which several hosts share a run: cells are divided, or every cell is measured on every host."""

_DIGITS = 18
_SHOWN = 40
"""Characters of a wrong number that a sentence can bear."""

_LONGEST_NAME = 100
"""The name becomes a file's, with a number and a suffix; most file systems take 255 bytes."""


class NamedPath(NamedTuple):
    """A file or folder by the name that the user gave; `base` is where a relative name begins."""

    option: str
    text: str
    base: Path

    def __str__(self) -> str:
        return f"--vm-{self.option}={self.text}"

    @property
    def path(self) -> Path:
        """The path itself; raises ConfigError where `~` names nobody."""
        try:
            return self.base / Path(self.text).expanduser()
        except (RuntimeError, ValueError):
            raise ConfigError(f"{self} leads nowhere.", hint="Name a path on this machine.", code="VM212") from None


class Settings(BaseModel):
    """A run's options; `settings_of` reads them, and raises ConfigError for a value that cannot be.

    `hosts` and the properties below it depend on files: each is read when it is first wanted, and once. They raise
    ConfigError as well. `lab_options` is `lab` without what comes from files, `gate_options` is `policy` without them.
    `worker_host` and `worker_hosts` are those of a worker of pytest-xdist and of all workers, empty in other processes.
    """

    model_config = ConfigDict(frozen=True)

    root: Path
    host_names: str
    worker_host: str
    worker_hosts: tuple[str, ...]
    spread: Spread
    folder: NamedPath
    inventory_file: NamedPath
    image_file: NamedPath
    image_sha256: str
    image_reach: str
    matrix_file: NamedPath
    not_axes: tuple[str, ...]
    lab_options: LabSettings
    rounds: Rounds
    seed: int
    budget: str
    budget_s: float | None
    columns: Columns
    si_units: bool
    report_paths: tuple[Path, ...]
    timeline_path: Path | None
    save: str
    saved_runs: Path
    baseline_name: str
    variant: Variant | None
    confirm: bool
    pairs_limit_s: float
    gate_file: NamedPath
    gate_options: GatePolicy
    is_tolerance_given: bool
    bisect: bool
    plan: bool
    verbosity: int

    @property
    def hygiene(self) -> Hygiene:
        """The steps around the rounds."""
        return self.lab_options.hygiene

    @property
    def takes_more(self) -> bool:
        """Whether further rounds may be wanted, or another side of each cell."""
        return self.variant is not None or self.confirm

    @cached_property
    def _found_inventory(self) -> FoundInventory:
        return find_inventory(self.root)

    @property
    def ignored(self) -> tuple[str, ...]:
        """A sentence for each vmstorage.toml that is another user's, and is not used."""
        return () if self.inventory_file.text else self._found_inventory.ignored

    @cached_property
    def inventory(self) -> Inventory | None:
        """The content of vmstorage.toml, None where there is none."""
        if self.inventory_file.text:
            path, name = self.inventory_file.path, str(self.inventory_file)
        elif self._found_inventory.path is not None:
            path, name = self._found_inventory.path, str(self._found_inventory.path)
        else:
            return None
        from pytest_vmstorage.config.inventory_file import read_inventory

        return read_inventory(path, name)

    @cached_property
    def hosts(self) -> tuple[str, ...]:
        """The hosts that the run measures on, "local" for this machine."""
        return self.worker_hosts or choose_hosts(self.host_names, self.inventory)

    @property
    def host(self) -> str:
        """The host of this process."""
        return self.worker_host or self.hosts[0]

    @property
    def swept_hosts(self) -> tuple[str, ...]:
        """The hosts of which each has every cell, with --vm-spread=each; else none."""
        return () if self.spread == "shard" else self.hosts

    @cached_property
    def lab(self) -> LabSettings:
        """The settings that the lab is opened with."""
        folder: str | None = self.folder.text or None
        if folder and self.host == LOCAL:
            try:
                folder = str(self.folder.path.resolve())
            except (OSError, RuntimeError, ConfigError):
                # RuntimeError is pathlib's for links in a circle
                raise ConfigError(
                    f"{self.folder} leads nowhere.", hint="Name a folder on a disk.", code="VM212"
                ) from None
        images = self.inventory.images if self.inventory else {}
        image: ListedImage | None = choose_image(
            self.image_file.text, self.image_sha256, self.image_reach, images, self.image_file.base
        )
        host = None if self.host == LOCAL else self.host
        return self.lab_options.model_copy(
            update={"host": host, "folder": folder, "inventory": self.inventory, "image": image}
        )

    @cached_property
    def matrix(self) -> Matrix | None:
        """The matrix file, read and checked; None without one."""
        file = self.matrix_file
        if not file.text:
            return None
        # most runs have no such file, and its tables take milliseconds
        from pytest_vmstorage.config.matrix import load_matrix

        return load_matrix(read_user_text(file.path, str(file), hint="Name a TOML file."), file.text)

    @cached_property
    def policy(self) -> GatePolicy:
        """The policy by which the run is judged: the gate file's, but options come before it."""
        file, options = self.gate_file, self.gate_options
        if self.baseline_name and options.day_spread is None:
            options = options.model_copy(update={"day_spreads": self._day_spreads})
        path = file.path if file.text else self.root / GATE_FILE
        if not file.text and not path.is_file():
            return options
        # as with the matrix file
        from pytest_vmstorage.analysis.gate.policy_file import load_gate_file

        text = read_user_text(path, f"--vm-gate={file.text or path}", hint="Name a TOML file.")
        read = load_gate_file(text, file.text or GATE_FILE, options)
        given = {"tolerated": options.tolerated} if self.is_tolerance_given else {}
        spread = {} if options.day_spread is None else {"day_spread": options.day_spread}
        return read.model_copy(update=given | spread)

    @property
    def _day_spreads(self) -> Mapping[str, DaySpread]:
        """How far days of the run's hosts differ, by their names, as far as they were calibrated on several."""
        # most runs have no baseline, or a spread that is stated
        from pytest_vmstorage.analysis.calibration import day_spread
        from pytest_vmstorage.host.calibrations import calibrations_of

        names = [find_host(None if host == LOCAL else host, None, self.inventory).name for host in self.hosts]
        found = {name: day_spread(calibrations_of(name)) for name in names}
        return {name: spread for name, spread in found.items() if spread is not None}

    @cached_property
    def baseline(self) -> Baseline | None:
        """The saved run to judge against, None without one.

        Read once: pytest-benchmark may save this run under the same name before the report is made.
        """
        return load_baseline(self.baseline_name, self.saved_runs) if self.baseline_name else None


def settings_of(config: pytest.Config) -> Settings:
    """The run's settings, read at the first call; raises ConfigError for an option that cannot be."""
    if SETTINGS not in config.stash:
        config.stash[SETTINGS] = _read(config)
    return config.stash[SETTINGS]


def debugger_of(config: pytest.Config) -> str:
    """The option by which a debugger stops in tests, "" where none does."""
    return next((f"--{name.removeprefix('use')}" for name in ("trace", "usepdb") if config.getoption(name, False)), "")


def _read(config: pytest.Config) -> Settings:
    post = post_of(config)
    lab_options, rounds = _lab_options(config), _rounds(config)
    _check_effect(config)
    timeline = _named(config, "timeline")
    # pytest-benchmark's --benchmark-storage, read as a folder
    storage = str(config.getoption("benchmark_storage", default="") or "file://./.benchmarks").removeprefix("file://")
    return Settings(
        root=config.rootpath,
        host_names=value(config, "host"),
        worker_host=post.host if post is not None else "",
        worker_hosts=post.hosts if post is not None else (),
        spread=_one_of(config, "spread", get_args(Spread)),
        folder=_named(config, "dir"),
        inventory_file=_named(config, "inventory"),
        image_file=_named(config, "image"),
        image_sha256=str(value(config, "image-sha256")),
        image_reach=str(value(config, "image-reach")),
        matrix_file=_named(config, "matrix"),
        not_axes=_not_axes(config),
        lab_options=lab_options,
        rounds=rounds,
        seed=_seed(config),
        gate_options=_gate_options(config, parts=len(post.hosts) if post is not None else 1),
        gate_file=_named(config, "gate"),
        is_tolerance_given=config.getoption(ini_name("max-regression")) is not None,
        baseline_name=value(config, "baseline"),
        variant=_variant(config, lab_options.hygiene),
        confirm=_confirm(config, lab_options.hygiene),
        pairs_limit_s=_some_time(config, "pairs-limit", "leaves no time to measure"),
        bisect=_bisect(config),
        budget=value(config, "budget"),
        budget_s=_some_time(config, "budget", "leaves no time to measure") if value(config, "budget") else None,
        columns=parse_columns(value(config, "columns"), "--vm-columns"),
        si_units=_one_of(config, "units", ("iec", "si"), "It is iec (MiB/s) or si (MB/s).") == "si",
        report_paths=tuple(one.path for one in _each_named(config, "report")),
        timeline_path=timeline.path if timeline.text else None,
        save=_save(config),
        saved_runs=config.invocation_params.dir / storage,
        plan=bool(value(config, "plan")),
        verbosity=_verbosity(config),
    )


def _verbosity(config: pytest.Config) -> int:
    """How much of the report is printed at the end, as pytest's verbosity: 1 with -v, -2 with -qq."""
    if config.getoption("no_summary", default=False):
        return -2
    if value(config, "details"):
        return 1
    try:
        return config.get_verbosity("vmstorage") if hasattr(config.option, "verbose") else 0
    except ValueError:
        raise ConfigError(
            f"{VERBOSITY}={quoted(config.getini(VERBOSITY))} is not a verbosity.",
            hint="Write a number as pytest counts: 1 is -v, -1 is -q, -2 is -qq; or auto, for pytest's own.",
            code="VM201",
        ) from None


def _lab_options(config: pytest.Config) -> LabSettings:
    """The options of the lab, but for host, folder and image."""
    return LabSettings(
        accel=_one_of(config, "accel", get_args(AccelRequest)),
        boot=_one_of(config, "boot", get_args(Boot)) if value(config, "boot") else None,
        timeout_s=_some_time(config, "timeout", "leaves a guest no time to boot"),
        keep=bool(value(config, "keep")),
        hygiene=parse_without(value(config, "without")),
        wishes=HostWishes(
            pin=bool(value(config, "pin")),
            strict=bool(value(config, "strict")),
            turbo=_one_of(config, "turbo", ("on", "off")) if value(config, "turbo") else "",
            governor=_word(config, "governor", "performance"),
            scheduler=_word(config, "host-scheduler", "none"),
        ),
        wait_s=parse_duration(value(config, "wait")),
    )


def _check_effect(config: pytest.Config) -> None:
    """Raise ConfigError for an option on the command line that does nothing: an empty one, one that lacks another."""
    for name in (name for _, _, options in OPTIONS for name, *_ in options):
        # where the ini file has a value, an empty option takes it away
        if config.getoption(ini_name(name)) in ("", [""]) and not config.getini(ini_name(name)):
            raise ConfigError(
                f"--vm-{name}= is empty and does nothing.", hint="Give it a value, or leave it out.", code="VM201"
            )
    is_auto, is_paired = value(config, "rounds") == "auto", bool(value(config, "against"))
    for name, other, is_there in (
        ("precision", "--vm-rounds=auto", is_auto),
        ("rounds-limit", "--vm-rounds=auto", is_auto),
        ("pairs-limit", "--vm-against", is_paired),
    ):
        given = config.getoption(ini_name(name))
        if given is not None and not is_there:
            raise ConfigError(
                f"--vm-{name}={given} does nothing without {other}.", hint="Add that, or leave it out.", code="VM202"
            )


def _not_axes(config: pytest.Config) -> tuple[str, ...]:
    """The names of parameters that are the tests' own."""
    names = " ".join(config.getini(NOT_AXES)).replace(",", " ").split()
    for name in names:
        if name in AXES:
            raise ConfigError(
                f"{NOT_AXES}: {name} is an axis in every storage test.",
                hint="Take the name away, and give the parameter of the test another one.",
                code="VM209",
            )
        if not name.isidentifier():
            raise ConfigError(
                f"{NOT_AXES}: {quoted(name)} is not the name of a parameter.",
                hint="Write for example fromat.",
                code="VM209",
            )
    return tuple(names)


def _word(config: pytest.Config, name: str, example: str) -> str:
    given = str(value(config, name))
    if given and not given.replace("-", "").replace("_", "").isalnum():
        raise ConfigError(f"--vm-{name}={given}: the option takes one word, such as {example}.", code="VM201")
    return given


def _rounds(config: pytest.Config) -> Rounds:
    """The rule for the number of measured rounds."""
    text = str(value(config, "rounds"))
    precision = parse_percent(value(config, "precision"))
    limit_s = _some_time(config, "rounds-limit", "leaves no time to measure")
    if text == "auto":
        return Rounds(count=None, precision=precision, limit_s=limit_s)
    if not _is_number(text) or int(text) < 1:
        raise ConfigError(
            f"--vm-rounds={text[:_SHOWN]} is not a number of rounds.", hint="Write 1 or more, or auto.", code="VM201"
        )
    return Rounds(count=int(text))


def _seed(config: pytest.Config) -> int:
    """The seed of the order in which cells take turns."""
    text = str(value(config, "seed"))
    if text and not _is_number(text):
        hint = "Write the one that an earlier report names."
        raise ConfigError(f"--vm-seed={text[:_SHOWN]} is not a number.", hint=hint, code="VM201")
    return int(text) if text else random.SystemRandom().randrange(10**6)


def _is_number(text: str) -> bool:
    """Whether it is one, of a size that somebody means; int() itself refuses thousands of digits."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS


def _gate_options(config: pytest.Config, parts: int) -> GatePolicy:
    """The policy that options state; `parts` is the number of hosts that judge a part each."""
    spread = value(config, "day-spread")
    return GatePolicy(
        tolerated=parse_tolerated(value(config, "max-regression"), "--vm-max-regression"),
        day_spread=parse_percent(spread) if spread else None,
        inconclusive=_one_of(config, "inconclusive", get_args(Unsure)),
        missing=_one_of(config, "missing", get_args(Undecided)),
        today=datetime.datetime.now(datetime.UTC).date(),
        parts=parts,
    )


def _variant(config: pytest.Config, hygiene: Hygiene) -> Variant | None:
    """The variant of each cell to pair it with; options that pairs cannot use are refused with it."""
    text = value(config, "against")
    if not text:
        return None
    if value(config, "baseline"):
        raise ConfigError(
            "--vm-against and --vm-baseline are two things to judge against.", hint="Give one of them.", code="VM203"
        )
    _check_turns(config, hygiene, "--vm-against takes its pairs in turns")
    if config.getoption(ini_name("rounds")) is not None:
        raise ConfigError(
            "--vm-rounds is not used by --vm-against, whose pairs end when they have decided.",
            hint="Leave it out.",
            code="VM203",
        )
    if value(config, "budget"):
        raise ConfigError(
            "--vm-budget does not count the pairs of --vm-against.",
            hint="Choose tests with -k or -m, and limit the time of each with --vm-pairs-limit.",
            code="VM203",
        )
    if value(config, "max-regression") == HISTORY:
        raise ConfigError(
            f"--vm-max-regression={HISTORY} is learnt from saved days, and --vm-against has none.",
            hint="Write a percentage.",
            code="VM203",
        )
    return parse_recipe(text)


def _confirm(config: pytest.Config, hygiene: Hygiene) -> bool:
    """Whether suspects are measured again."""
    if not value(config, "confirm"):
        return False
    if not value(config, "baseline"):
        raise ConfigError(
            "--vm-confirm without a baseline has no suspects.", hint="Add --vm-baseline=NAME.", code="VM202"
        )
    _check_turns(config, hygiene, "--vm-confirm takes fresh rounds in turns")
    return True


def _check_turns(config: pytest.Config, hygiene: Hygiene, clause: str) -> None:
    """Refuse what keeps rounds from being taken in turns; `clause` says what needs them."""
    for name in (debugger_of(config), "" if hygiene.has("turns") else "--vm-without=turns"):
        if name:
            raise ConfigError(
                f"{clause}, and there are none with {name}.", hint="Leave one of the two out.", code="VM203"
            )


def _bisect(config: pytest.Config) -> bool:
    """Whether the exit status is for `git bisect run`."""
    if value(config, "bisect") and not (value(config, "baseline") or value(config, "against")):
        raise ConfigError(
            "--vm-bisect has nothing to judge against.", hint="Add --vm-baseline or --vm-against.", code="VM202"
        )
    return bool(value(config, "bisect"))


def _save(config: pytest.Config) -> str:
    """The name that pytest-benchmark is to save the run under, "" for none."""
    name = str(value(config, "save"))
    if not name:
        return ""
    if not hasattr(config.option, "benchmark_save"):
        hint = "Take away -p no:benchmark."
        raise ConfigError("--vm-save needs pytest-benchmark, which is switched off here.", hint=hint, code="VM205")
    other = config.option.benchmark_save
    if other and other != name:
        raise ConfigError(
            f"--vm-save={name} and --benchmark-save={other} name one file.", hint="Give one of them.", code="VM203"
        )
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        hint = "Write letters, digits, '-', '_' and '.'."
        raise ConfigError(f"--vm-save={name} cannot be the name of a file.", hint=hint, code="VM204")
    if len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"--vm-save={name[:20]}... is too long for a file's name.", hint="Write a shorter one.", code="VM204"
        )
    if name.isdecimal():
        raise ConfigError(
            f"--vm-save={name} is a number, and each saved run has one.", hint="Write a name.", code="VM204"
        )
    return name


def _one_of(config: pytest.Config, name: str, known: Sequence[Any], hint: str = "") -> Any:
    """An option's value where it is among those known."""
    given = value(config, name)
    if given not in known:
        *others, last = known
        raise ConfigError(
            f"--vm-{name}={given} is not known.", hint=hint or f"It is {', '.join(others)} or {last}.", code="VM201"
        )
    return given


def _some_time(config: pytest.Config, name: str, flaw: str) -> float:
    """An option's duration in seconds, refused with `flaw` where it is 0."""
    seconds = parse_duration(value(config, name))
    if not seconds:
        raise ConfigError(f"--vm-{name}=0 {flaw}.", hint='Write for example "90s" or "30m".', code="VM201")
    return seconds


def _named(config: pytest.Config, name: str) -> NamedPath:
    """A path that an option names; "" for none. It begins at the shell's folder, or at that of its ini file."""
    is_shell = config.getoption(ini_name(name)) is not None or config.inipath is None
    base = config.invocation_params.dir if is_shell or config.inipath is None else config.inipath.parent
    return NamedPath(name, str(value(config, name)), base)


def _each_named(config: pytest.Config, name: str) -> list[NamedPath]:
    """The paths of an option that may be given several times."""
    return [_named(config, name)._replace(text=text) for text in value(config, name)]
