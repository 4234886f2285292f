"""Whole runs on a lab host that has nothing but libvirt, QEMU, fio and sshd: what a user sees, what is left there."""

from __future__ import annotations

import json
import re
from pathlib import Path

from laboratory import IMAGES, Host, Laboratory
from project import Project

from pytest_vmstorage.results.packed import unpacked
from pytest_vmstorage.results.run import Measurement, Run

TWO_ROWS = """
import pytest
from pytest_vmstorage import Fio

@pytest.mark.parametrize("backing", ["file", "native"])
@pytest.mark.storage(size="64M", format="raw")
def test_random_write(measure):
    result = measure(Fio(rw="randwrite", bs="4k", iodepth=8, size="16M", runtime=1), rounds=2, warmup=0)
    assert result.iops > 10
"""


def nothing_is_left(lab: Laboratory, host: Host) -> None:
    """No guest, no disk, no lease, no connection; only the appliance is kept, and saved guests."""
    assert host.guests() == []
    assert {Path(path).name.partition("-")[0] for path in host.left()} <= {"appliance", "states"}
    assert lab.leases() == []
    assert "ssh" not in lab.controller.run("ps", "-eo", "comm").split()
    assert "vms" not in lab.controller.run("ls", "-A", "/tmp")
    assert not host.run("sh", "-c", "ls /var/log/libvirt/qemu").strip()


def test_a_run_on_a_lab_host(lab: Laboratory, lab01: Host, project: Project) -> None:
    """Appliance and saved guest are made once; guest and native row are measured, and their host says what it is."""
    lab01.sh(f"rm -rf {IMAGES}/vmstorage")
    project.write(TWO_ROWS)
    code, text = project.run("--vm-host=lab01", "--vm-report=first.json")
    assert code == 0, text
    assert re.search(r"^vmstorage: copying the guest appliance to lab01 \(1\d\d MiB\)$", text, re.MULTILINE)
    nothing_is_left(lab, lab01)
    kept = lab01.left()
    assert sorted(Path(path).name.partition("-")[0] for path in kept) == ["appliance", "states"], text

    lab01.run("truncate", "-s", "0", "/var/log/sshd")
    code, text = project.run("--vm-host=lab01", "--vm-report=second.json")
    assert code == 0, text
    check_ssh(lab01.run("cat", "/var/log/sshd"))
    assert "copying" not in text
    assert lab01.left() == kept
    nothing_is_left(lab, lab01)
    check_report(json.loads((project.folder / "second.json").read_text()), lab01)


def check_ssh(log: str) -> None:
    """Dozens of commands go through a connection; libvirt has one of its own, and an idle one ends after 10 s."""
    commands, connections = log.count("Starting session: command"), log.count("Accepted publickey for root")
    assert connections >= 2
    assert commands > 10 * connections


def rows_of(run: dict) -> list[Measurement]:
    """The rows of a saved run of TWO_ROWS with all that is packed in it: the guest's, the host's own."""
    return sorted(Run.model_validate(unpacked(run)).measurements, key=lambda one: one.config.backing)


def check_report(run: dict, host: Host) -> None:
    """What stands in the saved run of TWO_ROWS."""
    (facts,) = run["hosts"]
    assert facts["name"] == "lab01"
    assert facts["file_system"] == "ext4"
    assert facts["device"] == host.run("findmnt", "-no", "SOURCE", IMAGES).strip()
    guest, native = sorted(run["measurements"], key=lambda one: one["config"]["backing"])
    for row in (guest, native):
        assert row["host"] == "lab01"
        assert "dropped before each round" in row["hygiene"].values()
        assert row["around"]["device"] == Path(facts["device"]).name
    of_guest, of_native = ([sample.series for sample in row.samples] for row in rows_of(run))
    # by libvirt's connection; beside a tool on the host itself each reading would be a process
    assert len(of_guest) == 2
    assert all(series and sum(series.writes) > 100 and len(series.steps_ms) >= 2 for series in of_guest)
    assert of_native == [None, None]
    # QEMU's threads, from its /proc there
    assert all(sample["cost"]["cpu_s"]["vCPU"] > 0 for sample in guest["samples"])
    assert guest["around"]["may_run"] != "unknown"
    assert native["guest"]["fio"] if "fio" in native["guest"] else native["guest"]


def test_qemu_runs_as_another_user_and_files_go_back_to_their_owner(
    lab: Laboratory, lab01: Host, project: Project
) -> None:
    """Debian's libvirtd gives images to libvirt-qemu for as long as a guest has them."""
    project.write(
        TWO_ROWS.replace('["file", "native"]', '["file"]').replace("def test_random_write(measure):", SEEN_BY_TEST)
    )
    with project.going("--vm-host=lab01") as run:
        run.wait_for_mark("guest")
        (pid,) = lab01.guests()
        assert lab01.run("stat", "-c", "%U", f"/proc/{pid}").strip() == "libvirt-qemu"
        used = lab01.run("sh", "-c", f"stat -c '%U %n' {IMAGES}/vmstorage/run-*/*.raw {IMAGES}/vmstorage/appliance-*/*")
        whose = {Path(path).name: user for user, path in map(str.split, used.splitlines())}
        # the root file system is anybody's to read, and stays as it is
        assert whose.pop("root.erofs") == "root"
        assert whose == dict.fromkeys(("disk-1.raw", "initrd", "vmlinux"), "libvirt-qemu")
        run.go_on("guest")
        code, text = run.ended()
    assert code == 0, text
    nothing_is_left(lab, lab01)
    owners = lab01.run("find", f"{IMAGES}/vmstorage", "-printf", "%u:%g\n").split()
    assert set(owners) == {"root:root"}


def test_qemu_may_open_a_disk_that_libvirt_does_not_know(lab: Laboratory, lab01: Host, project: Project) -> None:
    """NVMe is on QEMU's command line, and libvirt gives its file to nobody."""
    nvme = """@pytest.mark.storage(bus="nvme", format="qcow2", backing_chain=1, size="64M")"""
    project.write(
        TWO_ROWS.replace('["file", "native"]', '["file"]').replace(
            '@pytest.mark.storage(size="64M", format="raw")', nvme
        )
    )
    code, text = project.run("--vm-host=lab01", "--vm-report=run.json")
    assert code == 0, text
    (row,) = Run.model_validate_json((project.folder / "run.json").read_text()).measurements
    assert {proof.status for proof in row.proof if proof.field == "bus"} == {"proven"}
    nothing_is_left(lab, lab01)


SEEN_BY_TEST = """def test_random_write(guest, measure):
    import time
    from pathlib import Path
    Path("guest.mark").touch()
    while not Path("guest.go").exists():
        time.sleep(0.1)"""


def test_a_folder_that_qemus_user_may_not_enter_is_told(lab: Laboratory, lab01: Host, project: Project) -> None:
    """As root's home: the run's own user can write there, QEMU's cannot."""
    lab01.sh("mkdir -p /srv/closed && chmod 700 /srv/closed")
    code, text = project.run("--vm-host=lab01", "--vm-dir=/srv/closed/disks")
    lab01.sh("rm -rf /srv/closed")
    assert code == 1, text
    assert "Permission denied" in text
    said = " ".join(text.split())
    assert "QEMU runs as another user there (libvirt-qemu, qemu)" in said, text
    assert lab01.guests() == []
    assert lab.leases() == []
