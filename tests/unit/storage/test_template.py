"""Templates of disks with a guest's file system: which disks they serve, what they hold, and what becomes of them."""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import LabHost
from pytest_vmstorage.host.shell import LocalShell, check
from pytest_vmstorage.storage.disk import HostDisks
from pytest_vmstorage.storage.extents import Extent
from pytest_vmstorage.storage.template import MOST_EXTENTS, Template, Templates
from pytest_vmstorage.testing.host import make_host_shell
from pytest_vmstorage.testing.shell import FakeShell

MIB = 2**20
FOLDER = "/srv/vm/run-0123456789"
EXTENTS = (
    Extent(3 * MIB, 2 * MIB),
    Extent(MIB, MIB),
)

# in the form of filefrag 1.47.0, without its trailing blanks, of the image of a disk whose test file has 3 MiB: 5 MiB
# are in one piece, and 1 MiB was asked to be zeroed by its guest
HOST_FILEFRAG = """\
Filesystem type is: ef53
File size of /srv/vm/disk-1.raw is 33554432 (8192 blocks of 4096 bytes)
 ext:     logical_offset:        physical_offset: length:   expected: flags:
   0:        0..    1279:      34816..     36095:   1280:
   1:     2304..    2559:      40960..     41215:    256:      37120: last,unwritten
/srv/vm/disk-1.raw: 2 extents found
"""
MAP = [
    {"start": 0, "length": MIB, "data": True, "present": True},
    {"start": MIB, "length": MIB, "data": False, "present": True},
]


def raw(**fields: object) -> StorageConfig:
    """A small cell with a file system in its guest; raw unless the fields have another format."""
    size = "300M" if fields.get("guest_fs") == "xfs" else "32M"
    return StorageConfig(**{"guest_fs": "ext4", "size": size, "cache": "writeback", **fields})


def taken(config: StorageConfig, extents: Sequence[Extent] = EXTENTS, shell: FakeShell | None = None) -> Templates:
    """The templates of a run after that cell's disk was offered."""
    made = Templates(shell or host(), FOLDER)
    made.take(config, "/srv/vm/disk-1", extents)
    return made


def host(free_bytes: int = 2**40) -> FakeShell:
    """A host on which templates can be made, and disks have 1 MiB of zeros."""
    shell = make_host_shell(free_bytes=free_bytes).answer(re.compile("^truncate|^sync|^qemu-img convert|^qemu-io"))
    shell.answer(re.compile("^filefrag -v /srv/vm"), HOST_FILEFRAG)
    return shell.answer(re.compile("^qemu-img map"), json.dumps(MAP))


@pytest.mark.parametrize(
    ("fields", "serves"),
    [
        ({}, True),
        ({"format": "qcow2"}, True),
        ({"format": "vmdk", "cache": "none", "io": "native", "preallocation": "off"}, True),
        ({"format": "qcow2", "preallocation": "full"}, True),
        ({"bus": "virtio-scsi"}, False),
        ({"guest_fs": "xfs"}, False),
        ({"guest_mkfs": "-m 0"}, False),
        ({"guest_mount": "noatime"}, False),
        ({"size": "64M"}, False),
        ({"detect_zeroes": "on"}, False),
        ({"scheduler": "none"}, False),
    ],
    ids=str,
)
def test_a_raw_disk_serves_cells_that_differ_in_what_no_guest_sees(fields: dict[str, object], *, serves: bool) -> None:
    """Format, cache mode, way of submitting, preallocation; the template is wanted where it would serve, and once."""
    other = raw(**fields)
    assert Templates(FakeShell(), FOLDER).is_wanted(raw(), [other]) is serves
    templates = taken(raw())
    assert (templates.find(other, 3 * MIB) is not None) is serves
    assert templates.find(other, 2 * MIB) is None
    assert not templates.is_wanted(raw(), [other])


def test_a_qcow2_serves_its_own_format_and_is_not_wanted_beside_a_raw_disk() -> None:
    """Clusters that it wrote tell less of what was written."""
    templates = taken(raw(format="qcow2"))
    assert templates.find(raw(format="qcow2", cache="none"), 3 * MIB) is not None
    assert templates.find(raw(), 3 * MIB) is None
    assert templates.is_wanted(raw(), [raw(cache="none")])
    assert not taken(raw()).is_wanted(raw(format="qcow2"), [raw(format="qcow2", cache="none")])


@pytest.mark.parametrize("fields", [{"preallocation": "full"}, {"format": "vmdk"}], ids=str)
def test_of_some_disks_nobody_can_tell_what_their_guest_wrote(fields: dict[str, object]) -> None:
    """Of those no template is taken."""
    assert not Templates(FakeShell(), FOLDER).is_wanted(raw(**fields), [raw(**fields, cache="none")])


def test_where_no_other_disk_is_to_be_made_none_is_wanted() -> None:
    """It would take time for nothing."""
    assert not Templates(FakeShell(), FOLDER).is_wanted(raw(), [])


def test_without_room_there_is_none_and_nobody_tries_again() -> None:
    """The disks themselves need it."""
    shell = host(free_bytes=2 * (raw().size + 64 * MIB) - 1)
    templates = taken(raw(), shell=shell)
    assert templates.find(raw(), 3 * MIB) is None
    assert not templates.is_wanted(raw(), [raw(cache="none")])
    assert not [line for line in shell.lines if "template" in line]


def test_a_file_in_many_pieces_makes_none() -> None:
    """As many as may be do."""
    pieces = [Extent(n * MIB, MIB) for n in range(MOST_EXTENTS + 1)]
    assert taken(raw(), pieces).find(raw(), len(pieces) * MIB) is None
    assert taken(raw(), pieces[1:]).find(raw(), MOST_EXTENTS * MIB) is not None


@pytest.mark.parametrize("fails", ["^qemu-img convert", "^qemu-img map", "^filefrag"])
def test_what_could_not_be_taken_is_removed(fails: str) -> None:
    """A host whose qemu-img is too old, or whose file system tells no extents; guests fill their disks there."""
    shell = host().answer(re.compile("^rm -f -- "))
    shell.answer(re.compile(fails), stderr="Operation not supported", returncode=1)
    assert taken(raw(), shell=shell).find(raw(), 3 * MIB) is None
    assert shell.lines[-1] == f"rm -f -- {FOLDER}/template-1.raw"


def test_a_template_is_written_back_before_a_round_begins() -> None:
    """Nothing of it is to be written during one."""
    shell = host()
    taken(raw(), shell=shell)
    places = [shell.lines.index(one) for one in shell.lines if one.startswith(("qemu-img convert", "sync -- "))]
    assert len(places) == 2
    assert shell.lines[places[1]] == f"sync -- {FOLDER}/template-1.raw"


def test_what_is_allocated_and_holds_zeros_is_known() -> None:
    """All that the image has but the file's data, and what the copy has as data."""
    made = taken(raw()).find(raw(), 3 * MIB)
    assert made is not None
    assert (made.written, made.zeroed) == ((Extent(2 * MIB, MIB),), (Extent(9 * MIB, MIB),))


def test_a_disk_without_its_template_is_left_to_its_guest() -> None:
    """It has neither file system nor data then."""
    shell = host()
    made = HostDisks(shell, LabHost(name="here", uri=None, ssh=None, folder="/srv/vm"), FOLDER, "01")
    assert not made.make(raw(), 1, fill_bytes=3 * MIB).has_guest_fs
    made.templates.take(raw(), f"{FOLDER}/disk-1.raw", EXTENTS)
    furnished, other = made.make(raw(), 2, fill_bytes=3 * MIB), made.make(raw(), 3, fill_bytes=2 * MIB)
    assert (furnished.has_guest_fs, furnished.filled_bytes) == (True, 3 * MIB)
    assert not other.has_guest_fs
    path = f"{FOLDER}/disk-2.raw"
    writes = [one.argv for one in shell.asked if "disk-2" in one.line and one.argv[0].startswith("qemu-i")]
    zeroing, copying, filling = [argv for argv in writes if argv[1] in ("-t", "convert")]
    assert list(zeroing[-5:]) == ["-c", f"write -q -z {9 * MIB} {MIB}", "-c", f"write -q -P 0 {2 * MIB} {MIB}", path]
    assert copying[-2:] == (f"{FOLDER}/template-1.raw", path)
    sources = [json.loads(word.removeprefix("json:")) for word in filling if word.startswith("json:")]
    # in the disk's order, which is not the file's
    assert [(one["driver"], one["size"] // MIB) for one in sources] == [
        ("null-co", 1),
        ("raw", 1),
        ("null-co", 1),
        ("raw", 2),
    ]
    assert filling[-1] == path
    assert all("--target-is-zero" in argv for argv in (copying, filling))


@pytest.mark.parametrize("kind", ["raw", "qcow2"])
@pytest.mark.parametrize(
    "fields",
    [{}, {"format": "qcow2"}, {"format": "qcow2", "preallocation": "metadata"}, {"format": "vmdk"}, {"format": "vpc"}],
    ids=str,
)
def test_qemu_copies_all_but_the_files_data(kind: str, fields: dict[str, object], tmp_path: Path) -> None:
    """Also where blocks of zeros are allocated; the file's data is other data on each disk."""
    source, config, shell = raw(format=kind), raw(**fields), LocalShell()
    if kind == "qcow2" and config.format != "qcow2":
        pytest.skip("a qcow2 serves no other format")
    if shutil.which("qemu-img") is None:
        pytest.skip("qemu-utils is not installed")
    # a comma separates options of QEMU, so that a path with one has to be given otherwise
    folder = tmp_path / "a,b"
    folder.mkdir()
    disks = HostDisks(shell, LabHost(name="here", uri=None, ssh=None, folder=str(folder)), str(folder), "01")
    first = disks.make(source, 1)
    # metadata, zeros that are written, and the file's data
    writes = (
        "write -P 1 64k 64k",
        "write -P 0 9M 1M",
        "write -z 11M 1M",
        "write -P 2 3M 2M",
        "write -P 3 1M 1M",
        "write -P 4 31M 64k",
    )
    check(shell.run(["qemu-io", "-f", kind, *(word for one in writes for word in ("-c", one)), first.path]), "writing")
    if not shell.run(["filefrag", "-v", first.path]).ok:
        pytest.skip("the file system tells no extents")
    disks.templates.take(source, first.path, EXTENTS)
    copy = (folder / "template-1.raw").read_bytes()
    assert not any(copy[one.offset_bytes : one.end_bytes] != bytes(one.length_bytes) for one in EXTENTS)
    seen = set[bytes]()
    for number in (2, 3):
        made = disks.make(config, number, fill_bytes=3 * MIB)
        assert made.has_guest_fs
        flat = str(folder / "flat")
        check(shell.run(["qemu-img", "convert", "-f", config.format, "-O", "raw", made.path, flat]), "reading")
        data = Path(flat).read_bytes()
        file = data[3 * MIB : 5 * MIB] + data[MIB : 2 * MIB]
        rest = data[:MIB] + data[2 * MIB : 3 * MIB] + data[5 * MIB :]
        assert len(data) == config.size
        assert rest.count(b"\1") == rest.count(b"\4") == 65536
        assert rest.count(b"\0") == len(rest) - 2 * 65536
        assert len(zlib.compress(file)) > 3 * MIB
        seen.update(file[begin : begin + 4096] for begin in range(0, len(file), 4096))
        if config.preallocation == "off" and config.format == "qcow2":
            told = check(shell.run(["qemu-img", "map", "-f", "qcow2", "--output=json", made.path]), "asking").stdout
            there = {(one["start"], one["length"]): one["data"] for one in json.loads(told) if one["present"]}
            # qemu-img create allocates the first block of a raw file; guests write there, too
            clusters = 2 if kind == "qcow2" else 3
            assert sum(length for (_, length), is_data in there.items() if is_data) == 4 * MIB + clusters * 65536
            assert (there[9 * MIB, MIB], there[11 * MIB, MIB]) == (True, False)
    assert len(seen) == 2 * 3 * 256


def test_a_template_knows_how_much_of_the_file_is_written() -> None:
    """The sum of its extents."""
    assert Template(path="/srv/vm/t", extents=EXTENTS).filled_bytes == 3 * MIB
