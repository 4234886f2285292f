"""What a worker of pytest-xdist measures: it tells which cells there are, and takes its own in turns."""

from __future__ import annotations

import pytest

from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.plugin.keys import SESSION, is_storage_item
from pytest_vmstorage.plugin.passes import take_turns
from pytest_vmstorage.plugin.post import post_of
from pytest_vmstorage.plugin.preflight import check_gate
from pytest_vmstorage.plugin.sharing import work_of


def tell_cells(session: pytest.Session) -> None:
    """Tell the controller each test with a cell and about how long it takes, or that the run cannot be."""
    post = post_of(session.config)
    assert post is not None
    storage_items = [item for item in session.items if is_storage_item(item)]
    try:
        check_gate(session.config, storage_items)
        post.tell_cells(work_of(session.config, session.items, post.hosts))
    except (pytest.UsageError, VmStorageError) as error:
        # raised here it would reach the user as a crash of the worker
        post.refuse(str(error))


_TAKEN: pytest.StashKey[bool] = pytest.StashKey()


def take_own_turns(session: pytest.Session) -> None:
    """Before a worker's first test: let those that are its own take turns."""
    config = session.config
    post = post_of(config)
    if post is None or config.stash.get(_TAKEN, False):
        return
    config.stash[_TAKEN] = True
    storage = config.stash[SESSION]
    own = [session.items[place] for place in post.wait_for_own()]
    storage.own = own
    if not own:
        return
    try:
        storage.lab()
    except VmStorageError:
        # each of the tests fails with it
        return
    take_turns(session, own)
    post.tell_running("")
