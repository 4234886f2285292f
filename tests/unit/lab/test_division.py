"""Shares of cells: which host measures which of them."""

from __future__ import annotations

from pytest_vmstorage.lab.division import Work, divide

HOSTS = ("lab01", "lab02")


def work(*cells: tuple[str, float], host: str = "") -> list[Work]:
    """A test for each cell and time."""
    return [Work(place, cell, seconds, host) for place, (cell, seconds) in enumerate(cells)]


def cells_of(parts: dict[str, list[Work]]) -> dict[str, str]:
    """The cells of each host, as a word."""
    return {host: "".join(one.cell for one in part) for host, part in parts.items()}


def test_equal_cells_are_halved_in_their_order() -> None:
    """Each host has its part in the order of the run."""
    parts = divide(work(*((cell, 5.0) for cell in "abcdef")), HOSTS, {})
    assert cells_of(parts) == {"lab01": "ace", "lab02": "bdf"}


def test_the_longest_comes_first() -> None:
    """So that the hosts end together."""
    parts = divide(work(("a", 1), ("b", 1), ("c", 1), ("d", 1), ("e", 4)), HOSTS, {})
    assert cells_of(parts) == {"lab01": "e", "lab02": "abcd"}


def test_tests_of_one_cell_stay_together() -> None:
    """They share a guest."""
    parts = divide(work(("a", 2), ("b", 3), ("a", 2)), HOSTS, {})
    assert cells_of(parts) == {"lab01": "aa", "lab02": "b"}


def test_what_was_measured_stays_and_the_rest_fills_up() -> None:
    """A home on a host that is not there is none; a new test goes with its cell."""
    parts = divide(work(("a", 5), ("b", 5), ("c", 5), ("d", 5), ("a", 1)), HOSTS, {0: "lab02", 1: "lab02", 2: "lab09"})
    assert cells_of(parts) == {"lab01": "cd", "lab02": "aba"}


def test_a_test_that_is_for_a_host_goes_there() -> None:
    """Whatever was before, and however much it has."""
    parts = divide(work(("a", 5), ("b", 5), host="lab01"), HOSTS, {0: "lab02"})
    assert cells_of(parts) == {"lab01": "ab", "lab02": ""}


def test_a_cell_goes_where_what_it_needs_is() -> None:
    """Also where it was elsewhere before; if no host at work has it, its error says so wherever it goes."""
    here = [Work(0, "a", 5, able=("lab02",)), Work(1, "b", 1), Work(2, "c", 1, able=("lab02", "lab09"))]
    assert cells_of(divide(here, HOSTS, {2: "lab01"})) == {"lab01": "b", "lab02": "ac"}
    assert cells_of(divide([Work(0, "a", 5, able=("lab09",))], HOSTS, {})) == {"lab01": "a", "lab02": ""}


def test_what_was_measured_in_two_places_stays_in_both() -> None:
    """Two tests of one cell, saved on two hosts."""
    parts = divide(work(("a", 5), ("a", 5)), HOSTS, {0: "lab02", 1: "lab01"})
    assert [[one.place for one in parts[host]] for host in HOSTS] == [[1], [0]]
