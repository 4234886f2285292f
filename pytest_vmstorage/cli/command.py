"""The `vmstorage` command: its subcommands, their options, and its exit status."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import select
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from pytest_vmstorage.cli.doctor.examine import diagnosis_lines, examine
from pytest_vmstorage.cli.promote import promote
from pytest_vmstorage.cli.run import words as run_words
from pytest_vmstorage.cli.show import newest_run, raw_outputs, show_cell, timed_run
from pytest_vmstorage.config.inventory import Inventory, find_host, find_inventory
from pytest_vmstorage.config.inventory_file import read_inventory
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import ConfigError, VmStorageError
from pytest_vmstorage.guest.appliance import build
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.lab.opening import find_leftover_hosts, open_kept_guest, reap_host
from pytest_vmstorage.report.time_spent import time_lines
from pytest_vmstorage.results.saved import load_baseline
from pytest_vmstorage.text import plain

_RUN = "run"
_SAVED = ".benchmarks"
_JOURNALS = ".vmstorage"
_WRONG_USAGE = 4
"""pytest's exit status for it; 2 is that of an interrupted run."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand: 0 for success, 1 with one sentence on stderr for a failure, 2 for wrong usage.

    `run` has pytest's exit status, which is 4 for wrong usage.

    Where the reader of its output is gone, as with `| head`, it ends silently with 141, as SIGPIPE ends programs.
    """
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        if not _is_unread(sys.stdout):
            raise
        # Python flushes at its end, and would report a failure (library reference, signal, "Note on SIGPIPE")
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else list(argv)
    parser = _parser()
    if not words:
        parser.print_help(sys.stderr)
        return 2
    try:
        if words[0] == _RUN:
            return _measure(parser, words[1:])
        arguments = parser.parse_args(words)
        return int(arguments.run(arguments))
    except VmStorageError as error:
        print(f"vmstorage: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _is_unread(stream: TextIO) -> bool:
    """Whether the stream is a pipe or socket without a reader."""
    try:
        number = stream.fileno()
    except (OSError, ValueError):
        return False
    poll = select.poll()
    poll.register(number, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


class _Version(argparse.Action):
    """Print the package's version, which is slow to find and so is looked up here only."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"pytest-vmstorage {importlib.metadata.version('pytest-vmstorage')}", flush=True)
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vmstorage", description="Measure VM storage configurations, and look after what that needs and leaves."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the package's version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run_words.add_arguments(commands.add_parser(_RUN, help="measure workloads in cells, without a test file"))

    doctor = commands.add_parser(
        "doctor", help="say what can be measured on a host, axis by axis, and why the rest cannot"
    )
    doctor.add_argument("--vm-host", "--host", metavar="NAME", help="lab host (default: this machine)")
    doctor.add_argument("--vm-dir", metavar="FOLDER", help="folder for the disks under test")
    doctor.add_argument("--vm-inventory", metavar="FILE", help="file that lists hosts and devices (vmstorage.toml)")
    doctor.add_argument("--json", action="store_true", help="print what was found as JSON")
    doctor.set_defaults(run=_doctor)

    image = commands.add_parser("image", help="build the guest appliance, or check the one there is")
    image.add_argument("--rebuild", action="store_true", help="build it anew, with today's packages")
    image.set_defaults(run=_image)

    reaping = commands.add_parser("reap", help="remove what dead runs left on this machine, or on a lab host")
    reaping.add_argument("--host", "--vm-host", metavar="NAME", help="lab host (default: this machine)")
    reaping.add_argument("--vm-inventory", metavar="FILE", help="file that lists hosts and devices (vmstorage.toml)")
    reaping.add_argument("--dry-run", action="store_true", help="only say what is left, and whose it was")
    reaping.add_argument("--kept", action="store_true", help="also what --vm-keep left running")
    reaping.set_defaults(run=_reap)

    execute = commands.add_parser("exec", help="run a command in a guest that --vm-keep left running")
    execute.add_argument("run_id", metavar="RUN", help="the run's id, as --vm-keep printed it")
    execute.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    execute.set_defaults(run=_exec)

    show = commands.add_parser("show", help="show what proves that a measured cell is what its id says")
    show.add_argument("cell", metavar="CELL", help="the cell's id, such as raw-none-virtio-blk-off")
    show.add_argument("file", metavar="FILE", nargs="?", help="a saved run (default: the newest below .benchmarks)")
    show.add_argument("--raw", action="store_true", help="print what the tools printed in each round, and nothing else")
    show.set_defaults(run=_show)

    timing = commands.add_parser("time", help="show where a run's time went, by step and by cell")
    timing.add_argument(
        "saved",
        metavar="RUN",
        nargs="?",
        help="a saved run's name, number or file, or a journal (default: the newest in .benchmarks and .vmstorage)",
    )
    timing.set_defaults(run=_time)

    promoting = commands.add_parser("promote", help="make a saved run the baseline, and say what changes by it")
    promoting.add_argument("saved", metavar="RUN", help="the run: its name, its number or its file")
    promoting.add_argument("--as", dest="name", metavar="NAME", required=True, help="the baseline's name, such as main")
    promoting.add_argument("--storage", metavar="FOLDER", default=_SAVED, help=f"where runs are saved [{_SAVED}]")
    promoting.set_defaults(run=_promote)
    return parser


def _measure(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Print the test file, or become the pytest that runs it; pytest's status of wrong usage for words that are."""
    try:
        ours, theirs = run_words.split_words(words)
        arguments = parser.parse_args([_RUN, *ours])
        # the other subcommands need no workloads
        from pytest_vmstorage.cli.run.request import read_request
        from pytest_vmstorage.cli.run.template import render_test_file

        text = render_test_file(
            read_request(
                axes=arguments.axis,
                storage=arguments.storage,
                workloads=arguments.workload,
                at_least=arguments.at_least,
                at_most=arguments.at_most,
                impossible=arguments.impossible,
                matrix=run_words.has_matrix(theirs),
            )
        )
    except ConfigError as error:
        print(f"vmstorage: {error}", file=sys.stderr)
        return _WRONG_USAGE
    if not arguments.print_test:
        sys.stdout.flush()
        # without -P Python would take modules that lie in the folder for its own
        line = [sys.executable, "-P", "-m", "pytest", *run_words.pytest_words(text, theirs)]
        os.execv(line[0], line)  # noqa: S606 (there is no shell between)
    print(text, end="")
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    inventory = _inventory(arguments.vm_inventory)
    found = examine(LabSettings(host=arguments.vm_host, folder=arguments.vm_dir, inventory=inventory), _say)
    if found.problem:
        print(f"vmstorage: {found.problem}", file=sys.stderr, flush=True)
    if arguments.json:
        print(found.model_dump_json(indent=1))
    else:
        for line in diagnosis_lines(found, shutil.get_terminal_size((116, 24)).columns):
            print(plain(line))
    return 1 if found.problem else 0


def _inventory(given: str | None) -> Inventory | None:
    if given:
        return read_inventory(Path(given), given)
    path, ignored = find_inventory(Path.cwd())
    for sentence in ignored:
        _say(sentence)
    return read_inventory(path, str(path)) if path is not None else None


def _image(arguments: argparse.Namespace) -> int:
    if arguments.rebuild:
        build.discard()
    found = build.ensure(LocalShell(), say=_say)
    tools = ", ".join(f"{name} {version}" for name, version in found.manifest.tools.items())
    print(f"the guest appliance is in {found.kernel.parent}: kernel {found.manifest.kernel_version}, {tools}")
    return 0


def _reap(arguments: argparse.Namespace) -> int:
    host = find_host(arguments.host, None, _inventory(arguments.vm_inventory))
    found = reap_host(host, kept=arguments.kept, look_only=arguments.dry_run)
    for one in found:
        print(plain(str(one)), file=sys.stdout if one.is_clear else sys.stderr)
    for other in [] if arguments.host else find_leftover_hosts():
        print(f"on {other} dead runs left something too: `vmstorage reap --host={other}`")
    if not found:
        print("nothing to remove: no dead run left anything")
    return 0 if all(one.is_clear for one in found) else 1


def _exec(arguments: argparse.Namespace) -> int:
    if not arguments.command:
        raise ConfigError("There is no command to run.", hint="Write `vmstorage exec RUN uname -a`.")
    with open_kept_guest(arguments.run_id) as shell:
        done = shell.run(["/bin/sh", "-c", command_line(arguments.command)])
    for stream, text in ((sys.stdout, done.stdout), (sys.stderr, done.stderr)):
        # control sequences of a guest must not reach the user's terminal; a file or a pipe gets them unchanged
        stream.write(plain(text) if stream.isatty() else text)
    return done.returncode


def command_line(words: Sequence[str]) -> str:
    """The line for the guest's shell: a single word is a line of sh, as for ssh; several words are a command."""
    return words[0] if len(words) == 1 else shlex.join(words)


def _show(arguments: argparse.Namespace) -> int:
    saved = load_baseline(arguments.file, Path(_SAVED)) if arguments.file else newest_run(Path(_SAVED))
    lines = (raw_outputs if arguments.raw else show_cell)(saved.run, arguments.cell, str(saved.path))
    print(plain("\n".join(lines)))
    return 0


def _time(arguments: argparse.Namespace) -> int:
    source, timelines = timed_run(arguments.saved, Path(_SAVED), Path(_JOURNALS))
    print(plain("\n".join([source, "", *time_lines(timelines)])))
    return 0


def _promote(arguments: argparse.Namespace) -> int:
    print(plain("\n".join(promote(arguments.saved, arguments.name, Path(arguments.storage)))))
    return 0


def _say(sentence: str) -> None:
    print(plain(sentence), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
