"""A machine that the plugin did not make, reached by ssh alone: measured on file and disk, cut off, and shared."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from laboratory import Host, Laboratory, wait_for
from project import Project

BENCH = "/var/lib/libvirt/images/bench"
LABEL = 'label = {format = "vmfs", bus = "pvscsi"}\n'
TEST = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("backing", ["machine:esx-guest"])
@pytest.mark.storage(size="64M")
def test_random_write(measure, guest):
    assert guest.host.run("hostname").stdout == "lab01\\n"
    measure(Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=RUNTIME), rounds=2, warmup=0)
"""


class Outside(Project):
    """A project whose one cell is lab01, as a machine in whose folder or on whose disk is measured."""

    def point_at(self, where: str, *, runtime_s: float = 0.5) -> None:
        """Write the test and vmstorage.toml; `where` says disk or folder."""
        self.write(TEST.replace("RUNTIME", str(runtime_s)))
        text = f'[machines.esx-guest]\nssh = "root@lab01"\n{where}\n{LABEL}'
        (self.folder / "vmstorage.toml").write_text(text)

    def said(self, *options: str) -> tuple[int, str]:
        """A finished run's return code, and its output on one line."""
        code, text = self.run(*options)
        return code, " ".join(text.split())


@pytest.fixture
def outside(project: Project, lab: Laboratory) -> Outside:
    """The project, with a file in a folder of lab01."""
    made = Outside(lab, project.folder)
    made.point_at(f'folder = "{BENCH}"')
    return made


@pytest.fixture
def disk(lab01: Host) -> Iterator[str]:
    """A loop device of lab01 over a file of 96 MiB; its node."""
    lab01.sh("truncate -s 96M /var/tmp/disk")
    node = lab01.run("losetup", "--find", "--show", "/var/tmp/disk").strip()
    yield node
    lab01.run("umount", node, check=False)
    lab01.run("losetup", "-d", node, check=False)
    lab01.run("rm", "-f", "/var/tmp/disk")


def test_ssh_is_all_that_it_takes(lab01: Host, outside: Outside) -> None:
    """No QEMU and no libvirt there; its label is stated, its kernel its own, and nothing is left on it."""
    lab01.kill_libvirtd()
    with lab01.without("/usr/bin/qemu-system-x86_64"), lab01.without("/usr/bin/qemu-img"):
        code, said = outside.said("--vm-report=run.json", "--vm-details")
    assert code == 0, said
    assert f"backing=machine:esx-guest: root@lab01, a file of 64 MiB is made in {BENCH} and removed." in said
    assert "not provable here: format, bus (stated by vmstorage.toml)" in said
    assert "vmfs (stated) pvscsi (stated)" in said
    assert f"kernel {lab01.run('uname', '-r').strip()}" in said
    assert lab01.run("find", BENCH).split() == [BENCH]


def test_an_unknown_host_key_costs_its_row(lab: Laboratory, outside: Outside) -> None:
    """It is said before the run; nobody is asked, and nothing accepted."""
    lab.know_hosts({})
    code, said = outside.said()
    assert code == 1
    assert "machine:esx-guest will have no figure: ssh to root@lab01 failed: the host's key is not known" in said
    assert (lab.ssh_folder / "known_hosts").read_text() == ""


def test_a_tool_that_it_lacks_is_named(lab01: Host, outside: Outside) -> None:
    """A skip, as of any host that cannot do something; nothing is installed there."""
    with lab01.without("/usr/bin/fio"):
        code, said = outside.said("-rs")
    assert code == 0
    assert "The machine esx-guest (root@lab01) lacks fio. Install it there;" in said
    with lab01.without("/usr/bin/truncate"):
        code, said = outside.said()
    assert code == 1
    assert "The machine esx-guest (root@lab01) lacks truncate." in said


def test_a_disk_is_measured_and_left_without_a_trace(lab01: Host, outside: Outside, disk: str) -> None:
    """Under the rules of listed devices: what it carries is not lost without a word of the user's."""
    outside.point_at('disk = "loop:/var/tmp/disk"')
    code, said = outside.said()
    assert code == 0, said
    assert f"root@lab01, device esx-guest: {disk}, 96 MiB, loop:/var/tmp/disk: will be overwritten." in said
    assert lab01.run("wipefs", "--no-act", disk) == ""
    assert "vmstorage" not in lab01.run("ls", "-a", "/tmp")
    assert lab01.sh("head -c 1M /var/tmp/disk | tr -d '\\000' | wc -c").strip() != "0"
    lab01.run("mkfs.ext4", "-q", "-F", disk)
    code, said = outside.said()
    assert code == 1
    assert f"The device esx-guest ({disk}, 96 MiB, loop:/var/tmp/disk) carries ext4 (on {disk[5:]})." in said
    lab01.sh(f"mkdir -p /mnt/x && mount {disk} /mnt/x && echo kept >/mnt/x/file")
    outside.point_at('disk = "loop:/var/tmp/disk"\nallow_destroy = true')
    code, said = outside.said()
    assert code == 1
    assert f"is mounted: {disk[5:]} at /mnt/x." in said
    assert lab01.run("cat", "/mnt/x/file") == "kept\n"
    lab01.run("umount", "/mnt/x")
    code, said = outside.said()
    assert code == 0, said
    assert f"will be overwritten; on it now and then lost: ext4 (on {disk[5:]})." in said


def test_a_disk_by_its_name_of_today_is_refused_with_its_own(lab01: Host, outside: Outside, disk: str) -> None:
    """A usage error, and nothing was written."""
    before = lab01.run("sha256sum", "/var/tmp/disk")
    outside.point_at(f'disk = "{disk}"\nallow_destroy = true')
    code, said = outside.said()
    assert code == pytest.ExitCode.USAGE_ERROR
    assert (
        f'vmstorage.toml, [machines.esx-guest]: disk = "{disk}" is a name that may be another disk\'s after the next'
        " boot; on that machine it is loop:/var/tmp/disk now." in said
    )
    assert lab01.run("sha256sum", "/var/tmp/disk") == before


def test_a_machine_that_is_cut_off_loses_its_row_and_is_cleared_by_the_next_run(lab01: Host, outside: Outside) -> None:
    """Within seconds; what could not be removed is told, and leased."""
    outside.point_at(f'folder = "{BENCH}"', runtime_s=60)
    with outside.going() as run:
        wait_for(lambda: lab01.pids("fio"), "the workload on lab01")
        time.sleep(1)
        lab01.link_down()
        begin = time.monotonic()
        code, text = run.ended(60)
    assert (code, time.monotonic() - begin < 40) == (1, True)
    said = " ".join(text.split())
    assert "The ssh connection to root@lab01 was lost" in said
    assert "vmstorage: not all was removed: " in said
    lab01.run("pkill", "-x", "fio", check=False)
    assert len(lab01.run("find", BENCH, "-name", "*.raw").split()) == 1
    lab01.link_up()
    outside.point_at(f'folder = "{BENCH}"')
    code, said = outside.said()
    assert code == 0, said
    assert lab01.run("find", BENCH).split() == [BENCH]


def test_two_jobs_do_not_measure_on_it_at_once(lab01: Host, outside: Outside) -> None:
    """The lease lies on the machine itself, so that jobs from elsewhere see it."""
    lab01.sh("echo ci@elsewhere >/run/lock/pytest-vmstorage-lab01.lock")
    lab01.sh("setsid flock /run/lock/pytest-vmstorage-lab01.lock sleep 600 >/dev/null 2>&1 </dev/null &")
    wait_for(lambda: lab01.pids("^sleep 600$"), "the other job")
    with outside.going() as run:
        try:
            # the process that waits for the lease, beside the one that holds it
            wait_for(lambda: len(lab01.pids("flock")) > 1, "the run's wait for the lease")
            time.sleep(2)
            assert not lab01.pids("fio")
            assert ".raw" not in lab01.run("find", BENCH, check=False)
        finally:
            lab01.run("pkill", "-f", "^sleep 600$")
        code, text = run.ended(60)
    assert code == 0, text
