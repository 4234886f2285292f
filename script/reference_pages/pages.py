"""All pages of docs/reference by name, and the program that writes them: `script/reference`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from pytest_vmstorage.cli.explain import errors_page
from reference_pages.axes import axes_page
from reference_pages.command import command_page
from reference_pages.files import files_page, schemas_page
from reference_pages.fixtures import fixtures_page, marks_page
from reference_pages.hooks import hooks_page
from reference_pages.markdown import fill
from reference_pages.options import options_page
from reference_pages.outcomes import exit_status_page, outcomes_page
from reference_pages.schemas import SCHEMAS, schema_text
from reference_pages.testing import testing_page
from reference_pages.workloads import workloads_page


def index_page() -> str:
    """The page that leads to all others."""
    return fill("index.md")


REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

PAGES: Mapping[str, Callable[[], str]] = {
    "index.md": index_page,
    "axes.md": axes_page,
    "options.md": options_page,
    "fixtures.md": fixtures_page,
    "marks.md": marks_page,
    "workloads.md": workloads_page,
    "command.md": command_page,
    "files.md": files_page,
    "schemas/index.md": schemas_page,
    "exit-status.md": exit_status_page,
    "outcomes.md": outcomes_page,
    "hooks.md": hooks_page,
    "testing.md": testing_page,
    "errors.md": errors_page,
    **{f"schemas/{name}.json": partial(schema_text, name) for name in SCHEMAS},
}
"""What makes each file, by its path below docs/reference."""


def write_pages(folder: Path = REFERENCE) -> list[str]:
    """Write all pages below the folder; the names of those that were other before."""
    changed = []
    for name, make in PAGES.items():
        path, text = folder / name, make()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    return changed
