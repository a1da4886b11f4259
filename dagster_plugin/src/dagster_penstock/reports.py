"""Reports in Markdown for Dagster's pages: a finished copy, and a failed step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from dagster_penstock.events import in_dagster
from dagster_penstock.metadata_set import PenstockMetadataSet
from penstock import (
    Finished,
    PenstockError,
    RunReport,
    execution_markdown,
    failure_text,
    not_copied_lines,
    run_report_markdown,
)

_MAX_FAILURES = 100


def copy_report(finished: Finished, report: RunReport | None) -> str:
    """Return a summary of an execution, with its slowest partitions.

    Args:
        finished: the end of the execution, with partition keys.
        report: the report of the whole run; None if it cannot be read.
    """
    lines = [execution_markdown(finished)]
    summary = in_dagster(run_report_markdown(report)) if report is not None else ""
    if summary:
        command = f"penstock report {finished.run_id} --target URL --html FILE"
        lines += ["", summary, "", f"With charts: `{command}`"]
    not_copied = not_copied_lines(finished.not_copied)
    if not_copied:
        lines += ["", "```sql", *not_copied, "```"]
    return "\n".join(lines)


def cell(text: str) -> str:
    """Escape text for a table cell."""
    return " ".join(text.replace("|", "\\|").split())


@dataclass(frozen=True, slots=True)
class CopyFailure:
    """The failure to copy a table, or some of its partitions."""

    asset: dg.AssetKey
    error: PenstockError
    finished: Finished | None = None
    """The end of the execution; None if it did not start."""
    by_key: bool = False
    """Whether the partitions are those of the asset, and not parts of a whole table."""

    @property
    def failed_keys(self) -> list[str]:
        """The keys of the asset partitions that were not copied."""
        if not self.by_key or self.finished is None:
            return []
        return [failure.partition_id for failure in self.finished.failures]

    @property
    def text(self) -> str:
        """The core's message in the terms of Dagster."""
        text = failure_text(self.finished) if self.finished else ""
        return in_dagster(text or self.error.message)


def step_failure(failures: Sequence[CopyFailure]) -> dg.Failure:
    """Combine failures into that of a step; a retry policy applies only if a retry may help."""
    names = [
        f"{failure.asset.to_user_string()} {key}"
        for failure in failures
        for key in failure.failed_keys or [""]
    ]
    rows = [row for failure in failures for row in _rows(failure)]
    heading = ["| asset | partition | attempts | error |", "| --- | --- | --- | --- |"]
    metadata = PenstockMetadataSet(
        failed=dg.MetadataValue.json([name.strip() for name in names]),
        errors=dg.MetadataValue.md("\n".join([*heading, *rows])) if rows else None,
    )
    return dg.Failure(
        description="\n\n".join(
            f"{failure.asset.to_user_string()}: {failure.text}" for failure in failures
        ),
        metadata={**metadata},
        allow_retries=all(failure.error.transient for failure in failures),
    )


def _rows(failure: CopyFailure) -> list[str]:
    """Return a table row for each failed partition."""
    if failure.finished is None:
        return []
    asset = cell(failure.asset.to_user_string())
    return [
        f"| {asset} | {cell(item.partition_id)} | {item.attempts} "
        f"| {cell(in_dagster(str(item.error.get('message', ''))))} |"
        for item in failure.finished.failures[:_MAX_FAILURES]
    ]
