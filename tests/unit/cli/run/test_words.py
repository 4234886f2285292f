"""The words of `vmstorage run`: which are its own, which are pytest's, and what is refused."""

from __future__ import annotations

import pytest

from pytest_vmstorage import names
from pytest_vmstorage.cli.run.words import WORKLOADS, has_matrix, pytest_words, split_words
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.workloads.base import Workload


@pytest.mark.parametrize(
    ("line", "ours", "theirs"),
    [
        ("--axis format=raw --fio rw=read", ["--axis=format=raw", "--fio=rw=read"], []),
        ("--axis=format=raw", ["--axis=format=raw"], []),
        ("--hdparm -t", ["--hdparm=-t"], []),
        ("--tar --dd --print-test", ["--tar", "--dd", "--print-test"], []),
        ("--tar -h", ["--tar", "-h"], []),
        ("--vm-save main --tar", ["--tar"], ["--vm-save", "main"]),
        ("--vm-plan --tar --vm-save=main", ["--tar"], ["--vm-plan", "--vm-save=main"]),
        ("--tar -- -k raw --axis -- x", ["--tar"], ["-k", "raw", "--axis", "--", "x"]),
        ("--vm-report a.md --vm-plan -- -x", [], ["--vm-report", "a.md", "--vm-plan", "-x"]),
    ],
)
def test_words_are_ours_or_pytests(line: str, ours: list[str], theirs: list[str]) -> None:
    """A value may begin with a dash, a workload may have none, and all behind -- is pytest's."""
    assert split_words(line.split()) == (ours, theirs)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--oxis format=raw", "`vmstorage run` has no option '--oxis'. Did you mean '--axis'? Options of pytest stand"),
        (
            "--fio rw=read -x",
            "`vmstorage run` has no option '-x'. Options of pytest stand behind --, as in `-- -k qcow2`",
        ),
        ("--fio rw=read bs=4k", "`vmstorage run` has no word 'bs'. "),
        ("--print-test=yes", "`vmstorage run` has no option '--print-test'."),
        ("--axis --fio rw=read", "--axis has no value. Write --axis format=raw,qcow2."),
        ("--at-least", "--at-least has no value. Write --at-least iops=500."),
    ],
)
def test_other_words_are_refused(line: str, sentence: str) -> None:
    """In one sentence, with the option that may be meant."""
    with pytest.raises(ConfigError) as refused:
        split_words(line.split())
    assert str(refused.value).startswith(sentence)


def test_every_workload_has_its_option() -> None:
    """Each public one, by its class."""
    public = {name for name in names.HOMES if isinstance(getattr(names, name), type)}
    workloads = {name for name in public if issubclass(getattr(names, name), Workload)} - {"Workload"}
    assert {one.call for one in WORKLOADS.values()} == workloads


@pytest.mark.parametrize(
    ("words", "names_one"),
    [(["--vm-matrix=m.toml"], True), (["-x", "--vm-matrix", "m.toml"], True), (["--vm-plan"], False)],
)
def test_a_matrix_file_is_seen_among_pytests_words(words: list[str], names_one: bool) -> None:
    """Written either way."""
    assert has_matrix(words) == names_one


def test_the_users_words_come_last() -> None:
    """So that they hold where they say something else, such as another rootdir."""
    assert pytest_words("text", ["--rootdir=/other", "-x"])[-4:] == ["--rootdir=.", ".", "--rootdir=/other", "-x"]
