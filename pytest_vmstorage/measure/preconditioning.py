"""Preconditioning: brings the disk under test into its cell's state and finds the region that a workload may use.

The states are those of the SNIA's performance test specification, as far as a virtual disk has them: a sequential
fill, written over once more, and a fill in random order, which leaves an image that allocates late in pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError, WorkloadError
from pytest_vmstorage.guest.restore.parking import end_parked_fio, run_fio
from pytest_vmstorage.host.file_systems import FileSystem, look_at
from pytest_vmstorage.host.shell import Shell, check_time
from pytest_vmstorage.measure.system import Plan, SystemUnderTest
from pytest_vmstorage.progress import Progress
from pytest_vmstorage.results.run import Proof
from pytest_vmstorage.results.spans import span
from pytest_vmstorage.storage.block import BlockPlace
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.units import format_about, format_duration, format_size
from pytest_vmstorage.workloads.base import FileWorkload, Target, Workload

FILL_ARGV = (
    "fio --name=fill --filename={path} --allow_file_create=0 --rw=write --bs={bs} --size={size} --offset={offset}"
    " --direct=1 --ioengine=libaio --iodepth=8 --refill_buffers --end_fsync=1 --output-format=terse --output=/dev/null"
    " --thread --clocksource=gettimeofday"
)
"""The fill before a `filled` measurement: sequential, with data that no layer can shrink.

Its times are not used: in a thread, without a calibrated clock, fio begins sooner.
"""

FILL_BYTES = 2**20
"""Size of the fill's blocks; a remainder at the disk's end is written in smaller blocks."""

AGE_SEED = 20260301
"""Seed of the random order in which an `aged` disk is written: the same pieces in every run."""

AGE_ARGV = (
    "fio --name=age --filename={path} --allow_file_create=0 --rw=randwrite --bs=64k --size={size} --offset={offset}"
    " --direct=1 --ioengine=psync --random_generator=lfsr --randseed={seed} --refill_buffers --end_fsync=1"
    " --output-format=terse --output=/dev/null"
)
"""The aging writes every piece once, in random order, with one in flight so that the seed gives the order."""

_LEAST_REQUEST_BYTES = 2**16
"""Guests' kernels cut blocks into requests, on every bus larger than this (120 KiB on usb, 128 KiB on sata)."""


def end_of_fill(region_bytes: int, size_bytes: int) -> int:
    """The byte up to which a disk of that size is filled for such a region: fio writes whole blocks only."""
    return min(-(-region_bytes // FILL_BYTES) * FILL_BYTES, size_bytes)


def write_disk(system: SystemUnderTest, argv: str, begin: int, end: int, plan: Plan) -> None:
    """Write the disk from byte `begin` to byte `end` by FILL_ARGV or AGE_ARGV; raises WorkloadError, LateError."""
    # a disk that ends within a block is filled in blocks of the largest power of two that its size is a multiple of
    rest = (end - begin) % FILL_BYTES
    bs = rest & -rest if rest else FILL_BYTES
    line = argv.format(path="{path}", size=end - begin, offset=begin, seed=AGE_SEED, bs=bs)
    # the path comes last: it may hold a blank
    words = [system.paths.disk.join(word.split("{path}")) for word in line.split()]
    limited_s = _limited_s(system.config, end - begin, min(bs, _LEAST_REQUEST_BYTES))
    timeout_s = plan.timeout_s + end / 2**20 + limited_s
    result = run_fio(system.shell, words, is_parked=system.identity.is_restored, timeout_s=timeout_s)
    filling = f"Filling {system.paths.disk} before the measurement"
    check_time(result, filling)
    if not result.ok:
        raise WorkloadError(f"{filling} failed: exit status {result.returncode}.", output=result.tail(15), code="VM701")


def _limited_s(config: StorageConfig, size_bytes: int, request_bytes: int) -> float:
    """Seconds that the cell's limits allow a disk for that many bytes, in requests of at least that size."""
    bytes_s = size_bytes / config.total_bytes_sec if config.total_bytes_sec else 0.0
    iops_s = size_bytes / request_bytes / config.total_iops_sec if config.total_iops_sec else 0.0
    return bytes_s + iops_s


LARGEST_AGED_PIECE_BYTES = 2**24
"""Upper limit of the average size of an aged disk's pieces.

A qcow2 image has a piece for each cluster. ext4 gives a sparse raw file 8 MiB around each first write, and 128 MiB
in one piece when it is written in order (filefrag on 6.18, tried).
"""

FRESH_ALIGN_BYTES = 2**20
"""Untouched regions begin at multiples of this; an image's clusters have 64 KiB unless asked for otherwise."""


LONGEST_S = 30 * 86400.0
"""Rounds that are expected to take longer are taken for a mistake, such as a zero too many."""

_FREE = 'df -B1 --output=avail -- "$1" | tail -n 1'
_TOO_SMALL = "Make the disk larger with @pytest.mark.storage(size=...), or the workload smaller."
_TOO_FULL = "Free some space there, or make the workload smaller."


def uses_untouched(config: StorageConfig, workload: Workload) -> bool:
    """Whether each round gets a region of its own, whose blocks it writes for the first time."""
    return config.state == "fresh" or (config.arrives_filled and workload.writes)


def check_fits(config: StorageConfig, workload: Workload, plan: Plan, size_bytes: int | None = None) -> None:
    """Raise ConfigError where the workload cannot run on the cell's disk; `size_bytes` is the cell's unless given."""
    size = config.size if size_bytes is None else size_bytes
    region = size if workload.region_bytes is None else workload.region_bytes
    if config.is_null:
        _check_needs_no_data(workload)
    if config.state == "fresh" and not workload.fresh_is_possible:
        raise ConfigError(
            f"{workload.label} reads, and a fresh disk has nothing to read.",
            hint='Use state="filled" for it.',
            code="VM308",
        )
    if config.subformat == "streamOptimized" and workload.writes:
        raise ConfigError(
            f"{workload.label} writes, and QEMU cannot write over what a streamOptimized vmdk holds.",
            hint="Measure reads there, or use another subformat.",
            code="VM308",
        )
    if workload.expected_seconds > LONGEST_S:
        raise ConfigError(
            f"{workload.label} would take about {format_duration(workload.expected_seconds)} in each round.",
            hint="Give it less to do: up to 30 days.",
            code="VM310",
        )
    rounds = plan.rounds if uses_untouched(config, workload) else 1
    if _makes_files_of_a_guest(config, workload):
        # what a fresh disk keeps of the rounds before, see `Workload.set_aside`
        kept = rounds if isinstance(workload, FileWorkload) else 1
        _check_bytes(workload, config.size, "the disk has", _TOO_SMALL, rounds=kept)
    if region * rounds > size:
        raise ConfigError(
            f"{workload.label} needs {format_size(region * rounds)}"
            + (f" ({rounds} untouched regions)" if rounds > 1 else "")
            + f", but the disk has {format_size(size)}.",
            hint=_TOO_SMALL,
            code="VM306",
        )


def _makes_files_of_a_guest(config: StorageConfig, workload: Workload) -> bool:
    """Whether the workload's files lie on a disk of the cell's size; a listed device may be larger."""
    return workload.needs_folder and config.has_guest and config.backing_kind not in ("partition", "device")


def _check_bytes(workload: Workload, there: int, but: str, hint: str, *, rounds: int = 1) -> None:
    """Raise ConfigError where the files of `rounds` rounds take more than `there` bytes."""
    needed = workload.bytes_on_disk
    if needed is not None and needed * rounds > there:
        each = f" in each of {rounds} rounds, which a fresh disk keeps" if rounds > 1 else ""
        raise ConfigError(
            f"{workload.label} makes files of {format_about(needed)}{each}, but {but} {format_about(there)}.",
            hint=hint,
            code="VM306",
        )


def _check_room(system: SystemUnderTest, workload: Workload, plan: Plan) -> None:
    """Raise ConfigError, before any file is made, where the file system lacks room for the workload's files."""
    if not workload.needs_folder or workload.bytes_on_disk is None:
        return
    said = system.shell.run(["sh", "-c", _FREE, "sh", system.paths.folder], timeout_s=plan.timeout_s).stdout.strip()
    if said.isdecimal():
        hint = _TOO_SMALL if system.config.has_guest else _TOO_FULL
        _check_bytes(workload, int(said), f"the file system in {system.paths.folder} has room for", hint)


def _check_needs_no_data(workload: Workload) -> None:
    """Raise ConfigError for a workload that would fail, or measure something else, on a disk that stores nothing."""
    does = "makes files" if workload.needs_folder else "checks what it reads" if workload.checks_data else ""
    if does:
        raise ConfigError(
            f"{workload.label} {does}, and the disk of backing=null keeps nothing and reads zeroes.",
            hint="Measure it on storage, or give backing=null a workload that needs no data.",
            code="VM308",
        )


def check_folder(system: SystemUnderTest, workload: Workload) -> None:
    """Raise ConfigError where a workload that makes files has no file system, or a state that leaves no room there."""
    if not workload.needs_folder:
        return
    if not system.paths.folder:
        raise ConfigError(
            f"{workload.label} makes files, and the disk of {system.config} has no file system.",
            hint='Give it one with @pytest.mark.storage(guest_fs="ext4").',
            code="VM307",
        )
    if system.config.state in ("rewritten", "aged"):
        raise ConfigError(
            f"{workload.label} makes files, for which state={system.config.state} leaves no room.",
            hint='Use state="filled" or "fresh".',
            code="VM307",
        )


def check_zeros(system: SystemUnderTest, workload: Workload, plan: Plan) -> str:
    """The row's note on zeros that a workload writes, "" where it writes none; raises ConfigError if they vanish."""
    if not workload.writes_zeros:
        return ""
    if not plan.hygiene.has("zero-check"):
        return plan.hygiene.words("zero-check", done="", left_out="written without a look at what becomes of them")
    reason = system.zeros_vanish()
    if reason:
        raise ConfigError(
            f"{workload.label} on {system.config} writes zeros, and there they are stored as nothing: {reason}.",
            hint='Write data that no layer can shrink: Fio(...) does, and Dd(if_="/dev/urandom"), which is slower than'
            " many disks; --vm-without=zero-check measures it as it is.",
            code="VM309",
        )
    return "written like data: no layer here is known to store them as nothing"


def prepare(system: SystemUnderTest, workload: Workload, plan: Plan, say: Progress) -> tuple[Target, int]:
    """Bring the disk into its state; returns the first round's region and the number of warm-up rounds."""
    regions, config = system.regions, system.config
    _make_way(system, workload, plan)
    _check_room(system, workload, plan)
    region = _region_bytes(system, workload)
    if uses_untouched(config, workload):
        # regions begin at a whole MiB, so that they share no cluster with earlier data
        regions.written_bytes = -(-regions.written_bytes // FRESH_ALIGN_BYTES) * FRESH_ALIGN_BYTES
        _check_untouched(system, workload, region * plan.rounds)
        # a warm-up would be the first write there, and the measured round the second
        return _target(system, region, regions.written_bytes), 0
    if config.arrives_filled:
        # blocks written meanwhile are no longer where the image had them
        offset = -(-regions.written_bytes // FRESH_ALIGN_BYTES) * FRESH_ALIGN_BYTES
        _check_untouched(system, workload, region)
        return _target(system, region, offset), plan.warmup_rounds
    if system.identity.is_restored and not region:
        with span("set-up"):
            end_parked_fio(system.shell)
    # where the user keeps the host's caches, no other disk's data may get into them
    if plan.hygiene.has("host-caches"):
        system.note_need(end_of_fill(region, regions.size_bytes))
    if config.state in ("rewritten", "aged"):
        with span("filling", cell=config):
            _condition(system, plan, say)
    elif regions.written_bytes < region and not config.is_null:
        say("filling the disk")
        with span("filling", cell=config), _alongside(system, workload, plan):
            _fill(system, region, plan)
            _share(system, plan)
    return _target(system, region), plan.warmup_rounds


def _share(system: SystemUnderTest, plan: Plan) -> None:
    # for the same reason as with note_need above
    if plan.hygiene.has("host-caches"):
        system.share_filled()


def _region_bytes(system: SystemUnderTest, workload: Workload) -> int:
    return system.regions.size_bytes if workload.region_bytes is None else workload.region_bytes


def _alongside(system: SystemUnderTest, workload: Workload, plan: Plan) -> AbstractContextManager[None]:
    """Fill the disks of waiting systems meanwhile, where their state requires it."""

    def fill(other: SystemUnderTest) -> None:
        config, region = other.config, _region_bytes(other, workload)
        is_to_be = config.state == "filled" and not config.arrives_filled and not config.is_null
        # a disk with a limit takes long, and that time is to count for its own cell
        is_limited = config.total_bytes_sec or config.total_iops_sec
        if is_to_be and not is_limited and region <= other.regions.size_bytes:
            with span("filling", cell=config):
                _fill(other, region, plan)
                other.share_filled()
            # write back and drop the cache now: otherwise it would happen during another cell's round
            other.drop_caches()

    # for the same reason as with note_need above
    return system.alongside(fill) if plan.hygiene.has("host-caches") else nullcontext()


def _fill(system: SystemUnderTest, region: int, plan: Plan) -> None:
    """Write the part of that region, from the disk's start, that was not written yet."""
    regions = system.regions
    end = end_of_fill(region, regions.size_bytes)
    write_disk(system, FILL_ARGV, regions.written_bytes // FILL_BYTES * FILL_BYTES, end, plan)
    regions.written_bytes = end


def _make_way(system: SystemUnderTest, workload: Workload, plan: Plan) -> None:
    """Empty a test file that earlier workloads filled, where it takes most of the room that new files need.

    The next workload that uses it fills it again. That would not restore untouched blocks, so fresh disks keep it.
    """
    regions, config = system.regions, system.config
    is_in_the_way = regions.written_bytes > regions.size_bytes // 2 and config.state != "fresh"
    if not (workload.needs_folder and config.guest_fs != "none" and is_in_the_way):
        return
    argv = ["sh", "-c", 'truncate -s 0 "$1" && truncate -s "$2" "$1" && sync "$1"', "sh", system.paths.disk]
    done = system.shell.run([*argv, str(regions.size_bytes)], timeout_s=plan.timeout_s)
    check_time(done, "emptying the test file")
    if not done.ok:
        raise WorkloadError(
            f"The test file could not be emptied for {workload.label}.", output=done.tail(5), code="VM701"
        )
    regions.written_bytes = 0


def _target(system: SystemUnderTest, region: int, offset: int = 0) -> Target:
    there = system.paths.model_dump(exclude={"disk"})
    return Target(path=system.paths.disk, size_bytes=region, offset_bytes=offset, **there)


def _check_untouched(system: SystemUnderTest, workload: Workload, needed: int) -> None:
    regions = system.regions
    if regions.written_bytes + needed > regions.size_bytes:
        raise ConfigError(
            f"{workload.label} finds only {format_size(regions.size_bytes - regions.written_bytes)} that nothing"
            f" has written yet, and needs {format_size(needed)}: tests of this cell ran before.",
            hint="Make the disk larger with @pytest.mark.storage(size=...).",
            code="VM331",
        )


def _condition(system: SystemUnderTest, plan: Plan, say: Progress) -> None:
    """Bring the whole disk into its state, once in its life: the state is of the disk, not of a region."""
    regions = system.regions
    if regions.written_bytes == regions.size_bytes:
        return
    if system.config.state == "aged":
        say("aging the disk")
        write_disk(system, AGE_ARGV, 0, regions.size_bytes, plan)
    else:
        for words in ("filling the disk", "writing it over"):
            say(words)
            write_disk(system, FILL_ARGV, 0, regions.size_bytes, plan)
    regions.written_bytes = regions.size_bytes


def prove_state(system: SystemUnderTest) -> tuple[Proof, ...]:
    """The system's proof with the disk's state, which preconditioning makes after the rest was proven.

    Raises WorkloadError where an aged disk lies in one piece: the host put its blocks in order.
    """
    # a disk without storage has no state, as its proof says already
    if system.config.state == "fresh" or system.config.is_null or not system.identity.proof:
        return system.identity.proof
    made = _state_proof(system)
    return tuple(made if proof.field == "state" else proof for proof in system.identity.proof)


def _state_proof(system: SystemUnderTest) -> Proof:
    config, written = system.config, format_size(system.regions.written_bytes)
    where = "exit status of the fill"
    if config.arrives_filled:
        return Proof(field="state", asked=config.state, found="made with its data", status="proven", where="qemu-img")
    if config.state == "aged":
        return _aged_proof(system)
    if not system.regions.written_bytes:
        why = "the workload makes files of its own, and each block of theirs is written for the first time"
        return Proof(field="state", asked=config.state, found="0 written", status="unprovable", where=where, why=why)
    found = f"{written} written{' twice' if config.state == 'rewritten' else ''} before the rounds"
    on_host = system.regions.filled_on_host_bytes
    if on_host == system.regions.written_bytes:
        found, where = f"{written} written on the host before the guest began", "exit status of qemu-img"
    elif on_host:
        found, where = f"{found}, {format_size(on_host)} of it on the host", f"{where}, and of qemu-img"
    return Proof(field="state", asked=config.state, found=found, status="proven", where=where)


def _aged_proof(system: SystemUnderTest) -> Proof:
    pieces = system.fragments()
    where = "qemu-img map, filefrag"
    if pieces is None:
        why = "nobody here can tell in how many pieces the disk's data lies"
        return Proof(field="state", asked="aged", found="unknown", status="unprovable", where=where, why=why)
    least = max(2, system.regions.size_bytes // LARGEST_AGED_PIECE_BYTES)
    if pieces < least:
        raise WorkloadError(
            f"The figure of {system.config} is INVALID: its disk was written in random order to be aged, but its data"
            f" lies in {pieces} pieces on the host, fewer than {least}: the host's cache or file system put them in"
            " order.",
            code="VM703",
        )
    return Proof(field="state", asked="aged", found=f"data in {pieces} pieces", status="proven", where=where)


_BY_QEMU: Mapping[str, str] = {
    "on": "QEMU makes of zeros an order to store none (detect_zeroes=on)",
    "unmap": "QEMU discards what zeros are written to (detect_zeroes=unmap)",
}


def stored_as_nothing(config: StorageConfig, mounted: Iterable[FileSystem], lies_on: BlockPlace | None = None) -> str:
    """The reason why zeros are not stored like data, in a clause; "" where no layer is known to drop them.

    `mounted` are the file systems above the disk, in guest and on host; `lies_on` is the host's block device below
    them all.
    Sources: qemu-img(1) detect-zeroes (tried: 16 MiB of zeros took 0 bytes), zfsprops(7) compression, btrfs(5)
    compress; compression inside a device cannot be seen.
    """
    if config.detect_zeroes in _BY_QEMU and not config.is_native:
        return _BY_QEMU[config.detect_zeroes]
    if lies_on is not None and lies_on.kind == "zvol" and "compression off" not in lies_on.description:
        return "the ZFS volume compresses"
    return next((clause for one in mounted if (clause := _of_file_system(one))), "")


def _of_file_system(found: FileSystem) -> str:
    if found.kind == "zfs":
        return f"ZFS on {found.mountpoint} may compress, and its default is to"
    packing = [option for option in found.options if option.startswith(("compress=", "compress-force="))]
    if found.kind == "btrfs" and packing:
        return f"btrfs on {found.mountpoint} compresses ({packing[0]})"
    return ""


def zeros_vanish(shell: Shell, disk: HostDisk, in_guest: FileSystem | None = None) -> str:
    """The reason as of `stored_as_nothing`, for a disk on that shell's machine and the guest's file system on it."""
    on_host = None if disk.is_block else look_at(shell, disk.path, defaults=False)
    return stored_as_nothing(disk.config, [one for one in (in_guest, on_host) if one is not None], disk.block)
