"""A process that has loaded what a run of pytest with a fake lab loads, and copies itself for each that asks.

To load it takes a second of a processor, and `fork` takes a hundredth. A copy is given its environment, its folder and
its standard files, and is then what it was asked to be: a run of pytest, or a worker of xdist in such a run. What an
interpreter does before the first line of its program is not seen in it, nor that modules are taken apart at its end.
It ends with the process that started it. `copies` asks it.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path
from types import ModuleType

import copies
import execnet.gateway_io
import pytest

TWO_CELLS = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", iodepth=32, size="256M", runtime=5))
"""


def load():
    """Run pytest on two cells, which loads what runs load, and the rest of ours."""
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nowhere:
        Path(folder, "test_two.py").write_text(TWO_CELLS)
        os.chdir(folder)
        kept = os.dup(1)
        os.dup2(nowhere.fileno(), 1)
        # where a test names the plugins of each run, ours alone
        named = ["-pbenchmark", "-pxdist", "-pvmstorage"] if "PYTEST_DISABLE_PLUGIN_AUTOLOAD" in os.environ else []
        status = pytest.main(["-p", "no:cacheprovider", *named])
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        os.chdir("/")
    assert status == 0
    del sys.modules["test_two"]
    copies.load_all_of_ours()
    importlib.import_module("xdist.remote")
    # no other one would be in a copy
    assert threading.active_count() == 1


class Server:
    """Who asks, and what is told to them: the process id of a copy, and its exit status when it has ended."""

    def __init__(self, life, listener):
        """Listen there, as long as nothing can be read from `life`."""
        self._life = life
        self._listener = listener
        self._asked = {}
        self._ended, self._note = os.pipe()
        os.set_blocking(self._note, False)

    def serve(self):
        """Make copies; in a copy, return what it is to be."""
        signal.set_wakeup_fd(self._note)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while True:
            ready, _, _ = select.select([self._life, self._ended, self._listener], [], [])
            if self._life in ready:
                os._exit(0)
            if self._ended in ready:
                os.read(self._ended, 512)
                self._tell()
            if self._listener in ready and (wanted := self._answer()):
                return wanted

    def _answer(self):
        asked, _ = self._listener.accept()
        size, files, _, _ = socket.recv_fds(asked, 4, 3)
        request = b""
        while len(request) < int.from_bytes(size, "big"):
            request += asked.recv(1 << 20)
        if pid := os.fork():
            for file in files:
                os.close(file)
            self._asked[pid] = asked
            asked.sendall(b"%d\n" % pid)
            return None
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (asked, self._listener, *self._asked.values()):
            one.close()
        for file in (self._life, self._ended, self._note):
            os.close(file)
        return json.loads(request), files

    def _tell(self):
        while self._asked:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            # who asked may have ended
            with self._asked.pop(pid) as asked, contextlib.suppress(BrokenPipeError):
                asked.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


# without what this program's own place and environment have put there
INTERPRETERS_PATH = [one for one in sys.path[1:] if one not in os.environ.get("PYTHONPATH", "").split(os.pathsep)]


def become(environ, folder, files):
    """Be as an interpreter is that begins there."""
    os.environ.clear()
    os.environ.update(environ)
    os.chdir(folder)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    encoding = sys.stdout.encoding
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding=encoding, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding=encoding, closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, encoding, "backslashreplace", closefd=False)
    sys.path[:] = [folder, *environ["PYTHONPATH"].split(os.pathsep), *INTERPRETERS_PATH]
    sys.dont_write_bytecode = bool(environ.get("PYTHONDONTWRITEBYTECODE"))
    signal.signal(signal.SIGINT, signal.default_int_handler)


def run(code, argv):
    """Run the code, or pytest, as the program of this process."""
    if code is None:
        sys.argv = ["pytest", *argv]
        runpy.run_module("pytest", run_name="__main__", alter_sys=True)
    else:
        sys.argv = ["-c"]
        sys.modules["__main__"] = ModuleType("__main__")
        exec(code, vars(sys.modules["__main__"]))


def main():
    """Be the server; in a copy, what it is asked for."""
    life = os.dup(0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    copies.look_for_distributions_once()
    load()
    execnet.gateway_io.Popen2IOMaster = copies.WorkerIO
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.environ[copies.ADDRESS])
        listener.listen()
        sys.stdout.write("listening\n")
        sys.stdout.flush()
        # what is there by now is not looked through for garbage, which would copy its memory
        gc.collect()
        gc.freeze()
        (environ, folder, code, argv), files = Server(life, listener).serve()
    become(environ, folder, files)
    status = 0
    try:
        run(code, argv)
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        status = end.code or 0
    # as an interpreter ends, but for taking modules apart, which takes half as long as a short run
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
