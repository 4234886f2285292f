#!/bin/bash
# A file and a qcow2 image beside the native and the null row.
. docs/outputs/lib
block python explanation/yardsticks.md 1 > test_read.py
measured -vv test_read.py | paragraphs 'IOPS ↑|^against the native'
