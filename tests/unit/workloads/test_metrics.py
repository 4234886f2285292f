"""Which metrics get a column: by `shown=` of a workload, and by the user's choice for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.results.run import Metric
from pytest_vmstorage.workloads.base import Columns, Target, Workload, parse_columns
from pytest_vmstorage.workloads.dd import Dd
from pytest_vmstorage.workloads.fio.fio import Fio
from pytest_vmstorage.workloads.fio.presets import Tiobench
from pytest_vmstorage.workloads.hdparm import Hdparm
from pytest_vmstorage.workloads.image_operations import ImageOperations
from pytest_vmstorage.workloads.ioping import Ioping
from pytest_vmstorage.workloads.iozone import Iozone
from pytest_vmstorage.workloads.metrics import check_known
from pytest_vmstorage.workloads.postmark import Postmark
from pytest_vmstorage.workloads.sqlite import Sqlite
from pytest_vmstorage.workloads.tar import Tar
from pytest_vmstorage.workloads.web import Web


class Copy(Workload):
    """A workload of the user's own."""

    tool = "cp"
    metrics = (Metric(name="seconds", unit="s", better="lower"), Metric(name="blocks", unit="blocks", better="lower"))

    def argv(self, target: Target) -> tuple[str, ...]:
        """A line."""
        return ("cp", target.path)


FIO = Fio(rw="randwrite", iodepth=32)
SEVERAL = Path(__file__).parents[1] / "recordings" / "fio-several-jobs.fio"
DISK = Target(path="/dev/vdb", size_bytes=2**30)


def chosen(*texts: str) -> Columns:
    """What these options say."""
    return parse_columns(texts, "--vm-columns")


@pytest.mark.parametrize(
    ("texts", "workload", "columns"),
    [
        (["iops,clat_p99", "runtime"], FIO, ("iops", "clat_p99", "runtime")),
        (["usr_cpu, sys_cpu"], FIO, ("usr_cpu", "sys_cpu")),
        (["+usr_cpu"], FIO, ("iops", "clat_p99", "usr_cpu")),
        (["bw,+usr_cpu,+bw"], FIO, ("bw", "usr_cpu")),
        (["c*_p9*"], FIO, ("clat_p95", "clat_p99", "clat_p999")),
        # a workload that has none of them keeps its own
        (["iops,runtime"], Dd(), ("bw",)),
        (["+runtime"], Dd(), ("bw",)),
        # of a mixed job it is that of both directions, and of several jobs that of each
        (["clat_p99"], Fio(rw="randrw"), ("read_clat_p99", "write_clat_p99")),
        (["iops"], Fio(rw="randrw"), ("iops",)),
        (["sys_cpu"], Fio.from_job(SEVERAL), ("reader_sys_cpu", "writer_sys_cpu", "checks_sys_cpu")),
        (["bw"], Tar(), ("pack_bw", "unpack_bw")),
        ([], FIO, ("iops", "clat_p99")),
    ],
)
def test_the_users_choice_is_for_all_workloads(texts: list[str], workload: Workload, columns: tuple[str, ...]) -> None:
    """Names in their order, patterns in the workload's, what is added behind."""
    assert workload.with_columns(chosen(*texts)).columns == columns


@pytest.mark.parametrize("text", ["a b", "iops;bw", "++iops", "+", "="])
def test_what_is_no_name_is_refused(text: str) -> None:
    """With a line that would do."""
    with pytest.raises(
        ConfigError, match=r"which is not the name of a metric\. Write for example --vm-columns=iops,clat_p99"
    ):
        chosen(text)


def test_a_workload_has_columns_of_its_own() -> None:
    """It is what it was in all else: label, command, and what a sweep makes of it."""
    job = Fio(rw="randwrite", iodepth=32, shown=("iops", "usr_cpu", "*lat_p999"))
    assert job.columns == ("iops", "usr_cpu", "lat_p999", "clat_p999", "slat_p999")
    assert (job.label, job.argv(DISK), job.primary) == (FIO.label, FIO.argv(DISK), FIO.primary)
    assert job != FIO
    assert [one.columns for one in job.over(iodepth=(1, 2))] == [job.columns] * 2
    assert Tiobench(rw="randread", shown=["runtime"]).over(iodepth=(1,))[0].columns == ("runtime",)
    assert Fio.from_job(SEVERAL, shown=("iops", "runtime")).columns == ("iops", "runtime")
    assert ImageOperations(shown=("clone_after",)).columns == ("clone_after",)
    # the user's choice of today is stronger
    assert job.with_columns(chosen("bw")).columns == ("bw",)
    assert job.with_columns(chosen("+bw")).columns == (*job.columns, "bw")


@pytest.mark.parametrize(
    ("shown", "sentence"),
    [
        (
            ("iops", "usr_cup"),
            r"Fio\(shown=...\) names 'usr_cup', which it does not have. Did you mean 'usr_cpu'\? It has: iops,",
        ),
        ("iops", r"Fio\(shown='iops'\) is not a list of metrics. Write for example shown=\(\"iops\",\)\."),
        ((), r"Fio\(shown=\(\)\) is not a list of metrics"),
        ((1,), r"Fio\(shown=\(1,\)\) is not a list of metrics"),
    ],
)
def test_a_column_that_a_workload_has_not_is_refused_when_it_is_made(shown: object, sentence: str) -> None:
    """With those there are."""
    with pytest.raises(ConfigError, match=sentence):
        Fio(rw="randwrite", shown=shown)


@pytest.mark.parametrize(
    "workload",
    [
        *(FIO, Fio(rw="randrw", fsync=8), Fio(rw="read", percentile_list="90:99.95"), Fio.from_job(SEVERAL)),
        *(Dd(), Hdparm(t=True, T=True), Ioping(), Tar(), Postmark(), Sqlite(), Web(), ImageOperations()),
        Iozone(file_size=("1M",), record_size=("4k",), tests=(0, 2, 7)),
    ],
    ids=lambda workload: workload.tool,
)
def test_every_metric_of_every_workload_is_known(workload: Workload) -> None:
    """Those whose names depend on options too."""
    check_known(Columns(names=tuple(metric.name for metric in workload.metrics)))


@pytest.mark.parametrize("name", ["usr_cup", "iopss", "clat_p9x", "xiops", "clat*p99x", "write_16M"])
def test_a_name_that_no_workload_has_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With those there are, by tool."""
    monkeypatch.setattr("pytest_vmstorage.workloads.metrics._own", lambda _kind: iter(()))
    with pytest.raises(ConfigError) as caught:
        check_known(chosen(f"+{name}"))
    assert f"--vm-columns names '{name}', which no workload has." in str(caught.value)
    assert "; dd: bw, seconds; " in str(caught.value)


def test_metrics_of_a_workload_of_the_users_own_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they depend on its options nothing can be refused."""
    own: list[type[Workload]] = [Copy]
    monkeypatch.setattr("pytest_vmstorage.workloads.metrics._own", lambda _kind: iter(own))
    check_known(chosen("blocks"))
    with pytest.raises(ConfigError, match="Metrics by workload: Copy: seconds, blocks; fio: iops"):
        check_known(chosen("blokcs"))
    own.append(Fio)
    check_known(chosen("blokcs"))
