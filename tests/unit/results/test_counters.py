"""Bytes side by side: which layer served a round, and which figures cannot be."""

from __future__ import annotations

import pytest

from pytest_vmstorage.results.counters import (
    IoCounters,
    above_native,
    host_cache_share,
    impossible,
    read_block_stats,
    read_guest_stat,
    read_process_io,
    served_by,
    total,
    unflushed,
    write_amplification,
)

MIB = 2**20


def moved(guest: int, layer: int, host: int, *, write: bool = False) -> IoCounters:
    """A round that only read, or only wrote; MiB by layer."""
    what = "written" if write else "read"
    other = "read" if write else "written"
    counts = {"guest": guest, "layer": layer, "host": host}
    return IoCounters(
        **{f"{name}_{what}_bytes": count * MIB for name, count in counts.items()},
        **{f"{name}_{other}_bytes": 0 for name in counts},
        layer_flushes=0,
    )


def test_what_moved_is_the_difference_of_two_looks() -> None:
    """Where one look has nothing, the difference has nothing."""
    before = IoCounters(guest_read_bytes=5, layer_flushes=None, host_read_bytes=7)
    after = IoCounters(guest_read_bytes=9, layer_flushes=3, host_read_bytes=7)
    assert after.since(before) == IoCounters(guest_read_bytes=4, host_read_bytes=0)


def test_guest_counters_are_in_sectors_of_512_bytes() -> None:
    """The third and seventh word of the kernel's stat file."""
    text = "     103        0     4120      25       33        0    65536      90        0      120      115\n"
    assert read_guest_stat(text) == {
        "guest_read_bytes": 4120 * 512,
        "guest_written_bytes": 65536 * 512,
    }
    assert read_guest_stat("") == {}


def test_host_counters_are_those_that_reach_the_storage_layer() -> None:
    """read_bytes and write_bytes, not rchar and wchar, which the page cache answers."""
    text = "rchar: 999\nwchar: 888\nsyscr: 7\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n"
    assert read_process_io(text) == {"host_read_bytes": 4096, "host_written_bytes": 8192}
    assert read_process_io("rchar: 1\n") == {}


@pytest.mark.parametrize(
    ("host", "share", "sentence"),
    [
        (0, 1.0, "100% of reads came from the host's page cache"),
        (2, 0.98, "98% of reads came from the host's page cache"),
        (100, 0.0, "100% of reads came from the host's device"),
        # read-ahead: the device may read more than was asked for
        (130, 0.0, "100% of reads came from the host's device"),
    ],
)
def test_reads_are_told_by_the_layer_that_served_them(host: int, share: float, sentence: str) -> None:
    """What QEMU read and no device gave came from the host's page cache."""
    round_ = moved(100, 100, host)
    assert host_cache_share(round_) == pytest.approx(share)
    assert served_by(round_) == sentence


def test_writes_are_told_by_their_amplification() -> None:
    """A first write to vmdk costs the host nearly twice the guest's bytes (facts: 1.95)."""
    round_ = moved(64, 64, 125, write=True)
    assert write_amplification(round_) == pytest.approx(125 / 64)
    assert served_by(round_) == "the host wrote 1.95 bytes for each byte of the guest"


def test_nothing_is_said_of_a_round_too_small_to_tell() -> None:
    """A few blocks are within the counters' slack."""
    assert served_by(moved(1, 1, 0)) == ""
    assert served_by(IoCounters()) == ""


def test_a_tool_cannot_move_more_than_the_guests_disk() -> None:
    """With direct I/O; of a tool that goes through the guest's page cache nothing is asked."""
    round_ = moved(100, 100, 100)
    assert "the tool says it moved 200 MiB" in impossible(round_, 200 * MIB)
    assert impossible(round_, 103 * MIB) == ""
    assert impossible(round_, None) == ""


def test_a_guest_cannot_move_more_than_qemu() -> None:
    """What the guest's disk moved has passed QEMU's block layer."""
    assert "QEMU's block layer 10 MiB" in impossible(moved(100, 10, 100), None)


def test_layers_that_cannot_be_asked_speak_against_nothing() -> None:
    """No counters, no verdict."""
    assert impossible(IoCounters(), 10**9) == ""


def test_rounds_are_added_up() -> None:
    """By field; what one round lacks, all lack."""
    rounds = [IoCounters(guest_read_bytes=1, layer_flushes=2), IoCounters(guest_read_bytes=3)]
    assert total(rounds) == IoCounters(guest_read_bytes=4)
    assert total([]) == IoCounters(**dict.fromkeys(IoCounters.model_fields, 0))


def test_block_layer_counters_are_those_of_query_blockstats() -> None:
    """By QMP's names."""
    stats = {"rd_bytes": 1, "wr_bytes": 2, "flush_operations": 3, "rd_operations": 9, "wr_operations": 8, "idle": 7}
    assert read_block_stats(stats) == {
        "layer_read_bytes": 1,
        "layer_written_bytes": 2,
        "layer_flushes": 3,
        "layer_reads": 9,
        "layer_writes": 8,
    }


FLUSHED = {"layer_written_bytes": MIB, "layer_flushes": 3}


@pytest.mark.parametrize(
    ("cache", "flushes", "sentence"),
    [
        ("none", 0, "the guest asked for 3 flushes, which cache=none promises to hand on"),
        ("writeback", 0, "the guest asked for 3 flushes, which cache=writeback promises to hand on"),
        ("writethrough", 0, "cache=writethrough promises to flush what is written"),
        ("directsync", 0, "cache=directsync promises to flush what is written"),
        ("unsafe", 0, ""),
        ("none", 1, ""),
        ("directsync", 1, ""),
        ("writethrough", None, ""),
    ],
)
def test_a_promised_flush_must_reach_the_device(cache: str, flushes: int | None, sentence: str) -> None:
    """Not one in the whole round is one too few; where the device counts none, nothing is said."""
    reason = unflushed(IoCounters(**FLUSHED, host_flushes=flushes), cache)
    assert reason.startswith(sentence)
    assert bool(reason) is bool(sentence)


def test_who_asked_for_no_flush_is_promised_none() -> None:
    """Reads flush nothing, and writeback writes wait for the guest to ask."""
    assert unflushed(IoCounters(layer_written_bytes=MIB, layer_flushes=0, host_flushes=0), "writeback") == ""
    assert unflushed(IoCounters(layer_written_bytes=0, layer_flushes=0, host_flushes=0), "directsync") == ""


def test_a_rate_above_the_native_row_needs_a_cache_to_explain_it() -> None:
    """Three times the device's rate from the device itself cannot be; with two thirds from the page cache it can."""
    assert above_native(3000, 1000, moved(100, 100, 100), "none").startswith("it is 3.00 times the native row")
    assert above_native(3000, 1000, moved(100, 100, 30), "none") == ""
    assert above_native(1200, 1000, moved(100, 100, 100), "none") == ""
    assert above_native(3000, 1000, moved(100, 100, 100, write=True), "none")
    assert above_native(3000, 1000, IoCounters(), "none") == ""


@pytest.mark.parametrize("cache", ["writeback", "unsafe"])
def test_writes_that_wait_in_the_hosts_page_cache_have_not_reached_the_device(cache: str) -> None:
    """QEMU is charged with them at once, whenever the device gets them: its own count says how many did."""
    written = moved(100, 100, 100, write=True)
    assert above_native(3000, 1000, written, cache) == ""
    assert above_native(3000, 1000, written.model_copy(update={"device_written_bytes": 30 * MIB}), cache) == ""
    reached = written.model_copy(update={"device_written_bytes": 400 * MIB})
    assert "and 100% of its bytes reached that device" in above_native(3000, 1000, reached, cache)
    assert "100% of its bytes" in above_native(3000, 1000, moved(100, 100, 100), cache)
    assert above_native(3000, 1000, written, "writethrough")
