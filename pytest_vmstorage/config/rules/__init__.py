"""The rules for which cells can exist, each with its reason and source; pure.

"tried" means: started on libvirt 9.0 with QEMU 7.2, and refused, or accepted without effect.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.config.rules.backing import BACKING_RULES
from pytest_vmstorage.config.rules.device import DEVICE_RULES
from pytest_vmstorage.config.rules.image import IMAGE_RULES
from pytest_vmstorage.config.rules.rule import Cell, Rule

RULES = (*BACKING_RULES, *IMAGE_RULES, *DEVICE_RULES)


def broken_rules(cell: Cell) -> Iterator[Rule]:
    """The rules that the cell breaks, in the order of the list."""
    return (rule for rule in RULES if rule.breaks(cell))
