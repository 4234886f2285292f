"""fio: random and sequential I/O at a queue depth, with latencies. Options carry fio's own names."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from pytest_vmstorage.config.cell import Count
from pytest_vmstorage.config.user_input import close_to
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import Bytes, MaybeBytes, MaybeSeconds, format_size
from pytest_vmstorage.workloads.base import OptionCheck, Target
from pytest_vmstorage.workloads.fio import output
from pytest_vmstorage.workloads.fio.checks import slips
from pytest_vmstorage.workloads.fio.extra import ZONES, Extra, check_file, keeps_each_block_once, read_extra
from pytest_vmstorage.workloads.fio.job import GUESSED_SECONDS, LARGE_BS, FioJob
from pytest_vmstorage.workloads.fio.job_file import ALIASES, ZEROS, fill_in, has_section, read_options
from pytest_vmstorage.workloads.fio.output import ASYNC_ENGINES, REPORT, FioWorkload, Reading

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import FioOptions, FioSweep

Rw = Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]
Engine = Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2"]

Sync = bool | Literal["dsync"]
Verify = Literal["crc32c", "crc64", "crc32", "crc16", "crc7", "md5", "sha1", "sha256", "sha512", "xxhash"]

_SIZES = ("bs", "size", "io_size", "offset_increment", "rate")
_TIMES = ("runtime", "ramp_time", "ss_dur", "ss_ramp")

FIO_DOES = {
    "time_based": False, "norandommap": False, "refill_buffers": False, "randrepeat": True, "verify_fatal": False,
    "end_fsync": False, "sync": False, "pre_read": False,
    "gtod_reduce": False,
}  # fmt: skip
"""fio's own defaults, which its command line need not have."""


_KNOWN = {"rw": get_args(Rw), "ioengine": get_args(Engine), "verify": get_args(Verify)}
_LABELLED = (
    "rwmixread", "fsync", "fdatasync", "sync", "pre_read", "ioengine", "size", "io_size", "offset_increment",
    "norandommap", "randrepeat", "randseed", "refill_buffers", "end_fsync", "rate", "rate_iops", "thinktime",
    "thinktime_blocks", "random_distribution", "verify", "verify_fatal", "verify_backlog", "steadystate", "ss_dur",
    "ss_ramp", "gtod_reduce",
)  # fmt: skip


class Fio(FioWorkload):
    """One fio job on the disk under test, e.g. `Fio(rw="randwrite", bs="4k", iodepth=32, runtime=10)`.

    Sizes are bytes or texts such as "4k", times seconds or texts such as "90s". Raises ConfigError for a job
    that cannot run or whose figures would mean nothing. Three defaults are not fio's: `direct` and
    `ioengine="libaio"`, without which no queue depth is reached, and `refill_buffers`, without which fio
    3.33 writes data that gzip shrinks 45 times, so that a compressing layer would store next to nothing.
    `randrepeat` gives every round the same order of blocks. `rate` is bytes a second and `thinktime` microseconds,
    as fio counts them; `sync` is O_SYNC or "dsync", `io_size` the bytes that a job moves if not `size`, and `pre_read`
    reads a buffered job's blocks into the guest's page cache first. With `verify` a job reads back what it wrote, and
    corrupt data is an error. Options that have no field go to `extra={"dedupe_percentage": 50}`, texts or integers by
    fio's own names; what would leave the disk under test or spoil the figures is refused. `Fio.from_text("rw=read
    bs=4k")` takes them as fio writes them, `Fio.from_job("file.fio")` runs a job file as it is. fio must be 3.18 or
    later.

    Figures: `iops`, `bw` in MiB/s (both directions together), latencies in seconds: of submission, completion and
    in total (`slat_p99`, `clat_p99`, `lat_p99`), of fsync (`fsync_p99`). A mixed job has them per direction
    (`read_clat_p99`, `write_clat_p99`), since a mean of reads and writes describes neither. `runtime` is how long
    it did I/O: without `runtime=` a result, lower being better; otherwise the given time. `usr_cpu` and `sys_cpu`
    are percent of one CPU in a job, `ctx` counts context switches. `iodepth_reached` is how many I/Os at least were
    in flight. With `gtod_reduce`, as on published command lines, fio times no I/O: there are no latencies.
    With `steadystate` there is `steadystate_attained` (100 % or 0 %), and the rates of its window.
    """

    called: ClassVar[str] = "fio"

    rw: Rw = Field(description="Type of I/O pattern.")
    bs: Bytes = Field(4096, description="The block size in bytes used for I/O units.")
    bssplit: str | None = Field(
        None,
        description="Weight various block sizes, so that you are able to define a specific amount of block sizes "
        "issued: blocksize/percentage:blocksize/percentage.",
    )
    iodepth: Count = Field(1, description="Number of I/O units to keep in flight against the file.")
    numjobs: Count = Field(1, description="Create the specified number of clones of this job.")
    size: Bytes = Field(
        256 * 2**20,
        description="The total size of file I/O for each thread of this job. Fio will run until this many bytes has "
        "been transferred, unless runtime is limited by other options.",
    )
    io_size: MaybeBytes = Field(
        None,
        description="Define just the amount of I/O that fio should do, where size is the region that it operates "
        "within.",
    )
    offset_increment: MaybeBytes = Field(
        None,
        description="If this is provided, then the real offset becomes offset + offset_increment * thread_number, "
        "where the thread number is a counter that starts at 0 and is incremented for each sub-job.",
    )
    runtime: MaybeSeconds = Field(
        None, description="Tell fio to terminate processing after the specified period of time."
    )
    ramp_time: MaybeSeconds = Field(
        None,
        description="If set, fio will run the specified workload for this amount of time before logging any "
        "performance numbers.",
    )
    time_based: bool = Field(
        False,
        description="If set, fio will run for the duration of the runtime specified even if the file(s) are "
        "completely read or written.",
    )
    ioengine: Engine = Field("libaio", description="Defines how the job issues I/O to the file.")
    direct: bool = Field(True, description="If value is true, use non-buffered I/O. This is usually O_DIRECT.")
    rwmixread: Annotated[int, Field(ge=1, le=99)] | None = Field(
        None, description="Percentage of a mixed workload that should be reads."
    )
    fsync: Count | None = Field(
        None,
        description="If writing to a file, issue an fsync(2) (or its equivalent) of the dirty data for every number "
        "of blocks given.",
    )
    fdatasync: Count | None = Field(
        None, description="Like fsync but uses fdatasync(2) to only sync data and not metadata blocks."
    )
    end_fsync: bool = Field(False, description="If true, fsync(2) file contents when a write stage has completed.")
    sync: Sync = Field(
        False,
        description="Whether, and what type, of synchronous I/O to use for writes: True is O_SYNC, dsync O_DSYNC.",
    )
    pre_read: bool = Field(
        False,
        description="If this is given, files will be pre-read into memory before starting the given I/O operation.",
    )
    rate: MaybeBytes = Field(None, description="Cap the bandwidth used by this job. The number is in bytes/sec.")
    rate_iops: Count | None = Field(None, description="Cap the bandwidth to this number of IOPS.")
    thinktime: Count | None = Field(
        None,
        description="Stall the job for the specified period of time after an I/O has completed before issuing the "
        "next, in microseconds.",
    )
    thinktime_blocks: Count | None = Field(
        None,
        description="Only valid if thinktime is set - control how many blocks to issue, before waiting thinktime "
        "usecs.",
    )
    random_distribution: str | None = Field(
        None,
        description="By default, fio will use a completely uniform random distribution when asked to perform random "
        "I/O. Sometimes it is useful to skew the distribution in specific ways: zipf:theta, pareto:h or "
        "normal:percent.",
    )
    verify: Verify | None = Field(
        None, description="If writing to a file, fio can verify the file contents after each iteration of the job."
    )
    verify_fatal: bool = Field(
        False, description="If this option is set, fio will exit the job on the first observed failure."
    )
    verify_backlog: Count | None = Field(
        None, description="If this option is enabled, fio will write only N blocks before verifying these blocks."
    )
    steadystate: str | None = Field(
        None,
        description="Define the criterion and limit for assessing steady state performance, such as iops_slope:10%.",
    )
    ss_dur: MaybeSeconds = Field(
        None,
        description="A rolling window of this duration will be used to judge whether steady state has been reached.",
    )
    ss_ramp: MaybeSeconds = Field(
        None,
        description="Allow the job to run for the specified duration before beginning data collection for checking "
        "the steady state job termination criterion.",
    )
    refill_buffers: bool = Field(
        True, description="If this option is given, fio will refill the I/O buffers on every submit."
    )
    norandommap: bool = Field(
        False,
        description="If this option is given, fio will just get a new random offset without looking at past I/O "
        "history.",
    )
    randrepeat: bool = Field(
        True,
        description="Seed the random number generator used for random I/O patterns in a predictable way so the "
        "pattern is repeatable across runs.",
    )
    randseed: Annotated[int, Field(ge=0)] | None = Field(
        None,
        description="Seed the random number generators based on this seed value, to be able to control what sequence "
        "of output is being generated.",
    )
    percentile_list: str = Field(
        "50:95:99:99.9", description="Overwrite the default list of percentiles for latencies."
    )
    gtod_reduce: bool = Field(False, description="Enable all of the gettimeofday(2) reducing options.")
    extra: Extra = Field(
        (), description="Options of fio that have no field here, by fio's own names: passed on as they are."
    )

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[FioOptions]) -> None: ...

    @classmethod
    def hint_for(cls, unknown: str) -> str:
        """The field that has fio's other name of an option, or `extra` for what has no field."""
        others = {other: own for other, own in ALIASES.items() if own in cls.model_fields}
        near = close_to(unknown, [*cls.model_fields, "shown", *others])
        for other, own in others.items():
            near = near.replace(repr(other), repr(own))
        instead = f'An option of fio without a field goes into extra: {cls.__name__}(extra={{"{unknown}": ...}}). '
        return near or instead

    @classmethod
    def from_job(
        cls, path: str | os.PathLike[str], *, shown: Sequence[str] | None = None, **variables: object
    ) -> FioJob:
        """The workload of a job file with all its jobs, and values for its `${NAME}`; see FioJob."""
        return FioJob.read(path, shown=shown, **variables)

    @classmethod
    def from_text(cls, text: str, *, shown: Sequence[str] | None = None, **variables: object) -> Self | FioJob:
        """The workload of options as fio writes them: `Fio.from_text("rw=randwrite bs=4k iodepth=32 runtime=5")`.

        Blanks or line ends stand between them, dashes may stand before them, and values for its `${NAME}` are given as
        for `from_job`. They are options of this class, whose defaults hold; those without a field go to `extra`. A text
        with a [section] is a job file, of which nothing but the text holds: it is run as `from_job` runs files. Raises
        ConfigError for what either refuses.
        """
        chosen: dict[str, Any] = {} if shown is None else {"shown": shown}
        text = fill_in(text, variables, f"The text of {cls.__name__}.from_text")
        if has_section(text):
            return FioJob(text=text, name="text", **chosen)
        given = read_options(text, f"{cls.__name__}.from_text")
        options: dict[str, Any] = {
            name: _value(cls, name, value) for name, value in given.items() if name in cls.model_fields
        }
        if others := {name: 1 if value is None else value for name, value in given.items() if name not in options}:
            options["extra"] = others
        return cls(**options, **chosen)

    def over(self, **sweep: Unpack[FioSweep]) -> tuple[Fio, ...]:
        """This job once for each combination of values, the last option's fastest: `job.over(iodepth=(1, 8, 32))`.

        Each is a workload of its own, with a column of its own; the report shows three or more as one curve. Raises
        ConfigError for an option without values, and for a combination that cannot run.
        """
        swept: dict[str, Any] = dict(sweep)
        for name, values in swept.items():
            if isinstance(values, str) or not values:
                hint = f"Write {name}=(1, 8, 32)."
                raise ConfigError(f"Fio.over({name}={values!r}) has no values to go over.", hint=hint, code="VM305")
        given: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        given |= {"shown": self._chosen} if self._chosen else {}
        points = (dict(zip(swept, values, strict=True)) for values in itertools.product(*swept.values()))
        return tuple(type(self)(**given | point) for point in points)

    @field_validator("rw", "ioengine", "verify", mode="before")
    @classmethod
    def _known(cls, value: object, info: Any) -> object:
        known = _KNOWN[info.field_name]
        if value not in known and (value is not None or info.field_name != "verify"):
            raise ConfigError(
                f"Fio({info.field_name}={value!r}) is not known here.",
                hint=f"{close_to(str(value), known)}It is one of: {', '.join(known)}.",
                code="VM301",
            )
        return value

    @field_validator("sync", mode="before")
    @classmethod
    def _is_a_way_to_sync(cls, value: object) -> object:
        if isinstance(value, str) and value not in ("0", "1", "dsync"):
            raise ConfigError(
                f"Fio(sync={value!r}) is not known here.", hint='It is True, False or "dsync".', code="VM301"
            )
        return value

    @field_validator("extra", mode="before")
    @classmethod
    def _read(cls, given: object) -> Extra:
        return read_extra(given, cls.model_fields.keys() - {"extra"})

    @model_validator(mode="after")
    def _means_something(self) -> Fio:
        for what, hint in slips(self):
            raise ConfigError(f"Fio(rw={self.rw!r}): {what}.", hint=hint, code="VM302")
        return self

    @property
    def is_random(self) -> bool:
        """Whether its blocks are in random order."""
        return self.rw.startswith("rand")

    @property
    def directions(self) -> tuple[str, ...]:
        """Its directions: "read", "write", or both in a mixed job."""
        return ("read", "write") if self.is_mixed else (self.rw.removeprefix("rand"),)

    @property
    def is_mixed(self) -> bool:
        """Whether it reads and writes."""
        return self.rw in ("rw", "readwrite", "randrw")

    @property
    def reads(self) -> bool:
        """Whether one of its directions is reading."""
        return "read" in self.directions

    @property
    def writes(self) -> bool:
        """Whether one of its directions is writing."""
        return "write" in self.directions

    @property
    def checks_data(self) -> bool:
        """Whether it verifies."""
        return self.verify is not None

    @property
    def fresh_is_possible(self) -> bool:
        """Whether it writes no block twice, by time, other jobs or chance."""
        by_chance = self.is_random and (self.norandommap or self.random_distribution is not None)
        again = self.time_based or by_chance or (self.io_size or 0) > self.size
        return not self.reads and self.jobs_are_apart and not again and keeps_each_block_once(self.extra)

    @property
    def writes_zeros(self) -> bool:
        """Whether it is told to: by zero_buffers, or a pattern of zeros."""
        others = dict(self.extra)
        return self.writes and (
            others.get("zero_buffers", "0") != "0" or bool(ZEROS.fullmatch(others.get("buffer_pattern", "")))
        )

    @property
    def jobs_are_apart(self) -> bool:
        """Whether each of `numjobs` has blocks of its own."""
        return self.numjobs == 1 or (self.offset_increment or 0) >= self.size

    @property
    def label(self) -> str:
        """Its shape, then options that differ from the defaults, without how long it is measured."""
        return self._named(f"qd{self.iodepth}", *([f"x{self.numjobs}"] if self.numjobs > 1 else []))

    @property
    def point(self) -> Mapping[str, float]:
        """Its I/Os in flight, which sweeps vary."""
        return {"iodepth": self.iodepth, "numjobs": self.numjobs}

    @property
    def shape(self) -> str:
        """Its label without depth and jobs: the curve."""
        return self._named()

    def _named(self, *point: str) -> str:
        parts = [self.called, self.rw, self.bssplit or dict(self.extra).get("bsrange") or format_size(self.bs), *point]
        others = [f"{name}={value}" for name, value in self.extra if name != "bsrange"]
        return " ".join([*parts, *([] if self.direct else ["buffered"]), *self._changed(*_LABELLED), *others])

    def _text(self, name: str) -> str:
        """An option's value: bytes with a binary suffix, whole seconds or milliseconds, 1 and 0."""
        value = getattr(self, name)
        if name in _SIZES:
            return format_size(value)
        if name in _TIMES:
            # "1.5" is 1 s for fio (tried with 3.33)
            return f"{value:.0f}" if value == int(value) else f"{round(value * 1000)}ms"
        return str(int(value) if isinstance(value, bool) else value)

    @property
    def _reading(self) -> Reading:
        return Reading(
            directions=self.directions,
            percentiles=tuple(self.percentile_list.split(":")),
            has_slat=self.ioengine in ASYNC_ENGINES,
            syncs=bool(self.fsync or self.fdatasync or "sync_file_range" in dict(self.extra)) and not self.gtod_reduce,
            iodepth=self.iodepth,
            steadystate=self.steadystate is not None,
            verifies=self.verify is not None,
            has_latencies=not self.gtod_reduce,
            ends_by_size=self.runtime is None,
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Rates, latencies, CPU and depth, in the order in which they are worth reading."""
        return self._reading.metrics

    @property
    def primary(self) -> str:
        """`bw` for sequential blocks of 64k and more, else `iops`."""
        return "bw" if not self.is_random and self.bs >= LARGE_BS else "iops"

    @property
    def shown(self) -> tuple[str, ...]:
        """The rate, the 99th percentile of latency (that of writes in a mixed job), and whether it became steady."""
        reading = self._reading
        names = (self.primary, f"{reading.prefixes[-1]}clat_p99", "steadystate_attained")
        return tuple(name for name in names if name in {metric.name for metric in reading.metrics})

    @property
    def region_bytes(self) -> int | None:
        """From the first job's first byte to the last's last; without `offset_increment` they share one.

        None, all of the disk, where options for zones skip parts of it.
        """
        if any(name in ZONES for name, _ in self.extra):
            return None
        return self.size + (self.numjobs - 1) * (self.offset_increment or 0)

    @property
    def expected_seconds(self) -> float:
        """Ramp, runtime (5 s where fio decides by size, twice that to verify) and a second for the rest."""
        seconds = self.runtime or GUESSED_SECONDS
        return (self.ramp_time or 0.0) + seconds * (2 if self.verify else 1) + 1.0

    @property
    def unmeasured_s(self) -> float:
        """fio's ramp_time."""
        return self.ramp_time or 0.0

    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line; fio never makes a file. Raises ConfigError where the region does not fit."""
        self._check_room(target, "size")
        return (
            "fio",
            "--name=vmstorage",
            "--filename=" + target.path.replace(":", r"\:"),
            f"--offset={format_size(target.offset_bytes)}",
            *(f"--{option}" for option in self._options()),
            *(f"--{option}" for option in (() if self.gtod_reduce else REPORT)),
            "--group_reporting",
            "--fallocate=none",
            "--allow_file_create=0",
            "--output-format=json+",
            f"--output={self.output_file(target)}",
        )

    def _options(self) -> Iterator[str]:
        """Each option that differs from fio's own default, under fio's name."""
        replaces_bs = self.bssplit or "bsrange" in dict(self.extra)
        for name in type(self).model_fields:
            if name == "extra":
                continue
            if getattr(self, name) not in (None, FIO_DOES.get(name)) and not (name == "bs" and replaces_bs):
                yield f"{name}={self._text(name)}"
        if self.verify:
            # without it fio leaves a file in the folder that it runs in
            yield "verify_state_save=0"
        # behind ioengine, whose own options fio's command knows only then
        yield from (f"{name}={value}" for name, value in self.extra)

    @property
    def option_check(self) -> OptionCheck | None:
        """The job without its disk for `fio --parse-only`, where `extra` has options that only fio knows."""
        return OptionCheck(("fio", "--parse-only", "-"), check_file(self._options())) if self.extra else None

    def moved_bytes(self, text: str) -> int | None:
        """All that fio counted, if its I/O was direct."""
        return output.moved_bytes(text) if self.direct else None

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from fio's JSON, after any warnings; raises WorkloadError with fio's own words."""
        (job,), said = output.entries(text, 1)
        return self._reading.figures(job, said)

    def remarks(self, text: str) -> tuple[str, ...]:
        """The queue depth or steady state that it did not reach."""
        (job,), _ = output.entries(text, 1)
        return tuple(self._reading.remarks(job))


def _value(kind: type[Fio], name: str, value: str | None) -> object:
    """The value of a field as its type has it: fio's texts know neither truth values nor integers."""
    annotation = kind.model_fields[name].annotation
    if annotation in (bool, Sync) and value in (None, "0", "1"):
        return value != "0"
    if value is None:
        raise ConfigError(f"{kind.__name__}.from_text: {name} has no value.", hint=f"Write {name}=...", code="VM301")
    return value
