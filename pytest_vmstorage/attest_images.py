"""Is an image that was made without a guest what its cell says? What a guest alone has is no field of it."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_vmstorage.attest import conclude
from pytest_vmstorage.attest_fs import of_host_fs
from pytest_vmstorage.attest_image import of_image
from pytest_vmstorage.attest_layers import of_layers
from pytest_vmstorage.claim import DEVICE_SIZE, claim
from pytest_vmstorage.command import Shell
from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.evidence import Evidence, image_chain, image_check
from pytest_vmstorage.file_system import look_at
from pytest_vmstorage.provision.disk import ImageFacts
from pytest_vmstorage.provision.node import node_facts
from pytest_vmstorage.results import Proof
from pytest_vmstorage.rules.ground import OF_AN_IMAGE
from pytest_vmstorage.units import format_size

_NODE = "stat and sysfs of the image"


def prove_image(shell: Shell, config: StorageConfig, path: str, folder: str, facts: ImageFacts) -> tuple[Proof, ...]:
    """A proof for each field of the image, which holds data by now; `facts` are of before that.

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
