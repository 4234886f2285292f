#!/bin/bash
# Where the time of a run of two cells went.
. docs/outputs/lib
cat > test_disks.py <<'END'
import pytest

from pytest_vmstorage import Fio


@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.storage(size="256M")
def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", iodepth=32, size="64M", runtime=2, time_based=True))
END
measured test_disks.py > /dev/null
vmstorage time | tail -n +3 > said
head -n 1 said | folded
# without steps of less than two hundredths of the whole
tail -n +2 said | sed '/^cell /,$d' | grep -vE '^[a-z -]+ +[0-9.]+ +[01][.][0-9] %'
