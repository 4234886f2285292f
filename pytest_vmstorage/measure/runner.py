"""Measures one workload in one cell: fill, warm up, rounds; each sample is handed on before the next round begins."""

from __future__ import annotations

import contextlib
import datetime
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import Hygiene
from pytest_vmstorage.errors import VmStorageError, WorkloadError
from pytest_vmstorage.host.background import in_background
from pytest_vmstorage.host.counters import Look
from pytest_vmstorage.host.shell import CommandResult, Shell, check_time, run_line, unguarded
from pytest_vmstorage.host.watch import merge_states
from pytest_vmstorage.measure.meter import Meter
from pytest_vmstorage.measure.preconditioning import (
    check_fits,
    check_folder,
    check_zeros,
    prepare,
    prove_state,
    uses_untouched,
)
from pytest_vmstorage.measure.system import Identity, Plan, Regions, SystemUnderTest
from pytest_vmstorage.progress import Progress, silent
from pytest_vmstorage.results.cautions import WorkingSet, host_cautions
from pytest_vmstorage.results.counters import impossible, stored, total, unflushed
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.run import Ending, Measurement, Proof, Sample
from pytest_vmstorage.results.series import Series
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.volume import CACHED_IN_ARC
from pytest_vmstorage.workloads.base import Target, Workload, figures_of

_REMARKED_ROUNDS = 3


@dataclass
class RoundsRecord:
    """Record of a system after its rounds: target, command line, hygiene, proof; it does not hold the guest itself."""

    config: StorageConfig
    identity: Identity
    regions: Regions
    target: Target
    command: str
    hygiene: Mapping[str, str]
    guest: Mapping[str, str]
    proof: tuple[Proof, ...]
    around: HostState = field(default_factory=HostState)


def working_set(workload: Workload, taken: RoundsRecord, samples: Sequence[Sample]) -> WorkingSet:
    """The working set of the rounds, for comparison with the memory that may have cached it."""
    return WorkingSet(
        label=workload.label,
        size_bytes=None if workload.needs_folder else taken.target.size_bytes,
        is_direct=all(workload.moved_bytes(sample.raw) is not None for sample in samples),
        through_arc=CACHED_IN_ARC in taken.hygiene.get("disk lies on", ""),
    )


def remarks(workload: Workload, samples: Sequence[Sample]) -> Mapping[str, str]:
    """Remarks by round on what figures hide: an I/O depth that was not reached, a state that was not steady."""
    said = [
        f"round {number}: {', '.join(found)}"
        for number, sample in enumerate(samples, 1)
        if (found := workload.remarks(sample.raw))
    ]
    more = len(said) - _REMARKED_ROUNDS
    told = [*said[:_REMARKED_ROUNDS], *([f"and {more} more of {len(samples)} rounds"] if more > 0 else [])]
    return {"not as asked": ", ".join(told)} if told else {}


def hygiene_words(config: StorageConfig, warmup: int, host_caches: str, hygiene: Hygiene) -> Mapping[str, str]:
    """Names and descriptions of the steps before each round; `host_caches` describes the step on the host."""
    judged = hygiene.words("steady-state", done="", left_out="not judged")
    return {
        "state": "none, nothing is kept" if config.is_null else config.state,
        "warm-up rounds": hygiene.words("warmup", done=str(warmup), left_out=str(warmup)),
        "guest caches": hygiene.caches("guest-caches", done="of the disk dropped before each round"),
        "host caches": host_caches,
        **({"steady state": judged} if judged else {}),
    }


# only the disk's own cached pages, once they are written (BLKFLSBUF), so that tools are not read anew in each round;
# a stale result is emptied by the shell, for each further process takes an emulated guest longer than the work itself
_STALE = '[ -z "$2" ] || : >"$2"'
FORGET = f'{_STALE}; exec blockdev --flushbufs "$1"'
# only the file's own pages, once they are written: dd with nocache and count=0 is posix_fadvise(POSIX_FADV_DONTNEED)
# on the whole file (coreutils manual)
FORGET_FILE = (
    f'{{ {_STALE}; }} && dd if=/dev/null of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none &&'
    ' { [ -z "$3" ] || exec blockdev --flushbufs "$3"; }'
)
# files come and go, so that their pages cannot be named: all pages are dropped, where the user may do that
FORGET_ALL = f'sync && {{ [ "$(id -u)" != 0 ] || echo 3 >/proc/sys/vm/drop_caches; }} && {{ {_STALE}; }}'
# for users who want no pages dropped
KEEP_PAGES = f"sync; {_STALE}"
KEEP_DIRTY = _STALE

_SHOWN = 200
_OURS = "pytest_vmstorage."
# together no more than a WorkloadError shows
_FIRST_LINES, _LAST_LINES = 9, 6


def measure(
    system: SystemUnderTest,
    workload: Workload,
    plan: Plan,
    *,
    say: Progress = silent,
    keep_sample: Callable[[Sample], None] = lambda _sample: None,
) -> Measurement:
    """Run the plan and return all samples; `keep_sample` gets each one before the next begins.

    Raises ConfigError where the disk is too small, WorkloadError where the tool fails.
    """
    measuring = Measuring(workload, plan, keep_sample=keep_sample)
    measuring.take(system, plan.rounds, say)
    return measuring.measurement()


class Measuring:
    """One workload's rounds in one cell, taken some at a time, also in one guest of the cell after another.

    `keep_sample` gets each sample before the next round begins; `samples` are those so far.
    """

    def __init__(
        self, workload: Workload, plan: Plan, *, keep_sample: Callable[[Sample], None] = lambda _sample: None
    ) -> None:
        self.workload = workload
        self.samples: list[Sample] = []
        self.seconds = 0.0
        self._plan = plan
        self._keep_sample = keep_sample
        self._warm: str | None = None
        self._taken: list[RoundsRecord] = []

    @property
    def values(self) -> tuple[float, ...]:
        """The primary figure of each sample."""
        return tuple(sample.figures[self.workload.primary] for sample in self.samples)

    @property
    def warmup(self) -> int:
        """The number of warm-up rounds in each guest."""
        return self._plan.warmup

    def take(self, system: SystemUnderTest, count: int, say: Progress = silent) -> None:
        """Take `count` rounds; raises as `measure` does, and keeps the samples taken before."""
        notes, begin = system.set_host(), time.monotonic()
        workload, plan = self.workload, self._plan.model_copy(update={"rounds": count})
        check_fits(system.config, workload, self._plan, system.regions.size_bytes)
        check_folder(system, workload)
        zeros = check_zeros(system, workload, plan)
        target, warmup = prepare(system, workload, plan, say)
        # a warm-up in one guest does not warm the next one
        warmup = 0 if self._warm == system.identity.boot else warmup
        words = {"zeros": zeros} if zeros else {}
        version = system.identity.tools.get(workload.package or workload.tool, "unknown version")
        facts = {**system.identity.facts, workload.tool: version}
        with span("proof", cell=system.config):
            proof = prove_state(system)
        command = shlex.join(workload.argv(target))
        taken = RoundsRecord(system.config, system.identity, system.regions, target, command, words, facts, proof)

        def end() -> str:
            with in_background(system.recheck) as rechecking:
                taken.around = watching()()
                return rechecking()

        # the host is read while the guest drops its caches, and after the last round while its counters are read
        with in_background(system.watch) as watching:
            changed = self._take(taken, system, range(-warmup, count), plan, watching, end, notes, say)
        if changed:
            raise WorkloadError(f"The figure of {workload.label} is INVALID: {changed}.", code="VM703")
        self._warm = system.identity.boot
        self.seconds += time.monotonic() - begin

    def _take(
        self,
        taken: RoundsRecord,
        system: SystemUnderTest,
        numbers: Sequence[int],
        plan: Plan,
        watching: Callable[[], object],
        end: Callable[[], str],
        notes: Mapping[str, str],
        say: Progress,
    ) -> str:
        """Take the rounds of these numbers; those below 0 are warm-ups. Returns what `end` does in the last."""
        workload, target = self.workload, taken.target
        moves_on = uses_untouched(system.config, workload)
        warm_ups: list[Series] = []
        ended = ""
        for number in numbers:
            # warm-ups have numbers up to 0 among the measurement's rounds
            step, place, words = "window", len(self.samples) + 1, f"measuring {workload.label}, round"
            words = f"{words} {place}/{self._plan.rounds}"
            if number < 0:
                step, place, words = "warm-up", number + 1, f"warming up {workload.tool}"
            say(words)
            if moves_on:
                # before the round, because one that fails has written too
                system.regions.written_bytes = target.offset_bytes + target.size_bytes
            with span("set-up", cell=system.config, workload=workload.label, number=place):
                last = end if number == numbers[-1] else None
                host_caches, sample, ended = _whole_round(system, workload, target, plan, watching, step, last)
            if number == 0:
                done = hygiene_words(system.config, -numbers[0], host_caches, plan.hygiene)
                taken.hygiene = {**done, **notes, **taken.hygiene}
                # before its sample, so that after Ctrl-C the samples have their target and proof
                self._taken.append(taken)
            if number < 0:
                warm_ups += [sample.series] if sample.series is not None else []
            else:
                sample = sample.model_copy(update={"warm_ups": tuple(warm_ups)})
                warm_ups.clear()
                with span("journal"):
                    self._keep_sample(sample)
                self.samples.append(sample)
            if moves_on:
                target = target.model_copy(update={"offset_bytes": system.regions.written_bytes})
        return ended

    def has_room(self) -> bool:
        """Whether the disk still has untouched blocks for a further round, if the workload needs any."""
        if not self._taken:
            return True
        last = self._taken[-1]
        needed = last.regions.written_bytes + last.target.size_bytes
        return not uses_untouched(last.config, self.workload) or needed <= last.regions.size_bytes

    def measurement(self, order: str = "in a row", ended: Ending | None = None) -> Measurement:
        """All rounds so far, at least one, as a measurement; `order` says how they alternate with other cells."""
        workload, samples = self.workload, self.samples
        first, last = self._taken[0], self._taken[-1]
        around = merge_states([one.around for one in self._taken])
        worked_on, kept = working_set(workload, last, samples), self._plan.hygiene
        note, left_out = worked_on.note(last.config, around.memory_bytes), f"{worked_on.size}, not held against memory"
        return Measurement(
            workload=workload.label,
            tool=workload.tool,
            command=first.command,
            config=last.config,
            host=last.identity.host,
            metrics=workload.metrics,
            primary=workload.primary,
            shown=workload.columns,
            point=workload.point,
            shape=workload.shape,
            samples=tuple(samples),
            hygiene={
                **last.hygiene,
                "warm-up rounds": first.hygiene["warm-up rounds"],
                "rounds": order,
                "working set": kept.words("cache-size", done=note, left_out=left_out),
                **remarks(workload, samples),
            },
            guest=last.guest,
            proof=last.proof,
            around=around,
            ended=ended or Ending(reason="count"),
            cautions=(
                *host_cautions(around, [one.pressed for one in samples], total(one.moved for one in samples)),
                *(worked_on.cautions(last.config, around.memory_bytes) if kept.has("cache-size") else ()),
            ),
            without=kept.without,
            made_from=last.identity.made_from,
        )


def _whole_round(
    system: SystemUnderTest,
    workload: Workload,
    target: Target,
    plan: Plan,
    watching: Callable[[], object],
    step: str,
    end: Callable[[], str] | None,
) -> tuple[str, Sample, str]:
    """How the host dropped its caches, the sample of a round with its set-up and cleanup, and what `end` returns.

    The host is watched before it drops them. `step` is the name of the span in which the tool runs.
    """
    try:
        _run_all(system, workload, workload.setup(target), plan, when="before")
        with span("forgetting"):
            forget_in_guest(system, workload, target, plan.hygiene)
        # tearing down guests writes to the host's disks, too
        with span("looks"):
            watching()
        with span("forgetting"), in_background(_look_within(system, plan)) as looking:
            host_caches = forget_on_host(system, plan.hygiene)
        sample, ended = _round(system, workload, target, plan, step, looking(), end)
    except BaseException:
        # the failure is reported, whatever the cleanup does
        with contextlib.suppress(VmStorageError):
            _run_all(system, workload, workload.cleanup(target), plan, when="after")
        raise
    _run_all(system, workload, _after(system, workload, target), plan, when="after")
    return host_caches, sample, ended


def forget_in_guest(system: SystemUnderTest, workload: Workload, target: Target, hygiene: Hygiene) -> None:
    """Drop cached pages where the workload runs, as far as hygiene has that; raises WorkloadError."""
    # the output file is emptied too, so that a stale result is never read as a new one
    output = workload.output_file(target) or ""
    script, words = (FORGET_FILE, (output, system.paths.device)) if system.paths.is_file else (FORGET, (output,))
    if workload.needs_folder:
        script = FORGET_ALL
    if not hygiene.has("guest-caches"):
        script = KEEP_PAGES if hygiene.has("sync") else KEEP_DIRTY
    done = run_line(system.shell, script, system.paths.disk, *words, timeout_s=120)
    what = "Dropping the guest's cached pages of the disk"
    check_time(done, what)
    if not done.ok:
        raise WorkloadError(f"{what} failed.", output=done.tail(), code="VM701")


def forget_on_host(system: SystemUnderTest, hygiene: Hygiene) -> str:
    """Drop the host's cached pages of the disk, as far as hygiene has that; returns a description of the step."""
    if hygiene.has("host-caches"):
        return system.drop_caches()
    if hygiene.has("sync"):
        system.write_back()
    return hygiene.caches("host-caches", done="")


def _after(system: SystemUnderTest, workload: Workload, target: Target) -> Sequence[Sequence[str]]:
    """Commands after a successful round; on a fresh disk the workload's files keep their blocks."""
    # on the host those files would stay for good
    keeps_blocks = system.config.guest_fs != "none" and uses_untouched(system.config, workload)
    return workload.set_aside(target) if keeps_blocks else workload.cleanup(target)


def shell_for(system: SystemUnderTest, workload: Workload) -> Shell:
    """The shell for the workload's commands: on a host, a user's own workload may write wherever the user says."""
    return system.shell if type(workload).__module__.startswith(_OURS) else unguarded(system.shell)


def _run_all(
    system: SystemUnderTest, workload: Workload, commands: Sequence[Sequence[str]], plan: Plan, *, when: str
) -> None:
    """Run the workload's commands before or after a round; the first one that fails ends the measurement.

    The error has the workload's name and the tool's last line: a command may be a script of many lines.
    """
    for argv in commands:
        done = shell_for(system, workload).run(argv, timeout_s=plan.timeout_s + 3 * workload.expected_seconds)
        what = f"{argv[0]} {when} a round of {workload.label}"
        check_time(done, what)
        if not done.ok:
            said = done.tail(1)[:_SHOWN].rstrip(".")
            words = f": {said}" if said else ""
            output = done.tail(15)
            raise WorkloadError(
                f"{what} failed with exit status {done.returncode}{words}.", output=output, code="VM701"
            )


def _look_within(system: SystemUnderTest, plan: Plan) -> Callable[[], Callable[[], Look]]:
    """The look before a round, as far as it can run while the host drops its caches; the result takes the rest.

    Where all caches are dropped, guest and QEMU move nothing meanwhile; otherwise the whole look is taken later.
    """
    drops_all = all(map(plan.hygiene.has, ("guest-caches", "host-caches", "sync")))

    def later() -> Look:
        return system.begin_look()()

    return system.begin_look if drops_all else lambda: later


def _round(
    system: SystemUnderTest,
    workload: Workload,
    target: Target,
    plan: Plan,
    step: str,
    look: Callable[[], Look],
    end: Callable[[], str] | None,
) -> tuple[Sample, str]:
    """The sample of one run of the tool; `look` completes the look before it, and `end` is called beside that after."""
    started = datetime.datetime.now(datetime.UTC)
    with span("looks"):
        before = look()
    with Meter(system.count, first=before.counts) as meter:
        with span(step):
            shell, limit_s = shell_for(system, workload), plan.timeout_s + 3 * workload.expected_seconds
            result = shell.run(workload.argv(target), timeout_s=limit_s)
        meter.stop()
        # the counters are read only if the tool succeeded: a failed round has no figure
        with (
            span("looks"),
            in_background(system.look) if result.ok else contextlib.nullcontext(system.look) as looking,
            in_background(end or str) if result.ok else contextlib.nullcontext(str) as ending,
        ):
            raw = _raw_output(system, workload, target, result)
            after = looking()
            series = meter.series("QEMU" if system.config.has_guest else "host", workload.unmeasured_s)
            ended = ending()
    moved = after.moved_since(before)
    figures = figures_of(workload, raw)
    # a disk without storage passes no flush on to a device
    kept = stored(moved) if system.config.is_null else unflushed(moved, system.config.cache)
    reason = impossible(moved, workload.moved_bytes(raw)) or kept
    if reason:
        raise WorkloadError(f"The figure of {workload.label} is INVALID: {reason}.", code="VM703")
    sample = Sample(
        figures=figures,
        started=started.isoformat(),
        seconds=result.seconds,
        raw=raw,
        moved=moved,
        cost=after.spent_since(before),
        pressed=after.pressed_since(before),
        order=system.next_order(),
        boot=system.identity.boot,
        series=series,
    )
    return sample, ended


def _status(result: CommandResult, text: Sequence[str]) -> str:
    """The exit status of a tool with its first words; the later ones are mostly counts of its work so far."""
    lines = [line.strip() for line in (result.stderr.splitlines() or text)]
    words = next((line[:_SHOWN].rstrip(".") for line in lines if line.strip("{}[], ")), "")
    return f"failed with exit status {result.returncode}{words and f': {words}'}"


def _raw_output(system: SystemUnderTest, workload: Workload, target: Target, result: CommandResult) -> str:
    check_time(result, workload.label)
    text = result.stdout + result.stderr
    output = workload.output_file(target)
    if output is not None:
        text = system.shell.read(output) or text
    if not result.ok:
        # fio puts the cause into its output file, or before the JSON, or on stderr
        first = text.splitlines()[:_FIRST_LINES]
        last = [line for line in result.stderr.splitlines()[-_LAST_LINES:] if line not in first]
        said = workload.failure(f"{text}\n{result.stderr}") or _status(result, first)
        raise WorkloadError(f"{workload.label} {said}.", output="\n".join([*first, *last]), code="VM701")
    return text
