"""The parser of fio job files: their jobs with the options of each, and the options that are refused here; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.units import parse_duration, parse_size
from pytest_vmstorage.workloads.fio.checks import percentile_slips
from pytest_vmstorage.workloads.fio.output import ASYNC_ENGINES, Reading

ENGINES = (*ASYNC_ENGINES, "sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
"""Engines that do I/O to a disk or file; others run commands, use the network, or do none."""

PERCENTILES = "50:95:99:99.9"
"""Percentiles of a job that names none."""

ZEROS = re.compile(r"0x0+|0+")
"""A buffer_pattern of zeros alone."""

_SECTION = re.compile(r"\[([^]]+)\]")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)%")
_WAYS = {
    "read": ("read",), "randread": ("read",), "write": ("write",), "randwrite": ("write",),
    "rw": ("read", "write"), "readwrite": ("read", "write"), "randrw": ("read", "write"),
}  # fmt: skip
ALIASES = {
    "readwrite": "rw", "blocksize": "bs", "fileoffset": "offset", "io_limit": "io_size", "timeout": "runtime",
    "wait_for_previous": "stonewall", "ss": "steadystate", "nr_files": "nrfiles", "fill_fs": "fill_device",
    "blocksize_range": "bsrange", "iomem": "mem", "steadystate_duration": "ss_dur", "steadystate_ramp_time": "ss_ramp",
}  # fmt: skip
"""fio's other names of options."""

REFUSED = {
    **dict.fromkeys(("exec_prerun", "exec_postrun"), "runs a command"),
    **dict.fromkeys(("client", "server", "remote-config"), "is for several machines"),
    **dict.fromkeys(("directory", "opendir", "filename_format", "nrfiles", "filesize"), "makes files of fio's own"),
    **dict.fromkeys(("unlink", "unlink_each_loop"), "removes what is measured"),
    **dict.fromkeys(("fill_device", "create_only", "file_append"), "leaves the region that is measured"),
    **dict.fromkeys(("read_iolog", "merge_blktrace_file", "verify_state_load"), "needs a file that guests do not have"),
    **dict.fromkeys(
        ("write_iolog", "write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log"),
        "leaves files in the guest",
    ),
    **dict.fromkeys(("ioscheduler", "cgroup", "cgroup_weight"), "changes the guest, not only the job"),
    **dict.fromkeys(("gtod_reduce", "disable_lat", "disable_clat", "disable_slat"), "removes the latencies"),
    **dict.fromkeys(("unified_rw_reporting", "stats"), "removes figures"),
    **dict.fromkeys(("startdelay", "wait_for"), "puts jobs into an order that is not supported here (stonewall is)"),
    **dict.fromkeys(("profile", "kb_base"), "changes the meaning of other options"),
}
"""Options that no job may have here, and why in a clause."""

Options = Mapping[str, str | None]
"""Options of a job by fio's own names; None for one that has no value."""


class Job(NamedTuple):
    """One job: its name, and its options with those of [global] that it inherits."""

    name: str
    options: Options

    def has(self, name: str) -> bool:
        """Whether that switch is on: by its bare name, or any number but 0."""
        return name in self.options and self.options[name] != "0"

    def text(self, name: str, otherwise: str) -> str:
        """That option's value, or another where it has none."""
        return self.options.get(name) or otherwise

    @property
    def prefix(self) -> str:
        """The prefix of its figures where there are several jobs: its name as part of a metric's name."""
        return re.sub(r"\W+", "_", self.name) + "_"

    @property
    def directions(self) -> tuple[str, ...]:
        """Its directions: read, write, or both."""
        return _WAYS[self._rw]

    @property
    def is_random(self) -> bool:
        """Whether its blocks are in random order."""
        return self._rw.startswith("rand")

    @property
    def _rw(self) -> str:
        return self.text("rw", "read").partition(":")[0]

    @property
    def bs(self) -> int:
        """Its smallest block size, in bytes."""
        text = self.options.get("bssplit") or self.options.get("bsrange") or self.text("bs", "4k")
        return min(parse_size(re.split(r"/", part)[0]) for part in re.split(r"[,:-]", text) if part)

    @property
    def numjobs(self) -> int:
        """How many of it run at once."""
        return int(self.text("numjobs", "1"))

    @property
    def seconds(self) -> float | None:
        """Its ramp and runtime; None where its size decides."""
        if "runtime" not in self.options:
            return None
        return parse_duration(self.text("runtime", "0")) + self.ramp_s

    @property
    def ramp_s(self) -> float:
        """The time at its beginning that it leaves out of its figures."""
        return parse_duration(self.text("ramp_time", "0"))

    @property
    def is_direct(self) -> bool:
        """Whether it bypasses the guest's page cache."""
        return self.has("direct") or self.options.get("buffered") == "0"

    @property
    def percentiles(self) -> str:
        """Its own percentiles, otherwise the usual ones."""
        return self.text("percentile_list", PERCENTILES)

    def extent(self, whole_bytes: int) -> tuple[int, int] | None:
        """Where its I/O begins and ends on a disk of that size; None where that depends on a size given as 0, unknown.

        Without a size it extends to the end of the disk, as for fio.
        """
        offset, size = (_extent(self.text(name, "0"), whole_bytes) for name in ("offset", "size"))
        if offset is None or size is None or not (size or whole_bytes):
            return None
        size = size or whole_bytes - offset
        step = parse_size(self.text("offset_increment", "0"))
        return offset, offset + size + (self.numjobs - 1) * step

    @property
    def reading(self) -> Reading:
        """The figures of its entry in fio's output."""
        return Reading(
            directions=self.directions,
            percentiles=tuple(self.percentiles.split(":")),
            has_slat=self.text("ioengine", "psync") in ASYNC_ENGINES,
            syncs=any(self.has(name) for name in ("fsync", "fdatasync", "sync_file_range")),
            iodepth=int(self.text("iodepth", "1")),
            steadystate="steadystate" in self.options,
            ends_by_size="runtime" not in self.options,
            verifies=self.has("verify") and self.directions == ("write",) and self.options.get("do_verify") != "0",
        )


def read_jobs(text: str, name: str) -> tuple[Job, ...]:
    """All jobs of a file of that name, each with the options of every [global] before it.

    Raises ConfigError, which names the line or the job, for invalid job files and for options that are refused here.
    """
    common: dict[str, str | None] = {}
    found: list[tuple[str, dict[str, str | None]]] = []
    current: dict[str, str | None] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        if not (line := _without_comment(raw)):
            continue
        if section := _SECTION.match(line):
            # fio takes every name with this prefix for the global section
            is_common = section[1].startswith("global")
            current = common if is_common else dict(common)
            if not is_common:
                found.append((section[1], current))
            continue
        if why := _line_slip(line, is_inside=current is not None):
            raise ConfigError(f"{name}, line {number}: {line!r} {why[0]}.", hint=why[1], code="VM304")
        assert current is not None
        option, is_given, value = line.partition("=")
        option = option.strip()
        current[ALIASES.get(option, option)] = value.strip() if is_given else None
    jobs = tuple(Job(job, options) for job, options in found)
    for what, hint in _slips(jobs):
        raise ConfigError(f"{name}: {what}.", hint=hint, code="VM304")
    return jobs


def fill_in(text: str, values: Mapping[str, object], name: str) -> str:
    """The text with each `${NAME}` replaced by the value of that name; raises ConfigError for one that it lacks.

    fio itself would look for them in its environment, which in a guest has none. `name` is the text's, for messages.
    """
    for key, value in values.items():
        if f"${{{key}}}" not in text:
            raise ConfigError(f"{name} has no ${{{key}}}.", hint=f"Leave {key} out.", code="VM304")
        text = text.replace(f"${{{key}}}", str(value))
    return text


def has_section(text: str) -> bool:
    """Whether a line of the text begins a job or [global]."""
    return any(_SECTION.match(_without_comment(line)) for line in text.splitlines())


def read_options(text: str, name: str) -> Options:
    """The options of a text without sections: words such as "rw=randread" with blanks or line ends between them.

    Each may begin with the two dashes of fio's command line; of a repeated option the last holds. Raises ConfigError
    for words that are none, and for options that are refused in job files too.
    """
    found: dict[str, str | None] = {}
    for raw in text.splitlines():
        line = re.sub(r"\s*=\s*", "=", _without_comment(raw))
        if line and (why := _line_slip(line, is_inside=True)):
            raise ConfigError(f"{name}: {line!r} {why[0]}.", hint=why[1], code="VM304")
        for word in line.split():
            option, is_given, value = word.removeprefix("--").partition("=")
            if not re.fullmatch(r"[A-Za-z][\w-]*", option) or (is_given and not value):
                raise ConfigError(
                    f"{name}: {word!r} is not an option.", hint='Write for example "rw=randread bs=4k".', code="VM304"
                )
            found[ALIASES.get(option, option)] = value if is_given else None
    if not found:
        raise ConfigError(
            f"{name} has no option.", hint='Write for example "rw=randread bs=4k size=64M".', code="VM304"
        )
    return found


def _without_comment(line: str) -> str:
    # fio removes comments at the end of a line too
    return re.split("[#;]", line, maxsplit=1)[0].strip()


def _line_slip(line: str, *, is_inside: bool) -> tuple[str, str] | None:
    if not is_inside:
        return "stands before any [section]", "Begin with [global] or the name of a job."
    if line.startswith("include "):
        return "needs another file", "Write that file's lines out in this one."
    if "${" in line:
        return "needs a variable", 'Give it a value: Fio.from_job("file.fio", NAME="value").'
    return None


def _slips(jobs: tuple[Job, ...]) -> Iterator[tuple[str, str]]:
    if not jobs:
        yield "has no job", "Begin one with its name in brackets, such as [randwrite]."
    for job in jobs:
        for what, hint in _job_slips(job):
            yield f"job [{job.name}] {what}", hint
    names = [job.options.get("filename") for job in jobs if "filename" in job.options]
    if len(set(names)) > 1:
        yield (
            "its jobs are for several files or disks, and there is one disk under test",
            "Leave filename out, and tell the jobs apart by offset.",
        )
    if len({job.prefix for job in jobs}) < len(jobs):
        yield "has two jobs whose figures would have one name", "Name each job differently."


def _job_slips(job: Job) -> Iterator[tuple[str, str]]:
    for option in job.options:
        if why := REFUSED.get(option):
            yield f"has {option}, which {why}", f"Leave {option} out."
    yield from _place_slips(job)
    if job.text("rw", "read").partition(":")[0] not in _WAYS:
        yield f"has rw={job.options['rw']}, which is not known here", f"It is one of: {', '.join(_WAYS)}."
    if job.has("time_based") and "runtime" not in job.options:
        yield "is time_based without runtime, and has no end", "Give it a runtime."
    yield from _value_slips(job)
    for what, hint in percentile_slips(job.percentiles):
        yield f"cannot be read: {what}", hint


def _place_slips(job: Job) -> Iterator[tuple[str, str]]:
    if ":" in job.text("filename", "").replace(r"\:", ""):
        yield "is for several files", "Leave filename out: it is replaced by the disk under test."
    if (engine := job.text("ioengine", "psync")) not in ENGINES:
        yield f"has ioengine={engine}, which does no I/O to a disk here", f"It is one of: {', '.join(ENGINES)}."
    if ":" in job.text("mem", "malloc"):
        yield f"has mem={job.options['mem']}, which is a file", "Give mem without one."


def _value_slips(job: Job) -> Iterator[tuple[str, str]]:
    """Errors in values that this program must understand, not only fio."""
    for option in ("numjobs", "iodepth"):
        if not job.text(option, "1").isdecimal() or not int(job.text(option, "1")):
            yield f"has {option}={job.options[option]}, which is not a number of one or more", "Write it as digits."
            return
    try:
        job.extent(0), job.bs, job.seconds
    except ConfigError as error:
        yield f"has a value that cannot be read: {error.what.rstrip('.')}", error.hint


def _extent(text: str, whole_bytes: int) -> int | None:
    """Bytes of a size or a percentage, in whole pages as disks need; None for a percentage of an unknown size."""
    if percent := _PERCENT.fullmatch(text):
        return int(whole_bytes * float(percent[1]) / 100) // 4096 * 4096 if whole_bytes else None
    return parse_size(text)
