"""The guard below everything that writes: which paths a command names, and what is refused before it runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from pytest_vmstorage.errors import ForeignPathError
from pytest_vmstorage.host.guard import READS, Guard, guard_of, named_paths
from pytest_vmstorage.host.shell import LocalShell, SshShell, unguarded

FOLDER = "/srv/disks/run-1"
GUARD = Guard([f"{FOLDER}/", "/tmp/vms-1/"])


@pytest.mark.parametrize(
    "argv",
    [
        ["mkfs.xfs", "-f", "-l", "logdev=/dev/sdb", "/dev/loop7"],
        ["mkfs.btrfs", "/srv/other", f"{FOLDER}/fs"],
        ["dd", "if=/dev/zero", "of=/dev/sdb", "bs=1M"],
        ["wipefs", "--all", "--", "/dev/sdb"],
        ["mount", "-t", "ext4", "-o", "rw,journal_path=/dev/sdb", "--", f"{FOLDER}/fs.img", f"{FOLDER}/fs"],
        ["qemu-img", "create", "-q", "-f", "qcow2", "/etc/passwd", "1048576"],
        ["qemu-img", "convert", "-O", "raw", f"{FOLDER}/a", f"{FOLDER}/../../b"],
        ["qemu-img", "check", "-r", "all", "/srv/other.qcow2"],
        ["qemu-img", "resize", 'json:{"driver": "qcow2", "file": {"filename": "/srv/other"}}', "+1"],
        ["rm", "-rf", "--", "/srv/disks"],
        ["rm", "-rf", "--", "/srv/disks/run-10"],
        ["find", "/srv/disks", "-delete"],
        ["find", "/srv/disks", "-type", "f", "-exec", "shred", "{}", ";"],
        ["mkfs.btrfs", "-b", "/dev/sdb", f"{FOLDER}/fs"],
        ["tool", "if=/dev/sdb"],
        ["timeout", "-k", "2", "10.000", "truncate", "-s", "0", "--", "/srv/other"],
        ["env", "LC_ALL=C", "tee", "/srv/other"],
        ["sh", "-c", 'umask 077 && exec truncate -s "$2" -- "$1"', "sh", "/srv/other", "10"],
        ["sh", "-c", "rm -f -- '/srv/other file'"],
        ["nobody-knows-it", "/srv/other"],
    ],
    ids=" ".join,
)
def test_a_path_that_is_not_the_runs_own_is_refused(argv: list[str]) -> None:
    """Whatever the program, wherever in its words; a program that nobody entered is taken for one that writes."""
    with pytest.raises(ForeignPathError, match=rf"^{argv[0]} would be given /\S.* on the host, which is neither made"):
        GUARD.check(argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["mkfs.xfs", "-f", "-d", "agcount=4", f"{FOLDER}/fs.img"],
        ["dd", "if=/dev/sdb", f"of={FOLDER}/with, a blank", "bs=1M"],
        ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", "/home/jane/debian.raw", f"{FOLDER}/root"],
        ["qemu-img", "info", "-U", "--output=json", "/srv/other.qcow2"],
        ["qemu-img", "resize", f'json:{{"file": {{"filename": "{FOLDER}/a b"}}}}', "+1"],
        ["rm", "-rf", "--one-file-system", "--", FOLDER, "/tmp/vms-1"],
        ["stat", "-c", "%s", "--", "/etc/passwd"],
        ["blockdev", "--getsize64", "/dev/sdb"],
        ["find", "/srv/disks", "-type", "f", "-exec", "filefrag", "-v", "{}", ";"],
        ["timeout", "-k", "2", "10.000", "cat", "--", "/etc/passwd"],
        ["sh", "-c", f"{READS}\nreadlink -f -- $1", "sh", "/dev/sdb"],
        ["sh", "-c", 'cp -- "$1" "$2"', "sh", f"{FOLDER}/a", f"{FOLDER}/b"],
        ["lvcreate", "--name", "vms-1-2", "--size", "100b", "vg0"],
        ["true"],
    ],
    ids=" ".join,
)
def test_the_runs_own_paths_and_reading_are_let_through(argv: list[str]) -> None:
    """A reader may look at anything."""
    GUARD.check(argv)


def test_a_device_is_let_through_while_it_is_allowed() -> None:
    """Listed, looked at and taken for a cell: until the cell gives it back."""
    guard, argv = Guard([f"{FOLDER}/"], of="lab01"), ["wipefs", "--all", "--", "/dev/sdb"]
    guard.allow("/dev/sdb")
    guard.check(argv)
    with pytest.raises(ForeignPathError):
        guard.check(["wipefs", "--all", "--", "/dev/sdb1"])
    guard.forbid("/dev/sdb")
    with pytest.raises(ForeignPathError, match="/dev/sdb on lab01"):
        guard.check(argv)


def test_a_refused_command_does_not_run(tmp_path: Path) -> None:
    """On this machine, by a command and by a copy; a workload's own words, which are the user's, are not judged."""
    own, other = tmp_path / "run-1", tmp_path / "other"
    own.mkdir()
    other.write_text("precious")
    shell = LocalShell(Guard([f"{own}/"]))
    with pytest.raises(ForeignPathError):
        shell.run(["truncate", "-s", "0", "--", str(other)])
    with pytest.raises(ForeignPathError):
        shell.put(Path("/etc/hostname"), str(other))
    assert other.read_text() == "precious"
    assert shell.run(["truncate", "-s", "3", "--", str(own / "a")]).ok
    shell.put(Path("/etc/hostname"), str(own / "b"))
    assert sorted(path.name for path in own.iterdir()) == ["a", "b"]
    assert unguarded(shell).run(["truncate", "-s", "0", "--", str(other)]).ok
    assert other.read_text() == ""
    assert shell.guard is not None


def test_a_refused_command_is_not_sent_to_another_machine() -> None:
    """It is refused before ssh is tried."""
    shell = SshShell("nobody@nowhere.invalid")
    shell.guard = Guard([f"{FOLDER}/"], of="lab01")
    for refused in (lambda: shell.run(["rm", "/etc/passwd"]), lambda: shell.put(Path("/etc/hostname"), "/etc/passwd")):
        with pytest.raises(ForeignPathError, match="/etc/passwd on lab01"):
            refused()


def test_a_shell_without_a_guard_has_one_that_allows() -> None:
    """As the appliance's builder and `vmstorage reap` have, whose folders are not a run's."""
    guard_of(object()).check(["rm", "/srv/other"])
    shell = LocalShell()
    guard_of(shell).forbid("/srv/other")
    guard_of(shell).check(["rm", "/srv/other"])


@pytest.mark.parametrize("script", ["device_list.sh", "device_facts.sh"])
def test_scripts_that_only_read_say_so(script: str) -> None:
    """They are given devices that nobody has allowed yet."""
    text = (Path(__file__).parents[3] / "pytest_vmstorage" / "storage" / script).read_text()
    assert list(named_paths(["sh", "-c", text, "sh", "/dev/sdb"])) == []


def test_scripts_that_say_they_only_read_have_no_word_that_writes() -> None:
    """Every text in the package that begins so."""
    package = Path(__file__).parents[3] / "pytest_vmstorage"
    texts = [path.read_text() for path in package.rglob("*.sh")]
    for path in package.rglob("*.py"):
        source = path.read_text()
        # to parse all of them takes seconds
        tree = ast.parse(source if READS in source else "")
        texts += [one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    reading = [text for text in texts if text.startswith(f"{READS}\n") and text != f"{READS}\n"]
    assert len(reading) >= 6
    for text in reading:
        words = set(text.replace("2>/dev/null", "").replace(">/dev/null", "").replace(">&2", "").split())
        assert not words & {"rm", "mv", "cp", "dd", "tee", "truncate", "mkfs", "wipefs", "chmod", "chown", "ln"}, text
        assert not [word for word in words if word.startswith((">/", ">>", '>"'))], text
