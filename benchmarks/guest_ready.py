"""How long from asking for a guest to the first command answered in it, beside a bare QEMU of the same guest.

Interleaved: plugin, bare, plugin, bare. The last line is JSON: `median_s`, `bare_median_s`, `ratio` (median of
the pairwise ratios), `teardown_s` (median of what discarding the last guest adds before the next one may measure).

    python benchmarks/guest_ready.py [--guests 10] [--accel tcg]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import uuid

from bare import bare_guest

from pytest_vmstorage.config import StorageConfig
from pytest_vmstorage.lab import Lab, LabSettings
from pytest_vmstorage.opening import open_lab
from pytest_vmstorage.provision.disk import make_disk, remove_disk
from pytest_vmstorage.provision.hostdisk import HostDisk


def plugin_seconds(lab: Lab, number: int) -> tuple[float, float]:
    """Seconds to a guest's first answer through the plugin, and seconds that the last guest's teardown added."""
    config = StorageConfig(size=(256 + number) * 2**20)
    begin = time.monotonic()
    lab.drop()
    dropped = time.monotonic() - begin
    assert lab.guest(config).run("echo ready").stdout == "ready\n"
    ready = time.monotonic() - begin
    begin = time.monotonic()
    lab.pool.settle()
    return ready, dropped + time.monotonic() - begin


def bare_seconds(lab: Lab, number: int) -> float:
    """Seconds to the first answer of a bare QEMU with the same kernel, initrd, root and disk."""
    config = StorageConfig(size=(256 + number) * 2**20)
    disk = f"{lab.pool.folder}/bare.raw"
    begin = time.monotonic()
    make_disk(lab.shell, config, disk)
    with bare_guest(
        lab.pool.spec("bare", str(uuid.uuid4()), HostDisk(config=config, path=disk), lab.accel.used)
    ) as guest:
        guest.wait()
        assert guest.run("echo ready") == "ready\n"
        seconds = time.monotonic() - begin
    remove_disk(lab.shell, disk)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--guests", type=int, default=10)
    parser.add_argument("--accel", default="auto")
    arguments = parser.parse_args()
    lab = open_lab(LabSettings(accel=arguments.accel), print)
    ours, bare, teardowns = [], [], []
    try:
        plugin_seconds(lab, -1)  # fills the host's page cache for both sides
        for number in range(arguments.guests):
            seconds, teardown = plugin_seconds(lab, number)
            ours.append(seconds)
            teardowns.append(teardown)
            # the plugin's guest stays, idle: the next one is asked for while this one is torn down, as in a run
            bare.append(bare_seconds(lab, number))
            print(f"guest {number}: plugin {ours[-1]:.2f} s, bare {bare[-1]:.2f} s, teardown {teardown:.2f} s")
    finally:
        lab.close()
    facts = lab.facts
    print(f"{facts.cpu}, {facts.cores} cores, QEMU {facts.qemu}, libvirt {facts.libvirt}, {facts.accel}")
    print(
        json.dumps(
            {
                "median_s": round(statistics.median(ours), 3),
                "bare_median_s": round(statistics.median(bare), 3),
                "ratio": round(statistics.median(a / b for a, b in zip(ours, bare, strict=True)), 3),
                "teardown_s": round(statistics.median(teardowns), 3),
                "guests": len(ours),
                "min_s": round(min(ours), 3),
                "max_s": round(max(ours), 3),
                "accel": facts.accel,
            }
        )
    )


if __name__ == "__main__":
    main()
