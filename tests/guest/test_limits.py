"""Limited disks on real guests: how many I/Os and bytes they serve, what proves it, and disks that have no limit."""

from __future__ import annotations

import re
from typing import Any

import pytest

from pytest_vmstorage import Dd, Fio, StorageConfig
from pytest_vmstorage.config.cell import FIELDS
from pytest_vmstorage.errors import AttestationError
from pytest_vmstorage.guest.domain_xml import GuestSpec, domain_xml
from pytest_vmstorage.host.lease import Lease
from pytest_vmstorage.lab import factory as pool_module
from pytest_vmstorage.lab.lab import Lab
from pytest_vmstorage.measure.proof.claim import BLOCK, XML
from pytest_vmstorage.measure.runner import measure
from pytest_vmstorage.measure.system import Plan
from pytest_vmstorage.results.run import Measurement

pytestmark = pytest.mark.restored

MIB = 2**20
READ = Fio(rw="randread", bs="4k", iodepth=8, size="8M", runtime=3, time_based=True)
ONCE = Plan(rounds=1, warmup=0)
ABOVE = 1.15
"""The limit and a burst: QEMU lets through what it serves in 0.1 s, 3 % of three seconds, and what is in flight."""

CELLS: list[dict[str, Any]] = [
    {},
    {"bus": "virtio-scsi", "iothread": True, "format": "qcow2", "cache": "writeback"},
    {"bus": "sata"},
    {"bus": "usb"},
    {"bus": "nvme"},
    {"backing": "null"},
]


def measured(lab: Lab, config: StorageConfig, job: Fio | Dd = READ) -> Measurement:
    """One round in that cell."""
    return measure(lab.environment(config), job, ONCE)


def sources(row: Measurement, field: str) -> dict[str, str]:
    """What was found of a field by where it was read; all of it is proven."""
    proofs = [proof for proof in row.proof if proof.field == field]
    assert {proof.status for proof in proofs} == {"proven"}
    return {proof.where: proof.found for proof in proofs}


@pytest.mark.parametrize("values", CELLS, ids=lambda values: "-".join(map(str, values.values())) or "plain")
def test_a_disk_serves_no_more_ios_than_its_limit(lab: Lab, values: dict[str, Any]) -> None:
    """Whatever the bus, with and without storage; libvirt and QEMU tell of it, of NVMe QEMU alone."""
    row = measured(lab, StorageConfig(total_iops_sec=200, size="48M", **values))
    assert row.iops <= 200 * ABOVE
    found = sources(row, "total_iops_sec")
    assert found == ({BLOCK: "200"} if values.get("bus") == "nvme" else {XML: "200", BLOCK: "200"})
    assert set(sources(row, "total_bytes_sec").values()) == {"no limit"}


def test_a_disk_serves_no_more_bytes_than_its_limit(lab: Lab) -> None:
    """Read and written."""
    config = StorageConfig(total_bytes_sec="2M", total_iops_sec=100_000, size="48M")
    row = measured(lab, config)
    assert row.iops * 4096 <= 2 * MIB * ABOVE
    assert sources(row, "total_bytes_sec") == {XML: "2M", BLOCK: "2M"}
    assert sources(row, "total_iops_sec") == {XML: "100000", BLOCK: "100000"}
    written = measured(lab, config, Dd(bs="64k", count=96, oflag="direct"))
    assert written.bw <= 2 * ABOVE


def test_a_disk_without_a_limit_serves_more(lab: Lab) -> None:
    """The same job without one: what is measured above is the limit, and not the machine."""
    row = measured(lab, StorageConfig(size="48M"))
    assert row.iops > 200 * ABOVE
    assert {*FIELDS} - {"state"} <= {proof.field for proof in row.proof if proof.status == "proven"}


@pytest.mark.parametrize(
    ("pattern", "replacement", "found"),
    [
        ("<iotune>.*</iotune>", "", "no limit"),
        (">200<", ">300<", "300"),
        ("total_iops_sec", "read_iops_sec", "read_iops_sec 200"),
        ("</iotune>", "<total_iops_sec_max>900</total_iops_sec_max></iotune>", "200, total_iops_sec_max 900"),
    ],
)
def test_a_disk_with_another_limit_is_caught(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, pattern: str, replacement: str, found: str
) -> None:
    """None, a higher one, one of reads alone, one with bursts."""

    def edited(spec: GuestSpec, lease: Lease | None = None) -> str:
        text, count = re.subn(pattern, replacement, domain_xml(spec, lease))
        assert count
        return text

    monkeypatch.setattr(pool_module, "domain_xml", edited)
    # a size of its own: a cell that failed is not tried again
    config = StorageConfig(total_iops_sec=200, size=(64 + len(found)) * MIB)
    with pytest.raises(AttestationError) as caught:
        lab.guest(config)
    assert caught.value.field == f"total_iops_sec of {config}"
    assert (caught.value.asked, caught.value.found) == ("200", f"{found} (live XML)")
    assert "(QMP query-block), not 200" in str(caught.value)


def test_an_nvme_disk_that_was_not_limited_is_caught(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """libvirt would say nothing of it."""
    monkeypatch.setattr(pool_module, "nvme_limits", lambda _config: {})
    with pytest.raises(AttestationError, match=r"total_iops_sec of .* was asked to be 200 but is no limit"):
        lab.guest(StorageConfig(bus="nvme", total_iops_sec=200, size="61M"))
