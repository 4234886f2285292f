"""Workers of pytest-xdist: how many a run has, one for each host, and the cells that each of them measures."""

from __future__ import annotations

import pytest

from pytest_vmstorage.errors import VmStorageError, signed
from pytest_vmstorage.plugin.interleave import take_turns
from pytest_vmstorage.plugin.preflight import check_gate
from pytest_vmstorage.plugin.settings import debugger_of, settings_of
from pytest_vmstorage.plugin.stash import SESSION, is_skipped, is_storage_item
from pytest_vmstorage.plugin.xdist.channel import post_of
from pytest_vmstorage.plugin.xdist.shares import work_of


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


def take_own_turns(first: pytest.Item) -> None:
    """Let the tests take turns that are this worker's own; `first`, its first test, comes after that."""
    session = first.session
    post = post_of(session.config)
    assert post is not None
    own = [session.items[place] for place in post.wait_for_own()]
    if all(map(is_skipped, own)):
        return
    try:
        session.config.stash[SESSION].lab()
    except VmStorageError:
        # each of the tests fails with it
        return
    take_turns(session, own, first)
    post.tell_running("")


def count_workers(config: pytest.Config) -> int:
    """The number of workers, one for each host; raises pytest.UsageError."""
    try:
        return len(settings_of(config).hosts)
    except VmStorageError as error:
        raise pytest.UsageError(str(error)) from None


def use_workers(config: pytest.Config) -> None:
    """Distribute a run on several hosts as with `-n auto`, also where nobody says so: a process has one host.

    Raises pytest.UsageError where that cannot be.
    """
    option = config.option
    if hasattr(config, "workerinput") or option.collectonly or option.help:
        return
    count, settings = count_workers(config), settings_of(config)
    if settings.plan or count < 2 or getattr(option, "tx", None) or getattr(option, "distload", False):
        return
    what = f"--vm-host={settings.host_names} is {count} hosts, and each is measured on by a process of its own"
    if not hasattr(option, "numprocesses"):
        raise pytest.UsageError(signed(f"{what}: leave out -p no:xdist, or name one host.", "VM260"))
    if debugger := debugger_of(config):
        raise pytest.UsageError(signed(f"{what}, which {debugger} cannot debug: name one host.", "VM260"))
    if option.numprocesses == 0:
        raise pytest.UsageError(signed(f"{what}: leave out -n 0, or name one host.", "VM260"))
    if option.numprocesses is None:
        option.numprocesses = count
