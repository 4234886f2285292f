"""Two lab hosts and a controller made of namespaces: real ssh, real libvirtd, one machine, and nothing left behind.

`laboratory()` gives them; what runs on the controller reaches the hosts as `lab01` and `lab02`, as root and by key.
Each of the three is a tree of processes whose first one dies with the process that asked for it, whatever kills that,
and takes its mounts, loop devices and network with it. What remains then is a folder, which the next one removes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pytest_vmstorage.host.folders import cache_folder

HERE = Path(__file__).parent
NAMES = ("lab01", "lab02")
PATIENCE_S = 20.0
IMAGES = "/var/lib/libvirt/images"
"""Where a host's disks lie: a file system of 3 GiB that it has for itself."""

_FOLDERS = Path("/var/tmp")
_PREFIX = "vmstorage-laboratory-"
_PROGRAMS = ("libvirtd", "virtlogd", "virt-ssh-helper", "qemu-system-x86_64", "qemu-img", "ip", "nsenter", "setpriv")


class Space:
    """Processes in namespaces of their own, that live as long as this process; `pid` is the first of them."""

    def __init__(self, argv: Sequence[str | Path], *namespaces: str) -> None:
        whole = ["setpriv", "--pdeathsig", "KILL", "unshare", *namespaces, "--pid", "--fork", "--kill-child", *argv]
        self._outer = subprocess.Popen(list(map(str, whole)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self._outer.stdout is not None
        assert self._outer.stderr is not None
        if self._outer.stdout.readline() != "ready\n":
            self._outer.kill()
            raise RuntimeError(f"{argv[0]} failed: {self._outer.communicate()[1]}")
        self.pid = children(self._outer.pid)[0]

    def argv(self, *command: str) -> list[str]:
        """What runs a command in there."""
        where = ("--mount", "--uts", "--ipc", "--net", "--pid")
        return ["nsenter", "--target", str(self.pid), *where, "--", *command]

    def run(self, *command: str, check: bool = True, timeout_s: float = 60) -> str:
        """Run a command in there; what it printed, errors too."""
        done = subprocess.run(
            self.argv(*command),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout_s,
            check=False,
        )
        text = done.stdout.decode(errors="replace")
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {text}")
        return text

    def end(self) -> None:
        """Kill all that runs in there, and wait for it."""
        try:
            os.kill(self.pid, signal.SIGKILL)
            self._outer.wait(PATIENCE_S)
        finally:
            self._outer.kill()
            self._outer.wait()
            for stream in (self._outer.stdout, self._outer.stderr):
                if stream is not None:
                    stream.close()


class Host(Space):
    """A lab host: `name` is what the controller knows it by, `address` where it is."""

    def __init__(self, name: str, number: int, folder: Path, controller: Space, layer: str) -> None:
        self.name, self.address = name, f"192.0.2.{10 + number}"
        self.folder, self._controller = folder, controller
        super().__init__(
            [HERE / "host.sh", name, folder, layer], "--mount", "--propagation=private", "--net", "--uts", "--ipc"
        )

    def begin(self) -> None:
        """Connect it with the controller and start what a lab host runs."""
        here = ["nsenter", "--target", str(self._controller.pid), "--net", "--"]
        pair = ["ip", "link", "add", self.name, "type", "veth", "peer", "name", "eth0", "netns", str(self.pid)]
        subprocess.run([*here, *pair], check=True)
        self._controller.run("ip", "link", "set", self.name, "master", "lab", "up")
        for line in ("link set lo up", f"address add {self.address}/24 dev eth0", "link set eth0 up"):
            self.run("ip", *line.split())
        self.start_sshd()
        self.start_libvirtd()

    def sh(self, script: str, *, check: bool = True) -> str:
        """Run a script on the host, not by ssh; what it printed."""
        return self.run("sh", "-c", script, check=check)

    def link_down(self) -> None:
        """Cut the host's cable: whoever talks to it hears nothing any more."""
        self._controller.run("ip", "link", "set", self.name, "down")

    def link_up(self) -> None:
        """Plug the cable in again."""
        self._controller.run("ip", "link", "set", self.name, "up")

    def start_sshd(self, *options: str) -> None:
        """Start sshd, with options in the place of the file's."""
        words = (word for option in options for word in ("-o", option))
        self.run("/usr/sbin/sshd", "-f", "/etc/lab/sshd_config", "-E", "/var/log/sshd", *words)
        wait_for(lambda: ":22 " in self.run("ss", "-tln"), f"sshd on {self.name}")

    def stop_sshd(self) -> None:
        """End sshd, and every connection through it."""
        self.run("pkill", "-KILL", "-x", "sshd", check=False)
        wait_for(lambda: not self.pids("sshd"), f"the end of sshd on {self.name}")

    def start_libvirtd(self) -> None:
        """Start the system's libvirtd, and the daemon that keeps its guests' logs."""
        if not self.pids("virtlogd"):
            self.run("virtlogd", "--daemon")
        self.run("libvirtd", "--daemon")
        wait_for(lambda: not self.sh("test -S /run/libvirt/libvirt-sock || echo no"), f"libvirtd on {self.name}")

    def kill_libvirtd(self) -> None:
        """Kill libvirtd; its guests run on."""
        self.run("pkill", "-KILL", "-x", "libvirtd", check=False)
        wait_for(lambda: not self.pids("libvirtd"), f"the end of libvirtd on {self.name}")
        self.run("rm", "-f", "/run/libvirt/libvirt-sock", "/run/libvirt/libvirt-sock-ro")

    def restart_libvirtd(self) -> None:
        """Kill libvirtd and start it again."""
        self.kill_libvirtd()
        self.start_libvirtd()

    def fill_disk(self, *, but_bytes: int = 0) -> None:
        """Leave so little room for disks."""
        self.sh(f"fallocate -l $(($(df --output=avail -B1 {IMAGES} | tail -n 1) - {but_bytes})) {IMAGES}/filler")

    def free_disk(self) -> None:
        """Take back what fill_disk did."""
        self.run("rm", "-f", f"{IMAGES}/filler")

    def pids(self, name: str) -> list[int]:
        """Processes of that name, or whose command line has those words, as the host numbers them."""
        how = ("-f", "--", name) if " " in name else ("-x", name)
        return [int(word) for word in self.run("pgrep", *how, check=False).split()]

    def guests(self) -> list[int]:
        """Processes of QEMU."""
        return self.pids("qemu-system-x86")

    @contextmanager
    def without(self, path: str) -> Iterator[None]:
        """While the host has no such file."""
        self.run("mv", path, f"{path}.away")
        try:
            yield
        finally:
            self.run("mv", f"{path}.away", path)

    def left(self) -> list[str]:
        """What is in the plugin's folder of disks."""
        return self.run("find", f"{IMAGES}/vmstorage", "-mindepth", "1", "-maxdepth", "1", check=False).split()

    def mend(self) -> None:
        """Give it back what a test took from it: its link, its room, its daemons."""
        self.link_up()
        self.free_disk()
        if not self.pids("sshd"):
            self.start_sshd()
        if not self.pids("libvirtd"):
            self.start_libvirtd()


class Laboratory:
    """The controller and its lab hosts; `cache` is the plugin's, which it shares with this machine but for leases."""

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder, self.cache = folder, cache
        self.hosts: list[Host] = []
        addresses = [f"192.0.2.{10 + number} {name}" for number, name in enumerate(NAMES)]
        (folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *addresses, "192.0.2.20 labvm"]) + "\n")
        self.controller = Space(
            [HERE / "controller.sh", folder, cache], "--mount", "--propagation=private", "--net", "--uts", "--ipc"
        )

    def add_hosts(self) -> None:
        """Start the lab hosts; the controller's user may log in on them, and knows their keys."""
        allowed = (self.ssh_folder / "id_ed25519.pub").read_text()
        for number, name in enumerate(NAMES):
            folder = self.folder / name
            folder.mkdir()
            key(folder / "ssh_host_ed25519_key")
            (folder / "authorized_keys").write_text(allowed)
            self.hosts.append(Host(name, number, folder, self.controller, str(sshd_layer() or "")))
            self.hosts[-1].begin()
        self.know_hosts()

    @property
    def ssh_folder(self) -> Path:
        """~/.ssh of the controller's user."""
        return self.folder / "home" / ".ssh"

    def know_hosts(self, keys: Mapping[str, str] | None = None) -> None:
        """Have known_hosts hold the hosts' keys, or others."""
        if keys is None:
            keys = {host.name: (host.folder / "ssh_host_ed25519_key.pub").read_text() for host in self.hosts}
        lines = [" ".join([name, *text.split()[:2]]) for name, text in keys.items()]
        (self.ssh_folder / "known_hosts").write_text("".join(f"{line}\n" for line in lines))

    def mend(self) -> None:
        """Put right what a test may have broken."""
        for host in self.hosts:
            host.mend()
        self.know_hosts()

    def host(self, name: str) -> Host:
        """The host of that name."""
        return next(one for one in self.hosts if one.name == name)

    def leases(self) -> list[str]:
        """Ids of runs that have left something, or still run."""
        return [path.stem for path in (self.folder / "leases").glob("*.json")]

    def environ(self, **more: str) -> dict[str, str]:
        """What commands on the controller have for their environment."""
        return {**os.environ, "HOME": str(self.folder / "home"), "VMSTORAGE_CACHE": str(self.cache), **more}

    def start(
        self, argv: Sequence[str], cwd: Path, output: IO[str] | int = subprocess.PIPE, **environ: str
    ) -> subprocess.Popen[str]:
        """Start a command on the controller, in a session of its own; its errors are in its output."""
        # a folder of before is left behind by who enters another tree of mounts
        return subprocess.Popen(
            self.controller.argv("sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *argv),
            env=self.environ(**environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, argv: Sequence[str], cwd: Path, timeout_s: float = 240, **environ: str) -> tuple[int, str]:
        """Run a command on the controller: its return code and its output."""
        with self.start(argv, cwd, **environ) as process:
            try:
                return_text, _ = process.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                for pid in children(process.pid):
                    os.kill(pid, signal.SIGKILL)
                return_text, _ = process.communicate()
                raise RuntimeError(f"{argv} had no end after {timeout_s} s:\n{return_text}") from None
            return process.returncode, return_text

    def close(self) -> None:
        """End all of it."""
        for one in (*self.hosts, self.controller):
            one.end()


def children(pid: int) -> list[int]:
    """The children of a process."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def key(path: Path) -> None:
    """Make a key pair for ssh at that path."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "laboratory", "-f", str(path)], check=True)


def wait_for(happened: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait until that is true; a RuntimeError says what did not come."""
    deadline = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not come within {seconds:.0f} s")
        time.sleep(0.05)


def sshd_layer() -> Path | None:
    """Where script/setup --tests has unpacked sshd, None where this machine has its own."""
    return None if Path("/usr/sbin/sshd").exists() else cache_folder() / "openssh-server"


def missing() -> list[str]:
    """Programs that the laboratory needs and this machine lacks."""
    layer = sshd_layer()
    there = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    lacking = [program for program in _PROGRAMS if shutil.which(program, path=there) is None]
    return lacking if layer is None or (layer / "usr/sbin/sshd").exists() else [*lacking, "sshd"]


@contextmanager
def _others_kept_out() -> Iterator[None]:
    """No other process makes, sweeps or removes a laboratory's folder meanwhile: a folder and its lock are one."""
    with (_FOLDERS / "vmstorage-laboratories.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep() -> None:
    """Remove the folders of laboratories whose process is gone."""
    with _others_kept_out():
        for folder in _FOLDERS.glob(f"{_PREFIX}*"):
            try:
                with (folder / "lock").open("r") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            except FileNotFoundError:
                # its process was killed before it had a lock
                pass
            shutil.rmtree(folder)


@contextmanager
def laboratory(*, hosts: bool = True) -> Iterator[Laboratory]:
    """Two lab hosts and a controller for as long as this is open; needs root, raises RuntimeError without it.

    Without `hosts` the controller alone, whose user has a key.
    """
    if os.geteuid() != 0:
        raise RuntimeError("The laboratory is made of namespaces and mounts: run these tests as root.")
    if lacking := missing():
        raise RuntimeError(f"The laboratory needs {', '.join(lacking)}: run script/setup --tests.")
    if Path(sys.prefix).is_relative_to("/tmp"):
        raise RuntimeError(f"The laboratory has a /tmp of its own, without {sys.prefix}: check out elsewhere.")
    sweep()
    with _others_kept_out():
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_FOLDERS))
        lock = (folder / "lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)
    try:
        made = Laboratory(folder, cache_folder())
        try:
            key(made.ssh_folder / "id_ed25519")
            if hosts:
                made.add_hosts()
            yield made
        finally:
            made.close()
    finally:
        with _others_kept_out(), lock:
            shutil.rmtree(folder)
