"""The sample report of the documents: what the code makes of the saved demonstration, and what README says of it."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_vmstorage.report.formats import RENDERERS
from pytest_vmstorage.results.run import Run

ROOT = Path(__file__).parents[4]
SAMPLE = ROOT / "docs" / "samples" / "quickstart.html"
MOST_BYTES = 213_000
"""The most that a report of 48 rows may have: between 120 kB of 16 and 600 kB of 180."""


def test_the_sample_is_what_the_code_makes_of_the_demonstration() -> None:
    """script/sample makes it anew; it has 16 cells of real guests, which say how they ran."""
    run = Run.model_validate(json.loads(SAMPLE.with_suffix(".json").read_text(encoding="utf-8")))
    assert len({m.config for m in run.measurements}) == 16
    assert all(m.proof and m.guest for m in run.measurements)
    for made in (SAMPLE, SAMPLE.with_suffix(".svg")):
        assert made.read_text(encoding="utf-8") == RENDERERS[made.suffix](run, None, False)


def test_the_sample_is_light_and_readme_links_it() -> None:
    """It has all charts of its 48 rows all the same."""
    assert "More charts are left out" not in SAMPLE.read_text(encoding="utf-8")
    assert SAMPLE.stat().st_size <= MOST_BYTES
    assert f"({SAMPLE.relative_to(ROOT)})" in (ROOT / "README.md").read_text(encoding="utf-8")
