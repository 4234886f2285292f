"""A process of its own is a copy of one that has loaded all: it is like one that begins with an interpreter."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import copies
import pytest
from projects import TWO_CELLS, text_of

SEEN = """
import json, os, pathlib, signal, sys, threading
def test_x():
    pathlib.Path("seen").write_text(json.dumps({
        "path": sys.path, "folder": os.getcwd(), "argv": sys.argv[1:], "environ": sorted(os.environ),
        "input": os.read(0, 1).decode(), "main": sys.modules["__main__"].__file__, "threads": threading.active_count(),
        "bytecode": sys.dont_write_bytecode, "signals": [str(signal.getsignal(one)) for one in range(1, 20)],
        "files": [os.readlink(f"/proc/self/fd/{one}").partition(":")[0] for one in os.listdir("/proc/self/fd")
                  if os.path.exists(f"/proc/self/fd/{one}")],
    }))
"""


def test_a_copy_sees_what_a_new_process_sees(project):
    """Paths, environment, standard input, signals, threads and open files."""
    project.write(test_it=SEEN)
    told = []
    for kind in (True, "new"):
        result = project.run("-p", "no:cacheprovider", own_process=kind)
        result.assert_outcomes(passed=1)
        # the names of temporary files, and an input that has nothing in it
        told.append(re.sub(r"runpytest-\d|/#\d+|/dev/null|pipe", "", (project.path / "seen").read_text()))
    assert told[0] == told[1]


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_run_in_a_copy_says_the_same(project, workers):
    """But for how long it took."""
    project.write(test_two=TWO_CELLS)
    said = {
        re.sub(r"\d+\.\d+s|time: .*|tests? took .*|runpytest-\d|\d+ s left", "", text_of(result))
        for result in (project.run("-q", *workers, own_process=kind) for kind in (True, "new"))
    }
    assert len(said) == 1


def copied(project, code):
    """A copy that runs the code, and writes into `said`."""
    with Path(os.devnull).open() as nothing, (project.path / "said").open("w") as said:
        return copies.Copy(os.environ, project.path, (nothing.fileno(), said.fileno(), said.fileno()), code)


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("print('x', end='')", 0, "x"),
        ("raise SystemExit(3)", 3, ""),
        ("raise SystemExit('sorry')", 1, "sorry\n"),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import atexit; atexit.register(print, 'end')", 0, "end\n"),
        (
            "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()",
            0,
            "thread\n",
        ),
    ],
)
def test_a_copy_ends_as_a_process_does(project, code, status, text):
    """By its status, a signal, with what is to be done at the end, and behind its threads."""
    assert copied(project, code).wait() == status
    assert (project.path / "said").read_text() == text


def test_a_copy_can_be_ended(project):
    """When a time has passed, and by a signal."""
    one = copied(project, "import signal; signal.pause()")
    with pytest.raises(subprocess.TimeoutExpired):
        one.wait(0.01)
    one.kill()
    assert one.wait() == -signal.SIGKILL
    # it may be asked again
    assert one.wait() == -signal.SIGKILL
    one.kill()
