"""One ssh connection for a run's commands, against an ssh of a few lines; tests/lab has the real one."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_vmstorage.errors import HostError, LostError
from pytest_vmstorage.host import ssh as ssh_module
from pytest_vmstorage.host.shell import SshShell
from pytest_vmstorage.leftovers import mark

FAKE_SSH = r"""#!/bin/sh
# notes what it was called for; a connection is a file, and stands as long as that is there
here=$(dirname "$0") path= log= background= out=
while [ "$1" != lab01 ]; do
    case $1 in
        ControlPath=*) path=${1#ControlPath=} ;;
        -E) log=$2 ;;
        -f) background=1 ;;
        -O) out=1 ;;
    esac
    shift
done
shift
if [ "$out" ]; then echo out >>"$here/calls"; rm -f "$path"; exit; fi
if [ "$background" ]; then
    echo connect >>"$here/calls"
    if [ -e "$here/down" ]; then echo "ssh: connect to host lab01 port 22: No route to host" >>"$log"; exit 255; fi
    [ -e "$here/shares-none" ] || touch "$path"
    exit
fi
[ "$1" = -- ] && shift
echo "run $(basename "$path" | tr -d 0-9-)" >>"$here/calls"
if [ -e "$here/cut" ]; then
    rm -f "$path"; echo "Timeout, server lab01 not responding." >>"$path.log"; echo "mux: Broken pipe" >&2; exit 255
fi
exec sh -c "$*"
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of that ssh, which ends connections of this test's shells, and of no others'."""
    gc.collect()
    script = tmp_path / "ssh"
    script.write_text(FAKE_SSH)
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(ssh_module, "_private_folder", lambda: _made(tmp_path / "sockets"))
    yield tmp_path
    gc.collect()


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


def calls(fake: Path) -> list[str]:
    """What ssh was called for since the last time."""
    path = fake / "calls"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def test_a_connection_is_made_once_and_ended_with_its_shell(fake: Path) -> None:
    """Nothing is left of it, not even its folder."""
    shell = SshShell("lab01")
    assert calls(fake) == []
    assert shell.run(["echo", "a"]).stdout == "a\n"
    assert shell.run(["echo", "b"]).stdout == "b\n"
    assert calls(fake) == ["connect", "run ", "run "]
    del shell
    gc.collect()
    assert calls(fake) == ["out"]
    assert not (fake / "sockets").exists()


def test_one_that_ended_by_itself_is_made_again(fake: Path) -> None:
    """As after a round of minutes in which the host was asked nothing."""
    shell = SshShell("lab01")
    shell.run(["true"])
    (socket,) = (path for path in (fake / "sockets").iterdir() if path.suffix != ".log")
    socket.unlink()
    shell.run(["true"])
    assert calls(fake) == ["connect", "run ", "connect", "run "]


def test_a_lost_one_is_told_by_what_ssh_said_last(fake: Path) -> None:
    """Once; if the host is there again, the next command goes through."""
    shell = SshShell("lab01")
    shell.run(["true"])
    (fake / "cut").touch()
    with pytest.raises(LostError) as caught:
        shell.run(["true"])
    assert caught.value.told == (
        "The ssh connection to lab01 was lost: Timeout, server lab01 not responding. Check that the host is up and on"
        " the network; `vmstorage reap --host=lab01` or the next run on it removes what is left there."
    )
    (fake / "cut").unlink()
    assert shell.run(["echo", "a"]).stdout == "a\n"


def test_a_host_that_stays_away_is_waited_for_once(fake: Path) -> None:
    """All that comes after fails at once, with the reason."""
    shell = SshShell("lab01")
    shell.run(["true"])
    (fake / "cut").touch()
    (fake / "down").touch()
    with pytest.raises(LostError):
        shell.run(["true"])
    calls(fake)
    for _ in range(3):
        with pytest.raises(LostError, match=r"was lost: ssh: connect to host lab01 port 22: No route to host\."):
            shell.run(["true"])
    assert calls(fake) == ["connect"]


def test_a_host_that_was_never_reached_is_tried_again(fake: Path) -> None:
    """It is not lost: a doctor may ask it twice while the user mends something."""
    shell = SshShell("lab01")
    (fake / "down").touch()
    for _ in range(2):
        with pytest.raises(HostError, match=r"^ssh to lab01 failed: .* No route to host\. Check that the host is up"):
            shell.run(["true"])
    (fake / "down").unlink()
    assert shell.run(["true"]).ok


def test_an_ssh_that_shares_no_connections_is_used_without(fake: Path) -> None:
    """Each command then makes its own; nobody tries again and again."""
    (fake / "shares-none").touch()
    shell = SshShell("lab01")
    shell.run(["true"])
    shell.run(["true"])
    assert calls(fake) == ["connect", "run none", "run none"]


def test_sockets_lie_where_nobody_else_can_reach_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder of that name which somebody else made, or opened to others, is not used."""
    monkeypatch.setattr(ssh_module, "_FOLDER", str(tmp_path / "vms-ssh"))
    folder = ssh_module._private_folder()
    assert folder == Path(f"{tmp_path}/vms-ssh-{os.geteuid()}")
    assert folder.stat().st_mode & 0o777 == 0o700
    assert ssh_module._private_folder() == folder
    folder.chmod(0o755)
    other = ssh_module._private_folder()
    assert other != folder
    assert other.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "use", [lambda folder: ssh_module._opened(folder / "one.log").close(), lambda _folder: ssh_module._private_folder()]
)
def test_a_folder_that_other_processes_remove_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, use: Callable[[Path], object]
) -> None:
    """One was there, and is gone when it is looked at; the next is removed as soon as it is made; the third stays."""
    monkeypatch.setattr(ssh_module, "_FOLDER", str(tmp_path / "vms-ssh"))
    folder = tmp_path / f"vms-ssh-{os.geteuid()}"
    made: list[str] = []
    real = os.mkdir

    def mkdir(path: Path, mode: int) -> None:
        made.append(str(path))
        if len(made) == 1:
            raise FileExistsError(path)
        real(path, mode)
        if len(made) == 2:
            path.rmdir()

    monkeypatch.setattr("os.mkdir", mkdir)
    use(folder)
    assert made == [str(folder)] * 3
    assert folder.stat().st_mode & 0o777 == 0o700


def test_connections_of_killed_processes_are_ended(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their names, with what ssh said and what it was about to make; a living process's stays, and other files."""
    base = fake / "vms-ssh"
    monkeypatch.setattr(ssh_module, "_FOLDER", str(base))
    script = (fake / "ssh").read_text().replace('"$1" != lab01', '"$1" != gone')
    (fake / "ssh").write_text(script)
    namespace, pid, ticks = mark().split("-")
    dead = f"{namespace}-{pid}-{int(ticks) - 1}-1"
    folder = _made(Path(f"{base}-0"))
    folder.chmod(0o700)
    for name in (dead, f"{dead}.log", f"{dead}.Abc", f"{mark()}-1", f"{mark()}-1.log", "notes"):
        (folder / name).touch()
    assert ssh_module.sweep(look_only=True) == [f"ssh connection {folder}/{dead}"]
    assert len(list(folder.iterdir())) == 6
    assert ssh_module.sweep() == [f"ssh connection {folder}/{dead}"]
    assert calls(fake) == ["out"]
    assert {path.name for path in folder.iterdir()} == {f"{mark()}-1", f"{mark()}-1.log", "notes"}
    assert ssh_module.sweep() == []


def test_the_last_killed_connection_takes_the_folder_with_it(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that others can reach is somebody else's, and is not looked into."""
    base = fake / "vms-ssh"
    monkeypatch.setattr(ssh_module, "_FOLDER", str(base))
    namespace, pid, ticks = mark().split("-")
    for name, mode in (("0", 0o700), ("1", 0o755)):
        folder = _made(Path(f"{base}-{name}"))
        (folder / f"{namespace}-{pid}-{int(ticks) - 1}-1.log").touch()
        folder.chmod(mode)
    assert ssh_module.sweep() == []
    assert not Path(f"{base}-0").exists()
    assert len(list(Path(f"{base}-1").iterdir())) == 1
