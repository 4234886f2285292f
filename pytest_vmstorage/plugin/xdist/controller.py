"""pytest-xdist's controller: gives each worker a host, divides the cells among them, and prints what they say."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LOCAL, find_host
from pytest_vmstorage.errors import VmStorageError
from pytest_vmstorage.lab.division import Work, divide
from pytest_vmstorage.plugin.ending import journal_path
from pytest_vmstorage.plugin.progress_line import (
    Shown,
    TerminalLine,
    count_text,
    status_line,
    together,
    write_sentence,
)
from pytest_vmstorage.plugin.recorder import ATTRIBUTE
from pytest_vmstorage.plugin.settings import Settings
from pytest_vmstorage.plugin.timing import OUTPUT
from pytest_vmstorage.plugin.xdist.channel import INPUT
from pytest_vmstorage.plugin.xdist.scheduler import HostScheduling
from pytest_vmstorage.plugin.xdist.shares import division_line, homes_of
from pytest_vmstorage.results.run import Failure, Measurement
from pytest_vmstorage.results.timeline import Timeline

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


class Controller:
    """The controller's knowledge of its workers; it is registered where tests are distributed.

    Raises pytest.UsageError where a file that names the hosts is wrong.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        try:
            self._config, self._hosts = config, settings.hosts
        except VmStorageError as error:
            raise pytest.UsageError(str(error)) from None
        self._free = list(self._hosts)
        self._line = TerminalLine(config)
        self._shown: dict[str, Shown] = {}
        self._journal = str(journal_path(config))
        self._host_of: dict[WorkerController, str] = {}
        self._cells: dict[WorkerController, list[Work]] = {}
        self._running: dict[WorkerController, str] = {}
        self._work: dict[str, tuple[Work, str]] = {}
        self.refused = ""
        self._rounds: dict[str, dict[int, dict[str, Any]]] = {}
        self._facts: dict[str, dict[str, Any]] = {}
        self.timelines: list[Timeline] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """A worker begins: it gets the first host that none has, which is its predecessor's if it replaces one."""
        host = self._free.pop(0) if self._free else ""
        self._host_of[node] = host
        channel = node.gateway.newchannel()
        channel.setcallback(partial(self._receive, node))
        count: int = node.workerinput["workercount"]
        content = {
            "host": host,
            "hosts": list(self._hosts[:count]),
            "journal": self._journal,
            "is_live": self._line.is_there,
            "channel": channel,
        }
        node.workerinput[INPUT] = content

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        """A worker ended; one that died is replaced, and its host is for that one."""
        if told := getattr(node, "workeroutput", {}).get(OUTPUT):
            self.timelines.append(Timeline.model_validate(told))
        if error and self._host_of.get(node):
            self._free.insert(0, self._host_of[node])

    @pytest.hookimpl(optionalhook=True, tryfirst=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> HostScheduling:
        """Ours, which asks xdist's own for what has no cells."""
        name = "pytest_xdist_make_scheduler"
        stock = config.pluginmanager.subset_hook_caller(name, remove_plugins=[self])(config=config, log=log)
        return HostScheduling(stock, self)

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: pytest.TestReport) -> None:
        """A test killed its worker: its cell has no figure, and the matrix says why."""
        if crashitem in self._work:
            work, host = self._work[crashitem]
            failure = Failure(
                nodeid=crashitem,
                config=StorageConfig.model_validate_json(work.cell),
                host=find_host(host, None).name,
                reason=f"the process that measured it died: {report.longrepr}",
                on_host=work.on_host,
            )
            setattr(report, ATTRIBUTE, {"failure": failure.model_dump(mode="json")})

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test that was reported has its rounds in its report; pytest writes of it where the live line is."""
        self._line.show("")
        if report.when not in ("setup", "call"):
            self._rounds.pop(report.nodeid, None)

    def unreported(self) -> tuple[list[Measurement], list[dict[str, Any]]]:
        """The measurements of tests that came to no report, and the hosts on which workers took them."""
        rows = [row for places in self._rounds.values() for row in places.values()]
        return [Measurement.model_validate(row) for row in rows], list(self._facts.values())

    def _receive(self, node: WorkerController, message: tuple[str, Any]) -> None:
        """Take a worker's message; in execnet's thread, before xdist takes what the worker sent it afterwards."""
        kind, content = message
        if kind == "cells":
            self._cells[node] = [Work(*one) for one in content]
        elif kind == "rounds":
            place, row, told, new, hosts = content
            self._facts |= {host["name"]: host for host in hosts}
            before = self._rounds.setdefault(row["nodeid"], {}).get(place, {}).get("samples", [])
            self._rounds[row["nodeid"]][place] = row | {"samples": [*before[:told], *new]}
        elif kind == "progress":
            host, shown = self._host_of[node], Shown(*content)
            self._shown.pop(host, None)
            self._shown[host] = shown
            self._line.show(status_line(together(self._shown)))
        elif kind == "refused":
            self.refused = content
        elif kind == "running":
            self._running[node] = content
        else:
            host = self._host_of[node]
            self._say(f"{host}: {content}" if len(self._hosts) > 1 else content)

    def host_of(self, node: WorkerController) -> str:
        """The host that the worker measures on, "" for none."""
        return self._host_of[node]

    def cells_of(self, node: WorkerController) -> Sequence[Work]:
        """The tests with a cell that the worker collected."""
        return self._cells.get(node, ())

    def running(self, node: WorkerController) -> str:
        """The test that the worker runs out of its order, "" for none."""
        return self._running.get(node, "")

    def hand_over(self, node: WorkerController, places: Sequence[int]) -> None:
        """Tell a worker which tests with a cell are its own."""
        channel: Any = node.workerinput[INPUT]["channel"]
        with contextlib.suppress(OSError):
            # it died meanwhile, which xdist will tell
            channel.send(list(places))

    def divide(
        self, ids: Sequence[str], work: Sequence[Work], nodes: Sequence[WorkerController]
    ) -> dict[str, list[int]]:
        """Each host's tests; says how it comes out, and where workers and hosts are not as many.

        Raises pytest.UsageError where workers found that the run cannot be.
        """
        if self.refused:
            raise pytest.UsageError(self.refused)
        self._say_numbers(len(nodes), is_all=len(work) == len(ids))
        hosts = self._hosts[: len(nodes)]
        places = {ids[one.place]: one.place for one in work}
        homes = {} if len(hosts) == 1 else homes_of(self._config, hosts, places)
        parts = divide(work, hosts, homes)
        self._work = {ids[one.place]: (one, host) for host, part in parts.items() for one in part}
        if len(hosts) > 1:
            self._say(division_line(parts, len(homes)))
        return {host: [one.place for one in part] for host, part in parts.items()}

    def _say_numbers(self, workers: int, *, is_all: bool) -> None:
        hosts, surplus = len(self._hosts), workers - len(self._hosts)
        if surplus > 0:
            s = "s" if surplus == 1 else ""
            what = f"idle{s}" if is_all else f"take{s} tests without a cell only"
            whose = "this machine alone" if self._hosts == (LOCAL,) else count_text(hosts, "host")
            self._say(
                f"{workers} workers for {whose}: {surplus} {what}, for one measurement at a time runs on a host"
                f"{'' if hosts > 1 else ' (--vm-host=NAME,NAME gives each worker one of its own)'}"
            )
        elif surplus < 0:
            left, verb = ", ".join(self._hosts[workers:]), "gets" if surplus == -1 else "get"
            there = f"{count_text(workers, 'worker')} for {hosts} hosts"
            self._say(f"{there}: {left} {verb} no cells (-n {hosts} has one for each)")
        if not is_all and LOCAL in self._hosts and workers > 1:
            self._say("tests without a cell run beside measurements on this machine, and take time from them")
        dist = self._config.getoption("dist", "load")
        if dist != "load":
            self._say(f"--dist={dist} divides nothing here: each cell goes to its host's worker")

    def _say(self, sentence: str) -> None:
        with self._line.erased():
            write_sentence(self._config, sentence)
