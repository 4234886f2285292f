"""Native, passed through, LVM and raw over one device at growing queue depths, as a Russian study of 2018 had it.

Its guest: 2 vCPUs, 8 GB, virtio, cache none; fio in blocks of 256k in order and of 4k at random, 1 to 256 requests in
flight, 5 minutes each, on nothing that was written before. Here blocks are written before they are read: reading what
was never written measured the host's page cache there, and here the report would say so. The native row comes first,
and stands beside each of the others as percent of native and as time per I/O; so does the null row, a guest without any
storage, which the study had not.

What it found of SSDs and you may not, and what is asserted here: random reads on the host are three times as fast as on
any virtual disk, on NVMe more than five times.

    pytest examples/studies/test_devices.py                                       # a file, the host itself, null
    ROUNDS=6 pytest examples/studies/test_devices.py                              # as often as the assertion takes
    STUDY=published DEVICE=fastssd GROUP=vg0 pytest examples/studies/test_devices.py    # all on devices

DEVICE is a device of vmstorage.toml: the raw file lies on an ext4 made there. GROUP is a volume group listed there, on
another device of the same model; without one there is no LVM row.
"""

import os

import pytest
from presets import Preset, choose, rounds

from pytest_vmstorage import Fio, cell

PRESET = choose(
    quick=Preset(disk="320M", small="64M", large="128M", seconds=1.0),
    published=Preset(disk="64G", small="60G", large="60G", seconds=300.0),
)
DEPTHS = (1, 16) if PRESET.seconds < 60 else (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEVICE, GROUP = os.environ.get("DEVICE"), os.environ.get("GROUP")
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


@pytest.mark.parametrize((), list(cells()))
@pytest.mark.parametrize("iodepth", DEPTHS)
@pytest.mark.parametrize(("rw", "bs"), [("read", "256k"), ("write", "256k"), ("randread", "4k"), ("randwrite", "4k")])
def test_curve(measure, rw, bs, iodepth):
    size = PRESET.small if bs == "4k" else PRESET.large
    measure(Fio(rw=rw, bs=bs, iodepth=iodepth, size=size, **PRESET.runtime), rounds=rounds(1), warmup=0)


def test_the_host_reads_three_times_as_fast(assert_ratio):
    deepest = f"fio randread 4k qd{DEPTHS[-1]} *"
    assert_ratio(cell(**GROUNDS["native"]), cell(**GROUNDS["raw"]), at_least=3, workload=deepest)
