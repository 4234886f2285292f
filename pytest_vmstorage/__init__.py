"""A VM storage configuration as a test parameter.

What tests import from here:

- workloads: `Fio`, `Dd` and the others of `workloads/`, `Workload` to write one's own, and the `Target` that it runs on
- values: `StorageConfig`, `Measurement`, `Figure`, `Metric`, `Run`
- `cell("qcow2")`, which names cells for assertions between them, and the `CellSelector` that it makes
- types of fixtures, for annotations: `Measure`, `MeasureImage`, `Guest`, `HostEnvironment`, `Cells`, `AssertRatio`,
  `AssertFastest`, `AssertMonotonic`
- errors: `VmStorageError` and its leaves in `pytest_vmstorage.errors`

Names are loaded when first used, by `names`: the plugin is imported in every pytest run of everybody who installed it,
and pytest parses this file in each of them where bytecode cannot be kept. It finds no assertion here:
PYTEST_DONT_REWRITE
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pytest_vmstorage.names import *  # noqa: F403
else:  # a type checker would take any name for one that is loaded

    def __getattr__(name: str) -> object:
        import pytest_vmstorage.names

        return getattr(pytest_vmstorage.names, name)


def __dir__() -> list[str]:
    import pytest_vmstorage.names

    return sorted({*globals(), *pytest_vmstorage.names.HOMES})
