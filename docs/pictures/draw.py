# /// script
# requires-python = ">=3.11"
# dependencies = ["rich>=14,<16"]
# ///
"""Draw a terminal: docs/pictures/NAME.sh is run at the root of the clone, and what it prints becomes NAME.svg.

    python docs/pictures/draw.py [NAME ...]

Needs an environment with the package, pytest and rich. The picture holds its text as text, and no font: it takes the
reader's own.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

HERE: Final = Path(__file__).parent
COLUMNS: Final = 100

TEMPLATE: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}" role="img">
<title>TITLE</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
<rect width="100%" height="100%" rx="8" fill="#191919"/>
<g clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""rich's own without the frame of a window and without fonts of another server."""


def printed(name: str) -> str:
    """What the script prints, with the terminal's colours."""
    folder = Path(sys.executable).parent
    environ = {**os.environ, "COLUMNS": str(COLUMNS), "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", HERE / f"{name}.sh"], cwd=HERE.parents[1], env=environ, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


def drawn(text: str, title: str) -> str:
    """The terminal as SVG."""
    console = Console(record=True, width=COLUMNS + 4, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Padding(Text.from_ansi(text.rstrip("\n")), (1, 2)))
    svg = console.export_svg(title="", theme=DIMMED_MONOKAI, code_format=TEMPLATE)
    return "\n".join(line.rstrip() for line in svg.replace("TITLE", title).splitlines()) + "\n"


if __name__ == "__main__":
    for one in sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.sh")):
        (HERE / f"{one}.svg").write_text(drawn(printed(one), f"A terminal: {one}"), encoding="utf-8")
