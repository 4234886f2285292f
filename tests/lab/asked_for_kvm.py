"""What a run would say of a host's acceleration, asked again and again; for a controller.

usage: asked_for_kvm.py HOST   It reads lines `auto` or `kvm`, each with the seconds that a test guest has under `kvm`,
and answers each with a line of JSON: `used` and `reason`, or `refused` with the sentence.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.errors import HostError
from pytest_vmstorage.guest.acceleration import CanaryCache
from pytest_vmstorage.lab.acceleration import find_accel
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab
from pytest_vmstorage.progress import silent


def answer(lab: Lab, requested: str, patience_s: float) -> dict[str, str]:
    """The choice, or the refusal; remembered by nobody."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            choice, _ = find_accel(
                "kvm" if requested == "kvm" else "auto",
                host=lab.host.name,
                appliance_key="",
                shell=lab.shell,
                hypervisor=lab.hypervisor,
                factory=lab.factory,
                cache=CanaryCache(Path(folder) / "accel.json"),
                say=silent,
                patience_s=patience_s,
            )
        except HostError as error:
            return {"refused": f"{error.what} [{error.code}]"}
        return {"used": choice.used, "reason": choice.reason}


def tell(said: dict[str, str]) -> None:
    """A line of JSON, at once."""
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Open the host once, and answer until there are no more lines."""
    lab = open_lab(LabSettings(host=sys.argv[1], accel="tcg"))
    try:
        tell({"open": lab.host.name})
        for line in sys.stdin:
            requested, patience_s = line.split()
            tell(answer(lab, requested, float(patience_s)))
    finally:
        lab.close()


if __name__ == "__main__":
    main()
