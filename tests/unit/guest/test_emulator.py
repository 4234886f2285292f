"""QEMU binaries that cells name: looked at on this machine's own files and processes."""

from __future__ import annotations

import re
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError, ProvisionError
from pytest_vmstorage.guest.emulator import check_emulator, read_version, running_emulator
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.lab import make_lab
from pytest_vmstorage.testing.shell import FakeShell

SAYS = "echo QEMU emulator version 9.2.0 '(v9.2.0-7-gabc)'; echo Copyright"


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """An executable script in the place of QEMU."""
    return script(tmp_path / "a folder" / "qemu", SAYS)


def script(path: Path, *lines: str, mode: int = 0o755) -> Path:
    """A script there."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(mode)
    return path


def test_a_qemu_says_its_version(binary: Path) -> None:
    """With its package's; also under a path with a blank."""
    assert check_emulator(LocalShell(), str(binary), "lab01") == "9.2.0 (v9.2.0-7-gabc)"


@pytest.mark.parametrize(
    ("lines", "mode", "why"),
    [
        ((SAYS,), 0o644, "it is not executable"),
        (("exit 3",), 0o755, "its --version fails with exit status 3"),
        (("echo cannot open libfoo.so.1 >&2; exit 127",), 0o755, "cannot open libfoo.so.1"),
        (("echo qemu-img version 9.2.0",), 0o755, "it prints 'qemu-img version 9.2.0' in place of QEMU's version"),
        (("",), 0o755, "it does not say that it is QEMU"),
    ],
    ids=["not executable", "fails", "library", "qemu-img", "silent"],
)
def test_what_is_no_qemu_is_one_sentence(tmp_path: Path, lines: tuple[str, ...], mode: int, why: str) -> None:
    """With the path, the host, the reason, and what to give instead."""
    path = script(tmp_path / "qemu", *lines, mode=mode)
    with pytest.raises(ConfigError) as caught:
        check_emulator(LocalShell(), str(path), "lab01")
    assert caught.value.what == f"emulator={path} cannot be used on lab01: {why}."
    assert caught.value.hint == "Give the path of a qemu-system-x86_64 that runs there."


def test_what_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    """No file, or a folder."""
    for path, why in ((tmp_path / "nosuch", "there is no such file"), (tmp_path, "it is not a file")):
        with pytest.raises(ConfigError, match=f"emulator={path} cannot be used on lab01: {why}"):
            check_emulator(LocalShell(), str(path), "lab01")


def test_what_has_no_end_is_ended() -> None:
    """Anything may stand under a path."""
    shell = FakeShell().answer(re.compile("--version"), seconds=60)
    with pytest.raises(ConfigError, match=r"cannot be used on lab01: its --version does not end within 20 s\."):
        check_emulator(shell, "/opt/qemu", "lab01")


def test_a_version_is_read_from_its_line() -> None:
    """Also where the dynamic linker, or QEMU itself, says something before."""
    assert read_version("warning: x\nQEMU emulator version 8.1.0\nCopyright") == "8.1.0"
    assert read_version("qemu-img version 8.1.0") == ""


@pytest.fixture
def guest() -> Iterator[tuple[str, str]]:
    """A process that has a guest's UUID on its command line, as QEMU has: that, and the file it runs."""
    name, path = str(uuid.uuid4()), shutil.which("sleep")
    assert path is not None
    with subprocess.Popen([f"qemu -uuid {name}", "60"], executable=path) as process:
        yield name, str(Path(path).resolve())
        process.kill()


def test_a_guests_process_runs_the_file_that_was_named(guest: tuple[str, str], tmp_path: Path) -> None:
    """By itself or by a link; a copy of it is another one."""
    name, path = guest
    (tmp_path / "link").symlink_to(path)
    shutil.copy2(path, tmp_path / "copy")
    for named, is_named in ((path, True), (str(tmp_path / "link"), True), (str(tmp_path / "copy"), False)):
        found = running_emulator(LocalShell(), named, name)
        assert (found.exe, found.is_named, found.is_script) == (path, is_named, False)


def test_a_script_is_known_for_one(guest: tuple[str, str], binary: Path) -> None:
    """What it started is told, and the version that it gave."""
    found = running_emulator(LocalShell(), str(binary), guest[0])
    assert (found.exe, found.is_named, found.is_script) == (guest[1], False, True)
    assert found.version == "9.2.0 (v9.2.0-7-gabc)"


def test_a_process_that_is_not_seen_runs_nothing_known(binary: Path) -> None:
    """It may be another user's; a binary that is gone by then is an error."""
    found = running_emulator(LocalShell(), str(binary), str(uuid.uuid4()))
    assert (found.exe, found.is_named) == ("", False)
    binary.unlink()
    with pytest.raises(ProvisionError, match=r"looking at the QEMU of .* failed: .*not found"):
        running_emulator(LocalShell(), str(binary), str(uuid.uuid4()))


def test_it_is_looked_at_before_a_disk_is_made(tmp_path: Path) -> None:
    """Each time: a binary may be replaced between two guests."""
    shell = make_host_shell()
    shell.answer(re.compile(r'exec "\$1" --version'), stderr="there is no such file\n", returncode=1)
    lab = make_lab(tmp_path, shell=shell)
    with pytest.raises(ConfigError, match="emulator=/opt/qemu cannot be used on local: there is no such file"):
        lab.guest(StorageConfig(emulator="/opt/qemu"))
    assert not [line for line in shell.lines if line.startswith("qemu-img")]
    assert not lab.hypervisor.domains  # type: ignore[attr-defined]
    lab.close()


def test_a_rows_facts_have_the_version_of_its_own_qemu(tmp_path: Path) -> None:
    """Another row has the host's, which is told once."""
    lab = make_lab(tmp_path)
    for config, known in (
        (StorageConfig(emulator="/opt/qemu"), "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"),
        (StorageConfig(), None),
    ):
        assert lab.environment(config).identity.facts.get("qemu") == known
    lab.close()
