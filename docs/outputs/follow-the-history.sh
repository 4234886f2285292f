#!/bin/bash
# The history of two cells on 40 made-up days, of which the last ten have another QEMU and one cell a quarter slower.
. docs/outputs/lib
mkdir -p .benchmarks/Linux
python - <<'END'
import json
import math
import random
from datetime import date, timedelta
from pathlib import Path

from pytest_vmstorage import StorageConfig
from pytest_vmstorage.results.packed import pack_run
from pytest_vmstorage.testing import make_host, make_measurement, make_run

chance = random.Random(1)
for day in range(40):
    is_new = day >= 30
    cells = [
        make_measurement(
            StorageConfig(bus=bus),
            iops=[(0.8 if is_new and bus == "ide" else 1) * 10_000 * math.exp(chance.gauss(0, 0.02))],
        )
        for bus in ("virtio-blk", "ide")
    ]
    begin = f"{date(2026, 10, 1) + timedelta(day)}T03:00:00+00:00"
    run = make_run(*cells, hosts=[make_host(qemu="9.2" if is_new else "9.1")], started=begin)
    saved = {"datetime": begin, "benchmarks": [], "vmstorage": pack_run(run.model_dump(mode="json"))}
    Path(f".benchmarks/Linux/{day + 1:04}_nightly.json").write_text(json.dumps(saved))
END
vmstorage history nightly
