"""Proofs of rows without a guest of the plugin's: images, native rows, machines that the user listed."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.inventory import ListedMachine
from pytest_vmstorage.config.rules.backing import OF_AN_IMAGE, ON_THE_HOST
from pytest_vmstorage.host.device_node import NodeFacts, node_facts
from pytest_vmstorage.host.file_systems import FileSystem, look_at
from pytest_vmstorage.host.shell import Shell
from pytest_vmstorage.measure.proof.cell import conclude
from pytest_vmstorage.measure.proof.claim import DEVICE_SIZE, EXTENTS, claim, unprovable
from pytest_vmstorage.measure.proof.evidence import Evidence, image_chain, image_check
from pytest_vmstorage.measure.proof.file_systems import of_host_fs
from pytest_vmstorage.measure.proof.image import block_proofs, of_image, of_layers
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.image import ImageFacts, observed_preallocation
from pytest_vmstorage.units import format_size

_NODE = "stat and sysfs of the image"


def prove_image(shell: Shell, config: StorageConfig, path: str, folder: str, facts: ImageFacts) -> tuple[Proof, ...]:
    """A proof for each field of the image, which holds data by now; `facts` were read before that.

    Raises AttestationError where a source contradicts.
    """
    proofs = [*_of_node(shell, config, path)]
    if not facts.is_block:
        proofs += _of_file(shell, config, path, facts)
        proofs += of_host_fs(config, look_at(shell, folder, superblock=bool(config.host_mkfs)))
    concluded = conclude(config, [proof for proof in proofs if proof.field in OF_AN_IMAGE])
    return tuple(proof for proof in concluded if proof.field in OF_AN_IMAGE)


def _of_node(shell: Shell, config: StorageConfig, path: str) -> Iterator[Proof]:
    node = node_facts(shell, path)
    yield claim("backing", config.backing, str(node), _NODE, holds=node.kind == config.backing_kind)
    if node.kind != "file":
        found = format_size(node.size_bytes)
        yield claim("size", format_size(config.size), found, DEVICE_SIZE, holds=node.size_bytes >= config.size)
        yield claim("format", config.format, "the volume itself", _NODE, holds=config.format == "raw")
        yield claim("preallocation", config.preallocation, "off", "a volume is no file", holds=True)


def _of_file(shell: Shell, config: StorageConfig, path: str, facts: ImageFacts) -> Iterator[Proof]:
    chain = image_chain(shell, config.format, path)
    checks = (image_check(shell, config, path),) if config.format == "qcow2" else ()
    evidence = Evidence(
        disk=path, xml="", machine="", kvm=False, nodes=(), device={}, controller={}, written_bytes=None,
        image=facts, info=chain[0], chain=chain, checks=checks,
    )  # fmt: skip
    yield from of_image(config, chain[0], facts, {})
    yield from of_layers(config, evidence)


STATED_BY = "stated by vmstorage.toml"
"""The reason why a field of a machine's label is not proven: the layers below it cannot be seen from inside."""


def conclude_machine(listed: ListedMachine, disk: HostDisk, node: NodeFacts, size_bytes: int) -> tuple[Proof, ...]:
    """A proof for each field that the row has, and one for each field of the label, none of which is proven.

    Raises AttestationError where the disk is not what the cell says.
    """
    return (*conclude(disk.config, _of_disk(listed, disk, node, size_bytes)), *_stated(listed))


def _of_disk(listed: ListedMachine, disk: HostDisk, node: NodeFacts, size_bytes: int) -> Iterator[Proof]:
    config, where = disk.config, f"stat on {listed.target}"
    is_right = node.kind != "file" if disk.is_block else node.kind == "file"
    if disk.block is not None:
        # the device that was checked is the one that is written to
        is_right = node.number == disk.block.number
    found = f"{disk.block.description if disk.block is not None else disk.path}, {node}"
    yield claim("backing", config.backing, found, where, holds=is_right)
    enough = size_bytes >= config.size if disk.is_block else size_bytes == config.size
    yield claim("size", format_size(config.size), format_size(size_bytes), where, holds=enough)
    yield unprovable("state", config, "it is made before the rounds, after this proof", where=where)


def _stated(listed: ListedMachine) -> Iterator[Proof]:
    for field, value in listed.label.items():
        yield Proof(
            field=field, asked=value, found="unknown", status="unprovable", where="vmstorage.toml", why=STATED_BY
        )


def conclude_native(disk: HostDisk, node: NodeFacts, ground: FileSystem | None) -> tuple[Proof, ...]:
    """A proof for each field that a row without a guest has; `ground` is its file's file system, None for a device.

    Raises AttestationError where a source contradicts.
    """
    proofs = (*_of_native_file(disk), *block_proofs(disk.config, node, disk.block if disk.is_block else None))
    made = (*proofs, *of_host_fs(disk.config, ground))
    return tuple(proof for proof in conclude(disk.config, made) if proof.field in ON_THE_HOST)


def _of_native_file(disk: HostDisk) -> Iterator[Proof]:
    config, image = disk.config, disk.image
    yield unprovable("state", config, "it is made before the rounds, after this proof", where=EXTENTS)
    if image is None:
        return
    if disk.is_block:
        where = "blockdev --getsize64"
        enough = image.length_bytes >= config.size
        yield claim("size", format_size(config.size), format_size(image.length_bytes), where, holds=enough)
        yield claim("preallocation", config.preallocation, "off", "a block device has all its blocks")
        return
    found = observed_preallocation(config, image)
    if found == "falloc or full" and config.preallocation in ("falloc", "full"):
        why = "the file system shows no extents, and falloc and full differ in nothing else"
        yield unprovable("preallocation", config, why, found=found, where=EXTENTS)
    else:
        yield claim("preallocation", config.preallocation, found, EXTENTS)
    yield claim("size", format_size(config.size), format_size(image.length_bytes), EXTENTS)
