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
    """Direction: write to the disk, or read from it."""
    bs: int | str
    """Read and write up to so many bytes at a time."""
    count: int
    """Number of blocks that are copied."""
    if_: str | None
    """The file that a write reads: dd's if. None is /dev/zero."""
    iflag: str | None
    """Flags of a read, with commas: direct, dsync, sync, nocache, fullblock."""
    oflag: str | None
    """Flags of a write, with commas: direct, dsync, sync, nocache."""
    conv: str | None
    """What a write does at its end: fsync or fdatasync."""
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
    """Content of the job file."""
    name: Required[str]
    """Name of the job file, without its suffix."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class HdparmOptions(TypedDict, total=False):
    """The options of `Hdparm`."""

    t: bool
    """Perform timings of device reads."""
    T: bool
    """Perform timings of cache reads."""
    direct: bool
    """Use O_DIRECT, which bypasses the page cache, for these timings."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class ImageOperationsOptions(TypedDict, total=False):
    """The options of `ImageOperations`."""

    data: int | str
    """Bytes that are written into the image before it is operated on."""
    operations: Sequence[
        Literal["create", "preallocate", "snapshot", "rollback", "clone", "convert", "resize", "delete"]
    ]
    """Operations that are timed; others that these need are done untimed."""
    convert_to: Literal["raw", "qcow2", "vmdk", "vdi", "qed", "vpc"] | None
    """Format into which `convert` writes; None is qcow2 of a raw image, raw of any other."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class IopingOptions(TypedDict, total=False):
    """The options of `Ioping`."""

    count: int | None
    """Stop after so many requests, those for warming up included. None: after work_time."""
    interval: float | str | None
    """Time between requests; None is 1 s."""
    size: int | str | None
    """Request size; None is 4k, with linear 256k."""
    work_size: int | str | None
    """Working set size; None is all of the disk, in a folder 1M."""
    work_time: float | str | None
    """Stop after that time."""
    warmup: int | None
    """Number of requests at the beginning that are not counted; None is 1."""
    entropy: int | None
    """Seed of the random order of requests."""
    direct: bool
    """Use direct I/O."""
    cached: bool
    """Use cached I/O: the page cache is neither forgotten nor flushed."""
    linear: bool
    """Requests one behind the other, and not in random order."""
    rapid: bool
    """No pauses between requests, for 3 s unless work_time says otherwise: ioping's -R."""
    write: bool
    """Write requests."""
    read_write: bool
    """Read and write requests in turns."""
    sync: bool
    """Use O_SYNC."""
    dsync: bool
    """Use O_DSYNC."""
    directory: bool
    """Make a file of its own in a folder of the file system, as `ioping .` does."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class IozoneOptions(TypedDict, total=False):
    """The options of `Iozone`."""

    file_size: Sequence[int | str]
    """Sizes of the file."""
    record_size: Sequence[int | str]
    """Sizes of a record; those larger than the file are left out."""
    tests: Sequence[int]
    """Numbers of iozone's -i: 0 write, 1 read, 2 random, 3 backwards, 4 one record again, 5 strides, 6 and 7 the
    same as 0 and 1 by stdio. 0 is needed, as the others work on its file.
    """
    flush: bool
    """Whether fsync counts as part of a write: iozone's -e."""
    close: bool
    """Whether close counts as part of a write: iozone's -c."""
    direct: bool
    """Use direct I/O: iozone's -I."""
    binary: str | None
    """iozone's program on the machine that runs pytest, copied into the guest's memory; None is the guest's own."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class PostmarkOptions(TypedDict, total=False):
    """The options of `Postmark`."""

    size: tuple[int | str, int | str]
    """Bytes of the smallest and of the largest file."""
    number: int
    """Number of files."""
    transactions: int
    """Number of transactions."""
    read: int | str
    """Block size of reads."""
    write: int | str
    """Block size of writes."""
    subdirectories: int
    """Number of folders that the files lie in."""
    buffering: bool
    """Whether files are accessed through stdio, and not by read(2) and write(2)."""
    bias_read: int
    """Chance out of 10 that a transaction reads, and does not append."""
    bias_create: int
    """Chance out of 10 that a transaction creates, and does not delete."""
    seed: int
    """Seed of postmark's random numbers."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class SqliteOptions(TypedDict, total=False):
    """The options of `Sqlite`."""

    insertions: int
    """Number of rows that each shell inserts, each in a transaction of its own."""
    runs: int
    """Number of shells, one after the other."""
    journal_mode: Literal["DELETE", "TRUNCATE", "PERSIST", "MEMORY", "WAL", "OFF"]
    """SQLite's pragma of that name."""
    synchronous: Literal["OFF", "NORMAL", "FULL", "EXTRA"]
    """SQLite's pragma of that name: OFF is not durable."""
    index: bool
    """Whether the table has an index on its first column."""
    seed: int
    """Number that decides the texts in the rows."""
    shown: Sequence[str] | None
    """Names of the metrics that get a column in the matrix."""


class TarOptions(TypedDict, total=False):
    """The options of `Tar`."""

    files: int
    """Number of files in the tree."""
    folders: int
    """Number of folders in the tree."""
    total_size: int | str
    """Bytes of all files together; the disk needs five times as much."""
    seed: int
    """Number that decides sizes and order of the files."""
    sync: bool
    """Whether a part ends when the file system has written all of it, and not when tar ends."""
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
    """Number of pages."""
    size: int | str
    """Bytes of a page."""
    connections: int
    """Number of connections that wrk keeps open."""
    duration: float | str
    """How long wrk asks for pages, in whole seconds."""
    workers: int
    """Number of nginx's worker processes."""
    sendfile: bool
    """Whether nginx sends files by sendfile(2)."""
    seed: int
    """Number that decides the order of the pages."""
    port: int
    """Port on the guest's loopback."""
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
