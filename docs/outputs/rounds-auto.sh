#!/bin/bash
# As many rounds as a figure needs, or as fit into a time.
. docs/outputs/lib
cat > test_disk.py <<'END'
import pytest

from pytest_vmstorage import Fio


@pytest.mark.storage(size="256M")
def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", size="64M", runtime=1, time_based=True))
END
measured -vv --vm-rounds=auto --vm-precision=2% --vm-rounds-limit=15s test_disk.py | paragraphs 'rounds of --vm-rounds=auto'
