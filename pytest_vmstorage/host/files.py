"""Many small files of a host, read at once: here without a process, on another host by one command."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pytest_vmstorage.host.shell import LocalShell, Shell

Files = Mapping[str, tuple[str, ...]]
"""Lines of files by their paths; a file without lines is left out."""

# the shell searches by itself: pgrep takes as long as all the rest
_QEMUS = r"""
stats=
for comm in /proc/[0-9]*/comm; do
    { read -r name <"$comm"; } 2>/dev/null || continue
    case $name in qemu-system* | qemu-kvm* | kvm) stats="$stats ${comm%comm}stat" ;; esac
done
"""
# matched against a process's own name, which contains neither this script nor a guest's name
_QEMU = re.compile(r"qemu-system.*|qemu-kvm.*|kvm")
# -s: missing files are left out; -H: the name before each line
_GREP = "grep -asH"


def read_small(shell: Shell, patterns: Sequence[str]) -> Files:
    """All files that match those patterns of glob(7), which have no spaces; unreadable files are left out."""
    if isinstance(shell, LocalShell):
        return _lines(shell.files(patterns))
    return _asked(shell, f"exec {_GREP} '' {' '.join(patterns)}")


def read_with_qemus(shell: Shell, patterns: Sequence[str], long: Mapping[str, str]) -> Files:
    """The same, and /proc/PID/stat of each QEMU; of files that match a key of `long`, lines with its prefix."""
    if isinstance(shell, LocalShell):
        comms = shell.files(["/proc/[0-9]*/comm"])
        stats = [f"{path.removesuffix('comm')}stat" for path, name in comms.items() if _QEMU.fullmatch(name.strip())]
        found = _lines(shell.files([*patterns, *stats]))
        return {**found, **{path: lines for one, begin in long.items() for path, lines in _parts(shell, one, begin)}}
    begin = f"^({'|'.join(dict.fromkeys(long.values()))})"
    whole = f"{_GREP} '' {' '.join(patterns)} $stats"
    return _asked(shell, f"{_QEMUS}{whole}\nexec {_GREP}E '{begin}' {' '.join(long)}")


def guest_pid(shell: Shell, uuid: str) -> int | None:
    """The pid of the guest with that UUID, by its command line; None where there is none, or the host hides it."""
    if isinstance(shell, LocalShell):
        words = f"\0-uuid\0{uuid}\0"
        found = [path.split("/")[2] for path, line in shell.files(["/proc/[0-9]*/cmdline"]).items() if words in line]
    else:
        found = shell.run(["pgrep", "-f", "--", f"-uuid {uuid}"]).stdout.split()
    return min(map(int, found), default=None)


def _parts(shell: LocalShell, pattern: str, begin: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for path, lines in _lines(shell.files([pattern])).items():
        if part := tuple(line for line in lines if line.startswith(begin)):
            yield path, part


def _asked(shell: Shell, script: str) -> Files:
    # grep's exit status only says that one of many files is missing
    return read_files(shell.run(["sh", "-c", script]).stdout)


def _lines(texts: Mapping[str, str]) -> Files:
    return {path: tuple(text.splitlines()) for path, text in texts.items() if text}


def read_files(text: str) -> Files:
    """Files by path, from the output of `grep -H`; no path here has a colon."""
    files: dict[str, list[str]] = {}
    for line in text.splitlines():
        path, colon, rest = line.partition(":")
        if colon:
            files.setdefault(path, []).append(rest)
    return {path: tuple(lines) for path, lines in files.items()}


def first_line(files: Files, path: str, begins: str = "") -> str:
    """The first line of a file that begins with `begins`, "" where there is none."""
    return next((line for line in files.get(path, ()) if line.startswith(begins)), "")
