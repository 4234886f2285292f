"""How long from asking for a guest to the first command answered in it, beside a bare QEMU of the same guest.

Its disk is proven by then. Interleaved: restored by the plugin, booted by the plugin, bare, and again. The last line is
JSON: `restored_median_s` (with `restored_min_s`, `restored_max_s`), `fresh_median_s` (also `median_s`, with `min_s` and
`max_s`), `bare_median_s`, `ratio` (of a booted guest over the bare one, median of the pairs), `restored_ratio`,
`teardown_s` (median of what discarding the last guest adds before the next one may measure), `saving_s` (what the first
restored guest takes, which is saved before).

    python benchmarks/guest_ready.py [--guests 10] [--accel tcg] [--bus virtio-blk]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import uuid

from pytest_vmstorage.cli.calibrate.bare import bare_guest
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.config.settings import LabSettings
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.lab.opening import open_lab
from pytest_vmstorage.storage.disk import HostDisk
from pytest_vmstorage.storage.image import make_disk, remove_disk


def plugin_seconds(lab: Lab, config: StorageConfig, *, restored: bool) -> tuple[float, float]:
    """Seconds to a guest's first answer through the plugin, and seconds that the last guest's teardown added."""
    assert lab.provisioner.restoring is not None
    lab.factory.begin_by(lab.provisioner.restoring.begin if restored else None)
    begin = time.monotonic()
    lab.drop()
    dropped = time.monotonic() - begin
    guest = lab.guest(config)
    assert guest.run("echo ready").stdout == "ready\n"
    ready = time.monotonic() - begin
    assert guest.machine.is_restored == restored
    begin = time.monotonic()
    lab.factory.settle()
    return ready, dropped + time.monotonic() - begin


def bare_seconds(lab: Lab, config: StorageConfig) -> float:
    """Seconds to the first answer of a bare QEMU with the same kernel, initrd, root and disk."""
    disk = f"{lab.factory.folder}/bare.raw"
    begin = time.monotonic()
    make_disk(lab.shell, config, disk)
    with bare_guest(
        lab.factory.spec("bare", str(uuid.uuid4()), HostDisk(config=config, path=disk), lab.accel.used)
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
    parser.add_argument("--bus", default="virtio-blk")
    arguments = parser.parse_args()
    lab = open_lab(LabSettings(accel=arguments.accel, boot="fresh"), print)
    ours, bare, teardowns, restored = [], [], [], []
    try:
        # fills the host's page cache for all sides
        first = StorageConfig(bus=arguments.bus, size="255M")
        plugin_seconds(lab, first, restored=False)
        saving_s, _ = plugin_seconds(lab, first, restored=True)
        for number in range(arguments.guests):
            config = StorageConfig(bus=arguments.bus, size=(256 + number) * 2**20)
            restored.append(plugin_seconds(lab, config, restored=True)[0])
            seconds, teardown = plugin_seconds(lab, config, restored=False)
            ours.append(seconds)
            teardowns.append(teardown)
            # the plugin's guest stays, idle: the next one is asked for while this one is torn down, as in a run
            bare.append(bare_seconds(lab, config))
            print(
                f"guest {number}: restored {restored[-1]:.2f} s, booted {ours[-1]:.2f} s, bare {bare[-1]:.2f} s, "
                f"teardown {teardown:.2f} s"
            )
    finally:
        lab.close()
    facts = lab.facts
    print(f"{facts.cpu}, {facts.cores} cores, QEMU {facts.qemu}, libvirt {facts.libvirt}, {facts.accel}")
    print(
        json.dumps(
            {
                "restored_median_s": round(statistics.median(restored), 3),
                "restored_min_s": round(min(restored), 3),
                "restored_max_s": round(max(restored), 3),
                "fresh_median_s": round(statistics.median(ours), 3),
                "median_s": round(statistics.median(ours), 3),
                "bare_median_s": round(statistics.median(bare), 3),
                "ratio": round(statistics.median(a / b for a, b in zip(ours, bare, strict=True)), 3),
                "restored_ratio": round(statistics.median(a / b for a, b in zip(restored, bare, strict=True)), 3),
                "saving_s": round(saving_s, 3),
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
