"""The division of a run under pytest-xdist: a worker for each host, and each cell to the worker of its host.

It stands in for xdist's own schedulers, of which none knows hosts: in pytest 9.2 `--dist=loadgroup` forgets groups, and
those by scope run a test that kills its worker again for ever. A run without cells is left to xdist's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

    from pytest_vmstorage.plugin.xdist.controller import Controller


class HostScheduling:
    """A scheduler of xdist: it hands all of a host's tests to that host's worker at once, so that they can take turns.

    Tests without a cell go to whatever worker has the least to do. A test whose worker died is not run again; the
    others of that worker are for the one that replaces it.
    """

    def __init__(self, stock: Any, controller: Controller) -> None:
        self._stock, self._controller = stock, controller
        self._is_ours: bool | None = None
        self._ids: dict[WorkerController, list[str]] = {}
        self._queues: dict[WorkerController, list[int]] = {}
        self._fed: set[WorkerController] = set()
        self._with_cell: frozenset[int] = frozenset()
        self._waiting: dict[str, list[int]] = {}
        self._common: deque[int] = deque()
        self._crashed: dict[str, tuple[str, int]] = {}

    @property
    def nodes(self) -> list[WorkerController]:
        """All workers; where xdist divides the tests itself, those that it has not let go for want of tests."""
        return list(self._queues if self._is_ours else self._stock.nodes)

    @property
    def collection_is_completed(self) -> bool:
        """Whether all workers have collected."""
        return self._is_ours or bool(self._stock.collection_is_completed)

    @property
    def tests_finished(self) -> bool:
        """Whether every worker is at its last test, or through."""
        if not self._is_ours:
            return self._is_ours is False and bool(self._stock.tests_finished)
        is_all_sent = not self._common and not any(self._waiting.values())
        return is_all_sent and all(len(queue) < 2 for queue in self._queues.values())

    @property
    def has_pending(self) -> bool:
        """Whether tests are left."""
        if not self._is_ours:
            return bool(self._stock.has_pending)
        return bool(self._common) or any(self._waiting.values()) or any(self._queues.values())

    def add_node(self, node: WorkerController) -> None:
        """A worker is there."""
        self._queues[node] = []
        if not self._is_ours:
            self._stock.add_node(node)

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """A worker has collected these tests."""
        self._ids[node] = list(collection)
        if not self._is_ours:
            self._stock.add_node_collection(node, collection)

    def schedule(self) -> None:
        """All workers have collected, or one that replaces another has."""
        if self._is_ours is None:
            self._begin()
        if not self._is_ours:
            self._stock.schedule()
            return
        for node in [node for node in self._queues if node not in self._fed and node in self._ids]:
            self._feed(node)

    def _begin(self) -> None:
        first, *others = list(self._ids)
        work = self._controller.cells_of(first)
        # xdist's own scheduler reports workers that collected other tests than the first
        self._is_ours = bool(work or self._controller.refused) and all(
            self._ids[node] == self._ids[first] for node in others
        )
        if self._is_ours:
            ids = self._ids[first]
            self._waiting = self._controller.divide(ids, work, self.nodes)
            self._with_cell = frozenset(one.place for one in work)
            self._common.extend(place for place in range(len(ids)) if place not in self._with_cell)

    def _feed(self, node: WorkerController) -> None:
        """Give a worker what is its own, and of the others as many as keep it busy; at the end let it go."""
        if node not in self._fed:
            self._fed.add(node)
            own = self._waiting.pop(self._controller.host_of(node), [])
            self._controller.hand_over(node, own)
            self._send(node, own)
        # a worker begins a test once it knows the next one
        if len(self._queues[node]) < 2 and self._common and not node.shutting_down:
            count = max(2, len(self._common) // (4 * len(self._queues)))
            self._send(node, [self._common.popleft() for _ in range(min(count, len(self._common)))])
        if not self._common:
            for one in self._fed:
                if one in self._queues and not one.shutting_down:
                    one.shutdown()

    def _send(self, node: WorkerController, places: list[int]) -> None:
        if places:
            self._queues[node].extend(places)
            node.send_runtest_some(places)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """A worker is through with a test."""
        if self._is_ours:
            self._queues[node].remove(item_index)
            self._feed(node)
        else:
            self._stock.mark_test_complete(node, item_index, duration)

    def mark_test_pending(self, item: str) -> None:
        """A plugin wants a test that killed its worker run again."""
        if not self._is_ours:
            self._stock.mark_test_pending(item)
            return
        host, place = self._crashed[item]
        if place in self._with_cell:
            self._waiting[host].insert(0, place)
        else:
            self._common.appendleft(place)

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> None:
        """A worker gave back tests that were asked back."""
        if self._is_ours:
            raise NotImplementedError
        self._stock.remove_pending_tests_from_node(node, indices)

    def remove_node(self, node: WorkerController) -> str | None:
        """A worker ended; the test it was at, if it died in one. Raises KeyError for one that never was there."""
        queue = self._queues.pop(node)
        if not self._is_ours:
            crashed: str | None = self._stock.remove_node(node)
            return crashed
        if not queue:
            return None
        ids = self._ids[node]
        running = self._controller.running(node)
        place = next((one for one in queue if ids[one] == running), queue[0])
        queue.remove(place)
        host = self._controller.host_of(node)
        self._waiting[host] = [one for one in queue if one in self._with_cell]
        self._common.extendleft(reversed([one for one in queue if one not in self._with_cell]))
        for one in self.nodes:
            if one in self._fed:
                self._feed(one)
        self._crashed[ids[place]] = (host, place)
        return ids[place]
