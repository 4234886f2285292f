#!/bin/bash
# A disk with a limit against one with a higher limit, in pairs.
. docs/outputs/lib
block python how-to/gate-a-pull-request.md 1 > test_disk.py
measured --vm-against=total_iops_sec=2500 test_disk.py > said
grep -m 1 'REGRESSED against\|is PASS\|is INCONCLUSIVE' said | folded
