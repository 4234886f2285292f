"""Bencher Metric Format, JSON for `bencher run --adapter json`; pure.

Source: Bencher's reference of the format, and its schema https://bencher.dev/bmf.json. A benchmark's name has at most
1024 characters, a measure's 64.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from pytest_vmstorage.report.exports.rows import ExportRow

_LONGEST_NAME = 1024
_LONGEST_MEASURE = 64


def render_bencher(rows: Sequence[ExportRow]) -> str:
    """A benchmark for each row of one run, a measure for each metric: the median, between its outermost rounds."""
    document = {
        _cut(row.name, _LONGEST_NAME): {
            _cut(value.named(), _LONGEST_MEASURE): {
                "value": value.median,
                "lower_value": value.smallest,
                "upper_value": value.largest,
            }
            for value in row.values
        }
        for row in rows
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _cut(text: str, most: int) -> str:
    """The text, cut where it is longer; a hash in the place of its end keeps those apart that begin alike."""
    if len(text) <= most:
        return text
    end = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: most - len(end) - 1]}-{end}"
