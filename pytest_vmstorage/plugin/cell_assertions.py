"""Assertions between cells: what the `cells` fixture is, when its tests are run, and what becomes of an outcome."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pytest

from pytest_vmstorage.errors import ConfigError, VmStorageError, signed
from pytest_vmstorage.plugin.settings import settings_of
from pytest_vmstorage.plugin.stash import ASSERTED, DESELECTED, REFUSAL, asserts_between, is_storage_item

if TYPE_CHECKING:
    from pytest_vmstorage.analysis.cell_pairs import PairScope
    from pytest_vmstorage.analysis.ratios import Judgement
    from pytest_vmstorage.config.selector import CellSelector
    from pytest_vmstorage.results.run import Run


Policy = Literal["warn", "fail"]
"""The outcome of a test whose assertion is INCONCLUSIVE: skipped with the reason, or failed."""

_ONE_PROCESS = (
    "assertions between cells need all of a run in one process: run them on one host, without pytest-xdist's -n"
)


class Asserted(NamedTuple):
    """An assertion of a test and what it came to."""

    nodeid: str
    judgement: Judgement


_OPEN: pytest.StashKey[list[str]] = pytest.StashKey()
"""On an item: why assertions of it are INCONCLUSIVE."""


class Cells:
    """Assertions between cells that this run measured on one host, with intervals from rounds taken in turns.

    An assertion that does not hold raises AssertionError with figures, spreads, interval and configurations. One that
    is INCONCLUSIVE lets the test go on and makes it a skip at its end, or with `inconclusive="fail"` a failure at once.
    Arguments that all have: `workload` is a pattern of workloads as the report names them ("fio randread 4k*"),
    `metric` another metric than each workload's primary one, `where` the only cells to look at.
    """

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    def assert_ratio(
        self,
        one: CellSelector,
        other: CellSelector,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        workload: str = "*",
        metric: str | None = None,
        other_workload: str | None = None,
        other_metric: str | None = None,
        where: CellSelector | None = None,
        inconclusive: Policy | None = None,
    ) -> None:
        """Cells of `one` kind are so many times as fast as those of the `other` that are equal in all other axes.

        With `other_workload`, a pattern, the other side is of that workload, `other_metric` which of its metrics, and
        both sides may be the same cell: a write past the page cache against one through it.
        """
        __tracebackhide__ = True
        from pytest_vmstorage.analysis.assertions import OtherWorkload, ratio
        from pytest_vmstorage.analysis.ratios import Bounds

        beside = None if other_workload is None else OtherWorkload(other_workload, other_metric)

        def judge(scope: PairScope) -> Judgement:
            if beside is None and other_metric is not None:
                raise ConfigError(
                    f"other_metric={other_metric!r} is of no other workload.",
                    hint="Name one by other_workload.",
                    code="VM816",
                )
            return ratio(scope, one, other, Bounds(at_least=at_least, at_most=at_most), metric, beside)

        self._assert(judge, workload, where, inconclusive)

    def assert_fastest(
        self,
        chosen: CellSelector,
        *,
        tolerance: float = 0.0,
        workload: str = "*",
        metric: str | None = None,
        where: CellSelector | None = None,
        inconclusive: Policy | None = None,
    ) -> None:
        """No other cell is faster than the chosen one by more than `tolerance`, a fraction.

        Rivals are equal in all axes that the selector does not name; of a cell chosen alone, all of its workload.
        """
        __tracebackhide__ = True
        from pytest_vmstorage.analysis.assertions import fastest

        self._assert(lambda scope: fastest(scope, chosen, tolerance, metric), workload, where, inconclusive)

    def assert_monotonic(
        self,
        axis: str,
        *,
        falling: bool = False,
        tolerance: float = 0.02,
        workload: str = "*",
        metric: str | None = None,
        where: CellSelector | None = None,
        inconclusive: Policy | None = None,
    ) -> None:
        """No step to the next value of an axis is slower by more than `tolerance`; with `falling` none is faster.

        The axis is one of numbers, of the cell as queues, or of a curve as iodepth and numjobs.
        """
        __tracebackhide__ = True
        from pytest_vmstorage.analysis.assertions import monotonic

        judge = partial(monotonic, axis=axis, falling=falling, tolerance=tolerance, metric=metric)
        self._assert(judge, workload, where, inconclusive)

    @cached_property
    def _run(self) -> Run:
        recorder: Any = self._item.config.pluginmanager.get_plugin("vmstorage-recorder")
        run: Run = recorder.run()
        return run

    def _assert(
        self, judge: Callable[[PairScope], Judgement], workload: str, where: CellSelector | None, policy: Policy | None
    ) -> None:
        __tracebackhide__ = True
        from pytest_vmstorage.analysis.cell_pairs import PairScope
        from pytest_vmstorage.analysis.ratios import Outcome

        config = self._item.config
        strict = _is_strict(config, policy)
        try:
            judgement = judge(PairScope(self._run, workload, where, _unmeasured(config)))
        except VmStorageError as error:
            raise pytest.fail.Exception(str(error), pytrace=False) from None
        config.stash.setdefault(ASSERTED, []).append(Asserted(self._item.nodeid, judgement))
        if judgement.outcome is Outcome.FAILS:
            raise AssertionError(judgement.text)
        if judgement.outcome is Outcome.INCONCLUSIVE:
            if strict:
                raise AssertionError(f"INCONCLUSIVE: {judgement.text}")
            self._item.stash.setdefault(_OPEN, []).append(judgement.sentence)


def make_cells(item: pytest.Item) -> Cells:
    """The value of the `cells` fixture; under pytest-xdist the test is INCONCLUSIVE at once."""
    if hasattr(item.config, "workerinput"):
        if _is_strict(item.config, None):
            raise pytest.fail.Exception(f"INCONCLUSIVE: {_ONE_PROCESS}", pytrace=False)
        raise pytest.skip.Exception(f"INCONCLUSIVE: {_ONE_PROCESS}", _use_item_location=True)
    item.stash[_OPEN] = []
    return Cells(item)


def settle(item: pytest.Item) -> None:
    """A test passed: it is a skip all the same where an assertion of it was INCONCLUSIVE."""
    if reasons := item.stash.get(_OPEN, []):
        raise pytest.skip.Exception(f"INCONCLUSIVE: {'; '.join(reasons)}", _use_item_location=True)


def put_last(items: list[pytest.Item]) -> None:
    """Let tests that assert between cells be run after all others, in their own order; refuse one that measures."""
    items.sort(key=asserts_between)
    for item in filter(asserts_between, items):
        if is_storage_item(item):
            item.stash[REFUSAL] = ConfigError(
                "A test cannot measure and assert between cells: it is run once in each cell, when others were not"
                " measured yet.",
                hint="Let another test, without `storage`, `guest` or `measure`, ask for `cells`.",
                code="VM817",
            )


def assertion_lines(config: pytest.Config, width: int) -> list[str]:
    """Each assertion of the run with its test and what it came to, on lines of that width."""
    lines = []
    for nodeid, judgement in config.stash.get(ASSERTED, []):
        text = f"{judgement.outcome} {nodeid}: {judgement.sentence}"
        lines += textwrap.wrap(text, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return lines


def _is_strict(config: pytest.Config, policy: Policy | None) -> bool:
    """Whether INCONCLUSIVE is a failure."""
    # the option may also be "suspect", which is about the gate: here there are no suspects
    if policy not in (None, "warn", "fail"):
        said = f"inconclusive={policy!r} is not known. It is one of: warn, fail."
        raise pytest.fail.Exception(signed(said, "VM818"), pytrace=False)
    return (policy or settings_of(config).gate_options.inconclusive) == "fail"


def _unmeasured(config: pytest.Config) -> str:
    """The number of storage tests that options left out, as a clause; "" without any."""
    count = sum(is_storage_item(item) for item in config.stash.get(DESELECTED, []))
    if not count:
        return ""
    return "1 storage test was deselected" if count == 1 else f"{count} storage tests were deselected"
