"""The laboratory itself: its hosts are two machines as far as anybody there can see, and nothing of it is left."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from laboratory import HERE, Laboratory, children, sweep, wait_for

TMP = Path("/tmp")


def test_the_controller_reaches_both_hosts_by_ssh_and_by_libvirt(lab: Laboratory) -> None:
    """Each by its name alone, as a user's machine would; each says its own name and runs its own libvirt."""
    ask = "import libvirt; print(libvirt.open('qemu+ssh://{}/system?no_tty=1').getHostname())"
    for host in lab.hosts:
        assert lab.run(["ssh", host.name, "hostname"], TMP) == (0, f"{host.name}\n")
        assert lab.run([sys.executable, "-c", ask.format(host.name)], TMP) == (0, f"{host.name}\n")


def test_hosts_share_neither_files_nor_processes_nor_this_machines_programs(lab: Laboratory) -> None:
    """A file, a lock's folder, a process of one is not seen on the other; there is no Python, and no project."""
    one, other = lab.hosts
    for folder in ("/run/lock", "/tmp", "/var/lib/libvirt/images", "/etc", "/root"):
        one.run("touch", f"{folder}/of-one")
        assert "No such file" in other.run("ls", f"{folder}/of-one", check=False)
        assert not Path(f"{folder}/of-one").exists()
        one.run("rm", f"{folder}/of-one")
    one.sh("sleep 345 >/dev/null 2>&1 &")
    assert one.pids("^sleep 345")
    assert not other.pids("^sleep 345")
    one.run("pkill", "-f", "^sleep 345")
    assert not one.sh("command -v python3 virsh; find /home /root/.cache -mindepth 1 2>/dev/null", check=False)


def test_a_cut_link_is_silence_and_comes_back(lab: Laboratory) -> None:
    """What is sent goes nowhere, and the controller's own interface does not say so."""
    ping = ["ping", "-c", "1", "-W", "1", "lab01"] if lab.run(["which", "ping"], TMP)[0] == 0 else None
    try_ssh = ping or ["ssh", "-o", "ConnectTimeout=1", "lab01", "true"]
    lab.host("lab01").link_down()
    assert lab.run(try_ssh, TMP)[0] != 0
    assert lab.run(["ssh", "lab02", "true"], TMP)[0] == 0
    lab.host("lab01").link_up()
    assert lab.run(["ssh", "lab01", "true"], TMP)[0] == 0


def traces(folder: str) -> str:
    """Processes, mounts, loop devices and network interfaces of a laboratory that this machine can see."""
    lines = subprocess.run(["ps", "-eo", "args"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    seen = [line for line in lines if folder in line]
    seen += [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if folder in line]
    loops = subprocess.run(["losetup", "-l"], stdout=subprocess.PIPE, text=True, check=True).stdout
    seen += [line for line in loops.splitlines() if folder in line]
    links = subprocess.run(["ip", "-o", "link"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return "\n".join([*seen, *(line for line in links.splitlines() if ": lab" in line)])


OPEN_ONE = """
import sys, time
sys.path.insert(0, {here!r})
from laboratory import laboratory
with laboratory() as made:
    made.hosts[0].sh("sleep 600 >/dev/null 2>&1 &")
    print(made.folder, flush=True)
    time.sleep(600)
"""


def test_a_killed_laboratory_leaves_a_folder_which_the_next_removes() -> None:
    """SIGKILL of the process that made it: no process, mount, loop device or interface is left."""
    argv = [sys.executable, "-c", OPEN_ONE.format(here=str(HERE))]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as maker:
        assert maker.stdout is not None
        folder = Path(maker.stdout.readline().strip())
        assert str(folder) in traces(str(folder))
        firsts = [pid for outer in children(maker.pid) for pid in children(outer)]
        assert len(firsts) == 3
        sweep()
        assert folder.exists(), "the folder of a living laboratory was taken away"
        maker.send_signal(signal.SIGKILL)
    # its processes are dead at once; their mounts and loop devices go when the kernel comes round to it
    wait_for(lambda: not traces(str(folder)), "the end of all that was made")
    wait_for(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in firsts), "the end of its processes")
    # another worker of this session may have been before us
    sweep()
    assert not folder.exists()
