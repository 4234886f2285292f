"""tar: a tree of files packed twice, both archives unpacked, each part timed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import Bytes, format_size
from pytest_vmstorage.workloads.base import MIB, Commands, FileWorkload, Many, Seed, Target, metrics_in
from pytest_vmstorage.workloads.script import FRESH, TIMED, bash, seconds_of

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import TarOptions

_PARTS = ("pack_1", "pack_2", "unpack_1", "unpack_2")
_COPIES = 5
_PER_FILE = 8192
_GUESSED_MIB_PER_SECOND = 50.0

# one process cuts all files out of one line, as thousands of dd would take an emulated guest minutes; folder 0 is the
# tree itself, and each folder holds up to eight others
_MAKE = (
    FRESH
    + r"""
fresh "$1"
check_room "$1" "$6" "the tree, two archives and what is unpacked need"
cd "$1"
random_line | awk -v files="$2" -v folders="$3" -v total="$4" -v seed="$5" '
  {
    srand(seed); ORS = ""; path[0] = "tree"; list = "xargs mkdir -p"
    print path[0] "\n" | list
    for (k = 1; k < folders; k++) { path[k] = path[int((k - 1) / 8)] "/d" k; print path[k] "\n" | list }
    close(list)
    for (i = 0; i < files; i++) sum += weight[i] = -log(1 - rand())
    left = total
    for (i = 0; i < files; i++) {
      size = i == files - 1 ? left : int(total * weight[i] / sum)
      left -= size
      name = path[i % folders] "/f" i
      printf "" > name
      while (size > 0) {
        piece = size < length($0) ? size : length($0)
        print substr($0, 1 + int(rand() * (length($0) - piece)), piece) > name
        size -= piece
      }
      close(name)
    }
  }'
"""
)

_RUN = (
    TIMED
    + r"""
cd "$1"
forget() { sync; [ "$(id -u)" != 0 ] || echo 3 >/proc/sys/vm/drop_caches; }
settle() { [ "$with_sync" = 0 ] || sync -f "$1"; }
pack() { tar -cf "$1" tree; settle "$1"; }
unpack() { tar -xf "$1" -C "$2"; settle "$2"; }
with_sync=$2
mkdir 1 2
part pack_1 pack 1.tar
forget
part pack_2 pack 2.tar
forget
part unpack_1 unpack 1.tar 1
forget
part unpack_2 unpack 2.tar 2
"""
)


class Tar(FileWorkload):
    """tar packs a tree of `files` in `folders` into an archive and into a second one, then unpacks both.

    The tree is made before each round, on the disk under test, of `total_size` bytes altogether; `seed` decides the
    sizes (exponentially distributed: few large and many small files) and their order. Their bytes are the kernel's
    random numbers, which no layer shrinks. Before each part the guest's caches are synced and, for root, dropped;
    the host's only before the round. The disk needs five times `total_size`.

    It measures file system and disk together: metadata, allocation, a stream of reads while another writes. Each
    part ends when the file system has written all of it; with `sync=False` when tar ends, as `time tar` does it:
    then the guest's page cache is measured too, and the label says "buffered". With some cache modes the host's page
    cache holds the archives for unpacking.

    Figures: seconds of `pack_1`, `pack_2`, `unpack_1`, `unpack_2` and of all four (`seconds`); `pack_bw` and
    `unpack_bw`, MiB/s of file content, over both.
    """

    tool: ClassVar[str] = "tar"
    shown: ClassVar[tuple[str, ...]] = ("seconds", "pack_bw", "unpack_bw")
    metrics: ClassVar[tuple[Metric, ...]] = (
        *metrics_in("s", "lower", "seconds"),
        *metrics_in("MiB/s", "higher", "pack_bw", "unpack_bw"),
        *metrics_in("s", "lower", *_PARTS),
    )

    files: Many = Field(400, description="Number of files in the tree.")
    folders: Many = Field(25, description="Number of folders in the tree.")
    total_size: Bytes = Field(32 * MIB, description="Bytes of all files together; the disk needs five times as much.")
    seed: Seed = Field(1, description="Number that decides sizes and order of the files.")
    sync: bool = Field(
        True, description="Whether a part ends when the file system has written all of it, and not when tar ends."
    )

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[TarOptions]) -> None: ...

    @classmethod
    def published(cls) -> Tar:
        """The tree of a study of 2013: 7,489 files, 5,337,369,897 bytes, 429 folders; timed without a sync."""
        return cls(files=7489, folders=429, total_size=5_337_369_897, sync=False)

    @property
    def label(self) -> str:
        """The tree, and how it was timed."""
        parts = ["tar", f"{self.files} files", f"{self.folders} folders", format_size(self.total_size)]
        return " ".join([*parts, *self._changed("seed"), *([] if self.sync else ["buffered"])])

    @property
    def bytes_on_disk(self) -> int:
        """The tree, two archives and their content, and for each file and folder two blocks of 4 KiB.

        tar(5) has a header of 512 bytes for each and pads to 512; a file system has an inode and half-filled blocks.
        """
        return _COPIES * (self.total_size + _PER_FILE * (self.files + self.folders))

    @property
    def expected_seconds(self) -> float:
        """Two seconds, and the time of four copies at 50 MiB/s."""
        return 2.0 + 4 * self.total_size / MIB / _GUESSED_MIB_PER_SECOND

    def setup(self, target: Target) -> Commands:
        """Make the tree; fails without room for it, two archives and their content."""
        numbers = (self.files, self.folders, self.total_size, self.seed, self.bytes_on_disk)
        return (bash(_MAKE, self.place(target), *map(str, numbers)),)

    def argv(self, target: Target) -> tuple[str, ...]:
        """One script for the four parts."""
        return bash(_RUN, self.place(target), str(int(self.sync)))

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from the script's times; raises WorkloadError where one is missing."""
        seconds = seconds_of(_PARTS, text)
        mib = 2 * self.total_size / MIB
        return {
            "seconds": sum(seconds.values()),
            "pack_bw": mib / (seconds["pack_1"] + seconds["pack_2"]),
            "unpack_bw": mib / (seconds["unpack_1"] + seconds["unpack_2"]),
            **seconds,
        }
