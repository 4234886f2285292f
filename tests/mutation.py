"""Which changed lines of the package the tests catch: lines chosen by a seed, one of them changed at a time.

    script/mutate --seed 19 [--count 40] [--full]

A line is one with a comparison, a number, a truth value or a returned value; what is changed in it is chosen by the
seed too. The checkout is copied, and only copies are changed. A mutant first meets the unit tests that run its line (as
one coverage run says, kept for as long as no file changes), then mypy, all unit tests, the plugin's, and with --full
the real guests. The last line is the sum; ends with status 0 where at least nine of ten are caught.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = "pytest_vmstorage"
WORKERS = 2
LIMIT_S = 1800
"""One step of one mutant; what takes longer runs in a circle, and was caught."""

_OPPOSITE = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.In: "not in", ast.NotIn: "in", ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
_NOT_RUN = ("annotation", "returns", "type_params")
"""Fields of syntax nodes that only a type checker reads."""


class Mutation(NamedTuple):
    """A piece of one line of a file, and what stands there instead."""

    file: str
    line: int
    begin: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def of(self, text: str) -> str:
        """The file's text with it."""
        lines = text.splitlines(keepends=True)
        # the columns of syntax nodes count bytes
        line = lines[self.line - 1].encode()
        lines[self.line - 1] = (line[: self.begin] + self.after.encode() + line[self.end :]).decode()
        return "".join(lines)


class Result(NamedTuple):
    """What came of a mutation: by what it was caught, or an empty text."""

    mutation: Mutation
    by: str


def mutations(file: str, text: str) -> Iterator[Mutation]:
    """All that can be changed in a module."""
    lines = [line.encode() for line in text.splitlines()]
    for node in run_nodes(ast.parse(text)):
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
                yield from _compared(file, lines, left, operator, right)
        elif isinstance(node, ast.expr | ast.stmt) and node.lineno == node.end_lineno:
            after = _instead(node)
            if after:
                begin, end = node.col_offset, node.end_col_offset or 0
                before = lines[node.lineno - 1][begin:end].decode()
                yield Mutation(file, node.lineno, begin, end, before, after)


def _compared(
    file: str, lines: list[bytes], left: ast.expr, operator: ast.cmpop, right: ast.expr
) -> Iterator[Mutation]:
    """The opposite operator; where it stands in one line with what is left and right of it."""
    if left.end_lineno == right.lineno and left.end_col_offset is not None:
        # a bracket that closes before it, or opens behind it, stays
        word = re.compile(rb"not in|is not|in\b|is\b|[<>=!]=|[<>]").search(lines[right.lineno - 1], left.end_col_offset)
        if word:
            yield Mutation(file, right.lineno, *word.span(), word[0].decode(), _OPPOSITE[type(operator)])


def _instead(node: ast.expr | ast.stmt) -> str:
    """What to write in place of a number, a truth value or a return; empty for all else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        return repr(not node.value if isinstance(node.value, bool) else node.value + 1)
    is_value = isinstance(node, ast.Return) and node.value is not None and ast.unparse(node.value) != "None"
    return "return None" if is_value else ""


def run_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one, without annotations, texts with braces, and what type checkers alone see."""
    for name, value in ast.iter_fields(node):
        if name in _NOT_RUN:
            continue
        for child in value if isinstance(value, list) else [value]:
            is_for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr) and not is_for_types:
                yield child
                yield from run_nodes(child)


def chosen(root: Path, seed: int, count: int) -> list[Mutation]:
    """The mutations of a seed: so many lines, and one change in each."""
    by_line: dict[tuple[str, int], list[Mutation]] = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        for one in mutations(str(path.relative_to(root)), path.read_text()):
            by_line.setdefault((one.file, one.line), []).append(one)
    draw = random.Random(seed)
    return [draw.choice(by_line[key]) for key in sorted(draw.sample(sorted(by_line), count))]


def files_of(root: Path) -> list[str]:
    """All files of the checkout, without what is ignored."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return sorted(name for name in listing.stdout.split("\0") if name and (root / name).is_file())


def copy_of(root: Path, folder: Path) -> Path:
    """The checkout's files, copied."""
    for name in files_of(root):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / name, folder / name)
    return folder


def run(tree: Path, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A Python module with its words, in which the package is the tree's; killed after `LIMIT_S`."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONUNBUFFERED": "1", **variables}
    process = subprocess.Popen(
        [sys.executable, "-m", *argv], cwd=tree, env=environment, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    timer = threading.Timer(LIMIT_S, os.killpg, (process.pid, 9))
    timer.start()
    output = process.communicate()[0]
    timer.cancel()
    return subprocess.CompletedProcess(argv, process.returncode, output)


COVERAGE = """
[run]
source = pytest_vmstorage
dynamic_context = test_function
parallel = true
patch = subprocess
data_file = {data}
"""


def contexts(root: Path) -> dict[str, dict[int, list[str]]]:
    """For each file of the package and line of it the unit tests that run it, as pytest's words for them."""
    from coverage import CoverageData

    names = [name for name in files_of(root) if name.startswith((PACKAGE, "tests/unit", "tests/plugin"))]
    digest = hashlib.sha256(b"".join(name.encode() + (root / name).read_bytes() for name in names)).hexdigest()[:16]
    kept = root / ".vmstorage" / "mutate" / f"{digest}.coverage"
    if not kept.exists():
        print("running the unit tests once, to learn which of them run which line", file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            tree = copy_of(root, Path(folder, "tree"))
            Path(folder, "rc").write_text(COVERAGE.format(data=Path(folder, "data")))
            words = ("-q", "-n", str(WORKERS), "--dist", "worksteal", "-p", "no:cacheprovider")
            rc = f"--rcfile={folder}/rc"
            # that one is slow, and runs no line that no other test runs
            where = ("tests/unit", "--ignore=tests/unit/analysis/gate/test_simulation.py")
            done = run(tree, "coverage", "run", rc, "-m", "pytest", *words, *where)
            if not done.returncode:
                # one that fails anyway would seem to catch every mutant that reaches it
                done = run(tree, "pytest", *words, "tests/plugin")
            if done.returncode:
                sys.exit(f"the tests fail where nothing was changed:\n{done.stdout[-4000:]}")
            run(tree, "coverage", "combine", "-q", rc)
            kept.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(Path(folder, "data"), kept)
    data = CoverageData(str(kept))
    data.read()
    files = [path.relative_to(root) for path in (root / "tests" / "unit").rglob("test_*.py")]
    # pytest imports them from tests/, the first folder above them that is no package
    places = {".".join(path.with_suffix("").parts[1:]): str(path) for path in files}
    known = {
        PACKAGE + file.rpartition(f"/{PACKAGE}")[2]: {
            line: sorted({test for context in found if (test := test_of(context, places))})
            for line, found in data.contexts_by_lineno(file).items()
        }
        for file in data.measured_files()
    }
    if not any(tests for lines in known.values() for tests in lines.values()):
        # each mutant would meet all tests, and that takes hours
        sys.exit("coverage names no test of tests/unit: test_of() does not understand its contexts.")
    return known


def test_of(context: str, places: dict[str, str]) -> str:
    """pytest's word for a coverage context, `unit.test_units.test_sizes`; empty where it is none of our tests."""
    module, _, name = context.rpartition(".")
    return f"{places[module]}::{name}" if module in places else ""


def caught(tree: Path, mutation: Mutation, tests: Sequence[str], *, full: bool) -> str:
    """What catches a mutant that lies in the tree: a test's id, or how else it was; empty where nothing does."""
    common = ("pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider")
    workers = ("-n", str(WORKERS), "--dist", "worksteal")
    steps: list[tuple[str, ...]] = [(*common, *(workers if len(tests) > 30 else ()), *tests)] if tests else []
    steps += [
        ("mypy",),
        (*common, *workers, "tests/unit", "tests/test_architecture.py"),
        (*common, *workers, "tests/plugin"),
    ]
    if full:
        steps.append((*common, "tests/guest"))
    for step in steps:
        done = run(tree, *step)
        if done.returncode:
            return first_failure(step[0], done)
    return ""


def first_failure(what: str, done: subprocess.CompletedProcess[str]) -> str:
    """The first test that failed, or how else the run ended."""
    if done.returncode == -9:
        return f"{what}: no end"
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if found:
        return found[1]
    last = next((line for line in reversed(done.stdout.splitlines()) if line.strip()), "")
    return f"{what}: {last.strip()[:90]}"


class Trees:
    """Copies of the checkout in each of which one mutant at a time lies."""

    def __init__(self, root: Path, folder: Path, tests: dict[str, dict[int, list[str]]], *, full: bool) -> None:
        self._free = [copy_of(root, folder / str(number)) for number in range(WORKERS)]
        self._tests = tests
        self._full = full
        self._now = 0

    def __call__(self, mutation: Mutation) -> Result:
        """Try a mutant."""
        tree = self._free.pop()
        path = tree / mutation.file
        text, times = path.read_text(), path.stat()
        path.write_text(mutation.of(text))
        # Python tells by time and size whether its bytecode is of this text
        self._now += 2
        os.utime(path, (times.st_mtime + self._now, times.st_mtime + self._now))
        try:
            tests = self._tests.get(mutation.file, {}).get(mutation.line, [])
            result = Result(mutation, caught(tree, mutation, tests, full=self._full))
        finally:
            path.write_text(text)
            os.utime(path, (times.st_mtime, times.st_mtime))
            self._free.append(tree)
        print(row(result), flush=True)
        return result


def row(result: Result) -> str:
    """A line of the table."""
    one = result.mutation
    return f"{one!s:44} {one.before[:40]} -> {one.after}   {result.by or 'SURVIVED'}"


def main() -> int:
    """Choose, try, tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True, help="which lines")
    parser.add_argument("--count", type=int, default=40, help="how many lines; 40")
    parser.add_argument("--full", action="store_true", help="a mutant that survives meets real guests too")
    parser.add_argument("--list", action="store_true", help="only say what would be changed")
    options = parser.parse_args()
    todo = chosen(ROOT, options.seed, options.count)
    if options.list:
        print("\n".join(row(Result(one, "-")) for one in todo))
        return 0
    tests = contexts(ROOT)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(Trees(ROOT, Path(folder), tests, full=options.full), todo))
    count = sum(bool(one.by) for one in found)
    print(f"seed {options.seed}: {count} of {len(found)} caught, {len(found) - count} survived")
    return 0 if count * 10 >= len(found) * 9 else 1


if __name__ == "__main__":
    sys.exit(main())
