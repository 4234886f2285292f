#!/bin/bash
# The flushes that the guest asked for, and those that the host's device completed.
. docs/outputs/lib
block python how-to/compare-cache-modes.md 1 | sed 's/\["none".*\])/["none", "unsafe"])/' > test_cache.py
measured --vm-rounds=1 --vm-report=cache.json test_cache.py > /dev/null
for cache in none unsafe; do
    vmstorage show raw-$cache-virtio-blk-off cache.json | grep -E 'moved in|flushes:'
done
