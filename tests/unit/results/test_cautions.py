"""What speaks against a figure: the host's state, and caches that can hold what is worked on."""

from __future__ import annotations

import pytest

from pytest_vmstorage.config.buses import Cache
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.results.cautions import CACHED, Caution, WorkingSet, host_cautions, others_io
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.host import HostState

MIB, GIB = 2**20, 2**30
ALONE = IoCounters(device_read_bytes=0, device_written_bytes=105 * MIB, host_read_bytes=0, host_written_bytes=100 * MIB)
BESIDE_OTHERS = ALONE.model_copy(update={"device_written_bytes": 200 * MIB})


def cautions(
    state: HostState | None = None, *pressed: dict[str, float], moved: IoCounters = ALONE
) -> list[tuple[str, float | None]]:
    """What is said of that host, shares rounded."""
    found = host_cautions(state or HostState(), pressed, moved)
    return [(one.says, None if one.share is None else round(one.share, 3)) for one in found]


def test_an_unknown_host_is_not_spoken_against() -> None:
    """What is hidden is shown as unknown, and neither good nor bad."""
    assert cautions() == []
    assert cautions(HostState(governor="performance"), {"cpu": 0.1, "io": 0.9}) == []


def test_a_governor_that_saves_power_is_named() -> None:
    """One CPU of many is enough."""
    (said,) = cautions(HostState(governor="performance/powersave"))
    assert said == ("the CPU governor was performance/powersave, not performance", None)


def test_waiting_for_a_cpu_speaks_against_it() -> None:
    """The mean of all rounds, if all are known."""
    ((says, share),) = cautions(None, {"cpu": 0.1, "io": 0.9}, {"cpu": 0.3, "io": 0.9})
    assert (says, share) == ("tasks of the host waited for a CPU for more than 10% of the rounds", 0.2)
    assert cautions(None, {"cpu": 0.9}, {}) == []


def test_waiting_for_io_speaks_against_it_where_others_used_the_device() -> None:
    """A storage workload alone makes tasks wait: that is what is measured."""
    assert cautions(None, {"cpu": 0.0, "io": 0.9}) == []
    ((says, share),) = cautions(None, {"cpu": 0.0, "io": 0.9}, moved=BESIDE_OTHERS)
    assert (says, share) == ("tasks of the host waited for I/O, and others moved a part of its device's bytes", 0.5)
    assert cautions(None, {"cpu": 0.0, "io": 0.1}, moved=BESIDE_OTHERS) == []


def test_others_at_the_device_are_what_qemu_did_not_move() -> None:
    """A little is the file system's log, and what no device tells is unknown."""
    assert others_io(ALONE.model_copy(update={"device_written_bytes": 103 * MIB})) is None
    assert others_io(ALONE.model_copy(update={"device_written_bytes": 50 * MIB})) is None
    assert others_io(IoCounters(host_read_bytes=0, host_written_bytes=0)) is None
    assert others_io(ALONE) == pytest.approx(5 / 105)


def test_other_guests_at_work_speak_against_it() -> None:
    """Those that are paused or idle do not."""
    assert cautions(HostState(others=3, others_cpu=0.05)) == []
    ((says, share),) = cautions(HostState(others=3, others_cpu=1.5))
    assert (says, share) == ("other QEMU processes were at work on the host, in fractions of one CPU", 1.5)


@pytest.mark.parametrize(
    ("cache", "held"),
    [
        ("none", ()),
        ("directsync", ()),
        ("writeback", ("the host's page cache",)),
        ("writethrough", ("the host's page cache",)),
        ("unsafe", ("the host's page cache",)),
    ],
)
def test_the_hosts_page_cache_lies_in_the_way_of_some_modes(cache: Cache, held: tuple[str, ...]) -> None:
    """What is direct in the guest is not direct on the host."""
    direct = WorkingSet(label="fio", size_bytes=GIB, is_direct=True)
    assert direct.holders(StorageConfig(cache=cache, size="8G"), GIB) == held
    assert direct.holders(StorageConfig(cache=cache, size="8G"), GIB - 1) == ()


def test_the_guests_memory_lies_in_the_way_of_buffered_tools() -> None:
    """Up to its size."""
    config = StorageConfig(memory="512M", size="8G")
    buffered = WorkingSet(label="dd", size_bytes=512 * MIB, is_direct=False)
    assert buffered.holders(config, GIB) == ("the guest's memory",)
    assert buffered.model_copy(update={"size_bytes": 513 * MIB}).holders(config, GIB) == ()


def test_a_native_row_has_the_hosts_page_cache_alone() -> None:
    """And only where its tool is buffered."""
    config = StorageConfig(backing="native", size="8G")
    buffered = WorkingSet(label="dd", size_bytes=MIB, is_direct=False)
    assert buffered.holders(config, GIB) == ("the host's page cache",)
    assert buffered.model_copy(update={"is_direct": True}).holders(config, GIB) == ()


def test_direct_io_does_not_go_past_zfs_cache() -> None:
    """With a guest or without; a volume whose primarycache keeps no data has none."""
    on_zvol = WorkingSet(label="fio", size_bytes=MIB, is_direct=True, through_arc=True)
    for backing in ("zvol:tank", "native:tank"):
        config = StorageConfig(backing=backing, size="8G")
        assert on_zvol.holders(config, GIB) == ("ZFS's cache (ARC) on the host",)
        assert on_zvol.model_copy(update={"size_bytes": 2 * GIB}).holders(config, GIB) == ()
        assert on_zvol.model_copy(update={"through_arc": False}).holders(config, GIB) == ()


def test_files_of_a_tools_own_are_no_more_than_the_disk() -> None:
    """How much they are is the tool's to know; the disk's size is the most."""
    files = WorkingSet(label="tar", size_bytes=None, is_direct=False)
    small, large = StorageConfig(memory="512M", size="512M"), StorageConfig(memory="512M", size="8G")
    assert list(files.cautions(small, GIB)) == [
        Caution(
            says="the guest's memory lies in the way and can hold the whole disk that tar works on",
            brief="the guest's memory can hold all data",
            remedy="size= above 512 MiB, direct I/O",
            weight=CACHED,
        )
    ]
    assert list(files.cautions(large, GIB)) == []
    assert files.note(large, GIB) == "unknown"


def test_the_row_says_what_it_worked_on() -> None:
    """Size and caches; a host that hides its memory is said to."""
    direct = WorkingSet(label="fio", size_bytes=32 * MIB, is_direct=True)
    config = StorageConfig(cache="writeback")
    assert direct.note(StorageConfig(), GIB) == "32M"
    assert direct.note(config, GIB) == "32M, which the host's page cache can hold"
    assert direct.note(config, None) == "32M, and the host's memory is unknown"
    assert list(direct.cautions(config, None)) == []
