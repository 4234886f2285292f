"""By whom a file could be swapped for another: the owners and modes of the folders it lies in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_vmstorage.config.ownership import Owned, User, open_to_others, owned_here, this_user

JANE = User(1000, 1000, "jane", "jane")
ROOT = User(0, 0, "root", "root")


def owned(path: str, uid: int = 1000, gid: int = 1000, mode: int = 0o755, owner: str = "jane") -> Owned:
    """A folder, by default one of jane's."""
    return Owned(path, uid, gid, mode, owner)


ABOVE = (owned("/var/tmp", 0, 0, 0o1777, "root"), owned("/", 0, 0, 0o755, "root"))


@pytest.mark.parametrize(
    "folder",
    [
        owned("/var/tmp/jane"),
        owned("/var/tmp/jane", mode=0o711),
        # a group of jane's own, as umask 002 has it
        owned("/var/tmp/jane", mode=0o775),
        owned("/srv/vm", 0, 0, 0o711, "root"),
        # who may write there may rename nothing of others
        owned("/mnt/scratch", 0, 0, 0o1777, "root"),
    ],
    ids=str,
)
def test_a_folder_of_ones_own_or_of_roots_is_used(folder: Owned) -> None:
    """Where nobody else may rename what lies in it."""
    assert open_to_others(JANE, (folder, *ABOVE)) == ""


@pytest.mark.parametrize(
    ("user", "folder", "above", "reason"),
    [
        (ROOT, owned("/var/tmp/root"), ABOVE, "it belongs to the user jane, who could replace what lies in it"),
        (JANE, owned("/var/tmp/j", 1001, 1001, 0o755, "joe"), ABOVE, "it belongs to the user joe"),
        (JANE, owned("/var/tmp/j", mode=0o777), ABOVE, r"others may write to it \(mode 777\)"),
        (JANE, owned("/var/tmp/j", gid=50, mode=0o775), ABOVE, r"others may write to it \(mode 775\)"),
        (User(1000, 50, "jane", "staff"), owned("/x/j", gid=50, mode=0o775), ABOVE, "others may write to it"),
        (JANE, owned("/open/j"), (owned("/open", 0, 0, 0o777, "root"), *ABOVE), "others may write to /open, in which"),
    ],
)
def test_a_folder_that_others_can_change_is_refused(
    user: User, folder: Owned, above: tuple[Owned, ...], reason: str
) -> None:
    """Whoever may write to a folder may put a link in place of a file."""
    assert re.match(reason, open_to_others(user, (folder, *above)))


def test_who_became_root_by_sudo_may_name_a_folder_of_his_own() -> None:
    """He can do all that root can."""
    folder = owned("/home/jane/disks")
    assert open_to_others(ROOT._replace(sudo_uid="1000"), (folder, *ABOVE)) == ""
    assert open_to_others(ROOT._replace(sudo_uid="1001"), (folder, *ABOVE))


def test_where_names_are_known_a_sticky_folder_is_no_protection() -> None:
    """Whoever comes first makes what is not there yet."""
    folder = owned("/mnt/scratch", 0, 0, 0o1777, "root")
    assert open_to_others(JANE, (folder, *ABOVE), known_names=True).startswith("others may write to it")


def test_a_file_of_this_machine_is_looked_at_with_what_it_lies_in(tmp_path: Path) -> None:
    """By its real path."""
    (tmp_path / "link").symlink_to(tmp_path)
    own, *above = owned_here(tmp_path / "link")
    assert (own.path, above[-1].path) == (str(tmp_path.resolve()), "/")
    assert (own.uid, own.owner) == (this_user().uid, this_user().name)
    assert open_to_others(this_user(), (own, *above)) == ""
