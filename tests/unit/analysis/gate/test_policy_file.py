"""Reading a gate file: what it may say, and a sentence with its place for each slip."""

from __future__ import annotations

import datetime

import pytest

from pytest_vmstorage.analysis.gate.policy import GatePolicy, ToleranceRule, Tolerated, Waiver
from pytest_vmstorage.analysis.gate.policy_file import load_gate_file
from pytest_vmstorage.errors import ConfigError

WHOLE = """
tolerated = "8%"
day_spread = "3 %"

[[cells]]
cell = "t.py::*[qcow2-*]"
workload = "fio *"
tolerated = "15%"

[[cells]]
cell = "*"
tolerated = "history"

[[waivers]]
cell = "t.py::test_a[raw]"
reason = "QEMU issue 1234"
owner = "jane@example.org"
expires = 2027-03-31
"""


def test_a_gate_file_says_what_may_be_lost_and_what_is_waived() -> None:
    """Everything besides stays as it was."""
    before = GatePolicy(inconclusive="fail", missing="fail", today=datetime.date(2026, 1, 1))
    assert load_gate_file(WHOLE, "gate.toml", before) == before.model_copy(
        update={
            "tolerated": Tolerated(fraction=0.08),
            "day_spread": 0.03,
            "rules": (
                ToleranceRule(
                    cell="t.py::*[qcow2-*]",
                    workload="fio *",
                    tolerated=Tolerated(fraction=0.15),
                    where="gate.toml, [[cells]] 1",
                ),
                ToleranceRule(cell="*", tolerated=Tolerated(fraction=None), where="gate.toml, [[cells]] 2"),
            ),
            "waivers": (
                Waiver(
                    cell="t.py::test_a[raw]",
                    reason="QEMU issue 1234",
                    owner="jane@example.org",
                    expires=datetime.date(2027, 3, 31),
                    where="gate.toml, [[waivers]] 1",
                ),
            ),
        }
    )


def test_an_empty_file_changes_nothing() -> None:
    """What is stated on the command line stays."""
    policy = GatePolicy(tolerated=Tolerated(fraction=0.2), day_spread=0.01)
    assert load_gate_file("", "gate.toml", policy) == policy


RULE = '[[cells]]\ncell = "*"\n'
WAIVER = '[[waivers]]\ncell = "*"\nreason = "r"\nowner = "o"\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tolerated", "gate.toml is not TOML: "),
        (
            "tolerates = 1",
            "gate.toml: 'tolerates' is not known. Did you mean 'tolerated'? Known here: tolerated, day_sp",
        ),
        ('tolerated = "much"', "gate.toml: tolerated = 'much' is not a percentage"),
        ('tolerated = "0%"', "gate.toml: tolerated = '0%' is not a percentage"),
        ("tolerated = 0.15", 'gate.toml: tolerated = 0.15 is not a text. Write for example tolerated = "15%".'),
        ("day_spread = 3", 'gate.toml: day_spread = 3 is not a text. Write for example day_spread = "3%".'),
        ('day_spread = "history"', "gate.toml: day_spread = 'history' is not a percentage"),
        ('cells = "x"', "gate.toml: cells = 'x' is not a list. Write [[cells]] above each of its tables."),
        ("cells = [1]", "gate.toml: cells has 1, which is not a table. Write [[cells]] above its keys."),
        ("[waivers]", "gate.toml: waivers = {} is not a list. Write [[waivers]] above each of its tables."),
        (RULE, 'gate.toml, [[cells]] 1: tolerated is missing. Write for example tolerated = "15%".'),
        (f'{RULE}tolerated = "x"', "gate.toml, [[cells]] 1: tolerated = 'x' is not a percentage"),
        (f"{RULE}tolerated = 15", "gate.toml, [[cells]] 1: tolerated = 15 is not a text."),
        ('[[cells]]\ntolerated = "1%"', 'gate.toml, [[cells]] 1: cell is missing. Write for example cell = "test_disk'),
        (
            f'{RULE}tolerated = "1%"\n[[cells]]\ncell = 5\ntolerated = "1%"',
            'gate.toml, [[cells]] 2: cell = 5 is not a text. Write cell = "...".',
        ),
        (f'{RULE}tolerated = "1%"\nworkload = ""', "gate.toml, [[cells]] 1: workload = '' is not a text."),
        (f'{RULE}tolerated = "1%"\nreason = "x"', "gate.toml, [[cells]] 1: 'reason' is not known. Known here: cell, "),
        (WAIVER, "gate.toml, [[waivers]] 1: expires is missing. Write for example expires = 2027-03-31."),
        (
            f'{WAIVER}expires = "2027-03-31"',
            "[[waivers]] 1: expires = '2027-03-31' is not a date. Write for example expires",
        ),
        (f"{WAIVER}expires = 2027-03-31T00:00:00Z", "expires = 2027-03-31 00:00:00+00:00 is not a date. Write for"),
        ("[[waivers]]\nexpires = 2027-03-31", "[[waivers]] 1: cell is missing."),
        ('[[waivers]]\ncell = "*"\nexpires = 2027-03-31', "[[waivers]] 1: reason is missing. Write for example reason"),
        (
            '[[waivers]]\ncell = "*"\nreason = "r"\nowner = " "\nexpires = 2027-03-31',
            "[[waivers]] 1: owner = ' ' is not a text.",
        ),
        (
            f"{WAIVER}until = 1\nexpires = 2027-03-31",
            "[[waivers]] 1: 'until' is not known. Known here: cell, workload, ",
        ),
    ],
)
def test_a_slip_is_told_with_file_and_key(text: str, sentence: str) -> None:
    """One sentence, and what to do."""
    with pytest.raises(ConfigError) as caught:
        load_gate_file(text, "gate.toml", GatePolicy())
    assert sentence in str(caught.value)
    assert caught.value.hint
    assert "\n" not in str(caught.value)
