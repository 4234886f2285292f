"""How large the studies are run here: STUDY=quick (the default, minutes) or STUDY=published (their own sizes)."""

import os
from typing import NamedTuple

from pytest_vmstorage.errors import ConfigError


class Preset(NamedTuple):
    """Sizes of one way to run a study: disk, files for small and large blocks, and seconds (0: until all is moved)."""

    disk: str
    small: str
    large: str
    seconds: float = 0.0

    @property
    def runtime(self) -> dict[str, object]:
        """fio's options for the time, or none where its size decides."""
        return {"runtime": self.seconds, "time_based": True} if self.seconds else {}


def choose(**presets: Preset) -> Preset:
    """The preset that STUDY names."""
    name = os.environ.get("STUDY", "quick")
    if name not in presets:
        raise ConfigError(f"STUDY={name} is not known.", hint=f"It is one of: {', '.join(presets)}.")
    return presets[name]
