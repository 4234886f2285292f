"""Rows of machines that the plugin did not make, next to its own: stated is not proven, and nothing is mixed up.

Tests of `measure.proof.without_guest`, the reports and the gate with such rows.
"""

from __future__ import annotations

import csv
import io

from pytest_vmstorage.analysis.cell_pairs import PairScope
from pytest_vmstorage.analysis.gate.by_days import compare
from pytest_vmstorage.analysis.gate.kinds import Kind
from pytest_vmstorage.analysis.gate.policy import GatePolicy
from pytest_vmstorage.analysis.yardsticks import Yardsticks
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.measure.proof.without_guest import STATED_BY
from pytest_vmstorage.report.csv import render_csv
from pytest_vmstorage.report.table import Table, build_table
from pytest_vmstorage.results.cautions import WorkingSet
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.host import HostFacts
from pytest_vmstorage.results.run import Measurement, Proof, Run
from pytest_vmstorage.results.saved import Baseline
from pytest_vmstorage.storage.block import needs_block
from pytest_vmstorage.storage.disk import folder_bytes
from pytest_vmstorage.testing.builders import make_baseline, make_failure, make_host, make_measurement, make_run

ESX = StorageConfig(backing="machine:esx", size="1G")
OURS = StorageConfig()
STATED = {"format": "vmfs", "bus": "pvscsi", "hypervisor": "ESXi 7"}
HOSTS = (
    make_host("lab", accel="tcg"),
    HostFacts(name="esx", cpu="Xeon", accel="vmware (said)", stated=STATED, is_machine=True, kernel="5.10"),
)
PROOF = tuple(
    Proof(field=name, asked=value, found="unknown", status="unprovable", where="vmstorage.toml", why=STATED_BY)
    for name, value in STATED.items()
)


def measured(**more: object) -> Measurement:
    """What the machine measured."""
    made = make_measurement(ESX, iops=(9000, 9100, 9200), host="esx", guest={"kernel": "5.10", "machine id": "abc"})
    return made.model_copy(update={"proof": PROOF, **more})


def run() -> Run:
    """A guest of ours and the machine."""
    return make_run(make_measurement(OURS, iops=(500, 510, 520), host="lab"), measured(), hosts=HOSTS)


def texts(table: Table) -> list[list[str]]:
    """The cells' texts, row by row, after the row's axes."""
    return [[*row.axes, *(cell.text for cell in row.cells)] for row in table.rows]


def test_a_label_stands_in_the_columns_of_its_fields_as_stated() -> None:
    """Beside what is proven of others; a field that no cell has gets a column too."""
    table = build_table(run())
    assert table.axes == ("host", "format", "bus", "backing", "hypervisor", "accel")
    assert texts(table) == [
        ["lab", "raw", "virtio-blk", "file", "-", "tcg", "510 IOPS ±2 %"],
        [
            *("esx", "vmfs (stated)", "pvscsi (stated)", "machine:esx", "ESXi 7 (stated)", "vmware (said)"),
            "9100 IOPS ±1 %",
        ],
    ]
    assert table.caption == "all rows with a guest: none, preallocation off, size 1G"


def test_a_label_is_shown_where_all_rows_have_it() -> None:
    """It says of each figure what it is taken for, and that nobody proved it."""
    table = build_table(make_run(measured(), hosts=HOSTS))
    assert table.axes == ("format", "bus", "hypervisor")
    assert texts(table)[0][:3] == ["vmfs (stated)", "pvscsi (stated)", "ESXi 7 (stated)"]
    assert table.caption == "one row: size 1G, backing machine:esx"


def test_a_machine_without_a_figure_keeps_its_label() -> None:
    """A row that failed stands where it would have stood."""
    table = build_table(make_run(measured(), failures=(make_failure(ESX, reason="No.", host="esx"),), hosts=HOSTS))
    assert len(table.rows) == 1


def test_the_sections_say_what_is_not_provable_and_why() -> None:
    """And that the machine is none of the plugin's: there is no QEMU, libvirt or acceleration of ours."""
    sections = {section.title: section.lines for section in build_table(run()).sections}
    assert sections["machine esx, which the plugin did not make"] == (
        "Xeon, unknown cores, unknown memory, governor unknown",
        "kernel 5.10; it says that it runs on: vmware",
        "measured in unknown on unknown, device unknown",
        "stated by vmstorage.toml, which nothing here can prove: format vmfs, bus pvscsi, hypervisor ESXi 7",
    )
    assert sections["machines that the plugin did not make"] == ("esx: kernel 5.10, machine id abc",)
    assert "esx" not in " ".join(sections.get("guest", ()))
    lines = [line for found in sections.values() for line in found]
    assert any(line.startswith(f"not provable here: format, bus, hypervisor ({STATED_BY})") for line in lines)


def test_the_long_form_has_what_is_stated_apart() -> None:
    """The axes' own columns hold what is proven, and stay empty."""
    ours, esx = csv.DictReader(io.StringIO(render_csv(run())))
    assert (ours["format"], ours["stated"]) == ("raw", "")
    assert (esx["format"], esx["bus"], esx["stated"]) == ("", "", "format=vmfs bus=pvscsi hypervisor=ESXi 7")
    assert (esx["host"], esx["backing"], esx["accel"]) == ("esx", "machine:esx", "vmware (said)")


def verdict(then: Run, now: Run) -> tuple[Kind, str]:
    """What the gate says of the one figure."""
    (found,) = compare(now, make_baseline(then), GatePolicy(day_spread=0.01)).gated
    return found.kind, found.reason


def test_the_gate_holds_a_machine_against_itself() -> None:
    """As any other row."""
    slower = measured(samples=make_measurement(ESX, iops=(4500, 4550, 4600), host="esx").samples)
    saved = make_run(measured(), hosts=HOSTS)
    assert verdict(saved, make_run(measured(), hosts=HOSTS))[0] is Kind.PASS
    assert verdict(saved, make_run(slower, hosts=HOSTS))[0] is not Kind.PASS
    # its disk may have another name of the kernel's today
    renamed = measured(command="fio --filename=/dev/sdc")
    assert verdict(saved, make_run(renamed, hosts=HOSTS))[0] is Kind.PASS


def test_another_machine_behind_the_name_is_not_compared() -> None:
    """Its id, its kernel or what it runs on tells; and no other machine's figure stands in for it."""
    saved = make_run(measured(), hosts=HOSTS)
    anew = make_run(measured(guest={"kernel": "5.10", "machine id": "def"}), hosts=HOSTS)
    kind, reason = verdict(saved, anew)
    assert kind is Kind.INCONCLUSIVE
    assert "machine id was abc and is def now" in reason
    assert "the guest's" not in reason
    moved = (HOSTS[0], HOSTS[1].model_copy(update={"accel": "kvm (said)"}))
    kind, reason = verdict(saved, make_run(measured(), hosts=moved))
    assert kind is Kind.INCONCLUSIVE
    assert "saved under vmware (said) and measured under kvm (said) now" in reason
    other = StorageConfig(backing="machine:other")
    elsewhere = make_measurement(other, iops=(9000,) * 3, host="other", nodeid=measured().nodeid)
    assert Baseline(name="b", path=make_baseline(saved).path, run=saved).find is not None
    (found,) = compare(make_run(elsewhere), make_baseline(saved), GatePolicy()).gated
    assert found.reason.endswith("the baseline has no such cell.")


def test_a_machine_is_no_yardstick_of_ours_and_has_none() -> None:
    """No native row is on its disk, nothing of ours is compared with it unasked, and no best row is marked for both."""
    rows = run()
    machine = rows.measurements[1]
    assert Yardsticks(rows.measurements).native_of(machine) is None
    assert Yardsticks(rows.measurements).null_of(machine) is None
    assert [row.is_yardstick for row in PairScope(rows).rows()] == [False, True]
    yardsticks = Yardsticks()
    uncached = IoCounters(layer_read_bytes=2**30, layer_written_bytes=0, host_read_bytes=2**30, host_written_bytes=0)
    slow = make_measurement(StorageConfig(backing="native:esx"), iops=(10,) * 3, host="lab")
    yardsticks.check(slow)
    samples = tuple(sample.model_copy(update={"moved": uncached}) for sample in machine.samples)
    yardsticks.check(machine.model_copy(update={"samples": samples, "host": "lab"}))


def test_nothing_of_the_host_is_taken_for_it() -> None:
    """No room in its folder, no device, no guest."""
    assert (folder_bytes(ESX), needs_block(ESX), ESX.has_guest, OURS.has_guest) == (0, False, False, True)
    assert str(ESX) == "machine:esx"
    assert str(StorageConfig(backing="machine:a-b", state="rewritten")) == "machine:a-b-rewritten"
    held = WorkingSet(label="dd", size_bytes=2**20, is_direct=False)
    assert held.holders(ESX, 2**30) == ("the machine's page cache",)
