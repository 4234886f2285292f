"""Data in an image before its guest starts: compressed clusters, backing files, internal snapshots.

qemu-io writes all of it on the host, from one block of data that is repeated over the disk.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from pytest_vmstorage.config.buses import CACHES
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.qcow2_cache import cluster_bytes
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.storage.encryption import image_name, secret_argv

PATTERN_BYTES = 2**21
"""Length of the repeated block: qcow2's largest cluster, so that no cluster holds a part of it twice."""

_LARGEST_WRITE = 64 * 2**20
_UNITS = 4096
_FILLING_S = 3600.0
"""Time limit for filling one image: zlib takes 10 s a GiB, clusters of 512 bytes 4 min."""

_SHARES = 8
"""At most one such share of the disk is rewritten after each snapshot."""


def pattern(config: StorageConfig) -> bytes:
    """The block that fills the cell's disk: random, or for compression alternately 128 random bytes and text."""
    source = random.Random(20)  # noqa: S311 (the same data every time, and no secret)
    if not is_compressed(config):
        return source.randbytes(PATTERN_BYTES)
    # fine enough for half of a 512 byte cluster, the smallest, to shrink
    text = (b"compressed by half " * 7)[:128]
    return b"".join(source.randbytes(128) + text for _ in range(PATTERN_BYTES // 256))


def is_compressed(config: StorageConfig) -> bool:
    """Whether the cell's data is stored compressed."""
    return config.compression != "off" or config.subformat == "streamOptimized"


def layer_paths(config: StorageConfig, path: str) -> tuple[str, ...]:
    """The cell's backing files, the one right below the image first: disk-3.1-of-2.qcow2, disk-3.2-of-2.qcow2."""
    pure, depth = PurePosixPath(path), config.backing_chain
    return tuple(str(pure.with_suffix(f".{number}-of-{depth}{pure.suffix}")) for number in range(1, depth + 1))


def unit_bytes(config: StorageConfig) -> int:
    """The size of a piece that lies in one layer: whole clusters, and at least eight pieces for each layer."""
    cluster = cluster_bytes(config)
    unit = cluster
    most = config.size // (8 * max(config.backing_chain, config.snapshots, 1))
    while unit < 2**20 and unit * 2 <= most:
        unit *= 2
    while config.size // unit > _UNITS and unit < _LARGEST_WRITE:
        unit *= 2
    return unit


Piece = tuple[int, int]
"""Offset and length of a piece of the disk, in bytes."""


def pieces_of_layer(config: StorageConfig, layer: int) -> Iterator[Piece]:
    """The pieces in the layer of that number, from 0: layers alternate, so that a reader meets all of them."""
    return _every(config, unit_bytes(config), config.backing_chain, layer)


def pieces_after_snapshot(config: StorageConfig, snapshot: int) -> Iterator[Piece]:
    """The pieces rewritten after the snapshot of that number, from 0: only that snapshot keeps their old data."""
    return _every(config, unit_bytes(config), max(config.snapshots, _SHARES), snapshot)


def rewritten_bytes(config: StorageConfig) -> int:
    """The bytes of the disk that are rewritten after its snapshots, which then keep the old data alone."""
    each = (pieces_after_snapshot(config, number) for number in range(config.snapshots))
    return sum(length for pieces in each for _, length in pieces)


def whole_disk(config: StorageConfig) -> Iterator[Piece]:
    """The disk in writes of 64 MiB."""
    return _every(config, _LARGEST_WRITE, 1, 0)


def _every(config: StorageConfig, unit: int, turns: int, turn: int) -> Iterator[Piece]:
    for offset in range(turn * unit, config.size, turns * unit):
        yield offset, min(unit, config.size - offset)


def fill(shell: Shell, config: StorageConfig, path: str) -> None:
    """Write the data of a cell that arrives filled into its images, which are there; raises ProvisionError."""
    block = f"{path}.block"
    try:
        put_bytes(shell, pattern(config), block)
        for number, layer in enumerate(layer_paths(config, path)):
            write(shell, config, layer, block, pieces_of_layer(config, number))
        if not config.backing_chain:
            write(shell, config, path, block, whole_disk(config))
        for number in range(config.snapshots):
            argv = ("qemu-img", "snapshot", *secret_argv(config), "-q", "-c", f"s{number + 1}")
            check(shell.run([*argv, image_name(config, path)]), f"making a snapshot in {path}")
            write(shell, config, path, block, pieces_after_snapshot(config, number))
    finally:
        shell.run(["rm", "-f", "--", block])


def write(shell: Shell, config: StorageConfig, path: str, block: str, pieces: Iterator[Piece]) -> None:
    """Write the block, over and over, into these pieces of one image; raises ProvisionError."""
    commands = "".join(f"{line}\n" for line in write_commands(config, PurePosixPath(block).name, pieces))
    # qemu-io divides its commands at blanks, which a folder's name may hold: so the block is named from within it
    within = ("sh", "-c", 'cd -- "$1" && shift && exec "$@"', "sh", str(PurePosixPath(block).parent))
    done = shell.run([*within, *_qemu_io(config, path)], timeout_s=_FILLING_S, stdin=commands.encode())
    check(done, f"filling {path}")


def write_commands(config: StorageConfig, block: str, pieces: Iterator[Piece]) -> Iterator[str]:
    """qemu-io's commands for these pieces; a compressed vmdk ends with an empty write, which closes its file."""
    word = "write -q -c" if is_compressed(config) else "write -q"
    yield from (f"{word} -s {block} {offset} {length}" for offset, length in pieces)
    if config.subformat == "streamOptimized":
        yield "write -q -c 0 0"


def _qemu_io(config: StorageConfig, path: str) -> Sequence[str]:
    # as the cell itself does: not every file system has direct I/O
    mode = "none" if CACHES[config.cache].direct else "writeback"
    name = image_name(config, path)
    chosen = () if name.startswith("json:") else ("-f", config.format)
    return ("qemu-io", "-t", mode, *secret_argv(config), *chosen, name)


def put_bytes(shell: Shell, data: bytes, target: str) -> None:
    """Write these bytes to a file on the host."""
    # by way of memory: a named file would be left if this process were killed
    with os.fdopen(os.memfd_create("vmstorage"), "wb") as local:
        local.write(data)
        local.flush()
        shell.put(Path(f"/proc/{os.getpid()}/fd/{local.fileno()}"), target)
