#!/bin/bash
# The matrix of two lab hosts: namespaces of this machine, made as root by the tests' laboratory.
# the laboratory has a /tmp of its own
export TMPDIR=/var/tmp
. docs/outputs/lib
block python tutorials/first-lab-host.md 1 > test_disks.py
block toml tutorials/first-lab-host.md 1 > vmstorage.toml
python - <<'END' | sed -n "/VM storage:/,\$p" | paragraphs "host +format" | grep -v " passed in "
import os, sys
from pathlib import Path

sys.path.insert(0, os.path.join(os.environ["PYTHONPATH"].partition(":")[0], "tests", "lab"))
from laboratory import laboratory

with laboratory() as lab:
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--vm-accel=tcg", "--vm-host=tag:lab", "--vm-spread=each"]
    print(lab.run([sys.executable, *words], Path.cwd(), 600)[1])
END
