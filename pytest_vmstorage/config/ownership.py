"""Ownership of files and folders: whether another user could put something else in place of a file."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

_STICKY, _GROUP_WRITES, _OTHERS_WRITE = 0o1000, 0o020, 0o002


class User(NamedTuple):
    """The user who runs commands on a machine; `sudo_uid` is the number of the user behind sudo, else "none"."""

    uid: int
    gid: int
    name: str
    group: str
    sudo_uid: str = "none"


class Owned(NamedTuple):
    """A file or folder: its path, the numbers of its user and group, its mode, and its user's name."""

    path: str
    uid: int
    gid: int
    mode: int
    owner: str


def open_to_others(user: User, folders: Sequence[Owned], *, known_names: bool = False) -> str:
    """A clause that says who could swap a file in the first folder; "" where only its user and root could.

    The further folders are those that contain it, the nearest first. Write permission on a folder allows renaming of
    its entries, unless it is sticky; there it still allows making a file first whose name is known (`known_names`). A
    group that bears the user's name has no other member.
    """
    own, *above = folders
    if not is_of(user, own):
        return f"it belongs to the user {own.owner}, who could replace what lies in it"
    others = _OTHERS_WRITE if _is_private_group(user, own) else _OTHERS_WRITE | _GROUP_WRITES
    if own.mode & others and (known_names or not own.mode & _STICKY):
        return f"others may write to it (mode {own.mode:o}), and could replace what lies in it"
    for one in above:
        if is_open(one):
            return f"others may write to {one.path}, in which it lies (mode {one.mode:o}), and could replace it"
    return ""


def is_open(one: Owned) -> bool:
    """Whether everybody may write to it, or rename its entries."""
    return bool(one.mode & _OTHERS_WRITE) and not one.mode & _STICKY


def is_of(user: User, one: Owned) -> bool:
    """Whether it belongs to that user, to root, or to the user behind sudo."""
    return str(one.uid) in ("0", str(user.uid), user.sudo_uid)


def _is_private_group(user: User, one: Owned) -> bool:
    return one.gid == 0 or (one.gid == user.gid and user.group == user.name)


def this_user() -> User:
    """The user of this process."""
    uid, gid = os.geteuid(), os.getegid()
    sudo_uid = os.environ.get("SUDO_UID", "none") if uid == 0 else "none"
    return User(uid, gid, _user_name(uid), _group_name(gid), sudo_uid)


def owned_here(path: Path) -> tuple[Owned, ...]:
    """A file or folder of this machine and the folders that contain it, links resolved first; raises OSError."""
    real = path.resolve()
    return tuple(_owned(one) for one in (real, *real.parents))


def _owned(path: Path) -> Owned:
    found = path.lstat()
    return Owned(str(path), found.st_uid, found.st_gid, found.st_mode & 0o7777, _user_name(found.st_uid))


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # a container may run under a number that has no name
        return str(uid)


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
