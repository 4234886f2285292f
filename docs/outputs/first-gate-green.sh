#!/bin/bash
# The green verdict of the first gate.
. docs/outputs/lib
block python tutorials/first-gate.md 1 > test_gate.py
measured --vm-save=main test_gate.py > /dev/null
measured --vm-baseline=main --vm-confirm --vm-day-spread=3% test_gate.py | paragraphs 'all rows:|^iops|iops .IOPS|^[▲±]|against baseline'
