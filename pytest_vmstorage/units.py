"""Sizes, durations and figures as people write them; inside, bytes and seconds."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.text import MOST, quoted, text_of

_FACTORS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?", re.IGNORECASE)
_MOST_SECONDS = 100 * 365 * 86400.0
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_size(value: object) -> int:
    """Bytes from `4096`, `"4k"`, `"256M"`, `"1.5GiB"`; powers of 1024, as qemu-img and fio read them.

    Raises ConfigError where the text is not a size or not a whole number of bytes.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST:
        return value
    match = _SIZE.fullmatch(text_of(value))
    if match is None:
        raise ConfigError(
            f"{quoted(value)} is not a size.",
            hint='Write a number with k, M, G or T (powers of 1024), such as "512M" or "2G".',
            code="VM103",
        )
    # Decimal, because a float holds no more than 15 digits
    size = Context(prec=len(match[1]) + 20).multiply(Decimal(match[1]), Decimal(_FACTORS[match[2].lower()]))
    if size >= MOST:
        raise ConfigError(f"{quoted(value)} is more than any disk has.", hint='Write for example "512M".', code="VM103")
    if size != int(size):
        raise ConfigError(
            f"{quoted(value)} is not a whole number of bytes.", hint='Write for example "512M".', code="VM103"
        )
    return int(size)


def parse_duration(value: object) -> float:
    """Seconds from `5`, `"5"`, `"90s"`, `"2m"`, `"500ms"`; raises ConfigError otherwise."""
    match = _DURATION.fullmatch(text_of(value))
    seconds = float(match[1]) * _SECONDS[(match[2] or "s").lower()] if match is not None else _MOST_SECONDS
    if seconds >= _MOST_SECONDS:
        raise ConfigError(
            f"{quoted(value)} is not a duration.", hint='Write seconds, or "90s", "2m", "1h".', code="VM111"
        )
    return seconds


def parse_percent(value: object) -> float:
    """A fraction from `"20%"` or `"20"` (percent); 0.2 for both. Raises ConfigError otherwise."""
    text = text_of(value).removesuffix("%").strip()
    try:
        percent = float(text)
    except ValueError:
        percent = -1.0
    if not 0 < percent < 1000:
        raise ConfigError(f"{quoted(value)} is not a percentage.", hint='Write for example "20%".', code="VM112")
    return percent / 100


def format_size(size_bytes: int) -> str:
    """The shortest exact text with a binary suffix, as qemu-img reads it: 268435456 -> "256M"."""
    for suffix, factor in (("T", 2**40), ("G", 2**30), ("M", 2**20), ("k", 2**10)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{suffix}"
    return str(size_bytes)


def format_about(size_bytes: float) -> str:
    """A size for a sentence, three significant digits: 1400000000 -> "1.3 GiB"."""
    for suffix, factor in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size_bytes >= factor:
            return f"{_digits(size_bytes / factor)} {suffix}"
    return f"{size_bytes:.0f} B"


def format_duration(seconds: float) -> str:
    """A time for a sentence: "0.4 s", "42 s", "3 min 20 s", "1 h 05 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def format_figure(value: float, unit: str) -> str:
    """A figure with its unit, scaled for a readable column: "14.2k IOPS", "1.84 ms", "310 MiB/s", "1.3 GiB"."""
    if unit == "s":
        for suffix, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
            if abs(value) >= factor:
                return f"{_digits(value / factor)} {suffix}"
        return "0 s"
    if unit == "B":
        return f"-{format_about(-value)}" if value < 0 else format_about(value)
    if unit != "%":
        for suffix, factor, least in (("G", 1e9, 1e9), ("M", 1e6, 1e6), ("k", 1e3, 1e4)):
            if abs(value) >= least:
                return f"{_digits(value / factor)}{suffix} {unit}"
    return f"{_digits(value)} {unit}"


class Scale(NamedTuple):
    """A unit for a column of figures, such as "ms" for seconds, and its size in the base unit."""

    unit: str
    factor: float = 1.0

    def numbers(self, values: Sequence[float]) -> list[str]:
        """The values in that unit: whole numbers as such, others with three significant digits."""
        scaled = [value / self.factor for value in values]
        is_whole = all(math.isclose(value, round(value), abs_tol=1e-9) for value in scaled)
        return [f"{value:.0f}" if is_whole or abs(value) >= 100 else _three_digits(value) for value in scaled]


_PREFIXED_FROM = 1e5
"""In a column, a number with more digits than five gets a prefix in its heading."""


def common_scale(values: Sequence[float], unit: str) -> Scale:
    """The unit in which most of these figures, of that base unit, read best; numbers below it have three digits too."""
    size = statistics.median(map(abs, values)) if values else 0.0
    scales = [Scale(unit)]
    if unit == "s":
        scales = [Scale("s"), Scale("ms", 1e-3), Scale("us", 1e-6), Scale("ns", 1e-9)]
    elif unit == "B":
        scales = [Scale("TiB", 2**40), Scale("GiB", 2**30), Scale("MiB", 2**20), Scale("KiB", 2**10), Scale("B")]
    elif unit != "%" and size >= _PREFIXED_FROM:
        scales = [Scale(f"{name} {unit}", factor) for name, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3))]
    fitting = (scale for scale in scales if size >= scale.factor)
    return next(fitting, scales[0] if unit == "s" and not size else scales[-1])


def _three_digits(value: float) -> str:
    """Three significant digits, zeros among them, so that those of a column have one width."""
    return f"{Decimal(f'{value:#.3g}'):f}" if value else "0"


def _digits(value: float) -> str:
    """Three significant digits, or all digits before the point; never in exponent form."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{Decimal(f'{value:.3g}'):f}"


Bytes = Annotated[int, BeforeValidator(parse_size)]
"""A size in bytes that a user may write as "256M"."""

MaybeBytes = Annotated[int | None, BeforeValidator(lambda value: None if value is None else parse_size(value))]
"""A size in bytes, or None: the parser refuses None with ConfigError, which pydantic does not catch."""

MaybeSeconds = Annotated[float | None, BeforeValidator(lambda value: None if value is None else parse_duration(value))]
"""A duration in seconds, or None."""

Seconds = Annotated[float, BeforeValidator(parse_duration)]
"""A duration in seconds that a user may write as "90s"."""
