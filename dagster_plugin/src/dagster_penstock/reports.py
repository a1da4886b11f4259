"""A copy's report in Markdown, for the run's page."""

from __future__ import annotations

from dagster_penstock.wording import in_dagster
from penstock import Finished, RunReport, not_copied_lines, run_report_markdown


def markdown(finished: Finished, report: RunReport | None) -> str:
    """Return a summary of an execution, with its slowest partitions.

    Parameters:
        report: where the time of the whole run went; None if it cannot be read.
    """
    seconds = max(finished.seconds, 0.001)
    lines = [
        f"**{finished.status}**: {finished.committed:,} of {finished.partitions:,} partitions "
        f"committed; {finished.rows:,} rows, {finished.bytes / 1e6:,.1f} MB in "
        f"{finished.seconds:,.1f} s by {finished.degree} streams: {finished.rows / seconds:,.0f} "
        f"rows/s, {finished.bytes / 1e6 / seconds:,.1f} MB/s; {finished.attempts:,} attempts",
    ]
    for later in finished.later:
        which = ", ".join(map(cell, later.partition_ids))
        lines += ["", f"Read later than the rest, as of {later.taken_at}: {which}"]
    if finished.timings:
        lines += [
            "",
            "| slowest | rows | MB | seconds | rows/s | waiting for source | for target |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
    for timing in finished.timings:
        took = max(timing.seconds, 0.001)
        lines.append(
            f"| {cell(timing.partition_id)} ({cell(timing.label)}) | {timing.rows:,} "
            f"| {timing.bytes / 1e6:,.1f} | {timing.seconds:,.2f} | {timing.rows / took:,.0f} "
            f"| {timing.wait_source:,.2f} s | {timing.wait_target:,.2f} s |"
        )
    summary = in_dagster(run_report_markdown(report)) if report is not None else ""
    if summary:
        command = f"penstock report {finished.run_id} --target URL --html FILE"
        lines += ["", summary, "", f"With charts: `{command}`"]
    left = not_copied_lines(finished.not_copied)
    if left:
        lines += ["", "```sql", *left, "```"]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Escape text for a table cell."""
    return " ".join(text.replace("|", "\\|").split())
