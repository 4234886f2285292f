"""What verdicts make of exit status, JUnit and the summary of a pull request.

Tests of `plugin.gate`.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from projects import TWO_CELLS, flat, text_of

JUDGED = ("--vm-baseline=base", "--vm-max-regression=20%", "--vm-day-spread=2%", "--vm-confirm")


@pytest.fixture
def saved(two_cells):
    """A project whose two cells were saved at 10000 IOPS."""
    two_cells.begin_with("--vm-save=base")
    two_cells.log()
    return two_cells


def test_bisect_finds_a_good_commit_good(saved):
    """0 where the loss is excluded in every cell."""
    result = saved.run(*JUDGED, "--vm-bisect")
    assert result.ret == 0, text_of(result)


def test_bisect_finds_a_slow_commit_bad(saved):
    """1 where a cell regressed, whatever else."""
    saved.wish(speed={"qcow2-*": 0.5})
    assert saved.run(*JUDGED, "--vm-bisect").ret == 1


@pytest.mark.parametrize(
    "args",
    [
        ("--vm-baseline=base",),
        (*JUDGED, "--vm-accel=nonsense"),
        (*JUDGED, "-k", "no such test"),
        ("--vm-baseline=nowhere",),
        (),
    ],
    ids=["inconclusive", "wrong option", "no test", "no baseline", "nothing to judge by"],
)
def test_bisect_skips_what_cannot_be_judged(saved, args):
    """125, which git takes for a commit that cannot be tested; a wrong option would be a bad commit else."""
    result = saved.run(*args, "--vm-bisect")
    assert result.ret == 125, text_of(result)
    assert "Traceback" not in text_of(result)


def test_bisect_skips_a_cell_without_a_figure(saved):
    """A guest that does not boot says nothing of speed."""
    saved.wish(boots={"qcow2-*": 0})
    assert saved.run(*JUDGED, "--vm-bisect").ret == 125


SPEED_OF_THE_COMMIT = """
import json, os
from pathlib import Path
speed = json.loads(Path(__file__).with_name("speed.json").read_text())
os.environ["VMS_FAKE"] = json.dumps({**json.loads(os.environ["VMS_FAKE"]), "speed": {"qcow2-*": speed}})
"""


def test_git_bisect_run_finds_the_commit_that_made_it_slow(saved):
    """Git's own word for it; one of the commits on the way gives no figure, and is skipped."""
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@t.invalid", "-c", "init.defaultBranch=main"]

    def run(*argv):
        return subprocess.run([*git, *argv], cwd=saved.path, check=True, capture_output=True, text=True).stdout

    run("init", "--quiet")
    saved.write(conftest=SPEED_OF_THE_COMMIT)
    (saved.path / ".gitignore").write_text("*\n!conftest.py\n!speed.json\n!.gitignore\n")
    commits = []
    for speed in ("1.0", "1.01", "0.99", "no number", "1.0", "0.6", "0.61", "0.59"):
        (saved.path / "speed.json").write_text(speed)
        run("add", "--all")
        run("commit", "--quiet", "--message", speed)
        commits.append(run("rev-parse", "HEAD").strip())
    run("bisect", "start", commits[-1], commits[0])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *JUDGED, "--vm-bisect"]
    assert f"{commits[5]} is the first bad commit" in run("bisect", "run", *command)
    assert "git bisect skip" in run("bisect", "log")


def test_bisect_takes_a_failed_assertion_for_bad(saved):
    """The test's own threshold is a judgement too."""
    saved.write(test_two=TWO_CELLS.replace("> 500", "> 50000"))
    assert saved.run(*JUDGED, "--vm-bisect").ret == 1


@pytest.mark.parametrize("policy", ["warn", "fail"])
def test_a_missing_cell_fails_where_it_is_to(saved, policy):
    """It is listed in any case; as a failed test it stands in JUnit and in the exit status."""
    saved.write(test_two=TWO_CELLS.replace('["raw", "qcow2"]', '["raw"]'))
    result = saved.run(*JUDGED, f"--vm-missing={policy}", "--junitxml=j.xml")
    junit = (saved.path / "j.xml").read_text()
    assert "measured before and not in this run:" in text_of(result)
    assert result.ret == (1 if policy == "fail" else 0), text_of(result)
    assert ('failures="1"' in junit) is (policy == "fail")
    if policy == "fail":
        assert "qcow2-none-virtio-blk-off 1G, fakehost was measured before and is not in this run" in junit


def test_the_summary_of_a_pull_request(saved, monkeypatch):
    """What is red stands first, the matrix is folded, and what another step wrote stays."""
    summary = saved.path / "summary.md"
    summary.write_text("# earlier step\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    saved.wish(speed={"qcow2-*": 0.5})
    assert saved.run(*JUDGED).ret == 1
    text = summary.read_text()
    assert text.startswith("# earlier step\n## VM storage: 1 REGRESSED, 1 PASS against baseline 'base'\n")
    assert (
        "| 🔴 REGRESSED | fio randwrite 4k qd32 | qcow2-none-virtio-blk-off 1G | 10k IOPS | 4950 IOPS | +102 %" in text
    )
    assert "<details><summary>The whole matrix</summary>" in text
    # the verdict says it
    assert "tests that failed, and why" not in text
    assert "failed tests" not in text


def test_a_summary_that_cannot_be_written_is_said(saved, monkeypatch):
    """And costs nothing else."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(saved.path / "nowhere" / "summary.md"))
    result = saved.run(*JUDGED)
    assert result.ret == 0
    assert "summary.md was not written" in flat(result)


def test_the_plan_tells_of_pairs(two_cells):
    """Its time is that of the cells themselves; how many pairs it takes nobody knows before."""
    result = two_cells.run("--vm-plan", "--vm-against=cache=writeback")
    assert result.ret == 0
    assert "each cell is paired with the same and cache=writeback: 6 to 24 pairs of rounds" in flat(result)


GATE_FILE = """
[[cells]]
cell = "*[qcow2]"
tolerated = "15%"

[[cells]]
cell = "*[vmdk]"
tolerated = "15%"
"""


def test_a_rule_for_no_test_is_told(saved):
    """One for a test that this run left out, or that the baseline has, is of use another time."""
    (saved.path / "vmstorage-gate.toml").write_text(GATE_FILE)
    told = flat(saved.run(*JUDGED, "-k", "raw"))
    assert "vmstorage-gate.toml, [[cells]] 2: cell = '*[vmdk]' matches no test" in told
    assert "[[cells]] 1" not in told


@pytest.mark.parametrize("workers", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_baseline_of_other_tests_is_never_green(saved, workers):
    """Xdist's controller learns only at the end that nothing could be compared; the file was renamed, say."""
    (saved.path / "test_two.py").rename(saved.path / "test_new.py")
    result = saved.run("--vm-baseline=base", *workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "the baseline 'base' has none of the" in flat(result)
