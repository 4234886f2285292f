"""Files, folders and processes that must not outlive their maker: files are written whole, and all carry its mark."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

DAY_S = 24 * 3600.0

MARK = r"(?P<mark>\d+-\d+-\d+)"
"""A `mark` in a regular expression, as its group of that name."""


def boot_id() -> str:
    """The kernel's id of this boot, from /proc/sys/kernel/random/boot_id."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def pid_namespace() -> str:
    """The number of this process's pid namespace: a container has another than its host."""
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def started_ticks(pid: int) -> int | None:
    """The process's start, in clock ticks since boot (proc(5), stat field 22); None where there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # the command name may hold spaces and brackets, so count from the last ")"
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def mark() -> str:
    """This process as a part of a file's name: namespace, pid and start, such as "4026531836-1234-567890"."""
    return _mark_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _mark_of(pid: int) -> str:
    # each command carries it, hence the cache; a forked child has another pid
    return f"{pid_namespace()}-{pid}-{started_ticks(pid) or 0}"


def kill_session(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Kill a process that was started in a session of its own, and its children; one that has ended is no error.

    Killed alone it would leave children that go on working and taking memory with nobody to end them.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def processes_with(variable: str, value: str) -> Iterator[tuple[int, str]]:
    """Pid and name of each process of this user whose environment has that variable with that value."""
    for pid, name, environ in _environments():
        if f"{variable}={value}".encode() in environ:
            yield pid, name


def left_processes(variable: str) -> Iterator[tuple[int, str]]:
    """Pid and name of each process whose environment has that variable, a `mark` of a process that is gone."""
    for pid, name, environ in _environments():
        marks = [re.fullmatch(f"{variable}={MARK}", one.decode(errors="replace")) for one in environ]
        if any(found is not None and _is_gone(found["mark"]) for found in marks):
            yield pid, name


def _environments() -> Iterator[tuple[int, str, list[bytes]]]:
    """Pid, name and environment of each process that this user may look at."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ = (folder / "environ").read_bytes().split(b"\0")
            name = (folder / "comm").read_text().strip()
        except OSError:
            # the process ended meanwhile, or is another user's
            continue
        yield int(folder.name), name, environ


def _is_gone(marked: str) -> bool:
    """Whether the process of that mark is gone; False for another pid namespace, which cannot be seen from here."""
    namespace, pid, ticks = marked.split("-")
    return namespace == pid_namespace() and started_ticks(int(pid)) != int(ticks)


def is_left(path: Path, marked: str) -> bool:
    """Whether the file's maker, by that mark, is gone; one that cannot be seen from here counts as gone after a day."""
    if marked.partition("-")[0] == pid_namespace():
        return _is_gone(marked)
    try:
        return time.time() - path.lstat().st_mtime > DAY_S
    except OSError:
        return False


def left_paths(folder: Path, name: str) -> Iterator[tuple[Path, re.Match[str]]]:
    """Paths in that folder whose names match `name`, a regular expression with `MARK` in it, and whose makers are gone.

    In the order of their names; none where there is no such folder.
    """
    for path in sorted(folder.glob("*")):
        match = re.fullmatch(name, path.name)
        if match is not None and is_left(path, match["mark"]):
            yield path, match


def make_temporary(what: str) -> Path:
    """Make a folder that only this user can enter, for the caller to remove; `what` is a word such as "keys"."""
    return Path(tempfile.mkdtemp(prefix=f"vms-{what}-{mark()}-"))


@contextlib.contextmanager
def temporary(what: str) -> Iterator[Path]:
    """Such a folder for a block, removed after it."""
    folder = make_temporary(what)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep(*, look_only: bool = False) -> list[str]:
    """Remove this user's temporary folders whose processes were killed; a phrase for each."""
    said = []
    for path, _ in left_paths(Path(tempfile.gettempdir()), rf"vms-[a-z]+-{MARK}-\w+"):
        if _is_ours(path):
            said.append(f"folder {path}")
            if not look_only:
                shutil.rmtree(path, ignore_errors=True)
    return said


def _is_ours(path: Path) -> bool:
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def write_whole(path: Path, text: str, *, executable: bool = False) -> None:
    """Replace the file as a whole, on disk before this returns; drafts that killed writers left are removed first.

    Its mode is as with open(2), or 0700 where it is `executable`. Raises OSError where the file cannot be written, and
    then leaves nothing.
    """
    for left in left_drafts(path.parent, path.name):
        left.unlink(missing_ok=True)
    draft = path.with_name(f".{path.name}.{mark()}.new")
    try:
        with draft.open("w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if executable:
            draft.chmod(0o700)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def left_drafts(folder: Path, name: str = "") -> Iterator[Path]:
    """Drafts in that folder whose writers are gone, of the file of that name or of all."""
    for path, _ in left_paths(folder, rf"\.{re.escape(name) or '.+'}\.{MARK}\.new"):
        yield path
