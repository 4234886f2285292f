"""Is a cell what its id says: judged on what real guests of QEMU 7.2 and libvirt 9.0 said of themselves.

Tests of `measure.proof.cell` with all that it calls: `measure.proof.claim`, `measure.proof.domain`,
`measure.proof.evidence`, `measure.proof.file_systems`, `measure.proof.image` and `measure.proof.without_guest`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

from pytest_vmstorage.config import cell as config_module
from pytest_vmstorage.config.buses import Bus, Cache
from pytest_vmstorage.config.cell import FIELDS, Format, GuestFs, StorageConfig
from pytest_vmstorage.errors import AttestationError, GuestDiedError
from pytest_vmstorage.guest.emulator import RunningEmulator
from pytest_vmstorage.guest.facts import GuestFacts
from pytest_vmstorage.guest.guest import Guest
from pytest_vmstorage.host.shell import LocalShell
from pytest_vmstorage.measure.proof.cell import attest, attest_guest, conclude
from pytest_vmstorage.measure.proof.claim import COMMAND_LINE
from pytest_vmstorage.measure.proof.domain import PROCESS, VERSION
from pytest_vmstorage.measure.proof.evidence import Evidence, blockdevs, gather, image_chain
from pytest_vmstorage.measure.proof.file_systems import ON_HOST
from pytest_vmstorage.results.run import IDLE, Proof, proven_fields
from pytest_vmstorage.storage.image import ImageFacts
from pytest_vmstorage.testing.guest import FakeDomain, FakeHypervisor
from pytest_vmstorage.testing.lab import make_guest_shell, make_lab
from pytest_vmstorage.testing.qmp import answer_monitor

RECORDINGS = Path(__file__).parents[2] / "recordings"
NAMES = sorted(path.stem.partition("7.2-")[2] for path in RECORDINGS.glob("evidence-qemu-7.2-*.json"))
LIARS = {
    "raw-writethrough-usb-off": ("cache", "writethrough (write-cache off)", "write-cache auto"),
    "raw-none-virtio-blk-off-detect_zeroes=unmap": ("detect_zeroes", "unmap", "on"),
    "vmdk-none-virtio-blk-off-monolithicFlat-native": ("io", "native", "threads for the extents"),
}
HONEST = [name for name in NAMES if name not in LIARS]
PLAIN = "raw-none-virtio-blk-off"
RICH = next(name for name in NAMES if "extended_l2" in name)


@contextlib.contextmanager
def without_rules() -> Iterator[None]:
    """Cells that the rules refuse can be made: their recordings show what the proof sees where no rule stands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(config_module, "broken_rules", lambda _cell: ())
        yield


class Recorded:
    """What a real guest of a cell said."""

    def __init__(self, name: str) -> None:
        saved = json.loads((RECORDINGS / f"evidence-qemu-7.2-{name}.json").read_text())
        with without_rules():
            self.config = StorageConfig(**saved["config"])
        self.evidence = Evidence.model_validate(saved["evidence"])
        self.facts = GuestFacts.model_validate(saved["guest"]) if saved["guest"] else None

    def proofs(self, **config: object) -> tuple[Proof, ...]:
        """All proofs, of the cell as it is or under another label."""
        with without_rules():
            labelled = StorageConfig(**{**self.config.model_dump(), **config})
        guest = attest_guest(labelled, self.facts) if self.facts else ()
        return (*attest(labelled, "tcg", self.evidence), *guest)


def of(proofs: tuple[Proof, ...], status: str) -> set[str]:
    """Fields that some source says that of."""
    return {proof.field for proof in proofs if proof.status == status}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_cell_is_proven_in_every_field(name: str) -> None:
    """All that the cell has but the state, which is made later where it does not arrive with the image."""
    config = Recorded(name).config
    proofs = conclude(config, Recorded(name).proofs())
    has = {field for field in FIELDS if not config.lacks(field)}
    assert set(proven_fields(proofs)) - {"state"} == {*has, "accel"} - {"state"}
    assert {proof.field for proof in proofs} == {*has, "accel", "state"}
    assert ("state" in proven_fields(proofs)) is (config.arrives_filled and config.format == "qcow2")
    assert of(proofs, "contradicted") == set()


@pytest.mark.parametrize("name", LIARS)
def test_a_cell_that_lies_is_contradicted(name: str) -> None:
    """What libvirt and QEMU accepted and did otherwise."""
    recorded = Recorded(name)
    field, asked, found = LIARS[name]
    with pytest.raises(AttestationError) as caught:
        conclude(recorded.config, recorded.proofs())
    assert caught.value.field == f"{field} of {name}"
    assert caught.value.asked == asked
    assert caught.value.found.startswith(found)


OTHERS: list[dict[str, object]] = [
    {"format": "qcow2"},
    {"cache": "writethrough"},
    {"cache": "directsync"},
    {"cache": "writeback"},
    {"cache": "unsafe"},
    {"bus": "virtio-scsi"},
    {"bus": "nvme"},
    {"preallocation": "full"},
    {"machine": "pc"},
    {"io": "io_uring"},
    {"iothread": True},
    {"queues": 2, "vcpus": 2},
    {"queue_size": 128},
    {"discard": "unmap"},
    {"detect_zeroes": "on"},
    {"total_iops_sec": 200},
    {"total_bytes_sec": "50M"},
    {"emulator": "/opt/qemu-9/bin/qemu"},
    {"vcpus": 2},
    {"memory": "1G"},
    {"memory": "384M"},
    {"scheduler": "bfq"},
    {"guest_fs": "xfs"},
    {"host_fs": "xfs"},
    {"size": "256M"},
]


@pytest.mark.parametrize("other", OTHERS, ids=str)
def test_another_label_on_the_same_guest_is_contradicted(other: Mapping[str, object]) -> None:
    """Each field alone makes the cell an error."""
    contradicted = of(Recorded(PLAIN).proofs(**other), "contradicted")
    assert set(other) <= contradicted
    assert contradicted <= {*other, "machine", "bus", "preallocation"}


@pytest.mark.parametrize(
    "other",
    [
        {"cluster_size": "64k"},
        {"lazy_refcounts": False},
        {"extended_l2": False},
        {"l2_cache_size": "1M"},
        {"metadata_cache_size": "1M"},
        {"preallocation": "off"},
        {"detect_zeroes": "on"},
        {"discard": "ignore"},
    ],
    ids=str,
)
def test_another_label_on_a_qcow2_is_contradicted(other: Mapping[str, object]) -> None:
    """The image and the options of its driver are read too."""
    assert set(other) <= of(Recorded(RICH).proofs(**other), "contradicted")


LIMITED = "raw-none-virtio-blk-off-total_iops_sec=200-total_bytes_sec=50M"
LIMITED_NVME = "raw-none-nvme-off-total_iops_sec=200"


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (LIMITED, {"total_iops_sec": None}),
        (LIMITED, {"total_iops_sec": 100}),
        (LIMITED, {"total_bytes_sec": "49M"}),
        (LIMITED, {"total_iops_sec": None, "total_bytes_sec": None}),
        (LIMITED_NVME, {"total_iops_sec": None}),
        (LIMITED_NVME, {"total_bytes_sec": "50M"}),
        ("null-none-virtio-blk", {"total_iops_sec": 200}),
        ("null-writethrough-nvme", {"total_bytes_sec": "50M"}),
    ],
    ids=str,
)
def test_other_limits_than_the_label_has_are_contradicted(name: str, other: Mapping[str, object]) -> None:
    """More, less and none; NVMe disks too, of which the XML tells nothing."""
    contradicted = of(Recorded(name).proofs(**other), "contradicted")
    assert {field for field in contradicted if field.startswith("total_")} == {*other}


def test_limits_are_proven_by_libvirt_and_by_qemu() -> None:
    """In the words of the fields; an NVMe disk's by QEMU alone."""
    told = {(p.field, p.where, p.found) for p in Recorded(LIMITED).proofs() if p.field.startswith("total_")}
    both = {("total_iops_sec", "200"), ("total_bytes_sec", "50M")}
    assert told == {(field, where, found) for field, found in both for where in ("live XML", "QMP query-block")}
    told = {(p.field, p.where, p.found) for p in Recorded(LIMITED_NVME).proofs() if p.field.startswith("total_")}
    assert told == {("total_iops_sec", "QMP query-block", "200"), ("total_bytes_sec", "QMP query-block", "no limit")}


@pytest.mark.parametrize(
    ("name", "more", "found"),
    [
        (LIMITED, {"iops_wr": 100}, "200, iops_wr 100"),
        (LIMITED, {"iops_max": 1000}, "200, iops_max 1000"),
        (PLAIN, {"iops_rd": 50, "iops_wr": 60}, "iops_rd 50, iops_wr 60"),
    ],
)
def test_a_limit_beside_the_one_asked_for_is_contradicted(name: str, more: Mapping[str, int], found: str) -> None:
    """Of reads or writes alone, or a burst above it; the bytes' limit is still proven."""
    evidence = Recorded(name).evidence
    proofs = attest(Recorded(name).config, "tcg", changed(name, inserted={**evidence.inserted, **more}))
    assert [p.found for p in proofs if p.status == "contradicted"] == [found]
    assert "total_bytes_sec" in proven_fields(proofs)


def test_a_burst_in_the_xml_is_contradicted() -> None:
    """libvirt has a name for each."""
    limit = "<total_iops_sec>200</total_iops_sec>"
    xml = Recorded(LIMITED).evidence.xml.replace(limit, f"{limit}<total_iops_sec_max>900</total_iops_sec_max>")
    error = first_error(Recorded(LIMITED).config, changed(LIMITED, xml=xml))
    assert (error.asked, error.found) == ("200", "200, total_iops_sec_max 900 (live XML)")


EMULATOR = "/opt/qemu-9/bin/qemu"
OWN_VERSION = "9.2.0"


def emulator_proofs(**running: object) -> dict[str, tuple[str, str, str]]:
    """Status, what was asked and what was found of a cell's emulator, by source; what runs it is changed so."""
    known = {"exe": EMULATOR, "is_named": True, "is_script": False, "version": OWN_VERSION}
    xml = Recorded(PLAIN).evidence.xml.replace("/usr/bin/qemu-system-x86_64", EMULATOR)
    there = RunningEmulator.model_validate({**known, **running})
    evidence = changed(PLAIN, xml=xml, qemu=OWN_VERSION, emulator=there)
    config = Recorded(PLAIN).config.model_copy(update={"emulator": EMULATOR})
    proofs = attest(config, "tcg", evidence)
    return {p.where: (p.status, p.asked, p.found) for p in proofs if p.field == "emulator"}


def test_an_emulator_is_proven_by_its_path_its_file_and_its_version() -> None:
    """The host's own by its path, whatever that is."""
    version = ("proven", f"{EMULATOR} (QEMU {OWN_VERSION})", f"QEMU {OWN_VERSION}")
    assert emulator_proofs() == {
        "live XML": ("proven", EMULATOR, EMULATOR),
        PROCESS: ("proven", EMULATOR, EMULATOR),
        VERSION: version,
    }
    own = [(p.status, p.asked, p.found) for p in Recorded(PLAIN).proofs() if p.field == "emulator"]
    assert own == [("proven", "default", "/usr/bin/qemu-system-x86_64")]


@pytest.mark.parametrize(
    ("running", "where", "status", "found"),
    [
        ({"exe": "/usr/bin/qemu", "is_named": False}, PROCESS, "contradicted", "/usr/bin/qemu"),
        ({"exe": "/srv/builds/9/qemu", "is_named": True}, PROCESS, "proven", "/srv/builds/9/qemu"),
        ({"exe": "/usr/bin/qemu", "is_named": False, "is_script": True}, PROCESS, "unprovable", "/usr/bin/qemu"),
        ({"exe": "", "is_named": False}, PROCESS, "unprovable", "unknown"),
        ({"version": "9.2.1"}, VERSION, "contradicted", f"QEMU {OWN_VERSION}"),
        ({"version": ""}, VERSION, "contradicted", f"QEMU {OWN_VERSION}"),
    ],
    ids=str,
)
def test_what_runs_a_guest_decides(running: Mapping[str, object], where: str, status: str, found: str) -> None:
    """Another file, the same by a link, one that a script started, one that nobody may see, another version."""
    proofs = emulator_proofs(**running)
    assert (proofs[where][0], proofs[where][2]) == (status, found)
    assert {one for place, (one, *_) in proofs.items() if place != where} == {"proven"}


def test_a_fake_guest_is_run_by_the_emulator_of_its_cell(tmp_path: Path) -> None:
    """And the guest knows its version."""
    guest = fake_guest(tmp_path, StorageConfig(emulator=EMULATOR, size="128M"))
    there = [(p.where, p.status) for p in guest.proof if p.field == "emulator"]
    assert there == [("live XML", "proven"), (PROCESS, "proven"), (VERSION, "proven")]
    assert guest.qemu == "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)"


LAYERED = {
    "compression": next(name for name in NAMES if "compression=zstd" in name),
    "encryption": next(name for name in NAMES if "luks" in name),
    "snapshots": next(name for name in NAMES if "snapshots=2" in name),
    "subformat": next(name for name in NAMES if "streamOptimized" in name),
}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("compression", {"compression": "zlib"}),
        ("compression", {"compression": "off"}),
        ("compression", {"snapshots": 1}),
        ("compression", {"backing_chain": 1}),
        ("compression", {"encryption": "luks"}),
        ("encryption", {"encryption": "off"}),
        ("encryption", {"backing_chain": 0}),
        ("encryption", {"backing_chain": 1}),
        ("encryption", {"backing_chain": 3}),
        ("encryption", {"compression": "zlib"}),
        ("encryption", {"io": "native"}),
        ("snapshots", {"snapshots": 0}),
        ("snapshots", {"snapshots": 3}),
        ("subformat", {"subformat": None}),
    ],
    ids=str,
)
def test_another_label_on_a_layered_image_is_contradicted(name: str, other: Mapping[str, object]) -> None:
    """What is in it and below it is counted."""
    assert set(other) <= of(Recorded(LAYERED[name]).proofs(**other), "contradicted")


def with_counts(name: str, number: int, **counts: int) -> Evidence:
    """The evidence of a recorded guest whose image of that number, from the top, counts otherwise."""
    checks = list(Recorded(name).evidence.checks)
    checks[number] = {**checks[number], **counts}
    return changed(name, checks=tuple(checks))


@pytest.mark.parametrize(
    ("field", "number", "counts"),
    [
        ("compression", 0, {"compressed-clusters": 2047}),
        ("state", 0, {"allocated-clusters": 2047, "compressed-clusters": 2047}),
        ("backing_chain", 0, {"allocated-clusters": 1}),
        ("backing_chain", 2, {"allocated-clusters": 16}),
        ("snapshots", 0, {"image-end-offset": 128 * 2**20}),
        ("snapshots", 0, {"leaks": 1}),
    ],
    ids=str,
)
def test_a_layer_that_holds_less_than_its_share_is_contradicted(
    field: str, number: int, counts: Mapping[str, int]
) -> None:
    """One cluster that is stored as it is, one layer that is all but empty, one leak."""
    name = LAYERED[{"state": "compression", "backing_chain": "encryption"}.get(field, field)]
    assert field in of(attest(Recorded(name).config, "tcg", with_counts(name, number, **counts)), "contradicted")
    assert of(attest(Recorded(name).config, "tcg", Recorded(name).evidence), "contradicted") == set()


def test_one_layer_that_was_not_encrypted_is_contradicted() -> None:
    """Reads end in it."""
    name = LAYERED["encryption"]
    chain = list(Recorded(name).evidence.chain)
    chain[1] = {**chain[1], "encrypted": False}
    error = first_error(Recorded(name).config, changed(name, chain=tuple(chain)))
    assert (error.asked, error.found) == ("luks", "off (1 of 3 images) (qemu-img info)")


def test_what_qemu_img_cannot_count_is_unprovable() -> None:
    """No count is no proof, and no contradiction."""
    name = LAYERED["compression"]
    proofs = conclude(Recorded(name).config, attest(Recorded(name).config, "tcg", changed(name, checks=({},))))
    open_ones = {proof.field for proof in proofs if proof.where == "qemu-img check"}
    assert open_ones == {"compression", "state"}
    assert {proof.status for proof in proofs if proof.where == "qemu-img check"} == {"unprovable"}


def test_of_backing_files_the_same_io_mode_is_proven() -> None:
    """QEMU was started with it for each of them."""
    name = LAYERED["encryption"]
    said = [p.where for p in Recorded(name).proofs() if (p.field, p.status) == ("io", "proven")]
    assert len([where for where in said if "-of-2.qcow2" in where]) == 2


def test_raw_on_a_block_device_is_as_long_as_qemu_cut_it() -> None:
    """qemu-img sees the device; the proof of its preallocation is that a device has all its blocks."""
    image = ImageFacts(length_bytes=2**30, allocated_bytes=0, unwritten=None, is_block=True)
    config = Recorded(PLAIN).config
    for size, status in ((config.size, "proven"), (2**30, "contradicted")):
        evidence = changed(PLAIN, image=image, inserted={"virtual-size": size})
        proofs = {proof.field: proof for proof in attest(config, "tcg", evidence)}
        assert (proofs["size"].status, proofs["size"].where) == (status, "QMP query-block")
        assert (proofs["preallocation"].status, proofs["preallocation"].asked) == ("proven", "off")
        assert "all its blocks" in proofs["preallocation"].found


NULL = "null-none-virtio-blk"


@pytest.mark.parametrize(
    "other", [{"cache": "unsafe"}, {"bus": "sata"}, {"iothread": True}, {"size": "64M"}, {"memory": "1G"}], ids=str
)
def test_another_label_on_a_null_disk_is_contradicted(other: Mapping[str, object]) -> None:
    """What is the guest's is proven there as anywhere."""
    assert set(other) <= of(Recorded(NULL).proofs(**other), "contradicted")


def test_a_null_disk_is_none_with_a_file_below_and_the_other_way_round() -> None:
    """The block node that the device is on tells them apart, and of the state there is nothing to prove."""
    error = first_error(Recorded(NULL).config, Recorded(PLAIN).evidence)
    assert (error.asked, error.found) == ("null (null-co)", "raw (QMP query-named-block-nodes)")
    assert first_error(Recorded(NULL).config, changed(NULL, nodes=())).found.startswith("no block node (QMP")
    assert {"backing", "format"} & of(Recorded(NULL).proofs(backing="file"), "contradicted") == {"format"}
    (state,) = [p for p in conclude(Recorded(NULL).config, Recorded(NULL).proofs()) if p.field == "state"]
    assert (state.status, state.why.partition(":")[0]) == ("unprovable", "QEMU's null driver keeps nothing")


def changed(name: str, **values: object) -> Evidence:
    """The evidence of a recorded guest with some of it in other words."""
    return Recorded(name).evidence.model_copy(update=values)


def first_error(config: StorageConfig, evidence: Evidence, accel: Any = "tcg") -> AttestationError:
    """Why the cell is refused."""
    with pytest.raises(AttestationError) as caught:
        conclude(config, attest(config, accel, evidence))
    return caught.value


def test_the_error_shows_both_values_and_all_that_is_wrong() -> None:
    """One sentence for the first, and the others behind it."""
    config = StorageConfig(**{**Recorded(PLAIN).config.model_dump(), "cache": "writeback"})
    error = first_error(config, Recorded(PLAIN).evidence)
    assert error.what == ("cache of raw-writeback-virtio-blk-off was asked to be writeback but is none (live XML).")
    assert error.hint.startswith(
        "Also: cache is direct on, no-flush off (QMP query-named-block-nodes, raw), not writeb"
    )


def test_a_fallback_of_the_io_mode_is_contradicted_by_qemus_log() -> None:
    """QEMU goes on with threads, and says so nowhere else."""
    name = next(name for name in NAMES if "-native-iothread" in name)
    line = "qemu: warning: Unable to use Linux AIO, falling back to thread pool: Invalid argument"
    error = first_error(Recorded(name).config, changed(name, fallbacks=(line,)))
    assert (error.asked, error.found) == ("native", f"{line} (QEMU's log)")


def test_without_qemus_log_what_stands_there_alone_is_unprovable() -> None:
    """A lab host may keep it from this user; the XML still speaks."""
    config, facts = Recorded(PLAIN).config, Recorded(PLAIN).facts
    assert facts is not None
    of_host = attest(config, "tcg", changed(PLAIN, blockdevs=(), fallbacks=None))
    proofs = conclude(config, (*of_host, *attest_guest(config, facts)))
    open_ones = {proof.field: proof.why for proof in proofs if proof.status == "unprovable"}
    assert open_ones.keys() == {"state", "io", "discard"}
    assert "QEMU's log" in open_ones["io"]


def test_an_old_qcow2_is_not_the_format_that_was_asked_for() -> None:
    """0.10 has neither zero clusters nor lazy refcounts; old libvirt makes it."""
    info = json.loads(json.dumps(Recorded(RICH).evidence.info).replace('"1.1"', '"0.10"'))
    error = first_error(Recorded(RICH).config, changed(RICH, info=info))
    assert (error.asked, error.found) == ("qcow2 compat 1.1", "qcow2 compat 0.10 (qemu-img info)")


def test_emulation_is_never_kvm() -> None:
    """Both the domain's type and QEMU itself are asked."""
    error = first_error(Recorded(PLAIN).config, Recorded(PLAIN).evidence, "kvm")
    assert (error.asked, error.found) == ("kvm", "tcg (live XML)")
    assert "QMP query-kvm" in error.hint


def test_a_device_that_is_not_there_is_contradicted() -> None:
    """Nothing is proven by silence."""
    error = first_error(Recorded(PLAIN).config, changed(PLAIN, nodes=(), device={}, controller={}))
    assert error.found == "no block node of the disk (QMP query-named-block-nodes)"
    assert "no such device" in error.hint


def test_a_disk_that_was_written_is_not_fresh() -> None:
    """A first write can be measured once."""
    config = StorageConfig(**{**Recorded(PLAIN).config.model_dump(), "state": "fresh"})
    assert "state" in proven_fields(attest(config, "tcg", changed(PLAIN, written_bytes=0)))
    error = first_error(config, changed(PLAIN, written_bytes=4096))
    assert (error.asked, error.found) == ("fresh (0 bytes written)", "4096 bytes written (QMP query-blockstats)")


def test_falloc_and_full_are_not_told_apart_without_extents() -> None:
    """A tmpfs shows none: that is no proof, and no contradiction."""
    config = StorageConfig(**{**Recorded(PLAIN).config.model_dump(), "preallocation": "full"})
    image = ImageFacts(length_bytes=config.size, allocated_bytes=config.size, unwritten=None)
    (proof,) = [p for p in attest(config, "tcg", changed(PLAIN, image=image)) if p.field == "preallocation"]
    assert (proof.status, proof.found) == ("unprovable", "falloc or full")
    assert "extents" in proof.why


@pytest.mark.parametrize(("size", "is_idle"), [("1G", True), ("8G", False)])
def test_an_l2_cache_that_covers_the_disk_is_warned_of(size: str, is_idle: bool) -> None:
    """It is in effect, and cannot show anything."""
    name = next(name for name in NAMES if "metadata_cache_size" in name)
    proofs = Recorded(name).proofs(size=size)
    assert any(p.field == "metadata_cache_size" and p.why.startswith(IDLE) for p in proofs) is is_idle
    assert "metadata_cache_size" in proven_fields(proofs)


def test_a_sum_is_no_proof_of_another_l2_cache() -> None:
    """A cache-size of 1M has 768k for L2 tables: that was once taken for an L2 cache of 1M."""
    name = next(name for name in NAMES if "metadata_cache_size" in name)
    wrong = Recorded(name).proofs(metadata_cache_size=None, l2_cache_size=2**20)
    found = {p.found for p in wrong if (p.field, p.status) == ("l2_cache_size", "contradicted")}
    assert found == {"768k"}
    right = Recorded(name).proofs(metadata_cache_size=None, l2_cache_size=768 * 2**10)
    assert "l2_cache_size" not in of(right, "contradicted")


def test_more_queues_than_cpus_are_warned_of() -> None:
    """The guest's kernel uses one a CPU."""
    facts = Recorded(PLAIN).facts
    assert facts is not None
    (proof,) = [p for p in attest_guest(StorageConfig(queues=4, size="128M"), facts) if p.field == "queues"]
    assert (proof.status, proof.why.startswith(IDLE)) == ("unprovable", True)


@pytest.mark.parametrize(("memory_kib", "holds"), [(468404, True), (400000, False), (530000, False)])
def test_a_guest_sees_its_memory_but_for_what_its_kernel_took(memory_kib: int, holds: bool) -> None:
    """Between 50 and 64 MiB of 256 MiB to 1 GiB were missing in real guests, and 80 MiB of 2 GiB."""
    facts = Recorded(PLAIN).facts
    assert facts is not None
    told = attest_guest(Recorded(PLAIN).config, facts.model_copy(update={"memory_kib": memory_kib}))
    (proof,) = [proof for proof in told if proof.field == "memory"]
    assert proof.status == ("proven" if holds else "contradicted")


def test_memory_that_a_balloon_took_is_contradicted() -> None:
    """The domain has it, and the guest does not."""
    evidence = Recorded(PLAIN).evidence
    xml = evidence.xml.replace("524288</currentMemory>", "262144</currentMemory>")
    assert xml != evidence.xml
    error = first_error(Recorded(PLAIN).config, changed(PLAIN, xml=xml))
    assert (error.asked, error.found) == ("512M", "256M of 512M (live XML)")


def test_a_guest_that_does_not_tell_its_mounts_proves_no_file_system() -> None:
    """An older recording, or another guest's answer: no proof, and no contradiction."""
    facts = Recorded(PLAIN).facts
    assert facts is not None
    told = attest_guest(Recorded(PLAIN).config, facts.model_copy(update={"mounted": None}))
    open_ones = {proof.field for proof in told if proof.status == "unprovable"}
    assert open_ones == {"guest_fs", "guest_mkfs", "guest_mount"}


def test_nvme_cannot_prove_its_cache_from_the_guest() -> None:
    """QEMU's device says write back in every mode; its own property tells."""
    name = next(name for name in NAMES if "writethrough-nvme" in name)
    cache = [proof for proof in Recorded(name).proofs() if proof.field == "cache"]
    assert {proof.where: proof.status for proof in cache}["guest sysfs"] == "unprovable"
    assert {proof.where: proof.status for proof in cache}["QMP qom-get of the device, write-cache"] == "proven"


@pytest.mark.parametrize(("name", "is_kept"), [(PLAIN, True), ("null-writethrough-nvme", False)])
def test_the_write_cache_in_effect_is_proven_too(name: str, *, is_kept: bool) -> None:
    """The property says what a device began with: QEMU turns an ATA disk's cache on when it restores a guest."""
    evidence = Recorded(name).evidence
    for is_on in (True, False):
        proofs = attest(Recorded(name).config, "tcg", changed(name, inserted={**evidence.inserted, "writeback": is_on}))
        (found,) = (p for p in proofs if p.where == "QMP query-block, writeback")
        assert (found.field, found.found) == ("cache", f"write-cache {'on' if is_on else 'off'}")
        assert found.status == ("proven" if is_on is is_kept else "contradicted")


@pytest.mark.parametrize("values", [{"format": "vmdk"}, {"bus": "usb"}], ids=str)
def test_discards_that_go_nowhere_are_warned_of(values: dict[str, object]) -> None:
    """The option is in effect, and no block is freed."""
    lab_config = StorageConfig(discard="unmap", size="128M", **values)
    facts = Recorded("raw-none-usb-off").facts
    assert facts is not None
    of_image = attest(lab_config, "tcg", Recorded(PLAIN).evidence)
    warned = [p for p in (*of_image, *attest_guest(lab_config, facts)) if p.why.startswith(IDLE)]
    assert {proof.field for proof in warned} == {"discard"}


def test_proofs_stand_in_the_order_of_the_fields_and_none_is_missing() -> None:
    """A field that no source speaks of says that."""
    proofs = conclude(StorageConfig(), ())
    assert [proof.field for proof in proofs] == list(FIELDS)
    assert {proof.status for proof in proofs} == {"unprovable"}
    assert all(proof.why for proof in proofs)


def told(proofs: tuple[Proof, ...]) -> set[tuple[str, str, str]]:
    """What was found where, but on QEMU's command line, for a fake has no log, and of what its host has mounted."""
    return {(p.field, p.where, p.found) for p in proofs if p.where not in (COMMAND_LINE, ON_HOST)}


def fake_guest(folder: Path, config: StorageConfig) -> Guest:
    """The guest of that cell in a lab of fakes."""
    hypervisor = FakeHypervisor(lambda _xml: FakeDomain(make_guest_shell(config)))
    return make_lab(folder, hypervisor=hypervisor).guest(config)


@pytest.mark.parametrize("bus", get_args(Bus))
def test_a_fake_guest_attests_as_a_real_one_does(tmp_path: Path, bus: Bus) -> None:
    """The shipped fake's monitor, image and guest say what was recorded, word for word."""
    config = StorageConfig(bus=bus, size="128M")
    assert told(fake_guest(tmp_path, config).proof) == told(conclude(config, Recorded(str(config)).proofs()))


@pytest.mark.parametrize("name", [NULL, "null-writethrough-nvme"])
def test_a_fake_guest_without_storage_attests_as_a_real_one_does(tmp_path: Path, name: str) -> None:
    """QEMU has one node for it on nvme, where there is no file whose driver libvirt replaces."""
    config, evidence = Recorded(name).config, Recorded(name).evidence
    assert told(fake_guest(tmp_path, config).proof) == told(conclude(config, Recorded(name).proofs()))
    nodes = [node["node-name"] for node in answer_monitor(evidence.xml, "query-named-block-nodes", {})]
    assert nodes == [node["node-name"] for node in (*evidence.nodes, *evidence.blockdevs)]


@pytest.mark.parametrize("bus", get_args(Bus))
@pytest.mark.parametrize("backing", ["file", "null"])
def test_a_fake_guest_has_its_limits(tmp_path: Path, bus: Bus, backing: str) -> None:
    """On every bus, with and without storage."""
    guest = fake_guest(tmp_path, StorageConfig(bus=bus, backing=backing, total_iops_sec=200, size="128M"))
    found = {p.found for p in guest.proof if p.field == "total_iops_sec"}
    assert found == {"200"}


@pytest.mark.parametrize("bus", get_args(Bus))
@pytest.mark.parametrize("cache", get_args(Cache))
def test_a_fake_guest_of_every_bus_and_cache_attests(tmp_path: Path, bus: Bus, cache: Cache) -> None:
    """But for those that a real QEMU 7.2 has not either: a disk on usb writes back in every mode."""
    config = StorageConfig(bus=bus, cache=cache, size="128M")
    if bus == "usb" and cache in ("writethrough", "directsync"):
        with pytest.raises(AttestationError, match="is write-cache auto"):
            fake_guest(tmp_path, config)
        return
    assert "cache" in proven_fields(fake_guest(tmp_path, config).proof)


@pytest.mark.parametrize("kind", get_args(Format))
def test_a_fake_guest_of_every_format_attests(tmp_path: Path, kind: Format) -> None:
    """The shipped fake's qemu-img agrees too."""
    assert "format" in proven_fields(fake_guest(tmp_path, StorageConfig(format=kind, size="128M")).proof)


@pytest.mark.parametrize("kind", get_args(GuestFs))
def test_a_fake_guest_of_every_file_system_attests(tmp_path: Path, kind: GuestFs) -> None:
    """With its scheduler and its memory, and a test file to run on."""
    options = {} if kind == "none" else {"guest_mount": "noatime"}
    config = StorageConfig(guest_fs=kind, scheduler="bfq", memory="1G", size="512M", **options)
    guest = fake_guest(tmp_path, config)
    fields = {"guest_fs", "guest_mkfs", "guest_mount", "scheduler", "memory"}
    assert fields <= set(proven_fields(guest.proof))
    assert (guest.file_system is None) is (kind == "none")


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"compression": "zstd"}, {"compression", "state"}),
        ({"encryption": "luks", "backing_chain": 2}, {"encryption", "backing_chain", "state"}),
        ({"encryption": "luks", "bus": "nvme"}, {"encryption"}),
        ({"snapshots": 3}, {"snapshots", "state"}),
        ({"format": "vmdk", "subformat": "streamOptimized"}, {"subformat"}),
    ],
    # a set's own text changes from process to process
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_a_fake_guest_of_layered_images_attests(tmp_path: Path, values: dict[str, object], fields: set[str]) -> None:
    """The shipped fake counts what it was asked to write."""
    config = StorageConfig(**{"format": "qcow2", "size": "128M", **values})
    assert fields <= set(proven_fields(fake_guest(tmp_path, config).proof))


def test_a_fake_guest_with_another_disk_is_refused_and_removed(tmp_path: Path) -> None:
    """The cell is broken for the run, with the same error each time; the guest does not go on."""
    config = StorageConfig(size="128M")
    hypervisor = FakeHypervisor(
        lambda xml: FakeDomain(make_guest_shell(config), live_xml=xml.replace('cache="none"', 'cache="unsafe"'))
    )
    lab = make_lab(tmp_path, hypervisor=hypervisor)
    for _ in range(2):
        with pytest.raises(AttestationError, match="asked to be none but is unsafe"):
            lab.guest(config)
    lab.factory.settle()
    assert (len(hypervisor.domains), hypervisor.running) == (1, [])


def test_a_guest_that_ends_while_it_is_asked_is_told_with_its_consoles_tail(tmp_path: Path) -> None:
    """As one that ends while it boots."""

    def boot(_xml: str) -> FakeDomain:
        domain = FakeDomain(make_guest_shell())
        domain.die()
        return domain

    lab = make_lab(tmp_path, hypervisor=FakeHypervisor(boot))
    with pytest.raises(GuestDiedError, match=r"monitor command(.|\n)*init: ready"):
        lab.guest(StorageConfig())


def test_qemus_command_line_is_read_out_of_its_log() -> None:
    """The file's options last; another disk's, and a path with a quote in it, do not confuse."""
    log = (
        "2026-11-20 14:36:04+0000: starting up libvirt version: 9.0.0\n"
        "/usr/bin/qemu-system-x86_64 \\\n"
        """-blockdev '{"driver":"file","filename":"/root.erofs","node-name":"libvirt-2-storage"}' \\\n"""
        """-blockdev '{"driver":"file","filename":"/it'\\''s","aio":"native","node-name":"libvirt-1-storage"}' \\\n"""
        """-blockdev '{"driver":"raw","node-name":"libvirt-1-format","file":"libvirt-1-storage"}' \\\n"""
        "-msg timestamp=on\n"
    )
    layer, storage = blockdevs(log, "/it's")
    assert (layer["driver"], storage["aio"]) == ("raw", "native")
    assert blockdevs(log, "/other") == ()
    assert blockdevs("", "/other") == ()


def test_qemu_img_finds_the_format_itself(tmp_path: Path) -> None:
    """On this machine's qemu-img: nobody tells it what the image should be."""
    shell = LocalShell()
    assert shell.run(["qemu-img", "create", "-q", "-f", "qcow2", f"{tmp_path}/d.raw", "1M"]).ok
    assert image_chain(shell, "raw", f"{tmp_path}/d.raw")[0]["format"] == "qcow2"


def test_gathering_asks_for_little(tmp_path: Path) -> None:
    """One qemu-img and a few monitor commands: a guest's boot must not wait for it."""
    asked: list[str] = []

    class Counting(FakeDomain):
        def monitor(self, command: str, **arguments: Any) -> Any:
            asked.append(command)
            return super().monitor(command, **arguments)

    lab = make_lab(tmp_path, hypervisor=FakeHypervisor(lambda _xml: Counting(make_guest_shell())))
    guest = lab.guest(StorageConfig())
    commands = [line for line in lab.shell.lines if line.startswith("qemu-img info")]  # type: ignore[attr-defined]
    assert len(commands) == 1
    assert len(asked) <= 16
    assert gather(guest.machine, lab.shell, "").fallbacks is None


@pytest.mark.parametrize("state", ["filled", "rewritten", "aged"])
def test_a_state_that_is_made_later_is_not_proven_by_an_empty_disk(state: str) -> None:
    """No byte was written yet: that proves a fresh disk, and no other."""
    proofs = Recorded(PLAIN).proofs(state=state)
    assert {proof.status for proof in proofs if proof.field == "state"} == {"unprovable"}
    fresh = Recorded(PLAIN).proofs(state="fresh")
    assert {proof.status for proof in fresh if proof.field == "state"} == {"proven"}
