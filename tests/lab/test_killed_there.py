"""kill -9 of a whole run on a lab host: after one `vmstorage reap --host` nothing of it is left there or here.

Three moments; VMSTORAGE_KILLS=20 for as many, VMSTORAGE_KILLS_SEED for others.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from laboratory import IMAGES, Laboratory, wait_for
from project import Project

from pytest_vmstorage.host.lease import LIFETIME_S, Lease, LeaseBook, Owner

KILLS = int(os.environ.get("VMSTORAGE_KILLS", "3"))
SEED = int(os.environ.get("VMSTORAGE_KILLS_SEED", "3"))
FOLDER = f"{IMAGES}/vmstorage"

RUN = """
import pytest
from pytest_vmstorage import Fio

JOB = Fio(rw="randwrite", bs="4k", iodepth=4, size="8M", runtime=2)

@pytest.mark.storage(size="32M", format="qcow2", encryption="luks")
def test_passphrase(measure): measure(JOB, rounds=1, warmup=0)

@pytest.mark.storage(size="32M", format="raw", backing="native", host_fs="ext4")
def test_native(measure): measure(JOB, rounds=1, warmup=0)
"""

OTHERS = "0f0f0f0f0f"
"""The id of a run on the controller that lives."""

LIVING = """
import time
from pytest_vmstorage.host.lease import this_process
print(this_process().model_dump_json(), flush=True)
time.sleep(3600)
"""

GUEST = """
import libvirt, sys
conn = libvirt.open("qemu+ssh://lab01/system?no_tty=1")
print(conn.createXML(sys.argv[1], libvirt.VIR_DOMAIN_START_PAUSED).UUIDString())
"""
SECRETS = """
import libvirt
print(libvirt.open("qemu+ssh://lab01/system?no_tty=1").listSecrets())
"""
XML = (
    f"<domain type='qemu'><name>vms-{OTHERS}-1</name><memory unit='MiB'>64</memory>"
    "<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"
)


class Scene:
    """The controller and lab01, with things of a living run; what is there now, and what was there before."""

    def __init__(self, lab: Laboratory, project: Project, undo: ExitStack) -> None:
        self.lab, self.host, self.project = lab, lab.host("lab01"), project
        project.write(RUN)
        self._book = LeaseBook(lab.folder / "leases")
        self._living = lab.start([sys.executable, "-c", LIVING], project.folder)
        undo.enter_context(self._living)
        undo.callback(os.killpg, self._living.pid, signal.SIGKILL)
        assert self._living.stdout is not None
        owner = Owner.model_validate(json.loads(self._living.stdout.readline()))
        folder = f"{FOLDER}/run-{OTHERS}"
        self.host.sh(
            f"mkdir -p {folder}/fs-1 && truncate -s 16M {folder}/fs-1.img && mkfs.ext4 -q {folder}/fs-1.img &&"
            f" mount -o loop {folder}/fs-1.img {folder}/fs-1 && echo other >{folder}/fs-1/disk-1.raw"
        )
        undo.callback(self.host.sh, f"umount {folder}/fs-1; rm -rf {folder} {FOLDER}/notes-run")
        self.host.sh(f"echo mine >{FOLDER}/notes-run")
        uuid = self.controller("-c", GUEST, XML).strip()
        log = f"/var/log/libvirt/qemu/vms-{OTHERS}-1.log"
        # not by its name, which would be that of this shell too; and libvirtd writes a last line
        undo.callback(self.host.sh, f"pkill -KILL -f -- '[-]uuid {uuid}'; sleep 1; rm -f {log}", check=False)
        self._disk = f"{folder}/fs-1/disk-1.raw"
        self.lease = Lease(
            run_id=OTHERS, owner=owner, expires=time.time() + LIFETIME_S, uri="qemu+ssh://lab01/system", ssh="lab01",
            folder=folder, host="lab01", domains=(uuid,),
        )  # fmt: skip
        self._book.write(self.lease)
        undo.callback(self._book.drop, self.lease)
        self.before = self.traces()
        # devices are the whole machine's, and other tests may have some as well
        assert any(line.startswith("/dev/loop") and f"run-{OTHERS}/fs-1.img" in line for line in self.before)

    def kill(self, part: float) -> float:
        """Start a run and kill its process group after that part of its time; after how many seconds that was."""
        while True:
            begin = time.monotonic()
            with (self.project.folder / "output").open("w") as output:
                process = self.lab.start(self.project.argv("--vm-host=lab01"), self.project.folder, output)
            try:
                process.wait(part * self.seconds)
            except subprocess.TimeoutExpired:
                # ssh that libvirt started, and connections in the background, have groups of their own
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return part * self.seconds
            # others let the machine go meanwhile
            self.seconds = time.monotonic() - begin

    def controller(self, *words: str) -> str:
        """What Python says there."""
        code, text = self.lab.run([sys.executable, *words], self.project.folder)
        assert code == 0, text
        return text

    def traces(self) -> set[str]:
        """All that a run on lab01 may make, there and on the controller."""
        there = self.host.sh(
            f"ls {FOLDER} {FOLDER}/run-*; pgrep -a qemu-system; pgrep -a -f run-; losetup -a | grep vmstorage/run-;"
            " cat /proc/mounts;"
            " ls /var/log/libvirt/qemu /run/libvirt/qemu /var/lib/libvirt/qemu",
            check=False,
        )
        here = self.lab.controller.run(
            "sh", "-c", "pgrep -a ssh; find /tmp -path '/tmp/pytest-of-*' -prune -o -print"
        ).splitlines()
        kept = re.compile(r"appliance-\w+|^total|pgrep -a")
        told = {line for line in there.splitlines() if not kept.search(line)}
        return {*told, *here, *(f"lease {run}" for run in self.lab.leases())}

    def is_untouched(self) -> bool:
        """Whether the living run has all that it had."""
        text = self.host.sh(f"cat {self._disk} {FOLDER}/notes-run", check=False)
        lives = self.host.pids(f"uuid {self.lease.domains[0]}")
        return text == "other\nmine\n" and bool(lives) and self.lease in list(self._book)


@pytest.fixture(scope="module")
def scene(whole_laboratory: Laboratory) -> Iterator[Scene]:
    """The scene, when a whole run was timed."""
    lab = whole_laboratory
    project = Project(lab, Path(tempfile.mkdtemp(prefix="project-", dir=lab.folder)))
    with ExitStack() as undo:
        lab.host("lab01").sh(f"rm -rf {FOLDER}; mkdir -p {FOLDER}")
        made = Scene(lab, project, undo)
        for _ in range(2):
            begin = time.monotonic()
            code, text = project.run("--vm-host=lab01", "--vm-boot=fresh")
            made.seconds = time.monotonic() - begin
            assert code == 0, text
        wait_for(lambda: made.traces() <= made.before, f"{made.traces() - made.before} to go")
        yield made


@pytest.mark.parametrize("number", range(KILLS))
def test_one_reap_clears_a_lab_host(scene: Scene, number: int) -> None:
    """Guest and its log, passphrase, command, mount, loop device, folder, half a copy, ssh, lease; all others stay."""
    if number % 3 == 0:
        # the appliance is copied again, and half a copy may be left
        scene.host.sh(f"rm -rf {FOLDER}/appliance-*")
    after_s = scene.kill((number + random.Random(f"{SEED}-{number}").random()) / KILLS)
    left = scene.traces() - scene.before
    begin = time.monotonic()
    code, text = scene.lab.run(
        [sys.executable, "-m", "pytest_vmstorage.cli.command", "reap", "--host=lab01"], scene.project.folder
    )
    took_s = time.monotonic() - begin
    sys.stdout.write(
        f"killed after {after_s:.1f} of {scene.seconds:.1f} s, {len(left)} traces; reap in {took_s:.1f} s: {text}"
    )
    assert code == 0, text
    # libvirt's own ssh ends when it sees that nobody talks to it any more
    wait_for(lambda: gone(scene), f"{sorted(scene.traces() - scene.before)} to go", 5)
    assert scene.controller("-c", SECRETS).strip() == "[]"
    assert scene.is_untouched()


def gone(scene: Scene) -> bool:
    """Whether nothing is left."""
    return scene.traces() <= scene.before
