"""Records what real guests say of themselves, for unit/measure/proof/test_cell.py; each file's name has QEMU's version.

    python tests/record_evidence.py             # all recordings there are, anew
    python tests/record_evidence.py CELL...     # these, by the cells in their names

Cells that a rule refuses are recorded too: they are the liars, whose guests are never booted to the end.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.config import cell as config_module
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.lab import lab as lab_module
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab
from pytest_vmstorage.measure.proof.evidence import Evidence, gather

RECORDINGS = Path(__file__).parent / "unit" / "recordings"
STEM = "evidence-qemu-7.2-"


def record(lab: Lab, path: Path, patch: pytest.MonkeyPatch) -> None:
    """Boot the recording's cell and write down what was gathered; a liar has no guest's part."""
    config = StorageConfig(**json.loads(path.read_text())["config"])
    seen: list[Evidence] = []

    def gathering(*arguments: Any) -> Evidence:
        seen.append(gather(*arguments))
        return seen[-1]

    patch.setattr(lab_module, "gather", gathering)
    try:
        guest = lab.guest(config).facts.model_dump(mode="json")
    except VmStorageError as error:
        sys.stdout.write(f"{config}: {error}\n")
        guest = None
    saved = {"config": config.model_dump(mode="json"), "evidence": seen[0].model_dump(mode="json"), "guest": guest}
    path.write_text(json.dumps(saved, indent=1) + "\n")


def main(cells: Sequence[str]) -> None:
    """Record the cells; what is not QEMU 7.2 would bear a wrong name."""
    lab = open_lab(LabSettings(boot="fresh"), print)
    try:
        if not lab.facts.qemu.startswith("7.2."):
            sys.exit(f"This host has QEMU {lab.facts.qemu}, and these recordings are of 7.2.")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(config_module, "broken_rules", lambda _cell: ())
            for path in sorted(RECORDINGS.glob(f"{STEM}*.json")):
                if not cells or path.stem.removeprefix(STEM) in cells:
                    record(lab, path, patch)
    finally:
        lab.close()


if __name__ == "__main__":
    main(sys.argv[1:])
