"""raw, qcow2 and zvol on ZFS, as a French study of 2017 had them: SQLite, web pages, threaded I/O, AIO-Stress.

Its host: Proxmox VE 4.4 on ZFS with default settings; it states neither cache mode nor bus, nor the guest's size. Its
tests were Phoronix'; here the same work is done by tools of Debian, and `Sqlite`, `Web`, `Tiobench` and `AioStress` say
what differs. What it found and you may not: qcow2 fastest in SQLite, which is asserted here, and a zvol slowest; web
pages alike everywhere; random writes with O_SYNC at half a MB/s; and of qcow2 no valid result in three tests, one of
which froze the guest. A guest that stops answering, or a test past its time, is here a failure of its row under that
name.

Images lie in the folder of the run: name one on ZFS. ZFS before 0.8 has no O_DIRECT for files, which cache=none needs:
CACHE=writeback. Which file system it was, the report says of the host.

    pytest examples/studies/test_zfs_formats.py                   # quick, on whatever is below the folder; no zvol
    ROUNDS=7 pytest examples/studies/test_zfs_formats.py          # as often as the assertion takes
    STUDY=published DATASET=tank pytest --vm-dir=/tank/images examples/studies/test_zfs_formats.py    # a day

DATASET is the name of a dataset in vmstorage.toml; zvols are made below it.
"""

import os

import pytest
from presets import Preset, choose, rounds, swept

from pytest_vmstorage import AioStress, Sqlite, Tiobench, Web, cell

PRESET = choose(
    quick=Preset(disk="256M", small="1M", large="64M"),
    published=Preset(disk="16G", small="64M", large="2G"),
)
IS_QUICK = PRESET.disk != "16G"
DATASET = os.environ.get("DATASET")
NO_ZVOL = pytest.mark.skip(reason="needs ZFS: list a dataset in vmstorage.toml, and name it with DATASET")


def cells():
    """The three formats as parametrize has them; without a dataset the zvol is a skip that says so."""
    for format_ in ("raw", "qcow2"):
        yield pytest.param(marks=pytest.mark.storage(format=format_), id=format_)
    zvol = pytest.mark.storage(backing=f"zvol:{DATASET}" if DATASET else "zvol")
    yield pytest.param(marks=[zvol] if DATASET else [zvol, NO_ZVOL], id="zvol")


sweep = swept(
    [
        pytest.mark.parametrize((), list(cells())),
        pytest.mark.storage(
            cache=os.environ.get("CACHE", "none"),
            guest_fs="ext4",
            size=PRESET.disk,
            # tiobench reads 2 GB that it has just written, and the study's figures are those of memory
            memory="512M" if IS_QUICK else "4G",
        ),
    ]
)


@sweep
def test_sqlite(measure):
    measure(Sqlite(insertions=200) if IS_QUICK else Sqlite.published(), rounds=rounds(1 if IS_QUICK else 3), warmup=0)


@sweep
def test_web(measure):
    measure(Web(pages=1, connections=100, duration=2) if IS_QUICK else Web.published(), rounds=rounds(1), warmup=0)


@sweep
@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_threaded_io(measure, rw):
    fewer = {"io_size": "256k"} if IS_QUICK else {}
    measure(Tiobench(rw=rw, size=PRESET.small, **fewer), rounds=rounds(1 if IS_QUICK else 3), warmup=0)


@sweep
@pytest.mark.parametrize("direct", [False, True], ids=["buffered", "direct"])
def test_aio_stress(measure, direct):
    measure(AioStress(size=PRESET.large, direct=direct), rounds=rounds(1 if IS_QUICK else 3), warmup=0)


def test_qcow2_is_fastest_in_sqlite(assert_fastest):
    assert_fastest(cell("qcow2"), workload="sqlite*")
