"""The session of one pytest process: its lab, opened once and late, and the measurements of its tests."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import pytest

from pytest_vmstorage.analysis.gate.verdicts import Verdict
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError, UnsupportedError, VmStorageError, signed, split_code
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab, open_machines
from pytest_vmstorage.lab.pool import Environment
from pytest_vmstorage.measure.image_operations import measure_images
from pytest_vmstorage.measure.option_checks import OptionChecks
from pytest_vmstorage.measure.preconditioning import check_fits
from pytest_vmstorage.measure.rounds import Rounds, check_counts
from pytest_vmstorage.measure.runner import Measuring
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.plugin.declared import Results, declared_by, unmet
from pytest_vmstorage.plugin.ending import journal_path
from pytest_vmstorage.plugin.gate import Gate
from pytest_vmstorage.plugin.interleave import Interleaver, cells_alike, measures_once
from pytest_vmstorage.plugin.progress_line import (
    LiveLine,
    Shown,
    TerminalLine,
    status_line,
    time_words,
    write_sentence,
)
from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import (
    BEGUN,
    CONFIG,
    ENTRY,
    FAILED,
    MAKING,
    MEASURED,
    has_turns,
    is_declared,
    is_skipped,
    measures,
    notes_on,
    tolerated_by,
    uses,
)
from pytest_vmstorage.plugin.time_left import Ahead, TimeLeft
from pytest_vmstorage.plugin.timing import recorder_of
from pytest_vmstorage.plugin.turns import Pass, Side, Turn, Turns, pass_of
from pytest_vmstorage.plugin.xdist.channel import post_of
from pytest_vmstorage.results.journal import ROUND_S, WARMUP_ROUNDS, Journal
from pytest_vmstorage.results.run import Failure, Measurement, Sample
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.text import quoted
from pytest_vmstorage.workloads.base import Workload
from pytest_vmstorage.workloads.image_operations import ImageOperations

Measured = TypeVar("Measured", bound=Workload)


class StorageSession:
    """One pytest process's lab, turns, gate and journal; `own` are its tests, `reported` those that are through."""

    def __init__(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        self._config = config
        settings = settings_of(config)
        self._settings, self._rounds, self._columns = settings.lab, settings.rounds, settings.columns
        self.gate, self.turns = Gate(settings), Turns()
        cells = [item.stash[CONFIG] for item in items if CONFIG in item.stash]
        # machines that the plugin did not make are measured without libvirt and QEMU
        self._open_here = open_machines if cells and all(one.is_machine for one in cells) else open_lab
        self._lab: Lab | None = None
        self._broken: VmStorageError | None = None
        self._yardsticks = Yardsticks()
        self._option_checks = OptionChecks()
        self._journal = Journal(journal_path(config), recorder_of(config).unwritten)
        self.own: list[pytest.Item] = []
        self.reported: set[str] = set()
        self._time, self._line, post = TimeLeft(), TerminalLine(config), post_of(config)
        tell = self._show if self._line.is_there else None
        self.live = LiveLine(self._so_far, post.tell_progress if post is not None and post.is_live else tell)
        self.interleaver: Interleaver | None = None
        self.has_begun = False
        self._calls: dict[object, int] = {}
        self._prepared: dict[tuple[str, Side], tuple[Environment, int]] = {}

    def lab(self) -> Lab:
        """The lab, opened at the first call; once it failed to open it fails the same way for the rest of the run."""
        if self._broken is not None:
            raise self._broken
        if self._lab is None:
            settings, hook = self._settings, self._config.hook.pytest_vmstorage_open_lab
            try:
                with span("opening"):
                    lab: Lab | None = hook(config=self._config, settings=settings, say=self.announce)
                    self._lab = self._open_here(settings, self.announce) if lab is None else lab
            except VmStorageError as error:
                self._broken = error
                raise
        return self._lab

    def announce(self, sentence: str) -> None:
        """Print a sentence about what is being set up, past pytest's capturing; for a worker its controller does."""
        if (post := post_of(self._config)) is not None:
            post.say(sentence)
            return
        with self._line.erased():
            write_sentence(self._config, sentence)

    def _show(self, shown: Shown) -> None:
        self._line.show(status_line(shown))

    def _so_far(self) -> tuple[int, int, float]:
        """The rounds that are done, those and the ones ahead, and the seconds left."""
        ahead = list(self._ahead())
        return self._time.done, self._time.done + sum(one.rounds for one in ahead), self._time.seconds(ahead)

    @property
    def time_left(self) -> str:
        """The time that the rounds ahead take, in words."""
        return time_words(self._so_far()[2])

    def _ahead(self) -> Iterator[Ahead]:
        """The rounds that this process's tests are still to take, as far as is known what they measure."""
        sides: tuple[Side, ...] = ("own", "other") if self.gate.variant else ("own",)
        alike: dict[object, Sequence[Turn]] = {}
        waiting = []
        for item in self.own:
            # a plain test may have a `measure` of its own
            is_ours = has_turns(item) or (CONFIG in item.stash and uses(item, "measure_image") and not is_skipped(item))
            is_over = item.nodeid in self.reported or self.has_ended(item)
            for side in sides if is_ours and not is_over else ():
                if turns := self.turns.of(item.nodeid, side):
                    alike.setdefault(getattr(item, "function", None), turns)
                    if not self.turns.failed(item.nodeid):
                        yield from (_ahead_of(one) for one in turns)
                else:
                    waiting.append((item, side))
        for item, side in waiting:
            cell, count = self.gate.cell_on(side, item.stash[CONFIG]), self.gate.first_rounds(self._rounds).least
            known = alike.get(getattr(item, "function", None), ())
            for one in known:
                yield _ahead_of(one)._replace(cell=cell, rounds=one.rule.least, warmup=one.measuring.warmup)
            if not known:
                yield Ahead(cell, "", count, WARMUP_ROUNDS, ROUND_S)

    def environment(self, item: pytest.Item, config: StorageConfig, *, settled: bool = True) -> Environment:
        """The environment of the test's cell; `settled` if earlier ones are gone."""
        with self._outcomes(item):
            return self._environment(item, config, settled=settled)

    def _environment(self, item: pytest.Item, config: StorageConfig, *, settled: bool) -> Environment:
        self.live.begin_cell(str(config))
        self._time.begin(config)
        # a guest that boots, or is torn down, takes CPU time from another process's measurement: it takes its turn
        with _making(item), self.lab().alone(self.live.say, config):
            environment = self.lab().environment(config, self.live.say)
            if settled:
                self.lab().settle()
        return environment

    @property
    def keeps_guest(self) -> bool:
        """Whether a guest is to be kept, the first one in which a test fails."""
        return self._settings.keep

    def report(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        """Enter a test whose rounds were taken in turns, so that it is reported; nothing for others."""
        if self.interleaver is not None and self.interleaver.takes(item):
            self.interleaver.report(item, nextitem)

    def has_ended(self, item: pytest.Item) -> bool:
        """Whether the test was entered and reported already, or the run ends before it."""
        return self.interleaver is not None and self.interleaver.has_ended(item)

    def needs_environment(self, item: pytest.Item) -> bool:
        """Whether the test needs its environment: it asks for it, wants a further round, or may come to measure."""
        return uses(item, "guest") or not self.turns.is_complete(item.nodeid) or self._may_measure_again(item)

    def note_calls(self, item: pytest.Item) -> None:
        """The test has ended: the tests of its function in other cells likely measure as often as it did."""
        function, count = getattr(item, "function", None), len(self.turns.of(item.nodeid))
        self._calls[function] = max(count, self._calls.get(function, 0))

    def _may_measure_again(self, item: pytest.Item) -> bool:
        """Whether the test may come to a measurement that nobody knows of yet."""
        function = getattr(item, "function", None)
        if function in self._calls:
            return self._calls[function] > len(self.turns.of(item.nodeid))
        return not (is_declared(item) or measures_once(function))

    def declare(self, item: pytest.Item, side: Side, cell: StorageConfig) -> None:
        """Note what the test declares to measure; an error is raised where the test asks for its results."""
        self.turns.begin((item.nodeid, side))
        with suppress(VmStorageError):
            for one in declared_by(item):
                workload = self._checked(one.workload, one.rounds, one.warmup, "workload")
                make = partial(self._turn, item, cell, workload, one.rounds, one.warmup)
                self.turns.call((item.nodeid, side), workload, make)

    def results(self, at: Pass, item: pytest.Item, config: StorageConfig) -> Mapping[str, Measurement]:
        """The measurements of what the test declares, by name; rounds that were not taken yet are taken now."""
        with self._outcomes(item):
            declared = declared_by(item)
        return Results(
            {one.name: self.measure(at, item, config, one.workload, one.rounds, one.warmup) for one in declared}
        )

    def copy_calls(self, item: pytest.Item, at: Pass) -> None:
        """On its other side the test measures what it does in its own cell."""
        self.turns.begin((item.nodeid, at.side))
        with suppress(VmStorageError):
            for one in self.turns.of(item.nodeid):
                measuring = one.measuring
                make = partial(self._turn, item, at.cell, measuring.workload, None, measuring.warmup)
                self.turns.call((item.nodeid, at.side), measuring.workload, make)

    def take_round(self, item: pytest.Item, at: Pass) -> str:
        """Take the rounds that are due in that pass, outside of the test's function; returns why there are none."""
        try:
            with self.live.counting_down():
                for turn in self.turns.of(item.nodeid, at.side):
                    if turn.error is None and turn.ended is None:
                        self._take(at, item, turn)
        except VmStorageError as error:
            return _told(error)
        finally:
            self.live.clear()
            self._time.end()
            self._note_state(item, at)
        return ""

    def must_prepare(self, item: pytest.Item, at: Pass) -> bool:
        """Whether the test may have prepared its guest, and the guest is not any more as the test left it."""
        if is_declared(item) or not (uses(item, "guest") or (item.nodeid, at.side) in self._prepared):
            return False
        known, turns = self._prepared.get((item.nodeid, at.side)), self.turns.of(item.nodeid, at.side)
        held = self.lab().held_environment(turns[-1].cell if turns else at.cell)
        return known is None or known[0] is not held or not held.is_alive() or held.commands_run != known[1]

    def _note_state(self, item: pytest.Item, at: Pass) -> None:
        """Note the guest's state as the test's calls of `measure` leave it."""
        turns = self.turns.of(item.nodeid, at.side)
        held = self.lab().held_environment(turns[-1].cell) if turns else None
        if held is not None and (uses(item, "guest") or (item.nodeid, at.side) in self._prepared):
            self._prepared[item.nodeid, at.side] = held, held.commands_run

    def guest(self, item: pytest.Item, config: StorageConfig) -> Any:
        """Value of the fixture `guest`; the test may prepare it from now on."""
        environment, at = self.environment(item, config), pass_of(item)
        self._prepared.setdefault((item.nodeid, at.side), (environment, -1))
        return environment.fixture_value

    def surely_fails(self, item: pytest.Item) -> bool:
        """Whether it is certain by now that the test fails: a round failed, or a declared threshold cannot be met."""
        if self.turns.failed(item.nodeid):
            return True
        turns = self.turns.of(item.nodeid)
        with suppress(VmStorageError):
            return is_declared(item) and any(
                one.surely_misses([sample.figures for sample in turn.measuring.samples], turn.rule.count)
                for turn, one in zip(turns, declared_by(item), strict=False)
                if turn.rule.count is not None
            )
        return False

    def drop_environment(self) -> None:
        """The environment at work goes, also where the next round is of the same cell."""
        if self._lab is not None:
            self._lab.drop()

    def set_on_host(self, side: Side) -> None:
        """Set on the host what that side of the run's pairs asks for; raises HostError."""
        if self.gate.variant is not None and self.gate.variant.host:
            wishes = self._settings.wishes
            self.lab().set_on_host(self.gate.variant.on_host(wishes) if side == "other" else wishes)

    def expect(self, upcoming: Sequence[StorageConfig], alike: Collection[StorageConfig] = ()) -> None:
        """The cells whose turn comes: their guests wait for it; those `alike` begin with the test at hand."""
        self.lab().expect(upcoming, alike)

    def begin(self, item: pytest.Item) -> None:
        """A test begins: its calls of `measure` are counted anew, and guests of cells without a further test go."""
        if CONFIG not in item.stash:
            return
        at = pass_of(item)
        item.stash[BEGUN] = item.stash.get(BEGUN, 0) + 1
        if item.stash[BEGUN] > 1 and measures(item):
            self._measure_anew(item)
        self.turns.begin((item.nodeid, at.side))
        item.stash[MAKING] = False
        if at.kind == "report" and self._lab is not None and item in self.own and not self._may_measure_again(item):
            # a guest that is to be kept where its test fails is needed too
            coming = [
                (one, one.stash[CONFIG])
                for one in self.own[self.own.index(item) :]
                if CONFIG in one.stash and (self.needs_environment(one) or (self.keeps_guest and measures(one)))
            ]
            self.expect([config for _, config in coming], cells_alike(item, coming))

    def _measure_anew(self, item: pytest.Item) -> None:
        """A plugin runs the test again after it failed: what it measured goes, so that its figures are new ones.

        Not so in pairs, whose rounds lie side by side with those of the other cell.
        """
        if self.gate.variant is not None:
            self.announce(f"{item.nodeid} is run again with the same figures: --vm-against takes its pairs once")
            return
        self.turns.forget((item.nodeid, "own"))
        self.gate.forget(item.nodeid)
        item.stash[MEASURED] = []

    def measure(
        self, at: Pass, item: pytest.Item, config: StorageConfig, workload: Workload, rounds: int | None, warmup: int
    ) -> Measurement:
        """Run the workload in the test's environment, alone on the host, for the rounds that are due in that pass.

        The measurement has all rounds so far, and is kept for the report.
        """
        with self._outcomes(item):
            workload = self._checked(workload, rounds, warmup, "measure")
            make, key = partial(self._turn, item, config, workload, rounds, warmup), (item.nodeid, at.side)
            known = len(self.turns.of(*key))
            turn = self.turns.call(key, workload, make)
            if turn.error is not None:
                raise turn.error
            if turn.cell != config:
                raise ConfigError(
                    f"The rounds of {workload.label} were taken in {turn.cell}, and `storage` is {config} now.",
                    hint="A test with a `storage` fixture of its own measures in its function: it asks for `measure`.",
                    code="VM327",
                )
            if turn.ended is None:
                self._come_to(at, item, turn, is_new=len(self.turns.of(*key)) > known)
            measured = turn.measurement()
            if at.side == "own" and workload.moved_bytes(measured.raw[0]) is not None:
                # what went through a guest's page cache may be faster than any device, and is not counted anywhere
                self._yardsticks.check(measured)
        item.stash.setdefault(MEASURED, []).append(measured)
        return measured

    def _come_to(self, at: Pass, item: pytest.Item, turn: Turn, *, is_new: bool) -> None:
        """Do what that pass does with a measurement that wants rounds; the function ends unless all are taken here."""
        is_first = item.stash.get(BEGUN, 1) == 1
        if not is_first and self.gate.variant is None:
            # another attempt failed before it came here: both are told, with rounds in a row
            at = at.model_copy(update={"kind": "report"})
        takes_turns = self.interleaver is not None and self.interleaver.takes(item) and is_first
        if at.kind == "report" and not (is_new and takes_turns):
            self._take(at, item, turn)
            return
        if at.kind == "round":
            self._take(at, item, turn)
            self._note_state(item, at)
        item.stash[ENTRY].stop()

    def _checked(self, workload: Measured, rounds: object, warmup: object, by: str) -> Measured:
        """The workload with the columns that the user chose; raises ConfigError for wrong arguments of that fixture."""
        check_workload(workload, rounds, warmup, by)
        if not self._columns.all_names:
            return workload
        from pytest_vmstorage.workloads.metrics import check_known

        # found before any test, but on a worker of xdist
        check_known(self._columns)
        return workload.with_columns(self._columns)

    def _turn(
        self, item: pytest.Item, config: StorageConfig, workload: Workload, rounds: int | None, warmup: int
    ) -> Turn:
        if workload.needs_image:
            raise ConfigError(f"measure cannot run {workload.label}.", hint="Run it with measure_image.", code="VM315")
        rule = self.gate.first_rounds(self._asked(workload, config) if rounds is None else Rounds(count=rounds))
        plan = self._plan(rule.least, warmup)
        # no guest is made for a workload that it could not run
        check_fits(config, workload, plan)
        with _making(item):
            measuring = Measuring(workload, plan, keep_sample=self._keeper(item, workload, config, warmup))
        if not config.is_machine:
            self._option_checks.on_host(self.lab().shell, self.lab().host.name, workload, self.announce)
        attempt = self.turns.attempt((item.nodeid, "own"))
        return Turn(item.nodeid, rule, measuring, tolerated_by(item), notes_on(item), config, attempt)

    def _asked(self, workload: Workload, config: StorageConfig) -> Rounds:
        """The rule for rounds: as many as are needed begin with what the host's calibration asks for."""
        calibration = self.lab().calibration if self._rounds.count is None and not config.is_machine else None
        if calibration is None:
            return self._rounds
        return self._rounds.beginning_with(calibration.rounds_within(workload.label, self._rounds.precision))

    def _keeper(
        self, item: pytest.Item, workload: Workload, config: StorageConfig, warmup: int
    ) -> Callable[[Sample], None]:
        """A function that puts a sample of that measurement into the journal; before the first are warm-ups."""
        host, ahead = self.lab().facts_of(config).name, Ahead(config, workload.label, 1, 0, workload.expected_seconds)
        rounds = [ahead._replace(warmup=warmup)]

        def keep(sample: Sample) -> None:
            self._time.took(rounds.pop() if rounds else ahead, sample.seconds)
            self._journal.write(item.nodeid, workload.label, config, host, sample)

        return keep

    def _take(self, at: Pass, item: pytest.Item, turn: Turn) -> None:
        """Take the rounds of the turn that are due in that pass."""
        # earlier guests may go while this one's disk is prepared
        environment, lab = self._environment(item, turn.cell, settled=False), self.lab()
        with lab.alone(self.live.say, turn.cell):
            try:
                environment.check_tool(turn.measuring.workload.tool)
                self._option_checks.where_it_runs(environment.shell, turn.measuring.workload)
                for count in turn.due(at):
                    turn.measuring.take(environment, count, self.live.say)
            except VmStorageError as error:
                turn.error = lab.explain(environment, error)
                raise turn.error from None

    def measure_image(
        self,
        at: Pass,
        item: pytest.Item,
        config: StorageConfig,
        workload: ImageOperations,
        rounds: int | None,
        warmup: int,
    ) -> Measurement:
        """Time operations on images of the test's cell, alone on the host; kept for the report like any other.

        Its rounds are taken in a row, in the first run of the test: each makes an image anew.
        """
        self.live.begin_cell(str(config))
        with self._outcomes(item):
            workload = self._checked(workload, rounds, warmup, "measure_image")
            make = partial(self._images, item, config, workload, rounds, warmup)
            measured = self.turns.whole((item.nodeid, at.side), make)
        item.stash.setdefault(MEASURED, []).append(measured)
        return measured

    def _images(
        self, item: pytest.Item, config: StorageConfig, workload: ImageOperations, rounds: int | None, warmup: int
    ) -> Measurement:
        if not workload.needs_image:
            raise ConfigError(f"measure_image cannot run {workload.label}.", hint="Run it with measure.", code="VM315")
        plan, lab, say = self._plan(self._rounds.least if rounds is None else rounds, warmup), self.lab(), self.live.say
        with lab.alone(say, config), lab.images(config, workload, say) as bench:
            keep_sample = self._keeper(item, workload, config, warmup)
            measured = measure_images(bench, workload, plan, say=say, keep_sample=keep_sample)
        said = {"nodeid": item.nodeid, "tolerated": tolerated_by(item), "notes": notes_on(item)}
        return measured.model_copy(update=said)

    def _plan(self, wanted: int, warmup: int) -> Plan:
        timeout_s, hygiene = self._settings.timeout_s, self._settings.hygiene
        return Plan(rounds=wanted, warmup=warmup, timeout_s=timeout_s, hygiene=hygiene)

    @contextmanager
    def _outcomes(self, item: pytest.Item) -> Iterator[None]:
        """Our errors become pytest's outcomes: one sentence and no traceback."""
        try:
            yield
        except UnsupportedError as error:
            item.stash[FAILED] = _told(error)
            if self._settings.wishes.strict:
                raise pytest.fail.Exception(f"--vm-strict: {error}", pytrace=False) from None
            raise pytest.skip.Exception(str(error)) from None
        except VmStorageError as error:
            item.stash[FAILED] = _told(error)
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        finally:
            self.live.clear()

    def verdicts(self, item: pytest.Item) -> tuple[Verdict, ...]:
        """The gate's verdicts on the test's measurements; none without a gate."""
        measured = item.stash.get(MEASURED, [])
        return self.gate.verdicts(item.nodeid, measured, self.lab().all_facts) if measured else ()

    def judge(self, item: pytest.Item) -> None:
        """Fail the test where a declared threshold is missed or a primary figure is surely worse than tolerated.

        Skip it where that cannot be said.
        """
        measured = item.stash.get(MEASURED, [])
        if not measured or pass_of(item).side == "other":
            return
        if is_declared(item) and (missed := unmet(declared_by(item), measured)):
            raise pytest.fail.Exception("\n".join(missed), pytrace=False)
        self.gate.judge(measured, self.verdicts(item))

    def note_failure(self) -> None:
        """A test failed: with --vm-keep its guest is the one to keep."""
        if self._lab is not None:
            self._lab.note_failure()

    def hosts(self) -> list[dict[str, Any]]:
        """The facts of host and machines as plain JSON values, to travel with a report to the controller."""
        return [one.model_dump(mode="json") for one in self._lab.all_facts] if self._lab is not None else []

    def failure(self, item: pytest.Item, reason: str, outcome: str) -> dict[str, Any]:
        """A cell without a figure as plain JSON values."""
        config: StorageConfig = item.stash[CONFIG]
        host = self._lab.facts_of(config).name if self._lab is not None else (self._settings.host or "local")
        on_host = uses(item, "measure_image") and not uses(item, "guest")
        cell = {"nodeid": item.nodeid, "config": config, "host": host, "outcome": outcome, "on_host": on_host}
        return Failure.model_validate({**cell, "reason": reason, "code": split_code(reason)[1]}).model_dump(mode="json")

    def close(self) -> None:
        """Remove all that this process made; says how to reach a guest that is kept."""
        if self._lab is None:
            self._journal.close()
            return
        lab, self._lab = self._lab, None
        try:
            with span("teardown"):
                kept = lab.close()
        except VmStorageError as error:
            # raised here it would cost the user the report; the next run removes what is left
            self.announce(f"not all was removed: {error}")
            return
        finally:
            self._journal.close()
        if kept is not None:
            self.announce(
                f"kept the guest of {kept.config}: `vmstorage exec {lab.lease.run_id} uname -a` runs a command in it, "
                "`vmstorage reap --kept` removes it"
            )


def _told(error: VmStorageError) -> str:
    """The reason of a cell without a figure, with its code: a remedy only where the cell cannot be measured here."""
    return str(error) if isinstance(error, UnsupportedError) else signed(error.what, error.code)


def _ahead_of(turn: Turn) -> Ahead:
    """The rounds that a measurement still wants, as far as it is known."""
    workload = turn.measuring.workload
    rounds = 0 if turn.ended is not None else max(1, turn.rule.least - turn.rounds)
    warmup = 0 if turn.rounds else turn.measuring.warmup
    return Ahead(turn.cell, workload.label, rounds, warmup, workload.expected_seconds)


@contextmanager
def _making(item: pytest.Item) -> Iterator[None]:
    """While what the test is to run in is made; where that fails it stays noted."""
    item.stash[MAKING] = True
    yield
    item.stash[MAKING] = False


def check_workload(workload: object, rounds: object, warmup: object, by: str) -> None:
    """Raise ConfigError for an argument that is not a workload, and for rounds that are not a number."""
    if isinstance(workload, type) and issubclass(workload, Workload):
        name = workload.__name__
        raise ConfigError(
            f"{by}({name}) has a class in place of a workload.", hint=f"Write {by}({name}(...)).", code="VM314"
        )
    if isinstance(workload, tuple | list) and all(isinstance(one, Workload) for one in workload):
        hint = f"Measure each: [{by}(one) for one in Fio(...).over(iodepth=(1, 8))]."
        raise ConfigError(f"{by}() has {len(workload)} workloads at once.", hint=hint, code="VM314")
    if not isinstance(workload, Workload):
        raise ConfigError(
            f"{by}({quoted(workload)}) has no workload.", hint=f"Write for example {by}(Fio(rw=...)).", code="VM314"
        )
    check_counts(by, rounds, warmup)
