"""Format x cache x bus with fio and ioping, as a German study of 2017 had it on Proxmox VE 4.4 and an Intel 320 SSD.

Its guest: ext4 (noatime, nodiratime) on 32 GB, 1 vCPU, 1 GB of memory (2 GB here: fio's 256 buffers of 4M take one,
and this guest has no swap); fio with 256 requests in flight, 4 GB in blocks of 4k and 10 GB in blocks of 4M, each once.
What it found and you may not: writethrough and directsync several times slower for small writes, writeback faster than
the SSD itself.

    pytest examples/studies/test_proxmox4.py                    # quick
    STUDY=published pytest examples/studies/test_proxmox4.py    # 45 GB of disk and hours
"""

import pytest
from presets import Preset, choose

from pytest_vmstorage import Fio, Ioping

PRESET = choose(
    quick=Preset(disk="512M", small="64M", large="128M", seconds=1.0),
    scaled=Preset(disk="768M", small="256M", large="256M", seconds=2.0),
    published=Preset(disk="32G", small="4G", large="10G"),
)

CELLS = [
    pytest.mark.parametrize("format", ["raw", "qcow2"]),
    pytest.mark.parametrize("cache", ["none", "directsync", "writethrough", "writeback", "unsafe"]),
    pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi"]),
    pytest.mark.storage(size=PRESET.disk, memory="2G", guest_fs="ext4", guest_mount="noatime,nodiratime"),
]
JOBS = [(rw, bs) for bs in ("4k", "4M") for rw in ("randwrite", "randread", "write", "read")]


def job(rw, bs):
    """The study's line: fio --randrepeat=1 --ioengine=libaio --direct=1 --iodepth=256."""
    return Fio(rw=rw, bs=bs, iodepth=256, size=PRESET.small if bs == "4k" else PRESET.large, **PRESET.runtime)


def sweep(test):
    """All cells of the study for a test."""
    for mark in CELLS:
        test = mark(test)
    return test


@sweep
@pytest.mark.parametrize(("rw", "bs"), JOBS)
def test_fio(measure, rw, bs):
    measure(job(rw, bs), rounds=1, warmup=0)


@sweep
def test_ioping(measure):
    # the study's line: ioping -c 10 .
    measure(Ioping(count=10, directory=True, interval="200ms" if PRESET.seconds else None), rounds=1, warmup=0)


@pytest.mark.parametrize(("rw", "bs"), JOBS)
@pytest.mark.storage(size=PRESET.disk, backing="native")
def test_native(measure, rw, bs):
    measure(job(rw, bs), rounds=1, warmup=0)
