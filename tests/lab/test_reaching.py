"""A host that cannot be used is told before any test runs: one sentence with what to do, soon, and never a question."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from laboratory import IMAGES, Host, Laboratory, key
from project import Project

from pytest_vmstorage.errors import split_code


def refused(project: Project, *options: str, within_s: float = 20) -> str:
    """What a run on lab01 says that ends as a usage error, on one line, without its code."""
    begin = time.monotonic()
    status, text = project.run("--vm-host=lab01", *options)
    assert time.monotonic() - begin < within_s
    assert status == pytest.ExitCode.USAGE_ERROR, text
    assert "Traceback" not in text
    assert " passed" not in text
    assert " error" not in text
    (line,) = (line for line in text.splitlines() if line.startswith("ERROR: "))
    said, code = split_code(line.removeprefix("ERROR: "))
    assert code.startswith("VM4")
    return said


def test_an_unknown_host_key_is_no_question(lab: Laboratory, project: Project) -> None:
    """As at first contact: the user is asked to look at the key, and nothing is accepted for him."""
    lab.know_hosts({})
    assert refused(project) == (
        "ssh to lab01 failed: the host's key is not known to this user. Run `ssh lab01 true` once by hand, compare the"
        " key that it shows with the host's, and accept it."
    )
    assert (lab.ssh_folder / "known_hosts").read_text() == ""


def test_another_host_key_is_refused(lab: Laboratory, project: Project, tmp_path: Path) -> None:
    """The known one is not overwritten, and its place is named."""
    key(tmp_path / "other")
    lab.know_hosts({"lab01": (tmp_path / "other.pub").read_text()})
    known = lab.ssh_folder / "known_hosts"
    before = known.read_text()
    assert refused(project) == (
        f"ssh to lab01 failed: the host shows another key than the one in {known}:1."
        " Another machine may answer in its place. If it was set up anew: `ssh-keygen -R lab01`, then"
        " `ssh lab01 true` by hand, and compare the key that it shows."
    )
    assert known.read_text() == before


def test_a_host_that_is_down_is_told_soon(lab01: Host, project: Project) -> None:
    """Nobody waits for TCP's two minutes."""
    lab01.link_down()
    said = refused(project, within_s=25)
    assert said.startswith("ssh to lab01 failed: ssh: connect to host lab01 port 22: ")
    assert said.endswith(". Check that the host is up, on the network, and runs sshd.")


def test_a_host_without_sshd_is_told(lab01: Host, project: Project) -> None:
    """It is up, and refuses."""
    lab01.stop_sshd()
    assert refused(project) == (
        "ssh to lab01 failed: ssh: connect to host lab01 port 22: Connection refused. Check that the host is up, on the"
        " network, and runs sshd."
    )


def test_a_host_that_nobody_knows_is_told(lab: Laboratory, project: Project) -> None:
    """A slip in the name."""
    code, text = project.run("--vm-host=lab09")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "ssh to lab09 failed: ssh: Could not resolve hostname lab09: " in text
    assert "Check the name given to --vm-host, or add its address to ~/.ssh/config (Host lab09)." in text


def test_a_wanted_password_is_an_error(lab01: Host, project: Project) -> None:
    """Also where the run has a terminal on which ssh could ask."""
    lab01.sh("mv /root/.ssh/authorized_keys /root/.ssh/away")
    try:
        said = refused(project)
        # script(1) gives it a terminal; a question would wait there for ever
        on_terminal = ["script", "-qec", " ".join(project.argv("--vm-host=lab01")), "/dev/null"]
        code, text = project.lab.run(on_terminal, project.folder, timeout_s=60)
    finally:
        lab01.sh("mv /root/.ssh/away /root/.ssh/authorized_keys")
    assert said == (
        "ssh to lab01 failed: root@lab01: Permission denied (publickey,password). Nobody can type a password here: put"
        " a key there with `ssh-copy-id lab01`, and one that has a passphrase into ssh-agent."
    )
    assert code == pytest.ExitCode.USAGE_ERROR, text
    assert "root@lab01's password" not in text


def test_a_key_with_a_passphrase_is_an_error_too(lab: Laboratory, project: Project) -> None:
    """Without an agent it is of no use to a run."""
    secret = lab.ssh_folder / "id_ed25519"
    change = ["ssh-keygen", "-q", "-p", "-f", str(secret)]
    subprocess.run([*change, "-P", "", "-N", "a passphrase"], check=True, stdout=subprocess.DEVNULL)
    try:
        assert "Permission denied (publickey,password). Nobody can type a password here" in refused(project)
    finally:
        subprocess.run([*change, "-P", "a passphrase", "-N", ""], check=True, stdout=subprocess.DEVNULL)


def test_a_host_whose_libvirtd_does_not_run_is_told(lab01: Host, project: Project) -> None:
    """Nothing is left of the run there."""
    lab01.kill_libvirtd()
    said = refused(project)
    assert said.startswith("libvirt at qemu+ssh://lab01/system cannot be reached: ")
    assert said.endswith(
        "libvirtd does not run there, or this user may not use it. To start it: `systemctl enable --now libvirtd`"
        " (Debian: libvirt-daemon-system)."
    )
    assert not [path for path in lab01.left() if "/run-" in path]


def test_a_host_without_libvirt_is_told(lab01: Host, project: Project) -> None:
    """It has QEMU and sshd alone."""
    lab01.kill_libvirtd()
    with lab01.without("/usr/bin/virt-ssh-helper"):
        said = refused(project)
    assert said.startswith("libvirt at qemu+ssh://lab01/system cannot be reached: ")
    assert "libvirt is not installed there, or is too old. Install it and start its daemon: " in said


def test_a_host_without_qemu_is_told(lab01: Host, project: Project) -> None:
    """By the package that has it."""
    with lab01.without("/usr/bin/qemu-system-x86_64"):
        assert refused(project) == (
            "There is no QEMU on lab01: qemu-system-x86_64 is not in PATH. Install qemu-system-x86 and qemu-utils there"
            " (Debian), or name another host with --vm-host."
        )


def test_a_host_whose_folder_cannot_be_written_is_told(lab01: Host, project: Project) -> None:
    """As one that is mounted read-only."""
    lab01.sh(f"mount -o remount,ro {IMAGES}")
    try:
        said = refused(project)
    finally:
        lab01.sh(f"mount -o remount,rw {IMAGES}")
    assert said.startswith(f"The folder for disks {IMAGES}/vmstorage cannot be written: ")
    assert said.endswith(" Name another one with --vm-dir=FOLDER.")
