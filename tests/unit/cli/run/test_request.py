"""What `vmstorage run` is asked for, and what is refused before anything is made."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

import pytest

from pytest_vmstorage.cli.run.request import Request, Threshold, read_request
from pytest_vmstorage.cli.run.words import WORKLOADS, add_arguments, split_words
from pytest_vmstorage.errors import ConfigError

FIO = ("--fio", "rw=randwrite bs=4k size=256M")
READ = ("--fio", "rw=read")


def names(request: Request) -> list[str]:
    """The names of its tests."""
    return [one.test for one in request.workloads]


def test_axes_are_in_the_order_of_ids() -> None:
    """Whatever the order of the words; one value is an axis, too, and the disk's size the last one."""
    asked = read_request(axes=["size=1G", "iothread=yes,no", "cache=none", "format=raw,qcow2"], workloads=[FIO])
    assert asked.axes == {"format": ("raw", "qcow2"), "cache": ("none",), "iothread": (True, False), "size": ("1G",)}
    assert list(asked.axes) == ["format", "cache", "iothread", "size"]
    assert asked.rows is None


def test_a_field_is_fixed_with_all_of_its_text() -> None:
    """Commas belong to options of mount."""
    asked = read_request(storage=["host_fs=ext4", "host_mount=noatime,discard", "vcpus=2"], workloads=[FIO])
    assert asked.storage == {"host_fs": "ext4", "host_mount": "noatime,discard", "vcpus": 2}


def test_tests_are_named_after_their_workloads() -> None:
    """Not after their places, so that another workload beside them changes no name; two of one label are counted."""
    others = [("--hdparm", "-t --direct"), ("--dd", "bs=1M oflag=direct count=16")]
    alone = names(read_request(workloads=[FIO]))
    assert alone == ["test_fio_randwrite_4k_qd1"]
    assert names(read_request(workloads=[*others, FIO])) == [
        "test_hdparm_t_direct",
        "test_dd_write_1M_direct_count_16",
        *alone,
    ]
    assert names(read_request(workloads=[("--hdparm", "-t"), ("--hdparm", "-T")])) == ["test_hdparm_t", "test_hdparm_T"]
    longer = ("--fio", f"{FIO[1]} runtime=9")
    assert names(read_request(workloads=[FIO, longer])) == [*alone, f"{alone[0]}_2"]


def test_combinations_that_cannot_be_are_left_out_where_that_is_asked_for() -> None:
    """The rest is measured, row by row."""
    asked = read_request(
        axes=["format=raw,qcow2", "preallocation=off,metadata"], impossible=["leave-out"], workloads=[FIO]
    )
    assert asked.rows == (("raw", "off"), ("qcow2", "off"), ("qcow2", "metadata"))


def test_a_value_may_need_another_field() -> None:
    """What goes with no default is no slip where the cells have what it needs."""
    asked = read_request(axes=["preallocation=metadata"], storage=["format=qcow2"], workloads=[FIO])
    assert asked.axes == {"preallocation": ("metadata",)}


def test_thresholds_go_to_the_workloads_that_have_the_metric() -> None:
    """A mixed job has latencies of both directions; seconds may be written with their unit."""
    asked = read_request(
        workloads=[("--fio", "rw=randrw"), ("--hdparm", "-t")],
        at_least=["iops=500", "buffered_read=20.5"],
        at_most=["clat_p99=5ms"],
    )
    fio, hdparm = (one.thresholds for one in asked.workloads)
    assert fio == (
        Threshold("iops", ">=", 500),
        Threshold("read_clat_p99", "<=", 0.005),
        Threshold("write_clat_p99", "<=", 0.005),
    )
    assert hdparm == (Threshold("buffered_read", ">=", 20.5),)


def test_a_job_file_is_read_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With values for its variables."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "db.fio").write_text("[db]\nrw=randwrite\nsize=${SIZE}\n")
    (one,) = read_request(workloads=[("--fio", "db.fio SIZE=64M")]).workloads
    assert (one.call, one.job, one.options, one.made.region_bytes) == (
        "Fio.from_job",
        "db.fio",
        {"SIZE": "64M"},
        64 * 2**20,
    )


def test_a_matrix_file_has_the_cells() -> None:
    """Its disk may be another, so nothing is said of it here."""
    assert read_request(workloads=[("--fio", "rw=read size=4G")], matrix=True).axes == {}


MANY = ",".join(map(str, range(1, 600)))
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({}, 'there is nothing to run. Give a workload, such as --fio "rw=randwrite bs=4k runtime=5".'),
    ({"axes": ["fromat=raw"]}, "--axis fromat=raw: there is no axis 'fromat'. Did you mean 'format'? There are: "),
    ({"storage": ["sise=1G"]}, "--storage sise=1G: there is no field 'sise'. Did you mean 'size'? There are: "),
    (
        {"axes": ["format=raw,qcw2"]},
        "--axis format=qcw2: format='qcw2' is not known. Did you mean 'qcow2'? format is one of: raw, qcow2, vmdk, ",
    ),
    ({"axes": ["backing=fil"]}, "--axis backing=fil: backing='fil' is not known. backing is one of: file, "),
    ({"axes": ["iothread=often"]}, "--axis iothread=often: iothread=often is neither yes nor no."),
    ({"axes": ["queues=few"]}, "--axis queues=few: queues='few': Input should be a valid integer"),
    ({"axes": ["size=10X"]}, "--axis size=10X: '10X' is not a size."),
    ({"storage": ["size=1G,2G"]}, "--storage size=1G,2G: '1G,2G' is not a size."),
    ({"axes": ["format"]}, "--axis format lacks a value. Write it as in --axis format=raw,qcow2."),
    ({"axes": ["format=raw,,qcow2"]}, "--axis format=raw,,qcow2 lacks a value."),
    ({"axes": ["format=raw,raw"]}, "--axis format=raw,raw has raw twice. Take one of them away."),
    (
        {"axes": ["queues=default", "cluster_size=64k,65536"]},
        "--axis cluster_size=64k,65536 has cluster_size=64k twice.",
    ),
    ({"axes": ["format=raw", "format=qcow2"]}, "--axis format is given twice. Write --axis format=VALUE,VALUE."),
    ({"storage": ["vcpus=1", "vcpus=2"]}, "--storage vcpus is given twice. Sweep it: --axis vcpus=VALUE,VALUE."),
    ({"axes": ["size=1G"], "storage": ["size=2G"]}, "size is given by --axis and by --storage."),
    ({"axes": ["format=raw"], "matrix": True}, "--axis and --vm-matrix both say which cells there are."),
    (
        {"axes": ["format=raw,qcow2", "preallocation=off,metadata"], "workloads": [FIO]},
        "1 of 4 cells cannot be: raw-metadata: raw has no metadata to preallocate; ",
    ),
    (
        {"storage": ["format=raw", "preallocation=metadata"], "workloads": [FIO], "impossible": ["leave-out"]},
        "1 of 1 cells cannot be: raw-metadata: raw has no metadata to preallocate; ",
    ),
    (
        {"impossible": ["leave-ot"], "workloads": [FIO]},
        "--impossible leave-ot is not known. Did you mean 'leave-out'? It is refuse or leave-out.",
    ),
    (
        {"workloads": [("--fio", "rw=read iodepht=4")]},
        "--fio 'rw=read iodepht=4': fio has no option 'iodepht'. Did you mean 'iodepth'?",
    ),
    ({"workloads": [("--fio", "rw=randwrit")]}, "--fio 'rw=randwrit': Fio(rw='randwrit') is not known here. Did you "),
    ({"workloads": [("--fio", "rw=read bs")]}, "--fio 'rw=read bs': bs has no value. Write bs=VALUE."),
    ({"workloads": [("--fio", "rw=read b*s=4k")]}, "--fio 'rw=read b*s=4k': --fio: 'b*s=4k' is not an option. Write "),
    (
        {"workloads": [("--fio", "rw=read filename=/x")]},
        "--fio 'rw=read filename=/x': Fio refuses fio's option filename",
    ),
    ({"workloads": [("--dd", "bss=4k")]}, "--dd 'bss=4k': Dd has no option 'bss'. Did you mean 'bs'? It has: rw, bs, "),
    ({"workloads": [("--fio", "none.fio")]}, "--fio 'none.fio': "),
    ({"workloads": [FIO, FIO]}, "fio randwrite 4k qd1 is given twice. Take one of them away."),
    (
        {"workloads": [("--fio", "rw=read size=1025M")]},
        "--fio 'rw=read size=1025M': fio read 4k qd1 size=1025M needs 1025M, and the disk of raw-none-virtio-blk-off"
        " has 1G. Make it larger: --storage size=2G.",
    ),
    (
        {"workloads": [("--tar", "")]},
        "--tar: tar 400 files 25 folders 32M makes files, and the disk of raw-none-virtio-blk-off has no file system."
        " Give it one: --storage guest_fs=ext4.",
    ),
    (
        {"workloads": [READ], "storage": ["state=fresh"]},
        "--fio 'rw=read': fio read 4k qd1 reads, and a fresh disk has nothing to read.",
    ),
    (
        {"workloads": [("--image-operations", "")], "axes": ["backing=native"]},
        "--image-operations: native-off cannot be measured with measure_image: backing=native has no image",
    ),
    (
        {"workloads": [READ], "at_least": ["iosp=5"]},
        "--at-least iosp=5: no workload here has a metric 'iosp'. Did you mean 'iops'? There are: iops, bw, ",
    ),
    ({"workloads": [READ], "at_least": ["iops"]}, "--at-least iops has no number. Write it as in --at-least iops=500."),
    (
        {"workloads": [READ], "at_most": ["iops=many"]},
        "--at-most iops=many is not a number. Write one in IOPS.",
    ),
    (
        {"workloads": [READ], "at_most": ["clat_p99=fast"]},
        "--at-most clat_p99=fast is not a number. Write one as 0.005 or 5ms.",
    ),
    (
        {"workloads": [FIO], "axes": [f"vcpus={MANY}", f"queues={MANY}"]},
        "these axes have 358801 combinations; 200000 are the most. Give fewer.",
    ),
]


@pytest.mark.parametrize(("options", "sentence"), REFUSED, ids=[sentence[:40] for _, sentence in REFUSED])
def test_what_is_refused(options: dict[str, Any], sentence: str) -> None:
    """One sentence that says where, with what may be meant or what to do."""
    with pytest.raises(ConfigError) as refused:
        read_request(**options)
    assert str(refused.value).startswith(sentence)


@pytest.mark.parametrize("option", WORKLOADS)
def test_what_help_says_of_a_workload_can_be_measured(option: str) -> None:
    """The example of each option, on a disk with a file system where it makes files."""
    storage = ["guest_fs=ext4"] if option in ("--tar", "--postmark", "--sqlite", "--iozone", "--web") else []
    storage += ["size=3G"] if option in ("--tiobench", "--aio-stress") else []
    (one,) = read_request(storage=storage, workloads=[(option, WORKLOADS[option].example)]).workloads
    assert one.options


def examples() -> list[str]:
    """The command lines of the help text."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return [line.strip() for line in str(parser.epilog).splitlines() if line.startswith("  vmstorage run")]


@pytest.mark.parametrize("line", examples())
def test_the_examples_of_the_help_text_can_be_measured(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line, as far as pytest is not needed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "db.fio").write_text("[db]\nrw=randwrite\nsize=64M\n")
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    ours, _ = split_words(shlex.split(line.partition(" > ")[0], comments=True)[2:])
    given = parser.parse_args(ours)
    asked = read_request(axes=given.axis, storage=given.storage, workloads=given.workload, at_least=given.at_least)
    assert asked.axes
    assert asked.workloads
