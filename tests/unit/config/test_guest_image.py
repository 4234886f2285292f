"""Which image guests boot: by path or by its name in vmstorage.toml, and never without a checksum."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vmstorage.config.guest_image import ListedImage, NamedImage, choose_image
from pytest_vmstorage.config.inventory_file import load_inventory
from pytest_vmstorage.errors import ConfigError

SUM = "0123456789abcdef" * 4


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A file that is there."""
    path = tmp_path / "debian.qcow2"
    path.write_text("x")
    return path


def test_no_name_is_no_image(tmp_path: Path) -> None:
    """Guests boot the appliance then; a checksum alone is a slip."""
    assert choose_image("", "", "", {}, tmp_path) is None
    with pytest.raises(ConfigError, match="--vm-image-sha256 needs an image"):
        choose_image("", SUM, "", {}, tmp_path)


def test_a_path_is_read_from_where_it_was_written(image: Path) -> None:
    """Relative to the shell's folder or the ini file's; the checksum comes with the option."""
    for name in ("debian.qcow2", str(image)):
        assert choose_image(name, SUM.upper(), "", {}, image.parent) == ListedImage(path=image, sha256=SUM)
    found = choose_image("debian.qcow2", SUM, "", {}, image.parent)
    assert found is not None
    assert found.description == "debian.qcow2 sha256:0123456789abcdef"


@pytest.mark.parametrize("text", [f"{SUM}  debian.qcow2\n", SUM, f"{SUM.upper()} *debian.qcow2"])
def test_the_checksum_may_lie_beside_the_image(image: Path, text: str) -> None:
    """As sha256sum prints it, or alone."""
    image.with_name("debian.qcow2.sha256").write_text(text)
    assert choose_image(str(image), "", "", {}, image.parent) == ListedImage(path=image, sha256=SUM)


def test_an_image_is_listed_by_name(image: Path) -> None:
    """With its checksum there, or beside the file; the option's is the one that counts."""
    other = "f" * 64
    listed = {"debian": NamedImage(path=str(image), sha256=SUM), "bare": NamedImage(path=str(image))}
    assert choose_image("debian", "", "", listed, Path("/")) == ListedImage(path=image, sha256=SUM)
    assert choose_image("debian", other, "", listed, Path("/")) == ListedImage(path=image, sha256=other)
    with pytest.raises(ConfigError, match="has no checksum"):
        choose_image("bare", "", "", listed, Path("/"))


@pytest.mark.parametrize(
    ("name", "sha256", "beside", "sentence"),
    [
        ("gone.qcow2", "", "", "--vm-image=gone.qcow2: there is no file "),
        ("debian.qcow2", "", "", "debian.qcow2 has no checksum, and without one nobody knows what was measured."),
        ("debian.qcow2", "abc", "", "--vm-image-sha256=abc is not a SHA-256. `sha256sum IMAGE` prints 64 hexadecimal"),
        ("debian.qcow2", "", "<html>", "debian.qcow2.sha256 begins with '<html>', which is not a SHA-256."),
    ],
    ids=["absent", "no-sum", "short", "no-sum-beside"],
)
def test_a_slip_is_told_with_its_remedy(image: Path, name: str, sha256: str, beside: str, sentence: str) -> None:
    """Before anything is made."""
    if beside:
        image.with_name("debian.qcow2.sha256").write_text(beside)
    with pytest.raises(ConfigError) as caught:
        choose_image(name, sha256, "", {}, image.parent)
    assert sentence in str(caught.value)
    assert caught.value.hint


I = "[images.i]\n"  # noqa: E741 (the name of the table)
SLIPS = {
    "images = 1": "f.toml: images = 1 is not a table. Write [images] above its keys.",
    "[images.'a b']\npath = '/x'": "f.toml, [images]: 'a b' is not a name.",
    I: "f.toml, [images.i]: path is missing. Write it from / or ~ on.",
    f"{I}path = 'x.qcow2'": "f.toml, [images.i]: path = 'x.qcow2' is not absolute. Write it from / or ~ on.",
    f"{I}path = '/x'\nsum = 'x'": "f.toml, [images.i]: 'sum' is not known. Known here: path, sha256, reach.",
    f"{I}path = '/x'\nreach = 'telnet'": "f.toml, [images.i]: reach = 'telnet' is not known. It is 'agent' or 'ssh'.",
    f"{I}path = '/x'\nsha256 = 'x'": "f.toml, [images.i]: sha256 = 'x' is not a SHA-256. `sha256sum IMAGE` prints",
}


@pytest.mark.parametrize("text", SLIPS)
def test_a_slip_in_vmstorage_toml_is_told(text: str) -> None:
    """With file and key."""
    with pytest.raises(ConfigError) as caught:
        load_inventory(text, "f.toml")
    assert str(caught.value).startswith(SLIPS[text])


def test_images_are_read_from_vmstorage_toml() -> None:
    """A path may begin at the user's home."""
    text = f'[images.debian]\npath = "~/debian.qcow2"\nsha256 = "{SUM.upper()}"\n[images.b]\npath = "/b"\n'
    assert load_inventory(text, "f.toml").images == {
        "debian": NamedImage(path="~/debian.qcow2", sha256=SUM),
        "b": NamedImage(path="/b"),
    }
