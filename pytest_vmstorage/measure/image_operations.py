"""Measures operations on whole images of one cell: each round makes an image, runs them in turn, and removes it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import WorkloadError
from pytest_vmstorage.host.counters import Look
from pytest_vmstorage.host.shell import CommandResult, Shell, check, check_time
from pytest_vmstorage.measure.proof.evidence import image_chain
from pytest_vmstorage.measure.proof.without_guest import prove_image
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.cautions import host_cautions
from pytest_vmstorage.results.counters import total
from pytest_vmstorage.results.failures import Symptoms, named
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.run import LeftOut, Measurement, Proof, Sample
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.caches import drop_caches
from pytest_vmstorage.storage.encryption import TRIES, secret_argv
from pytest_vmstorage.storage.image import image_facts, is_block
from pytest_vmstorage.storage.layers import Piece, pattern, put_bytes, write
from pytest_vmstorage.storage.operations.files import ImagePlace, Impossible, OperationStep
from pytest_vmstorage.units import format_size
from pytest_vmstorage.workloads.image_operations import ImageOperations, Operation, space_line
from pytest_vmstorage.workloads.script import TIMED, bash

_SAMPLE_BYTES = 512
_DUMPED = re.compile(r"^(?:qemu-io> )*([0-9a-f]{8,}:.*)$", re.MULTILINE)
_LARGEST_WRITE = 64 * 2**20
_ROTATED = 256


@dataclass
class Bench:
    """The place where a cell's images are made: the host's shell, the folder or volumes, and readers of the host.

    `scratch` is a folder outside of the measured storage. `look` reads counters around each round, `watch` begins to
    watch the host; `notes` go into each row's hygiene, `tools` are versions of the programs.
    """

    shell: Shell
    config: StorageConfig
    host: str
    place: ImagePlace
    scratch: str
    look: Callable[[], Look] = Look
    watch: Callable[[], Callable[[], HostState]] = field(default=lambda: HostState)
    notes: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, str] = field(default_factory=dict)


def measure_images(
    bench: Bench,
    workload: ImageOperations,
    plan: Plan,
    *,
    say: Progress = silent,
    keep_sample: Callable[[Sample], None] = lambda _sample: None,
) -> Measurement:
    """Run the plan and return all samples; `keep_sample` gets each one before the next begins.

    Raises WorkloadError where an operation fails or has no effect, AttestationError where the image contradicts the
    cell, ProvisionError.
    """
    steps = {name: bench.place.steps[name] for name in workload.operations}
    done = {name: step for name, step in steps.items() if isinstance(step, OperationStep)}
    cannot = {name: step.why for name, step in steps.items() if isinstance(step, Impossible)}
    if not done:
        raise WorkloadError(
            f"{workload.label} has nothing to time: {'; '.join(dict.fromkeys(cannot.values()))}.", code="VM713"
        )
    watched = bench.watch()
    samples: list[Sample] = []
    round_ = None
    for number in range(-plan.warmup, plan.rounds):
        which = "warming up" if number < 0 else f"round {number + 1}/{plan.rounds}"
        say(f"measuring {workload.label}, {which}")
        round_ = _Round(bench, workload, plan)
        try:
            step = "warm-up" if number < 0 else "window"
            with span(step, cell=bench.config, workload=workload.label, number=number + 1):
                sample = round_.run()
        except WorkloadError as error:
            raise named(error, Symptoms(is_native=True)) from None
        if number >= 0:
            keep_sample(sample)
            samples.append(sample)
    assert round_ is not None
    around = watched()
    metrics = (workload.metrics[0], *workload.metrics_of(done))
    there = {metric.name for metric in metrics}
    return Measurement(
        workload=workload.label,
        tool=workload.tool,
        command="; ".join(line for step in done.values() for line in step.lines),
        config=bench.config,
        host=bench.host,
        metrics=metrics,
        primary=workload.primary,
        shown=tuple(name for name in workload.columns if name in there) or (workload.primary,),
        samples=tuple(samples),
        hygiene={
            "warm-up rounds": str(plan.warmup),
            "host caches": round_.caches,
            "data before the snapshot": format_size(workload.data),
            **{name: f"by {step.by}" for name, step in done.items()},
            **bench.notes,
        },
        guest=bench.tools,
        proof=round_.proof,
        around=around,
        cautions=tuple(host_cautions(around, [one.pressed for one in samples], total(one.moved for one in samples))),
        on_host=True,
        left_out=tuple(
            LeftOut(metric=metric, why=why) for name, why in cannot.items() for metric in workload.metrics_of([name])
        ),
    )


def operation_script(operation: Operation, lines: Sequence[str]) -> str:
    """The script that times these lines and the sync after them, the tools' programs being in memory.

    It works in the images' folder, by whose name commands that go on after Ctrl-C are found.
    """
    tools = dict.fromkeys([*(line.split(maxsplit=1)[0] for line in lines), "sync"])
    warm = "".join(f"{tool} --version >/dev/null 2>&1 || :\n" for tool in tools)
    body = "\n".join([*lines, 'sync -- "$1"/* "$1"'])
    return f'{TIMED}shopt -s nullglob\ncd -- "$1"\n{warm}run() {{\n{body}\n}}\npart {operation} run "$1"\n'


def _pieces(size: int) -> Iterator[Piece]:
    for offset in range(0, size, _LARGEST_WRITE):
        yield offset, min(_LARGEST_WRITE, size - offset)


class _Round:
    """One image from its making to its removal."""

    def __init__(self, bench: Bench, workload: ImageOperations, plan: Plan) -> None:
        self._bench, self._workload = bench, workload
        self._timeout_s = plan.timeout_s + (bench.config.size + 4 * workload.data) / 2**20
        self._text: list[str] = []
        self._seconds = 0.0
        self.caches = "not dropped"
        self.proof: tuple[Proof, ...] = ()

    def run(self) -> Sample:
        """Run all operations; the image is removed in any case."""
        started, before = datetime.datetime.now(datetime.UTC), self._bench.look()
        try:
            self._go_through()
        finally:
            self._bench.place.clear(self._bench.shell)
        after, raw = self._bench.look(), "\n".join(self._text) + "\n"
        return Sample(
            figures=dict(self._workload.parse(raw)),
            started=started.isoformat(),
            seconds=self._seconds,
            raw=raw,
            moved=after.moved_since(before),
            pressed=after.pressed_since(before),
        )

    def _go_through(self) -> None:
        shell, config, place = self._bench.shell, self._bench.config, self._bench.place
        self._do("create")
        facts = image_facts(shell, place.path)
        self._undo(self._do("preallocate"))
        self._fill()
        self.proof = prove_image(shell, config, place.path, place.folder, facts)
        written = self._sampled(place.image)
        self._snapshot_and_back(written)
        copies: dict[Operation, tuple[str, str]] = {"clone": place.clone, "convert": place.converted}
        for operation, made in copies.items():
            step = self._do(operation)
            if step is not None and self._sampled(made) != written:
                raise self._invalid(operation, "what it made does not hold the image's data")
            self._undo(step)
        size = self._virtual_bytes()
        if self._do("resize") is not None and self._virtual_bytes() < size + self._workload.data:
            raise self._invalid("resize", f"the image still has {format_size(self._virtual_bytes())}")
        self._do("delete")

    def _snapshot_and_back(self, written: str) -> None:
        place, chosen = self._bench.place, {*self._workload.operations}
        # zfs clones what a snapshot holds
        if isinstance(place.steps["snapshot"], Impossible) or not chosen & {"snapshot", "rollback", "clone"}:
            return
        self._do("snapshot", always=True)
        self._fill(again=True)
        if self._sampled(place.image) == written:
            raise self._invalid("snapshot", "the image could not be written anew after it")
        self._do("rollback", always=True)
        if self._sampled(place.image) != written:
            raise self._invalid("rollback", "the data of before the snapshot did not come back")

    def _do(self, operation: Operation, *, always: bool = False) -> OperationStep | None:
        """Do the operation if it is possible, and chosen or needed; only chosen ones are timed and reported."""
        step = self._bench.place.steps[operation]
        is_chosen = operation in self._workload.operations
        if isinstance(step, Impossible) or not (is_chosen or always or operation in ("create", "delete")):
            return None
        shell, place = self._bench.shell, self._bench.place
        if is_chosen:
            self._forget()
        before = place.taken(shell) if is_chosen else 0
        done = self._run(operation, step.lines)
        if is_chosen:
            said = (done.stdout + done.stderr).rstrip("\n")
            self._text += [*(f"$ {line}" for line in step.lines), said]
            self._text.append(space_line(operation, before, place.taken(shell)))
            self._seconds += done.seconds
        return step

    def _run(self, operation: Operation, lines: Sequence[str]) -> CommandResult:
        argv = bash(operation_script(operation, lines), self._bench.place.folder)
        done = self._bench.shell.run(argv, timeout_s=self._timeout_s)
        for _ in range(TRIES - 1 if self._bench.config.encryption == "luks" else 0):
            done = done if done.ok else self._bench.shell.run(argv, timeout_s=self._timeout_s)
        if done.ok:
            return done
        what = f"{operation} of {self._workload.label}"
        check_time(done, what)
        raise WorkloadError(f"{what} failed with exit status {done.returncode}.", output=done.tail(15), code="VM701")

    def _undo(self, step: OperationStep | None) -> None:
        for line in step.undo if step is not None else ():
            check(self._bench.shell.run(["sh", "-c", line]), "removing what an operation made")

    def _forget(self) -> None:
        said = drop_caches(self._bench.shell, self._bench.place.path)
        self.caches = said.replace("each round", "each operation")

    def _fill(self, *, again: bool = False) -> None:
        """Write the data; `again` writes other data to the same blocks."""
        bench, config = self._bench, self._bench.config
        block, data = f"{bench.scratch}/images.block", pattern(config)
        if again:
            # over compressed clusters QEMU writes plain ones only
            config = config.model_copy(update={"compression": "off"})
        try:
            put_bytes(bench.shell, data[_ROTATED:] + data[:_ROTATED] if again else data, block)
            write(bench.shell, config, bench.place.path, block, _pieces(self._workload.data))
        finally:
            bench.shell.run(["rm", "-f", "--", block])

    def _sampled(self, image: tuple[str, str]) -> str:
        """The first and the last sector of the data, as qemu-io shows them."""
        name, kind = image
        last = self._workload.data - _SAMPLE_BYTES
        commands = f"read -v 0 {_SAMPLE_BYTES}\nread -v {last} {_SAMPLE_BYTES}\n"
        argv = ("qemu-io", "-r", *secret_argv(self._bench.config), *(("-f", kind) if kind else ()), name)
        done = check(self._bench.shell.run(argv, stdin=commands.encode()), f"reading {name}")
        return "\n".join(_DUMPED.findall(done.stdout))

    def _virtual_bytes(self) -> int:
        shell, path = self._bench.shell, self._bench.place.path
        if is_block(shell, path):
            return int(check(shell.run(["blockdev", "--getsize64", path]), f"looking at {path}").stdout)
        return int(image_chain(shell, self._bench.config.format, path)[0]["virtual-size"])

    def _invalid(self, operation: Operation, why: str) -> WorkloadError:
        return WorkloadError(f"The figure of {operation}, {self._workload.label}, is INVALID: {why}.", code="VM703")
