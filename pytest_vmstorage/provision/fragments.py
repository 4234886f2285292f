"""In how many pieces an image's data lies: read from the image's own map, or of a raw file from its extents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_vmstorage.command import Shell
from pytest_vmstorage.config import StorageConfig

_FOUND = re.compile(r": (\d+) extents? found")


def fragments(shell: Shell, config: StorageConfig, path: str) -> int | None:
    """Runs of data, in the guest's order, that do not lie behind one another; None where nobody can tell.

    A raw file has the order that its file system gave it (filefrag), any other image one of its own (qemu-img map):
    how its file lies on the file system comes on top of that and is not counted.
    """
    shell.run(["sync", path])
    if config.format == "raw":
        found = _FOUND.search(shell.run(["filefrag", path]).stdout)
        return int(found[1]) if found else None
    # the format is said: a guest could have written the head of another one
    done = shell.run(["qemu-img", "map", "-U", "-f", config.format, "--output=json", path])
    return count_pieces(json.loads(done.stdout)) if done.ok else None


def count_pieces(extents: Iterable[Mapping[str, Any]]) -> int:
    """Pieces among the extents that `qemu-img map --output=json` lists; what holds no data is none."""
    pieces, behind = 0, -1
    for extent in extents:
        if not extent["data"] or "offset" not in extent:
            continue
        pieces += extent["offset"] != behind
        behind = extent["offset"] + extent["length"]
    return pieces
