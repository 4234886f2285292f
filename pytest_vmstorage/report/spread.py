"""How far a figure's rounds lie apart, for a table."""

from __future__ import annotations

from pytest_vmstorage.results import Figure


def spread_text(figure: Figure) -> str:
    """Half of smallest-to-largest in percent of the median: "±3 %", "±0.4 %"; "n=1" for a single round."""
    if len(figure.values) == 1:
        return "n=1"
    if not figure:
        return f"n={len(figure.values)}"
    half = (max(figure.values) - min(figure.values)) / 2 / abs(figure) * 100
    return f"±{half:.0f} %" if half >= 0.95 or half == 0 else f"±{half:.1f} %"
