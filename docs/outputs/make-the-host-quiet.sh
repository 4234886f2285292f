#!/bin/bash
# What is said where the host has no governor to set.
. docs/outputs/lib
printf 'def test_disk(guest):\n    pass\n' > test_disk.py
python -m pytest -q --vm-governor=performance test_disk.py 2>&1 |
    grep ERROR | folded || true
