"""Debian's Chromium, headless, and the reports that it opens."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from pages import DESK, MISSING, Opened, launch, program, rendered
from playwright.sync_api import Browser, sync_playwright

JENKINS = "sandbox; default-src 'none'; img-src 'self'; style-src 'self';"
"""The header with which Jenkins serves what a job leaves."""


def pytest_configure() -> None:
    """End here and now where there is no browser."""
    if program() is None:
        raise pytest.UsageError(MISSING)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser, started once."""
    with sync_playwright() as playwright, launch(playwright) as browser:
        yield browser


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The file of a made-up run's report."""
    folder = tmp_path_factory.mktemp("reports")

    def written(name: str) -> Path:
        path = folder / f"{name.replace(' ', '-')}.html"
        path.write_text(rendered(name), encoding="utf-8")
        return path

    return written


@pytest.fixture(scope="session")
def jenkins(report: Callable[[str], Path]) -> Iterator[Callable[[str], str]]:
    """The address of a made-up run's report on a server with Jenkins' header."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def end_headers(self) -> None:
            self.send_header("Content-Security-Policy", JENKINS)
            super().end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    folder = report("demo").parent
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield lambda name: f"http://127.0.0.1:{server.server_port}/{report(name).name}"
        server.shutdown()


@pytest.fixture
def opened(chromium: Browser, report: Callable[[str], Path]) -> Iterator[Callable[..., Opened]]:
    """A function that opens the report of a run: from its file or from an address, with that fragment of the link."""
    contexts = []

    def open_(
        name: str = "", *, size: tuple[int, int] = DESK, dark: bool = False, scripts: bool = True,
        address: str = "", fragment: str = "",
    ) -> Opened:  # fmt: skip
        context = chromium.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        contexts.append(context)
        found = Opened(context.new_page())
        found.page.goto((address or report(name).as_uri()) + fragment)
        return found

    yield open_
    for context in contexts:
        context.close()
