"""Figures of shipped workloads as attributes, for editors and type checkers; tests/signatures.py makes this file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_vmstorage.results.run import Figure

    class Figures:
        """The figures that shipped workloads give under names that do not depend on options.

        A measurement has those of its workload. Others are had by their names, as those of several jobs or of a
        workload of the user's own: `result.figure("clat_p9999")`.
        """

        avg: Figure
        """s; lower is better."""
        buffered_read: Figure
        """MiB/s; higher is better."""
        bw: Figure
        """MiB/s; higher is better."""
        cached_read: Figure
        """MiB/s; higher is better."""
        clat_mean: Figure
        """s; lower is better."""
        clat_p50: Figure
        """s; lower is better."""
        clat_p95: Figure
        """s; lower is better."""
        clat_p99: Figure
        """s; lower is better."""
        clat_p999: Figure
        """s; lower is better."""
        clone: Figure
        """s; lower is better."""
        clone_after: Figure
        """B; lower is better."""
        clone_before: Figure
        """B; lower is better."""
        clone_taken: Figure
        """B; lower is better."""
        convert: Figure
        """s; lower is better."""
        convert_after: Figure
        """B; lower is better."""
        convert_before: Figure
        """B; lower is better."""
        convert_taken: Figure
        """B; lower is better."""
        create: Figure
        """s; lower is better."""
        create_after: Figure
        """B; lower is better."""
        create_before: Figure
        """B; lower is better."""
        create_taken: Figure
        """B; lower is better."""
        ctx: Figure
        """switches; lower is better."""
        delete: Figure
        """s; lower is better."""
        delete_after: Figure
        """B; lower is better."""
        delete_before: Figure
        """B; lower is better."""
        fsync_mean: Figure
        """s; lower is better."""
        fsync_p50: Figure
        """s; lower is better."""
        fsync_p95: Figure
        """s; lower is better."""
        fsync_p99: Figure
        """s; lower is better."""
        fsync_p999: Figure
        """s; lower is better."""
        insertions: Figure
        """insertions/s; higher is better."""
        iodepth_reached: Figure
        """in flight; higher is better."""
        iops: Figure
        """IOPS; higher is better."""
        lat_mean: Figure
        """s; lower is better."""
        lat_p50: Figure
        """s; lower is better."""
        lat_p95: Figure
        """s; lower is better."""
        lat_p99: Figure
        """s; lower is better."""
        lat_p999: Figure
        """s; lower is better."""
        max: Figure
        """s; lower is better."""
        mdev: Figure
        """s; lower is better."""
        min: Figure
        """s; lower is better."""
        pack_1: Figure
        """s; lower is better."""
        pack_2: Figure
        """s; lower is better."""
        pack_bw: Figure
        """MiB/s; higher is better."""
        preallocate: Figure
        """s; lower is better."""
        preallocate_after: Figure
        """B; lower is better."""
        preallocate_before: Figure
        """B; lower is better."""
        preallocate_taken: Figure
        """B; lower is better."""
        read_bw: Figure
        """MiB/s; higher is better."""
        read_clat_mean: Figure
        """s; lower is better."""
        read_clat_p50: Figure
        """s; lower is better."""
        read_clat_p95: Figure
        """s; lower is better."""
        read_clat_p99: Figure
        """s; lower is better."""
        read_clat_p999: Figure
        """s; lower is better."""
        read_iops: Figure
        """IOPS; higher is better."""
        read_lat_mean: Figure
        """s; lower is better."""
        read_lat_p50: Figure
        """s; lower is better."""
        read_lat_p95: Figure
        """s; lower is better."""
        read_lat_p99: Figure
        """s; lower is better."""
        read_lat_p999: Figure
        """s; lower is better."""
        read_slat_mean: Figure
        """s; lower is better."""
        read_slat_p50: Figure
        """s; lower is better."""
        read_slat_p95: Figure
        """s; lower is better."""
        read_slat_p99: Figure
        """s; lower is better."""
        read_slat_p999: Figure
        """s; lower is better."""
        requests: Figure
        """requests/s; higher is better."""
        resize: Figure
        """s; lower is better."""
        resize_after: Figure
        """B; lower is better."""
        resize_before: Figure
        """B; lower is better."""
        resize_taken: Figure
        """B; lower is better."""
        rollback: Figure
        """s; lower is better."""
        rollback_after: Figure
        """B; lower is better."""
        rollback_before: Figure
        """B; lower is better."""
        runtime: Figure
        """s; ranks nothing."""
        seconds: Figure
        """s; lower is better."""
        slat_mean: Figure
        """s; lower is better."""
        slat_p50: Figure
        """s; lower is better."""
        slat_p95: Figure
        """s; lower is better."""
        slat_p99: Figure
        """s; lower is better."""
        slat_p999: Figure
        """s; lower is better."""
        snapshot: Figure
        """s; lower is better."""
        snapshot_after: Figure
        """B; lower is better."""
        snapshot_before: Figure
        """B; lower is better."""
        snapshot_taken: Figure
        """B; lower is better."""
        steadystate_attained: Figure
        """%; higher is better."""
        steadystate_bw: Figure
        """MiB/s; higher is better."""
        steadystate_iops: Figure
        """IOPS; higher is better."""
        sys_cpu: Figure
        """%; lower is better."""
        tps: Figure
        """transactions/s; higher is better."""
        unpack_1: Figure
        """s; lower is better."""
        unpack_2: Figure
        """s; lower is better."""
        unpack_bw: Figure
        """MiB/s; higher is better."""
        usr_cpu: Figure
        """%; lower is better."""
        write_bw: Figure
        """MiB/s; higher is better."""
        write_clat_mean: Figure
        """s; lower is better."""
        write_clat_p50: Figure
        """s; lower is better."""
        write_clat_p95: Figure
        """s; lower is better."""
        write_clat_p99: Figure
        """s; lower is better."""
        write_clat_p999: Figure
        """s; lower is better."""
        write_iops: Figure
        """IOPS; higher is better."""
        write_lat_mean: Figure
        """s; lower is better."""
        write_lat_p50: Figure
        """s; lower is better."""
        write_lat_p95: Figure
        """s; lower is better."""
        write_lat_p99: Figure
        """s; lower is better."""
        write_lat_p999: Figure
        """s; lower is better."""
        write_slat_mean: Figure
        """s; lower is better."""
        write_slat_p50: Figure
        """s; lower is better."""
        write_slat_p95: Figure
        """s; lower is better."""
        write_slat_p99: Figure
        """s; lower is better."""
        write_slat_p999: Figure
        """s; lower is better."""

else:

    class Figures:
        """The figures that shipped workloads give under names that do not depend on options."""
