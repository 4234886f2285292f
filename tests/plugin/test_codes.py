"""Each door through which a user sees a refusal shows its code: usage errors, cells, reports, the command.

Tests of `cli.explain`.
"""

from __future__ import annotations

import json
import re
import shlex

import pytest
from projects import RANDOM_WRITE, text_of

from pytest_vmstorage.cli.command import main
from pytest_vmstorage.cli.explain import entries

CELLS = {
    "VM101": 'fromat="raw"',
    "VM102": 'cache="writeboth"',
    "VM103": 'size="10X"',
    "VM104": 'memory="4M"',
    "VM105": 'backing="flie"',
    "VM106": 'emulator="qemu"',
    "VM107": 'guest_fs="ext4", guest_mkfs="-n"',
    "VM108": "queues=True",
    "VM110": '"2G"',
    "VM128": 'backing="lvm", preallocation="full"',
    "VM141": 'preallocation="metadata"',
    "VM145": 'cluster_size="64k"',
    "VM161": 'io="native", cache="writeback"',
    "VM164": 'bus="ide", machine="q35"',
}
"""What a mark says, by the code of its refusal."""

OPTIONS = {
    "VM201": "--vm-rounds=many",
    "VM202": "--vm-confirm",
    "VM206": "--vm-without=snyc",
    "VM207": "--vm-against=cahce=none",
    "VM210": "--vm-host=a,,b",
    "VM213": "--vm-report=out.docx",
    "VM215": "--vm-matrix=gone.toml",
    "VM216": "--vm-matrix=broken.toml",
    "VM230": "--vm-matrix=odd.toml",
    "VM235": "--vm-columns=iosp",
    "VM250": "--vm-baseline=gone",
}

CALLS = {
    "VM301": 'Fio(rw="rnadwrite")',
    "VM303": 'Fio(rw="read", extra={"bs": "8k"})',
    "VM306": 'measure(Fio(rw="read", size="9T"))',
    "VM307": "measure(Tar())",
    "VM314": "measure(Fio)",
    "VM315": "measure(ImageOperations())",
    "VM318": 'measure(FIO, rounds="3")',
}
"""What a test does in a cell."""

COMMANDS = {
    "VM240": "run --foi rw=read",
    "VM241": "run --fio rw=read --axis cache",
    "VM242": "run --fio rw=read --axis cache=none --storage cache=none",
    "VM243": "run",
    "VM245": "exec 20260101-120000",
    "VM247": "time",
    "VM250": "show raw gone",
    "VM262": "explain VM999",
}


@pytest.fixture(autouse=True)
def _shipped_workloads_alone(monkeypatch):
    """Workloads that other tests of this process define are no user's own, with metrics that nobody knows."""
    monkeypatch.setattr("pytest_vmstorage.workloads.metrics._own", lambda _kind: ())


def test_a_refusal_is_seen_with_its_code_through_each_door(project, capsys, monkeypatch):
    """More than thirty of them, at the end of a line, and each is explained."""
    marks = "\n".join(f"@pytest.mark.storage({said})\ndef test_{code}(measure): ..." for code, said in CELLS.items())
    project.write(test_cells=f"import pytest\n{marks}\n", broken__toml="[axes", odd__toml='[axis]\nbus = ["ide"]\n')
    text = text_of(project.run("test_cells.py"))
    assert "`vmstorage explain CODE` says more." in text
    seen = {code for code in CELLS if re.search(rf"::test_{code}: .* \[{code}\]$", text, re.MULTILINE)}
    assert seen == {*CELLS}

    project.write(test_plain="def test_it(measure): ...")
    for code, option in OPTIONS.items():
        text = text_of(project.run("test_plain.py", option))
        assert re.search(rf"ERROR: .* \[{code}\]\n`vmstorage explain {code}` says more\.$", text, re.MULTILINE), text

    monkeypatch.chdir(project.path)
    capsys.readouterr()
    for code, words in COMMANDS.items():
        assert main(words.split()) in (1, 4)
        said = capsys.readouterr().err
        assert re.search(rf"^vmstorage: .* \[{code}\]\n.*`vmstorage explain {code}`", said, re.MULTILINE), said
    assert len({*CELLS, *OPTIONS, *CALLS, *COMMANDS}) > 30
    assert entries().keys() >= {*CELLS, *OPTIONS, *CALLS, *COMMANDS}


IN_CONTEXT = ("VM226", "VM236", "VM246", "VM248", "VM249", "VM251", "VM252", "VM253")
"""Codes whose example is refused so only beside a certain file, or without a certain package."""


def test_the_examples_of_options_and_of_the_command_are_refused_with_their_code(project, capsys, monkeypatch):
    """What an entry shows is what is refused with it."""
    project.write(test_it="from pytest_vmstorage import Fio\ndef test_it(measure): measure(Fio(rw='read', runtime=1))")
    monkeypatch.chdir(project.path)
    tried = 0
    for code, entry in entries().items():
        if code in IN_CONTEXT or code[:3] not in ("VM1", "VM2"):
            continue
        if entry.example.startswith("vmstorage "):
            assert main(shlex.split(entry.example)[1:]) in (1, 4)
            text = capsys.readouterr().err
        elif entry.example.startswith("-"):
            text = text_of(project.run("test_it.py", *shlex.split(entry.example)))
        else:
            continue
        tried += 1
        assert re.search(rf" \[{code}\]$", text, re.MULTILINE), (entry, text)
    assert tried >= 30


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["one process", "xdist"])
def test_a_cell_without_a_figure_has_the_code_in_text_and_reports(project, workers):
    """In the failure, in the section of the report, and as a field of its own in JSON and CSV, by xdist's wire too."""
    calls = "\n".join(f"def test_{code}(measure): {call}" for code, call in CALLS.items())
    project.write(test_it=f"{RANDOM_WRITE}from pytest_vmstorage import ImageOperations, Tar\n{calls}\n")
    result = project.run("--vm-report=out.json", "--vm-report=out.csv", *workers, own_process=bool(workers))
    text = text_of(result)
    report = json.loads((project.path / "out.json").read_text())
    found = {one["nodeid"].partition("::test_")[2]: one["code"] for one in report["failures"]}
    assert found == {code: code for code in CALLS}
    assert text.count("`vmstorage explain CODE` says more") == 1
    for code in CALLS:
        assert text.count(f" [{code}]") >= 2, (code, text)
    header, *rows = (project.path / "out.csv").read_text().splitlines()
    assert "failure,code," in header
    assert len([row for row in rows if re.search(r"\[(VM\d{3})\]\"?,\1,", row)]) == len(CALLS)
