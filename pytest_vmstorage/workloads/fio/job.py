"""A fio job file as it is: run by fio from the file, on the disk under test, one or several jobs."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.units import format_size
from pytest_vmstorage.workloads.base import MIB, Commands, Target, metrics_in
from pytest_vmstorage.workloads.fio import output
from pytest_vmstorage.workloads.fio.job_file import ZEROS, Job, fill_in, read_jobs
from pytest_vmstorage.workloads.fio.output import REPORT, FioWorkload

if TYPE_CHECKING:
    from typing import Unpack

    from pytest_vmstorage.workloads.signatures import FioJobOptions

LARGE_BS = 64 * 2**10
"""Jobs with sequential blocks of this size or more are judged by MiB/s, others by IOPS."""

GUESSED_SECONDS = 5.0
"""The expected time of a job that ends by its size."""

_SHOWN_JOBS = 4
_LONGEST = 32 * 2**10
"""Bytes of a job file that reach a guest as one argument: its agent fails with messages above 64 KiB."""

_WRITE = 'printf %s "$1" >"$2"'
_REPLACED = ("filename", "offset", "size", "group_reporting", "new_group")
_OURS = ("new_group", "group_reporting", "fallocate=none", "allow_file_create=0", "verify_state_save=0", *REPORT)


class FioJob(FioWorkload):
    """A fio job file with all its jobs: `Fio.from_job("fileserver.fio")`, or its text and name.

    The file holds except for its places: the disk under test replaces `filename`, offsets begin at the region that the
    round may use, and `group_reporting` is always on, with a group for each job and its `numjobs`. Where fio would make
    a file for each job, all share the disk: give them offsets to keep them apart. Raises ConfigError for a
    job that runs a command, makes, names or leaves other files, or cannot be understood.

    Figures of a single job are those of `Fio`. Of several each job has its own under its name (`reader_iops`,
    `writer_clat_p99`), and `iops`, `bw` and `runtime` are those of the whole: all I/Os and bytes, divided by the time
    of the longest job, one such time after the other where `stonewall` lets jobs wait.
    """

    text: str = Field(description="Content of the job file.")
    name: str = Field(description="Name of the job file, without its suffix.")

    if TYPE_CHECKING:

        def __init__(self, **options: Unpack[FioJobOptions]) -> None: ...

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, shown: Sequence[str] | None = None, **variables: object) -> FioJob:
        """The workload of a file, `${NAME}` in it replaced by the variable of that name; raises ConfigError."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"The job file {os.fspath(path)} cannot be read: {error}.",
                hint="Give the path of a fio job file.",
                code="VM215",
            ) from None
        text = fill_in(text, variables, f"The job file {os.fspath(path)}")
        return cls(text=text, name=Path(path).stem, **({} if shown is None else {"shown": shown}))

    @model_validator(mode="after")
    def _can_run(self) -> FioJob:
        names = [metric.name for metric in self.metrics]
        if len(set(names)) < len(names):
            hint = "Name each job differently."
            raise ConfigError(f"{self.name}: has two jobs whose figures would have one name.", hint=hint, code="VM304")
        return self

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Its jobs in the order of the file, each with all options that hold for it."""
        return read_jobs(self.text, self.name)

    @property
    def label(self) -> str:
        """The file's name, and the beginning of a digest of its jobs: another content is another column."""
        said = repr([(job.name, sorted(job.options.items(), key=str)) for job in self.jobs])
        return f"fio job {self.name} {hashlib.sha256(said.encode()).hexdigest()[:4]}"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of a single job; of several the rates of the whole, then each job's own."""
        jobs = self.jobs
        if len(jobs) == 1:
            return jobs[0].reading.metrics
        ends = all(job.reading.ends_by_size for job in jobs)
        own = ((job, metric) for job in jobs for metric in job.reading.metrics)
        return (
            *metrics_in("IOPS", "higher", "iops"),
            *metrics_in("MiB/s", "higher", "bw"),
            # a given time ranks nothing
            *metrics_in("s", "lower" if ends else "neither", "runtime"),
            *(metric.model_copy(update={"name": job.prefix + metric.name}) for job, metric in own),
        )

    @property
    def primary(self) -> str:
        """`bw` where every job is sequential in blocks of 64k and more, else `iops`; of the whole."""
        return "bw" if all(map(_is_stream, self.jobs)) else "iops"

    @property
    def shown(self) -> tuple[str, ...]:
        """The rate and the 99th percentile of a single job; the rate of the whole, and of each of up to four jobs."""
        jobs = self.jobs
        if len(jobs) > _SHOWN_JOBS:
            return (self.primary,)
        if len(jobs) > 1:
            return (self.primary, *(job.prefix + ("bw" if _is_stream(job) else "iops") for job in jobs))
        tail = f"{jobs[0].reading.prefixes[-1]}clat_p99"
        return (self.primary, tail) if tail in jobs[0].reading.times else (self.primary,)

    @property
    def region_bytes(self) -> int | None:
        """Up to the last byte of any job; None, the whole disk, where a job names no size or a share of the disk."""
        ends = [extent[1] for extent in self._extents if extent]
        return max(ends) if len(ends) == len(self.jobs) else None

    @property
    def _extents(self) -> list[tuple[int, int] | None]:
        return [job.extent(0) for job in self.jobs]

    @property
    def reads(self) -> bool:
        """Whether any job reads."""
        return any("read" in job.directions for job in self.jobs)

    @property
    def writes(self) -> bool:
        """Whether any job writes."""
        return any("write" in job.directions for job in self.jobs)

    @property
    def checks_data(self) -> bool:
        """Whether one of its jobs verifies."""
        return any(job.has("verify") for job in self.jobs)

    @property
    def writes_zeros(self) -> bool:
        """Whether one of its jobs is told to: by zero_buffers, or a pattern of zeros."""
        return self.writes and any(
            job.has("zero_buffers") or ZEROS.fullmatch(job.text("buffer_pattern", "")) for job in self.jobs
        )

    @property
    def fresh_is_possible(self) -> bool:
        """Whether jobs only write, each its own known blocks and each of them once."""
        extents = sorted(extent for extent in self._extents if extent)
        apart = all(first[1] <= second[0] for first, second in itertools.pairwise(extents))
        once = not any(map(_comes_back, self.jobs))
        return not self.reads and len(extents) == len(self.jobs) and apart and once

    @property
    def expected_seconds(self) -> float:
        """The longest job of each stage (5 s where its size decides), and a second for the rest."""
        stages = ([job.seconds or GUESSED_SECONDS for job in stage] for stage in _stages(self.jobs))
        return sum(map(max, stages)) + 1.0

    @property
    def unmeasured_s(self) -> float:
        """The shortest ramp_time among the jobs that begin: from then on something is measured."""
        return min(job.ramp_s for job in next(iter(_stages(self.jobs))))

    def setup(self, target: Target) -> Commands:
        """The job file, written where fio runs."""
        return (("/bin/sh", "-c", _WRITE, "sh", self.job_file(target), self._path(target)),)

    def cleanup(self, target: Target) -> Commands:
        """Remove the job file."""
        return (("rm", "-f", self._path(target)),)

    def argv(self, target: Target) -> tuple[str, ...]:
        """The command line; raises ConfigError where the jobs do not fit into the target."""
        for job in self.jobs:
            begin, end = job.extent(target.size_bytes) or (0, 0)
            if not begin < end <= target.size_bytes:
                raise ConfigError(
                    f"{self.label}: job [{job.name}] goes from {format_size(begin)} to {format_size(end)}, but"
                    f" {target.path} has {format_size(target.size_bytes)} for it.",
                    hint="Make the disk larger (the cell's size) or the job smaller.",
                    code="VM306",
                )
        if (length := len(self.job_file(target).encode())) > _LONGEST:
            raise ConfigError(
                f"{self.label} has {length} bytes with all options of its jobs, and {_LONGEST} are the most.",
                hint="Make several job files of it.",
                code="VM304",
            )
        return ("fio", self._path(target), "--output-format=json+", f"--output={self.output_file(target)}")

    def job_file(self, target: Target) -> str:
        """fio's input: each job with all its options, on the target, in a group of its own."""
        lines = [line for job in self.jobs for line in (f"[{job.name}]", *_lines(job, target))]
        return "\n".join(lines) + "\n"

    def _path(self, target: Target) -> str:
        return f"{target.scratch}/vmstorage.fio"

    def moved_bytes(self, text: str) -> int | None:
        """All that fio counted, if every job was direct."""
        jobs = self.jobs
        return output.moved_bytes(text, len(jobs)) if all(job.is_direct for job in jobs) else None

    def parse(self, text: str) -> Mapping[str, float]:
        """Figures from fio's JSON, an entry a job; raises WorkloadError with fio's own words."""
        jobs = self.jobs
        entries, said = output.entries(text, len(jobs))
        each = [job.reading.figures(entry, said) for job, entry in zip(jobs, entries, strict=True)]
        if len(jobs) == 1:
            return each[0]
        own = {job.prefix + name: value for job, found in zip(jobs, each, strict=True) for name, value in found.items()}
        return dict(_whole(jobs, entries)) | own

    def remarks(self, text: str) -> tuple[str, ...]:
        """The queue depths and steady states that its jobs did not reach."""
        jobs = self.jobs
        entries, _ = output.entries(text, len(jobs))
        return tuple(
            f"[{job.name}] {remark}"
            for job, entry in zip(jobs, entries, strict=True)
            for remark in (*_one_in_flight(job), *job.reading.remarks(entry))
        )


def _one_in_flight(job: Job) -> Iterator[str]:
    """A depth of one that fio's own count hides: it counts I/Os handed to the kernel, which waits for each."""
    if job.text("ioengine", "psync") == "libaio" and not job.is_direct and job.reading.iodepth > 1:
        yield f"libaio without direct has one I/O in flight whatever iodepth={job.reading.iodepth} says"


def _is_stream(job: Job) -> bool:
    return not job.is_random and job.bs >= LARGE_BS


def _comes_back(job: Job) -> bool:
    """Whether it may write a block twice: by time, several jobs on one region, or chance."""
    by_chance = job.is_random and (job.has("norandommap") or job.text("random_distribution", "random") != "random")
    return job.has("time_based") or "loops" in job.options or "io_size" in job.options or job.numjobs > 1 or by_chance


def _stages(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that run together, stage after stage: one with stonewall waits for all before it."""
    stages: list[list[Job]] = []
    for job in jobs:
        if not stages or job.has("stonewall"):
            stages.append([])
        stages[-1].append(job)
    return stages


def _lines(job: Job, target: Target) -> Iterator[str]:
    """Options of one job as fio reads them; of a repeated option the last holds."""
    for name, value in job.options.items():
        if name not in _REPLACED:
            yield name if value is None else f"{name}={value}"
    begin, _ = job.extent(target.size_bytes) or (0, 0)
    one = Job(job.name, {**job.options, "numjobs": "1"}).extent(target.size_bytes) or (0, 0)
    yield "filename=" + target.path.replace(":", r"\:")
    yield f"offset={target.offset_bytes + begin}"
    yield f"size={one[1] - one[0]}"
    yield f"percentile_list={job.percentiles}"
    yield from _OURS


def _whole(jobs: Sequence[Job], entries: Sequence[output.Job]) -> Iterator[tuple[str, float]]:
    of = dict(zip((job.name for job in jobs), entries, strict=True))
    seconds = sum(max(_seconds(job, of[job.name]) for job in stage) for stage in _stages(jobs))
    for name, key, factor in (("iops", "total_ios", 1), ("bw", "io_bytes", MIB)):
        total = sum(output.number(of[job.name], way, key) for job in jobs for way in job.directions)
        yield name, total / factor / seconds
    yield "runtime", seconds


def _seconds(job: Job, entry: output.Job) -> float:
    return max(output.number(entry, way, "runtime") for way in job.directions) / 1e3
