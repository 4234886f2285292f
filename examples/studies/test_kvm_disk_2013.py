"""Partition, raw and qcow2, with and without preallocation, in three cache modes, as a Russian study of 2013 had it.

Its host: KVM 0.12.5, images on XFS with a log of 32 MiB (of 64 MiB here, the least that
mkfs.xfs 6.1 makes). Its guest: IDE disk, aio=threads, 1 vCPU, 256 MB, ext3 (noatime), 100 GB. It packed
a tree of 7,489 files twice and unpacked both archives, wrote a gigabyte of zeros with dd, buffered and direct, and ran
hdparm, all twice, with caches dropped before. Zeros are what some layers store as nothing: read the line on what the
host wrote for each byte of the guest. What it found and you may not, and what is asserted here: qcow2 follows raw, 20
to 25 % lower; raw through which zeros were written is 10 to 15 % faster than sparse raw.

    pytest examples/studies/test_kvm_disk_2013.py
    ROUNDS=7 pytest examples/studies/test_kvm_disk_2013.py                        # as often as the assertions take
    STUDY=published PARTITION=p1 pytest examples/studies/test_kvm_disk_2013.py    # with a partition of vmstorage.toml
"""

import os

import pytest
from presets import Preset, choose, rounds, swept

from pytest_vmstorage import Dd, Hdparm, Tar, cell

PRESET = choose(
    quick=Preset(disk="640M", small="16M", large="64M"),
    published=Preset(disk="100G", small="5G", large="1G"),
)
IS_QUICK = PRESET.disk != "100G"
PARTITION = os.environ.get("PARTITION")
XFS = {"host_fs": "xfs", "host_mkfs": "-d agcount=64 -l size=64m -b size=4k", "host_mount": "noatime,nodiratime"}
if IS_QUICK:
    # 64 allocation groups need 1 GiB
    XFS["host_mkfs"] = "-b size=4k"
IMAGES = [
    *(("raw", preallocation, XFS) for preallocation in ("off", "full")),
    *(("qcow2", preallocation, XFS) for preallocation in ("off", "metadata")),
    *([("raw", "off", {"backing": f"partition:{PARTITION}"})] if PARTITION else []),
]


def cells():
    """The images as parametrize has them, on XFS or on the partition itself."""
    for format_, preallocation, ground in IMAGES:
        mark = pytest.mark.storage(format=format_, preallocation=preallocation, **ground)
        yield pytest.param(marks=mark, id="partition" if "backing" in ground else f"{format_}-{preallocation}")


sweep = swept(
    [
        pytest.mark.parametrize((), list(cells())),
        pytest.mark.parametrize("cache", ["writethrough", "writeback", "none"]),
        pytest.mark.storage(
            bus="ide", io="threads", memory="256M", size=PRESET.disk, guest_fs="ext3", guest_mount="noatime"
        ),
    ]
)


@sweep
def test_tar(measure):
    measure(Tar(total_size="16M") if IS_QUICK else Tar.published(), rounds=rounds(2), warmup=0)


@sweep
@pytest.mark.parametrize("oflag", [None, "direct"])
def test_dd(measure, oflag):
    measure(Dd(bs="1M", count=64 if IS_QUICK else 1024, oflag=oflag), rounds=rounds(2), warmup=0)


@sweep
def test_hdparm(measure):
    measure(Hdparm(t=True, T=True), rounds=rounds(1 if IS_QUICK else 2), warmup=0)


def test_qcow2_follows_raw(assert_ratio):
    assert_ratio(cell("qcow2", "off"), cell("raw", "off"), at_least=0.75, at_most=0.8, workload="tar *")


def test_zero_filled_raw_is_faster_than_sparse(assert_ratio):
    assert_ratio(cell("full"), cell("off"), at_least=1.1, at_most=1.15, workload="tar *", where=cell("raw"))
