"""Reports in Markdown for the pages of Dagster: a finished copy, and a failed step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from dagster_penstock.events import in_dagster
from penstock import (
    Finished,
    PenstockError,
    RunReport,
    failure_text,
    not_copied_lines,
    run_report_markdown,
)


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


_MOST = 100


@dataclass(frozen=True, slots=True)
class Trouble:
    """The reason why a table, or some of its partitions, could not be copied."""

    asset: dg.AssetKey
    error: PenstockError
    finished: Finished | None = None
    by_key: bool = False
    """Whether the partitions are those of the asset, and not parts of a whole table."""

    @property
    def failed_keys(self) -> list[str]:
        if not self.by_key or self.finished is None:
            return []
        return [failure.partition_id for failure in self.finished.failures]

    @property
    def text(self) -> str:
        """The core's message, with options named as in Python."""
        text = failure_text(self.finished) if self.finished else ""
        return in_dagster(text or self.error.message)


def failure_of(troubles: Sequence[Trouble]) -> dg.Failure:
    """Combine all troubles into one failure; a retry policy applies only if a retry may help."""
    failed = [
        f"{trouble.asset.to_user_string()} {key}"
        for trouble in troubles
        for key in trouble.failed_keys or [""]
    ]
    metadata: dict[str, dg.MetadataValue] = {
        "penstock/failed": dg.MetadataValue.json([name.strip() for name in failed])
    }
    rows = [row for trouble in troubles for row in _rows(trouble)]
    if rows:
        heading = ["| asset | partition | attempts | error |", "| --- | --- | --- | --- |"]
        metadata["penstock/errors"] = dg.MetadataValue.md("\n".join([*heading, *rows]))
    return dg.Failure(
        description="\n\n".join(
            f"{trouble.asset.to_user_string()}: {trouble.text}" for trouble in troubles
        ),
        metadata=metadata,
        allow_retries=all(trouble.error.transient for trouble in troubles),
    )


def _rows(trouble: Trouble) -> list[str]:
    if trouble.finished is None:
        return []
    asset = cell(trouble.asset.to_user_string())
    return [
        f"| {asset} | {cell(item.partition_id)} | {item.attempts} "
        f"| {cell(in_dagster(str(item.error.get('message', ''))))} |"
        for item in trouble.finished.failures[:_MOST]
    ]
