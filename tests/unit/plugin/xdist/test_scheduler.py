"""Who runs which test under pytest-xdist: the scheduler with nodes and a desk that only take notes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from pytest_vmstorage.lab.division import Work, divide
from pytest_vmstorage.plugin.xdist.scheduler import HostScheduling

IDS = ["cell0", "plain1", "cell2", "plain3", "cell4", "plain5", "cell6"]
CELLS = [Work(place, name, 5.0) for place, name in enumerate(IDS) if name.startswith("cell")]


class Node:
    """A worker: it notes what it is sent."""

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, places: Sequence[int]) -> None:
        """Tests to run."""
        assert not self.shutting_down
        self.sent += places

    def shutdown(self) -> None:
        """No more will come."""
        self.shutting_down = True


class Stock:
    """xdist's own scheduler: it notes what it is told."""

    collection_is_completed = True
    tests_finished = False
    has_pending = True

    def __init__(self) -> None:
        self.told: list[str] = []
        self.nodes: list[Any] = []

    def add_node(self, node: Any) -> None:
        """It keeps a worker until it lets it go."""
        self.told.append("add_node")
        self.nodes.append(node)

    def __getattr__(self, name: str) -> Any:
        return lambda *_args: self.told.append(name)


class Desk:
    """What the controller knows: two hosts, for the first two workers and those that replace them."""

    refused = ""

    def __init__(self, work: Sequence[Work] = CELLS) -> None:
        self.work = work
        self.hosts: dict[Node, str] = {}
        self.handed: dict[Node, Sequence[int]] = {}
        self.at_work: dict[Node, str] = {}

    def host_of(self, node: Any) -> str:
        """As was written down."""
        return self.hosts[node]

    def cells_of(self, _node: Any) -> Sequence[Work]:
        """The same of all workers."""
        return self.work

    def running(self, node: Any) -> str:
        """What the worker told last."""
        return self.at_work.get(node, "")

    def divide(self, _ids: Sequence[str], work: Sequence[Work], _workers: int) -> dict[str, list[int]]:
        """Among both hosts."""
        return {host: [one.place for one in part] for host, part in divide(work, ("lab01", "lab02"), {}).items()}

    def hand_over(self, node: Any, places: Sequence[int]) -> None:
        """Note it."""
        self.handed[node] = places


class Run:
    """A scheduler with workers on these hosts, scheduled."""

    def __init__(self, *hosts: str, work: Sequence[Work] = CELLS) -> None:
        self.desk, self.stock = Desk(work), Stock()
        self.sched = HostScheduling(self.stock, cast("Any", self.desk))
        self.nodes = [self.add(host) for host in hosts]
        if hosts:
            self.sched.schedule()

    def add(self, host: str) -> Node:
        """A worker that has collected."""
        node = Node()
        self.desk.hosts[node] = host
        self.sched.add_node(node)  # type: ignore[arg-type]
        self.sched.add_node_collection(node, IDS)  # type: ignore[arg-type]
        return node

    def does(self, node: Node, *places: int) -> None:
        """The worker is through with these."""
        for place in places:
            assert place in node.sent
            self.sched.mark_test_complete(node, place)  # type: ignore[arg-type]

    def dies(self, node: Node) -> str | None:
        """The worker died."""
        return self.sched.remove_node(node)  # type: ignore[arg-type]


def test_a_host_has_its_cells_at_once_and_others_fill_up() -> None:
    """A worker is let go when nothing is left, and the run is over when all are at their last test."""
    run = Run("lab01", "lab02")
    first, second = run.nodes
    assert (first.sent, second.sent) == ([0, 4], [2, 6])
    assert run.desk.handed == {first: [0, 4], second: [2, 6]}
    assert not first.shutting_down
    run.does(first, 0)
    assert first.sent == [0, 4, 1, 3]
    assert not run.sched.tests_finished
    run.does(second, 2)
    assert second.sent == [2, 6, 5]
    assert first.shutting_down
    assert second.shutting_down
    run.does(first, 4, 1)
    assert not run.sched.tests_finished
    run.does(second, 6)
    assert run.sched.tests_finished
    assert run.sched.has_pending
    run.does(first, 3)
    run.does(second, 5)
    assert not run.sched.has_pending
    assert run.dies(first) is None


def test_a_worker_without_a_host_has_no_cells() -> None:
    """It begins with the others at once."""
    run = Run("lab01", "lab02", "")
    idle = run.nodes[2]
    assert idle.sent == [1, 3]
    assert run.desk.handed[idle] == []


def test_a_test_that_kills_its_worker_is_not_run_again() -> None:
    """The rest of that host's cells waits for the worker that replaces it, and nobody else gets them."""
    run = Run("lab01", "lab02")
    first, second = run.nodes
    assert run.dies(first) == "cell0"
    run.does(second, 2, 6)
    run.does(second, 1, 3)
    run.does(second, 5)
    assert not run.sched.tests_finished
    assert sorted(second.sent) == [1, 2, 3, 5, 6]
    new = run.add("lab01")
    run.sched.schedule()
    assert new.sent == [4]
    assert new.shutting_down
    assert run.desk.handed[new] == [4]
    assert run.sched.tests_finished


def test_a_worker_that_dies_in_a_round_of_a_turn_was_at_that_test() -> None:
    """Whatever stands first in its queue."""
    run = Run("lab01", "lab02")
    first, _ = run.nodes
    run.desk.at_work[first] = "cell4"
    assert run.dies(first) == "cell4"
    new = run.add("lab01")
    run.sched.schedule()
    assert new.sent[0] == 0


def test_tests_without_a_cell_go_to_any_that_is_left() -> None:
    """Those of a worker that died first."""
    run = Run("lab01", "lab02", "")
    first, second, idle = run.nodes
    assert run.dies(idle) == "plain1"
    run.does(first, 0)
    run.does(second, 2)
    assert sorted(first.sent + second.sent) == [0, 2, 3, 4, 5, 6]


def test_a_plugin_may_want_the_test_again() -> None:
    """As pytest-rerunfailures does."""
    run = Run("lab01", "lab02")
    first, _ = run.nodes
    assert run.dies(first) == "cell0"
    run.sched.mark_test_pending("cell0")
    new = run.add("lab01")
    run.sched.schedule()
    assert new.sent[:2] == [0, 4]


def test_a_run_without_cells_is_xdists_own() -> None:
    """All of it."""
    run = Run("lab01", "lab02", work=())
    assert run.stock.told == ["add_node", "add_node_collection", "add_node", "add_node_collection", "schedule"]
    run.sched.mark_test_complete(run.nodes[0], 1)  # type: ignore[arg-type]
    run.dies(run.nodes[0])
    run.sched.mark_test_pending("plain1")
    assert run.stock.told[5:] == ["mark_test_complete", "remove_node", "mark_test_pending"]
    assert not run.sched.tests_finished


def test_a_worker_that_xdist_let_go_is_none_any_more() -> None:
    """With fewer files than workers it lets some go at once, and takes the end of an unknown one for an error."""
    run = Run("lab01", "lab02", work=())
    first, second = run.nodes
    run.stock.nodes.remove(second)
    assert run.sched.nodes == [first]


def test_workers_that_collected_different_tests_are_told_of_by_xdist() -> None:
    """It reports the difference and runs nothing."""
    run = Run()
    run.add("lab01")
    run.sched.add_node_collection(run.add("lab02"), IDS[:3])  # type: ignore[arg-type]
    run.sched.schedule()
    assert run.stock.told[-1] == "schedule"
    with pytest.raises(KeyError):
        run.dies(Node())
