"""How soon a large HTML report can be read and used in Chromium, by the browser's own clock.

Run with:  .tox/browser/bin/python benchmarks/report_browser.py [--rows 10000] [--times 5]

The runs are made up. `first_paint_ms` is from the navigation's begin to the first paint, `loaded_ms` to the end of the
page's script, `filter_ms` from a click on a value until the next frame was painted; each is the median of as many new
windows. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
import pages
import runs

from pytest_vmstorage.report.html.page import render_html

PAINTED = """() => new Promise(done => new PerformanceObserver((found, observer) => {
    if (found.getEntriesByName('first-contentful-paint').length) { observer.disconnect(); done(); }
}).observe({ type: 'paint', buffered: true }))"""
LOADED = """() => ({
    first_paint_ms: performance.getEntriesByName('first-contentful-paint')[0].startTime,
    loaded_ms: performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd,
})"""
# after a frame was painted the next task runs
CLICK = """async place => {
    const value = document.querySelectorAll('#filters button')[place], begin = performance.now();
    value.click();
    await new Promise(done => requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel();
        port1.onmessage = done; port2.postMessage(null); }));
    return performance.now() - begin;
}"""
CLICKS = 6


def timed(browser: Browser, address: str) -> dict[str, float]:
    """One new window: what loading took, and the median of clicks on several values."""
    with browser.new_context(viewport={"width": pages.DESK[0], "height": pages.DESK[1]}) as context:
        page = context.new_page()
        page.goto(address)
        page.evaluate(PAINTED)
        found: dict[str, float] = page.evaluate(LOADED)
        clicks = [page.evaluate(CLICK, place) for place in range(CLICKS)]
        return {**found, "filter_ms": statistics.median(clicks), "slowest_filter_ms": max(clicks)}


def measured(rows: int, times: int) -> dict[str, Any]:
    """The report's weight, what making it took, and the browser's times."""
    run, comparison = runs.many(rows)
    begin = time.perf_counter()
    document = render_html(run, comparison)
    made_s = time.perf_counter() - begin
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "report.html"
        path.write_text(document, encoding="utf-8")
        with pages.launch(playwright) as browser:
            windows = [timed(browser, path.as_uri()) for _ in range(times)]
            version = browser.version
    return {
        "rows": rows,
        "bytes": len(document.encode()),
        "made_s": round(made_s, 2),
        **{name: round(statistics.median(one[name] for one in windows)) for name in windows[0]},
        "chromium": version,
        "cores": os.cpu_count(),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    options = parser.parse_args(arguments)
    if pages.program() is None:
        parser.error(pages.MISSING)
    print(json.dumps(measured(options.rows, options.times)))


if __name__ == "__main__":
    main()
