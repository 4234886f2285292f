"""The shape of the project: imports point one way, three doors, a sentence for every public name."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "pytest_vmstorage"

LAYERS = """
    names  plain_text
    __init__  errors  say  stats  division  process  timeline
    spans
    ssh  draft  temporary  meanwhile  ownership  user_input  guard
    units  cpus  command  steady  stopping  hygiene  host_wishes  provision.lease  rules.rule  pairs  history  shared
    cache  mkfs_options  qcow2_cache
    rules.image  rules.ground  toml_keys  stable_id
    rules.device
    rules
    file_system  outcome
    image_choice  host_files
    parked_fio
    device_stat  config  inventory  provision.kernel  provision.debian  provision.initrd  provision.recipe
    recipe
    machine_file
    matrix  budget  accounting  provision.encryption  host_choice  inventory_file  provision.device  provision.volume
    provision.node  cost  provision.emulator  provision.layers  provision.passphrases  selector
    host_look  provision.space  provision.testdisk
    host_state  provision.pinning  provision.host_settings
    caution
    results
    matrix_file  claim  natives
    workloads.chosen
    workloads.base  workloads  workloads.fio_json  workloads.stopwatch
    workloads.fio_reading  workloads.fio_slips  workloads.fio_text  workloads.file_workload
    workloads.fio_job_file
    workloads.fio_job
    workloads.fio  workloads.dd  workloads.hdparm
    workloads.image_operations
    workloads.ioping  workloads.tar  workloads.postmark  workloads.sqlite  workloads.web  workloads.iozone
    workloads.fio_presets  workloads.known
    journal  subject
    filling  forgetting
    preconditioning  taken
    runner
    baseline  loss  fingerprint  tolerance
    sequential  days  verdict  gate_file
    judging
    gate  pairing
    report.columns  report.native  report.circumstances  report.spread  report.summary  report.si  report
    report.time_spent  report.trace_events  report.outcomes  report.notes
    couples  bounds
    between  effects
    assertions  report.effects
    report.footer  report.curves  report.maps
    report.table
    report.text  report.markdown  report.csv_file
    report.pull_request
    report.files  show  promote
    provision.header  provision.seed  provision.image_ssh  provision.confinement
    provision.guest_image
    provision.domain  provision.disk  provision.rootfs  provision.adopt  provision.capabilities_cache
    provision.contract
    provision.caches  provision.save_image  provision.event_loop  provision.exclusive
    provision.libvirt_text  provision.starts  provision.run_folder
    provision
    provision.host_fs  provision.host_fill  provision.image_files  provenance  guest_facts
    provision.block  provision.image_volumes  provision.connection  provision.guest_events
    attest_image  attest_block  attest_fs  guest_fs  scheduler  provision.fragments  provision.hostdisk
    provision.hypervisor  provision.accel  provision.appliance
    provision.boot  provision.embedded  provision.states  provision.orphans
    provision.machine_disk  facts  zeros  machine_facts
    provision.reaper
    provision.machine
    provision.pool
    provision.canary
    agent  evidence  image_guest
    reach  parking
    restoring
    guest  attest_layers  attest_limits  attest_emulator
    attest_guest  attest_null
    attest  kernel_log
    attest_native  attest_machine
    native
    machine_row
    recheck  rows  made_file  symptoms
    looks  machines
    attest_images  subjects
    image_runner  beside
    image_bench  lab_settings  ahead
    lab
    machine_lab
    opening
    kept
    testing.builders  testing.shell  testing.monitor  testing.command_words
    testing.guest_processes
    testing.hypervisor  testing.images
    testing.lab
    testing.bench
    testing
    doctor  doctor.finding  doctor.trials
    doctor.seen  doctor.listed
    doctor.image  doctor.device  doctor.ground
    doctor.axes
    doctor.examine
    doctor.text
    cli
    plugin.option_table  plugin.plain_imports
    plugin.keys  plugin.hookspecs  plugin.live  plugin.explain  plugin.benchmark  plugin.post  plugin.schedule
    plugin.timing  plugin.outcomes
    plugin.options  plugin.axes  plugin.turns  plugin.ending
    plugin.gate_options  plugin.image_options  plugin.workers
    plugin.between
    plugin.fixtures
    plugin.sweep  plugin.forecast  plugin.devices  plugin.emulators  plugin.machines  plugin.gating
    plugin.sharing
    plugin.session
    plugin.passes
    plugin.plan  plugin.ruling
    plugin.recorder
    plugin.carry  plugin.preflight  plugin.controller
    plugin.own
    plugin.measuring
    plugin.hooks
    plugin
"""
"""Top to bottom: a module imports only from lines above its own; a package stands for its `__init__`."""

DOORS = {
    "pytest": ("plugin", "plugin.*"),
    "_pytest": ("plugin.*",),
    "libvirt": ("provision.hypervisor",),
    "libvirt_qemu": ("provision.hypervisor",),
    "testinfra": ("guest",),
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
    """A file's module below the package: `config`, `provision.disk`; a package by its own name."""
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
    """`pytest_vmstorage.provision` + `accel` is the module accel; + a name of it is the module itself."""
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


def layers() -> dict[str, int]:
    """Each module's line in LAYERS."""
    lines = enumerate(line.split() for line in LAYERS.strip().splitlines())
    return {name: number for number, names in lines for name in names}


def test_every_module_has_its_layer() -> None:
    """A new module is given a place in LAYERS, and one that is gone leaves the list."""
    known, there = set(layers()), set(MODULES)
    assert not there - known, f"LAYERS in {Path(__file__).name} lacks: {', '.join(sorted(there - known))}."
    assert not known - there, f"LAYERS in {Path(__file__).name} still has: {', '.join(sorted(known - there))}."
    assert len(LAYERS.split()) == len(known), "A module stands in LAYERS twice."


def test_imports_point_one_way() -> None:
    """A module imports only from layers above its own; what type checkers alone see may point anywhere."""
    place = layers()
    broken = [
        f"{one.module} (line {one.line}) imports {target}, which is not above it in LAYERS."
        for one in IMPORTS
        if (target := own(one.of)) is not None and not one.for_types and place[target] >= place[one.module]
    ]
    assert not broken, "\n".join(broken)


def test_the_core_knows_nothing_of_the_plugin() -> None:
    """The measuring works without pytest: not even for types does anything outside plugin/ import it."""
    broken = [
        f"{one.module} (line {one.line}) imports {one.of}; only plugin/ may."
        for one in IMPORTS
        if own(one.of) is not None
        and fnmatchcase(f"{own(one.of)}.", "plugin.*")
        and not is_in(one.module, ("plugin", "plugin.*"))
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
    ".plugin.keys",
    ".plugin.option_table",
    ".plugin.plain_imports",
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
        "from pytest_vmstorage.provision import accel, nothing\n"
        "if TYPE_CHECKING:\n    from pytest_vmstorage.lab import Lab\n"
        "def f():\n    from pytest_vmstorage import guest, Fio\n"
    )
    found = {(own(one.of) or one.of, one.at_top, one.for_types) for one in imports_of("units", tree)}
    assert found == {
        ("libvirt", True, False),
        ("provision.accel", True, False),
        ("provision", True, False),
        ("lab", True, True),
        ("guest", False, False),
        ("__init__", False, False),
    }
