"""Measure one workload in one cell: fill, warm up, rounds; each sample is handed on as it ends."""

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
from pytest_vmstorage.host.background import meanwhile
from pytest_vmstorage.host.counters import Look
from pytest_vmstorage.host.shell import CommandResult, Shell, check_time, run_line, unguarded
from pytest_vmstorage.host.watch import merged
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
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.volume import CACHED_IN_ARC
from pytest_vmstorage.workloads.base import Target, Workload, figures_of

_REMARKED_ROUNDS = 3


@dataclass
class Taken:
    """What is kept of a guest after its rounds: target, command line, hygiene, proof; the guest itself is let go."""

    config: StorageConfig
    identity: Identity
    regions: Regions
    target: Target
    command: str
    hygiene: Mapping[str, str]
    guest: Mapping[str, str]
    proof: tuple[Proof, ...]
    around: HostState = field(default_factory=HostState)


def working_set(workload: Workload, taken: Taken, samples: Sequence[Sample]) -> WorkingSet:
    """What the rounds worked on, to be held against memory."""
    return WorkingSet(
        label=workload.label,
        size_bytes=None if workload.needs_folder else taken.target.size_bytes,
        is_direct=all(workload.moved_bytes(sample.raw) is not None for sample in samples),
        through_arc=CACHED_IN_ARC in taken.hygiene.get("disk lies on", ""),
    )


def size_words(worked_on: WorkingSet, config: StorageConfig, around: HostState, hygiene: Hygiene) -> str:
    """What the row says of its size, and of what may have kept it in memory."""
    note = worked_on.note(config, around.memory_bytes)
    return hygiene.words("cache-size", done=note, left_out=f"{worked_on.size}, not held against memory")


def remarks(workload: Workload, samples: Sequence[Sample]) -> Mapping[str, str]:
    """What the figures do not show, by round: a depth that was not reached, a state that was not steady."""
    said = [
        f"round {number}: {', '.join(found)}"
        for number, sample in enumerate(samples, 1)
        if (found := workload.remarks(sample.raw))
    ]
    more = len(said) - _REMARKED_ROUNDS
    told = [*said[:_REMARKED_ROUNDS], *([f"and {more} more of {len(samples)} rounds"] if more > 0 else [])]
    return {"not as asked": ", ".join(told)} if told else {}


def hygiene_words(config: StorageConfig, warmup: int, host_caches: str, hygiene: Hygiene) -> Mapping[str, str]:
    """What was done before each round, by name; `host_caches` says what was done on the host."""
    judged = hygiene.words("steady-state", done="", left_out="not judged")
    return {
        "state": "none, nothing is kept" if config.is_null else config.state,
        "warm-up rounds": hygiene.words("warmup", done=str(warmup), left_out=str(warmup)),
        "guest caches": hygiene.caches("guest-caches", done="of the disk dropped before each round"),
        "host caches": host_caches,
        **({"steady state": judged} if judged else {}),
    }


# the disk's own cached pages, once they are written, and no others (BLKFLSBUF): the tools are not read anew in each
# round; a stale result is emptied, as each further process takes an emulated guest longer than what it does
_STALE = '[ -z "$2" ] || : >"$2"'
FORGET = f'{_STALE}; exec blockdev --flushbufs "$1"'
# of a file only its own pages, once they are written: dd with nocache and count=0 is posix_fadvise(POSIX_FADV_DONTNEED)
# on the whole file (coreutils manual)
FORGET_FILE = (
    f'{{ {_STALE}; }} && dd if=/dev/null of="$1" oflag=nocache conv=notrunc,fdatasync count=0 status=none &&'
    ' { [ -z "$3" ] || exec blockdev --flushbufs "$3"; }'
)
# files come and go, so that nobody can name the pages: all go, where there is the right to
FORGET_ALL = f'sync && {{ [ "$(id -u)" != 0 ] || echo 3 >/proc/sys/vm/drop_caches; }} && {{ {_STALE}; }}'
# where the user wants no pages dropped
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
        self._taken: list[Taken] = []

    @property
    def values(self) -> tuple[float, ...]:
        """The primary figure of each sample."""
        return tuple(sample.figures[self.workload.primary] for sample in self.samples)

    def take(self, system: SystemUnderTest, count: int, say: Progress = silent) -> None:
        """Take so many rounds; raises as `measure` does, and the samples before stay."""
        begin, notes = time.monotonic(), system.set_host()
        workload, plan = self.workload, self._plan.model_copy(update={"rounds": count})
        check_fits(system.config, workload, self._plan, system.regions.size_bytes)
        check_folder(system, workload)
        zeros = check_zeros(system, workload, plan)
        target, warmup = prepare(system, workload, plan, say)
        # what was warm in one guest is not so in the next
        warmup = 0 if self._warm == system.identity.boot else warmup
        words, facts = {"zeros": zeros} if zeros else {}, _facts(system, workload)
        with span("proof", cell=system.config):
            proof = prove_state(system)
        command = shlex.join(workload.argv(target))
        taken = Taken(system.config, system.identity, system.regions, target, command, words, facts, proof)
        # the host is read while the guest forgets, and after the rounds while the guest is read
        with meanwhile(system.watch) as watching:
            self._take(taken, system, range(-warmup, count), plan, watching, notes, say)
            with span("looks"), meanwhile(system.recheck) as rechecking:
                watched = watching()
                taken.around = watched()
                changed = rechecking()
        if changed:
            raise WorkloadError(f"The figure of {workload.label} is INVALID: {changed}.")
        self._warm = system.identity.boot
        self.seconds += time.monotonic() - begin

    def _take(
        self,
        taken: Taken,
        system: SystemUnderTest,
        numbers: Sequence[int],
        plan: Plan,
        watching: Callable[[], object],
        notes: Mapping[str, str],
        say: Progress,
    ) -> None:
        """Take the rounds of these numbers, of which those below 0 warm up."""
        target, moves_on = taken.target, uses_untouched(system.config, self.workload)
        for number in numbers:
            say(self._step(number))
            if moves_on:
                # before, and not after it: a round that fails has written too
                system.regions.written_bytes = target.offset_bytes + target.size_bytes
            with span("set-up", cell=system.config, workload=self.workload.label, number=self._number(number)):
                host_caches, sample = _whole_round(
                    system, self.workload, target, plan, watching, "warm-up" if number < 0 else "window"
                )
            if number == 0:
                taken.hygiene = {
                    **hygiene_words(system.config, -numbers[0], host_caches, plan.hygiene),
                    **notes,
                    **taken.hygiene,
                }
                # before its sample: what Ctrl-C leaves can be told
                self._taken.append(taken)
            if number >= 0:
                with span("journal"):
                    self._keep_sample(sample)
                self.samples.append(sample)
            if moves_on:
                target = target.model_copy(update={"offset_bytes": system.regions.written_bytes})

    def _number(self, number: int) -> int:
        """A round's number among all of the measurement's; warm-ups have those up to 0."""
        return number + 1 if number < 0 else len(self.samples) + 1

    def _step(self, number: int) -> str:
        if number < 0:
            return f"warming up {self.workload.tool}"
        return f"measuring {self.workload.label}, round {len(self.samples) + 1}/{self._plan.rounds}"

    def has_room(self) -> bool:
        """Whether a further round would find blocks that nothing has written yet, where it needs them."""
        if not self._taken:
            return True
        last = self._taken[-1]
        needed = last.regions.written_bytes + last.target.size_bytes
        return not uses_untouched(last.config, self.workload) or needed <= last.regions.size_bytes

    def measurement(self, order: str = "in a row", ended: Ending | None = None) -> Measurement:
        """All rounds so far, of which there is at least one; `order` says how they lie among those of other cells."""
        workload, samples = self.workload, self.samples
        first, last = self._taken[0], self._taken[-1]
        around = merged([one.around for one in self._taken])
        worked_on, kept = working_set(workload, last, samples), self._plan.hygiene
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
                "working set": size_words(worked_on, last.config, around, kept),
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
    system: SystemUnderTest, workload: Workload, target: Target, plan: Plan, watching: Callable[[], object], step: str
) -> tuple[str, Sample]:
    """A round with what the workload needs before and after it; also how the host forgot what it had cached.

    The host is watched before it forgets. `step` is what the run of the tool is timed as.
    """
    try:
        _run_all(system, workload, workload.setup(target), plan, when="before")
        with span("forgetting"):
            forget_in_guest(system, workload, target, plan.hygiene)
        # what tears guests down writes to the host's disks, too
        with span("looks"):
            watching()
        with span("forgetting"), meanwhile(_look_within(system, plan)) as looking:
            host_caches = forget_on_host(system, plan.hygiene)
        sample = _round(system, workload, target, plan, step, looking())
    except BaseException:
        # what failed is told, whatever its files do
        with contextlib.suppress(VmStorageError):
            _run_all(system, workload, workload.cleanup(target), plan, when="after")
        raise
    _run_all(system, workload, _after(system, workload, target), plan, when="after")
    return host_caches, sample


def forget_in_guest(system: SystemUnderTest, workload: Workload, target: Target, hygiene: Hygiene) -> None:
    """Drop cached pages where the workload runs, as far as the user wants it; raises WorkloadError."""
    # the output file goes too: a stale result is never read as a new one
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
        raise WorkloadError(f"{what} failed.", output=done.tail())


def forget_on_host(system: SystemUnderTest, hygiene: Hygiene) -> str:
    """Drop what the host cached of the disk, as far as the user wants it; what was done."""
    if hygiene.has("host-caches"):
        return system.drop_caches()
    if hygiene.has("sync"):
        system.write_back()
    return hygiene.caches("host-caches", done="")


def _after(system: SystemUnderTest, workload: Workload, target: Target) -> Sequence[Sequence[str]]:
    """What a workload needs after a round that went well; on a fresh disk its files keep their blocks."""
    # on the host they would stay for good
    keeps_blocks = system.config.guest_fs != "none" and uses_untouched(system.config, workload)
    return workload.set_aside(target) if keeps_blocks else workload.cleanup(target)


def _facts(system: SystemUnderTest, workload: Workload) -> Mapping[str, str]:
    version = system.identity.tools.get(workload.package or workload.tool, "unknown version")
    return {**system.identity.facts, workload.tool: version}


def shell_for(system: SystemUnderTest, workload: Workload) -> Shell:
    """What the workload's commands go through: on a host one of the user's own may write where the user says."""
    return system.shell if type(workload).__module__.startswith(_OURS) else unguarded(system.shell)


def _run_all(
    system: SystemUnderTest, workload: Workload, commands: Sequence[Sequence[str]], plan: Plan, *, when: str
) -> None:
    """What a workload needs before its rounds, or after; the first command that fails ends the measurement.

    It is told by the workload's name and the tool's own last words: a command may be a script of many lines.
    """
    for argv in commands:
        done = shell_for(system, workload).run(argv, timeout_s=plan.timeout_s + 3 * workload.expected_seconds)
        what = f"{argv[0]} {when} a round of {workload.label}"
        check_time(done, what)
        if not done.ok:
            said = done.tail(1)[:_SHOWN].rstrip(".")
            words = f": {said}" if said else ""
            output = done.tail(15)
            raise WorkloadError(f"{what} failed with exit status {done.returncode}{words}.", output=output)


def _look_within(system: SystemUnderTest, plan: Plan) -> Callable[[], Callable[[], Look]]:
    """A look before a round, as far as it can be taken while the host drops its caches; the result takes the rest.

    Where all caches are dropped, guest and QEMU move nothing meanwhile; else all of the look is left for later.
    """
    drops_all = all(map(plan.hygiene.has, ("guest-caches", "host-caches", "sync")))

    def later() -> Look:
        return system.begin_look()()

    return system.begin_look if drops_all else lambda: later


def _round(
    system: SystemUnderTest, workload: Workload, target: Target, plan: Plan, step: str, look: Callable[[], Look]
) -> Sample:
    """One round; `look` takes what is still to be taken of the look before it."""
    started = datetime.datetime.now(datetime.UTC)
    with span("looks"):
        before = look()
    with span(step):
        shell, limit_s = shell_for(system, workload), plan.timeout_s + 3 * workload.expected_seconds
        result = shell.run(workload.argv(target), timeout_s=limit_s)
    # the counters are read only if the tool succeeded: a failed round has no figure
    with span("looks"), meanwhile(system.look) if result.ok else contextlib.nullcontext(system.look) as looking:
        raw = _raw_output(system, workload, target, result)
        after = looking()
    moved = after.moved_since(before)
    figures = figures_of(workload, raw)
    # of a disk without storage no flush is owed to a device
    kept = stored(moved) if system.config.is_null else unflushed(moved, system.config.cache)
    reason = impossible(moved, workload.moved_bytes(raw)) or kept
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
        order=system.next_order(),
        boot=system.identity.boot,
    )


def _status(result: CommandResult, text: Sequence[str]) -> str:
    """How a tool ended, with its first words: what follows them are mostly its counts of what it did all the same."""
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
        raise WorkloadError(f"{workload.label} {said}.", output="\n".join([*first, *last]))
    return text
