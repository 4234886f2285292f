"""Systems under test without a lab, and real ones with something done right before each round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import cast

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.host.counters import Look
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.measure.system import Identity, Paths, Regions, SystemUnderTest
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.series import Counts


@dataclass
class FakeSystem:
    """A system whose every answer can be chosen; unless chosen, nothing happens and nothing is counted."""

    shell: Shell
    config: StorageConfig
    regions: Regions
    paths: Paths = field(default_factory=lambda: Paths(disk="/dev/vdb"))
    identity: Identity = field(default_factory=lambda: Identity(host="local"))
    look: Callable[[], Look] = Look
    count: Callable[[], Counts | None] = field(default=lambda: None)
    watch: Callable[[], Callable[[], HostState]] = field(default=lambda: HostState)
    set_host: Callable[[], Mapping[str, str]] = dict
    drop_caches: Callable[[], str] = str
    write_back: Callable[[], None] = field(default=lambda: None)
    recheck: Callable[[], str] = str
    fragments: Callable[[], int | None] = field(default=lambda: None)
    zeros_vanish: Callable[[], str] = str
    note_need: Callable[[int], None] = field(default=lambda _end_bytes: None)
    share_filled: Callable[[], None] = field(default=lambda: None)
    alongside: Callable[[Callable[[SystemUnderTest], None]], AbstractContextManager[None]] = field(
        default=lambda _prepare: nullcontext()
    )
    next_order: Callable[[], int] = int
    first_look: Callable[[], Callable[[], Look]] | None = None

    def begin_look(self) -> Callable[[], Look]:
        """Leave all to the result, unless `first_look` was chosen."""
        return self.first_look() if self.first_look is not None else self.look


class _Interposed:
    """All that a system is, with a step before each round."""

    def __init__(self, system: SystemUnderTest, before_round: Callable[[], object]) -> None:
        self._system = system
        self._before_round = before_round

    def begin_look(self) -> Callable[[], Look]:
        """Look as the system does; the step is done before the rest of it."""
        rest = self._system.begin_look()

        def look() -> Look:
            self._before_round()
            return rest()

        return look

    def __getattr__(self, name: str) -> object:
        return getattr(self._system, name)


def interpose(system: SystemUnderTest, before_round: Callable[[], object]) -> SystemUnderTest:
    """The same system, of which that is done right before each round, when the caches are dropped."""
    return cast("SystemUnderTest", _Interposed(system, before_round))
