"""Rules for a guest's bus, queues, io modes and limits."""

from __future__ import annotations

from pytest_vmstorage.config.buses import BUSES, CACHES
from pytest_vmstorage.config.rules.image import EXTENTS
from pytest_vmstorage.config.rules.rule import Rule, is_power_of_two

LEAST_IOPS_SEC = 10
LEAST_BYTES_SEC = 512 * 2**10
"""Below these a guest's kernel waits longer than the 30 s that it gives a disk while the disk is filled."""

MOST_A_SECOND = 10**15
"""The most per second that libvirt hands to QEMU."""


def _is_below(limit: int | None, least: int) -> bool:
    return limit is not None and limit < least


DEVICE_RULES = (
    Rule(
        "native-needs-direct",
        lambda cell: cell.io == "native" and not CACHES[cell.cache].direct,
        "io=native needs cache none or directsync",
        "libvirt error 67, QEMU block/file-posix.c, tried",
        "VM161",
    ),
    Rule(
        "io-of-vmdk-extents",
        lambda cell: cell.format == "vmdk" and cell.subformat in EXTENTS and cell.io != "threads",
        "QEMU gives io to the vmdk's descriptor only, and serves its extent files by threads",
        "strace of qemu-io with native, tried",
        "VM162",
    ),
    Rule(
        "zeroes-unmap-needs-discard",
        lambda cell: cell.detect_zeroes == "unmap" and cell.discard != "unmap",
        "detect_zeroes=unmap needs discard=unmap: libvirt makes it on without a word",
        "QMP query-named-block-nodes, tried; libvirt formatdomain",
        "VM163",
    ),
    Rule(
        "ide-needs-pc",
        lambda cell: cell.bus == "ide" and cell.machine == "q35",
        "q35 has no IDE controller; machine pc has",
        'libvirt: "IDE controllers are unsupported for this QEMU binary or machine type", tried',
        "VM164",
    ),
    Rule(
        "iothread-needs-virtio",
        lambda cell: cell.iothread and not BUSES[cell.bus].is_virtio,
        "only virtio-blk and virtio-scsi have iothreads",
        'libvirt: "IOThreads not available for bus", tried',
        "VM165",
    ),
    Rule(
        "queues-need-virtio",
        lambda cell: (cell.queues or cell.queue_size) and not BUSES[cell.bus].is_virtio,
        "only virtio-blk and virtio-scsi have queues to set",
        "libvirt formatdomain: virtio devices only, tried",
        "VM166",
    ),
    Rule(
        "queue-size",
        lambda cell: (
            cell.queue_size is not None and not (is_power_of_two(cell.queue_size) and 4 <= cell.queue_size <= 1024)
        ),
        "queue_size is a power of two from 4 to 1024",
        "QEMU refuses others at start, tried; VIRTQUEUE_MAX_SIZE",
        "VM167",
    ),
    Rule(
        "queues-of-blk",
        lambda cell: cell.bus == "virtio-blk" and (cell.queues or 0) > 1024,
        "a virtio-blk disk has 1024 queues at most",
        "QEMU aborts at more, tried; VIRTIO_QUEUE_MAX",
        "VM168",
    ),
    Rule(
        "queues-of-scsi",
        lambda cell: cell.bus == "virtio-scsi" and (cell.queues or 0) > 1022,
        "a virtio-scsi controller has 1022 queues for requests at most",
        "QEMU refuses more at start, tried; VIRTIO_QUEUE_MAX",
        "VM169",
    ),
    Rule(
        "vcpus-of-machine",
        lambda cell: cell.vcpus > (255 if cell.machine_type == "pc" else 288),
        "machine pc has 255 vCPUs at most, q35 288",
        "query-machines of QEMU 7.2, cpu-max",
        "VM170",
    ),
    Rule(
        "queue-size-of-scsi",
        lambda cell: cell.queue_size is not None and cell.bus == "virtio-scsi",
        "libvirt sets queue_size on a disk, and a virtio-scsi disk has none; use virtio-blk",
        "libvirt formatdomain, driver of a disk",
        "VM171",
    ),
    Rule(
        "least-limits",
        lambda cell: _is_below(cell.total_iops_sec, LEAST_IOPS_SEC) or _is_below(cell.total_bytes_sec, LEAST_BYTES_SEC),
        "with total_iops_sec below 10 or total_bytes_sec below 512k the guest's kernel gives up waiting while its disk"
        " is filled, or the guest does not boot; a disk without a limit has none said",
        "Linux's 30 s for a command; at 1 IOPS I/O errors on sata and the end of QEMU on lsilogic, at 128k I/O errors"
        " on sata and a stuck guest on nvme, tried",
        "VM172",
    ),
    Rule(
        "most-limits",
        lambda cell: max(cell.total_iops_sec or 0, cell.total_bytes_sec or 0) > MOST_A_SECOND,
        "total_iops_sec and total_bytes_sec are 10^15 at most",
        'libvirt: "block I/O throttle limit must be no more than 1000000000000000 using QEMU", tried',
        "VM173",
    ),
)
