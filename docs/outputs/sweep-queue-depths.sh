#!/bin/bash
# A curve of three depths for each of two formats.
. docs/outputs/lib
block python how-to/sweep-queue-depths.md 1 > test_depth.py
measured -vv test_depth.py | paragraphs 'iodepth=1 '
