#!/bin/bash
# A threshold that a disk with a limit cannot reach.
. docs/outputs/lib
block python how-to/set-a-threshold.md 2 > test_slow.py
measured test_slow.py > said
grep -m 1 'is not at least' said | folded
echo
paragraphs 'IOPS ↑' < said
