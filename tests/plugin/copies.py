"""Processes that are copies of one that has loaded pytest and all of ours: seen from the tests that want them."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.metadata
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache, cached_property
from pathlib import Path

from execnet.gateway_base import Popen2IO

import pytest_vmstorage

ADDRESS = "VMS_COPIES"
"""The environment variable that says where the server of copies listens."""
SERVER = Path(__file__).with_name("copy_server.py")


class Copy:
    """A copy: its process id, and how it ends, as subprocess.Popen tells it."""

    def __init__(self, environ, folder, files, code=None, argv=()):
        """Begin one that runs `code`, or pytest with `argv`; `files` are its standard input, output and errors."""
        self._answers = socket.socket(socket.AF_UNIX)
        self._answers.connect(environ[ADDRESS])
        request = json.dumps([dict(environ), str(folder), code, list(map(str, argv))]).encode()
        socket.send_fds(self._answers, [len(request).to_bytes(4, "big")], list(files))
        self._answers.sendall(request)
        self._lines = self._answers.makefile("r")
        self.pid = int(self._lines.readline())
        self.stdin = self.returncode = None

    def wait(self, timeout=None):
        """Its exit status, negative for the signal that ended it; raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a copy", timeout)
            with self._answers, self._lines:
                self.returncode = int(self._lines.readline())
        return self.returncode

    def kill(self):
        """End it, if it has not ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class WorkerIO(Popen2IO):
    """execnet's way to a worker, which is a copy in place of a new interpreter."""

    def __init__(self, args, execmodel):
        its_in, our_out = os.pipe()
        our_in, its_out = os.pipe()
        try:
            self._copy = Copy(os.environ, Path.cwd(), (its_in, its_out, 2), code=args[-1])
        finally:
            os.close(its_in)
            os.close(its_out)
        super().__init__(os.fdopen(our_out, "wb"), os.fdopen(our_in, "rb"), execmodel=execmodel)

    def wait(self):
        """The worker's exit status."""
        return self._copy.wait()

    def kill(self):
        """End the worker."""
        self._copy.kill()


@cache
def address():
    """Where the server of this process listens; it begins with the first question, and ends with this process."""
    folder = tempfile.mkdtemp(prefix="vms-copies-")
    environ = {**os.environ, ADDRESS: f"{folder}/socket"}
    server = subprocess.Popen([sys.executable, SERVER], env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    server.stdout.readline()

    def end():
        server.stdin.close()
        server.stdout.close()
        server.wait()
        shutil.rmtree(folder)

    atexit.register(end)
    return environ[ADDRESS]


class Installed:
    """An installed distribution, whose files are read once."""

    def __init__(self, found):
        self._found = found

    def __getattr__(self, name):
        return getattr(self._found, name)

    @cached_property
    def entry_points(self):
        """What it has for pytest, among others."""
        return self._found.entry_points

    @cached_property
    def files(self):
        """Of those with plugins pytest looks at each name."""
        return self._found.files

    @cached_property
    def metadata(self):
        """Its name and version are told."""
        return self._found.metadata


def look_for_distributions_once():
    """Each run of pytest looks twice for all that are installed, for a tenth of its time; here they stay the same."""
    found = tuple(map(Installed, importlib.metadata.distributions()))
    importlib.metadata.distributions = lambda **_: iter(found)


def load_all_of_ours():
    """Import each module of the package: a run in a process that has done so loads none anew."""
    for module in pkgutil.walk_packages(pytest_vmstorage.__path__, f"{pytest_vmstorage.__name__}."):
        importlib.import_module(module.name)
