"""Sizes, durations and figures: read as people write them, shown as people read them."""

from __future__ import annotations

import pytest

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import (
    common_scale,
    format_about,
    format_duration,
    format_figure,
    format_size,
    parse_duration,
    parse_percent,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (4096, 4096),
        (0, 0),
        ("4096", 4096),
        ("4k", 4096),
        ("4K", 4096),
        (" 256M ", 2**28),
        ("2G", 2**31),
        ("2GB", 2**31),
        ("1.5GiB", 3 * 2**29),
        ("1T", 2**40),
        ("0.5k", 512),
    ],
)
def test_sizes_are_bytes_in_powers_of_1024(text: object, size: int) -> None:
    """Every spelling of a size that qemu-img and fio take is the same number of bytes."""
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["10X", "", "k", "-1", -1, "1,5G", True, None, 1.5, "1.1k", "1e9"])
def test_what_is_no_size_is_refused_with_an_example(text: object) -> None:
    """The sentence shows what was written and what to write."""
    with pytest.raises(ConfigError, match=r'Write .*"512M"') as caught:
        parse_size(text)
    assert repr(text) in caught.value.what


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(5, 5), ("5", 5), (1.5, 1.5), ("90s", 90), ("2m", 120), ("500ms", 0.5), ("1h", 3600), ("1d", 86400)],
)
def test_durations_are_seconds(text: object, seconds: float) -> None:
    """A bare number is seconds, a suffix says otherwise."""
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["soon", "", "-1", "5 weeks", None, True])
def test_what_is_no_duration_is_refused_with_an_example(text: object) -> None:
    """The sentence shows what was written and what to write."""
    with pytest.raises(ConfigError, match='"90s"') as caught:
        parse_duration(text)
    assert repr(text) in caught.value.what


@pytest.mark.parametrize(("text", "fraction"), [("20%", 0.2), ("20", 0.2), (" 7.5 % ", 0.075), (20, 0.2)])
def test_percentages_are_fractions(text: object, fraction: float) -> None:
    """With and without the sign a percentage is a fraction."""
    assert parse_percent(text) == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["0", "-5%", "nan", "inf", "many", "5000%", ""])
def test_what_is_no_percentage_is_refused(text: str) -> None:
    """Nothing, less than nothing and no number are refused."""
    with pytest.raises(ConfigError, match="is not a percentage"):
        parse_percent(text)


@pytest.mark.parametrize("text", ["0", "1", "1025", "4k", "256M", "3G", "1T", "1536M"])
def test_a_formatted_size_reads_back_exactly(text: str) -> None:
    """format_size is shortest and exact: it is used in test ids and in command lines."""
    assert format_size(parse_size(text)) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1400000000, "1.3 GiB"),
        (2**30, "1 GiB"),
        (1000 * 2**20, "1000 MiB"),
        (1023.9 * 2**20, "1024 MiB"),
        (5000 * 2**40, "5000 TiB"),
    ],
)
def test_a_size_for_a_sentence_has_three_digits_and_no_exponent(size: float, text: str) -> None:
    """Just below the next suffix the figure has four digits, never 1e+03."""
    assert format_about(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (0.42, "0.4 s"), (42, "42 s"), (59.7, "1 min 00 s"), (200, "3 min 20 s"), (3900, "1 h 05 min")],
)
def test_a_duration_for_a_sentence(seconds: float, text: str) -> None:
    """A minute has 60 seconds and an hour 60 minutes, rounded once."""
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (14200.0, "IOPS", "14.2k IOPS"),
        (9999.0, "IOPS", "9999 IOPS"),
        (950.4, "IOPS", "950 IOPS"),
        (1.5e6, "IOPS", "1.5M IOPS"),
        (2e9, "IOPS", "2G IOPS"),
        (310.0, "MiB/s", "310 MiB/s"),
        (0.00001, "MiB/s", "0.00001 MiB/s"),
        (1.5, "s", "1.5 s"),
        (0.00184, "s", "1.84 ms"),
        (0.0000021, "s", "2.1 us"),
        (5e-9, "s", "5 ns"),
        (0.0, "s", "0 s"),
        (0.0, "IOPS", "0 IOPS"),
        (12345.0, "%", "12345 %"),
        (-0.00184, "s", "-1.84 ms"),
    ],
)
def test_a_figure_is_scaled_to_be_read(value: float, unit: str, text: str) -> None:
    """Three significant digits, the suffix that fits, no exponent form."""
    assert format_figure(value, unit) == text


@pytest.mark.parametrize(
    ("values", "unit", "heading", "numbers"),
    [
        ([14200.0, 900.0, 512345.0], "IOPS", "IOPS", ["14200", "900", "512345"]),
        ([5e5, 300.0, 2e6], "IOPS", "k IOPS", ["500", "0.300", "2000"]),
        ([0.0142, 0.0091, 1.3, 0.00001], "s", "ms", ["14.2", "9.10", "1300", "0.0100"]),
        ([0.001, 0.002], "s", "ms", ["1", "2"]),
        ([2.0e-6, 1.5e-6], "s", "us", ["2.00", "1.50"]),
        ([1e-10], "s", "ns", ["0.100"]),
        ([0.0], "s", "s", ["0"]),
        ([2.0**30, 5 * 2.0**29], "B", "GiB", ["1.00", "2.50"]),
        ([0.0, 0.0], "B", "B", ["0", "0"]),
        ([99.97, 100.4], "MiB/s", "MiB/s", ["100", "100"]),
        ([-1.5, 2.0], "%", "%", ["-1.50", "2.00"]),
        ([], "s", "s", []),
    ],
)
def test_figures_of_a_column_share_a_unit(values: list[float], unit: str, heading: str, numbers: list[str]) -> None:
    """That in which most of them read best; each has three digits, and whole numbers are written as such."""
    scale = common_scale(values, unit)
    assert (scale.unit, scale.numbers(values)) == (heading, numbers)
