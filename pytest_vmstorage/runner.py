"""Measure one workload in one cell: fill, warm up, rounds; each sample is handed on as it ends."""

from __future__ import annotations

import contextlib
import datetime
import shlex
from collections.abc import Callable, Mapping, Sequence

from pytest_vmstorage.accounting import impossible, total, unflushed
from pytest_vmstorage.caution import WorkingSet, host_cautions
from pytest_vmstorage.command import TIMED_OUT, CommandResult
from pytest_vmstorage.errors import VmStorageError, WorkloadError
from pytest_vmstorage.preconditioning import check_fits, check_folder, prepare, prove_state, uses_untouched
from pytest_vmstorage.results import Measurement, Sample
from pytest_vmstorage.say import Say, silent
from pytest_vmstorage.subject import Plan, Subject
from pytest_vmstorage.workloads.base import Target, Workload, figures_of

# the disk's own cached pages and no others (BLKFLSBUF): the tools are not read anew in each round
FORGET = 'sync; blockdev --flushbufs "$1"; rm -f "$2"'
# of a file only its own pages: dd with nocache and count=0 is posix_fadvise(POSIX_FADV_DONTNEED) (coreutils manual)
FORGET_FILE = (
    'sync "$1" && dd if="$1" iflag=nocache count=0 status=none && { [ -z "$3" ] || blockdev --flushbufs "$3"; } &&'
    ' rm -f "$2"'
)
# files come and go, so that nobody can name the pages: all go, where there is the right to
FORGET_ALL = 'sync && { [ "$(id -u)" != 0 ] || echo 3 >/proc/sys/vm/drop_caches; } && rm -f "$2"'
_SHOWN = 200
# together no more than a WorkloadError shows
_FIRST_LINES, _LAST_LINES = 9, 6


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
    check_fits(subject.config, workload, plan, subject.regions.size_bytes)
    check_folder(subject, workload)
    target, warmup = prepare(subject, workload, plan, say)
    proof = prove_state(subject)
    moves_on = uses_untouched(subject.config, workload)
    command = shlex.join(workload.argv(target))
    host_caches = "not dropped"
    samples: list[Sample] = []
    watched = subject.watch()
    for number in range(-warmup, plan.rounds):
        say(
            f"warming up {workload.tool}"
            if number < 0
            else f"measuring {workload.label}, round {number + 1}/{plan.rounds}"
        )
        if moves_on:
            # before, and not after it: a round that fails has written too
            subject.regions.written_bytes = target.offset_bytes + target.size_bytes
        try:
            _run_all(subject, workload, workload.setup(target), plan)
            host_caches = _forget(subject, workload, target)
            subject.before_round()
            sample = _round(subject, workload, target, plan)
        except BaseException:
            # what failed is told, whatever its files do
            with contextlib.suppress(VmStorageError):
                _run_all(subject, workload, workload.cleanup(target), plan)
            raise
        _run_all(subject, workload, workload.cleanup(target), plan)
        if number >= 0:
            keep_sample(sample)
            samples.append(sample)
        if moves_on:
            target = target.model_copy(update={"offset_bytes": subject.regions.written_bytes})
    around = watched()
    changed = subject.recheck()
    if changed:
        raise WorkloadError(f"The figure of {workload.label} is INVALID: {changed}.")
    worked_on = _working_set(workload, target, samples)
    return Measurement(
        workload=workload.label,
        tool=workload.tool,
        command=command,
        config=subject.config,
        host=subject.host,
        metrics=workload.metrics,
        primary=workload.primary,
        shown=workload.shown,
        point=workload.point,
        shape=workload.shape,
        samples=tuple(samples),
        hygiene={
            **_hygiene(subject, warmup, host_caches),
            "working set": worked_on.note(subject.config, around.memory_bytes),
            **_remarks(workload, samples),
        },
        guest=_facts(subject, workload),
        proof=proof,
        around=around,
        cautions=(
            *host_cautions(around, [one.pressed for one in samples], total(one.moved for one in samples)),
            *worked_on.cautions(subject.config, around.memory_bytes),
        ),
    )


def _working_set(workload: Workload, target: Target, samples: Sequence[Sample]) -> WorkingSet:
    return WorkingSet(
        label=workload.label,
        size_bytes=None if workload.needs_folder else target.size_bytes,
        is_direct=all(workload.moved_bytes(sample.raw) is not None for sample in samples),
    )


def _facts(subject: Subject, workload: Workload) -> Mapping[str, str]:
    version = subject.tools.get(workload.package or workload.tool, "unknown version")
    return {**subject.facts, workload.tool: version}


def _run_all(subject: Subject, workload: Workload, commands: Sequence[Sequence[str]], plan: Plan) -> None:
    """What a workload needs around its rounds; the first command that fails ends the measurement."""
    for argv in commands:
        done = subject.shell.run(argv, timeout_s=plan.timeout_s + 3 * workload.expected_seconds)
        if not done.ok:
            what = f"`{shlex.join(argv)[:_SHOWN]}` failed with exit status {done.returncode}"
            raise WorkloadError(f"Around a round of {workload.label} {what}.", output=done.tail(15))


def _forget(subject: Subject, workload: Workload, target: Target) -> str:
    # the output file goes too: a stale result is never read as a new one
    output = workload.output_file(target) or "/nonexistent"
    script, words = (FORGET_FILE, (output, subject.device)) if subject.is_file else (FORGET, (output,))
    if workload.needs_folder:
        script = FORGET_ALL
    done = subject.shell.run(["/bin/sh", "-c", script, "sh", subject.disk, *words], timeout_s=120)
    if not done.ok:
        raise WorkloadError("Dropping the guest's cached pages of the disk failed.", output=done.tail())
    return subject.drop_host_caches()


def _round(subject: Subject, workload: Workload, target: Target, plan: Plan) -> Sample:
    started = datetime.datetime.now(datetime.UTC)
    before = subject.look()
    result = subject.shell.run(workload.argv(target), timeout_s=plan.timeout_s + 3 * workload.expected_seconds)
    raw = _raw_output(subject, workload, target, result)
    after = subject.look()
    moved = after.moved_since(before)
    figures = figures_of(workload, raw)
    reason = impossible(moved, workload.moved_bytes(raw)) or unflushed(moved, subject.config.cache)
    if reason:
        raise WorkloadError(f"The figure of {workload.label} is INVALID: {reason}.")
    return Sample(
        figures=figures,
        started=started.isoformat(),
        seconds=result.seconds,
        raw=raw,
        moved=moved,
        cost=after.spent_since(before),
        pressed=after.pressed_since(before),
    )


def _raw_output(subject: Subject, workload: Workload, target: Target, result: CommandResult) -> str:
    if result.returncode == TIMED_OUT:
        raise WorkloadError(
            f"{workload.label} did not end within {result.seconds:.0f} s.",
            hint="Raise --vm-timeout.",
            output=result.tail(15),
        )
    text = result.stdout + result.stderr
    output = workload.output_file(target)
    if output is not None:
        text = subject.shell.read(output) or text
    if not result.ok:
        # fio puts the cause into its output file, or before the JSON, or on stderr
        first = text.splitlines()[:_FIRST_LINES]
        last = [line for line in result.stderr.splitlines()[-_LAST_LINES:] if line not in first]
        said = workload.failure(f"{text}\n{result.stderr}") or f"failed with exit status {result.returncode}"
        raise WorkloadError(f"{workload.label} {said}.", output="\n".join([*first, *last]))
    return text


def _remarks(workload: Workload, samples: Sequence[Sample]) -> Mapping[str, str]:
    """What the figures do not show, by round: a depth that was not reached, a state that was not steady."""
    said = [
        f"round {number}: {remark}"
        for number, sample in enumerate(samples, 1)
        for remark in workload.remarks(sample.raw)
    ]
    return {"not as asked": ", ".join(said)} if said else {}


def _hygiene(subject: Subject, warmup: int, host_caches: str) -> Mapping[str, str]:
    return {
        "state": subject.config.state,
        "warm-up rounds": str(warmup),
        "guest caches": "of the disk dropped before each round",
        "host caches": host_caches,
        **subject.notes,
    }
