"""Format x cache x bus with fio and ioping, as a German study of 2017 had it on Proxmox VE 4.4 and an Intel 320 SSD.

Its guest: ext4 (noatime, nodiratime) on 32 GB, 1 vCPU, 1 GB of memory (2 GB here: fio's 256 buffers of 4M take one,
and this guest has no swap); fio with 256 requests in flight, 4 GB in blocks of 4k and 10 GB in blocks of 4M, each once.
What it found and you may not, and what is asserted here: writethrough and directsync several times slower than none for
small writes, in all its cells 0.6 times as fast at most; writeback faster than the SSD itself.

    pytest examples/studies/test_proxmox4.py                    # quick
    ROUNDS=8 pytest examples/studies/test_proxmox4.py           # the assertions about four couples of cells take eight
    STUDY=published pytest examples/studies/test_proxmox4.py    # 45 GB of disk and hours
"""

import pytest
from presets import Preset, choose, rounds, swept

from pytest_vmstorage import Fio, Ioping, cell

PRESET = choose(
    quick=Preset(disk="512M", small="64M", large="128M", seconds=1.0),
    scaled=Preset(disk="768M", small="256M", large="256M", seconds=2.0),
    published=Preset(disk="32G", small="4G", large="10G"),
)

sweep = swept(
    [
        pytest.mark.parametrize("format", ["raw", "qcow2"]),
        pytest.mark.parametrize("cache", ["none", "directsync", "writethrough", "writeback", "unsafe"]),
        pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi"]),
        pytest.mark.storage(size=PRESET.disk, memory="2G", guest_fs="ext4", guest_mount="noatime,nodiratime"),
    ]
)
JOBS = [(rw, bs) for bs in ("4k", "4M") for rw in ("randwrite", "randread", "write", "read")]


def job(rw, bs):
    """The study's line: fio --randrepeat=1 --ioengine=libaio --direct=1 --gtod_reduce=1 --iodepth=256.

    One option is not the study's, and stands in each row: refill_buffers, without which its data would be shrunk by any
    layer that compresses.
    """
    size = PRESET.small if bs == "4k" else PRESET.large
    return Fio(rw=rw, bs=bs, iodepth=256, size=size, gtod_reduce=True, **PRESET.runtime)


@sweep
@pytest.mark.parametrize(("rw", "bs"), JOBS)
def test_fio(measure, rw, bs):
    measure(job(rw, bs), rounds=rounds(1), warmup=0)


@sweep
def test_ioping(measure):
    # the study's line: ioping -c 10 .
    measure(Ioping(count=10, directory=True, interval="200ms" if PRESET.seconds else None), rounds=rounds(1), warmup=0)


@pytest.mark.parametrize(("rw", "bs"), JOBS)
@pytest.mark.storage(size=PRESET.disk, backing="native")
def test_native(measure, rw, bs):
    measure(job(rw, bs), rounds=rounds(1), warmup=0)


@pytest.mark.parametrize("synced", ["directsync", "writethrough"])
def test_small_writes_pay_for_each_flush(assert_ratio, synced):
    assert_ratio(cell(synced), cell("none"), at_most=0.6, workload="fio randwrite 4k *")


def test_writeback_is_faster_than_the_ssd_itself(assert_ratio):
    assert_ratio(cell("writeback", backing="file"), cell(backing="native"), at_least=1, workload="fio randwrite 4k *")
