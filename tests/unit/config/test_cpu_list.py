"""Lists of CPUs: the kernel's, and those that people write."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.cpu_list import format_cpus, parse_cpus, read_cpus
from pytest_vmstorage.errors import ConfigError


def test_the_kernels_lists_are_read() -> None:
    """With the newline of a file, and empty."""
    assert read_cpus("0-3,8\n") == (0, 1, 2, 3, 8)
    assert read_cpus("\n") == ()


def test_a_list_is_read_and_written_the_shortest_way() -> None:
    """In any order, with spaces and overlaps."""
    assert parse_cpus("8, 2-4,3") == (2, 3, 4, 8)
    assert format_cpus(parse_cpus("8, 2-4,3")) == "2-4,8"
    assert format_cpus(()) == ""


@pytest.mark.parametrize("text", ["", "a", "1-", "5-2", "1;2", "-1", "1,,2", "0x1"])
def test_what_is_no_list_is_refused(text: str) -> None:
    """With an example."""
    with pytest.raises(ConfigError, match=r'is not a list of CPUs\. Write for example "2-5,8"'):
        parse_cpus(text)
