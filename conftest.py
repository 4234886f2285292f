"""What pytest wants in the top folder and nowhere else."""

from __future__ import annotations

pytest_plugins = ["pytester"]
