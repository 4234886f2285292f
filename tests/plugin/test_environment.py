"""What the plugin needs, and what it costs those who do not use it.

Tests of `plugin.hooks`, `plugin.measuring`, `plugin.options`, `plugin.plain_imports` and `plugin.stash`.
"""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import sys

import pytest
from projects import RANDOM_WRITE, TWO_CELLS, text_of

BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"libvirt", "libvirt_qemu", "libvirtmod", "testinfra"}:
            raise ImportError(f"{name} is blocked by this test")

sys.meta_path.insert(0, Blocker())
"""


def test_collecting_without_libvirt_and_qemu(project, monkeypatch):
    """`--co -q` lists the tests where libvirt and testinfra cannot be imported and PATH has no QEMU and no fio."""
    monkeypatch.setenv("PATH", str(project.path / "nothing"))
    monkeypatch.delenv("PYTEST_PLUGINS")
    monkeypatch.setenv("PYTHONPATH", str(project.path), prepend=os.pathsep)
    project.write(
        sitecustomize=BLOCKER,
        test_it=RANDOM_WRITE
        + '@pytest.mark.parametrize("format", ["raw", "qcow2"])\ndef test_x(guest, measure): ...\n'
        + "def test_blocked():\n    with pytest.raises(ImportError): import libvirt\n",
    )
    # pytest-testinfra's own plugin cannot be loaded there either
    off = ("-p", "no:testinfra", "-p", "no:pytest11.testinfra")
    result = project.run("--co", "-q", *off, own_process="new")
    assert result.ret == 0, text_of(result)
    assert [line for line in result.outlines if "::" in line] == [
        "test_it.py::test_x[raw]",
        "test_it.py::test_x[qcow2]",
        "test_it.py::test_blocked",
    ]
    assert project.run("-k", "blocked", *off, own_process="new").ret == 0


def test_without_storage_tests_it_is_not_there(project, monkeypatch):
    """A run without storage tests has none of our words in it and imports nothing of weight for us."""
    project.write(
        conftest="import pathlib, sys\ndef pytest_unconfigure(config):\n"
        "    pathlib.Path('modules').write_text('\\n'.join(sys.modules))\n",
        test_it="def test_x(cache, tmp_path): ...\n",
    )
    monkeypatch.delenv("PYTEST_PLUGINS")
    seen = []
    for option in ("vmstorage", "no:vmstorage"):
        args = ["-p", option] if option.startswith("no:") else []
        result = project.run(*args, own_process="new")
        result.assert_outcomes(passed=1)
        text = text_of(result).replace("vmstorage-0.1.0", "")
        assert "vmstorage" not in text
        assert "VM storage" not in text
        seen.append(set((project.path / "modules").read_text().split()))
    ours, others = seen
    added = {name.partition(".")[0] for name in ours - others}
    assert "pytest_vmstorage.plugin.options" in ours
    assert not {"pytest_vmstorage.plugin.recorder", "pytest_vmstorage.plugin.settings"} & ours
    assert not added & {"pydantic", "pydantic_core", "libvirt", "testinfra", "tabulate"}
    assert not {"pytest_vmstorage.config.cell", "pytest_vmstorage.lab.lab", "pytest_vmstorage.results.run"} & ours
    assert not (project.path / ".vmstorage").exists()


PLUGINS = """
def pytest_unconfigure(config):
    names = [name for name, plugin in config.pluginmanager.list_name_plugin() if plugin and "vmstorage" in name]
    print("plugins", *sorted(names))
"""


ENDING = ("vmstorage-ending", "vmstorage-measuring")
"""Of runs in which something is made."""


@pytest.mark.parametrize(
    ("test", "args", "expected"),
    [
        ("def test_x(): ...\n", (), []),
        ("def test_x(): ...\n", ("--vm-plan",), ["vmstorage-measuring"]),
        ("def test_x(): ...\n", ("-n1",), ["vmstorage-controller", *ENDING, "vmstorage-recorder"]),
        ("def test_x(storage): ...\n", (), [*ENDING, "vmstorage-recorder", "vmstorage-reported"]),
        ("def test_x(cells): ...\n", (), ["vmstorage-measuring", "vmstorage-recorder"]),
        ("def test_x(storage): ...\n", ("--co",), ["vmstorage-measuring", "vmstorage-recorder"]),
        (
            "import pytest, unittest\n@pytest.mark.usefixtures('storage')\nclass TestX(unittest.TestCase):\n"
            "    def test_x(self): ...\n",
            (),
            [*ENDING, "vmstorage-recorder", "vmstorage-reported"],
        ),
    ],
    ids=["no-test", "plan", "controller", "storage", "cells", "collect-only", "unittest"],
)
def test_only_a_run_that_measures_has_the_hooks_for_it(project, test, args, expected):
    """pytest keeps, and calls for each test of others, none that have nothing to do there."""
    project.write(conftest=PLUGINS, test_it=test)
    result = project.run("-s", *args, own_process=True)
    line = next(line for line in result.outlines if line.startswith("plugins "))
    assert [name for name in line.split()[1:] if name.startswith("vmstorage-")] == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_run_ends_by_itself_costs_nothing(two_cells, number):
    """Guests are removed then: all of them are, and the report is written."""
    two_cells.write(
        conftest=f"""
import os
from pytest_vmstorage.plugin.session import StorageSession

close = StorageSession.close

def closed(self):
    os.kill(os.getpid(), {number.value})
    close(self)

StorageSession.close = closed
"""
    )
    result = two_cells.run(own_process=True)
    result.assert_outcomes(passed=2)
    assert "raw     10000 ±1" in text_of(result)
    assert "vmstorage: the run ends: what it made is removed" in result.stderr.str()
    assert "Traceback" not in text_of(result)
    assert [event for event in two_cells.events if event.startswith("close")]


@pytest.mark.parametrize(
    "hook",
    [
        "def pytest_unconfigure():\n    interrupt()\n",
        # where pytest collects garbage, for one
        "@pytest.hookimpl(trylast=True)\ndef pytest_configure(config):\n    config.add_cleanup(interrupt)\n",
    ],
    ids=["unconfigure", "cleanup"],
)
def test_ctrl_c_once_more_while_pytest_ends_is_no_traceback(project, hook):
    """All is removed and reported by then, and pytest's exit status says that the run was interrupted."""
    project.write(
        conftest=f"import os, signal, pytest\ndef interrupt():\n    os.kill(os.getpid(), signal.SIGINT)\n{hook}",
        test_it="def test_x(storage):\n    raise KeyboardInterrupt\n",
    )
    result = project.run(own_process="new")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in text_of(result)


def test_a_process_has_its_signals_again_after_a_run(project):
    """Others may run pytest in a process of theirs."""
    project.write(
        test_it="import signal\ndef test_x(storage):\n"
        "    assert signal.getsignal(signal.SIGTERM).__module__ == 'pytest_vmstorage.plugin.ending'\n"
    )
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    project.run().assert_outcomes(passed=1)
    assert [signal.getsignal(number) for number in numbers] == before


def test_nothing_of_ours_is_asked_for_modules_when_python_ends(project):
    """A finder that is still there then makes the end of every run take 3 ms longer."""
    project.write(
        test_it="def test_x(): ...\n",
        run="import atexit, sys, pytest\n"
        "atexit.register(lambda: print('left', *(getattr(one, '__module__', '') for one in sys.meta_path)))\n"
        "pytest.main()\n"
        "print('used', *(getattr(one, '__module__', '') for one in sys.meta_path))\n",
    )
    text = text_of(project.pytester.runpython(project.path / "run.py"))
    used, left = (next(line for line in text.splitlines() if line.startswith(word)) for word in ("used", "left"))
    assert "pytest_vmstorage.plugin.plain_imports" in used
    assert "pytest_vmstorage" not in left


def test_no_module_of_ours_is_compiled_by_pytest(project):
    """Where bytecode cannot be kept pytest would parse and rewrite each of them in each run, for nothing."""
    project.write(
        test_it="import sys\ndef test_x(storage):\n    for name, module in list(sys.modules.items()):\n"
        "        if name.startswith('pytest_vmstorage'):\n"
        "            print('loaded', name, 'by', type(module.__spec__.loader).__name__)\n"
    )
    text = text_of(project.run("-s", own_process="new"))
    found = dict(line.split()[1::2] for line in text.splitlines() if line.startswith("loaded "))
    rewritten = {name for name, loader in found.items() if loader != "SourceFileLoader"}
    assert "pytest_vmstorage.plugin.hooks" in found
    assert "pytest_vmstorage.config.cell" in found
    # those two are on their way before ours can say so
    assert rewritten <= {"pytest_vmstorage", "pytest_vmstorage.plugin"}


def test_options_alone_open_nothing(project):
    """A good option in the ini file is checked and does no more in a run without storage tests."""
    project.write(pytest__ini="[pytest]\nvm_accel = tcg\n", test_it="def test_x(): ...\n")
    result = project.run()
    result.assert_outcomes(passed=1)
    assert "VM storage" not in text_of(result)
    assert project.events == []


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_warnings_as_errors(two_cells, workers):
    """Nothing we do warns, from collection to the saved file."""
    args = ("-W", "error", "--strict-markers", "--strict-config", "--benchmark-save=x", "--vm-report=r.md")
    result = two_cells.run(*args, *workers, own_process="new")
    result.assert_outcomes(passed=2)
    assert result.ret == 0
    # before 5.2.2, pytest-benchmark says of itself on stderr that xdist disables it
    said = text_of(result).replace("PytestBenchmarkWarning", "")
    assert "Warning" not in said
    assert " warning" not in said


ESCAPE = re.compile(r"\x1b[78]|\x1b\[[0-9;]*[A-Za-z]")


class Screen:
    """What a terminal shows: its lines in the end, and every state of the line at hand.

    `states` are those that the live line left, `others` those that anything else left.
    """

    def __init__(self, text):
        self.lines = [""]
        self.states = []
        self.others = []
        column = saved = 0
        is_live = False
        for token in re.findall(r"\x1b[78]|\x1b\[[0-9;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
            line = self.lines[-1]
            if token == "\n":
                self.lines.append("")
                column = 0
            elif token == "\r":
                column = 0
            elif token == "\x1b7":
                saved, is_live = column, True
            elif token == "\x1b8":
                column, is_live = saved, False
            elif token == "\x1b[K":
                self.lines[-1] = line[:column]
            elif not token.startswith("\x1b"):
                self.lines[-1] = line[:column].ljust(column) + token + line[column + len(token) :]
                column += len(token)
                assert column < 120 or not is_live, "the live line must not wrap"
            (self.states if is_live or token == "\x1b8" else self.others).append(self.lines[-1])


def on_a_terminal(project, *args):
    """What a run writes to a terminal of 120 columns."""
    ours, its = pty.openpty()
    process = project.pytester.popen([sys.executable, "-m", "pytest", *args], stdout=its, stderr=its, stdin=its)
    os.close(its)
    chunks = []
    # at its end Linux says EIO
    with contextlib.suppress(OSError):
        while chunk := os.read(ours, 4096):
            chunks.append(chunk)
    os.close(ours)
    assert process.wait() == 0
    return b"".join(chunks).decode()


def test_the_live_line(two_cells, monkeypatch):
    """On a terminal it shows rounds, time left, cell and step, counts down, and is gone when pytest goes on."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.chdir(two_cells.path)
    two_cells.wish(round_s=1.2)
    screen = Screen(on_a_terminal(two_cells))
    shown = [state for state in screen.states if "  [" in state]
    steps = [state.partition("] ")[2] for state in shown if "] raw-none-virtio-blk-off: " in state]
    assert list(dict.fromkeys(step.partition(": ")[2] for step in steps)) == [
        "making disk",
        "booting",
        "filling the disk",
        "warming up fio",
        *(f"measuring fio randwrite 4k qd32, round {number}/3" for number in (1, 2, 3)),
    ]
    found = [re.search(r"\[(\d)/6 rounds, about (?:(\d+) min )?(\d+) s left\] \S+: ", state) for state in shown]
    assert all(found)
    done = [int(one[1]) for one in found]
    assert list(dict.fromkeys(done)) == [0, 1, 2, 3, 4, 5]
    left = [60 * int(one[2] or 0) + int(one[3]) for one in found]
    # two guests of 5 s and eight windows of 6 s are foreseen; all 8 take 1.2 s here, and the guests nothing
    assert 45 < left[0] <= 61
    # a busy machine adds some to each
    assert all(seconds <= 25 for seconds, number in zip(left, done, strict=True) if number >= 2)
    assert left[-1] <= 10
    # within a round, too: while its tool runs nothing else happens
    assert len(shown) > len(dict.fromkeys(shown)) or len(set(left)) > 6
    final = "\n".join(screen.lines)
    assert not [state for state in screen.others if "/6 " in state]
    assert re.search(r"^test_two.py \.\. +\[100%\]$", final, re.MULTILINE)
    assert re.search(r"^vmstorage: round 1, 2 cells in turns, about (1 min 0\d|[45]\d) s left$", final, re.MULTILINE)
    assert "raw     10000 ±1" in final


def test_the_time_left_counts_tests_with_a_cell_only(project):
    """A plain test may have a `measure` of its own, and a test that is skipped takes no round."""
    project.write(
        test_it=TWO_CELLS
        + """
@pytest.mark.parametrize("measure", [1, 2])
def test_plain(measure): ...

@pytest.mark.skip(reason="not now")
@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_skipped(measure): measure(FIO)
"""
    )
    result = project.run()
    result.assert_outcomes(passed=4, skipped=2)
    # two guests of 5 s, a warm-up and three rounds of 6 s each
    assert "vmstorage: round 1, 2 cells in turns, about 1 min 00 s left" in text_of(result)


def test_the_live_line_of_several_hosts(project, monkeypatch):
    """Workers tell the controller, which shows all rounds, the longest time and who does what."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.chdir(project.path)
    project.write(
        test_two=TWO_CELLS.replace('"qcow2"]', '"qcow2", "vdi", "qed"]'),
        # counting the rounds takes so long on a busy machine that a worker would do it only once
        conftest="from pytest_vmstorage.plugin import progress_line\nprogress_line._LEAST_GAPS = 0\n",
    )
    # a busy machine has no time to draw a line of rounds that take none
    project.wish(round_s=0.5)
    screen = Screen(on_a_terminal(project, "--vm-host=lab01,lab02"))
    shown = [found for state in screen.states if (found := re.search(r"\[(\d+)/12 rounds, .* left\] (\w+): ", state))]
    assert {one[2] for one in shown} == {"lab01", "lab02"}
    # more than either has
    assert max(int(one[1]) for one in shown) > 6
    assert "10000 ±1" in "\n".join(screen.lines)


@pytest.mark.parametrize("how", ["file", "quiet", "dumb"])
def test_no_live_line(two_cells, monkeypatch, how):
    """A log file, -q and a dumb terminal get none of it, nor an escape code of ours."""
    monkeypatch.chdir(two_cells.path)
    monkeypatch.setenv("TERM", "dumb" if how == "dumb" else "xterm")
    if how == "file":
        text = text_of(two_cells.run(own_process=True))
        assert "\x1b" not in text
    else:
        text = on_a_terminal(two_cells, *(["-q"] if how == "quiet" else []))
    assert "\x1b7" not in text
    assert "booting" not in text
    assert "raw     10000 ±1" in text


def test_a_test_that_is_skipped_by_mark_needs_nothing(project):
    """Neither a guest in the plan nor a dataset in vmstorage.toml; it is skipped with its reason."""
    project.write(
        test_it=RANDOM_WRITE
        + """
@pytest.mark.skip(reason="no ZFS in this house")
@pytest.mark.storage(backing="zvol")
def test_zvol(measure): measure(FIO)

def test_raw(measure): measure(FIO)
"""
    )
    assert "1 cell, 1 guest, 1 test\n" in text_of(project.run("--vm-plan"))
    result = project.run("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    assert "no ZFS in this house" in text_of(result)
