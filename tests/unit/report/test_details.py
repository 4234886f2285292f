"""Details of figures in the report and in `vmstorage show`."""

from __future__ import annotations

from pytest_vmstorage.cli.show import show_cell
from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.cautions import Caution
from pytest_vmstorage.results.cost import Cost
from pytest_vmstorage.results.counters import IoCounters
from pytest_vmstorage.results.host import HostState
from pytest_vmstorage.results.run import Measurement, Run
from pytest_vmstorage.testing.builders import make_measurement, make_run

RAW, QCOW2, VDI = StorageConfig(), StorageConfig(format="qcow2"), StorageConfig(format="vdi")
MOVED = IoCounters(
    layer_reads=0,
    layer_writes=10000,
    guest_read_bytes=0,
    guest_written_bytes=40960000,
    host_read_bytes=0,
    host_written_bytes=81920000,
    layer_flushes=50,
)


def measured(
    config: StorageConfig = RAW,
    *,
    vcpu: float = 0.5,
    iops: tuple[float, ...] = (1000.0,),
    workload: str = "fio randwrite 4k",
    host: str = "local",
    cautions: tuple[Caution, ...] = (),
) -> Measurement:
    """A measurement whose first round did 10,000 writes for that many seconds of vCPU, a quarter of it in workers."""
    plain = make_measurement(config, workload=workload, host=host, iops=iops)
    cost = Cost(cpu_s={"vCPU": vcpu * 0.75, "worker": vcpu * 0.249, "other": vcpu * 0.001}, waited_s=0.25, switches=500)
    samples = tuple(
        sample.model_copy(update={"moved": MOVED, "cost": cost, "pressed": {"cpu": 0.25, "io": 0.5}})
        for sample in plain.samples
    )
    return plain.model_copy(update={"samples": samples, "around": HostState(device="sda"), "cautions": cautions})


def section(run: Run, title: str) -> tuple[str, ...]:
    """The lines below the title that begins so."""
    return next((one.lines for one in build_table(run).sections if one.title.startswith(title)), ())


def test_a_row_alone_says_what_it_cost() -> None:
    """Classes that took less than half a percent are left to `show`."""
    (line,) = section(make_run(measured()), "cost beside speed")
    assert line == (
        "fio randwrite 4k: 50 us CPU [vCPU 75%, worker 25%], 0.05 context switches, 0.005 flushes per write asked for"
        " by the guest (raw-none-virtio-blk-off)"
    )


def test_what_the_hosts_device_flushed_stands_beside_what_the_guest_asked_for() -> None:
    """With writethrough the guest asks for nothing, and the host flushes after each write."""
    measurement = measured()
    moved = MOVED.model_copy(update={"layer_flushes": 0, "host_flushes": 10000})
    samples = tuple(sample.model_copy(update={"moved": moved}) for sample in measurement.samples)
    (line,) = section(make_run(measurement.model_copy(update={"samples": samples})), "cost beside speed")
    assert "0.000 flushes per write asked for by the guest, 1.000 done by the host's device (" in line


def test_rows_of_one_cost_are_one_line() -> None:
    """They are equal where they print the same."""
    (line,) = section(make_run(measured(RAW), measured(QCOW2, vcpu=0.5001)), "cost beside speed")
    assert line.endswith("flushes per write asked for by the guest (2 rows)")


def test_of_many_rows_the_cheapest_and_the_dearest_are_named() -> None:
    """However many there are, and whatever order they were measured in."""
    rows = (measured(QCOW2, vcpu=1.0), measured(RAW, vcpu=0.25), measured(VDI, vcpu=0.5))
    (line,) = section(make_run(*rows), "cost beside speed")
    assert line.startswith("fio randwrite 4k: 25 us CPU [")
    assert "(raw-none-virtio-blk-off) to 100 us CPU [" in line
    assert line.endswith("(qcow2-none-virtio-blk-off), 3 rows")


def test_costs_of_different_work_are_not_put_together() -> None:
    """Neither of two workloads nor of two hosts."""
    rows = (measured(), measured(workload="dd"), measured(workload="dd", host="lab01"))
    lines = section(make_run(*rows), "cost beside speed")
    assert [line.partition(":")[0] for line in lines] == ["fio randwrite 4k, local", "dd, local", "dd, lab01"]


def test_rows_without_a_cost_are_left_out() -> None:
    """Native rows have no QEMU."""
    assert section(make_run(make_measurement()), "cost beside speed") == ()


def test_rounds_that_were_not_steady_are_named() -> None:
    """Those that were, and those too few to judge, make no line."""
    run = make_run(
        measured(RAW, iops=(100, 125, 100, 125, 100)),
        measured(QCOW2, iops=(100, 100, 100, 100, 100)),
        measured(VDI, iops=(1, 100)),
    )
    assert section(run, "not steady") == (
        "fio randwrite 4k on raw-none-virtio-blk-off 1G, local: iops not steady over 5 rounds: a range of 22.7% of"
        " the mean is over the limit of 20%",
    )


def test_what_speaks_against_figures_is_one_line_for_each_thing() -> None:
    """With how much was found, and in how many measurements."""
    busy, quiet = Caution(says="tasks waited", share=0.5), Caution(says="tasks waited", share=0.25)
    governor = Caution(says="the governor is powersave")
    run = make_run(measured(RAW, cautions=(busy, governor)), measured(QCOW2, cautions=(quiet, governor)), measured(VDI))
    assert section(run, "what speaks against figures") == (
        "tasks waited: 25% to 50% [2 of 3 measurements]",
        "the governor is powersave [2 of 3 measurements]",
    )
    assert section(make_run(measured(cautions=(busy,))), "what speaks") == ("tasks waited: 50%",)


def test_the_hosts_state_is_one_line() -> None:
    """What is hidden is in it."""
    assert section(make_run(measured(), measured(QCOW2)), "host around the rounds") == (
        "governor unknown, turbo unknown, device sda, its scheduler unknown, its write cache unknown, NUMA unknown,"
        " QEMU may run on CPUs unknown",
    )


def test_two_hosts_have_a_line_each() -> None:
    """One's device is not the other's."""
    lines = section(make_run(measured(), measured(host="lab01")), "host around the rounds")
    assert [line.partition(" governor")[0] for line in lines] == ["local:", "lab01:"]


def test_a_cell_shows_all_of_it() -> None:
    """Every class, ratio, share and caution; what was not judged too."""
    run = make_run(measured(cautions=(Caution(says="tasks waited", share=0.5),)))
    lines = show_cell(run, str(RAW), "x")
    begin = lines.index("raw-none-virtio-blk-off 1G on local, fio randwrite 4k, beside the figure")
    assert lines[begin + 1 :] == [
        "  CPU of QEMU per guest I/O: 50 us (vCPU 37.5 us, worker 12.4 us, other 50 ns)",
        "  for each I/O of the guest: 0.05 context switches, 0.005 flushes per write asked for by the"
        " guest, 2.00 host bytes per guest byte",
        "  QEMU's threads were kept waiting for a CPU: 0.25 s in 1 round(s)",
        "  steady state of iops: not judged (1 round)",
        "  host: governor unknown, turbo unknown, device sda, its scheduler unknown, its write cache unknown,"
        " NUMA unknown, QEMU may run on CPUs unknown",
        "  host: temperature unknown, other QEMU processes unknown",
        "  waited for on the host: cpu 25%, io 50% of the rounds; in the 10 s before: unknown",
        "  caution: tasks waited: 50%",
    ]


def test_a_row_of_an_earlier_version_shows_nothing_of_it() -> None:
    """It reads back, and what it does not say is not made up."""
    saved = make_run(make_measurement()).model_dump(mode="json")
    for measurement in saved["measurements"]:
        for name in ("around", "cautions"):
            del measurement[name]
        for sample in measurement["samples"]:
            for name in ("cost", "pressed", "moved"):
                del sample[name]
    run = Run.model_validate(saved)
    assert run == make_run(make_measurement())
    assert not any("beside the figure" in line for line in show_cell(run, str(RAW), "x"))


def test_all_of_it_reads_back_from_json() -> None:
    """It is stored with its row."""
    run = make_run(measured(cautions=(Caution(says="tasks waited", share=0.5),)))
    assert Run.model_validate_json(run.model_dump_json()) == run
