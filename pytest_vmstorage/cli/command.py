"""The `vmstorage` command: its subcommands, their options, and its exit status.

PYTHON_ARGCOMPLETE_OK: where argcomplete is set up for all commands, it looks for these words.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import select
import shlex
import shutil
import signal
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from pytest_vmstorage.cli.doctor.examine import check_needs, diagnosis_lines, examine, lacks
from pytest_vmstorage.cli.export import export
from pytest_vmstorage.cli.promote import promote
from pytest_vmstorage.cli.run import words as run_words
from pytest_vmstorage.cli.show import WIDEST, newest_run, raw_outputs, show_cell, timed_run
from pytest_vmstorage.config.inventory import Inventory, find_host, find_inventory
from pytest_vmstorage.config.inventory_file import read_inventory
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import ConfigError, VmStorageError, where_more
from pytest_vmstorage.guest.appliance import build
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.lab.opening import find_leftover_hosts, open_kept_guest, reap_host
from pytest_vmstorage.leftovers import write_whole
from pytest_vmstorage.report.exports.targets import TARGETS
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
    if "_ARGCOMPLETE" in os.environ:
        from pytest_vmstorage.cli.completion import answer_shell

        answer_shell(parser)
    if not words:
        parser.print_help(sys.stderr)
        return 2
    try:
        if words[0] == _RUN:
            return _measure(parser, words[1:])
        arguments = parser.parse_args(words)
        return int(arguments.run(arguments))
    except VmStorageError as error:
        _refuse(error)
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


_EXAMPLES = """\
examples:
  vmstorage doctor                              # what this machine can measure
  vmstorage run --axis format=raw,qcow2 --fio "rw=randwrite bs=4k runtime=5"
  vmstorage show raw-none-virtio-blk-off        # its figures, and their proof
  vmstorage reap --dry-run                      # what dead runs left

`vmstorage COMMAND --help` says more."""


class _Told(NamedTuple):
    """What the help of a subcommand says: its line in the list of all, what it is for, and examples."""

    line: str
    does: str
    examples: tuple[str, ...]


_TOLD = {
    "doctor": _Told(
        "say what can be measured on a host, axis by axis, and why the rest cannot",
        "Opens the host as a run does and tries out the values of each axis: cache modes, formats, buses, what can lie"
        " below a disk. Run it before the first test on a new host. In CI give it what the tests need: the exit status"
        " is 1 where something of it is missing, and where no guest can run at all.",
        (
            "vmstorage doctor",
            "vmstorage doctor --vm-host=lab01 --vm-dir=/srv/vm",
            "vmstorage doctor --need=kvm --need=bus=nvme   # for CI",
            "vmstorage doctor --json | jq '.findings[] | select(.status == \"no\")'",
        ),
    ),
    "calibrate": _Told(
        "measure how far a host's figures go apart, and what follows for runs on it",
        "Measures, once and with guests of its own, what a run cannot know beforehand: how far rounds and guests go"
        " apart, and so how many a difference takes; whether restored guests have the figures of booted ones; how the"
        " plugin, the host's page cache, no guest and no storage compare. Runs on that host use it until its CPU,"
        " kernel, QEMU, libvirt or disk changes.",
        (
            "vmstorage calibrate",
            "vmstorage calibrate --vm-host=lab01 --time=1h     # more buses, more pairs",
            "vmstorage calibrate --show                        # the last one, nothing is measured",
        ),
    ),
    "image": _Told(
        "build the guest appliance, or check the one there is",
        "The appliance is the small Debian that guests boot from, with fio and the other tools. A run of pytest that"
        " finds none builds it, which takes minutes; this builds it before, such as when an image for CI is made.",
        ("vmstorage image", "vmstorage image --rebuild                     # with today's packages"),
    ),
    "reap": _Told(
        "remove what dead runs left on this machine, or on a lab host",
        "A run removes its guests and disks when it ends, also after Ctrl-C, and what was left by one that was killed"
        " is removed by the next run. This removes it at once. Nothing of a run that is alive is touched.",
        (
            "vmstorage reap --dry-run",
            "vmstorage reap --vm-host=lab01",
            "vmstorage reap --kept                         # guests of --vm-keep too",
        ),
    ),
    "exec": _Told(
        "run a command in a guest that --vm-keep left running",
        "`pytest --vm-keep` leaves the guest of the first test that failed, and prints its run's id. Several words are"
        " a command with its arguments; a single one is a line of the guest's shell.",
        ("vmstorage exec 3f9c01ab42 lsblk", "vmstorage exec 3f9c01ab42 'dmesg | tail'"),
    ),
    "show": _Told(
        "show the figures of a measured cell, and what proves that it is what its id says",
        "Prints all that was saved of a cell: its figures; each field as asked for and as found, and where that was"
        " read; what each layer moved; what was noted beside the figures. It fits the terminal, and does not wrap what"
        " goes into a file or a pipe.",
        (
            "vmstorage show raw-none-virtio-blk-off               # of the newest saved run",
            "vmstorage show raw-none-virtio-blk-off report.json   # of a --vm-report",
            "vmstorage show raw-none-virtio-blk-off --raw | jq .jobs[0].write",
        ),
    ),
    "time": _Told(
        "show where a run's time went, by step and by cell",
        "Tells the time of a run by its steps (guests, disks, proof, rounds) and by its cells, also of one that was"
        " interrupted.",
        ("vmstorage time", "vmstorage time main                           # of the run saved as main"),
    ),
    "report": _Told(
        "make a report of saved runs: a page, Markdown, a picture, CSV or JSON",
        "Writes what --vm-report would have written, from saved files alone; the ending of FILE chooses the form."
        " Several runs stand in one report, each host under the name of its run.",
        (
            "vmstorage report -o run.html                  # of the newest saved run",
            "vmstorage report main nightly -o both.html",
            "vmstorage report report.json -o run.html -o run.md -o run.svg",
        ),
    ),
    "export": _Told(
        "write saved runs for Prometheus, InfluxDB, Bencher and others",
        "Writes the valid figures of saved runs in base units, with their spread, configuration, host, acceleration"
        " and time. What is left out, as a cell that failed, is said on stderr.",
        (
            "vmstorage export main --format=openmetrics -o main.om     # all days of the baseline main",
            "vmstorage export 0007 --format=influxdb",
            "vmstorage export --format=github-action-benchmark --better=higher -o bigger.json   # the newest run",
            'vmstorage export report.json --format=bencher --metrics="iops,clat_p*"',
            "vmstorage export main --format=otava -o otava             # a folder",
        ),
    ),
    "promote": _Told(
        "make a saved run the baseline, and say what changes by it",
        "Saves a run under the name of a baseline too, which `pytest --vm-baseline=NAME` then judges against.",
        ("vmstorage promote nightly --as main", "vmstorage promote 0007 --as main"),
    ),
    "history": _Told(
        "show how the saved days of a baseline went, and what changed since when",
        "Looks at all saved days of a baseline: steps and creep of each cell's figure, one finding for each cause, with"
        " the cells that share it and what else changed in these days. Levels that are known are accepted in"
        " vmstorage-gate.toml.",
        (
            "vmstorage history nightly",
            "vmstorage history nightly --cell virtio-scsi --since 2026-11-01",
            "vmstorage history nightly -o history.html            # or .md, .json, .txt",
            "vmstorage history nightly --check                    # for CI: exit status 1 for what nobody accepted",
        ),
    ),
    "explain": _Told(
        "say what the code of a refusal means, and what to do",
        "A sentence that refuses something ends with a code, such as [VM141]. This prints its entry of the reference.",
        ("vmstorage explain VM141", "vmstorage explain                             # all codes"),
    ),
}
"""The subcommands in the order of the list, behind `run`, which has texts of its own."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="vmstorage",
        description="Measure VM storage configurations, and look after what that needs and leaves.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the package's version")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    run_words.add_arguments(commands.add_parser(_RUN, help="measure workloads in cells, without a test file"))
    subcommands = {
        name: commands.add_parser(
            name,
            help=told.line,
            description=textwrap.fill(told.does, min(_width(), 100)),
            epilog="\n  ".join(("examples:", *told.examples)),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, told in _TOLD.items()
    }
    _add_arguments(subcommands)
    for name, run in _COMMANDS.items():
        subcommands[name].set_defaults(run=run)
    return parser


def _add_arguments(made: Mapping[str, argparse.ArgumentParser]) -> None:
    """Declare the options of all subcommands but `run`."""
    for name in ("doctor", "calibrate", "reap"):
        made[name].add_argument("--vm-host", "--host", metavar="NAME", help="lab host (default: this machine)")
    doctor = made["doctor"]
    calibrating = made["calibrate"]
    for one in (doctor, calibrating):
        one.add_argument("--vm-dir", metavar="FOLDER", help="folder for the disks under test")
    calibrating.add_argument("--time", metavar="TIME", default="20m", help="how long it may take, about [20m]")
    calibrating.add_argument("--show", action="store_true", help="show the last one of the host, and measure nothing")
    calibrating.add_argument(
        "--format", metavar="FORM", choices=("text", "markdown", "json"), default="text", help="text, markdown or json"
    )
    doctor.add_argument(
        "--need", metavar="WHAT", action="append", default=[], help="kvm or AXIS=VALUE: exit with 1 where it is missing"
    )
    doctor.add_argument("--json", action="store_true", help="print what was found as JSON")
    made["image"].add_argument("--rebuild", action="store_true", help="build it anew, with today's packages")
    reaping = made["reap"]
    reaping.add_argument("--dry-run", action="store_true", help="only say what is left, and whose it was")
    reaping.add_argument("--kept", action="store_true", help="also what --vm-keep left running")
    for one in (doctor, calibrating, reaping):
        one.add_argument("--vm-inventory", metavar="FILE", help="file that lists hosts and devices (vmstorage.toml)")
    execute = made["exec"]
    execute.add_argument("run_id", metavar="RUN", help="the run's id, as --vm-keep printed it")
    execute.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    show = made["show"]
    show.add_argument("cell", metavar="CELL", help="the cell's id, such as raw-none-virtio-blk-off")
    show.add_argument("file", metavar="FILE", nargs="?", help="a saved run (default: the newest below .benchmarks)")
    show.add_argument("--raw", action="store_true", help="print what the tools printed in each round, and nothing else")
    made["time"].add_argument(
        "saved",
        metavar="RUN",
        nargs="?",
        help="a saved run's name, number or file, or a journal (default: the newest in .benchmarks and .vmstorage)",
    )
    reporting = made["report"]
    reporting.add_argument(
        "saved", metavar="RUN", nargs="*", help="a saved run's name, number or file (default: the newest)"
    )
    reporting.add_argument(
        "-o", dest="output", metavar="FILE", action="append", required=True,
        help="the report: .html, .md, .svg, .csv or .json; repeatable",
    )  # fmt: skip
    reporting.add_argument("--storage", metavar="FOLDER", default=_SAVED, help=f"where runs are saved [{_SAVED}]")
    reporting.add_argument("--vm-units", choices=("iec", "si"), default="iec", help="MiB/s (iec) or MB/s (si) [iec]")
    exporting = made["export"]
    exporting.add_argument(
        "saved",
        metavar="RUN",
        nargs="*",
        help="a baseline's name, for all its days, or a run's number or file (default: the newest)",
    )
    exporting.add_argument(
        "--format", metavar="FORMAT", choices=tuple(TARGETS), required=True, help=f"one of: {', '.join(TARGETS)}"
    )
    exporting.add_argument(
        "-o", "--output", metavar="FILE", help="file to write, for otava a folder (default: standard output)"
    )
    exporting.add_argument(
        "--metrics", metavar="NAMES", default="", help='names and patterns, as "iops,clat_*" (default: those shown)'
    )
    exporting.add_argument(
        "--better", metavar="WAY", choices=("higher", "lower"), help="higher or lower: only figures that are better so"
    )
    exporting.add_argument("--storage", metavar="FOLDER", default=_SAVED, help=f"where runs are saved [{_SAVED}]")
    promoting = made["promote"]
    promoting.add_argument("saved", metavar="RUN", help="the run: its name, its number or its file")
    promoting.add_argument("--as", dest="name", metavar="NAME", required=True, help="the baseline's name, such as main")
    promoting.add_argument("--storage", metavar="FOLDER", default=_SAVED, help=f"where runs are saved [{_SAVED}]")
    history = made["history"]
    history.add_argument("name", metavar="NAME", help="the baseline's name, as in --vm-save=NAME")
    history.add_argument(
        "--cell",
        metavar="PATTERN",
        default="",
        help="only cells whose node id or id has this in it, or with these values, such as bus=nvme",
    )
    history.add_argument("--since", metavar="DATE", help="only days from this one on, such as 2026-11-01")
    history.add_argument("--metric", metavar="NAME", default="", help="this metric (default: each cell's primary one)")
    history.add_argument("--format", metavar="FORM", help="text, markdown, json or html (default: by -o, else text)")
    history.add_argument("-o", "--output", metavar="FILE", help="write it to a file: .txt, .md, .json or .html")
    history.add_argument(
        "--check", action="store_true", help="exit with 1 where a slower level is not accepted, or an acceptance lapsed"
    )
    history.add_argument("--gate", metavar="FILE", help="the gate file (default: vmstorage-gate.toml here)")
    history.add_argument("--storage", metavar="FOLDER", default=_SAVED, help=f"where runs are saved [{_SAVED}]")
    made["explain"].add_argument(
        "code", metavar="CODE", nargs="?", help="the code, such as VM141 (default: list them all)"
    )


def _measure(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    """Print the test file, or become the pytest that runs it; pytest's status of wrong usage for words that are."""
    try:
        ours, theirs = run_words.split_words(words)
        arguments = parser.parse_args([_RUN, *ours])
        text = file_of_run(arguments, theirs)
    except ConfigError as error:
        _refuse(error)
        return _WRONG_USAGE
    if not arguments.print_test:
        sys.stdout.flush()
        # without -P Python would take modules that lie in the folder for its own
        line = [sys.executable, "-P", "-m", "pytest", *run_words.pytest_words(text, theirs)]
        os.execv(line[0], line)  # noqa: S606 (there is no shell between)
    print(text, end="")
    return 0


def file_of_run(arguments: argparse.Namespace, theirs: Sequence[str]) -> str:
    """The test file that the words of `run` stand for, beside those for pytest; raises ConfigError."""
    # the other subcommands need no workloads
    from pytest_vmstorage.cli.run.request import read_request
    from pytest_vmstorage.cli.run.template import render_test_file

    request = read_request(
        axes=arguments.axis,
        storage=arguments.storage,
        workloads=arguments.workload,
        at_least=arguments.at_least,
        at_most=arguments.at_most,
        impossible=arguments.impossible,
        matrix=run_words.has_matrix(theirs),
    )
    return render_test_file(request)


def _doctor(arguments: argparse.Namespace) -> int:
    check_needs(arguments.need)
    inventory = _inventory(arguments.vm_inventory)
    found = examine(LabSettings(host=arguments.vm_host, folder=arguments.vm_dir, inventory=inventory), _say)
    if found.problem:
        print(f"vmstorage: {found.problem}", file=sys.stderr, flush=True)
    if arguments.json:
        print(found.model_dump_json(indent=1))
    else:
        for line in diagnosis_lines(found, _width()):
            print(plain(line))
    missing = list(lacks(found, arguments.need))
    for sentence in missing:
        print(f"vmstorage: {plain(sentence)}", file=sys.stderr, flush=True)
    return 1 if found.problem or missing else 0


def _calibrate(arguments: argparse.Namespace) -> int:
    # the other subcommands measure nothing
    from pytest_vmstorage.cli.calibrate.taking import check_time, last_calibration, take_calibration
    from pytest_vmstorage.report.calibration import calibration_lines, calibration_markdown

    inventory = _inventory(arguments.vm_inventory)
    settings = LabSettings(host=arguments.vm_host, folder=arguments.vm_dir, inventory=inventory, boot="restore")
    if arguments.show:
        found = last_calibration(settings)
    else:
        limit_s = check_time(arguments.time)
        # as after Ctrl-C: guests and disks are removed
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        found = take_calibration(settings, limit_s, _say)
    if arguments.format == "json":
        print(found.model_dump_json(indent=1))
    else:
        is_text = arguments.format == "text"
        lines = calibration_lines(found, _width(100)) if is_text else calibration_markdown(found)
        print(plain("\n".join(lines)))
    return 130 if found.is_cut_short and not arguments.show else 0


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
    host = find_host(arguments.vm_host, None, _inventory(arguments.vm_inventory))
    found = reap_host(host, kept=arguments.kept, look_only=arguments.dry_run)
    for one in found:
        print(plain(str(one)), file=sys.stdout if one.is_clear else sys.stderr)
    for other in [] if arguments.vm_host else find_leftover_hosts():
        print(f"on {other} dead runs left something too: `vmstorage reap --host={other}`")
    if not found:
        print("nothing to remove: no dead run left anything")
    return 0 if all(one.is_clear for one in found) else 1


def _exec(arguments: argparse.Namespace) -> int:
    if not arguments.command:
        raise ConfigError("There is no command to run.", hint="Write `vmstorage exec RUN uname -a`.", code="VM245")
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
    named = (saved.run, arguments.cell, str(saved.path))
    lines = raw_outputs(*named) if arguments.raw else show_cell(*named, _width(WIDEST))
    print(plain("\n".join(lines)))
    return 0


def _time(arguments: argparse.Namespace) -> int:
    source, timelines = timed_run(arguments.saved, Path(_SAVED), Path(_JOURNALS))
    print(plain("\n".join([source, "", *time_lines(timelines)])))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    # the other subcommands write no reports
    from pytest_vmstorage.cli.report import write_reports

    paths = [Path(one) for one in arguments.output]
    lines = write_reports(arguments.saved, paths, Path(arguments.storage), si=arguments.vm_units == "si")
    print(plain("\n".join(lines)))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    found = export(
        arguments.saved,
        arguments.format,
        Path(arguments.storage),
        output=arguments.output,
        metrics=arguments.metrics,
        better=arguments.better,
    )
    for sentence in found.says:
        print(f"vmstorage: {plain(sentence)}", file=sys.stderr, flush=True)
    print(found.text, end="")
    return 0


def _promote(arguments: argparse.Namespace) -> int:
    print(plain("\n".join(promote(arguments.saved, arguments.name, Path(arguments.storage)))))
    return 0


def _history(arguments: argparse.Namespace) -> int:
    # the other subcommands judge nothing
    from pytest_vmstorage.cli.history import HistoryRequest, has_failed, read_history, render_history

    request = HistoryRequest.of(arguments)
    history = read_history(request)
    text = render_history(history, request, _width())
    if request.path is None:
        print(plain(text), end="")
    else:
        write_whole(request.path, text)
    return 1 if arguments.check and has_failed(history) else 0


def _width(otherwise: int = 116) -> int:
    """The width of the terminal, or what COLUMNS says; `otherwise` where the output is a file or a pipe."""
    return shutil.get_terminal_size((otherwise, 24)).columns


def _explain(arguments: argparse.Namespace) -> int:
    # the other subcommands need no entries
    from pytest_vmstorage.cli.explain import entry_lines, find_entry, list_lines

    print("\n".join(entry_lines(find_entry(arguments.code), _width(100)) if arguments.code else list_lines()))
    return 0


_COMMANDS = {
    "doctor": _doctor,
    "calibrate": _calibrate,
    "image": _image,
    "reap": _reap,
    "exec": _exec,
    "show": _show,
    "time": _time,
    "report": _report,
    "export": _export,
    "promote": _promote,
    "history": _history,
    "explain": _explain,
}


def _refuse(error: VmStorageError) -> None:
    """Say why not on stderr, and where more is said of it."""
    print(f"vmstorage: {error}", file=sys.stderr)
    if more := where_more(str(error)):
        print(f"vmstorage: {more}", file=sys.stderr)


def _say(sentence: str) -> None:
    print(plain(sentence), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
