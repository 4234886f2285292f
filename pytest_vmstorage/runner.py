"""Measure one workload in one cell: fill, warm up, rounds; each sample is handed on as it ends."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from pytest_vmstorage.accounting import IoCounters, impossible
from pytest_vmstorage.command import TIMED_OUT, CommandResult, Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.results import Measurement, Proof, Sample
from pytest_vmstorage.say import Say, silent
from pytest_vmstorage.units import format_size
from pytest_vmstorage.workloads.base import Target, Workload

FILL_ARGV = (
    "fio --name=fill --filename={path} --allow_file_create=0 --rw=write --bs=1M --size={size} --offset={offset}"
    " --direct=1 --ioengine=libaio --iodepth=8 --refill_buffers --end_fsync=1 --output-format=terse --output=/dev/null"
)
"""How blocks are written before a `filled` measurement: sequentially, with data that no layer can shrink."""

# the disk's own cached pages and no others (BLKFLSBUF): the tools are not read anew in each round
FORGET = 'sync; blockdev --flushbufs "$1"; rm -f "$2"'
# together no more than a WorkloadError shows
_FIRST_LINES, _LAST_LINES = 9, 6


FRESH_ALIGN_BYTES = 2**20
"""Untouched regions begin at multiples of this; an image's clusters have 64 KiB unless asked for otherwise."""


class Plan(BaseModel):
    """How often a workload is run: measured rounds, and rounds before that are thrown away."""

    model_config = ConfigDict(frozen=True)

    rounds: int = Field(default=3, ge=1)
    warmup: int = Field(default=1, ge=0)
    timeout_s: float = 120.0


@dataclass
class Regions:
    """How much of a disk, from its start, has been written in the life of its guest; in bytes."""

    size_bytes: int
    written_bytes: int = 0


@dataclass
class Subject:
    """Where a workload runs: a shell, the disk there, the cell it is with its proof, how the host forgets its cache."""

    shell: Shell
    disk: str
    config: StorageConfig
    host: str
    facts: Mapping[str, str]
    regions: Regions
    drop_host_caches: Callable[[], str]
    tools: Mapping[str, str] = field(default_factory=dict)
    proof: tuple[Proof, ...] = ()
    counters: Callable[[], IoCounters] = IoCounters
    before_round: Callable[[], None] = field(default=lambda: None)


def measure(
    subject: Subject,
    workload: Workload,
    plan: Plan,
    *,
    say: Say = silent,
    keep_sample: Callable[[Sample], None] = lambda _sample: None,
) -> Measurement:
    """Run the plan and return all samples; `keep_sample` gets each one before the next begins.

    Raises ConfigError where the disk is too small, WorkloadError where the tool fails.
    """
    check_fits(subject.config, workload, plan)
    target, warmup = _prepare(subject, workload, plan, say)
    command = shlex.join(workload.argv(target))
    host_caches = "not dropped"
    samples = []
    for number in range(-warmup, plan.rounds):
        say(
            f"warming up {workload.tool}"
            if number < 0
            else f"measuring {workload.label}, round {number + 1}/{plan.rounds}"
        )
        host_caches = _forget(subject, workload)
        subject.before_round()
        if subject.config.state == "fresh":
            # before, and not after it: a round that fails has written too
            subject.regions.written_bytes = target.offset_bytes + target.size_bytes
        sample = _round(subject, workload, target, plan)
        if number >= 0:
            keep_sample(sample)
            samples.append(sample)
        if subject.config.state == "fresh":
            target = target.model_copy(update={"offset_bytes": subject.regions.written_bytes})
    return Measurement(
        workload=workload.label,
        tool=workload.tool,
        command=command,
        config=subject.config,
        host=subject.host,
        metrics=workload.metrics,
        primary=workload.primary,
        shown=workload.shown,
        samples=tuple(samples),
        hygiene=_hygiene(subject, warmup, host_caches),
        guest=_facts(subject, workload),
        proof=_proof(subject),
    )


def _facts(subject: Subject, workload: Workload) -> Mapping[str, str]:
    version = subject.tools.get(workload.package or workload.tool, "unknown version")
    return {**subject.facts, workload.tool: version}


def _proof(subject: Subject) -> tuple[Proof, ...]:
    """The guest's proof, and that the disk was filled: that is done here, after it."""
    if subject.config.state != "filled" or not subject.proof:
        return subject.proof
    found = f"{format_size(subject.regions.written_bytes)} written before the rounds"
    filled = Proof(field="state", asked="filled", found=found, status="proven", where="exit status of the fill")
    return tuple(filled if proof.field == "state" else proof for proof in subject.proof)


def check_fits(config: StorageConfig, workload: Workload, plan: Plan) -> None:
    """Raise ConfigError where the workload cannot be run on a disk of that size and state."""
    region = config.size if workload.region_bytes is None else workload.region_bytes
    if config.state == "fresh" and not workload.fresh_is_possible:
        raise ConfigError(
            f"{workload.label} reads, and a fresh disk has nothing to read.",
            hint='Use state="filled" for it.',
        )
    rounds = plan.rounds if config.state == "fresh" else 1
    if region * rounds > config.size:
        raise ConfigError(
            f"{workload.label} needs {format_size(region * rounds)}"
            + (f" ({rounds} untouched regions)" if rounds > 1 else "")
            + f", but the disk has {format_size(config.size)}.",
            hint="Make the disk larger with @pytest.mark.storage(size=...), or the workload smaller.",
        )


def _prepare(subject: Subject, workload: Workload, plan: Plan, say: Say) -> tuple[Target, int]:
    regions = subject.regions
    region = regions.size_bytes if workload.region_bytes is None else workload.region_bytes
    if subject.config.state == "fresh":
        # a whole MiB: no cluster of an image is shared with what was written before
        regions.written_bytes = -(-regions.written_bytes // FRESH_ALIGN_BYTES) * FRESH_ALIGN_BYTES
        if regions.written_bytes + region * plan.rounds > regions.size_bytes:
            raise ConfigError(
                f"{workload.label} finds only {format_size(regions.size_bytes - regions.written_bytes)} that nothing"
                f" has written yet, and needs {format_size(region * plan.rounds)}: tests of this cell ran before.",
                hint="Make the disk larger with @pytest.mark.storage(size=...).",
            )
        # a warm-up would be the first write, and what follows a second one
        return Target(path=subject.disk, size_bytes=region, offset_bytes=regions.written_bytes), 0
    if regions.written_bytes < region:
        say("filling the disk")
        _fill(subject, region, plan)
        regions.written_bytes = region
    return Target(path=subject.disk, size_bytes=region), plan.warmup


def _fill(subject: Subject, region: int, plan: Plan) -> None:
    done = subject.regions.written_bytes
    line = FILL_ARGV.format(path=subject.disk, size=region - done, offset=done)
    result = subject.shell.run(line.split(), timeout_s=plan.timeout_s + region / 2**20)
    if not result.ok:
        reason = f"exit status {result.returncode}"
        if result.returncode == TIMED_OUT:
            reason = f"no end after {result.seconds:.0f} s"
        raise WorkloadError(f"Filling {subject.disk} before the measurement failed: {reason}.", output=result.tail(15))


def _forget(subject: Subject, workload: Workload) -> str:
    # the output file goes too: a stale result is never read as a new one
    output = workload.output_file or "/nonexistent"
    done = subject.shell.run(["/bin/sh", "-c", FORGET, "sh", subject.disk, output], timeout_s=120)
    if not done.ok:
        raise WorkloadError("Dropping the guest's cached pages of the disk failed.", output=done.tail())
    return subject.drop_host_caches()


def _round(subject: Subject, workload: Workload, target: Target, plan: Plan) -> Sample:
    started = datetime.datetime.now(datetime.UTC)
    before = subject.counters()
    result = subject.shell.run(workload.argv(target), timeout_s=plan.timeout_s + 3 * workload.expected_seconds)
    raw = _raw_output(subject, workload, result)
    moved = subject.counters().since(before)
    figures = dict(workload.parse(raw))
    reason = impossible(moved, workload.moved_bytes(raw))
    if reason:
        raise WorkloadError(f"The figure of {workload.label} is INVALID: {reason}.")
    return Sample(figures=figures, started=started.isoformat(), seconds=result.seconds, raw=raw, moved=moved)


def _raw_output(subject: Subject, workload: Workload, result: CommandResult) -> str:
    if result.returncode == TIMED_OUT:
        raise WorkloadError(
            f"{workload.label} did not end within {result.seconds:.0f} s.",
            hint="Raise --vm-timeout.",
            output=result.tail(15),
        )
    text = result.stdout + result.stderr
    if workload.output_file is not None:
        text = subject.shell.read(workload.output_file) or text
    if not result.ok:
        # fio puts the cause into its output file, or before the JSON, or on stderr
        first = text.splitlines()[:_FIRST_LINES]
        last = [line for line in result.stderr.splitlines()[-_LAST_LINES:] if line not in first]
        raise WorkloadError(
            f"{workload.label} failed with exit status {result.returncode}.", output="\n".join([*first, *last])
        )
    return text


def _hygiene(subject: Subject, warmup: int, host_caches: str) -> Mapping[str, str]:
    return {
        "state": subject.config.state,
        "warm-up rounds": str(warmup),
        "guest caches": "of the disk dropped before each round",
        "host caches": host_caches,
    }
