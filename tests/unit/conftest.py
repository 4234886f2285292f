"""What holds for all unit tests: none fails because the machine is busy."""

from __future__ import annotations

from importlib.util import find_spec

# links are tested where it is not installed
if find_spec("hypothesis"):
    from hypothesis import settings

    settings.register_profile("unit", deadline=None)
    settings.load_profile("unit")
