"""Bytes a round of what a run leaves: the saved file, the report in JSON, the journal; and of what they were before.

The run is a saved one of real guests, by default that of tests/unit/recordings: four cells, two fio jobs, three rounds
of each, with fio's histograms. It is read, and written again by the plugin's own code: nothing is measured. `before` is
the same run with an indent and with nothing packed, as it was saved until then. The last line is JSON: `saved`,
`report` and `journal` (bytes a round), each with its `_before`, `raw` (bytes of the tools' output a round), `rounds`.

    python benchmarks/saved_sizes.py [SAVED_RUN]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vmstorage.report.formats import render_json
from pytest_vmstorage.results.journal import Journal
from pytest_vmstorage.results.packed import json_lines, pack_run
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.results.saved import load_baseline

RECORDING = Path(__file__).parents[1] / "tests" / "unit" / "recordings" / "saved-form-2.json"


def journal(run: Run) -> str:
    """The run's journal: each sample with some of the spans."""
    spans = spans_of(run)
    with tempfile.TemporaryDirectory() as folder:
        written = Journal(Path(folder) / "run.jsonl", lambda: next(spans, []))
        for row in run.measurements:
            for sample in row.samples:
                written.write(row.nodeid, row.workload, row.config, row.host, sample)
        written.close()
        return written.path.read_text()


def spans_of(run: Run) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The spans of the run in as many parts as it has rounds."""
    all_of_them = [
        {"process": one.process, "began": one.began, "span": span.model_dump(mode="json")}
        for one in run.timelines
        for span in one.spans
    ]
    number = max(1, len(all_of_them) // rounds_of(run))
    for first in range(0, len(all_of_them), number):
        yield all_of_them[first : first + number]


def journal_before(run: Run) -> str:
    """The same with nothing packed: a line for each sample, and one for each span."""
    lines: list[Mapping[str, Any]] = [
        {
            "nodeid": row.nodeid,
            "workload": row.workload,
            "config": row.config.model_dump(mode="json"),
            "host": row.host,
            "sample": sample.model_dump(mode="json"),
        }
        for row in run.measurements
        for sample in row.samples
    ]
    spans = [span for part in spans_of(run) for span in part]
    return "".join(f"{json.dumps(line)}\n" for line in [*lines, *spans])


def rounds_of(run: Run) -> int:
    """How many rounds were measured."""
    return sum(len(row.samples) for row in run.measurements)


def main() -> None:
    """Write the run in each form, and print the sizes."""
    parser = argparse.ArgumentParser(description="bytes a round of what a run leaves")
    parser.add_argument("saved", nargs="?", type=Path, default=RECORDING, help="a saved run (default: a recorded one)")
    path = parser.parse_args().saved
    run = load_baseline(str(path), path.parent).run
    plain, content = run.model_dump(mode="json"), json.loads(path.read_text())
    texts = {
        "saved": json_lines({**content, "vmstorage": pack_run(plain)}),
        "saved_before": json.dumps({**content, "vmstorage": plain}, indent=4),
        "report": render_json(run),
        "report_before": json.dumps(plain, indent=1, ensure_ascii=False),
        "journal": journal(run),
        "journal_before": journal_before(run),
        "raw": "".join(output for row in run.measurements for output in row.raw),
    }
    rounds = rounds_of(run)
    sizes = {name: round(len(text.encode()) / rounds) for name, text in texts.items()}
    for name in ("saved", "report", "journal"):
        print(f"{name:8} {sizes[name]:6} bytes a round, {sizes[f'{name}_before']:6} before")
    sys.stdout.write(json.dumps({**sizes, "rounds": rounds}) + "\n")


if __name__ == "__main__":
    main()
