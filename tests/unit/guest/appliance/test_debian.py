"""Which mirrors a build uses, and which versions it got."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vmstorage.guest.appliance.debian import Source, debian_sources, host_sources, host_suite, versions

DEB822 = """# Debian
Types: deb deb-src
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
 bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: https://vendor.example/apt
Suites: bookworm
Components: main
"""
ONE_LINE = """deb cdrom:[Debian 12]/ bookworm main
#deb http://comment.example/debian bookworm main
deb [arch=amd64 signed-by=/key.gpg] http://mirror.example/debian-security bookworm-security main # why
deb-src http://source.example/debian bookworm main
deb https://download.docker.example/linux/debian bookworm stable
"""


def test_only_debians_own_enabled_suites_are_taken() -> None:
    """Backports, sources, what is disabled, discs and other vendors stay out."""
    found = debian_sources({"debian.sources": DEB822, "security.list": ONE_LINE}, "bookworm")
    assert found == (
        Source(uri="http://mirror.example/debian", suite="bookworm"),
        Source(uri="http://mirror.example/debian", suite="bookworm-updates"),
        Source(uri="http://mirror.example/debian-security", suite="bookworm-security"),
    )


@pytest.mark.parametrize("texts", [{}, {"a.list": ONE_LINE}], ids=["nothing", "no-base-suite"])
def test_host_without_a_mirror_gets_debians(texts: dict[str, str]) -> None:
    """A container image may have no sources, another distribution has others."""
    assert [source.line().split("] ")[1] for source in debian_sources(texts, "bookworm")] == [
        "http://deb.debian.org/debian bookworm main",
        "http://deb.debian.org/debian bookworm-updates main",
        "http://deb.debian.org/debian-security bookworm-security main",
    ]


def test_every_source_is_held_to_debians_key() -> None:
    """A wrong mirror can fail the build but not change it."""
    assert all("[signed-by=/" in source.line() for source in debian_sources({}, "bookworm"))


def test_mirror_list_of_cloud_images_is_debian() -> None:
    """Debian's own cloud images name a local mirror list."""
    text = "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: bookworm\nComponents: main\n"
    (found,) = debian_sources({"debian.sources": text}, "bookworm")
    assert found.uri == "mirror+file:///etc/apt/mirrors/debian.list"


@pytest.mark.parametrize(
    ("text", "suite"),
    [
        ('ID=debian\nVERSION_CODENAME=trixie\nNAME="Debian"\n', "trixie"),
        ("ID=ubuntu\nVERSION_CODENAME=noble\n", "bookworm"),
        ("ID=debian\n", "bookworm"),
        ("", "bookworm"),
    ],
    ids=["debian", "ubuntu", "sid", "none"],
)
def test_suite_is_the_hosts_on_debian_only(text: str, suite: str) -> None:
    """Anywhere else it is the suite this plugin is tested with."""
    assert host_suite(text) == suite


def test_source_files_are_found_by_their_endings(tmp_path: Path) -> None:
    """As apt does: a disabled or saved file is not read."""
    folder = tmp_path / "sources.list.d"
    folder.mkdir()
    for name in ("debian.sources", "old.list", "vendor.list.disabled", "debian.sources.save"):
        (folder / name).write_text(name)
    assert sorted(host_sources(tmp_path).values()) == ["debian.sources", "old.list"]


def test_versions_come_from_file_names() -> None:
    """The colon of an epoch is written %3a there."""
    listing = "fio_3.33-3_amd64.deb\nqemu-guest-agent_1%3a7.2+dfsg-7+deb12u18_amd64.deb\nlock\npartial\n"
    assert versions(listing) == {"fio": "3.33-3", "qemu-guest-agent": "1:7.2+dfsg-7+deb12u18"}
