"""The test file that a request stands for, as text; that it runs alike is held with the plugin."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from pytest_vmstorage.cli.run.request import read_request
from pytest_vmstorage.cli.run.template import _WIDTH, _literal, render_test_file
from pytest_vmstorage.plugin import text_module

FIO = ("--fio", "rw=randwrite bs=4k iodepth=32 size=256M runtime=5")
HEAD = '"""Written by `vmstorage run`; as test_vmstorage.py it has the node ids of its runs."""\n\n'

ONE = """\
import pytest
from pytest_vmstorage import Fio


@pytest.mark.parametrize("format", ["raw", "qcow2"])
@pytest.mark.parametrize("cache", ["none", "writeback"])
@pytest.mark.workload(Fio(rw="randwrite", bs="4k", iodepth=32, size="256M", runtime=5))
def test_fio_randwrite_4k_qd32(result):
    pass
"""

BARE = """\
from pytest_vmstorage import ImageOperations


def test_image_operations_128M(measure_image):
    measure_image(ImageOperations(data="128M"))
"""

SEVERAL = """\
import pytest
from pytest_vmstorage import Dd, Fio

pytestmark = [
    pytest.mark.parametrize("iothread", [True, False]),
    pytest.mark.storage(guest_fs="ext4", guest_mkfs='-L "a b"', size="2G"),
]


@pytest.mark.workload(
    Fio(
        rw="randwrite",
        bs="4k",
        iodepth=32,
        size="256M",
        runtime=5,
        numjobs=2,
        norandommap=False,
    ),
    at_least={"iops": 500},
    at_most={"clat_p99": 0.005},
)
def test_fio_randwrite_4k_qd32_x2(result):
    pass


@pytest.mark.workload(Dd(bs="1M", oflag="direct"))
def test_dd_write_1M_direct(result):
    pass
"""

ROWS = """\
import pytest
from pytest_vmstorage import Fio


@pytest.mark.parametrize(
    ("format", "preallocation", "queues"),
    [
        pytest.param("raw", "off", 4, id="raw-off-queues=4"),
        pytest.param("qcow2", "off", 4, id="qcow2-off-queues=4"),
        pytest.param("qcow2", "metadata", 4, id="qcow2-metadata-queues=4"),
    ],
)
@pytest.mark.workload(Fio(rw="read"))
def test_fio_read_4k_qd1(result):
    pass
"""

LEFT = """\
import pytest
from pytest_vmstorage import Fio


@pytest.mark.parametrize("preallocation", ["off", "full"])
@pytest.mark.workload(Fio(rw="read"))
def test_fio_read_4k_qd1(result):
    pass
"""

READ = ("--fio", "rw=read")
FILES: list[tuple[dict[str, Any], str]] = [
    ({"axes": ["format=raw,qcow2", "cache=none,writeback"], "workloads": [FIO]}, ONE),
    ({"workloads": [("--image-operations", "data=128M")]}, BARE),
    (
        {
            "axes": ["iothread=yes,no"],
            "storage": ["size=2G", "guest_fs=ext4", 'guest_mkfs=-L "a b"'],
            "workloads": [(FIO[0], f"{FIO[1]} numjobs=2 norandommap=0"), ("--dd", "bs=1M oflag=direct")],
            "at_least": ["iops=500"],
            "at_most": ["clat_p99=5ms"],
        },
        SEVERAL,
    ),
    (
        {
            "axes": ["format=raw,qcow2", "preallocation=off,metadata", "queues=4"],
            "impossible": ["leave-out"],
            "workloads": [READ],
        },
        ROWS,
    ),
    ({"axes": ["preallocation=off,metadata,full"], "impossible": ["leave-out"], "workloads": [READ]}, LEFT),
]  # fmt: skip


@pytest.mark.parametrize(("options", "text"), FILES, ids=["one", "bare", "several", "rows", "left"])
def test_a_file_is_as_a_user_would_write_it(options: dict[str, Any], text: str) -> None:
    """A mark for each axis, a function for each workload, and `ruff format` finds nothing to change."""
    assert render_test_file(read_request(**options)) == HEAD + text


def test_a_line_that_is_too_long_is_broken_as_ruff_breaks_it() -> None:
    """Items together in a line where they fit there, otherwise a line for each, with a comma behind the last."""
    emulators = [f"/opt/qemu-{number}.0/bin/qemu-system-x86_64" for number in (7, 8)]
    axes = [f"emulator={','.join(emulators)}", "cache=none,writeback", "io=threads,io_uring"]
    text = render_test_file(read_request(axes=axes, workloads=[READ, ("--hdparm", "-t -T")]))
    assert '    pytest.mark.parametrize("io", ["threads", "io_uring"]),\n' in text
    assert (
        "    pytest.mark.parametrize(\n"
        '        "emulator",\n'
        "        [\n"
        f'            "{emulators[0]}",\n'
        f'            "{emulators[1]}",\n'
        "        ],\n"
        "    ),\n"
    ) in text
    assert max(map(len, text.splitlines())) <= _WIDTH


def test_a_long_name_of_a_test_has_its_argument_below() -> None:
    """It is its workload's, with all options that make another measurement of it."""
    text = "rw=randrw rwmixread=70 bs=4k iodepth=32 numjobs=4 size=64M ioengine=io_uring norandommap"
    name = "test_fio_randrw_4k_qd32_x4_rwmixread_70_ioengine_io_uring_size_64M_norandommap_1"
    assert f"\ndef {name}(\n    result,\n):\n    pass\n" in render_test_file(read_request(workloads=[("--fio", text)]))


def test_many_classes_are_imported_line_by_line() -> None:
    """Where one line does not hold them."""
    options = ("--fio", "rw=read"), *((name, "") for name in ("--dd", "--tar", "--sqlite", "--postmark", "--iozone"))
    others = (("--hdparm", "-t"), ("--ioping", ""), ("--aio-stress", "size=64M"), ("--tiobench", "rw=read size=1M"))
    text = render_test_file(read_request(storage=["guest_fs=ext4"], workloads=[*options, *others]))
    assert "from pytest_vmstorage import (\n    AioStress,\n    Dd,\n    Fio,\n" in text


@pytest.mark.parametrize(
    "value", ["plain", 'a "b"', "it's", "it's \"both\" 'x'", "back\\slash", ("0",), (1, 2), {"a": 1}, True]
)
def test_a_value_is_python(value: object) -> None:
    """In the quotes that ruff prefers."""
    text = _literal(value)
    assert ast.literal_eval(text) == value
    assert text.startswith('"') or not isinstance(value, str) or value.count('"') > value.count("'")


def test_the_file_has_the_name_that_the_plugin_collects() -> None:
    """So that its node ids are those of the runs; the command and the plugin do not know each other."""
    assert text_module.FILE in HEAD
    assert HEAD in render_test_file(read_request(workloads=[READ]))
