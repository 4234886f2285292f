"""Rounds of image operations on a fake host: order, what is timed, what is INVALID, and that nothing is left."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import AttestationError, WorkloadError
from pytest_vmstorage.measure.image_operations import measure_images
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.run import Measurement, Run, Sample
from pytest_vmstorage.results.saved import Baseline
from pytest_vmstorage.testing.builders import make_host, make_run
from pytest_vmstorage.testing.image_operations import ImageHost, make_bench
from pytest_vmstorage.workloads.image_operations import OPERATIONS, ImageOperations

RAW, QCOW2 = StorageConfig(), StorageConfig(format="qcow2")
NO_SNAPSHOT = "raw has no internal snapshots, which only qcow2 has, and ext4 shares no blocks between files"


def run(
    config: StorageConfig = QCOW2, *, rounds: int = 1, warmup: int = 0, shares_blocks: bool = False, **options: object
) -> tuple[Measurement, ImageHost]:
    """A measurement on fakes, and the host that it was made on."""
    workload = ImageOperations(**options)
    bench, host = make_bench(config, workload, shares_blocks=shares_blocks)
    return measure_images(bench, workload, Plan(rounds=rounds, warmup=warmup)), host


def broken(*, idle: str = "", **failing: str) -> tuple[WorkloadError, ImageHost]:
    """The error of a round in which an operation does nothing, or fails."""
    workload = ImageOperations()
    bench, host = make_bench(QCOW2, workload)
    host.idle, host.failing = {idle}, failing
    with pytest.raises(WorkloadError) as caught:
        measure_images(bench, workload, Plan(rounds=1))
    return caught.value, host


def test_a_round_goes_through_all_operations() -> None:
    """In their order, each with time and room; the caches are dropped before each of them."""
    measured, host = run(rounds=2)
    assert host.done == [*OPERATIONS, *OPERATIONS]
    assert len([line for line in host.shell.lines if "drop_caches" in line]) == 16
    assert measured.values("snapshot") == (0.5, 0.5)
    assert measured.seconds == 4.0
    assert (measured.create_before, measured.create_after, measured.create_taken) == (0, 4096, 4096)
    assert measured.shown[:2] == ("create", "create_taken")
    assert measured.samples[0].seconds == pytest.approx(8 * 0.6)


def test_a_measurement_says_all_of_itself() -> None:
    """Lines, who did what, caches, the proof of the image, and that there was no guest."""
    measured, _ = run(operations=["create", "snapshot"])
    assert measured.command.startswith("qemu-img create -q -f qcow2 ")
    assert "; qemu-img snapshot -q -c s1 " in measured.command
    assert measured.hygiene == {
        "warm-up rounds": "0",
        "host caches": "dropped before each operation",
        "data before the snapshot": "64M",
        "create": "by qemu-img create",
        "snapshot": "by qemu-img snapshot -c",
    }
    assert measured.on_host
    assert {proof.field for proof in measured.proof} >= {"format", "size", "preallocation", "backing"}
    assert not {proof.field for proof in measured.proof} & {"cache", "bus", "vcpus", "state"}
    assert "part snapshot 100.0 100.5" in measured.raw[0]
    assert Measurement.model_validate_json(measured.model_dump_json()) == measured


def test_what_is_needed_and_not_chosen_is_not_timed() -> None:
    """A rollback needs a snapshot, all need an image, and all of it is removed."""
    measured, host = run(operations=["rollback"])
    assert host.done == ["create", "snapshot", "rollback", "delete"]
    assert {metric.name for metric in measured.metrics} == {"seconds", "rollback", "rollback_before", "rollback_after"}
    assert run(operations=["create"])[1].done == ["create", "delete"]


def test_samples_are_handed_on_as_they_end() -> None:
    """Warm-up rounds are not."""
    workload, kept = ImageOperations(operations="create"), list[Sample]()
    bench, host = make_bench(QCOW2, workload)
    measured = measure_images(bench, workload, Plan(rounds=2, warmup=1), keep_sample=kept.append)
    assert tuple(kept) == measured.samples
    assert host.done == ["create", "delete"] * 3


def test_what_cannot_be_is_left_out_with_its_reason() -> None:
    """No figure, no zero: asking for it says why."""
    measured, host = run(RAW)
    assert host.done == ["create", "preallocate", "convert", "resize", "delete"]
    with pytest.raises(AttributeError, match=f"image operations 64M has no snapshot of {RAW}: {NO_SNAPSHOT}"):
        _ = measured.snapshot
    assert {one.metric.name for one in measured.left_out} >= {"snapshot", "rollback_after", "clone_taken"}
    shared, host = run(RAW, shares_blocks=True)
    assert host.done == [*OPERATIONS]
    assert shared.hygiene["clone"] == "by cp --reflink=always"


def test_nothing_that_can_be_is_an_error() -> None:
    """With the reasons."""
    with pytest.raises(WorkloadError, match=f"has nothing to time: {NO_SNAPSHOT}"):
        run(RAW, operations=["snapshot", "rollback"])


@pytest.mark.parametrize(
    ("idle", "sentence"),
    [
        ("rollback", "rollback, .* is INVALID: the data of before the snapshot did not come back"),
        ("snapshot", "snapshot, .* is INVALID: the image could not be written anew after it"),
        ("resize", "resize, .* is INVALID: the image still has 1G"),
    ],
)
def test_an_operation_that_did_nothing_is_no_figure(idle: str, sentence: str) -> None:
    """Its tool's exit status alone proves nothing; the image is removed all the same."""
    error, host = broken(idle=idle)
    assert re.search(sentence, error.what), error.what
    assert "mindepth 1 -delete" in host.shell.lines[-1]


def test_a_tool_that_fails_is_told_with_its_words() -> None:
    """A full host by its name; nothing more is done, and what there is goes."""
    error, host = broken(convert="qemu-img: error while writing at byte 0: No space left on device")
    assert error.what == "no space on the host: convert of image operations 64M failed with exit status 1."
    assert "error while writing" in error.output
    assert host.done[-1] == "convert"
    assert "mindepth 1 -delete" in host.shell.lines[-1]


def test_an_image_that_is_not_its_cells_is_an_error() -> None:
    """As for a guest's disk: full preallocation that took no room."""
    workload = ImageOperations()
    bench, host = make_bench(StorageConfig(preallocation="full"), workload)
    host.shell.answer(bench_stat(), "1073741824 8 512\n")
    with pytest.raises(AttestationError, match=r"preallocation of raw-.* was asked to be full but is off"):
        measure_images(bench, workload, Plan(rounds=1))


def bench_stat() -> tuple[str, ...]:
    """How the image's blocks are asked for."""
    return ("stat", "-c", "%s %b %B", "--", "/srv/vm/images-1/image.raw")


def test_rows_stand_in_one_table() -> None:
    """What a row cannot do is said in its cell and below; no guest, no word about emulation."""
    rows = [run(config)[0].model_copy(update={"nodeid": f"t.py::test_i[{config.format}]"}) for config in (RAW, QCOW2)]
    host = make_host("local", accel="tcg")
    table = build_table(make_run(*rows, hosts=[host]))
    head = [column.metric.name for column in table.columns if column.metric]
    assert head == [name for one in OPERATIONS for name in (one, f"{one}_taken")][:4] + head[4:]
    cells = dict(zip(head, table.rows[0].cells, strict=True))
    assert cells["snapshot"].text == f"left out: {NO_SNAPSHOT}"
    assert cells["create_taken"].figure == "4 KiB"
    assert table.rows[0].axes == ("raw",)
    sections = {section.title: section.lines for section in table.sections}
    assert sections["left out"][0] == f"snapshot, rollback of {RAW}: {NO_SNAPSHOT}"
    assert not any("emulation" in line for line in sections["host local"])
    assert "guest" not in sections
    text = render_csv(make_run(*rows, hosts=[host]))
    assert f"left out: {NO_SNAPSHOT.partition(',')[0]}" in text
    assert ",native,raw," in text


def test_bytes_are_judged_and_none_is_no_fault() -> None:
    """A clone that takes nothing is a figure, where a rate of nothing is none."""
    measured, _ = run(operations=["delete"])
    run_ = Run.model_validate(json.loads(make_run(measured).model_dump_json()))
    baseline = Baseline(name="b", path=Path("b.json"), run=run_)
    shown = measured.model_copy(update={"shown": ("delete", "delete_after")})
    nothing = compare(make_run(shown), baseline, GatePolicy()).verdicts[-1]
    assert (nothing.kind, nothing.change) == (Kind.SHOWN, None)
    assert nothing.reason.endswith("a change from 0 has no percentage.")
    # no guest took part, so what guests run under makes no difference
    slow = make_run(measured, hosts=[make_host("local", accel="tcg")])
    assert compare(slow, baseline, GatePolicy()).verdicts[0].change == 0
