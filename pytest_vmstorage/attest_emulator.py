"""Which QEMU runs a guest, as libvirt, the host and QEMU itself say; pure."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from pytest_vmstorage.claim import DEFAULT, XML, asked_text, claim, unprovable
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.evidence import Evidence
from pytest_vmstorage.results import Proof

PROCESS = "/proc of QEMU's process"
VERSION = "QMP query-version"


def of_emulator(config: StorageConfig, tree: ET.Element, evidence: Evidence) -> Iterator[Proof]:
    """Proofs for `emulator`: the path in the live XML, and of one that the cell names its file and its version."""
    asked, path = asked_text(config.emulator), tree.findtext("devices/emulator") or "not said"
    yield claim("emulator", asked, path, XML, holds=asked in (DEFAULT, path))
    running = evidence.emulator
    if config.emulator is None or running is None:
        return
    if not running.exe:
        why = "the host does not tell this user what QEMU's process runs"
        yield unprovable("emulator", config, why, where=PROCESS)
    elif running.is_script:
        yield unprovable(
            "emulator", config, "it is a script, which starts another file", found=running.exe, where=PROCESS
        )
    else:
        yield claim("emulator", asked, running.exe, PROCESS, holds=running.is_named)
    named = f"{asked} (QEMU {running.version})"
    yield claim("emulator", named, f"QEMU {evidence.qemu}", VERSION, holds=running.version == evidence.qemu)
