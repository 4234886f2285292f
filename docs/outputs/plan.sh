#!/bin/bash
# The plan of a matrix file with a test.
. docs/outputs/lib
block toml how-to/measure-a-large-matrix.md 1 > matrix.toml
cat > test_disks.py <<'END'
from pytest_vmstorage import Fio


def test_random_write(measure):
    measure(Fio(rw="randwrite", bs="4k", iodepth=32, size="256M", runtime=5))
END
measured --vm-matrix=matrix.toml --vm-plan | sed -E '/^no tests ran/d; /^ [3-9] |^10 /d; /^    /d; s/^(11  )/…\n\1/; s/^(.{110}).+/\1…/'
