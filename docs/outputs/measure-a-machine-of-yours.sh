#!/bin/bash
# A guest beside a machine that the plugin did not make: this one, under another name.
. docs/outputs/lib
cat > vmstorage.toml <<END
[machines.esx-guest]
folder = "$folder"
label = {format = "vmfs", bus = "pvscsi"}
END
block python how-to/measure-a-machine-of-yours.md 1 > test_disk.py
measured test_disk.py | paragraphs 'IOPS ↑'
