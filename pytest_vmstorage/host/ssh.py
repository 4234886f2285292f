"""One ssh connection to a lab host for all commands of a run, and an error with a remedy where there is none.

A command through an existing connection takes 10 ms, one that makes its own 250 ms. Host keys are checked as the
user's own ssh does it; ssh never prompts, for nobody would answer.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import stat
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from pytest_vmstorage.errors import HostError, LostError
from pytest_vmstorage.leftovers import MARK, left_paths, mark

CONNECT_S = 10
"""Time limit for a connection to be made."""

SILENCE_S = 3
SILENCES = 3
"""A host that is silent for that many seconds, that many times, is lost: ssh notices after 9 to 12 s."""

IDLE_S = 10
"""A connection ends by itself that many seconds after its last command, also if this process was killed."""

UNTIL_SILENT = ("-o", f"ServerAliveInterval={SILENCE_S}", "-o", f"ServerAliveCountMax={SILENCES}")
"""Options with which ssh ends once the host is lost."""

_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_S}", *UNTIL_SILENT)
_FOLDER = "/tmp/vms-ssh"
_NAME = rf"{MARK}-\d+(?P<end>\..*)?"
_numbers = itertools.count(1)


class SshConnection:
    """A connection to `target`, made with these options when first used, again once it ended; threads may share it."""

    def __init__(self, target: str, options: Sequence[str] = ()) -> None:
        self.target = target
        self._options = (*_OPTIONS, *options)
        self._lock = threading.Lock()
        self._folder: Path | None = None
        self._socket = ""
        self._was_there = False
        self._error: HostError | None = None

    def argv(self) -> list[str]:
        """The argv of ssh, for a command to follow as one word for the host's shell; raises HostError.

        A host that was lost and cannot be reached again stays lost: no command waits for it twice.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            self._stand()
        # where the server allows no further session in a connection, ssh makes one of its own
        return ["ssh", *self._options, "-o", "ControlMaster=no", "-o", f"ControlPath={self._socket}", self.target, "--"]

    def failed(self, said: str) -> HostError:
        """The error to raise where ssh itself failed with this message."""
        if not self._was_there or Path(self._socket).exists():
            return reach_error(self.target, said)
        return self._lost(self._last_words() or said)

    def _stand(self) -> None:
        """Make the connection where it does not exist."""
        if self._socket and (self._socket == "none" or Path(self._socket).exists()):
            return
        if not self._socket:
            self._folder = _private_folder()
            # the name says whose socket it is, for `sweep`
            self._socket = f"{self._folder}/{mark()}-{next(_numbers)}"
            weakref.finalize(self, _end, self._folder, self._socket, self.target)
        error = self._connect()
        if error is not None:
            # before the first connection the user may still correct the cause; later a run depends on it
            self._error = self._lost(error.what.partition(": ")[2]) if self._was_there else None
            raise self._error or error
        self._was_there = True
        if not Path(self._socket).exists():
            # this ssh shares no connections, or the folder allows no sockets: each command connects by itself
            self._socket = "none"

    def _connect(self) -> HostError | None:
        master = ("-o", "ControlMaster=yes", "-o", f"ControlPath={self._socket}", "-o", f"ControlPersist={IDLE_S}")
        # to a file with -E: in the background ssh has no other place for messages when the host is lost;
        # not to a pipe, which ssh would hold open
        log = self._words()
        argv = ["ssh", *self._options, *master, "-E", str(log), "-f", "-N", self.target]
        with _opened(log) as words:
            try:
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=words, stderr=words, check=False)
            except FileNotFoundError:
                return reach_error(self.target, "ssh: command not found")
        return reach_error(self.target, log.read_text(errors="replace")) if done.returncode else None

    def _words(self) -> Path:
        return Path(f"{self._socket}.log")

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return self._words().read_text(errors="replace").strip()
        return ""

    def _lost(self, why: str) -> LostError:
        reason = (why.strip().splitlines() or ["it ended"])[-1].rstrip(".\r ")
        return LostError(
            f"The ssh connection to {self.target} was lost: {reason}.",
            hint=f"Check that the host is up and on the network; `vmstorage reap --host={self.target}` or the next"
            " run on it removes what is left there.",
            code="VM402",
        )


def reach_error(target: str, said: str) -> HostError:
    """The error for a host that ssh could not reach, with a remedy for each cause, from ssh's standard error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1].rstrip(".") if lines else "it says nothing"
    name = target.rpartition("@")[2]
    offending = re.search(r"Offending .*key in (\S+)", said)
    causes = {
        "IDENTIFICATION HAS CHANGED": (
            f"the host shows another key than the one in {offending[1] if offending else 'known_hosts'}",
            f"Another machine may answer in its place. If it was set up anew: `ssh-keygen -R {name}`, then"
            f" `ssh {target} true` by hand, and compare the key that it shows.",
        ),
        "ost key verification failed|host key is known for": (
            "the host's key is not known to this user",
            f"Run `ssh {target} true` once by hand, compare the key that it shows with the host's, and accept it.",
        ),
        "Permission denied": (
            last,
            f"Nobody can type a password here: put a key there with `ssh-copy-id {target}`, and one that has a"
            " passphrase into ssh-agent.",
        ),
        "Could not resolve": (
            last,
            f"Check the name given to --vm-host, or add its address to ~/.ssh/config (Host {name}).",
        ),
        r"timed out|refused|No route|unreachable|Connection (closed|reset)": (
            last,
            "Check that the host is up, on the network, and runs sshd.",
        ),
        "": (last, f"Check that `ssh {target} true` works without a password."),
    }
    reason, hint = next(found for signs, found in causes.items() if re.search(signs, said))
    return HostError(f"ssh to {target} failed: {reason}.", hint=hint, code="VM401")


def _private_folder() -> Path:
    """Make a folder for sockets that nobody else can reach; short, as a socket's path has 108 characters at most."""
    folder = Path(f"{_FOLDER}-{os.geteuid()}")
    while True:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        # another process may find the folder empty, and remove it
        with contextlib.suppress(FileNotFoundError):
            return folder if _is_private(folder) else Path(tempfile.mkdtemp(prefix=f"{_FOLDER}-"))


def _opened(path: Path) -> TextIO:
    """Open the file anew in its folder, which another process may remove as long as it is empty."""
    while True:
        # not with exist_ok: mkdir then fails where the folder goes while mkdir looks at it
        with contextlib.suppress(FileExistsError):
            path.parent.mkdir(mode=0o700)
        path.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):
            return path.open("a")


def _is_private(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o077


def sweep(*, look_only: bool = False) -> list[str]:
    """End this user's connections whose processes were killed, and remove their sockets; a phrase for each."""
    said = []
    base = Path(_FOLDER)
    for folder in sorted(base.parent.glob(f"{base.name}-*")):
        # other processes remove their folders meanwhile
        with contextlib.suppress(FileNotFoundError):
            said += _sweep(folder, look_only=look_only) if _is_private(folder) else []
    return said


def _sweep(folder: Path, *, look_only: bool) -> list[str]:
    said = []
    for path, match in left_paths(folder, _NAME):
        is_connection = match["end"] is None
        said += [f"ssh connection {path}"] if is_connection else []
        if not look_only:
            _exit(path, "gone") if is_connection else path.unlink(missing_ok=True)
    if not look_only:
        _remove_empty(folder)
    return said


def _remove_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _end(folder: Path, socket: str, target: str) -> None:
    """End the connection and remove its files in the folder, and the folder once it is empty."""
    _exit(Path(socket), target)
    Path(f"{socket}.log").unlink(missing_ok=True)
    _remove_empty(folder)


def _exit(socket: Path, target: str) -> None:
    """End the connection of that socket, and remove the socket; ssh requires a target, but does not use it."""
    if socket.exists():
        argv = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", target]
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)
    socket.unlink(missing_ok=True)
