#!/bin/bash
# A verdict on the host's QEMU against a copy of it, which looks for its firmware beside itself.
. docs/outputs/lib
mkdir -p old/bin
ln -s /usr/share /usr/lib old/
cp "$(readlink -f "$(command -v qemu-system-x86_64)")" old/bin/qemu-system-x86_64
block python how-to/compare-two-qemus.md 1 | grep -v parametrize > test_disk.py
export PYTEST_ADDOPTS=--vm-against=emulator=$folder/old/bin/qemu-system-x86_64
measured -vv test_disk.py |
    paragraphs 'IOPS ↑|^against the same' | sed "s|$folder/old|/opt/qemu-old|g"
# what libvirt keeps of a QEMU that is gone
grep -rl "$folder" "${XDG_CACHE_HOME:-$HOME/.cache}/pytest-vmstorage" --include='*.xml' | xargs -r rm || true
