"""Image operations on files: by qemu-img, or by a file system that shares blocks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pytest_vmstorage.config.cell import Format, StorageConfig
from pytest_vmstorage.config.rules.image import EXTENTS, PREALLOCATIONS
from pytest_vmstorage.host.shell import Shell, check
from pytest_vmstorage.storage.encryption import image_name, secret_argv
from pytest_vmstorage.storage.extents import file_extents, union_bytes
from pytest_vmstorage.storage.image import create_argv, create_options
from pytest_vmstorage.storage.layers import is_compressed
from pytest_vmstorage.storage.space import metadata_bytes
from pytest_vmstorage.workloads.image_operations import ImageOperations, Operation

_SNAPSHOT = "s1"
_REFLINK = "cp --reflink=always"
_RESIZED = ("raw", "qcow2", "qed")
_SECTOR = 512


class OperationStep(NamedTuple):
    """The way to do an operation: lines of bash, in which "$1" is the images' folder, and `by` what, in a few words.

    `undo` are lines that remove its result, once it was looked at.
    """

    lines: tuple[str, ...]
    by: str
    undo: tuple[str, ...] = ()


class Impossible(NamedTuple):
    """The reason why an operation cannot be done there, in a clause."""

    why: str


Steps = Mapping[Operation, OperationStep | Impossible]


class ImagePlace(Protocol):
    """The place of an image and of what operations make of it.

    `image`, `clone` and `converted` are names for qemu-io, each with the format to open it with ("" where the name
    contains it); `path` is the image's file or block device.
    """

    path: str
    folder: str
    image: tuple[str, str]
    clone: tuple[str, str]
    converted: tuple[str, str]
    steps: Steps

    def taken(self, shell: Shell) -> int:
        """Bytes that the image and its copies take now; raises ProvisionError."""

    def clear(self, shell: Shell) -> None:
        """Remove all that is left of a round, also of a failed one; missing files are not an error."""


def step(by: str, *commands: Sequence[str], undo: Sequence[str] = ()) -> OperationStep:
    """The step of these commands, an argv each, as lines of bash; `undo` is the command that removes what they made."""
    return OperationStep(tuple(map(shlex.join, commands)), by, (shlex.join(undo),) if undo else ())


class FileImage:
    """An image in a folder of its own; `shares_blocks` says whether `cp --reflink=always` works there, on `kind`."""

    def __init__(
        self, config: StorageConfig, folder: str, workload: ImageOperations, *, kind: str, shares_blocks: bool
    ) -> None:
        self._config = config
        self.folder = folder
        self._kind = kind
        self._reflinks = shares_blocks and config.subformat not in (*EXTENTS, "streamOptimized")
        self.path, copy, kept = (f"{folder}/{name}.{config.format}" for name in ("image", "clone", "snapshot"))
        target = workload.target_format(config)
        self._copy, self._kept, self._target = copy, kept, f"{folder}/converted.{target}"
        name = image_name(config, self.path)
        self._chosen = () if name.startswith("json:") else ("-f", config.format)
        self.image = _readable(config, name)
        self.clone = _readable(config, image_name(config, copy, self.path))
        own = _readable(config, image_name(config, self._target))
        self.converted = own if target == config.format else (self._target, target)
        self.steps: Steps = dict(self._steps(name, target, workload.data))

    def _steps(self, name: str, target: Format, growth: int) -> Iterator[tuple[Operation, OperationStep | Impossible]]:
        config = self._config
        yield "create", step("qemu-img create", create_argv(config, self.path))
        yield "preallocate", self._preallocate()
        snapshot = ("qemu-img", "snapshot", *secret_argv(config), "-q")
        if config.format == "qcow2":
            yield "snapshot", step("qemu-img snapshot -c", (*snapshot, "-c", _SNAPSHOT, name))
            yield "rollback", step("qemu-img snapshot -a", (*snapshot, "-a", _SNAPSHOT, name))
        else:
            yield "snapshot", self._reflink(self.path, self._kept, "internal snapshots, which only qcow2 has")
            yield "rollback", self._reflink(self._kept, self.path, "internal snapshots, which only qcow2 has")
        yield "clone", self._clone()
        convert = convert_argv(config, name, target, self._target)
        yield "convert", step(f"qemu-img convert -O {target}", convert, undo=rm_argv(self._target))
        yield "resize", self._resize(name, growth)
        yield "delete", OperationStep(('rm -f -- "$1"/*',), "rm")

    def _preallocate(self) -> OperationStep | Impossible:
        config = self._config
        if "full" not in PREALLOCATIONS.get(config.format, ()):
            return Impossible(f"qemu-img takes preallocation=full for {config.format} and does nothing")
        if config.preallocation == "full":
            return Impossible("the cell's own preallocation is full, and create times it")
        path = f"{self.folder}/full.{config.format}"
        argv = create_argv(config.model_copy(update={"preallocation": "full"}), path)
        return step("qemu-img create -o preallocation=full", argv, undo=rm_argv(path))

    def _clone(self) -> OperationStep | Impossible:
        config = self._config
        if config.format not in ("qcow2", "qed", "vmdk") or config.subformat in (*EXTENTS, "streamOptimized"):
            return self._reflink(self.path, self._copy, "backing files", undo=self._copy)
        # data in the image below cannot be preallocated again
        above = config.model_copy(update={"preallocation": "off"})
        return step("qemu-img create -b", create_argv(above, self._copy, self.path), undo=rm_argv(self._copy))

    def _reflink(self, source: str, target: str, lacks: str, undo: str = "") -> OperationStep | Impossible:
        if self._reflinks:
            return step(_REFLINK, (*_REFLINK.split(), "--", source, target), undo=rm_argv(undo) if undo else ())
        name = " ".join(filter(None, (self._config.format, self._config.subformat)))
        if self._config.subformat in (*EXTENTS, "streamOptimized"):
            return Impossible(f"{name} takes no {lacks}, and a copy of its file alone is no image to write to")
        return Impossible(f"{name} has no {lacks}, and {self._kind} shares no blocks between files")

    def _resize(self, name: str, growth: int) -> OperationStep | Impossible:
        config = self._config
        if config.format not in _RESIZED:
            return Impossible(f"QEMU's {config.format} driver does not support resize")
        preallocates = (f"--preallocation={config.preallocation}",) if config.preallocation != "off" else ()
        chosen = (*secret_argv(config), *self._chosen, *preallocates)
        return step("qemu-img resize", ("qemu-img", "resize", *chosen, "-q", name, f"+{growth}"))

    def taken(self, shell: Shell) -> int:
        """Allocated blocks of all files in the folder (stat), those that several share counted once (filefrag)."""
        return files_bytes(shell, self.folder, shares_blocks=self._reflinks)

    def clear(self, shell: Shell) -> None:
        """Remove all files."""
        clear_folder(shell, self.folder)


def _readable(config: StorageConfig, name: str) -> tuple[str, str]:
    return (name, "" if name.startswith("json:") else config.format)


def rm_argv(path: str) -> tuple[str, ...]:
    """The line that removes a file."""
    return ("rm", "-f", "--", path)


def convert_argv(config: StorageConfig, name: str, target: Format, path: str) -> tuple[str, ...]:
    """The line that converts the cell's image: with its own options into its own format, with defaults into others."""
    is_own = target == config.format
    options = ",".join(create_options(config)) if is_own else ""
    return (
        *("qemu-img", "convert", "-q", *secret_argv(config)),
        *(() if name.startswith("json:") else ("-f", config.format)),
        *("-O", target, *(("-c",) if is_own and target == "qcow2" and is_compressed(config) else ())),
        *(("-o", options) if options else ()),
        *(name, path),
    )


def room_needed(config: StorageConfig, data_bytes: int, *, preallocates: bool = True) -> int:
    """The most bytes of files that a round has at once: the image, its snapshot's data, and one more image.

    A volume takes only the file into which it is converted.
    """
    if config.backing_kind != "file":
        return 2 * data_bytes
    is_whole = config.preallocation in ("falloc", "full") or config.subformat in (*EXTENTS, "fixed")
    own = (config.size if is_whole else data_bytes) + 2 * data_bytes
    beside = config.size if is_whole or preallocates else 2 * data_bytes
    return own + max(beside, 2 * data_bytes) + 2 * metadata_bytes(config)


def shares_blocks(shell: Shell, folder: str) -> bool:
    """Whether a file there can be copied by sharing its blocks, by a trial."""
    script = 'printf %4096s x >"$1/a" && cp --reflink=always "$1/a" "$1/b"; done=$?; rm -f "$1/a" "$1/b"; exit $done'
    return shell.run(["sh", "-c", script, "sh", folder]).ok


def files_bytes(shell: Shell, folder: str, *, shares_blocks: bool = False) -> int:
    """Bytes that the files of a folder take; raises ProvisionError."""
    counted = shell.run(["find", folder, "-type", "f", "-printf", "%b\n"])
    blocks = sum(int(line) for line in check(counted, f"looking at {folder}").stdout.split())
    if not shares_blocks:
        return blocks * _SECTOR
    listed = shell.run(["find", folder, "-type", "f", "-exec", "filefrag", "-s", "-b512", "-v", "{}", ";"])
    return blocks * _SECTOR - shared_bytes(listed.stdout)


def shared_bytes(listing: str) -> int:
    """The bytes on the disk that `filefrag -v` counts more than once among several files."""
    places = [one.place for one in file_extents(listing)]
    return sum(one.length_bytes for one in places) - union_bytes(places)


# after Ctrl-C a tool may go on by itself, and write to a file that no longer has a name; one find looks at all
# processes, for a host has hundreds
_CLEAR = r"""
real=$(readlink -f -- "$1") && [ -n "$real" ] || exit 0
pattern=$(printf %s "$real" | sed 's/[][*?\\]/\\&/g')
for process in $(find /proc/[0-9]*/cwd -maxdepth 0 -lname "$pattern" -printf '%h\n' 2>/dev/null); do
  kill -9 "${process#/proc/}"
done 2>/dev/null
find "$1" -mindepth 1 -delete
"""


def clear_folder(shell: Shell, folder: str) -> None:
    """Kill the processes that work in the folder, and remove its contents."""
    shell.run(["sh", "-c", _CLEAR, "sh", folder])
