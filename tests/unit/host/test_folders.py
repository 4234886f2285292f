"""The folder of a run: nobody but its user can put another file in place of one in it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_vmstorage
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.host.folders import find_folder, keep_private, make_run_folder
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.testing.shell import FakeShell

RECORDINGS = Path(__file__).parents[1] / "recordings"
SHELL = LocalShell()
OTHER_UID = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="root alone can give files away")


def mode_of(path: Path) -> int:
    """Its permissions."""
    return path.stat().st_mode & 0o7777


def test_a_folder_is_made_as_its_users_alone(tmp_path: Path) -> None:
    """With those above it; what it lies on is told, its name without links, and nothing is left of the try."""
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    facts = find_folder(SHELL, str(tmp_path / "link" / "deep" / "disks"), chosen=True)
    there = tmp_path / "real" / "deep" / "disks"
    assert facts.path == str(there.resolve())
    assert (mode_of(there), facts.free_bytes > 0, list(there.iterdir())) == (0o711, True, [])


def test_a_link_under_a_known_name_is_refused(tmp_path: Path) -> None:
    """Whoever it belongs to; where the user named it, what it leads to is looked at."""
    target, link = tmp_path / "target", tmp_path / "pytest-vmstorage-root"
    target.mkdir()
    link.symlink_to(target)
    with pytest.raises(HostError, match=r"is a link, and whoever made it decides where disks are written\. Remove it"):
        find_folder(SHELL, str(link), chosen=False)
    for how in ({"chosen": True}, {"chosen": False, "named": True}):
        assert find_folder(SHELL, str(link), **how).path == str(target.resolve())
    assert list(target.iterdir()) == []


@needs_root
def test_another_users_folder_is_refused_with_its_owner(tmp_path: Path) -> None:
    """Under the default name as under a chosen one; nothing was written to it."""
    folder = tmp_path / "disks"
    folder.mkdir()
    os.chown(folder, OTHER_UID, OTHER_UID)
    for chosen in (True, False):
        with pytest.raises(HostError, match="is not used: it belongs to the user nobody, who could replace") as error:
            find_folder(SHELL, str(folder), chosen=chosen)
        assert "Name a folder of root's own with --vm-dir=FOLDER" in error.value.hint
    assert list(folder.iterdir()) == []


@needs_root
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_a_run_refuses_a_folder_that_another_user_made_first(kind: str, tmp_path: Path) -> None:
    """The whole way, by its default name, as root: the run ends before it made anything there."""
    user = f"vms{os.getpid()}"
    taken, evil = Path(f"/var/tmp/pytest-vmstorage-{user}"), tmp_path / "evil"
    tmp_path.chmod(0o755)
    evil.mkdir()
    os.chown(evil, OTHER_UID, OTHER_UID)
    (tmp_path / "test_it.py").write_text("""import pytest
from pytest_vmstorage import Fio
@pytest.mark.storage(size="64M", backing="native")
def test_it(measure): measure(Fio(rw="write", size="8M", runtime=1))
""")
    try:
        if kind == "link":
            taken.symlink_to(evil)
            os.chown(taken, OTHER_UID, OTHER_UID, follow_symlinks=False)
        else:
            taken.mkdir()
            os.chown(taken, OTHER_UID, OTHER_UID)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--vm-wait=0"],
            cwd=tmp_path,
            # the package that this test sees, and no other
            env={
                **os.environ,
                "LOGNAME": user,
                "VMSTORAGE_CACHE": str(tmp_path / "cache"),
                "PYTHONPATH": str(Path(pytest_vmstorage.__file__).parents[1]),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        said = " ".join(f"{done.stdout}{done.stderr}".split())
        assert done.returncode == pytest.ExitCode.USAGE_ERROR, said
        assert f"The folder for disks {taken} is {'a link' if kind == 'link' else 'not used: it belongs to'}" in said
        assert list(evil.iterdir()) == []
    finally:
        taken.unlink() if kind == "link" else taken.rmdir()


def test_a_runs_folder_is_made_anew(tmp_path: Path) -> None:
    """One that is there may be anybody's, a link as well; where QEMU is another user it passes through, and no more."""
    make_run_folder(SHELL, str(tmp_path / "run-1"), shared=False)
    make_run_folder(SHELL, str(tmp_path / "run-2"), shared=True)
    assert (mode_of(tmp_path / "run-1"), mode_of(tmp_path / "run-2")) == (0o700, 0o711)
    (tmp_path / "run-3").symlink_to(tmp_path / "elsewhere")
    for name in ("run-1", "run-3"):
        with pytest.raises(HostError, match=rf"The run's folder .*/{name} cannot be made: .*File exists"):
            make_run_folder(SHELL, str(tmp_path / name), shared=False)
    assert not (tmp_path / "elsewhere").exists()


def test_files_are_closed_to_others(tmp_path: Path) -> None:
    """An image is read by its owner alone."""
    file = tmp_path / "disk"
    file.write_text("")
    file.chmod(0o644)
    keep_private(SHELL, [str(file)])
    assert mode_of(file) == 0o600


def folder_host(df: str) -> FakeShell:
    """A host whose folder can be written and lies on that."""
    said = "user 0 0 root root none\nfolder 0 0 711 root /srv/vm\nfolder 0 0 755 root /srv\nfolder 0 0 755 root /\n"
    shell = FakeShell().answer(re.compile("write-test"), said)
    return shell.answer(re.compile("^df "), (RECORDINGS / f"df-9.1-{df}.txt").read_text())


def test_a_tmpfs_is_never_taken_silently() -> None:
    """Memory is no disk, unless the user says so."""
    assert find_folder(folder_host("ext4"), "/srv/vm", chosen=False).path == "/srv/vm"
    with pytest.raises(HostError, match=r"is a tmpfs, which is memory and no disk\. Name a folder .*--vm-dir"):
        find_folder(folder_host("tmpfs"), "/srv/vm", chosen=False)
    assert find_folder(folder_host("tmpfs"), "/srv/vm", chosen=True).file_system == "tmpfs"


def test_a_folder_that_cannot_be_written_is_refused() -> None:
    """Whether it cannot be made or not be written to: one sentence with the cause and the option."""
    shell = folder_host("ext4").answer(re.compile("write-test"), stderr="sh: 1: Permission denied", returncode=1)
    with pytest.raises(HostError) as caught:
        find_folder(shell, "/srv/vm", chosen=True)
    assert caught.value.told == (
        "The folder for disks /srv/vm cannot be written: sh: 1: Permission denied. "
        "Name another one with --vm-dir=FOLDER."
    )


def test_a_host_that_does_not_tell_whose_folder_it_is_is_refused() -> None:
    """What is not known to be safe is not used."""
    with pytest.raises(HostError, match="The folder for disks cannot be looked at"):
        find_folder(FakeShell().answer(re.compile("write-test"), ""), "/srv/vm", chosen=True)
