#!/bin/bash
# The matrix of the first tutorial's test, which is README's as well.
. docs/outputs/lib
block python tutorials/first-matrix.md 1 > test_disks.py
measured test_disks.py | sed -n '/VM storage:/,$p' | paragraphs 'VM storage:|format +cache' | grep -v ' passed in '
