"""A run as Markdown for a pull request: the decisions first, reasons next, the matrix folded away below; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_vmstorage.analysis.columns import function_of
from pytest_vmstorage.analysis.gate.kinds import KINDS
from pytest_vmstorage.analysis.gate.verdicts import Comparison, Verdict
from pytest_vmstorage.report.markdown import render_markdown
from pytest_vmstorage.report.sections import count_failed, failed_lines, loss_text, summary_lines, tally
from pytest_vmstorage.report.table import build_table
from pytest_vmstorage.results.host import EMULATED
from pytest_vmstorage.results.run import Run
from pytest_vmstorage.text import plain_markdown
from pytest_vmstorage.units import format_figure


def render_summary(run: Run, comparison: Comparison | None = None, *, si: bool = False) -> str:
    """The summary of the run for a reviewer, as GitHub-flavoured Markdown; ends with a newline.

    With `si` data rates of its matrix are in MB/s.
    """
    parts = [f"## {plain_markdown(headline(run, comparison))}", *_hosts(run)]
    if comparison is not None:
        parts += [f"- {plain_markdown(line)}" for line in list(summary_lines(comparison))[1:]]
        parts += _tables(comparison)
    if failed := [f"{function_of(f.nodeid)} on {f.config.label}: {f.reason}" for f in run.failures]:
        parts.append(_folded(f"{len(failed)} cells without a figure", failed))
    if failed := list(failed_lines(run, comparison)):
        parts.append(_folded("tests that failed, and why", failed))
    matrix = render_markdown(build_table(run, comparison, si=si))
    parts.append(f"<details><summary>The whole matrix</summary>\n\n{matrix}\n</details>")
    return "\n\n".join(parts) + "\n"


def headline(run: Run, comparison: Comparison | None) -> str:
    """How the run ended, in a line: its verdicts where it was compared, else how its tests ended."""
    if comparison is None:
        return f"VM storage: {tally(run) or f'{len(run.measurements)} measurements'}"
    told = next(summary_lines(comparison), "nothing was compared")
    # a test that the gate failed is counted by its verdict
    count = count_failed(run, comparison)
    failed = f"{count} test{'s' if count > 1 else ''} FAILED; " if count else ""
    return f"VM storage: {failed}{told} against {comparison.against}"


def _hosts(run: Run) -> Iterator[str]:
    for host in run.hosts:
        marked = f" **{EMULATED}**" if host.is_emulated else ""
        software = f"QEMU {host.qemu}, {host.accel}, kernel {host.kernel}"
        yield f"{plain_markdown(f'Host {host.name}: {host.cpu}, {host.cores} cores, {software}.')}{marked}"


def _tables(comparison: Comparison) -> Iterator[str]:
    of = {kind: [verdict for verdict in comparison.gated if verdict.kind is kind] for kind in KINDS}
    if loud := [one for kind, record in KINDS.items() if not record.folded for one in of[kind]]:
        yield _table(loud)
    for kind, record in KINDS.items():
        title = f"{record.sign} {len(of[kind])} {record.folded}"
        if record.folded and of[kind] and record.is_decided:
            yield f"<details><summary>{title}</summary>\n\n{_table(of[kind])}\n\n</details>"
        elif record.folded and of[kind]:
            yield _folded(title, [verdict.reason for verdict in of[kind]])
    if comparison.missing:
        missing = [f"{one.about} ({function_of(one.nodeid)})" for one in comparison.missing]
        yield _folded(f"{len(missing)} measured before and not in this run", missing)


def _table(verdicts: Sequence[Verdict]) -> str:
    lines = [
        "| | workload | cell | before | now | loss of speed (95 % interval) | tolerated |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for one in verdicts:
        then = format_figure(one.then, one.unit) if one.then is not None else "-"
        kind = f"{one.kind} (waived)" if one.waiver else one.kind.value
        tolerated = f"{one.tolerated * 100:g} %" if one.tolerated is not None else "-"
        texts = [
            f"{one.kind.sign} {kind}",
            *(one.workload, one.config.label, then, format_figure(one.now, one.unit)),
            *(loss_text(one) or "-", tolerated),
        ]
        lines.append(f"| {' | '.join(map(plain_markdown, texts))} |")
    return "\n".join(lines)


def _folded(title: str, lines: Sequence[str]) -> str:
    items = "\n".join(f"- {plain_markdown(line)}" for line in lines)
    return f"<details><summary>{title}</summary>\n\n{items}\n\n</details>"
