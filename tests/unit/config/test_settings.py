"""Steps around the rounds: on by default, left out by name, and never without a word in the row."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.settings import STEPS, Hygiene, parse_without
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.plugin import options


def test_every_step_is_on_by_default() -> None:
    """Nothing given leaves nothing out."""
    assert parse_without([]) == Hygiene()
    assert all(Hygiene().has(step) for step in STEPS)


def test_names_come_with_commas_and_repeated() -> None:
    """Blanks and a name said twice do no harm."""
    assert parse_without(["warmup, host-caches", "warmup", ""]).without == ("warmup", "host-caches")


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    """The sentence has the name as it was written, and all that there are."""
    with pytest.raises(ConfigError) as caught:
        parse_without(["warmup,guest-cache"])
    assert caught.value.told == (
        "--vm-without=guest-cache names no step that could be left out. It is one of: guest-caches, host-caches, sync,"
        " turns, warmup, steady-state, cache-size, zero-check."
    )


@pytest.mark.parametrize("others", [[], ["guest-caches"], ["host-caches"]])
def test_only_what_was_written_back_can_be_dropped(others: list[str]) -> None:
    """Leaving `sync` out alone would drop some pages and not others, without a word."""
    with pytest.raises(ConfigError, match=r"--vm-without=sync leaves nothing to drop: .* Leave out .*-caches as well"):
        parse_without(["sync", *others])
    assert not parse_without(["sync", "guest-caches", "host-caches"]).has("sync")


def test_a_row_says_what_was_left_out_and_by_which_option() -> None:
    """A reader of the figure does not know the command line."""
    left = Hygiene(without=("guest-caches",))
    assert left.caches("guest-caches", done="dropped") == "written back, not dropped (--vm-without=guest-caches)"
    assert left.caches("host-caches", done="dropped") == "dropped"
    nothing = Hygiene(without=("sync", "guest-caches", "host-caches"))
    assert nothing.caches("host-caches", done="") == "neither written back nor dropped (--vm-without=host-caches)"


def test_the_options_list_the_steps_that_there_are() -> None:
    """The door has the names without importing this module."""
    assert tuple(STEPS) == options.STEPS
