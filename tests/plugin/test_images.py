"""The fixture measure_image: rows without a guest in report, journal, pytest-benchmark, plan and gate."""

from __future__ import annotations

import json

import pytest
from projects import assert_refused, flat, journal_samples, text_of

from pytest_vmstorage.results.packed import unpacked

IMAGES = """
import pytest
from pytest_vmstorage import Fio, ImageOperations
WORK = ImageOperations(data="16M")

@pytest.mark.parametrize("format", ["raw", "qcow2"])
def test_image(measure_image):
    assert measure_image(WORK).create < 1
"""


@pytest.fixture
def images(project):
    """A project with one test of images in two cells."""
    project.write(test_it=IMAGES)
    return project


def test_no_guest_is_made(images):
    """The matrix has times and room, what is left out and why; the samples lie in the journal."""
    result = images.run("--vm-report=m.json")
    result.assert_outcomes(passed=2)
    assert images.events == ["open", "images raw-none-virtio-blk-off", "images qcow2-none-virtio-blk-off", "close"]
    said = flat(result)
    assert "snapshot ms ↓ left out 500 ±0" in said
    assert "snapshot, rollback of raw-none-virtio-blk-off: raw has no internal snapshots" in said
    run = json.loads((images.path / "m.json").read_text())
    assert [len(one["samples"]) for one in run["measurements"]] == [3, 3]
    (journal,) = (images.path / ".vmstorage").glob("*.jsonl")
    assert [line["workload"] for line in journal_samples(journal)] == ["image operations 16M"] * 6


def test_pytest_benchmark_and_a_baseline_take_the_rows(images):
    """All operations together are the time; a worse one is a suspect, which nothing confirms, and so fails."""
    images.run("--benchmark-save=main").assert_outcomes(passed=2)
    (saved,) = (images.path / ".benchmarks").rglob("*.json")
    rows = json.loads(saved.read_text())["benchmarks"]
    assert [row["stats"]["median"] for row in rows] == [2.5, 4.0]
    assert "time = s" in rows[0]["group"]
    judged = ("--vm-baseline=main", "--vm-max-regression=10%", "--vm-day-spread=3%")
    images.run(*judged).assert_outcomes(passed=2)
    document = json.loads(saved.read_text())
    block = unpacked(document["vmstorage"])
    for one in block["measurements"]:
        for sample in one["samples"]:
            sample["figures"]["seconds"] = 1.0
    saved.write_text(json.dumps({**document, "vmstorage": block}))
    worse = images.run(*judged, "-rs")
    worse.assert_outcomes(failed=2)
    said = "seconds of image operations 16M on qcow2-none-virtio-blk-off 1G is SUSPECT against baseline 'main'"
    assert f"{said}: 1 saved day, +300 % time per operation" in flat(worse)


def test_under_xdist(images):
    """Figures come from the workers."""
    result = images.run("-n1")
    result.assert_outcomes(passed=2)
    assert "snapshot ms ↓ left out 500 ±0" in flat(result)


def test_the_plan_counts_no_guest(images):
    """But room for the images."""
    said = text_of(images.run("--vm-plan"))
    assert "2 cells, 0 guests, 2 tests" in said
    assert "largest disk 1 GiB" in said
    assert "s a guest assumed" not in said


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        (
            'backing="native"',
            "test_x: native-off cannot be measured with measure_image: backing=native has no",
        ),
        ('backing="device"', "cannot be measured with measure_image: backing=device has no image to create"),
        ('backing="partition"', "Measure image operations with backing file, lvm or zvol."),
        ('format="qcow2", snapshots=1', "these operations make their own"),
        ('format="qcow2", backing="lvm"', "the volume itself is created, cloned"),
    ],
)
def test_a_cell_without_images_is_refused(project, cell, sentence):
    """As a usage error, before anything is made."""
    project.write(test_it=f"import pytest\n@pytest.mark.storage({cell})\ndef test_x(measure_image): ...\n")
    assert_refused(project.run(), sentence)
    assert project.events == []


def test_fixtures_and_workloads_belong_together(project):
    """Each refuses the other's, with the name of the right one."""
    project.write(
        test_it=IMAGES + "def test_a(measure): measure(WORK)\n"
        'def test_b(measure_image): measure_image(Fio(rw="read", bs="4k", size="1M"))\n'
        'def test_c(measure_image): measure_image(ImageOperations(data="2G"))\n'
        "def test_d(measure_image): measure_image(WORK, rounds=0)\n"
    )
    result = project.run("-k", "not test_image")
    result.assert_outcomes(failed=4)
    said = flat(result)
    assert "measure cannot run image operations 16M. Run it with measure_image." in said
    assert "measure_image cannot run fio read 4k" in said
    assert "Run it with measure." in said
    assert "image operations 2G writes 2G, but the image has 1G." in said
    assert "measure_image(rounds=0): rounds must be 1 or more." in said


def test_a_failure_stands_in_its_row(images):
    """One cell's error is in the matrix; the other is measured."""
    images.wish(full="raw*")
    result = images.run()
    result.assert_outcomes(failed=1, passed=1)
    assert "The fake host has no room for raw-none-virtio-blk-off." in flat(result)
    assert "Traceback" not in text_of(result)
    assert "emulation" not in text_of(result)


def test_guest_and_images_of_one_cell(project):
    """The guest stays for the tests that come after."""
    project.write(
        test_it=IMAGES.replace('@pytest.mark.parametrize("format", ["raw", "qcow2"])', "")
        + "def test_guest(guest): ...\n"
    )
    project.run().assert_outcomes(passed=2)
    assert project.events == [
        "open",
        "images raw-none-virtio-blk-off",
        "guest raw-none-virtio-blk-off",
        "discard raw-none-virtio-blk-off",
        "close",
    ]
