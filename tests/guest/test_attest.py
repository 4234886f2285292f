"""Cells that lie: disks and images built otherwise than their label says, on real guests; each one is caught."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from pytest_vmstorage.config import cell as config_module
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import AttestationError, HypervisorError
from pytest_vmstorage.guest import domain_xml
from pytest_vmstorage.guest.domain_xml import GuestSpec
from pytest_vmstorage.host.lease import Lease
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.lab import factory
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.storage import disk, image
from pytest_vmstorage.storage import image as disk_module
from pytest_vmstorage.storage.image import ImageFacts

# every label is a cell of its own: one that failed is not tried again
# sizes that no other test uses: the lab remembers which cells failed
SIZES = itertools.count(301)


def label(**values: object) -> StorageConfig:
    """What the cell is called."""
    return StorageConfig(**values, size=next(SIZES) * 2**20)


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What sabotages, and is undone."""
    with monkeypatch.context() as context:
        yield context


def build_xml_as(patch: pytest.MonkeyPatch, **values: object) -> None:
    """Let guests get the XML of another cell than their own."""
    real = domain_xml.domain_xml

    def other(spec: GuestSpec, lease: Lease | None = None) -> str:
        assert spec.config is not None
        return real(spec.model_copy(update={"config": spec.config.model_copy(update=values)}), lease)

    patch.setattr(factory, "domain_xml", other)


def edit_xml(patch: pytest.MonkeyPatch, pattern: str, replacement: str) -> None:
    """Let guests get XML that was edited."""
    real = domain_xml.domain_xml

    def edited(spec: GuestSpec, lease: Lease | None = None) -> str:
        text, count = re.subn(pattern, replacement, real(spec, lease))
        assert count, f"{pattern} is not in the XML."
        return text

    patch.setattr(factory, "domain_xml", edited)


def build_image_as(patch: pytest.MonkeyPatch, pattern: str, replacement: str) -> None:
    """Let images be made by an edited qemu-img line."""
    real = disk_module.create_argv

    def edited(config: StorageConfig, path: str) -> tuple[str, ...]:
        # the path and the size stay, whatever they hold
        *words, path, size = real(config, path)
        text, count = re.subn(pattern, replacement, " ".join(words))
        assert count, f"{pattern} is not in {words}."
        return (*text.split(), path, size)

    patch.setattr(disk_module, "create_argv", edited)


def caught(lab: Lab, config: StorageConfig) -> AttestationError:
    """The error of a cell that is not what its label says."""
    with pytest.raises(AttestationError) as error:
        lab.guest(config)
    return error.value


XML_LIARS = [
    ("cache", {}, {"cache": "writeback"}),
    ("cache", {"cache": "writethrough"}, {"cache": "writeback"}),
    ("cache", {"cache": "unsafe"}, {"cache": "writeback"}),
    ("io", {"io": "native"}, {"io": "threads"}),
    ("bus", {}, {"bus": "sata"}),
    ("detect_zeroes", {"detect_zeroes": "on"}, {"detect_zeroes": "off"}),
    ("discard", {"discard": "unmap"}, {"discard": "ignore"}),
    ("iothread", {"iothread": True}, {"iothread": False}),
    ("queue_size", {"queue_size": 512}, {"queue_size": 128}),
    ("machine", {"machine": "pc"}, {"machine": "q35"}),
]


@pytest.mark.parametrize(("field", "labelled", "built"), XML_LIARS, ids=lambda value: str(value).replace(" ", ""))
def test_a_domain_unlike_its_label_is_caught(
    lab: Lab, patch: pytest.MonkeyPatch, field: str, labelled: dict[str, object], built: dict[str, object]
) -> None:
    """The first thing told is the field that was built otherwise, with the value asked for and the one found."""
    build_xml_as(patch, **built)
    config = label(**labelled)
    error = caught(lab, config)
    assert error.field == f"{field} of {config}"
    asked, found = str(getattr(config, field)), str(built[field])
    yes_no = {"True": "yes", "False": "no"}
    assert error.asked.startswith(yes_no.get(asked, asked).removesuffix("-blk"))
    assert error.found.startswith(yes_no.get(found, found))
    assert error.asked in str(error)
    assert error.found in str(error)


IMAGE_LIARS = [
    ("format", {"format": "qcow2"}, "compat=1.1,lazy_refcounts=off", "compat=0.10", "qcow2 compat 0.10"),
    ("cluster_size", {"format": "qcow2", "cluster_size": "128k"}, "cluster_size=131072", "cluster_size=32768", "32k"),
    ("lazy_refcounts", {"format": "qcow2", "lazy_refcounts": True}, "lazy_refcounts=on", "lazy_refcounts=off", "no"),
    ("extended_l2", {"format": "qcow2", "extended_l2": True}, ",extended_l2=on", "", "no"),
    ("subformat", {"format": "vmdk", "subformat": "monolithicFlat"}, "monolithicFlat", "monolithicSparse", "monol"),
    ("preallocation", {"preallocation": "full"}, "preallocation=full", "preallocation=off", "off"),
    ("preallocation", {"preallocation": "full"}, "preallocation=full", "preallocation=falloc", "falloc"),
    ("preallocation", {}, "preallocation=off", "preallocation=full", "full"),
    ("format", {"preallocation": "full"}, "-f raw", "-f qcow2", "qcow2"),
]


@pytest.mark.parametrize(
    ("field", "labelled", "pattern", "replacement", "found"), IMAGE_LIARS, ids=lambda value: str(value).replace(" ", "")
)
def test_an_image_unlike_its_label_is_caught(
    lab: Lab,
    patch: pytest.MonkeyPatch,
    field: str,
    labelled: dict[str, object],
    pattern: str,
    replacement: str,
    found: str,
) -> None:
    """Made by qemu-img with other options than the cell has."""
    build_image_as(patch, pattern, replacement)
    error = caught(lab, label(**labelled))
    assert error.field.startswith(f"{field} of ")
    assert error.found.startswith(found)
    assert error.asked in str(error)


def test_a_raw_image_labelled_qcow2_does_not_start(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """Swapped after it was made: QEMU itself refuses it."""
    real = image.make_disk

    def swapped(shell: Shell, config: StorageConfig, path: str) -> ImageFacts:
        facts = real(shell, config, path)
        assert shell.run(["qemu-img", "create", "-q", "-f", "raw", path, str(config.size)]).ok
        return facts

    patch.setattr(disk, "make_disk", swapped)
    with pytest.raises(HypervisorError, match="not in qcow2 format"):
        lab.guest(label(format="qcow2"))


def test_a_vmdk_that_took_preallocation_and_did_nothing_is_caught(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """qemu-img's exit status is 0; the image's blocks tell, where the rule that refuses such a cell is not there."""
    build_image_as(patch, "-f vmdk", "-f vmdk -o preallocation=full")
    patch.setattr(config_module, "broken_rules", lambda _cell: ())
    error = caught(lab, label(format="vmdk", preallocation="full"))
    assert (error.asked, error.found.split()[0]) == ("full", "off")


@pytest.mark.parametrize("cache", ["writethrough", "directsync"])
def test_usb_with_writethrough_is_caught(lab: Lab, cache: str) -> None:
    """QEMU 7.2 gives the option to usb-storage, and the disk inside it keeps its volatile cache; 10.0 hands it on."""
    config = label(bus="usb", cache=cache)
    if int(lab.facts.qemu.partition(".")[0]) >= 10:
        assert lab.guest(config).facts.write_cache == "write through"
        return
    error = caught(lab, config)
    assert error.asked == f"{cache} (write-cache off)"
    assert error.found.startswith("write-cache auto")


def test_a_scsi_disk_without_its_controller_is_caught(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """On pc libvirt silently makes an LSI 53C895A of it."""
    edit_xml(patch, r'<controller type="scsi"[^>]*/>', "")
    error = caught(lab, label(bus="virtio-scsi", machine="pc"))
    assert (error.asked, error.found) == ("scsi, virtio-scsi", "scsi, lsilogic (live XML)")
    assert "lsi53c895a" in str(error)


def test_detect_zeroes_unmap_without_discard_is_caught(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """libvirt makes "on" of it: what is ignored below cannot be unmapped; seen also where no rule refuses it."""
    patch.setattr(config_module, "broken_rules", lambda _cell: ())
    error = caught(lab, label(detect_zeroes="unmap"))
    assert (error.asked, error.found) == ("unmap", "on (QMP query-named-block-nodes)")


def test_native_io_of_a_vmdk_with_extents_is_caught(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """The option reaches the descriptor, and not the files that hold the data; seen where no rule refuses it."""
    patch.setattr(config_module, "broken_rules", lambda _cell: ())
    error = caught(lab, label(format="vmdk", subformat="monolithicFlat", io="native"))
    assert error.asked == "native"
    assert error.found.startswith("threads for the extents")


def test_an_attribute_libvirt_does_not_know_is_refused(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """Without the schema it would be dropped without a word."""
    edit_xml(patch, 'cache="none"', 'cache="none" bogus="1"')
    with pytest.raises(HypervisorError, match="failed to validate against schema"):
        lab.guest(label())


def test_emulation_labelled_kvm_is_caught(lab: Lab, patch: pytest.MonkeyPatch) -> None:
    """A figure from software emulation never passes for one from KVM."""
    real = domain_xml.domain_xml

    def emulated(spec: GuestSpec, lease: Lease | None = None) -> str:
        return real(spec.model_copy(update={"accel": "tcg"}), lease)

    patch.setattr(factory, "domain_xml", emulated)
    patch.setattr(lab.provisioner, "accel", lab.accel.model_copy(update={"used": "kvm"}))
    error = caught(lab, label())
    assert (error.asked, error.found) == ("kvm", "tcg (live XML)")
    assert "QMP query-kvm" in str(error)


@pytest.mark.quick
def test_an_honest_cell_is_handed_out_with_its_proof(lab: Lab) -> None:
    """The checks above do not catch what is right; the disk is filled later, and that is the one thing left open."""
    guest = lab.guest(label())
    assert {proof.status for proof in guest.proof} == {"proven", "unprovable"}
    assert {proof.field for proof in guest.proof if proof.status == "unprovable"} == {"state"}
