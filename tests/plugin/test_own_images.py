"""--vm-image: a user's own image is found, and has a checksum, before any lab is opened."""

from __future__ import annotations

import pytest
from projects import TWO_CELLS, assert_refused

SUM = "0" * 64


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--vm-image=gone.qcow2"], "--vm-image=gone.qcow2: there is no file "),
        (["--vm-image=i.qcow2"], "i.qcow2 has no checksum, and without one nobody knows what was measured."),
        (["--vm-image=i.qcow2", "--vm-image-sha256=0"], "--vm-image-sha256=0 is not a SHA-256."),
        ([f"--vm-image-sha256={SUM}"], "--vm-image-sha256 needs an image. Name it with --vm-image=PATH."),
        (["--vm-image=other"], "vmstorage.toml has no image of that name either: debian."),
    ],
    ids=["absent", "no-sum", "bad-sum", "no-image", "no-name"],
)
def test_a_slip_is_a_usage_error(project, options, sentence):
    """One sentence with what to do, and nothing was opened."""
    project.write(test_two=TWO_CELLS, vmstorage__toml='[images.debian]\npath = "/nowhere/debian.qcow2"\n')
    (project.path / "i.qcow2").write_text("x")
    assert_refused(project.run(*options), sentence)
    assert project.events == []


@pytest.mark.parametrize("how", ["option", "ini", "name"])
def test_an_image_goes_to_the_lab(project, how):
    """Named on the command line, in the ini file beside which it lies, or by vmstorage.toml."""
    project.write(
        test_two=TWO_CELLS,
        vmstorage__toml=f'[images.debian]\npath = "{project.path}/i.qcow2"\nsha256 = "{SUM}"\n',
        conftest="""
def pytest_vmstorage_open_lab(config, settings, say):
    say(f"guests boot from {settings.image.path} {settings.image.sha256[:4]}")
""",
    )
    (project.path / "i.qcow2").write_text("x")
    (project.path / "i.qcow2.sha256").write_text(f"{SUM}  i.qcow2\n")
    if how == "ini":
        project.write(pytest__ini="[pytest]\nvm_image = i.qcow2\n")
    result = project.run(*{"option": ["--vm-image=i.qcow2"], "ini": [], "name": ["--vm-image=debian"]}[how])
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"vmstorage: guests boot from {project.path}/i.qcow2 0000"])
