"""The matrix file: what it may say, the cells it comes to, and what is left out and why."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from pytest_vmstorage.config import matrix as module
from pytest_vmstorage.config.cell import AXES, StorageConfig
from pytest_vmstorage.config.matrix import ExcludedCell, Matrix, load_matrix, value_of
from pytest_vmstorage.config.selection import pairs_of, reduce_pairwise, varying
from pytest_vmstorage.errors import ConfigError

SWEEP = '[axes]\nbus = ["ide", "virtio-blk"]\nformat = ["qcow2", "raw"]\ncache = ["none", "writeback"]\n'


def load(text: str) -> Matrix:
    """The matrix of that text."""
    return load_matrix(text, "m.toml")


def ids(text: str, **fixed: Any) -> list[str]:
    """The cells of that text."""
    return [str(cell) for cell in load(text).expand(fixed).cells]


def left_out(text: str) -> list[tuple[str, str]]:
    """What that text leaves out, and why."""
    return [tuple(one) for one in load(text).expand().left_out]


def test_cells_stand_in_the_axes_order_with_values_in_the_files() -> None:
    """The order of lines says nothing, that of values does; the last axis changes fastest."""
    assert ids(SWEEP) == [
        f"{form}-{cache}-{bus}"
        for form in ("qcow2", "raw")
        for cache in ("none", "writeback")
        for bus in ("ide", "virtio-blk")
    ]


def test_a_cell_is_the_configuration_that_its_id_says() -> None:
    """Swept values and fixed ones, in each cell."""
    matrix = load(SWEEP + '[storage]\nsize = "2G"\nstate = "fresh"\n')
    cell = matrix.expand().cells[-1]
    assert dict(cell.values) == {"format": "raw", "cache": "writeback", "bus": "virtio-blk"}
    assert cell.config == StorageConfig(cache="writeback", size=2 * 2**30, state="fresh")


def test_an_exclude_rule_leaves_out_what_matches_all_of_it() -> None:
    """Lists are alternatives, the reason is kept, and the first rule that matches is named."""
    text = SWEEP + (
        '[[exclude]]\nformat = "raw"\ncache = ["writeback", "unsafe"]\nreason = "of no interest"\n'
        '[[exclude]]\nbus = "ide"\nformat = "raw"\n'
    )
    assert left_out(text) == [
        ("raw-none-ide", "exclude rule 2"),
        ("raw-writeback-ide", "exclude rule 1 (of no interest)"),
        ("raw-writeback-virtio-blk", "exclude rule 1 (of no interest)"),
    ]
    assert "raw-none-virtio-blk" in ids(text)
    assert len(ids(text)) == 5


def test_a_cell_must_match_one_of_the_only_rules() -> None:
    """Any of them will do, and an exclude rule is stronger."""
    text = SWEEP + '[[only]]\nformat = "qcow2"\nbus = "ide"\n[[only]]\nbus = "virtio-blk"\nreason = "the fast one"\n'
    assert ids(text) == [
        "qcow2-none-ide",
        "qcow2-none-virtio-blk",
        "qcow2-writeback-ide",
        "qcow2-writeback-virtio-blk",
        "raw-none-virtio-blk",
        "raw-writeback-virtio-blk",
    ]
    assert left_out(text)[0] == ("raw-none-ide", "no only rule matches (the fast one)")
    assert len(ids(text + '[[exclude]]\nformat = "raw"\n')) == 4


@pytest.mark.parametrize(("size", "count"), [('"2G"', 4), ("2147483648", 4), ('["1G", "2048M"]', 4), ('"1G"', 8)])
def test_rules_compare_what_values_mean(size: str, count: int) -> None:
    """A rule may name any field, also one that is not swept, however its value is written."""
    assert len(ids(SWEEP + f'[storage]\nsize = "2048M"\n[[exclude]]\nsize = {size}\nbus = "ide"\n')) == count


def test_a_rule_may_name_a_default() -> None:
    """A field that the file does not mention has its default, in cells that cannot exist too."""
    text = '[axes]\nformat = ["raw", "qcow2"]\npreallocation = ["off", "metadata"]\n[[exclude]]\nformat = "raw"\n'
    assert ids(text + 'state = "filled"\npreallocation = "metadata"\n') == ["raw-off", "qcow2-off", "qcow2-metadata"]
    with pytest.raises(ConfigError, match="raw-metadata cannot exist"):
        load(text + 'state = "fresh"\npreallocation = "metadata"\n')


METADATA = '[axes]\nformat = ["raw", "qcow2"]\npreallocation = ["metadata", "off"]\ncache = ["none", "unsafe"]\n'


def test_an_impossible_cell_is_an_error_with_its_rule_and_source() -> None:
    """The cells are named and counted, with what to do; the reason is that of make_config."""
    with pytest.raises(ConfigError) as caught:
        load(METADATA)
    said = str(caught.value)
    cells = "raw-none-metadata, raw-unsafe-metadata"
    assert said.startswith(f"m.toml has 2 impossible cells: {cells} cannot exist: raw has no metadata to preallocate")
    assert "(rule raw-metadata; source: qemu-img" in said
    assert 'Add an [[exclude]] for it, or impossible = "leave-out"' in said
    with pytest.raises(
        ConfigError, match=r"m.toml has 5 impossible cells: raw-none-metadata, .* and 2 more cannot exist"
    ):
        load(METADATA.replace('"unsafe"', '"unsafe", "writeback", "writethrough", "directsync"'))


def test_an_impossible_cell_can_be_left_out() -> None:
    """At the top of the file, once for all; the reason is kept and has no cell's name in it."""
    text = 'impossible = "leave-out"\n' + METADATA
    assert "raw-none-metadata" not in ids(text)
    (first, reason), (second, again) = left_out(text)
    assert (first, second) == ("raw-none-metadata", "raw-unsafe-metadata")
    assert reason == again
    assert reason.startswith("cannot exist: raw has no metadata")
    assert len(ids(text)) == 6


def test_an_excluded_cell_may_be_impossible() -> None:
    """What a rule leaves out is no fault."""
    text = METADATA + '[[exclude]]\nformat = "raw"\npreallocation = "metadata"\n'
    assert len(ids(text)) == 6
    assert {reason for _, reason in left_out(text)} == {"exclude rule 1"}


def test_what_a_test_fixes_is_not_swept() -> None:
    """Rules and pairs are those of what is left; a value that the file has not is as good."""
    text = SWEEP + '[[exclude]]\nformat = "raw"\ncache = "writeback"\n'
    assert ids(text, format="raw") == ["none-ide", "none-virtio-blk"]
    assert ids(text, format="qcow2", size="3G") == [
        "none-ide",
        "none-virtio-blk",
        "writeback-ide",
        "writeback-virtio-blk",
    ]
    assert ids(text, bus="sata") == ["qcow2-none", "qcow2-writeback", "raw-none"]
    assert load(text).expand({"bus": "sata"}).cells[0].config == StorageConfig(format="qcow2", bus="sata")
    assert ids(text, format="raw", cache="writeback") == []


def test_a_rule_that_meets_nothing_is_known() -> None:
    """Most often it is a slip."""
    text = SWEEP + '[[exclude]]\nbus = "sata"\n[[exclude]]\nbus = "ide"\n[[only]]\nformat = "raw"\n'
    assert load(text).expand().idle == ("exclude rule 1",)


SLIPS = {
    "toml": ("[axes]\nformat = [\n", r"m\.toml is not TOML: .*line"),
    "key": ('colour = 1\n[axes]\nbus = ["ide"]\n', r"m\.toml: 'colour' is not known\. Known here: axes, storage,"),
    "no axes": ('[storage]\nbus = "ide"\n', r"m\.toml, \[axes\]: there is no axis\."),
    "axes": ("axes = 3\n", r"m\.toml: axes = 3 is not a table\."),
    "axis": ('[axes]\ncolour = ["red"]\n', r"m\.toml, \[axes\]: 'colour' is not known\. Known here: format,"),
    "no axis": ('[axes]\nsize = ["1G"]\n', r"\[axes\]: size is not an axis\. Give it one value in \[storage\]"),
    "no list": ('[axes]\nformat = "raw"\n', r"format = 'raw' is not a list of values\. Write format = \[\.\.\.\]"),
    "empty": ("[axes]\nformat = []\n", r"format = \[\] is not a list"),
    "value": (
        '[axes]\ncache = ["writethru"]\n',
        r"\[axes\]: cache='writethru' is not known\. It should be .*'writethrough'",
    ),
    "type": ("[axes]\ncache = [3]\n", r"cache=3 is not known"),
    "twice": ('[axes]\ncache = ["none", "unsafe", "none"]\n', r"cache has 'none' twice\."),
    "both": (SWEEP + '[storage]\nbus = "ide"\n', r"m\.toml: bus is in \[axes\] and in \[storage\]\."),
    "field": (SWEEP + '[storage]\ncolour = "red"\n', r"\[storage\]: 'colour' is not known"),
    "size": (SWEEP + '[storage]\nsize = "10X"\n', r"\[storage\]: '10X' is not a size\. Write a number"),
    "one rule": (SWEEP + '[exclude]\nbus = "ide"\n', r"exclude = .* is not a list\. Write \[\[exclude\]\] above"),
    "rule no table": (
        'exclude = ["raw"]\n' + SWEEP,
        r"exclude has 'raw', which is not a table\. Write \[\[exclude\]\]",
    ),
    "rule field": (SWEEP + '[[only]]\nbus = "ide"\n[[only]]\nbuss = 1\n', r"\[\[only\]\] 2: 'buss' is not known"),
    "rule value": (SWEEP + '[[exclude]]\nbus = ["ide", "scsi"]\n', r"\[\[exclude\]\] 1: bus='scsi' is not known"),
    "rule empty": (SWEEP + '[[exclude]]\nreason = "x"\n', r"\[\[exclude\]\] 1: no value is named"),
    "rule no value": (SWEEP + "[[exclude]]\nbus = []\n", r"\[\[exclude\]\] 1: no value is named"),
    "reason": (SWEEP + '[[exclude]]\nbus = "ide"\nreason = 3\n', r"reason = 3 is not a text\."),
    "pairwise": (SWEEP + '[reduce]\npairwise = "yes"\n', r"\[reduce\]: pairwise = 'yes' is neither"),
    "seed": (SWEEP + "[reduce]\nseed = true\n", r"\[reduce\]: seed = True is not a whole number"),
    "reduce": (SWEEP + "[reduce]\ntriples = true\n", r"\[reduce\]: 'triples' is not known"),
    "impossible": ('impossible = "skip"\n' + SWEEP, r"impossible = 'skip' is not known\. It is 'refuse' or"),
    "nothing left": (
        SWEEP + '[[only]]\nbus = "sata"\nreason = "x"\n',
        r"leaves out every cell; .*only rule matches \(x\)",
    ),
    "small": (SWEEP + '[storage]\nsize = "1k"\n', r"m\.toml has 8 impossible cells: .*a disk of 1024 bytes"),
}


@pytest.mark.parametrize(("text", "sentence"), SLIPS.values(), ids=SLIPS)
def test_a_slip_is_told_with_file_and_key(text: str, sentence: str) -> None:
    """One sentence says where, one what to do."""
    with pytest.raises(ConfigError, match=sentence) as caught:
        load(text)
    assert str(caught.value).startswith("m.toml")
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_too_many_combinations_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be gone through one by one."""
    monkeypatch.setattr(module, "MOST_CELLS", 7)
    with pytest.raises(ConfigError, match=r"m\.toml has 8 combinations; 7 are the most\."):
        load(SWEEP)


def test_a_field_is_read_without_the_rules_between_fields() -> None:
    """metadata is a value, though not of the default cell."""
    assert value_of("preallocation", "metadata") == "metadata"
    assert value_of("size", "2G") == 2 * 2**30
    with pytest.raises(ConfigError, match=r"preallocation='half' is not known\. It should be"):
        value_of("preallocation", "half")


BIG = (
    '[axes]\nformat = ["raw", "qcow2"]\ncache = ["none", "directsync", "writethrough", "writeback", "unsafe"]\n'
    'bus = ["virtio-blk", "virtio-scsi", "ide", "sata"]\npreallocation = ["off", "metadata", "falloc", "full"]\n'
)


def test_pairwise_leaves_few_cells_that_meet_each_possible_pair() -> None:
    """Excluded and impossible pairs are not asked for; what is reduced is said; the same cells each time."""
    text = 'impossible = "leave-out"\n' + BIG + '[[exclude]]\nbus = "ide"\ncache = "unsafe"\n'
    whole, few = load(text).expand(), load(text + "[reduce]\npairwise = true\n").expand()
    names = list(whole.cells[0].values)
    wanted = set().union(*(pairs_of(cell.values, names) for cell in whole.cells))
    assert set().union(*(pairs_of(cell.values, names) for cell in few.cells)) == wanted
    assert len(whole.cells) == 133
    assert len(few.cells) <= 26
    assert [str(cell) for cell in few.cells] == [str(cell) for cell in whole.cells if cell in few.cells]
    reduced_ones = [one for one in few.left_out if one.reason.startswith("pairwise")]
    assert len(reduced_ones) == len(whole.cells) - len(few.cells)
    assert load(text + "[reduce]\npairwise = true\n").expand() == few
    other = load(text + "[reduce]\npairwise = true\nseed = 7\n").expand()
    assert [str(cell) for cell in other.cells] != [str(cell) for cell in few.cells]


def random_rows(dice: random.Random) -> list[dict[str, int]]:
    """A product of random axes of which some cells are gone, some of them by a pair that cannot be."""
    sizes = [dice.randint(1, 6) for _ in range(dice.randint(1, 6))]
    rows = [
        {f"axis{n}": value for n, value in enumerate(values)}
        for values in itertools.product(*(range(size) for size in sizes))
    ]
    banned = {tuple(dice.randrange(size) for size in sizes[:2]) for _ in range(dice.randint(0, 3))}
    kept = [row for row in rows if tuple(row.values())[:2] not in banned and dice.random() < 0.9]
    return kept or rows


@pytest.mark.parametrize("seed", range(25))
def test_every_pair_that_is_possible_is_met(seed: int) -> None:
    """Checked value by value over random matrices: no pair is lost, none is needless, and the product shrinks."""
    rows = random_rows(random.Random(seed))
    chosen = reduce_pairwise(rows, seed)
    names = list(rows[0])
    for first, second in itertools.combinations(names, 2):
        possible = {(row[first], row[second]) for row in rows}
        assert {(rows[n][first], rows[n][second]) for n in chosen} == possible
    for name in names:
        assert {rows[n][name] for n in chosen} == {row[name] for row in rows}
    assert list(chosen) == sorted(set(chosen))
    assert reduce_pairwise(rows, seed) == chosen
    widths = sorted((len({row[name] for row in rows}) for name in names), reverse=True)
    if len(names) > 2 and widths[2] > 1:
        assert len(chosen) < len(rows)
    if len(names) > 1 and len(rows) > 200:
        assert len(chosen) <= 3 * widths[0] * widths[1]


def test_pairs_of_one_axis_are_its_values() -> None:
    """Each value occurs, and no row twice over; where nothing varies one row will do."""
    assert reduce_pairwise([{"a": 1, "b": 5}, {"a": 2, "b": 5}, {"a": 1, "b": 5}]) in ((0, 1), (1, 2))
    assert reduce_pairwise([{"a": 1}, {"a": 1}]) == (0,)
    assert reduce_pairwise([]) == ()
    assert varying([{"a": 1, "b": 2}, {"a": 1, "b": 3}]) == ("b",)


def test_a_left_out_combination_has_the_id_it_would_have_had() -> None:
    """So that it can be looked for."""
    text = SWEEP + '[[exclude]]\nbus = "ide"\n'
    assert load(text).expand().left_out[0] == ExcludedCell("qcow2-none-ide", "exclude rule 1")


@pytest.mark.parametrize("axis", AXES)
def test_every_axis_can_be_read(axis: str) -> None:
    """An adapter can be made for each field, whatever its kind, and takes the default."""
    assert value_of(axis, StorageConfig.model_fields[axis].default) == StorageConfig.model_fields[axis].default


def test_default_stands_for_what_qemu_decides() -> None:
    """TOML has no null; a rule finds such cells by that word too."""
    text = """
[axes]
format = ["qcow2"]
cluster_size = ["default", "128k"]
[[exclude]]
cluster_size = "default"
"""
    whole = load_matrix(text.partition("[[")[0], "m.toml").expand()
    assert [cell.config.cluster_size for cell in whole.cells] == [None, 2**17]
    assert str(whole.cells[0]) == "qcow2-cluster_size=default"
    assert [cell.config.cluster_size for cell in load_matrix(text, "m.toml").expand().cells] == [2**17]
