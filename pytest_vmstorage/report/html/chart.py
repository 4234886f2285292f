"""The value that a drawing function gives to the page: picture, figures and a sentence; pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Chart:
    """A chart under a heading, and the same for those who want its figures or do not see it.

    `slug` is its name in links, of a-z, 0-9 and "-", one of its kind in a page. `svg` is a whole `<svg>` element, `csv`
    all that it shows with units in the header, `said` one sentence. `title` and `said` are plain text, to be escaped.
    """

    slug: str
    title: str
    svg: str
    csv: str
    said: str
