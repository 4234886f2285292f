#!/bin/bash
# How the first tutorial's threshold fails.
. docs/outputs/lib
block python tutorials/first-matrix.md 2 > test_disks.py
measured -k raw test_disks.py | sed -n '/^>       assert/,/^E .*where:/p'
