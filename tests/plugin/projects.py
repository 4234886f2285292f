"""What tests of the plugin share: projects for pytester runs, and how to judge those runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import copies
import execnet.gateway_io
import pytest
import xdist.workermanage

HERE = Path(__file__).parent

RANDOM_WRITE = """
import pytest
from pytest_vmstorage import Dd, Fio
FIO = Fio(rw="randwrite", bs="4k", iodepth=32, size="256M", runtime=5)
"""
"""How most test files begin."""

TWO_CELLS = (
    RANDOM_WRITE
    + """
@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_random_write(measure):
    assert measure(FIO).iops > 500
"""
)
RAW = "test_two.py::test_random_write[raw]"
QCOW2 = "test_two.py::test_random_write[qcow2]"


LEFT = {}
"""What runs printed and the folders that they left, by files and arguments: several tests begin there."""


class Project:
    """A folder with tests, and a fake lab to run them in."""

    def __init__(self, pytester, monkeypatch, tmp_path_factory):
        self.pytester = pytester
        self._temporary = tmp_path_factory
        self.path = pytester.path
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("PYTEST_PLUGINS", "fakelab")
        monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        monkeypatch.setenv("COLUMNS", "120")
        # a user's calibration of this machine is no part of these runs
        self.cache = tmp_path_factory.mktemp("cache")
        monkeypatch.setenv("XDG_CACHE_HOME", str(self.cache))
        monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
        # workers of a run in this process would get the path that it began with
        monkeypatch.setattr(xdist.workermanage, "_sys_path", [str(HERE), *sys.path])
        monkeypatch.setattr(execnet.gateway_io, "Popen2IOMaster", copies.WorkerIO)
        # at its end hypothesis' plugin imports all of hypothesis, which takes longer than most of these runs
        monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
        for name in ("PYTEST_XDIST_WORKER", "CI", "GITHUB_STEP_SUMMARY"):
            monkeypatch.delenv(name, raising=False)
        self.wish()
        monkeypatch.setenv(copies.ADDRESS, copies.address())
        # the first one begins the server, whose cells by which it loads are logged here
        self.log()

    def wish(self, **wishes):
        """Say how the lab behaves from now on, by the names of LabOptions or of `fakelab`."""
        others = {"log": str(self.path / "events"), "open": "", "leases": "", "kills": "", "interrupts": 0}
        self._monkeypatch.setenv("VMS_FAKE", json.dumps(others | wishes))

    def write(self, **files):
        """Write Python files, and others with `name_suffix`."""
        for name, text in files.items():
            stem, _, suffix = name.rpartition("__")
            path = self.path / (f"{stem}.{suffix}" if stem else f"{name}.py")
            path.write_text(text)

    def run(self, *args, own_process=False, limit_s=None):
        """Run pytest there: in this process, with xdist its controller, or as from the shell.

        A process of its own is for runs that a signal ends, and for a few of each kind as users have them. It is a copy
        of one that has loaded pytest and all of ours, and so are workers of xdist. With "new" it is none, nor are its
        workers, for what is imported and what an interpreter does when it begins and ends: that takes a second longer.
        It fails where it takes longer than `limit_s`.
        """
        if not own_process:
            return self.pytester.runpytest_inprocess(*args)
        with self._monkeypatch.context() as patched:
            if own_process != "new":
                patched.setattr(self.pytester, "popen", self._begin_copy)
            return self.pytester.runpytest_subprocess(*args, timeout=limit_s)

    def _begin_copy(self, argv, stdin, stdout, stderr, **_):
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(self.path), os.environ["PYTHONPATH"]])}
        with Path(os.devnull).open() as nothing:
            files = (nothing.fileno(), stdout.fileno(), stderr.fileno())
            # without the interpreter and -mpytest
            return copies.Copy(environ, self.path, files, argv=argv[2:])

    def begin_with(self, *args, own_process=False, ret=0):
        """Be as a run with these arguments leaves it, and give what that printed: it is run once in a process.

        The lab is as it is without a wish; `ret` is the run's exit status.
        """
        files = {path.name: path.read_bytes() for path in self.path.iterdir() if path.is_file()}
        key = (args, own_process, tuple(sorted(files.items())))
        if key in LEFT:
            shutil.copytree(LEFT[key][1], self.path, dirs_exist_ok=True)
        else:
            result, folder = self.run(*args, own_process=own_process), self._temporary.mktemp("left") / "project"
            assert result.ret == ret, text_of(result)
            # bytecode knows the folder that it was compiled in
            shutil.copytree(self.path, folder, ignore=shutil.ignore_patterns("__pycache__"))
            LEFT[key] = result, folder
        return LEFT[key][0]

    @property
    def events(self):
        """What happened in labs so far, without process ids."""
        return [line.partition(" ")[2] for line in self.log()]

    def log(self):
        """What happened in labs so far; then it is forgotten."""
        path = self.path / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def ids(self, *args):
        """The names of the tests that are collected, in order."""
        result = self.run("--co", "-q", *args)
        assert result.ret == 0, result.stdout.str()
        return [line.partition("::")[2] for line in result.outlines if "::" in line]


def journal_samples(journal):
    """The samples of a journal, a record each; what it says of where the time went is left out."""
    records = map(json.loads, journal.read_text().splitlines())
    return [record for record in records if "sample" in record]


def text_of(result):
    """All that a run printed."""
    return result.stdout.str() + result.stderr.str()


def flat(result):
    """The same with lines and columns undone, to find a sentence that was wrapped."""
    return " ".join(text_of(result).split())


def assert_refused(result, sentence):
    """The run ended as a usage error with that sentence, and no test ran."""
    text = text_of(result)
    assert result.ret == pytest.ExitCode.USAGE_ERROR, text
    assert sentence in text
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    assert " passed" not in text
    assert " failed" not in text
