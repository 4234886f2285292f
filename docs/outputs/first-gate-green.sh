#!/bin/bash
# The green verdict of the first gate, as a run without -q prints it.
. docs/outputs/lib
block python tutorials/first-gate.md 1 > test_gate.py
measured --vm-save=main test_gate.py > /dev/null
measured -v --vm-baseline=main --vm-confirm --vm-day-spread=3% test_gate.py | sed -n '/VM storage:/,/^verdicts:/p'
