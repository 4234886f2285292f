"""The fixtures: `storage`, `guest`, `measure` and `measure_image`, and `cells` with its assertions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vmstorage.plugin.stash import REFUSAL, SESSION, cell_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_vmstorage.config.cell import StorageConfig
    from pytest_vmstorage.guest.guest import Guest
    from pytest_vmstorage.lab.environments import HostEnvironment
    from pytest_vmstorage.plugin.cell_assertions import Cells
    from pytest_vmstorage.plugin.fixture_types import AssertFastest, AssertMonotonic, AssertRatio, Measure, MeasureImage
    from pytest_vmstorage.results.run import Measurement
    from pytest_vmstorage.workloads.base import Workload
    from pytest_vmstorage.workloads.image_operations import ImageOperations


_TOO_LATE = (
    "A storage configuration cannot be made for a test that is already running. List `storage`, `guest`, `measure`, "
    "`measure_image`, `result` or `results` among the test's arguments instead of asking for it with "
    "getfixturevalue()."
)


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> StorageConfig:
    """The storage configuration of this test: its axes, `@pytest.mark.storage(...)` and defaults."""
    if REFUSAL in request.node.stash:
        # only under xdist: otherwise the run ended before
        raise pytest.fail.Exception(str(request.node.stash[REFUSAL]), pytrace=False)
    config = cell_of(request.node)
    if config is None:
        raise pytest.fail.Exception(_TOO_LATE, pytrace=False)
    return config


@pytest.fixture
def guest(request: pytest.FixtureRequest, storage: StorageConfig) -> Guest | HostEnvironment:
    """A running guest with this configuration's disk; tests of one configuration share it.

    So a fixture that builds on it needs no wider scope than a function's, and pytest refuses one (ScopeMismatch): what
    it prepared in the guest is there for the next test of the configuration too, unless the guest was made anew.

    With `backing="native"` it is the host itself, and with "machine:NAME" a machine that the plugin did not make: there
    is no guest then, and `guest.run` runs there.
    """
    there: Guest | HostEnvironment = request.config.stash[SESSION].guest(request.node, storage)
    return there


@pytest.fixture
def measure(request: pytest.FixtureRequest, storage: StorageConfig) -> Measure:
    """A function that runs a workload on the disk under test in rounds: `measure(Fio(...), rounds=5)`.

    The Measurement has all rounds, and what stands behind `measure` runs once. Rounds are taken in turns with those of
    other cells, so what stands before it runs twice: the function is entered once to learn the workload, and ends at
    `measure` then. With several calls it is entered once to learn each of them. A test that asks for `guest` may
    prepare it: it is entered again, up to `measure`, where the guest was made anew or a command changed it since.
    """
    from pytest_vmstorage.plugin.turns import pass_of

    session, at = request.config.stash[SESSION], pass_of(request.node)
    if "guest" in request.fixturenames:
        request.getfixturevalue("guest")
    elif session.keeps_guest and at.kind == "report":
        # where the test fails its guest is the one to keep, and not that of the last round
        session.environment(request.node, storage, settled=False)

    def run(workload: Workload, *, rounds: int | None = None, warmup: int = 1) -> Measurement:
        return session.measure(at, request.node, storage, workload, rounds, warmup)

    return run


@pytest.fixture
def results(request: pytest.FixtureRequest, storage: StorageConfig) -> Mapping[str, Measurement]:
    """The measurements of the workloads that the test declares by `@pytest.mark.workload`, by name or label."""
    from pytest_vmstorage.plugin.turns import pass_of

    return request.config.stash[SESSION].results(pass_of(request.node), request.node, storage)


@pytest.fixture
def result(results: Mapping[str, Measurement]) -> Measurement:
    """The measurement of the one workload that the test declares: `@pytest.mark.workload(Fio(...))`.

    All its rounds were taken, in turns with those of other cells, before the test began: it runs once.
    """
    (only,) = results.values()
    return only


@pytest.fixture
def measure_image(request: pytest.FixtureRequest, storage: StorageConfig) -> MeasureImage:
    """A function that times what is done to whole images, without a guest: `measure_image(ImageOperations())`."""
    from pytest_vmstorage.plugin.turns import pass_of

    session, at = request.config.stash[SESSION], pass_of(request.node)

    def run(workload: ImageOperations, *, rounds: int | None = None, warmup: int = 0) -> Measurement:
        return session.measure_image(at, request.node, storage, workload, rounds, warmup)

    return run


@pytest.fixture
def cells(request: pytest.FixtureRequest) -> Cells:
    """Assertions between cells that others measured: `cells.assert_ratio(cell("qcow2"), cell("raw"), at_least=0.9)`.

    A test that asks for it is run after all that measure.
    """
    from pytest_vmstorage.plugin.cell_assertions import make_cells

    return make_cells(request.node)


@pytest.fixture
def assert_ratio(cells: Cells) -> AssertRatio:
    """`cells.assert_ratio`, to be called by its own name."""
    return cells.assert_ratio


@pytest.fixture
def assert_fastest(cells: Cells) -> AssertFastest:
    """`cells.assert_fastest`, to be called by its own name."""
    return cells.assert_fastest


@pytest.fixture
def assert_monotonic(cells: Cells) -> AssertMonotonic:
    """`cells.assert_monotonic`, to be called by its own name."""
    return cells.assert_monotonic
