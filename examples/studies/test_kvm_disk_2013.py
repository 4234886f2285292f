"""Partition, raw and qcow2, with and without preallocation, in three cache modes, as a Russian study of 2013 had it.

Its host: KVM 0.12.5, images on XFS with a log of 32 MiB (of 64 MiB here, the least that mkfs.xfs 6.1 makes). Its guest:
IDE disk, aio=threads, 1 vCPU, 256 MB, ext3 (noatime), 100 GB. It packed a tree of 7,489 files twice and unpacked both
archives, wrote a gigabyte of zeros with dd, buffered and direct, and ran hdparm, all twice, with caches dropped before.
Zeros are what some layers store as nothing: read the line on what the host wrote for each byte of the guest.

What preallocation does is seen in first writes only. So tar and dd have disks that nothing has written (`state=fresh`;
a partition has no such state), of which each round writes blocks of its own: with more rounds the disk is larger.
hdparm reads, and has disks that were written.

What it found is asserted here, by tar and by the unbuffered dd, and you may find something else: docs/studies.

    pytest examples/studies/test_kvm_disk_2013.py
    ROUNDS=8 pytest examples/studies/test_kvm_disk_2013.py                        # as often as the assertions take
    STUDY=published PARTITION=p1 pytest examples/studies/test_kvm_disk_2013.py    # with a partition of vmstorage.toml
"""

import os

import pytest
from presets import Preset, choose, differs, half_the_gain, rounds, swept

from pytest_vmstorage import Dd, Hdparm, Tar, cell

PRESET = choose(
    quick=Preset(disk="256M", small="8M", large="32M"),
    published=Preset(disk="100G", small="5G", large="1G"),
)
IS_QUICK = PRESET.disk != "100G"
# tar's files take 5.5 times their size in each round, and two dd one time each
DISK = f"{256 + 128 * rounds(2)}M" if IS_QUICK else f"{max(100, 10 + 30 * rounds(2))}G"
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


def cells(state):
    """The images as parametrize has them, on XFS or on the partition itself, which is never fresh."""
    for format_, preallocation, ground in IMAGES:
        known = {"state": state} if "backing" not in ground else {}
        mark = pytest.mark.storage(format=format_, preallocation=preallocation, **ground, **known)
        yield pytest.param(marks=mark, id="partition" if "backing" in ground else f"{format_}-{preallocation}")


def sweep(state, size):
    """All cells of the study, with disks in that state."""
    return swept(
        [
            pytest.mark.parametrize((), list(cells(state))),
            pytest.mark.parametrize("cache", ["writethrough", "writeback", "none"]),
            pytest.mark.storage(
                bus="ide", io="threads", memory="256M", size=size, guest_fs="ext3", guest_mount="noatime"
            ),
            differs(
                "XFS has a log of 64 MiB in place of 32, the least that mkfs.xfs makes today"
                + ("" if size == "100G" else f"; a disk of {size} in place of 100G"),
                "mkfs.xfs without agcount=64, with a log of its own choice",
            ),
        ]
    )


@sweep("fresh", DISK)
@differs(
    "the files are as many and as large together, of random bytes and with sizes made by a seed",
    "400 files of 8 MiB together in 25 folders, and each part ends when the file system has written all of it",
)
def test_tar(measure):
    tar = Tar(total_size=PRESET.small) if IS_QUICK else Tar.published()
    measure(tar, rounds=rounds(2), warmup=0)


@sweep("fresh", DISK)
@differs(
    "conv=notrunc,nocreat and seek are added: each dd writes blocks of one large file that it is the first to write",
    "count=32 in place of 1024",
)
@pytest.mark.parametrize("oflag", [None, "direct"])
def test_dd(measure, oflag):
    measure(Dd(bs="1M", count=32 if IS_QUICK else 1024, oflag=oflag), rounds=rounds(2), warmup=0)


@sweep("filled", PRESET.disk)
@differs("the disk was written before")
def test_hdparm(measure):
    measure(Hdparm(t=True, T=True), rounds=rounds(1 if IS_QUICK else 2), warmup=0)


TAR, DD = "tar *", "dd write 1M direct*"
by_both = pytest.mark.parametrize("workload", [TAR, DD], ids=["tar", "dd"])
on_partition = pytest.mark.skipif(not PARTITION, reason="needs a partition of vmstorage.toml: name it with PARTITION")


@on_partition
@by_both
def test_a_partition_is_fastest_with_writethrough(assert_fastest, workload):
    # printed: fastest of the three cache modes
    assert_fastest(cell("writethrough"), workload=workload, where=cell(backing="partition"))


@by_both
def test_raw_is_fastest_with_writeback(assert_fastest, workload):
    # printed: fastest of the three cache modes
    assert_fastest(cell("writeback"), workload=workload, where=cell("raw", backing="file"))


@by_both
def test_raw_is_very_poor_with_writethrough(assert_ratio, workload):
    # printed: "very poor"; half is the most that is poor
    where = cell("raw", backing="file")
    assert_ratio(cell("writethrough"), cell("writeback"), at_most=0.5, workload=workload, where=where)


@by_both
def test_qcow2_follows_raw(assert_ratio, workload):
    # printed: 20 to 25 % lower
    assert_ratio(cell("qcow2", "off"), cell("raw", "off"), at_least=0.75, at_most=0.8, workload=workload)


@by_both
def test_zero_filled_raw_is_faster_than_sparse(assert_ratio, workload):
    # printed: 10 to 15 % faster
    assert_ratio(cell("full"), cell("off"), at_least=1.1, at_most=1.15, workload=workload, where=cell("raw"))


@by_both
def test_qcow2_is_faster_with_metadata(assert_ratio, workload):
    # printed: 5 to 7 % faster
    assert_ratio(cell("metadata"), cell("off"), at_least=1.05, at_most=1.07, workload=workload, where=cell("qcow2"))


def test_unbuffered_dd_is_faster_than_tar(assert_ratio):
    # printed: tar 30 MB/s at most, where unbuffered dd gives 78
    raw, least = cell("raw", "none", backing="file"), half_the_gain(78, 30)
    assert_ratio(raw, raw, at_least=least, workload=DD, other_workload=TAR, other_metric="pack_bw")
