#!/bin/bash
# The red verdict of the first gate.
. docs/outputs/lib
block python tutorials/first-gate.md 1 > test_gate.py
measured --vm-against=total_iops_sec=250 test_gate.py > said
grep -m 1 'is REGRESSED against' said | folded
tail -n 1 said
