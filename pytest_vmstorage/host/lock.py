"""The lock of a host: one job at a time measures on it, whichever controller the job comes from.

The lease is a flock that a process on the host holds, started through the host's shell, with the holder's name in the
file. That process lives as long as its standard input is open, so the kernel frees the lease when the holder is
killed, and a connection that is cut frees it once no sign of life came for `SILENCE_S`. This machine's lease is taken
by the same script, so that a run here and one that comes from elsewhere by ssh see each other.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import IO

from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host.lease import this_process
from pytest_vmstorage.host.shell import Shell, SshShell
from pytest_vmstorage.host.ssh import reach_error
from pytest_vmstorage.leftovers import kill_session
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.text import plain_line
from pytest_vmstorage.units import format_duration

FOLDERS = ("/run/lock", "/tmp")
"""Folders for the lock file: the first that has it or can have it; its name contains the host's own name."""

WAIT_S = 600.0
"""How long to wait for another job by default."""

BEAT_S = 5.0
"""Seconds between two signs of life, and the steps, in whole seconds, in which one who waits looks for one."""

SILENCE_S = 20

_SCRIPT = r"""
wait=$1 holder=$2 silence=$3 beat=$4; shift 4
name=pytest-vmstorage-$(uname -n).lock
command -v flock >/dev/null || { echo 'failed flock of util-linux is not there'; exit; }
held=
for try in 1 2 3; do
  file=
  for folder; do [ -f "$folder/$name" ] && file=$folder/$name && break; done
  # made exclusively, and opened without O_CREAT: neither follows a link, nor is it refused on another user's file
  [ -n "$file" ] || for folder; do
    (umask 0; set -C; : >"$folder/$name") 2>/dev/null && file=$folder/$name && break
  done
  [ -r "$file" ] || continue
  exec 9<"$file"
  # a new holder needs a moment to write its name
  if ! flock -w 0.3 9; then
    echo "busy $(head -c 300 "$file" | head -n 1)"
    waited=0 step=${silence:+$beat}
    step=${step:-1}
    [ "$step" -le "$wait" ] || step=$wait
    # a while at a time: who began this may be killed meanwhile, and then nobody wants the lease
    until [ "$waited" -ge "$wait" ] || flock -w "$step" 9; do
      waited=$((waited + step))
      if [ -n "$silence" ]; then
        [ -n "$(timeout "$silence" head -c 1 | tr '\n' .)" ] || exit
      else
        read -r _ _ _ parent _ </proc/$$/stat
        [ "$parent" = "$PPID" ] || exit
      fi
    done
    if [ "$waited" -ge "$wait" ]; then
      echo "late $(head -c 300 "$file" | head -n 1)"
      exit
    fi
  fi
  # somebody may have removed it meanwhile, and others lock another one
  [ "$(stat -c %d:%i "$file" 2>/dev/null)" = "$(stat -L -c %d:%i /proc/self/fd/9)" ] && held=1 && break
done
[ -n "$held" ] || { echo "failed no lock file can be made in $*"; exit; }
printf '%s since %s\n' "$holder" "$(date -u '+%Y-%m-%d %H:%M:%S UTC')" |
  dd of=/proc/self/fd/9 conv=nocreat 2>/dev/null
echo held
[ -n "$silence" ] || exec cat >/dev/null
while [ -n "$(timeout "$silence" head -c 1 | tr '\n' .)" ]; do :; done
"""

_JOB_NAMES = ("CI_JOB_URL", "BUILD_URL")


class HostLease:
    """The lease of one host, held for a run or for a block; `wait_s` is how long to wait for another job, 0 not at all.

    Where it is lost meanwhile, such as with a connection that was cut, the block around the loss raises HostError.
    """

    def __init__(self, shell: Shell, host: str, *, wait_s: float = WAIT_S, folders: Sequence[str] = FOLDERS) -> None:
        self._shell = shell
        self._host = host
        self._wait_s = wait_s
        self._folders = folders
        self._process: subprocess.Popen[str] | None = None
        self._is_kept = False

    def keep(self, say: Progress = silent) -> None:
        """Take the lease until `close`, and report its holder while waiting. Raises HostError that names the holder."""
        self._is_kept = True
        self._take(say)

    @contextlib.contextmanager
    def alone(self, say: Progress = silent) -> Iterator[None]:
        """Hold the lease for a block; a kept lease is only checked, and taken anew where it was lost before."""
        if self._lost() is not None:
            self._take(say)
        try:
            yield
            if (reason := self._lost()) is not None:
                raise HostError(
                    f"The lease on {self._host} was lost while it was measured on, and another job may have begun there"
                    f"{f': {reason}' if reason else ''}.",
                    hint="Look at the connection to the host, and run this again.",
                    code="VM414",
                )
        finally:
            if not self._is_kept:
                self.close()

    @property
    def is_lost(self) -> bool:
        """Whether the lease was taken and is no longer held."""
        return self._process is not None and self._lost() is not None

    def close(self) -> None:
        """Free the lease."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            _pipe(process.stdin).close()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            kill_session(process)
            process.wait()
        for stream in (process.stdout, process.stderr):
            _pipe(stream).close()

    def _lost(self) -> str | None:
        """The last output of the holding process, which has ended; None while it lives."""
        if self._process is not None and self._process.poll() is None:
            return None
        return _pipe(self._process.stderr).read().strip() if self._process is not None else ""

    def _take(self, say: Progress) -> None:
        self.close()
        is_far = isinstance(self._shell, SshShell)
        silence = str(SILENCE_S) if is_far else ""
        waits = (str(math.ceil(self._wait_s)), holder(), silence, str(math.ceil(BEAT_S)))
        argv = ["sh", "-c", _SCRIPT, "sh", *waits, *self._folders]
        self._process = process = _start(self._shell, argv)
        if is_far:
            threading.Thread(target=_beat, args=(process,), name="vmstorage-lease", daemon=True).start()
        try:
            with span("lease"):
                self._read(process, say)
        except BaseException:
            # Ctrl-C must not leave the process, or the flock below it, waiting in the queue
            kill_session(process)
            self.close()
            raise

    def _read(self, process: subprocess.Popen[str], say: Progress) -> None:
        """Wait until the process reports that it holds the lease."""
        for line in _pipe(process.stdout):
            word, _, text = line.rstrip("\n").partition(" ")
            who = plain_line(text) or "another job"
            if word == "held":
                return
            if word == "late":
                raise self._in_use(who)
            if word == "failed":
                raise HostError(f"{self._host} cannot be leased: {text}.", code="VM413")
            if word == "busy" and self._wait_s:
                say(f"waiting up to {format_duration(self._wait_s)} for {self._host}, which is in use by {who}")
        said = _pipe(process.stderr).read()
        if isinstance(self._shell, SshShell):
            raise reach_error(self._shell.target, said)
        reason = (said.strip().splitlines() or ["its shell ended"])[-1].rstrip(".")
        raise HostError(f"{self._host} cannot be leased: {reason}.", code="VM413")

    def _in_use(self, who: str) -> HostError:
        waited = f"after {format_duration(self._wait_s)} still " if self._wait_s else ""
        return HostError(
            f"{self._host} is {waited}in use by {who}.",
            hint="One job at a time measures on a host: name another one, or give --vm-wait more time.",
            code="VM412",
        )


def holder() -> str:
    """This process in words for those who wait for it: user, machine, process, and the CI job if any."""
    owner = this_process()
    server, repository, run = (os.environ.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    jobs = [f"{server}/{repository}/actions/runs/{run}" if run else "", *map(os.environ.get, _JOB_NAMES)]
    job = next(filter(None, jobs), "")
    return f"{owner.user}@{owner.host} (pid {owner.pid}{f', {job}' if job else ''})"


def _start(shell: Shell, argv: Sequence[str]) -> subprocess.Popen[str]:
    """The command as a process whose standard input is ours, on the shell's machine."""
    if isinstance(shell, SshShell):
        # ssh itself notices within 15 s that the other end is gone
        alive = ("ServerAliveInterval=5", "ServerAliveCountMax=3")
        options = ("BatchMode=yes", "ConnectTimeout=10", *alive)
        ssh = ["ssh", "-T", *(word for option in options for word in ("-o", option)), shell.target, "--"]
        argv = [*ssh, shlex.join(argv)]
    # the process gets its own session: Ctrl-C on the terminal is for pytest, which closes the lease at its end
    return subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )


def _beat(process: subprocess.Popen[str]) -> None:
    """Send the host a sign of life every few seconds."""
    stream = _pipe(process.stdin)
    with contextlib.suppress(OSError, ValueError):
        while True:
            stream.write("\n")
            stream.flush()
            try:
                process.wait(BEAT_S)
            except subprocess.TimeoutExpired:
                continue
            return


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream
