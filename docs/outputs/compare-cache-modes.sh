#!/bin/bash
# Five cache modes under a workload that flushes.
. docs/outputs/lib
block python how-to/compare-cache-modes.md 1 > test_cache.py
measured --vm-columns=+fsync_p99 test_cache.py | paragraphs 'IOPS ↑'
