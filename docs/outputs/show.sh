#!/bin/bash
# The proof of a cell, some of its fields, and what each layer moved.
. docs/outputs/lib
cat > test_disk.py <<'END'
import pytest

from pytest_vmstorage import Fio


@pytest.mark.storage(size="256M")
def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", iodepth=32, size="64M", runtime=1, time_based=True))
END
measured --vm-rounds=1 --vm-report=run.json test_disk.py > /dev/null
vmstorage show raw-none-virtio-blk-off run.json > shown
grep -E '^  (field|format|cache|preallocation|scheduler|size) ' shown | aligned
echo
paragraphs 'moved in' < shown
