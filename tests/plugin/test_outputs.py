"""script/outputs: texts and commits come into the pages, unless they would lie."""

from __future__ import annotations

import subprocess

import outputs
import pytest


def git(folder, *words):
    """Run git there as somebody."""
    who = ("-c", "user.name=Jane", "-c", "user.email=jane@example.org")
    return subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path):
    """A clone with a package, a script and two pages that show what it prints."""
    for name, text in {
        "pytest_vmstorage/a.py": "",
        "docs/outputs/lib": "measured() { python -m pytest --vm-accel=tcg; }\n",
        "docs/outputs/x.sh": "#!/bin/bash\n# Words.\npwd >&2\necho '12k IOPS  '\necho\necho $COLUMNS $NO_COLOR $CI\n",
        "README.md": '<!-- output: x -->\n```text title="printed"\n```\n',
        "docs/a/b.md": '<!-- output: x -->\n```text title="printed at 1234567, under KVM"\nold\n```\n',
        "docs/c.md": "nothing\n",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "All")
    return tmp_path


def test_a_text_comes_into_each_page_that_names_it(clone, monkeypatch, capsys):
    """With the commit; what a title said of the acceleration stays, and figures without any get the script's."""
    monkeypatch.setenv("CI", "true")
    commit = outputs.commit_of(clone)
    assert commit == git(clone, "rev-parse", "--short=7", "HEAD")
    outputs.make(clone, "x", commit)
    shown = "12k IOPS\n\n100 1\n```\n"
    assert (clone / "README.md").read_text() == (
        f'<!-- output: x -->\n```text title="printed at {commit}, under software emulation (TCG)"\n{shown}'
    )
    assert (clone / "docs/a/b.md").read_text() == (
        f'<!-- output: x -->\n```text title="printed at {commit}, under KVM"\n{shown}'
    )
    assert capsys.readouterr().out == "x: 0 s, README.md, docs/a/b.md\n"
    # pages are no product: the next output may be made
    assert outputs.commit_of(clone) == commit


def test_changed_product_code_is_refused(clone):
    """Changed or new: no commit has what would be run."""
    for name in ("a.py", "new.py"):
        path = clone / "pytest_vmstorage" / name
        path.write_text("x = 1\n")
        with pytest.raises(outputs.OutputError, match=rf"commit them first.\n.*pytest_vmstorage/{name}"):
            outputs.commit_of(clone)
        git(clone, "stash", "-u", "-q")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo no >&2; exit 3", "it ended with status 3: no"),
        ("true", "it printed nothing"),
        ("echo before; echo $PWD/x", "it printed"),
        ("echo '```'", "it printed '```'"),
    ],
)
def test_a_script_that_fails_changes_no_page(clone, script, sentence):
    """Nor does one whose text is no output: empty, with a path of this machine, or one that would end its block."""
    (clone / "docs/outputs/x.sh").write_text(f"{script}\n")
    with pytest.raises(outputs.OutputError, match=sentence):
        outputs.make(clone, "x", "1234567")
    assert git(clone, "status", "--porcelain", "--", "README.md", "docs/a") == ""


def test_a_script_without_a_page_is_told(clone):
    """Its name may be misspelt there."""
    (clone / "docs/outputs/y.sh").write_text("echo words\n")
    with pytest.raises(outputs.OutputError, match="no page has <!-- output: y -->"):
        outputs.make(clone, "y", "1234567")


def test_a_name_that_no_script_has_is_refused(monkeypatch, capsys):
    """Before anything is run."""
    monkeypatch.setattr("sys.argv", ["outputs", "nobody"])
    with pytest.raises(SystemExit, match="2"):
        outputs.main()
    assert "there is no docs/outputs/nobody.sh" in capsys.readouterr().err
