"""The shape of the project: imports point one way, three doors, a sentence for every public name."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_vmstorage"

CHAIN = (
    *("config", "results", "analysis", "report"),
    *("workloads", "host", "storage", "guest", "measure", "lab"),
    *("plugin", "cli"),
)
"""The packages: each imports only those before it and the modules at the top, which import each other alone.

`plugin` and `cli` do not know each other. `testing` may import all but these two.
"""

MOST_AT_THE_TOP = 8
"""Modules at the top of the package, its `__init__` included."""

DOORS = {
    "pytest": ("plugin", "plugin.*"),
    "_pytest": ("plugin.*",),
    "libvirt": ("guest.libvirt.hypervisor",),
    "libvirt_qemu": ("guest.libvirt.hypervisor",),
    "testinfra": ("guest.guest",),
    "tabulate": ("report.*",),
    "pytest_benchmark": ("plugin.benchmark",),
}
"""Who may import what comes from outside; of these only pytest, `_pytest` and tabulate at a module's top level."""

LATE = ("libvirt", "libvirt_qemu", "testinfra", "pytest_benchmark")

VAGUE = ("util", "helper", "manager", "common", "misc", "tools")


class Import(NamedTuple):
    """One imported module: by whom, whether when the importer is imported, and whether for type checkers alone."""

    module: str
    of: str
    at_top: bool
    for_types: bool
    line: int


def name_of(path: Path) -> str:
    """A file's module below the package: `errors`, `storage.disk`; a package by its own name."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts if parts[-1] != "__init__" or len(parts) == 1 else parts[:-1])


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}
TREES = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}


def imports_of(name: str, tree: ast.Module) -> Iterator[Import]:
    """All imports in a module, `from package import module` resolved to that module."""

    def walk(node: ast.AST, at_top: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ImportFrom):
                assert not child.level, f"{name} imports relatively in line {child.lineno}; write the whole name."
                for of in resolved(child):
                    yield Import(name, of, at_top, for_types, child.lineno)
            elif isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(name, alias.name, at_top, for_types, child.lineno)
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                typing = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)
                yield from walk(child, at_top and not inside, for_types or typing)

    return walk(tree, at_top=True, for_types=False)


def resolved(node: ast.ImportFrom) -> set[str]:
    """`pytest_vmstorage.guest` + `agent` is the module agent; + a name of it is the package itself."""
    inside = own(node.module or "")
    if inside is None:
        return {node.module or ""}
    inner = {alias.name: f"{inside}.{alias.name}".removeprefix("__init__.") for alias in node.names}
    return {f"pytest_vmstorage.{inner[name] if inner[name] in MODULES else inside}" for name in inner}


def own(module: str) -> str | None:
    """The module below our package, None for other people's."""
    head, _, rest = module.partition(".")
    return (rest or "__init__") if head == "pytest_vmstorage" else None


IMPORTS = [one for name, tree in TREES.items() for one in imports_of(name, tree)]


def package_of(module: str) -> str:
    """The package that a module lies in, "" for one at the top."""
    head, dot, _ = module.partition(".")
    return head if dot or PACKAGE.joinpath(head).is_dir() else ""


def may_import(package: str, other: str) -> bool:
    """Whether modules of the one package may import modules of the other."""
    if package in (other, "testing") or not other:
        return other not in ("plugin", "cli") or package == other
    return other in CHAIN[: CHAIN.index(package)] and (package, other) != ("cli", "plugin") if package else False


def test_the_packages_are_those_of_the_chain() -> None:
    """Each package has its place, and few modules lie beside them."""
    there = {package_of(name) for name in MODULES} - {""}
    assert there == {*CHAIN, "testing"}
    assert len([name for name in MODULES if not package_of(name)]) <= MOST_AT_THE_TOP


def test_imports_point_one_way() -> None:
    """A module imports only its own package, those before it, and the top; what type checkers alone see may be any."""
    broken = [
        f"{one.module} (line {one.line}) imports {target}, whose package is not before its own in CHAIN."
        for one in IMPORTS
        if (target := own(one.of)) is not None
        and not one.for_types
        # the public names are loaded from everywhere, when they are first used
        and one.module != "names"
        and not may_import(package_of(one.module), package_of(target))
    ]
    assert not broken, "\n".join(broken)


def test_the_documents_sentence_and_drawing_are_those_of_the_chain() -> None:
    """The sentence in its order; each arrow of the drawing's lines points at a package before the other."""
    document = ROOT / "docs" / "contributing" / "architecture.md"
    if not document.is_file():
        pytest.skip("documents are not here")
    text = document.read_text()
    sentence = re.findall(r"`(\w+)`", "".join(line for line in text.splitlines() if line.startswith("> ")))
    assert tuple(sentence) == CHAIN
    drawing = re.sub(r"\(.*\)", "", text.split("```")[1])
    assert set(re.findall(r"\w+", drawing)) == set(CHAIN)
    arrows = re.findall(r"(\w+) (?=<-+ (\w+))", drawing)
    # neighbours within a line; the others are joined from line to line
    assert len(arrows) == len(CHAIN) - 3
    assert all(CHAIN.index(to) < CHAIN.index(by) for to, by in arrows)


def test_the_document_names_every_module() -> None:
    """By package, in the order of the chain: who looks for a room finds it there."""
    document = ROOT / "docs" / "contributing" / "architecture.md"
    if not document.is_file():
        pytest.skip("documents are not here")
    rows = dict(re.findall(r"^\| (?:`(\w+)`|\(top\)) \| (.*) \|$", document.read_text(), re.MULTILINE))
    assert list(rows) == ["", *CHAIN, "testing"]
    named = {(package, word) for package, text in rows.items() for word in re.findall(r"`(\w+)`", text)}
    modules = [name for name, path in MODULES.items() if path.name != "__init__.py"]
    assert named == {(package_of(name), name.rpartition(".")[2]) for name in modules}


def test_the_tests_of_a_module_are_found() -> None:
    """At its path below tests/unit, or in a file whose docstring names it."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    if len(files) == 1:
        pytest.skip("other tests are not here")
    told = "".join(ast.get_docstring(ast.parse(path.read_text())) or "" for path in files)
    modules = [name for name, path in MODULES.items() if path.name != "__init__.py"]
    at_their_paths = {
        name
        for name in modules
        if (ROOT / "tests/unit" / MODULES[name].relative_to(PACKAGE)).with_name(f"test_{MODULES[name].name}").is_file()
    }
    assert [name for name in modules if name not in at_their_paths and f"`{name}`" not in told] == []


def test_no_two_modules_need_each_other() -> None:
    """Also in a package, imports make no circle, not even those inside functions."""
    needs: dict[str, set[str]] = {name: set() for name in MODULES}
    for one in IMPORTS:
        target = own(one.of)
        if target in MODULES and target != one.module and not one.for_types and one.module not in ("__init__", "names"):
            needs[one.module].add(target)
    while free := [name for name, wanted in needs.items() if not wanted & needs.keys()]:
        for name in free:
            del needs[name]
    circle = {name: sorted(wanted & needs.keys()) for name, wanted in needs.items()}
    assert not circle, "\n".join(f"{name} needs {', '.join(wanted)}" for name, wanted in circle.items())


def test_the_core_knows_nothing_of_the_plugin() -> None:
    """The measuring works without pytest: not even for types does anything outside plugin/ import it.

    But the list of public names, among which are the types of fixtures.
    """
    broken = [
        f"{one.module} (line {one.line}) imports {one.of}; only plugin/ may."
        for one in IMPORTS
        if own(one.of) is not None
        and fnmatchcase(f"{own(one.of)}.", "plugin.*")
        and not is_in(one.module, ("plugin", "plugin.*", "names"))
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("library", DOORS)
def test_a_library_comes_in_by_one_door(library: str) -> None:
    """Others see what the door makes of it."""
    users = [one for one in IMPORTS if one.of.partition(".")[0] == library]
    assert users, f"Nobody imports {library}; take it out of DOORS."
    broken = [
        f"{one.module} (line {one.line}) imports {library}; only {' and '.join(DOORS[library])} may."
        for one in users
        if not is_in(one.module, DOORS[library])
    ]
    assert not broken, "\n".join(broken)


def test_what_is_slow_or_may_be_missing_is_imported_when_it_is_needed() -> None:
    """A machine without libvirt collects tests, and an unused plugin costs nothing."""
    broken = [
        f"{one.module} (line {one.line}) imports {one.of} at its top level; import it in the function that needs it."
        for one in IMPORTS
        if one.of.partition(".")[0] in LATE and one.at_top and not one.for_types
    ]
    assert not broken, "\n".join(broken)


def test_what_every_pytest_run_loads_is_light() -> None:
    """From the entry point on, along top-level imports, nothing but pytest and the standard library is met."""
    seen, todo, broken = set(), ["__init__", "plugin"], []
    while todo:
        name = todo.pop()
        seen.add(name)
        for one in IMPORTS:
            if one.module != name or not one.at_top or one.for_types:
                continue
            target = own(one.of)
            if target is None and one.of.partition(".")[0] in ("pydantic", *set(DOORS) - {"pytest"}):
                broken.append(f"{name} (line {one.line}) imports {one.of}, and every pytest run loads {name}.")
            elif target is not None and target not in seen:
                todo.append(target)
    assert not broken, "\n".join(broken)


LOADED = (
    "",
    ".plugin",
    ".plugin.fixtures",
    ".plugin.hooks",
    ".plugin.hookspecs",
    ".plugin.options",
    ".plugin.plain_imports",
    ".plugin.stash",
)
"""What a run without storage tests loads of us; pytest compiles the first two anew where bytecode cannot be kept."""


def test_a_run_without_storage_tests_loads_little(tmp_path: Path) -> None:
    """No recorder, no gate, no reader of options; with -p no:vmstorage nothing at all."""
    (tmp_path / "test_it.py").write_text(
        "import sys\n\ndef test_it():\n    names = [n for n in sys.modules if n.startswith('pytest_vmstorage')]\n"
        "    print('loaded', *sorted(names))\n"
    )
    for words, loaded in (([], [f"pytest_vmstorage{name}" for name in LOADED]), (["-p", "no:vmstorage"], [])):
        argv = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *words]
        done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True)
        line = next(line for line in done.stdout.splitlines() if "loaded" in line)
        assert line.partition("loaded")[2].split() == loaded


def is_in(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a module fits one of the patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def test_names_say_what_things_are() -> None:
    """Nothing is called a helper, a manager or a util: such a name is a place for everything."""
    named = [(name, name) for name in MODULES]
    for name, tree in TREES.items():
        named += [(name, node.name) for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    broken = [
        f"{thing} in {name} says nothing; name it for what it is."
        for name, thing in named
        if any(vague in part.lower() for vague in VAGUE for part in [thing.rpartition(".")[2]])
    ]
    assert not broken, "\n".join(broken)


def test_what_a_module_keeps_to_itself_is_not_imported() -> None:
    """A name with an underscore is nobody else's; attributes of that kind are ruff's to find (SLF001)."""
    broken = [
        f"{name} (line {node.lineno}) imports {alias.name} of {node.module}."
        for name, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and own(node.module or "") is not None
        for alias in node.names
        if alias.name.startswith("_")
    ]
    assert not broken, "\n".join(broken)


def test_a_public_class_has_its_name_alone() -> None:
    """Who reads `Row` need not ask which one."""
    places: dict[str, list[str]] = {}
    for name, tree in TREES.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(name)
    broken = [f"{name} is a class in {' and '.join(those)}." for name, those in places.items() if len(those) > 1]
    assert not broken, "\n".join(broken)


def test_models_are_frozen() -> None:
    """A stage takes what the one before it made, and changes nothing of it: each pydantic model has frozen=True."""
    broken, models = [], 0
    for name, tree in TREES.items():
        for node in (one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)):
            is_model = "BaseModel" in map(ast.unparse, node.bases)
            models += is_model
            assigned = (one for one in node.body if isinstance(one, ast.Assign))
            said = [ast.unparse(one.value) for one in assigned if ast.unparse(one.targets[0]) == "model_config"]
            if (is_model and not said) or not all("frozen=True" in one for one in said):
                broken.append(f"{name}.{node.name} (line {node.lineno}) is a model that can be changed.")
    assert models
    assert not broken, "\n".join(broken)


def public(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]]:
    """Public functions and classes of a module, and public methods of its public classes."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, node
            for inner in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner


def test_every_public_name_has_its_contract() -> None:
    """Modules, public classes, functions and methods say in a docstring what they are; it ends a sentence."""
    broken = [f"{name} has no docstring." for name, tree in TREES.items() if tree.body and not ast.get_docstring(tree)]
    for name, tree in TREES.items():
        for qualified, node in public(tree):
            text = ast.get_docstring(node) or ""
            if not text.partition("\n")[0].rstrip().endswith((".", ":")):
                broken.append(
                    f"{name}.{qualified} (line {node.lineno}) has no docstring whose first line is a sentence."
                )
    assert not broken, "\n".join(broken)


def test_every_test_says_what_it_holds_true() -> None:
    """Test modules, tests, and what tests are built of have docstrings."""
    broken = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        tree = ast.parse(path.read_text())
        where = path.relative_to(ROOT)
        if tree.body and not ast.get_docstring(tree):
            broken.append(f"{where} has no docstring.")
        broken += [
            f"{where}:{node.lineno} {node.name} has no docstring."
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_") and not ast.get_docstring(node)
        ]
    assert not broken, "\n".join(broken)


def test_no_two_tests_of_a_file_have_one_name() -> None:
    """Python would silently run the second alone."""
    broken = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        names = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        broken += [f"{path.name} has {name} twice." for name in sorted(set(names)) if names.count(name) > 1]
    assert not broken, "\n".join(broken)


def test_the_checks_here_see_a_broken_arrow() -> None:
    """A check that finds nothing must be able to find something."""
    tree = ast.parse(
        "import libvirt\n"
        "from pytest_vmstorage.storage import image, nothing\n"
        "if TYPE_CHECKING:\n    from pytest_vmstorage.lab.lab import Lab\n"
        "def f():\n    from pytest_vmstorage import units, Fio\n"
    )
    found = {(own(one.of) or one.of, one.at_top, one.for_types) for one in imports_of("units", tree)}
    assert found == {
        ("libvirt", True, False),
        ("storage.image", True, False),
        ("storage", True, False),
        ("lab.lab", True, True),
        ("units", False, False),
        ("__init__", False, False),
    }
