"""Where links of pages lead in the site: to a page, to the repository, or nowhere while its address is not known."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "docs" / "site_hooks.py"
SPEC = importlib.util.spec_from_file_location("site_hooks", PATH)
assert SPEC is not None
assert SPEC.loader is not None
hooks = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(hooks)

PAGES = hooks.PAGES | {"docs/index.md": "index.md", "docs/explanation/gate.md": "explanation/gate.md"}
ADDRESS = "https://git.example.org/vmstorage"


@pytest.mark.parametrize(
    ("link", "source", "page", "leads_to"),
    [
        ("gate.md#limits", "docs/explanation/turns.md", "explanation/turns.md", "gate.md#limits"),
        ("../../SECURITY.md", "docs/explanation/gate.md", "explanation/gate.md", "../contributing/security.md"),
        ("docs/explanation/gate.md", "CONTRIBUTING.md", "contributing/index.md", "../explanation/gate.md"),
        ("../CONTRIBUTING.md", "docs/index.md", "index.md", "contributing/index.md"),
        # MkDocs says that it does not exist
        ("none.md", "docs/index.md", "index.md", "none.md"),
        ("#limits", "docs/index.md", "index.md", "#limits"),
        ("https://libvirt.org/", "docs/index.md", "index.md", "https://libvirt.org/"),
    ],
)
@pytest.mark.parametrize("address", [None, ADDRESS])
def test_a_link_to_a_page_needs_no_address(
    link: str, source: str, page: str, leads_to: str, address: str | None
) -> None:
    """From the page's place in the site, whatever the place of its file."""
    assert hooks.destination(link, source, page, address, PAGES) == leads_to


def test_another_file_is_linked_where_the_repository_has_an_address() -> None:
    """Its text stands without a link else."""
    link = ("../../benchmarks/gate_simulation.py#L9", "docs/explanation/gate.md", "explanation/gate.md")
    assert hooks.destination(*link, ADDRESS, PAGES) == f"{ADDRESS}/blob/main/benchmarks/gate_simulation.py#L9"
    assert hooks.destination(*link, None, PAGES) is None


@pytest.mark.parametrize(("name", "address"), [("repository.invalid", None), ("git.example.org", "found")])
def test_a_name_that_cannot_exist_is_no_address(name: str, address: str | None) -> None:
    """`.invalid` is reserved for that (RFC 2606)."""
    found = hooks.repository(f'[project.urls]\nRepository = "https://{name}/vmstorage"\n')
    assert found == (address and f"https://{name}/vmstorage")
