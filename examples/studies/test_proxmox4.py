"""Format x cache x bus with fio and ioping, as a German study of 2017 had it on Proxmox VE 4.4 and an Intel 320 SSD.

Its guest: ext4 (noatime, nodiratime) on 32 GB, 1 vCPU, 1 GB of memory (2 GB here: fio's 256 buffers of 4M take one,
and this guest has no swap); fio with 256 requests in flight, 4 GB in blocks of 4k and 10 GB in blocks of 4M, each once.
It printed tables of IOPS, KB/s, CPU and runtime (`--vm-columns=iops,bw,usr_cpu,sys_cpu,runtime` has all of them;
else the rate alone is shown). What is asserted here is what all its cells of a kind have in common; "printed" are
the smallest and the largest of these ratios, and what you find may be another. What cannot be asserted,
docs/studies has.

    pytest examples/studies/test_proxmox4.py                    # quick
    ROUNDS=8 pytest examples/studies/test_proxmox4.py           # the assertions about four couples of cells take eight
    STUDY=published pytest examples/studies/test_proxmox4.py    # 45 GB of disk and hours
"""

import pytest
from presets import ALIKE, Preset, choose, differs, half_the_gain, rounds, swept

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
        differs("a guest of 2 GB in place of 1 GB, and one for all workloads of a cell"),
    ]
)
JOBS = [(rw, bs) for bs in ("4k", "4M") for rw in ("randwrite", "randread", "write", "read")]
fio_differs = differs(
    "refill_buffers=1 is added, since fio's own data would be shrunk by any layer that compresses; randrepeat=1 is left"
    " out, as fio does so by itself; name, filename and offset=0 are ours; the file is there, and written before"
    " (fallocate=none, allow_file_create=0), where the study's fio made it; numjobs=1,"
    " group_reporting, output, output-format=json+ and percentile_list=50:95:99:99.9 are added, which change nothing"
    " that is measured",
    f"size={PRESET.small} in place of 4G, size={PRESET.large} in place of 10G, and time_based=1 and"
    f" runtime={PRESET.seconds:g} are added",
)
ioping_differs = differs(
    "-B is added, its figures without rounding, and -S 1M, its own default", "-i 0.2 in place of 1"
)


def job(rw, bs):
    """The study's line: fio --randrepeat=1 --ioengine=libaio --direct=1 --gtod_reduce=1 --iodepth=256."""
    size = PRESET.small if bs == "4k" else PRESET.large
    return Fio(rw=rw, bs=bs, iodepth=256, size=size, gtod_reduce=True, **PRESET.runtime)


# the study's line: ioping -c 10 .
PING = Ioping(count=10, directory=True, interval="200ms" if PRESET.seconds else None)


@sweep
@fio_differs
@pytest.mark.parametrize(("rw", "bs"), JOBS)
def test_fio(measure, rw, bs):
    measure(job(rw, bs), rounds=rounds(1), warmup=0)


@sweep
@ioping_differs
def test_ioping(measure):
    measure(PING, rounds=rounds(1), warmup=0)


@fio_differs
@pytest.mark.parametrize(("rw", "bs"), JOBS)
@pytest.mark.storage(size=PRESET.disk, backing="native")
def test_native(measure, rw, bs):
    measure(job(rw, bs), rounds=rounds(1), warmup=0)


@ioping_differs
@pytest.mark.storage(size=PRESET.disk, backing="native")
def test_native_ioping(measure):
    measure(PING, rounds=rounds(1), warmup=0)


SSD = cell(backing="native")
SMALL_WRITES, SMALL_READS = "fio randwrite 4k *", "fio randread 4k *"
large = pytest.mark.parametrize("rw", ["randwrite", "randread", "write", "read"])


@pytest.mark.parametrize("synced", ["directsync", "writethrough"])
def test_small_writes_pay_for_each_flush(assert_ratio, synced):
    # printed: 0.13 (1,990 against 15,058 IOPS) to 0.60 (8,330 against 13,963)
    assert_ratio(cell(synced), cell("none"), at_most=0.6, workload=SMALL_WRITES)


def test_writeback_is_faster_than_the_ssd_itself(assert_ratio):
    # printed: 1.9 to 3.1 (30,753 to 49,402 against 15,994 IOPS)
    assert_ratio(cell("writeback", backing="file"), SSD, at_least=1, workload=SMALL_WRITES)


def test_writethrough_costs_less_on_virtio_blk(assert_ratio):
    # printed: 4.2 (8,372 against 1,998 IOPS; 8,330 against 1,990)
    least = half_the_gain(8372, 1998)
    where = cell("writethrough")
    assert_ratio(cell("virtio-blk"), cell("virtio-scsi"), at_least=least, workload=SMALL_WRITES, where=where)


@pytest.mark.parametrize("rw", ["randread", "read", "write"])
def test_none_loses_no_more_than_a_tenth_of_the_ssd(assert_ratio, rw):
    # printed: 0.92 to 1.13
    assert_ratio(cell("none", backing="file"), SSD, at_least=0.9, workload=f"fio {rw} 4k *")


@pytest.mark.parametrize("cached", ["writethrough", "writeback"])
def test_small_reads_come_from_the_hosts_page_cache(assert_ratio, cached):
    # printed: 1.8 to 4.0 (74,727 to 157,137 against 39,403 to 40,498 IOPS)
    assert_ratio(cell(cached), cell("none"), at_least=1.8, workload=SMALL_READS)


@pytest.mark.parametrize("cached", ["writethrough", "writeback", "unsafe"])
def test_the_hosts_page_cache_is_nearer_to_virtio_blk(assert_ratio, cached):
    # printed: 1.6 to 1.9
    assert_ratio(cell("virtio-blk"), cell("virtio-scsi"), at_least=1.6, workload=SMALL_READS, where=cell(cached))


def test_unsafe_reads_as_writeback_does(assert_ratio):
    # printed: 0.98 to 1.04
    assert_ratio(cell("unsafe"), cell("writeback"), **ALIKE, workload=SMALL_READS)


@large
def test_large_blocks_reach_less_than_a_third_of_the_ssd(assert_ratio, rw):
    # printed: 0.15 to 0.28
    assert_ratio(cell("none", backing="file"), SSD, at_most=0.3, workload=f"fio {rw} 4M *")


@large
def test_large_blocks_are_faster_with_writeback(assert_ratio, rw):
    # printed: 2.7 to 7.8
    assert_ratio(cell("writeback"), cell("none"), at_least=2.6, workload=f"fio {rw} 4M *")


def test_a_single_request_takes_longer_in_a_guest(assert_ratio):
    # printed: 0.50 to 0.58 (1.54 to 1.79 against 3.06 kIOPS)
    assert_ratio(cell("none", backing="file"), SSD, at_most=0.6, workload="ioping *")


@pytest.mark.parametrize("cached", ["writethrough", "writeback"])
def test_a_single_request_is_answered_sooner_by_the_hosts_page_cache(assert_ratio, cached):
    # printed: 2.2 (3.55 against 1.59 kIOPS) to 3.0 (4.81 against 1.59)
    assert_ratio(cell(cached), cell("none"), at_least=2.2, workload="ioping *")
