#!/bin/bash
# The first tutorial's test in a terminal of 100 columns, as pytest prints it with colours.
. docs/outputs/lib
block python tutorials/first-matrix.md 1 > test_disks.py
echo '$ pytest'
python -m pytest --color=yes -p no:cacheprovider --vm-accel=tcg test_disks.py 2>/dev/null | sed "s|$folder|/home/jane/storage|g"
