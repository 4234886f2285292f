"""Measuring: fill, warm up, rounds, and what is handed on when.

Tests of `measure.runner`, and of `measure.system`, whose values and protocol it uses by way of `testing.system`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import Hygiene
from pytest_vmstorage.errors import ConfigError, ForeignPathError, LateError, WorkloadError
from pytest_vmstorage.host.counters import Look, Pressure
from pytest_vmstorage.host.guard import Guard
from pytest_vmstorage.host.shell import TIMED_OUT, CommandResult, LocalShell
from pytest_vmstorage.measure.preconditioning import AGE_SEED, check_fits
from pytest_vmstorage.measure.runner import measure, shell_for
from pytest_vmstorage.measure.system import Identity, Paths, Plan, Regions, SystemUnderTest
from pytest_vmstorage.results.cost import Process, Thread
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.run import Measurement, Metric, Proof, Sample
from pytest_vmstorage.results.series import Counts
from pytest_vmstorage.testing.shell import Asked, FakeShell
from pytest_vmstorage.testing.system import FakeSystem
from pytest_vmstorage.workloads.base import Target, Workload
from pytest_vmstorage.workloads.tar import Tar

MIB = 2**20
DISK = "/dev/vdb"


class Tool(Workload):
    """A tool that prints its figure, or writes it to a file."""

    tool: ClassVar[str] = "tool"
    region: int | None = 16 * MIB
    is_reader: bool = False
    file: str | None = None

    @property
    def label(self) -> str:
        """The column."""
        return "tool write"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """One rate."""
        return (Metric(name="bw", unit="MiB/s", better="higher"),)

    @property
    def primary(self) -> str:
        """The rate."""
        return "bw"

    @property
    def region_bytes(self) -> int | None:
        """What it was given."""
        return self.region

    @property
    def reads(self) -> bool:
        """What it was told."""
        return self.is_reader

    @property
    def writes(self) -> bool:
        """What it does not read."""
        return not self.is_reader

    @property
    def expected_seconds(self) -> float:
        """Two seconds."""
        return 2.0

    def output_file(self, target: Target) -> str | None:
        """What it was given."""
        return self.file

    def argv(self, target: Target) -> tuple[str, ...]:
        """Region and path."""
        return ("tool", target.path, str(target.offset_bytes), str(target.size_bytes))

    def parse(self, text: str) -> Mapping[str, float]:
        """The number it printed."""
        return {"bw": float(text)}


class Scene:
    """A subject whose tool prints 1, 2, 3 ..., and all that happened, in order."""

    def __init__(self, state: str = "filled", size: str = "64M", **cell: object) -> None:
        self.events: list[str] = []
        self.samples: list[Sample] = []
        self.shell = FakeShell()
        self.regions = Regions(StorageConfig(size=size).size)
        self._count = 0
        self.shell.do(re.compile("^tool "), self._tool)
        self.shell.do(re.compile("fio --name=fill"), self._note("fill"))
        self.shell.do(re.compile("fio --name=age"), self._note("age"))
        self.shell.do(re.compile("flushbufs"), self._note("forget"))
        self.system = FakeSystem(
            shell=self.shell,
            config=StorageConfig(state=state, size=size, **cell),
            regions=self.regions,
            paths=Paths(disk=DISK),
            identity=Identity(host="local", facts={"kernel": "6.1"}),
            drop_caches=self._drop,
        )

    def _tool(self, asked: object) -> CommandResult:
        self._count += 1
        self.events.append(f"tool {self._count}")
        return CommandResult(argv=(), returncode=0, stdout=str(self._count), stderr="", seconds=2.5)

    def _note(self, event: str) -> Callable[[object], CommandResult]:
        def note(_asked: object) -> CommandResult:
            self.events.append(event)
            return CommandResult(argv=(), returncode=0, stdout="", stderr="", seconds=0)

        return note

    def _drop(self) -> str:
        self.events.append("drop")
        return "dropped before each round"

    def prove(self, *proof: Proof) -> None:
        """Have the system proven so."""
        self.system.identity = self.system.identity.model_copy(update={"proof": proof})

    def keep(self, sample: Sample) -> None:
        """Take a finished sample."""
        self.events.append(f"kept {sample.figures['bw']:.0f}")
        self.samples.append(sample)

    def measure(self, workload: Workload | None = None, **plan: object) -> Measurement:
        """Run the plan."""
        return measure(self.system, workload or Tool(), Plan.model_validate(plan), keep_sample=self.keep)

    def targets(self) -> list[tuple[int, int]]:
        """Offset and size of each run of the tool, in MiB."""
        runs = [asked.argv for asked in self.shell.asked if asked.argv[0] == "tool"]
        return [(int(offset) // MIB, int(size) // MIB) for _tool, _path, offset, size in runs]


class Strange(Tool):
    """A tool whose reading goes wrong."""

    figures: Mapping[str, Any] = {}

    def parse(self, text: str) -> Mapping[str, float]:
        """What it was given."""
        return self.figures


@pytest.mark.parametrize(
    ("figures", "sentence"),
    [
        ({}, "parse of tool write returned no 'bw'"),
        ({"bw": 1.0, "iops": 2.0}, "parse of tool write returned 'iops', which is not among its metrics: bw"),
        ({"bw": "fast"}, "parse of tool write returned 'fast' for 'bw'"),
        ({"bw": None}, "parse of tool write returned None for 'bw'"),
    ],
)
def test_figures_are_those_that_were_promised(figures: dict[str, Any], sentence: str) -> None:
    """A workload of the user's that returns something else is told so, and gives no measurement."""
    with pytest.raises(WorkloadError, match=sentence):
        Scene().measure(Strange(figures=figures))


def test_a_round_has_its_series_and_that_of_its_warm_up() -> None:
    """What the disk moved while its tool ran: the filling, and what is done between rounds, are in none."""
    scene = Scene()
    moved = {"fill": 1000, "forget": 100, "tool": 5}
    asked: list[str] = []

    def count() -> Counts:
        asked.append(scene.events[-1])
        reads = sum(moved.get(event.split()[0], 0) for event in scene.events)
        return Counts(reads, 0, 4096 * reads, 0)

    scene.system.count = count
    measured = scene.measure(rounds=2, warmup=2)
    first, second = measured.samples
    assert first.series is not None
    assert second.series is not None
    assert [one.total("reads") for one in (first.series, second.series, *first.warm_ups)] == [5, 5, 5, 5]
    assert (len(first.warm_ups), second.warm_ups) == (2, ())
    assert (first.series.counted_by, first.series.lost, first.series.warm_up_s) == ("QEMU", 0, 0.0)
    assert [sample.series for sample in scene.samples] == [first.series, second.series]
    # a reading before each run of the tool, and one after it
    assert [event.split()[0] for event in asked] == ["drop", "tool"] * 4


def test_a_series_begins_with_the_counts_of_the_look_before_the_round() -> None:
    """So that the tool waits for one answer less: the disk is read after it alone."""
    scene, asked = Scene(), []

    def count() -> Counts:
        asked.append(scene.events[-1])
        return Counts(9, 0, 9 * 4096, 0)

    scene.system.count = count
    scene.system.look = lambda: Look(counts=Counts(2, 0, 2 * 4096, 0))
    (sample,) = scene.measure(rounds=1, warmup=0).samples
    assert sample.series is not None
    assert sample.series.total("reads") == 7
    assert [event.split()[0] for event in asked] == ["tool"]


def test_a_sample_is_kept_before_the_next_round_begins() -> None:
    """Fill, warm up unrecorded, and in each round: forget in the guest, forget on the host, run, keep."""
    scene = Scene()
    measured = scene.measure(rounds=2, warmup=1)
    assert scene.events == [
        *("fill", "forget", "drop", "tool 1"),
        *("forget", "drop", "tool 2", "kept 2"),
        *("forget", "drop", "tool 3", "kept 3"),
    ]
    assert measured.values("bw") == (2, 3)
    assert measured.samples == tuple(scene.samples)


class Waiting(Scene):
    """Another cell's subject that waits while the first one is prepared; all that happens to both, in order."""

    def beside(self, scene: Scene) -> None:
        """Wait beside that one."""
        self.events = scene.events
        self.shell.do(re.compile("fio --name=fill"), self._note("fill the other"))
        scene.system.alongside = self._enter

    @contextlib.contextmanager
    def _enter(self, do: Callable[[SystemUnderTest], None]) -> Iterator[None]:
        do(self.system)
        self.events.append("both")
        yield
        self.events.append("both are done")

    def _drop(self) -> str:
        self.events.append("drop the other's")
        return ""


def test_a_disk_that_waits_is_filled_beside_the_one_at_work() -> None:
    """Nothing of it is left in the host's cache before the first round; its own turn begins with what was written."""
    scene, other = Scene(), Waiting()
    other.beside(scene)
    scene.measure(rounds=1, warmup=0)
    assert scene.events[:4] == ["fill the other", "drop the other's", "both", "fill"]
    assert scene.events[4:] == ["both are done", "forget", "drop", "tool 1", "kept 1"]
    assert other.regions.written_bytes == 16 * MIB
    assert other.shell.asked[0].argv == scene.shell.asked[0].argv
    asked = len(other.shell.asked)
    other.measure(rounds=1, warmup=0)
    assert not [one for one in other.shell.asked[asked:] if one.argv[0] == "fio"]


@pytest.mark.parametrize(
    ("cell", "plan"),
    [
        ({"state": "fresh"}, {}),
        ({"state": "aged"}, {}),
        ({"backing": "null"}, {}),
        ({"format": "vmdk", "subformat": "streamOptimized"}, {}),
        ({"size": "8M"}, {}),
        ({"total_bytes_sec": "10M"}, {}),
        ({"total_iops_sec": 100}, {}),
        ({}, {"hygiene": Hygiene(without=frozenset({"host-caches"}))}),
    ],
    ids=["fresh", "aged", "null", "arrives filled", "too small", "10 MiB/s", "100 IOPS", "host caches kept"],
)
def test_a_disk_that_is_not_to_be_filled_so_is_left_alone(cell: dict[str, Any], plan: dict[str, Any]) -> None:
    """Its own turn brings it into its state."""
    scene, other = Scene(), Waiting(**cell)
    other.beside(scene)
    scene.measure(rounds=1, warmup=0, **plan)
    assert (other.shell.asked, other.regions.written_bytes) == ([], 0)


def test_the_host_is_watched_from_when_the_disk_is_filled() -> None:
    """Guests of earlier rows may go until then, and are gone before the first round, a warm-up too."""
    scene = Scene()
    scene.system.watch = lambda: scene.events.append("watched") or HostState
    scene.measure(rounds=1, warmup=1)
    assert [one for one in scene.events if one in ("fill", "watched", "tool 1")] == ["fill", "watched", "tool 1"]


class Filed(Tool):
    """A tool whose output is in a file."""

    def output_file(self, target: Target) -> str:
        """Where."""
        return "/tmp/out"


def test_host_and_guest_are_read_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host while the guest forgets; after the last round both, for the last time, while the output is fetched."""
    scene, before, after = Scene(), threading.Barrier(2), threading.Barrier(4)

    def meet(event: str, result: object = None, met: threading.Barrier = after) -> Callable[..., Any]:
        def do(*_asked: object) -> object:
            met.wait(60)
            scene.events.append(event)
            return result

        return do

    def look() -> Look:
        return meet("looked", Look())() if "tool 1" in scene.events else Look()

    forgot = CommandResult(argv=(), returncode=0, stdout="", stderr="", seconds=0)
    scene.shell.do(re.compile("flushbufs"), meet("forget", forgot, before))
    monkeypatch.setattr(scene.shell, "read", meet("read", "1"))
    scene.system = dataclasses.replace(
        scene.system,
        watch=meet("watched", meet("around", HostState(governor="performance")), before),
        look=look,
        recheck=meet("rechecked", ""),
    )
    measured = scene.measure(Filed(), rounds=1, warmup=0)
    assert scene.events[3:5] == ["drop", "tool 1"]
    assert set(scene.events[1:3]) == {"forget", "watched"}
    assert set(scene.events[5:9]) == {"looked", "read", "around", "rechecked"}
    assert scene.events[9:] == ["kept 1"]
    assert measured.around.governor == "performance"


def test_what_was_proven_is_looked_at_anew_after_the_last_round_alone() -> None:
    """A warm-up and the rounds before it are not the last; a tool that fails has no figure to be doubted."""
    scene = Scene()
    scene.system = dataclasses.replace(scene.system, recheck=lambda: scene.events.append("rechecked") or "")
    scene.measure(rounds=2, warmup=1)
    at = scene.events.index("rechecked")
    assert scene.events.count("rechecked") == 1
    assert [one for one in scene.events[:at] if one.startswith(("tool", "kept"))] == [
        "tool 1",
        "tool 2",
        "kept 2",
        "tool 3",
    ]
    assert scene.events[at + 1 :] == ["kept 3"]


def test_a_change_makes_the_figure_invalid_and_the_round_is_kept() -> None:
    """What it was before the change may be of use to whoever looks for the reason."""
    scene = Scene()
    scene.system = dataclasses.replace(scene.system, recheck=lambda: "the write cache is off")
    with pytest.raises(WorkloadError, match="INVALID: the write cache is off"):
        scene.measure(rounds=1, warmup=0)
    assert "kept 1" in scene.events


@pytest.mark.parametrize("without", [(), ("host-caches",), ("guest-caches",)])
def test_guest_and_qemu_are_looked_at_while_the_host_forgets(without: tuple[str, ...]) -> None:
    """And the host once it has; where caches are left as they are, all of the look is taken right before the round."""
    scene, met = Scene(), threading.Barrier(2)
    scene.shell.do(re.compile("sync;"), scene._note("forget"))

    def note(event: str) -> Look:
        scene.events.append(event)
        return Look()

    def begin() -> Callable[[], Look]:
        if not without:
            met.wait(60)
        note("looked at guest")
        return lambda: note("looked at host")

    def drop() -> str:
        if not without:
            met.wait(60)
        return scene._drop()

    scene.system = dataclasses.replace(scene.system, first_look=begin, look=lambda: note("looked"), drop_caches=drop)
    scene.measure(rounds=1, warmup=0, hygiene=Hygiene(without=without))
    said = [one for one in scene.events if one not in ("fill", "forget", "drop")]
    assert said == ["looked at guest", "looked at host", "tool 1", "looked", "kept 1"]
    forgetting = max(n for n, one in enumerate(scene.events) if one in ("forget", "drop"))
    assert not without or forgetting < scene.events.index("looked at guest")


def test_of_a_tool_that_failed_nothing_is_counted() -> None:
    """Who looks into a guest that hangs waits, and what the tool said is to be told."""
    scene = Scene()
    scene.shell.answer(re.compile("^tool "), stderr="tool: no", returncode=1)
    looked: list[str] = []
    scene.system = dataclasses.replace(scene.system, look=lambda: (looked.append("once"), Look())[1])
    with pytest.raises(WorkloadError, match="tool: no"):
        scene.measure(rounds=1, warmup=0)
    assert looked == ["once"]


def test_the_host_forgets_when_it_is_watched() -> None:
    """However long it takes to read, or the guests of earlier rows take to be gone: that is work of the host's disk."""
    scene = Scene()

    def slowly(event: str, result: object = None) -> Callable[[], Any]:
        def do() -> object:
            time.sleep(0.05)
            scene.events.append(event)
            return result

        return do

    scene.system = dataclasses.replace(scene.system, watch=slowly("watched", HostState), look=slowly("looked", Look()))
    scene.measure(rounds=1, warmup=0)
    said = [one for one in scene.events if one not in ("fill", "forget")]
    assert said == ["watched", "drop", "looked", "tool 1", "looked", "kept 1"]


def test_a_measurement_says_all_of_itself() -> None:
    """Command, cell, host, hygiene, guest; the sample's time is UTC and its seconds the tool's."""
    measured = Scene().measure(rounds=1)
    assert measured.command == f"tool {DISK} 0 {16 * MIB}"
    assert (measured.workload, measured.tool, measured.primary, measured.shown) == ("tool write", "tool", "bw", ("bw",))
    assert (measured.host, measured.guest) == ("local", {"kernel": "6.1", "tool": "unknown version"})
    assert measured.hygiene == {
        "state": "filled",
        "warm-up rounds": "1",
        "rounds": "in a row",
        "guest caches": "of the disk dropped before each round",
        "host caches": "dropped before each round",
        "working set": "16M, which the guest's memory can hold",
    }
    (sample,) = measured.samples
    assert datetime.datetime.fromisoformat(sample.started).utcoffset() == datetime.timedelta(0)
    assert (sample.seconds, sample.raw) == (2.5, "2")


FORGETTING = re.compile(r"^/bin/sh -c .*: >")


def leaving_out(*names: str, **plan: object) -> tuple[Measurement, list[str]]:
    """Two rounds and a warm-up without these steps, and what happened, the guest's part by what its script does."""
    scene = Scene()
    scene.system.write_back = lambda: scene.events.append("host sync")

    def forget(asked: Asked) -> CommandResult:
        done = [word for word in ("sync", "flushbufs", ": >") if word in asked.line]
        scene.events.append(f"guest {', '.join(done)}")
        return CommandResult(argv=(), returncode=0, stdout="", stderr="", seconds=0)

    scene.shell.do(FORGETTING, forget)
    chosen: dict[str, object] = {"rounds": 2, "warmup": 1, "hygiene": Hygiene(without=names)}
    measured = scene.measure(**{**chosen, **plan})
    return measured, scene.events[1:4]


def test_all_steps_are_taken_by_default() -> None:
    """And a row says nothing of switches."""
    measured, events = leaving_out()
    assert events == ["guest flushbufs, : >", "drop", "tool 1"]
    assert measured.without == ()
    assert not any("--vm-without" in text for text in measured.hygiene.values())


@pytest.mark.parametrize(
    ("names", "events", "said"),
    [
        (
            ("guest-caches",),
            ["guest sync, : >", "drop", "tool 1"],
            {"guest caches": "written back, not dropped (--vm-without=guest-caches)"},
        ),
        (
            ("host-caches",),
            ["guest flushbufs, : >", "host sync", "tool 1"],
            {"host caches": "written back, not dropped (--vm-without=host-caches)"},
        ),
        (
            ("sync", "guest-caches", "host-caches"),
            ["guest : >", "tool 1", "kept 1"],
            {
                "guest caches": "neither written back nor dropped (--vm-without=guest-caches)",
                "host caches": "neither written back nor dropped (--vm-without=host-caches)",
            },
        ),
        (("warmup",), None, {"warm-up rounds": "0 (--vm-without=warmup)"}),
        (("steady-state",), None, {"steady state": "not judged (--vm-without=steady-state)"}),
        (("cache-size",), None, {"working set": "16M, not held against memory (--vm-without=cache-size)"}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, tuple) else None,
)
def test_a_step_that_is_left_out(names: tuple[str, ...], events: list[str] | None, said: dict[str, str]) -> None:
    """It is not done, the others are, and the row says which option did that; a stale result goes in any case."""
    measured, seen = leaving_out(*names, **({"warmup": 0} if "sync" in names else {}))
    assert measured.without == names
    assert {name: measured.hygiene[name] for name in said} == said
    assert sum("--vm-without" in text for text in measured.hygiene.values()) == len(said)
    if events is not None:
        assert seen == events


def test_a_warm_up_that_is_left_out_is_not_run() -> None:
    """The first run of the tool is the first that is measured."""
    measured, _ = leaving_out("warmup")
    assert measured.values("bw") == (1, 2)


def test_a_working_set_that_is_not_weighed_is_spoken_against_by_nobody() -> None:
    """The guest's memory could hold it."""
    assert any("can hold" in caution.says for caution in leaving_out()[0].cautions)
    assert not any("can hold" in caution.says for caution in leaving_out("cache-size")[0].cautions)


class Zeros(Tool):
    """A tool that writes zeros."""

    @property
    def writes_zeros(self) -> bool:
        """Nothing else."""
        return True


def test_zeros_are_refused_where_a_layer_stores_them_as_nothing() -> None:
    """Before the disk is filled, with the layer's name and what to do instead."""
    scene = Scene(discard="unmap", detect_zeroes="unmap")
    scene.system.zeros_vanish = lambda: "QEMU discards them"
    with pytest.raises(ConfigError) as caught:
        scene.measure(Zeros(), rounds=1)
    assert caught.value.told == (
        f"tool write on {scene.system.config} writes zeros, and there they are stored as nothing: QEMU discards them."
        ' Write data that no layer can shrink: Fio(...) does, and Dd(if_="/dev/urandom"), which is slower than many'
        " disks; --vm-without=zero-check measures it as it is."
    )
    assert scene.events == []
    assert scene.measure(Tool(), rounds=1).hygiene.get("zeros") is None


def test_zeros_that_are_stored_are_measured_and_said() -> None:
    """So are those at which the user wants nobody to look."""
    scene = Scene()
    assert scene.measure(Zeros(), rounds=1).hygiene["zeros"].startswith("written like data: ")
    scene.system.zeros_vanish = lambda: "QEMU discards them"
    left = scene.measure(Zeros(), rounds=1, hygiene=Hygiene(without=("zero-check",)))
    assert left.hygiene["zeros"] == "written without a look at what becomes of them (--vm-without=zero-check)"


def test_rounds_that_are_not_to_be_judged_are_not() -> None:
    """Figures 2 to 6 are far from steady."""
    assert not Scene().measure(rounds=5).steadiness.is_steady
    left = Scene().measure(rounds=5, hygiene=Hygiene(without=("steady-state",))).steadiness
    assert not left.is_judged
    assert str(left) == "not judged (--vm-without=steady-state)"


def process(seconds: float) -> Process:
    """QEMU with a vCPU that ran for so long."""
    vcpu = Thread(kind="vCPU", ran_ns=int(seconds * 1e9), waited_ns=0, switches=int(seconds * 100))
    return Process(total_s=seconds, threads={1: vcpu})


def test_a_sample_says_what_it_cost() -> None:
    """What QEMU took and what the host's tasks waited for, from the looks around that round alone."""
    scene = Scene()
    looks = iter(
        Look(
            moved=IoCounters(layer_reads=0, layer_writes=100 * number),
            process=process(number),
            pressure=Pressure(uptime_s=100 + 2.0 * number, some_s={"cpu": 0.5 * number}),
        )
        for number in (0, 1, 5, 8)
    )
    scene.system.look = lambda: next(looks)
    measured = scene.measure(rounds=2, warmup=0)
    first, second = measured.samples
    assert first.cost.cpu_s == {"vCPU": pytest.approx(1.0)}
    assert second.cost.cpu_s == {"vCPU": pytest.approx(3.0)}
    assert (first.moved.layer_writes, second.moved.layer_writes) == (100, 300)
    assert first.pressed == {"cpu": pytest.approx(0.25)}
    assert measured.cost.cpu_s == {"vCPU": pytest.approx(4.0)}


def test_the_host_is_watched_from_before_the_rounds_to_after_them() -> None:
    """The disk is filled before that; what speaks against the figure is put down with it."""
    scene = Scene(cache="writeback")

    def begin() -> Callable[[], HostState]:
        scene.events.append("begin")

        def end() -> HostState:
            scene.events.append("end")
            return HostState(governor="powersave", memory_bytes=2**34)

        return end

    scene.system.watch = begin
    measured = scene.measure(rounds=1, warmup=0)
    assert scene.events == ["fill", "begin", "forget", "drop", "tool 1", "end", "kept 1"]
    assert measured.around == HostState(governor="powersave", memory_bytes=2**34)
    assert [caution.says.partition(" lies in ")[0] for caution in measured.cautions] == [
        "the CPU governor was powersave, not performance",
        "the guest's memory",
        "the host's page cache",
    ]


STATE = Proof(field="state", asked="filled", found="unknown", status="unprovable", where="", why="later")
BUS = Proof(field="bus", asked="nvme", found="nvme", status="proven", where="live XML")


def test_a_measurement_carries_the_guests_proof() -> None:
    """And that the disk was filled, which the guest could not know: the measurement did it."""
    scene = Scene()
    scene.prove(BUS, STATE)
    bus, state = scene.measure(rounds=1).proof
    assert bus == BUS
    assert (state.status, state.asked) == ("proven", "filled")
    assert state.found == f"{scene.regions.written_bytes // MIB}M written before the rounds"


def test_a_fresh_measurement_changes_nothing_of_the_proof() -> None:
    """It was fresh when it was looked at; a subject without a proof has none."""
    scene = Scene(state="fresh")
    scene.prove(BUS, STATE)
    assert scene.measure(rounds=1).proof == (BUS, STATE)
    assert Scene().measure(rounds=1).proof == ()


def test_a_region_is_filled_once_and_then_only_what_is_new() -> None:
    """A larger workload fills from where the smaller one's filling ended; sizes are bytes."""
    scene = Scene()
    scene.measure(Tool(region=16 * MIB), rounds=1)
    scene.measure(Tool(region=16 * MIB), rounds=1)
    scene.measure(Tool(region=None), rounds=1)
    fills = [line for line in scene.shell.lines if "--name=fill" in line]
    assert [re.findall(r"--(?:size|offset)=(\d+)", line) for line in fills] == [
        [str(16 * MIB), "0"],
        [str(48 * MIB), str(16 * MIB)],
    ]
    assert all(f"--filename={DISK} " in line for line in fills)
    assert scene.targets()[-1] == (0, 64)


@pytest.mark.parametrize(
    ("on_host", "fills", "found", "where"),
    [
        (16, 0, "16M written on the host before the guest began", "exit status of qemu-img"),
        (4, 1, "16M written before the rounds, 4M of it on the host", "exit status of the fill, and of qemu-img"),
        (0, 1, "16M written before the rounds", "exit status of the fill"),
    ],
)
def test_what_the_host_filled_is_not_filled_again_and_the_row_says_who_did(
    on_host: int, fills: int, found: str, where: str
) -> None:
    """Only what is missing of the region is written in the guest."""
    scene = Scene()
    scene.regions.written_bytes = scene.regions.filled_on_host_bytes = on_host * MIB
    scene.prove(BUS, STATE)
    _, state = scene.measure(Tool(region=16 * MIB), rounds=1).proof
    assert (state.status, state.found, state.where) == ("proven", found, where)
    lines = [line for line in scene.shell.lines if "--name=fill" in line]
    assert len(lines) == fills
    assert all(f"--offset={on_host * MIB} " in line for line in lines)


@pytest.mark.parametrize(
    ("region", "without", "told"), [(16 * MIB, (), [16 * MIB]), (5000, (), [MIB]), (16 * MIB, ("host-caches",), [])]
)
def test_it_is_told_how_much_is_to_be_filled(region: int, without: tuple[str, ...], told: list[int]) -> None:
    """In whole blocks; not where the host is to keep what it has in its caches."""
    scene, said = Scene(), list[int]()
    scene.system = dataclasses.replace(scene.system, note_need=said.append)
    scene.measure(Tool(region=region), rounds=1, hygiene=Hygiene(without=without))
    assert said == told


@pytest.mark.parametrize(("without", "times"), [((), 1), (("host-caches",), 0)])
def test_what_was_filled_is_offered_to_cells_that_begin_alike(without: tuple[str, ...], times: int) -> None:
    """Once it is filled, and never again; not where the host is to keep what it has in its caches."""
    scene, offered = Scene(), list[int]()
    share = functools.partial(lambda regions: offered.append(regions.written_bytes), scene.regions)
    scene.system = dataclasses.replace(scene.system, share_filled=share)
    for _ in range(2):
        scene.measure(Tool(region=16 * MIB), rounds=1, hygiene=Hygiene(without=without))
    assert offered == [16 * MIB] * times


class Packer(Tool):
    """A tool that makes files of its own."""

    needs_folder: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("region", "guest_fs", "is_emptied"), [(None, "ext4", True), (16 * MIB, "ext4", False), (None, "none", False)]
)
def test_a_full_test_file_makes_way_for_files(region: int | None, guest_fs: str, *, is_emptied: bool) -> None:
    """It had taken the room that the tool's files need; the next workload that uses it finds it filled anew."""
    scene = Scene(guest_fs=guest_fs)
    scene.system = dataclasses.replace(
        scene.system, paths=Paths(disk=DISK, folder="/mnt/fs", is_file=guest_fs != "none")
    )
    scene.shell.do(re.compile("^sh -c 'truncate"), scene._note("empty"))
    scene.shell.do(re.compile("drop_caches"), scene._note("forget"))
    scene.measure(Tool(region=region), rounds=1, warmup=0)
    scene.events.clear()
    scene.measure(Packer(region=0), rounds=1, warmup=0)
    assert ("empty" in scene.events) is is_emptied
    scene.measure(Tool(region=region), rounds=1, warmup=0)
    assert ("fill" in scene.events) is is_emptied


@pytest.mark.parametrize("is_restored", [False, True])
def test_where_nothing_is_filled_nothing_waits_for_it(*, is_restored: bool) -> None:
    """A restored guest has a fio that waits to fill the disk, and takes memory; a tool's own files need none."""
    scene = Scene(guest_fs="ext4")
    scene.system.paths = Paths(disk=DISK, folder="/mnt/fs", is_file=True)
    scene.system.identity = Identity(host="local", is_restored=is_restored)
    scene.shell.do(re.compile("kill -KILL"), scene._note("end"))
    scene.shell.do(re.compile("drop_caches"), scene._note("forget"))
    scene.measure(Packer(region=0), rounds=1, warmup=0)
    assert ("end" in scene.events) is is_restored
    if is_restored:
        assert scene.events.index("end") < scene.events.index("forget")


def test_a_failed_filling_is_no_filled_disk() -> None:
    """The next measurement fills again, and does not measure first writes as if they were second ones."""
    scene = Scene()
    scene.shell.answer(re.compile("--name=fill"), stderr="fio: No space left on device", returncode=1)
    with pytest.raises(WorkloadError, match=r"Filling /dev/vdb .* exit status 1\.(.|\n)*No space left"):
        scene.measure(rounds=1)
    assert scene.regions.written_bytes == 0
    assert scene.samples == []


def test_a_filling_that_never_ends_says_so() -> None:
    """Its time limit grows with what is to be written."""
    scene = Scene()
    scene.shell.answer(re.compile("--name=fill"), seconds=1000)
    with pytest.raises(LateError, match=r"Filling /dev/vdb before the measurement did not end within 46 s\. Raise"):
        scene.measure(rounds=1, timeout_s=30)


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ({"total_bytes_sec": "1M"}, 62),
        ({"total_iops_sec": 16}, 62),
        ({"total_bytes_sec": "1M", "total_iops_sec": 16}, 78),
    ],
    ids=str,
)
def test_a_limited_disk_has_the_time_that_it_takes_to_fill(limits: Mapping[str, object], seconds: int) -> None:
    """As many bytes as it serves in a second, and as many requests of 64 KiB."""
    scene = Scene(**limits)
    scene.shell.answer(re.compile("--name=fill"), seconds=1000)
    with pytest.raises(LateError, match=f"did not end within {seconds} s"):
        scene.measure(rounds=1, timeout_s=30)


def test_fresh_rounds_go_to_regions_that_nothing_has_written() -> None:
    """No filling, no warm-up, and each round behind the one before; a second test goes on where the first ended."""
    scene = Scene("fresh")
    measured = scene.measure(rounds=2, warmup=1)
    assert scene.targets() == [(0, 16), (16, 16)]
    assert measured.values("bw") == (1, 2)
    assert measured.hygiene["warm-up rounds"] == "0"
    assert "fill" not in scene.events
    scene.measure(rounds=1)
    assert scene.targets()[-1] == (32, 16)


def test_the_command_of_a_fresh_measurement_is_one_that_was_run() -> None:
    """That of the first round."""
    assert Scene("fresh").measure(rounds=2).command == f"tool {DISK} 0 {16 * MIB}"


def test_a_round_that_failed_has_used_up_its_region() -> None:
    """It may have written half of it: the next test must not take that for untouched."""
    scene = Scene("fresh")
    scene.shell.answer(re.compile("^tool "), returncode=1)
    with pytest.raises(WorkloadError):
        scene.measure(rounds=1)
    assert scene.regions.written_bytes == 16 * MIB


def test_a_fresh_disk_that_is_used_up_says_so() -> None:
    """What is left, what is needed, why, and what to do."""
    scene = Scene("fresh")
    scene.measure(rounds=3)
    with pytest.raises(ConfigError) as caught:
        scene.measure(rounds=2)
    assert caught.value.told == (
        "tool write finds only 16M that nothing has written yet, and needs 32M: tests of this cell ran before. "
        "Make the disk larger with @pytest.mark.storage(size=...)."
    )


@pytest.mark.parametrize(
    ("state", "region", "rounds", "what"),
    [
        ("filled", 65 * MIB, 3, "tool write needs 65M, but the disk has 64M."),
        ("fresh", 32 * MIB, 3, "tool write needs 96M (3 untouched regions), but the disk has 64M."),
        ("fresh", None, 2, "tool write needs 128M (2 untouched regions), but the disk has 64M."),
    ],
)
def test_a_disk_that_is_too_small_is_found_before_anything_is_run(
    state: str, region: int | None, rounds: int, what: str
) -> None:
    """Both sizes in the sentence, and nothing written."""
    scene = Scene(state)
    with pytest.raises(ConfigError) as caught:
        scene.measure(Tool(region=region), rounds=rounds)
    assert caught.value.what == what
    assert scene.events == []


def test_a_disk_that_is_just_large_enough_will_do() -> None:
    """To the byte, in both states."""
    check_fits(StorageConfig(size="64M"), Tool(region=64 * MIB), Plan(rounds=9))
    check_fits(StorageConfig(size="64M", state="fresh"), Tool(region=16 * MIB), Plan(rounds=4))


def test_there_is_nothing_to_read_on_a_fresh_disk() -> None:
    """Reading what was never written measures nothing."""
    with pytest.raises(ConfigError, match=r'a fresh disk has nothing to read\. Use state="filled"'):
        Scene("fresh").measure(Tool(is_reader=True), rounds=1)


def test_a_tool_that_fails_is_quoted_from_both_ends() -> None:
    """Its first lines and stderr's last ones all stand in the message, none twice."""
    scene = Scene()
    out = "".join(f"out {n}\n" for n in range(30))
    scene.shell.answer(re.compile("^tool "), out, stderr="".join(f"err {n}\n" for n in range(30)), returncode=5)
    with pytest.raises(WorkloadError) as caught:
        scene.measure(rounds=1)
    text = str(caught.value)
    assert text.startswith("tool write failed with exit status 5: err 0. [VM701]\n")
    assert "| out 0\n" in text
    assert text.endswith("| err 29")
    assert scene.samples == []


@pytest.mark.parametrize(
    ("out", "err", "sentence"),
    [
        (
            "",
            "dd: error writing '/dev/vdb': Input/output error\n0+0 records out\n",
            "1: dd: error writing '/dev/vdb': Input/",
        ),
        ('{\n  "jobs": [\n', "", '1: "jobs": ['),
        ("", "\n \n", "1."),
        ("cannot\n", "", "1: cannot."),
    ],
)
def test_a_tool_that_fails_is_told_with_its_first_words(out: str, err: str, sentence: str) -> None:
    """They stand in every report, also where what else it said does not."""
    scene = Scene()
    scene.shell.answer(re.compile("^tool "), out, stderr=err, returncode=1)
    with pytest.raises(WorkloadError) as caught:
        scene.measure(rounds=1)
    assert f"tool write failed with exit status {sentence}" in caught.value.what


def test_a_tool_that_only_says_one_thing_is_quoted_once() -> None:
    """stderr is part of both ends."""
    scene = Scene()
    scene.shell.answer(re.compile("^tool "), stderr="cannot open /dev/vdb\n", returncode=1)
    with pytest.raises(WorkloadError) as caught:
        scene.measure(rounds=1)
    assert str(caught.value).count("| cannot open") == 1


def test_samples_before_a_failure_were_kept() -> None:
    """The third round fails, two are on disk."""
    scene = Scene()
    good = scene._tool

    def fail_late(asked: object) -> CommandResult:
        done = good(asked)
        return done.model_copy(update={"returncode": 1}) if scene._count == 4 else done

    scene.shell.do(re.compile("^tool "), fail_late)
    with pytest.raises(WorkloadError):
        scene.measure(rounds=3)
    assert [sample.figures["bw"] for sample in scene.samples] == [2, 3]


def test_a_tool_that_never_ends_is_told_with_its_limit() -> None:
    """The limit is the plan's plus three times what the workload expects."""
    scene = Scene()
    scene.shell.answer(re.compile("^tool "), "half a resu", seconds=1000)
    with pytest.raises(LateError) as caught:
        scene.measure(rounds=1, timeout_s=30)
    assert str(caught.value).startswith("tool write did not end within 36 s. Raise --vm-timeout.")
    assert "half a resu" in str(caught.value)
    assert TIMED_OUT == 124


def test_an_output_file_is_read_and_removed_before_each_round() -> None:
    """What a failed round left is never read as the next one's result."""
    scene = Scene()
    scene.shell.answer(re.compile("^tool "), "noise", writes={"/tmp/out": "7"})
    measured = scene.measure(Tool(file="/tmp/out"), rounds=1)
    assert measured.bw == 7
    assert measured.raw == ("7",)
    forgets = [asked.argv for asked in scene.shell.asked if "flushbufs" in asked.line]
    assert all(argv[-2:] == (DISK, "/tmp/out") for argv in forgets)


def test_caches_that_cannot_be_dropped_spoil_the_round() -> None:
    """A round on warm caches is no sample."""
    scene = Scene()
    scene.shell.answer(re.compile("flushbufs"), stderr="blockdev: Permission denied", returncode=1)
    with pytest.raises(WorkloadError, match="Dropping the guest's cached pages of the disk failed"):
        scene.measure(rounds=1)
    assert scene.samples == []


def test_each_step_is_said() -> None:
    """The live line shows filling, warming up and every round."""
    said: list[str] = []
    scene = Scene()
    measure(scene.system, Tool(), Plan(rounds=2), say=said.append)
    assert said == [
        "filling the disk",
        "warming up tool",
        "measuring tool write, round 1/2",
        "measuring tool write, round 2/2",
    ]


@pytest.mark.parametrize("plan", [{"rounds": 0}, {"warmup": -1}])
def test_a_plan_of_nothing_is_none(plan: dict[str, int]) -> None:
    """At least one round, and no fewer than no warm-ups."""
    with pytest.raises(ValueError, match="greater than or equal"):
        Plan.model_validate(plan)


def test_a_figure_that_no_layer_moved_is_invalid() -> None:
    """The tool's own count of bytes is held against the guest's disk; there is no figure then, but the reason."""

    class Boaster(Tool):
        """Says that it moved a gigabyte."""

        def moved_bytes(self, text: str) -> int | None:
            return 2**30

    scene = Scene()
    looks = iter(
        [IoCounters(guest_read_bytes=0, guest_written_bytes=0), IoCounters(guest_read_bytes=0, guest_written_bytes=MIB)]
    )
    scene.system.look = lambda: Look(moved=next(looks))
    with pytest.raises(WorkloadError, match=r"INVALID: the tool says it moved 1 GiB .* the guest's disk moved 1 MiB"):
        scene.measure(Boaster(), rounds=1, warmup=0)
    assert scene.samples == []


def test_a_rewritten_disk_is_written_twice_and_whole() -> None:
    """Once in its life, whatever region the workload uses; then it is measured like a filled one."""
    scene = Scene("rewritten")
    scene.prove(STATE)
    measured = scene.measure(rounds=1, warmup=0)
    scene.measure(rounds=1, warmup=0)
    assert scene.events[:3] == ["fill", "fill", "forget"]
    assert scene.events.count("fill") == 2
    fills = [line for line in scene.shell.lines if "--name=fill" in line]
    assert all(f"--size={64 * MIB} --offset=0 " in line for line in fills)
    assert measured.proof[0].found == "64M written twice before the rounds"


def test_an_aged_disk_is_written_once_in_a_seeded_order() -> None:
    """Every block, at random, one in flight; the pieces that it then lies in are the proof."""
    scene = Scene("aged")
    scene.prove(STATE)
    scene.system.fragments = lambda: 4
    measured = scene.measure(rounds=1, warmup=0)
    (line,) = (line for line in scene.shell.lines if "--name=age" in line)
    assert f"--randseed={AGE_SEED}" in line
    assert f"--size={64 * MIB}" in line
    assert (measured.proof[0].status, measured.proof[0].found) == ("proven", "data in 4 pieces")


def test_an_aged_disk_in_one_piece_is_none() -> None:
    """A page cache or file system that put the writes in order undid the ageing: no figure."""
    scene = Scene("aged")
    scene.prove(STATE)
    scene.system.fragments = lambda: 2
    with pytest.raises(WorkloadError, match="its data lies in 2 pieces on the host, fewer than 4"):
        scene.measure(rounds=1)
    assert scene.samples == []


def test_pieces_that_nobody_can_count_are_unprovable() -> None:
    """The figure stands, with the reservation."""
    scene = Scene("aged")
    scene.prove(STATE)
    assert scene.measure(rounds=1).proof[0].status == "unprovable"


def test_an_image_that_arrives_filled_is_not_filled_again() -> None:
    """Its data is what the cell is about; each writing round copies clusters of its own, a reading one copies none."""
    scene = Scene(format="qcow2", backing_chain=2)
    scene.prove(STATE)
    measured = scene.measure(Tool(), rounds=2, warmup=1)
    scene.measure(Tool(is_reader=True), rounds=2, warmup=0)
    assert "fill" not in scene.events
    assert scene.targets() == [(0, 16), (16, 16), (32, 16), (32, 16)]
    assert measured.proof[0].found == "made with its data"


def test_what_can_only_be_read_is_not_written() -> None:
    """QEMU fails writes to what a streamOptimized vmdk holds: said before the first one."""
    scene = Scene(format="vmdk", subformat="streamOptimized")
    with pytest.raises(ConfigError, match="cannot write over what a streamOptimized vmdk holds"):
        scene.measure(Tool(), rounds=1)
    scene.measure(Tool(is_reader=True), rounds=1)


def test_what_changed_while_it_was_measured_spoils_the_figure() -> None:
    """A guest that turned its write cache off was another cell by then."""
    scene = Scene()
    scene.system.recheck = lambda: "after the last round cache is write through (guest sysfs), not write back"
    with pytest.raises(WorkloadError, match="INVALID: after the last round cache is write through"):
        scene.measure(rounds=1)


def test_a_flush_that_never_arrived_spoils_the_round() -> None:
    """The host's device counts them."""
    scene = Scene()
    looks = iter([IoCounters(layer_written_bytes=at, layer_flushes=at, host_flushes=7) for at in (0, MIB)])
    scene.system.look = lambda: Look(moved=next(looks))
    with pytest.raises(WorkloadError, match="not one reached the host's device"):
        scene.measure(rounds=1, warmup=0)


def test_a_files_pages_are_forgotten_by_advice() -> None:
    """A file has no device to flush; where one lies below it, its buffers go too. Output lies in the scratch folder."""
    scene = Scene()
    scene.system.paths = Paths(disk="/srv/disk.raw", is_file=True, scratch="/srv")
    scene.shell.do(re.compile("oflag=nocache"), scene._note("advise"))
    scene.measure(rounds=1, warmup=0)
    assert scene.events[:3] == ["fill", "advise", "drop"]
    (asked,) = (asked for asked in scene.shell.asked if "oflag=nocache" in asked.line)
    assert asked.argv[-3:] == ("/srv/disk.raw", "", "")


class Folder(Tool):
    """A tool that makes files of its own."""

    needs_folder: ClassVar[bool] = True
    region: int | None = 0

    def setup(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Make them."""
        return (("make", target.folder),)

    def cleanup(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Remove them."""
        return (("clear", target.folder),)


def scene_of_files(**cell: object) -> Scene:
    """A subject with a file system."""
    scene = Scene(**cell)
    scene.system.paths = Paths(disk=DISK, folder="/mnt")
    for name in ("make", "clear"):
        scene.shell.do((name, "/mnt"), scene._note(name))
    scene.shell.do(re.compile("drop_caches"), scene._note("forget all"))
    return scene


def test_what_a_workload_needs_is_made_before_the_caches_are_dropped() -> None:
    """And is gone after each round; none of it is measured."""
    scene = scene_of_files()
    scene.measure(Folder(), rounds=1, warmup=1)
    once = ["make", "forget all", "drop"]
    assert scene.events == [*once, "tool 1", "clear", *once, "tool 2", "clear", "kept 2"]


class Setter(Folder):
    """One whose files can stay."""

    def set_aside(self, target: Target) -> tuple[tuple[str, ...], ...]:
        """Under another name."""
        return (("aside", target.folder),)


@pytest.mark.parametrize(
    ("cell", "kind", "after"),
    [
        ({"state": "fresh", "guest_fs": "ext4"}, Setter, "aside"),
        ({"state": "fresh", "guest_fs": "ext4"}, Folder, "clear"),
        ({"state": "filled", "guest_fs": "ext4"}, Setter, "clear"),
        ({"state": "fresh", "backing": "native"}, Setter, "clear"),
    ],
)
def test_on_a_fresh_disk_files_keep_their_blocks(cell: dict[str, str], kind: type[Tool], after: str) -> None:
    """Or the next round would write where the last one did; on the host they would stay for good."""
    scene = scene_of_files(**cell)
    scene.shell.do(("aside", "/mnt"), scene._note("aside"))
    scene.measure(kind(is_reader=False), rounds=2, warmup=0)
    assert [event for event in scene.events if event in ("aside", "clear")] == [after, after]


def test_after_a_failed_round_its_files_go_too() -> None:
    """The next test finds the disk as this one did."""
    scene = scene_of_files()
    scene.shell.answer(re.compile("^tool "), returncode=1)
    with pytest.raises(WorkloadError):
        scene.measure(Folder(), rounds=1, warmup=0)
    assert scene.events[-1] == "clear"


@pytest.mark.parametrize(("name", "when"), [("make", "before"), ("clear", "after")])
def test_files_that_cannot_be_made_are_told_in_the_tools_words(name: str, when: str) -> None:
    """Its last ones, and none of a script that was run."""
    scene = scene_of_files()
    scene.shell.answer((name, "/mnt"), stderr="making it\nNo space left on device.\n", returncode=1)
    with pytest.raises(WorkloadError) as caught:
        scene.measure(Folder(), rounds=1)
    assert caught.value.what == (
        f"{name} {when} a round of {Folder().label} failed with exit status 1: No space left on device."
    )
    assert "making it" in caught.value.output


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("make", r"make before a round of .* did not end within \d+ s\. Raise --vm-timeout\."),
        ("drop_caches", r"Dropping the guest's cached pages of the disk did not end within 120 s\. Raise"),
    ],
)
def test_what_is_done_around_a_round_has_its_time_too(command: str, sentence: str) -> None:
    """A disk that hangs hangs there as well."""
    scene = scene_of_files()
    scene.shell.answer(re.compile(command), seconds=10_000)
    with pytest.raises(LateError, match=sentence):
        scene.measure(Folder(), rounds=1)


def test_a_workload_of_files_needs_a_file_system_with_room() -> None:
    """Said before anything is run."""
    with pytest.raises(ConfigError, match=r"makes files, and the disk of .* has no file system"):
        Scene().measure(Folder(), rounds=1)
    with pytest.raises(ConfigError, match="for which state=aged leaves no room"):
        scene_of_files(state="aged").measure(Folder(), rounds=1)


@pytest.mark.parametrize(
    ("region", "written"), [(64 * 2**10, "1048576"), (1536 * 2**10, "2097152"), (64 * MIB, "67108864")]
)
def test_a_fill_is_of_whole_blocks(region: int, written: str) -> None:
    """fio writes no half block: a region below a MiB was not filled at all, and one of 1.5 MiB past its end."""
    scene = Scene()
    scene.measure(Tool(region=region), rounds=1, warmup=0)
    (line,) = (line for line in scene.shell.lines if "--name=fill" in line)
    assert f"--bs=1048576 --size={written} --offset=0 " in line


def test_a_disk_that_ends_within_a_block_is_filled_to_its_end() -> None:
    """In smaller blocks."""
    scene = Scene(size=str(64 * MIB + 4096 * 3))
    scene.measure(Tool(region=None), rounds=1, warmup=0)
    (line,) = (line for line in scene.shell.lines if "--name=fill" in line)
    assert f"--bs=4096 --size={64 * MIB + 4096 * 3} " in line


def test_files_of_a_workload_are_first_writes_and_the_row_says_so() -> None:
    """Nothing was filled for them: that is not proven to be a filled disk."""
    scene = scene_of_files()
    scene.prove(STATE)
    proof = scene.measure(Folder(), rounds=1, warmup=0).proof[0]
    assert (proof.status, proof.found) == ("unprovable", "0 written")


class Grumbling(Tool):
    """A tool with a word to say on each round but its second."""

    def remarks(self, raw: str) -> tuple[str, ...]:
        """Nothing in the second round."""
        return () if raw == "2" else (f"depth {raw}",)


def test_remarks_on_many_rounds_are_cut_short() -> None:
    """Two dozen of them would hide the rest of the report."""
    few = Scene().measure(Grumbling(), rounds=4, warmup=0)
    assert few.hygiene["not as asked"] == "round 1: depth 1, round 3: depth 3, round 4: depth 4"
    many = Scene().measure(Grumbling(), rounds=9, warmup=0)
    assert many.hygiene["not as asked"].endswith(", round 4: depth 4, and 5 more of 9 rounds")


def test_commands_of_the_users_own_workloads_are_not_judged(tmp_path: Path) -> None:
    """What they write on a native row is the user's; what ours write is the run's own."""
    system = dataclasses.replace(Scene().system, shell=LocalShell(Guard(["/srv/run-1/"])))
    argv = ["truncate", "-s", "0", "--", str(tmp_path / "nonexistent" / "other")]
    assert not shell_for(system, Tool()).run(argv).ok
    with pytest.raises(ForeignPathError):
        shell_for(system, Tar()).run(argv)
