#!/bin/bash
# What the doctor says of a host that was calibrated with another kernel.
. docs/outputs/lib
own_cache
vmstorage doctor --json >found.json || true
python - <<'END'
import json
from pathlib import Path

from pytest_vmstorage.analysis.calibration import Calibration
from pytest_vmstorage.host.calibrations import keep_calibration
from pytest_vmstorage.results.host import HostFacts

host = HostFacts.model_validate(json.loads(Path("found.json").read_text())["host"])
then = host.model_copy(update={"kernel": "6.1.0-18-amd64"})
keep_calibration(
    Calibration(id="6e64c20137", started="2026-11-28T12:00:00+00:00", seconds=1100.0, limit_s=1200.0, host=then)
)
END
vmstorage doctor | sed -n 's/^calibration *//p' | folded
