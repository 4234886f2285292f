"""The matrix as Markdown, and reports as files by `report.formats`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_vmstorage.config.cell import StorageConfig
from pytest_vmstorage.errors import ConfigError
from pytest_vmstorage.report.formats import check_report_path, write_report
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.testing.builders import make_failure, make_measurement, make_run

RUN = make_run(
    make_measurement(workload="fio a|b", clat_p99=(0.001, 0.00102)),
    make_measurement(StorageConfig(cache="unsafe"), workload="fio a|b", clat_p99=(0.003, 0.003)),
    failures=[make_failure(StorageConfig(bus="sata"), reason="No *boot*, and nothing that a guest could say.")],
)

EXPECTED = r"""
## Storage matrix

all rows: raw, preallocation off, size 1G

| cache | bus | fio a\|b<br>clat\_p99 \[s\]<br>lower is better |
| --- | --- | ---: |
| none | virtio-blk | **1.01 ms** ±1 % ▲ |
| none | sata | failed: No \*boot\*, and nothing that a guest… |
| unsafe | virtio-blk | 3 ms ±0 % ▼ |

▲ best and ▼ worst of its column in every round; ± half of smallest to largest round, in % of the median

### failed cells

- test\_random\_write on raw-none-sata-off 1G, local: No \*boot\*, and nothing that a guest could say.

### what moves what

- fio a\|b: cache by 2.97x (1 couple, rounds 2.94x to 3.00x), too few to tell

### host local

- Example CPU 3.0 GHz, 2 cores, 8 GiB memory, governor unknown
- kernel 6.1.0, QEMU 7.2.9, libvirt 9.0.0
- acceleration kvm (asked: auto; a guest booted under it)
- disks in /srv/vm on ext4, device unknown
"""


def test_the_whole_text() -> None:
    """Bold best, shortened reason in the cell and all of it below, markup of others taken literally."""
    assert render_markdown(build_table(RUN)) == EXPECTED.lstrip()


@pytest.mark.parametrize("suffix", [".md", ".csv", ".json"])
def test_the_suffix_chooses_the_form_and_the_folder_is_made(tmp_path: Path, suffix: str) -> None:
    """One file, no leftovers beside it, and the JSON is the run itself."""
    path = tmp_path / "new" / f"report{suffix}"
    write_report(path, RUN)
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    text = path.read_text(encoding="utf-8")
    if suffix == ".json":
        assert Run.model_validate_json(text) == RUN
    else:
        assert text.startswith({".md": "## Storage", ".csv": "nodeid,host"}[suffix])


def test_a_report_that_cannot_be_written_is_refused_before_any_test(tmp_path: Path) -> None:
    """Unknown suffix, a folder, and a place below a file; checking makes nothing."""
    (tmp_path / "file").touch()
    (tmp_path / "folder.md").mkdir()
    for name, sentence in [
        (
            "report.xls",
            "the report format of '.xls' is not known. The file's name ends with one of: .md, .svg, .csv,"
            " .json, .html.",
        ),
        ("report", "the report format of 'report' is not known"),
        ("folder.md", "is a folder"),
        ("file/report.md", "cannot be written"),
    ]:
        with pytest.raises(ConfigError) as caught:
            check_report_path(tmp_path / name)
        assert sentence in str(caught.value)
    check_report_path(tmp_path / "a" / "b" / "report.md")
    assert not (tmp_path / "a").exists()
