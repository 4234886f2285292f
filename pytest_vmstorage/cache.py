"""The user's cache folder on this machine: where it is, and that it can be used and is nobody else's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pytest_vmstorage.errors import HostError
from pytest_vmstorage.ownership import open_to_others, owned_here, this_user

_HINT = "Name another one with VMSTORAGE_CACHE=FOLDER in the environment."
_TRIED_BYTES = 64 * 1024
"""As much as any file that a run cannot do without: a full file system takes an empty file, and no block."""


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """$VMSTORAGE_CACHE, else pytest-vmstorage in $XDG_CACHE_HOME or ~/.cache; nothing is made."""
    own = environ.get("VMSTORAGE_CACHE")
    if own:
        return Path(own).expanduser().absolute()
    xdg = environ.get("XDG_CACHE_HOME", "")
    # The XDG base directory specification wants a relative path ignored.
    base = Path(xdg) if xdg.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".cache"
    return base / "pytest-vmstorage"


def use_cache_folder() -> Path:
    """The cache folder, made if need be; raises HostError where it cannot be written or another user could change it.

    What lies in it is run as this user: the appliance, and what names the things that a later run removes.
    """
    folder = cache_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = open_to_others(this_user(), owned_here(folder), known_names=True)
        if reason:
            raise HostError(f"The cache folder {folder} is not used: {reason}.", hint=_HINT)
        # without a name, so that nothing stays where it is killed in the middle
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(bytes(_TRIED_BYTES))
            stream.flush()
    except (OSError, RuntimeError) as error:
        # RuntimeError is pathlib's for links that lead in a circle
        why = getattr(error, "strerror", None) or str(error)
        raise HostError(f"The cache folder {folder} cannot be used: {why}.", hint=_HINT) from None
    return folder
