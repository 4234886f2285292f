"""What the documents print, made anew: the command behind script/outputs.

    script/outputs [NAME ...]

docs/outputs/NAME.sh is run at the root of the clone, and what it prints stands in every page that names it, under the
commit that made it. Where the package has changes that no commit has, that would be a lie, and nothing is run. Ends
with status 1 where a script failed, whose pages stay as they are.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from documents import OUTPUTS, ROOT, blocks_of, pages, with_output

PRODUCT = ("pytest_vmstorage", "pyproject.toml", "examples", "script/setup")
"""What decides what is printed, beside the scripts themselves."""

NOT_PASSED_ON = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "CI", "GITHUB_STEP_SUMMARY", "FORCE_COLOR", "PY_COLORS")
SHOWS_FIGURES = re.compile(r"\d ?k? IOPS|\d [KMG]i?B/s|±")


class OutputError(Exception):
    """Why an output was not made."""


def git(root: Path, *words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def commit_of(root: Path) -> str:
    """The commit that a run of this clone is of; raises OutputError where it is of none."""
    changed = git(root, "status", "--porcelain", "--", *PRODUCT)
    if changed:
        raise OutputError(f"these have changes that no commit has, which would be named: commit them first.\n{changed}")
    return git(root, "rev-parse", "--short=7", "HEAD")


def printed_by(script: Path, root: Path) -> str:
    """What the script prints, without blanks at the ends of lines; raises OutputError."""
    environ = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    environ |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}",
        "PYTHONPATH": str(root),
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    done = subprocess.run(["bash", script], cwd=root, env=environ, capture_output=True, text=True, check=False)
    lines = [line.rstrip() for line in done.stdout.strip("\n").splitlines()]
    text = "\n".join(lines)
    if done.returncode:
        raise OutputError(f"it ended with status {done.returncode}: {done.stderr.strip() or text}")
    if not text.strip():
        raise OutputError("it printed nothing")
    for wrong in (f"{root}/", "/tmp/", "```", "\x1b"):
        if wrong in text:
            raise OutputError(f"it printed {wrong!r}: {next(line for line in lines if wrong in line)}")
    return text


def title_of(commit: str, before: str, text: str, script: str) -> str:
    """The title of a block: what its earlier one said behind the commit stays, and figures name their acceleration."""
    behind = before.partition(",")[2].strip()
    if not behind and SHOWS_FIGURES.search(text) and "--vm-accel=tcg" in script:
        behind = "under software emulation (TCG)"
    return f"printed at {commit}" + (f", {behind}" if behind else "")


def write(root: Path, name: str, text: str, commit: str, script: str) -> list[str]:
    """Put a text into each page that names it; returns these pages."""
    written = []
    for page in pages(root):
        path = root / page
        old = path.read_text(encoding="utf-8")
        titles = [block.title for block in blocks_of(page, old) if name in block.values("output")]
        if titles:
            title = title_of(commit, titles[0], text, script)
            path.write_text(with_output(page, old, name, text, title), encoding="utf-8")
            written.append(page)
    return written


def make(root: Path, name: str, commit: str) -> None:
    """Run a script and write what it prints; raises OutputError."""
    script, library = root / "docs" / "outputs" / f"{name}.sh", root / "docs" / "outputs" / "lib"
    begin = time.monotonic()
    text = printed_by(script, root)
    source = script.read_text() + (library.read_text() if library.exists() else "")
    written = write(root, name, text, commit, source)
    if not written:
        raise OutputError(f"no page has <!-- output: {name} -->")
    print(f"{name}: {time.monotonic() - begin:.0f} s, {', '.join(written)}", flush=True)


def main() -> int:
    """Make those that were named, or all."""
    parser = argparse.ArgumentParser(prog="script/outputs", description=(__doc__ or "").partition("\n")[0])
    known = sorted(path.stem for path in OUTPUTS.glob("*.sh"))
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(known)} (default: all)")
    names = parser.parse_args().names or known
    if unknown := set(names) - set(known):
        parser.error(f"there is no docs/outputs/{min(unknown)}.sh")
    failed = 0
    try:
        commit = commit_of(ROOT)
    except OutputError as error:
        parser.error(str(error))
    for name in names:
        try:
            make(ROOT, name, commit)
        except OutputError as error:
            print(f"{name}: {error}", file=sys.stderr, flush=True)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
