"""tiobench and AIO-Stress as fio jobs: benchmarks that published comparisons ran with Phoronix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pydantic import Field, model_validator
from pydantic.functional_validators import ModelWrapValidatorHandler

from pytest_vmstorage.config.cell import Count
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import Bytes, parse_size
from pytest_vmstorage.workloads.fio.fio import Engine, Fio, Rw

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import AioStressOptions, TiobenchOptions

_TIOBENCH_OPERATIONS = 1000
_AIO_STRESS_DEPTH = 64


class _Preset(Fio):
    """A fio job with defaults that follow from a few of its options; its rate is MiB/s, as in the original."""

    primary: ClassVar[str] = "bw"

    @classmethod
    def follows(cls, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """The options that follow from the given ones, whose values may be as a user wrote them."""
        raise NotImplementedError

    @model_validator(mode="wrap")
    @classmethod
    def _as_the_original(cls, data: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        said = dict(data)
        if said.get("rw") in ("rw", "readwrite", "randrw"):
            raise ConfigError(
                f"{cls.__name__}(rw={said['rw']!r}): the original reads or writes.",
                hint="Use Fio for a mixed job.",
                code="VM302",
            )
        made = make({**cls.follows(said), **said})
        # options that followed do not count as given, so that `over` derives them anew
        made.model_fields_set.intersection_update(said)
        return made

    def _usual(self, name: str) -> object:
        own = type(self).follows({known: getattr(self, known) for known in ("rw", "bs", "size", "direct", "iodepth")})
        return own.get(name, super()._usual(name))


class Tiobench(_Preset):
    """tiobench ("Threaded I/O Tester") as a fio job: `Tiobench(rw="randwrite")` is a study's 64 MB and 32 threads.

    How options correspond, by the source of tiotest and by Phoronix' pts/tiobench, which runs `tiotest -S`:

    - `numjobs=32` for its threads (-t), `offset_increment` and `size="64M"` for the file that each has (-f 64)
    - `bs="4k"` for its block size, `io_size` for the 1000 random operations of each thread, which meet a block again
      (`norandommap`); `rw="read"` and `"write"` go through the whole file once
    - `ioengine="psync"` and `direct=False` for its read(2) and write(2) through the guest's page cache
    - `sync` for -S, which opens files with O_SYNC: each write is on the disk before the next
    - `pre_read` because its reads come right after its writes and find the files in the page cache. So the study's
      read figures are memory's; `pre_read=False` begins with dropped caches, and measures the disk

    Differences: jobs are processes, not threads; blocks are those of a seed, in each round the same; data is random,
    where tiotest writes zeros; the regions lie on the disk under test or in one file, not in a file each. The pages
    that are read beforehand count among the bytes that the layers moved in a round.

    Figures: those of `Fio`, `bw` in MiB/s first.
    """

    called: ClassVar[str] = "fio as tiobench"

    size: Bytes = Field(64 * 2**20, description="The size of the region that each job has, as -f of tiotest.")
    numjobs: Count = Field(32, description="The number of jobs, as -t of tiotest.")
    ioengine: Engine = Field("psync", description="Defines how the job issues I/O to the file.")
    direct: bool = Field(False, description="If value is true, use non-buffered I/O. This is usually O_DIRECT.")

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[TiobenchOptions]) -> None: ...

    @classmethod
    def follows(cls, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """A region for each job, 1000 operations where they are random, O_SYNC or warm pages by the direction."""
        rw, size = str(said.get("rw")), said.get("size", cls.model_fields["size"].default)
        own: dict[str, Any] = {"offset_increment": parse_size(size)}
        if rw.startswith("rand"):
            own |= {"io_size": _TIOBENCH_OPERATIONS * parse_size(said.get("bs", 4096)), "norandommap": True}
        if rw.endswith("write"):
            return own | {"sync": True}
        return own | {"pre_read": not said.get("direct", False)}


class AioStress(_Preset):
    """AIO-Stress as a fio job: `AioStress()` writes 2 GB in random records of 64k, as Phoronix' pts/aio-stress.

    How options correspond, by the source of aio-stress 0.21 and by pts/aio-stress, which runs `-s 2g -r 64k -t 3 -o 2`
    on one file, for which aio-stress drops its three threads to one:

    - `rw="randwrite"` for -o 2, `size="2G"` for -s, `bs="64k"` for -r, `norandommap` because it meets records again
    - `ioengine="libaio"` for its io_submit, `direct=False` because pts leaves -O out. Its 64 requests in flight are
      then one after the other, in the kernel (`iodepth=1`); with `direct=True`, as -O, `iodepth` is 64
    - no `end_fsync`, because the rate that pts reads ends before the fsync

    So the study's figure is the guest's page cache while it has room, and the disk after that: `AioStress(direct=True)`
    measures the disk.

    Differences: records begin at multiples of 64k, those of aio-stress at any page; requests are handed over one by
    one, not by eight; data is random, not zeros; and the file is there before, where aio-stress writes into a new one.

    Figures: those of `Fio`, `bw` in MiB/s first.
    """

    called: ClassVar[str] = "fio as aio-stress"

    rw: Rw = Field("randwrite", description="Type of I/O pattern, as -o of aio-stress.")
    bs: Bytes = Field(64 * 2**10, description="The size of a record, as -r of aio-stress.")
    size: Bytes = Field(2 * 2**30, description="The size of the region that is worked on, as -s of aio-stress.")
    direct: bool = Field(False, description="If value is true, use non-buffered I/O, as -O of aio-stress.")

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[AioStressOptions]) -> None: ...

    @classmethod
    def follows(cls, said: Mapping[str, Any]) -> Mapping[str, Any]:
        """The depth that is reached, and repeated records where they are random."""
        is_random = str(said.get("rw", "randwrite")).startswith("rand")
        return {"norandommap": is_random, "iodepth": _AIO_STRESS_DEPTH if said.get("direct", False) else 1}
