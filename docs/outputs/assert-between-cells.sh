#!/bin/bash
# Two assertions between four cells.
. docs/outputs/lib
block python how-to/assert-between-cells.md 1 > test_between.py
measured -vv --vm-rounds=8 test_between.py > said
paragraphs 'IOPS ↑' < said
echo
awk '/^(HOLDS|FAILS|INCONCLUSIVE) / {on = 1} /^$|^=|^[0-9]+ (passed|failed)/ {on = 0} on' said
