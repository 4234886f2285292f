"""Native, passed through, LVM and raw over one device at growing queue depths, as a Russian study of 2018 had it.

Its guest: 2 vCPUs, 8 GB, virtio, cache none; fio in blocks of 256k in order and of 4k at random, 1 to 256 requests in
flight, 5 minutes each, on nothing that was written before. Here blocks are written before they are read: reading what
was never written measured the host's page cache there, and here the report would say so. The native row comes first,
and stands beside each of the others as percent of native and as time per I/O; so does the null row, a guest without any
storage, which the study had not.

What it found differs from one class of device to the next, so say which yours is: KIND=hdd, ssd (the default) or nvme.
The findings of that class are asserted, at the greatest depth, for each ground that there is; "printed" are the study's
figures, and what you find may be another. What cannot be asserted, docs/studies has.

    pytest examples/studies/test_devices.py                                       # a file, the host itself, null
    ROUNDS=6 pytest examples/studies/test_devices.py                              # as often as the assertions take
    STUDY=published KIND=nvme DEVICE=fast GROUP=vg0 pytest examples/studies/test_devices.py    # all on devices

DEVICE is a device of vmstorage.toml: the raw file lies on an ext4 made there. GROUP is a volume group listed there, on
another device of the same model; without one there is no LVM row.
"""

import os

import pytest
from presets import ALIKE, Preset, choose, differs, half_the_gain, one_of, rounds

from pytest_vmstorage import Fio, cell

PRESET = choose(
    quick=Preset(disk="320M", small="64M", large="128M", seconds=1.0),
    published=Preset(disk="64G", small="60G", large="60G", seconds=300.0),
)
DEPTHS = (1, 4, 16) if PRESET.seconds < 60 else (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEVICE, GROUP = os.environ.get("DEVICE"), os.environ.get("GROUP")
KIND = one_of("KIND", "ssd", "hdd", "nvme")
GROUNDS = {
    "native": {"backing": f"native:{DEVICE}" if DEVICE else "native"},
    "null": {"backing": "null"},
    "raw": {"backing": f"file:{DEVICE}", "host_fs": "ext4"} if DEVICE else {"backing": "file"},
    **({"device": {"backing": f"device:{DEVICE}"}} if DEVICE else {}),
    **({"lvm": {"backing": f"lvm:{GROUP}"}} if GROUP else {}),
}


def cells():
    """The grounds as parametrize has them, each with the guest that the study had; the native row has none."""
    for name, ground in GROUNDS.items():
        guest = {} if name == "native" else {"vcpus": 2, "memory": "8G" if PRESET.seconds >= 60 else "512M"}
        yield pytest.param(marks=pytest.mark.storage(size=PRESET.disk, **ground, **guest), id=name)


@differs(
    "its command line was not printed, so that libaio, direct=1, refill_buffers=1 and the latencies' percentiles are"
    " this file's; blocks are written before they are read",
    f"{PRESET.seconds:g} s in place of 5 minutes, and guests of 512 MB in place of 8 GB",
)
@pytest.mark.parametrize((), list(cells()))
@pytest.mark.parametrize("iodepth", DEPTHS)
@pytest.mark.parametrize(("rw", "bs"), [("read", "256k"), ("write", "256k"), ("randread", "4k"), ("randwrite", "4k")])
def test_curve(measure, rw, bs, iodepth):
    size = PRESET.small if bs == "4k" else PRESET.large
    measure(Fio(rw=rw, bs=bs, iodepth=iodepth, size=size, **PRESET.runtime), rounds=rounds(1), warmup=0)


def deepest(rw):
    """The workload at the greatest depth."""
    return f"fio {rw} {'4k' if rw.startswith('rand') else '256k'} qd{DEPTHS[-1]} *"


def ground(name):
    """The cells on that ground."""
    return cell(**GROUNDS[name])


def on(*names):
    """A test for each of these grounds that this run has, or a skip that says what it would take."""
    needs = "needs a device or a volume group of vmstorage.toml: name it with DEVICE or GROUP"
    without = [pytest.param(names[0], marks=pytest.mark.skip(reason=needs))]
    return pytest.mark.parametrize("name", [name for name in names if name in GROUNDS] or without)


def of(kind):
    """A finding on that class of device."""
    return pytest.mark.skipif(kind != KIND, reason=f"a finding on {kind}, and KIND={KIND}")


@of("hdd")
@on("raw", "lvm")
def test_hdd_reads_at_random_are_faster_in_a_guest(assert_ratio, name):
    # printed: raw up to 950 IOPS, LVM 450, native about 200
    least = half_the_gain({"raw": 950, "lvm": 450}[name], 200)
    assert_ratio(ground(name), ground("native"), at_least=least, workload=deepest("randread"))


@of("hdd")
@on("raw", "lvm")
def test_hdd_writes_at_random_are_faster_in_a_guest(assert_ratio, name):
    # printed: LVM 400 IOPS, raw 330, others 290
    least = half_the_gain({"raw": 330, "lvm": 400}[name], 290)
    assert_ratio(ground(name), ground("native"), at_least=least, workload=deepest("randwrite"))


@of("hdd")
@pytest.mark.parametrize("rw", ["randread", "randwrite"])
@on("device")
def test_hdd_passed_through_is_as_native_at_random(assert_ratio, name, rw):
    # printed: both about 200 IOPS reading, and 290 writing
    assert_ratio(ground(name), ground("native"), **ALIKE, workload=deepest(rw))


@of("hdd")
@on("raw", "lvm", "device")
def test_hdd_writes_in_order_are_alike(assert_ratio, name):
    # printed: all about 190 MB/s
    assert_ratio(ground(name), ground("native"), **ALIKE, workload=deepest("write"))


@of("hdd")
@on("lvm", "device")
def test_hdd_reads_in_order_are_alike(assert_ratio, name):
    # printed: all about 190 MB/s but raw, whose blocks nobody had written, so that the host's memory answered
    assert_ratio(ground(name), ground("native"), **ALIKE, workload=deepest("read"))


@of("ssd")
@on("device")
def test_ssd_passed_through_reads_in_order_as_native(assert_ratio, name):
    # printed: both 370 MB/s
    assert_ratio(ground(name), ground("native"), **ALIKE, workload=deepest("read"))


@of("ssd")
@on("lvm")
def test_ssd_reads_in_order_are_slower_on_lvm(assert_ratio, name):
    # printed: native 370 MB/s, LVM 190
    assert_ratio(ground("native"), ground(name), at_least=half_the_gain(370, 190), workload=deepest("read"))


@of("ssd")
@on("raw", "lvm", "device")
def test_the_host_reads_three_times_as_fast(assert_ratio, name):
    # printed: any virtual disk about 30,000 IOPS, native three times that
    assert_ratio(ground("native"), ground(name), at_least=3, workload=deepest("randread"))


@of("ssd")
@on("lvm", "device")
def test_ssd_reads_at_random_are_alike_in_guests(assert_ratio, name):
    # printed: any virtual disk about 30,000 IOPS
    assert_ratio(ground(name), ground("raw"), **ALIKE, workload=deepest("randread"))


@of("ssd")
@on("raw")
def test_ssd_writes_at_random_are_faster_on_raw_than_natively(assert_ratio, name):
    # printed: native 4,200 IOPS, raw 5,500
    assert_ratio(ground(name), ground("native"), at_least=half_the_gain(5500, 4200), workload=deepest("randwrite"))


@of("nvme")
@pytest.mark.parametrize("rw", ["randread", "randwrite"])
@on("raw", "lvm", "device")
def test_nvme_is_five_times_as_fast_natively(assert_ratio, name, rw):
    # printed: every virtual disk about 35,000 IOPS, native about 200,000 reading (5.7 times) and 190,000 writing (5.4)
    assert_ratio(ground("native"), ground(name), at_least=5, workload=deepest(rw))


@of("nvme")
@pytest.mark.parametrize("rw", ["randread", "randwrite"])
@on("lvm", "device")
def test_nvme_is_alike_in_guests_at_random(assert_ratio, name, rw):
    # printed: every virtual disk about 35,000 IOPS
    assert_ratio(ground(name), ground("raw"), **ALIKE, workload=deepest(rw))


@of("nvme")
@on("raw", "lvm", "device")
def test_nvme_writes_in_order_are_faster_in_guests(assert_ratio, name):
    # printed: virtual 2,150 MB/s, native 1,700
    assert_ratio(ground(name), ground("native"), at_least=half_the_gain(2150, 1700), workload=deepest("write"))
