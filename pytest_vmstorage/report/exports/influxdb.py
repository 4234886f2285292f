"""InfluxDB's line protocol: a line for each row, with its labels as tags and its figures as fields; pure.

Source: InfluxDB's reference of the line protocol, "special characters" and "naming restrictions".
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence

from pytest_vmstorage.report.exports.rows import ExportRow

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_TAG = re.compile(r"([,= ])")
_STRING = re.compile(r'(["\\])')


def render_influxdb(rows: Sequence[ExportRow]) -> str:
    """Points of the measurement `vmstorage` in base units, times in nanoseconds; facts are fields of text.

    A backslash in a tag is written as "/": the protocol has no text for one at a tag's end.
    """
    return "".join(f"{_line(row)}\n" for row in rows)


def _line(row: ExportRow) -> str:
    tags = ",".join(f"{name}={_tag(text)}" for name, text in sorted(row.labels.items()) if text)
    fields = {name: repr(number) for value in row.values for name, number in value.numbers.items()}
    # an integer has an "i" behind it
    fields["rounds_taken"] = f"{row.rounds}i"
    fields |= {name: f'"{_STRING.sub(_behind_a_backslash, text)}"' for name, text in row.facts.items()}
    written = ",".join(f"{name}={text}" for name, text in fields.items())
    return f"vmstorage,{tags} {written} {(row.when - _EPOCH) // _MICROSECOND * 1000}"


def _tag(text: str) -> str:
    return _TAG.sub(_behind_a_backslash, text.replace("\\", "/"))


def _behind_a_backslash(found: re.Match[str]) -> str:
    return f"\\{found[1]}"
