"""Options of workloads as users write them, for editors and type checkers; tests/signatures.py makes this file."""

from collections.abc import Mapping, Sequence
from typing import Literal, Required, TypedDict


class AioStressOptions(TypedDict, total=False):
    """The options of `AioStress`."""

    rw: Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]
    """Type of I/O pattern, as -o of aio-stress."""
    bs: int | str
    """The size of a record, as -r of aio-stress."""
    bssplit: str | None
    """Weight various block sizes, so that you are able to define a specific amount of block sizes issued:
    blocksize/percentage:blocksize/percentage.
    """
    iodepth: int
    """Number of I/O units to keep in flight against the file."""
    numjobs: int
    """Create the specified number of clones of this job."""
    size: int | str
    """The size of the region that is worked on, as -s of aio-stress."""
    io_size: int | str | None
    """Define just the amount of I/O that fio should do, where size is the region that it operates within."""
    offset_increment: int | str | None
    """If this is provided, then the real offset becomes offset + offset_increment * thread_number, where the thread
    number is a counter that starts at 0 and is incremented for each sub-job.
    """
    runtime: float | str | None
    """Tell fio to terminate processing after the specified period of time."""
    ramp_time: float | str | None
    """If set, fio will run the specified workload for this amount of time before logging any performance numbers."""
    time_based: bool
    """If set, fio will run for the duration of the runtime specified even if the file(s) are completely read or
    written.
    """
    ioengine: Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2"]
    """Defines how the job issues I/O to the file."""
    direct: bool
    """If value is true, use non-buffered I/O, as -O of aio-stress."""
    rwmixread: int | None
    """Percentage of a mixed workload that should be reads."""
    fsync: int | None
    """If writing to a file, issue an fsync(2) (or its equivalent) of the dirty data for every number of blocks
    given.
    """
    fdatasync: int | None
    """Like fsync but uses fdatasync(2) to only sync data and not metadata blocks."""
    end_fsync: bool
    """If true, fsync(2) file contents when a write stage has completed."""
    sync: bool | Literal["dsync"]
    """Whether, and what type, of synchronous I/O to use for writes: True is O_SYNC, dsync O_DSYNC."""
    pre_read: bool
    """If this is given, files will be pre-read into memory before starting the given I/O operation."""
    rate: int | str | None
    """Cap the bandwidth used by this job. The number is in bytes/sec."""
    rate_iops: int | None
    """Cap the bandwidth to this number of IOPS."""
    thinktime: int | None
    """Stall the job for the specified period of time after an I/O has completed before issuing the next, in
    microseconds.
    """
    thinktime_blocks: int | None
    """Only valid if thinktime is set - control how many blocks to issue, before waiting thinktime usecs."""
    random_distribution: str | None
    """By default, fio will use a completely uniform random distribution when asked to perform random I/O. Sometimes
    it is useful to skew the distribution in specific ways: zipf:theta, pareto:h or normal:percent.
    """
    verify: Literal["crc32c", "crc64", "crc32", "crc16", "crc7", "md5", "sha1", "sha256", "sha512", "xxhash"] | None
    """If writing to a file, fio can verify the file contents after each iteration of the job."""
    verify_fatal: bool
    """If this option is set, fio will exit the job on the first observed failure."""
    verify_backlog: int | None
    """If this option is enabled, fio will write only N blocks before verifying these blocks."""
    steadystate: str | None
    """Define the criterion and limit for assessing steady state performance, such as iops_slope:10%."""
    ss_dur: float | str | None
    """A rolling window of this duration will be used to judge whether steady state has been reached."""
    ss_ramp: float | str | None
    """Allow the job to run for the specified duration before beginning data collection for checking the steady state
    job termination criterion.
    """
    refill_buffers: bool
    """If this option is given, fio will refill the I/O buffers on every submit."""
    norandommap: bool
    """If this option is given, fio will just get a new random offset without looking at past I/O history."""
    randrepeat: bool
    """Seed the random number generator used for random I/O patterns in a predictable way so the pattern is
    repeatable across runs.
    """
    randseed: int | None
    """Seed the random number generators based on this seed value, to be able to control what sequence of output is
    being generated.
    """
    percentile_list: str
    """Overwrite the default list of percentiles for latencies."""
    gtod_reduce: bool
    """Enable all of the gettimeofday(2) reducing options."""
    extra: Mapping[str, int | str]
    """Options of fio that have no field here, by fio's own names: passed on as they are."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class DdOptions(TypedDict, total=False):
    """The options of `Dd`."""

    rw: Literal["write", "read"]
    bs: int | str
    count: int
    if_: str | None
    iflag: str | None
    oflag: str | None
    conv: str | None
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class FioOptions(TypedDict, total=False):
    """The options of `Fio`."""

    rw: Required[Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]]
    """Type of I/O pattern."""
    bs: int | str
    """The block size in bytes used for I/O units."""
    bssplit: str | None
    """Weight various block sizes, so that you are able to define a specific amount of block sizes issued:
    blocksize/percentage:blocksize/percentage.
    """
    iodepth: int
    """Number of I/O units to keep in flight against the file."""
    numjobs: int
    """Create the specified number of clones of this job."""
    size: int | str
    """The total size of file I/O for each thread of this job. Fio will run until this many bytes has been
    transferred, unless runtime is limited by other options.
    """
    io_size: int | str | None
    """Define just the amount of I/O that fio should do, where size is the region that it operates within."""
    offset_increment: int | str | None
    """If this is provided, then the real offset becomes offset + offset_increment * thread_number, where the thread
    number is a counter that starts at 0 and is incremented for each sub-job.
    """
    runtime: float | str | None
    """Tell fio to terminate processing after the specified period of time."""
    ramp_time: float | str | None
    """If set, fio will run the specified workload for this amount of time before logging any performance numbers."""
    time_based: bool
    """If set, fio will run for the duration of the runtime specified even if the file(s) are completely read or
    written.
    """
    ioengine: Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2"]
    """Defines how the job issues I/O to the file."""
    direct: bool
    """If value is true, use non-buffered I/O. This is usually O_DIRECT."""
    rwmixread: int | None
    """Percentage of a mixed workload that should be reads."""
    fsync: int | None
    """If writing to a file, issue an fsync(2) (or its equivalent) of the dirty data for every number of blocks
    given.
    """
    fdatasync: int | None
    """Like fsync but uses fdatasync(2) to only sync data and not metadata blocks."""
    end_fsync: bool
    """If true, fsync(2) file contents when a write stage has completed."""
    sync: bool | Literal["dsync"]
    """Whether, and what type, of synchronous I/O to use for writes: True is O_SYNC, dsync O_DSYNC."""
    pre_read: bool
    """If this is given, files will be pre-read into memory before starting the given I/O operation."""
    rate: int | str | None
    """Cap the bandwidth used by this job. The number is in bytes/sec."""
    rate_iops: int | None
    """Cap the bandwidth to this number of IOPS."""
    thinktime: int | None
    """Stall the job for the specified period of time after an I/O has completed before issuing the next, in
    microseconds.
    """
    thinktime_blocks: int | None
    """Only valid if thinktime is set - control how many blocks to issue, before waiting thinktime usecs."""
    random_distribution: str | None
    """By default, fio will use a completely uniform random distribution when asked to perform random I/O. Sometimes
    it is useful to skew the distribution in specific ways: zipf:theta, pareto:h or normal:percent.
    """
    verify: Literal["crc32c", "crc64", "crc32", "crc16", "crc7", "md5", "sha1", "sha256", "sha512", "xxhash"] | None
    """If writing to a file, fio can verify the file contents after each iteration of the job."""
    verify_fatal: bool
    """If this option is set, fio will exit the job on the first observed failure."""
    verify_backlog: int | None
    """If this option is enabled, fio will write only N blocks before verifying these blocks."""
    steadystate: str | None
    """Define the criterion and limit for assessing steady state performance, such as iops_slope:10%."""
    ss_dur: float | str | None
    """A rolling window of this duration will be used to judge whether steady state has been reached."""
    ss_ramp: float | str | None
    """Allow the job to run for the specified duration before beginning data collection for checking the steady state
    job termination criterion.
    """
    refill_buffers: bool
    """If this option is given, fio will refill the I/O buffers on every submit."""
    norandommap: bool
    """If this option is given, fio will just get a new random offset without looking at past I/O history."""
    randrepeat: bool
    """Seed the random number generator used for random I/O patterns in a predictable way so the pattern is
    repeatable across runs.
    """
    randseed: int | None
    """Seed the random number generators based on this seed value, to be able to control what sequence of output is
    being generated.
    """
    percentile_list: str
    """Overwrite the default list of percentiles for latencies."""
    gtod_reduce: bool
    """Enable all of the gettimeofday(2) reducing options."""
    extra: Mapping[str, int | str]
    """Options of fio that have no field here, by fio's own names: passed on as they are."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class FioJobOptions(TypedDict, total=False):
    """The options of `FioJob`."""

    text: Required[str]
    name: Required[str]
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class HdparmOptions(TypedDict, total=False):
    """The options of `Hdparm`."""

    t: bool
    T: bool
    direct: bool
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class ImageOperationsOptions(TypedDict, total=False):
    """The options of `ImageOperations`."""

    data: int | str
    operations: Sequence[
        Literal["create", "preallocate", "snapshot", "rollback", "clone", "convert", "resize", "delete"]
    ]
    convert_to: Literal["raw", "qcow2", "vmdk", "vdi", "qed", "vpc"] | None
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class IopingOptions(TypedDict, total=False):
    """The options of `Ioping`."""

    count: int | None
    interval: float | str | None
    size: int | str | None
    work_size: int | str | None
    work_time: float | str | None
    warmup: int | None
    entropy: int | None
    direct: bool
    cached: bool
    linear: bool
    rapid: bool
    write: bool
    read_write: bool
    sync: bool
    dsync: bool
    directory: bool
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class IozoneOptions(TypedDict, total=False):
    """The options of `Iozone`."""

    file_size: Sequence[int | str]
    record_size: Sequence[int | str]
    tests: Sequence[int]
    flush: bool
    close: bool
    direct: bool
    binary: str | None
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class PostmarkOptions(TypedDict, total=False):
    """The options of `Postmark`."""

    size: tuple[int | str, int | str]
    number: int
    transactions: int
    read: int | str
    write: int | str
    subdirectories: int
    buffering: bool
    bias_read: int
    bias_create: int
    seed: int
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class SqliteOptions(TypedDict, total=False):
    """The options of `Sqlite`."""

    insertions: int
    runs: int
    journal_mode: Literal["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL", "OFF"]
    synchronous: Literal["OFF", "NORMAL", "FULL", "EXTRA"]
    index: bool
    seed: int
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class TarOptions(TypedDict, total=False):
    """The options of `Tar`."""

    files: int
    folders: int
    total_size: int | str
    seed: int
    sync: bool
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class TiobenchOptions(TypedDict, total=False):
    """The options of `Tiobench`."""

    rw: Required[Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]]
    """Type of I/O pattern."""
    bs: int | str
    """The block size in bytes used for I/O units."""
    bssplit: str | None
    """Weight various block sizes, so that you are able to define a specific amount of block sizes issued:
    blocksize/percentage:blocksize/percentage.
    """
    iodepth: int
    """Number of I/O units to keep in flight against the file."""
    numjobs: int
    """The number of jobs, as -t of tiotest."""
    size: int | str
    """The size of the region that each job has, as -f of tiotest."""
    io_size: int | str | None
    """Define just the amount of I/O that fio should do, where size is the region that it operates within."""
    offset_increment: int | str | None
    """If this is provided, then the real offset becomes offset + offset_increment * thread_number, where the thread
    number is a counter that starts at 0 and is incremented for each sub-job.
    """
    runtime: float | str | None
    """Tell fio to terminate processing after the specified period of time."""
    ramp_time: float | str | None
    """If set, fio will run the specified workload for this amount of time before logging any performance numbers."""
    time_based: bool
    """If set, fio will run for the duration of the runtime specified even if the file(s) are completely read or
    written.
    """
    ioengine: Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2"]
    """Defines how the job issues I/O to the file."""
    direct: bool
    """If value is true, use non-buffered I/O. This is usually O_DIRECT."""
    rwmixread: int | None
    """Percentage of a mixed workload that should be reads."""
    fsync: int | None
    """If writing to a file, issue an fsync(2) (or its equivalent) of the dirty data for every number of blocks
    given.
    """
    fdatasync: int | None
    """Like fsync but uses fdatasync(2) to only sync data and not metadata blocks."""
    end_fsync: bool
    """If true, fsync(2) file contents when a write stage has completed."""
    sync: bool | Literal["dsync"]
    """Whether, and what type, of synchronous I/O to use for writes: True is O_SYNC, dsync O_DSYNC."""
    pre_read: bool
    """If this is given, files will be pre-read into memory before starting the given I/O operation."""
    rate: int | str | None
    """Cap the bandwidth used by this job. The number is in bytes/sec."""
    rate_iops: int | None
    """Cap the bandwidth to this number of IOPS."""
    thinktime: int | None
    """Stall the job for the specified period of time after an I/O has completed before issuing the next, in
    microseconds.
    """
    thinktime_blocks: int | None
    """Only valid if thinktime is set - control how many blocks to issue, before waiting thinktime usecs."""
    random_distribution: str | None
    """By default, fio will use a completely uniform random distribution when asked to perform random I/O. Sometimes
    it is useful to skew the distribution in specific ways: zipf:theta, pareto:h or normal:percent.
    """
    verify: Literal["crc32c", "crc64", "crc32", "crc16", "crc7", "md5", "sha1", "sha256", "sha512", "xxhash"] | None
    """If writing to a file, fio can verify the file contents after each iteration of the job."""
    verify_fatal: bool
    """If this option is set, fio will exit the job on the first observed failure."""
    verify_backlog: int | None
    """If this option is enabled, fio will write only N blocks before verifying these blocks."""
    steadystate: str | None
    """Define the criterion and limit for assessing steady state performance, such as iops_slope:10%."""
    ss_dur: float | str | None
    """A rolling window of this duration will be used to judge whether steady state has been reached."""
    ss_ramp: float | str | None
    """Allow the job to run for the specified duration before beginning data collection for checking the steady state
    job termination criterion.
    """
    refill_buffers: bool
    """If this option is given, fio will refill the I/O buffers on every submit."""
    norandommap: bool
    """If this option is given, fio will just get a new random offset without looking at past I/O history."""
    randrepeat: bool
    """Seed the random number generator used for random I/O patterns in a predictable way so the pattern is
    repeatable across runs.
    """
    randseed: int | None
    """Seed the random number generators based on this seed value, to be able to control what sequence of output is
    being generated.
    """
    percentile_list: str
    """Overwrite the default list of percentiles for latencies."""
    gtod_reduce: bool
    """Enable all of the gettimeofday(2) reducing options."""
    extra: Mapping[str, int | str]
    """Options of fio that have no field here, by fio's own names: passed on as they are."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class WebOptions(TypedDict, total=False):
    """The options of `Web`."""

    pages: int
    size: int | str
    connections: int
    duration: float | str
    workers: int
    sendfile: bool
    seed: int
    port: int
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class FioSweep(TypedDict, total=False):
    """The options of `Fio.over`."""

    rw: Sequence[Literal["read", "write", "randread", "randwrite", "rw", "readwrite", "randrw"]]
    bs: Sequence[int | str]
    bssplit: Sequence[str | None]
    iodepth: Sequence[int]
    numjobs: Sequence[int]
    size: Sequence[int | str]
    io_size: Sequence[int | str | None]
    offset_increment: Sequence[int | str | None]
    runtime: Sequence[float | str | None]
    ramp_time: Sequence[float | str | None]
    time_based: Sequence[bool]
    ioengine: Sequence[Literal["libaio", "io_uring", "posixaio", "sync", "psync", "vsync", "pvsync", "pvsync2"]]
    direct: Sequence[bool]
    rwmixread: Sequence[int | None]
    fsync: Sequence[int | None]
    fdatasync: Sequence[int | None]
    end_fsync: Sequence[bool]
    sync: Sequence[bool | Literal["dsync"]]
    pre_read: Sequence[bool]
    rate: Sequence[int | str | None]
    rate_iops: Sequence[int | None]
    thinktime: Sequence[int | None]
    thinktime_blocks: Sequence[int | None]
    random_distribution: Sequence[str | None]
    verify: Sequence[
        Literal["crc32c", "crc64", "crc32", "crc16", "crc7", "md5", "sha1", "sha256", "sha512", "xxhash"] | None
    ]
    verify_fatal: Sequence[bool]
    verify_backlog: Sequence[int | None]
    steadystate: Sequence[str | None]
    ss_dur: Sequence[float | str | None]
    ss_ramp: Sequence[float | str | None]
    refill_buffers: Sequence[bool]
    norandommap: Sequence[bool]
    randrepeat: Sequence[bool]
    randseed: Sequence[int | None]
    percentile_list: Sequence[str]
    gtod_reduce: Sequence[bool]
    extra: Sequence[Mapping[str, int | str]]
