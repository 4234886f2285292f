"""The words of `vmstorage run`: its own options, as argparse has them, and those that go to pytest as they are."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError


class WorkloadOption(NamedTuple):
    """An option whose value are a workload's options: the public name of its class, and an example for --help."""

    call: str
    example: str


WORKLOADS = {
    "--fio": WorkloadOption("Fio", "rw=randwrite bs=4k runtime=5"),
    "--dd": WorkloadOption("Dd", "bs=1M count=512 oflag=direct"),
    "--hdparm": WorkloadOption("Hdparm", "-t"),
    "--ioping": WorkloadOption("Ioping", "count=20 direct"),
    "--tiobench": WorkloadOption("Tiobench", "rw=randread"),
    "--aio-stress": WorkloadOption("AioStress", "direct=1"),
    "--tar": WorkloadOption("Tar", "files=200"),
    "--postmark": WorkloadOption("Postmark", "number=500"),
    "--sqlite": WorkloadOption("Sqlite", "insertions=100"),
    "--iozone": WorkloadOption("Iozone", "tests=0,1"),
    "--web": WorkloadOption("Web", "pages=500"),
    "--image-operations": WorkloadOption("ImageOperations", "data=128M"),
}

_COLLECTOR = "pytest_vmstorage.plugin.text_module"
"""The plugin that collects a text as a test module; by its name, as the command knows nothing of the plugin."""


class _Valued(NamedTuple):
    """An option with a value that may be given several times."""

    metavar: str
    help: str
    example: str


_VALUED = {
    "--axis": _Valued("NAME=VALUE,...", "an axis and its values; every combination is a cell", "format=raw,qcow2"),
    "--storage": _Valued("NAME=VALUE", "a field that every cell has, such as size=2G or guest_fs=ext4", "size=2G"),
    "--at-least": _Valued("METRIC=NUMBER", "a cell fails where the figure is less, as iops=500", "iops=500"),
    "--at-most": _Valued("METRIC=NUMBER", "a cell fails where the figure is more, as clat_p99=5ms", "clat_p99=5ms"),
    "--impossible": _Valued(
        "WHAT", "refuse (default) or leave-out: what becomes of combinations that cannot be", "leave-out"
    ),
}
_SWITCHES = ("--print-test", "--help", "-h")

_HELP = """\
Measures workloads in every cell of the axes, in real guests. pytest does it, as with a test file: report, thresholds,
saved runs, journals and exit status are the same. All options --vm-* are taken here, and all of pytest behind --."""

_EXAMPLE_LINES = """\
examples:
  vmstorage run --axis format=raw,qcow2 --axis cache=none,writeback --fio "rw=randwrite bs=4k iodepth=32 runtime=5"
  vmstorage run --axis bus=virtio-blk,nvme --storage size=4G --fio "rw=read bs=1M size=2G" --dd "bs=1M oflag=direct"
  vmstorage run --axis backing=file,native --hdparm "-t -T" --at-least buffered_read=100
  vmstorage run --axis guest_fs=ext4,xfs --tar --sqlite insertions=200

  vmstorage run --axis cache=none,unsafe --fio db.fio --vm-save=main         # a day of the baseline main
  vmstorage run --axis cache=none,unsafe --fio db.fio --vm-baseline=main     # judged against it
  vmstorage run --axis format=raw,qcow2 --fio rw=randread --vm-plan          # what it would do, and how long
  vmstorage run --axis format=raw,qcow2 --fio rw=randread -- -k qcow2 -x     # with options of pytest
  vmstorage run --axis format=raw,qcow2 --fio rw=randread --print-test > test_vmstorage.py

Workloads take their options as test files do (`Fio(rw="randwrite", bs="4k")`), a fio job file by its name. Tests are
named after their workloads, so that the runs of a folder can be compared, also with those of the printed file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options; the namespace has `axis`, `storage`, `at_least`, `at_most` and `workload` as lists.

    Each workload is the pair of its option and its text.
    """
    parser.description, parser.epilog = _HELP, _EXAMPLE_LINES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.usage = "vmstorage run [--axis NAME=VALUE,...]... --WORKLOAD OPTIONS... [--vm-...] [-- PYTEST OPTIONS]"
    for name in ("--axis", "--storage"):
        parser.add_argument(name, metavar=_VALUED[name].metavar, action="append", default=[], help=_VALUED[name].help)
    workloads = parser.add_argument_group("workloads, of which one at least is given, in the tools' own words")
    for name, (_, example) in WORKLOADS.items():
        workloads.add_argument(
            name,
            metavar="OPTIONS",
            dest="workload",
            action=_Workload,
            default=[],
            nargs="?",
            const="",
            help=f'as "{example}"' + (", or a job file: FILE.fio" if name == "--fio" else ""),
        )
    others = parser.add_argument_group("thresholds and what else")
    for name in ("--at-least", "--at-most"):
        others.add_argument(name, metavar=_VALUED[name].metavar, action="append", default=[], help=_VALUED[name].help)
    others.add_argument("--impossible", metavar="WHAT", action="append", default=[], help=_VALUED["--impossible"].help)
    others.add_argument("--print-test", action="store_true", help="print the test file that it stands for, run nothing")


class _Workload(argparse.Action):
    """Gathers the workloads of all options in the order of the command line."""

    def __call__(self, _: object, namespace: argparse.Namespace, text: Any, option: str | None = None) -> None:
        namespace.workload = [*namespace.workload, (option, text)]


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words for argparse, each with its value behind "=", and those for pytest.

    pytest's are all behind "--", and options --vm-* with their values. Raises ConfigError for any other word.
    """
    ours: list[str] = []
    theirs: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, is_given, _ = word.partition("=")
        # a value may begin with a dash, as in --hdparm -t
        follows = not is_given and bool(rest) and not _begins_option(rest[0])
        if word == "--":
            return ours, [*theirs, *rest]
        if name.startswith("--vm-"):
            theirs += [word, *([rest.pop(0)] if follows and not rest[0].startswith("-") else [])]
        elif name in _VALUED or name in WORKLOADS:
            if not (is_given or follows or name in WORKLOADS):
                raise ConfigError(f"{name} has no value.", hint=f"Write {name} {_VALUED[name].example}.", code="VM241")
            ours.append(f"{name}={rest.pop(0)}" if follows else word)
        elif word in _SWITCHES:
            ours.append(word)
        else:
            raise _unknown(word)
    return ours, theirs


def _begins_option(word: str) -> bool:
    name = word.partition("=")[0]
    return word == "--" or name.startswith("--vm-") or name in (*_VALUED, *WORKLOADS, *_SWITCHES)


def _unknown(word: str) -> ConfigError:
    name = word.partition("=")[0]
    hint = (
        f"{close_to(name, (*_VALUED, *WORKLOADS, *_SWITCHES))}Options of pytest stand behind --, as in `-- -k qcow2`."
    )
    kind = "option" if word.startswith("-") else "word"
    return ConfigError(f"`vmstorage run` has no {kind} {name!r}.", hint=hint, code="VM240")


def has_matrix(words: Sequence[str]) -> bool:
    """Whether these words for pytest name a matrix file."""
    return any(word.partition("=")[0] == "--vm-matrix" for word in words)


def pytest_words(text: str, words: Sequence[str]) -> list[str]:
    """The command line of the pytest that runs a test file of that text in the current folder, as if it were there.

    Saved runs, journals and pytest's own cache are in the current folder, too, unless the user's words say otherwise.
    """
    return ["-p", _COLLECTOR, f"--vm-test-text={text}", "--rootdir=.", ".", *words]
