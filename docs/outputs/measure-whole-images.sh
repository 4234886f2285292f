#!/bin/bash
# Snapshot, clone and conversion of two formats, on the host alone.
. docs/outputs/lib
block python how-to/measure-whole-images.md 1 > test_image.py
COLUMNS=112 measured -vv --vm-columns='snapshot,clone,convert,clone_taken' test_image.py | paragraphs ' ms ↓|^left out:'
