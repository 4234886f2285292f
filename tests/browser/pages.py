"""Reports of made-up runs, and how Debian's Chromium opens them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import runs
from playwright.sync_api import Browser, Page, Playwright

from pytest_vmstorage.report.formats import RENDERERS

PROGRAMS = ("chromium-headless-shell", "chromium")
"""What Debian calls it: without windows, and whole."""

MISSING = (
    "Chromium is not installed: script/setup --tests installs it, as does"
    f" apt-get install --no-install-recommends {PROGRAMS[0]}."
)

ARGUMENTS = (
    # root has no sandbox, and what is opened is our own
    "--no-sandbox",
    # no name is resolved, whatever a page asks for
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)

DESK, PHONE = (1280, 800), (390, 844)
SIZES = {"desk": DESK, "phone": PHONE}


def program() -> str | None:
    """The path of Chromium, None where there is none."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


def launch(playwright: Playwright) -> Browser:
    """Start it."""
    return playwright.chromium.launch(executable_path=program(), args=list(ARGUMENTS))


@cache
def made(name: str) -> runs.Made:
    """The made-up run of that name."""
    return runs.RUNS[name]()


@cache
def rendered(name: str) -> str:
    """Its report."""
    run, comparison = made(name)
    return RENDERERS[".html"](run, comparison, False)


USE_ALL = """() => {
    let done = 0;
    for (const one of document.querySelectorAll('select'))
        for (const option of [...one.options].reverse()) {
            one.value = option.value;
            one.dispatchEvent(new Event('change', { bubbles: true }));
            done += 1;
        }
    for (const one of document.querySelectorAll('button')) { one.click(); done += 1; }
    return done;
}"""


@dataclass
class Opened:
    """A page with all that it asked for and complained of since it was opened."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def violations(self) -> list[str]:
        """What axe-core finds in it, a line for each element."""
        self.page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
        # nine tenths of its time are contrasts, and further lines of a table have those of the first
        asked = "axe.run({exclude: ['.figures tbody tr:nth-child(n + 4)']}, {resultTypes: ['violations']})"
        found: dict[str, Any] = self.page.evaluate(asked)
        return [
            f"{rule['id']}: {node['target'][0]}: {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]

    def use_all(self) -> int:
        """Choose everything that can be chosen and press every button; the number of times."""
        done: int = self.page.evaluate(USE_ALL)
        return done

    def text(self) -> str:
        """What a reader sees of it, blanks of any kind as one."""
        return " ".join(self.page.evaluate("document.body.innerText").split())
