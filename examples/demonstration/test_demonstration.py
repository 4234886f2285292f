"""Six buses and five cache modes: 30 guests, each proven to be what its id says before its first I/O, or refused.

`pytest examples/demonstration --vm-report=demonstration.json`, then `vmstorage show CELL demonstration.json` shows the
proof of a row. A row is refused, with both values, where host and QEMU do something else than was asked: QEMU 7.2
takes cache writethrough for a USB disk and leaves its write cache on.
"""

import pytest

from pytest_vmstorage import Fio


@pytest.mark.parametrize("bus", ["virtio-blk", "virtio-scsi", "ide", "sata", "usb", "nvme"])
@pytest.mark.parametrize("cache", ["none", "directsync", "writethrough", "writeback", "unsafe"])
@pytest.mark.storage(size="128M")
def test_random_write(measure):
    result = measure(Fio(rw="randwrite", bs="4k", iodepth=16, size="64M", runtime=1, time_based=True), warmup=0)
    assert result.iops > 0
