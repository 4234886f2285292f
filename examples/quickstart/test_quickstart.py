"""Three tools, each in the same 16 storage configurations: every configuration is a real guest with its own disk.

The thresholds hold on any machine, even where the guests' CPU is emulated; put your own in their place.
"""

import pytest

from pytest_vmstorage import Dd, Fio, Hdparm

pytestmark = [
    pytest.mark.parametrize("format", ["raw", "qcow2"]),
    pytest.mark.parametrize("cache", ["none", "writeback"]),
    pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi"]),
    pytest.mark.parametrize("preallocation", ["off", "full"]),
    pytest.mark.storage(size="128M"),
]


def test_random_write(measure):
    result = measure(Fio(rw="randwrite", bs="4k", iodepth=32, size="128M", runtime=1))
    assert result.iops > 500
    assert result.clat_p99 < 1


def test_sequential_write(measure):
    result = measure(Dd(bs="1M", count=64, oflag="direct"))
    assert result.bw > 10


def test_buffered_read(measure):
    # no warm-up: each round of hdparm sleeps for 3 s before it reads
    result = measure(Hdparm(t=True), warmup=0)
    assert result.buffered_read > 10
