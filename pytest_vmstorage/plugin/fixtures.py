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
    """The storage configuration of this test: its axes, `@pytest.mark.storage(...)`, and defaults for the rest.
    Example: `def test_it(storage): assert storage.format in ("raw", "qcow2")`
    """
    if REFUSAL in request.node.stash:
        # only under xdist: otherwise the run ended before
        raise pytest.fail.Exception(str(request.node.stash[REFUSAL]), pytrace=False)
    config = cell_of(request.node)
    if config is None:
        from pytest_vmstorage.errors import signed

        raise pytest.fail.Exception(signed(_TOO_LATE, "VM264"), pytrace=False)
    return config


@pytest.fixture
def guest(request: pytest.FixtureRequest, storage: StorageConfig) -> Guest | HostEnvironment:
    """A running guest with this configuration's disk; the tests of one configuration share it.
    Example: `def test_it(guest): assert guest.run("mkdir -p /mnt/data").ok`

    A fixture that builds on it needs no wider scope than a function's, and pytest refuses one (ScopeMismatch): what it
    prepared in the guest is there for the next test of the configuration too, unless the guest was made anew.

    With `backing="native"` it is the host itself, and with "machine:NAME" a machine that the plugin did not make: there
    is no guest then, and `guest.run` runs there.
    """
    there: Guest | HostEnvironment = request.config.stash[SESSION].guest(request.node, storage)
    return there


@pytest.fixture
def measure(request: pytest.FixtureRequest, storage: StorageConfig) -> Measure:
    """A function that measures a workload on the disk under test, in rounds.
    Example: `def test_it(measure): assert measure(Fio(rw="randread", bs="4k", runtime=5)).iops > 500`

    Its Measurement has all rounds, which are taken in turns with those of other cells. What of the test runs how often:

    - Rounds run without the function, each once.
    - What stands behind the last `measure` runs once, with all rounds: assertions, subtests, `record_property`.
    - What stands before it runs twice, with its fixtures: the function is entered to learn the workload, and ends at
      `measure`; then it is entered to its end. With several calls it is entered once to learn each.
    - A test that fails or skips before it measures has run, and is reported there and then.
    - A test with `guest` is entered again, up to `measure`, where its guest was made anew or a command changed it.
    - Fixtures of wider scope are set up once more at most.
    - Where rounds are taken in a row (one round, one cell, `--pdb`, `--vm-without=turns`) all of it runs once.
    - A test that declares its workload by `@pytest.mark.workload` runs once.
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
    """The measurements of the workloads that the test declares by `@pytest.mark.workload`, by name or label.
    Example: `@pytest.mark.workload({"reads": Fio(rw="randread"), "writes": Fio(rw="randwrite")})`
    `def test_it(results): assert results["reads"].iops > results["writes"].iops / 10`
    """
    from pytest_vmstorage.plugin.turns import pass_of

    return request.config.stash[SESSION].results(pass_of(request.node), request.node, storage)


@pytest.fixture
def result(results: Mapping[str, Measurement]) -> Measurement:
    """The measurement of the one workload that the test declares by `@pytest.mark.workload`.
    Example: `@pytest.mark.workload(Fio(rw="randread", bs="4k", runtime=5))`
    `def test_it(result): assert result.iops > 500`

    All its rounds were taken, in turns with those of other cells, before the test began: it runs once.
    """
    (only,) = results.values()
    return only


@pytest.fixture
def measure_image(request: pytest.FixtureRequest, storage: StorageConfig) -> MeasureImage:
    """A function that measures what qemu-img does to whole images, in rounds and without a guest.
    Example: `def test_it(measure_image): assert measure_image(ImageOperations(data="64M")).create < 10`
    """
    from pytest_vmstorage.plugin.turns import pass_of

    session, at = request.config.stash[SESSION], pass_of(request.node)

    def run(workload: ImageOperations, *, rounds: int | None = None, warmup: int = 0) -> Measurement:
        return session.measure_image(at, request.node, storage, workload, rounds, warmup)

    return run


@pytest.fixture
def cells(request: pytest.FixtureRequest) -> Cells:
    """Assertions between cells that other tests measured; a test that asks for them runs after those.
    Example: `def test_it(cells): cells.assert_ratio(cell("qcow2"), cell("raw"), at_least=0.9)`
    """
    from pytest_vmstorage.plugin.cell_assertions import make_cells

    return make_cells(request.node)


@pytest.fixture
def assert_ratio(cells: Cells) -> AssertRatio:
    """Asserts how many times as fast one cell is as another, once both are measured.
    Example: `def test_it(assert_ratio): assert_ratio(cell("qcow2"), cell("raw"), at_least=0.9)`
    """
    return cells.assert_ratio


@pytest.fixture
def assert_fastest(cells: Cells) -> AssertFastest:
    """Asserts that no other cell is faster than the one that is named, once all are measured.
    Example: `def test_it(assert_fastest): assert_fastest(cell("raw"), tolerance=0.05)`
    """
    return cells.assert_fastest


@pytest.fixture
def assert_monotonic(cells: Cells) -> AssertMonotonic:
    """Asserts that figures rise along an axis, or with `falling=True` fall, once all are measured.
    Example: `def test_it(assert_monotonic): assert_monotonic("queues", tolerance=0.05)`
    """
    return cells.assert_monotonic
