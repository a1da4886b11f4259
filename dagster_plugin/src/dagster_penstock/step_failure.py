"""The failure of a step, with everything that could not be copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import dagster as dg

from dagster_penstock.reports import cell
from dagster_penstock.wording import in_dagster
from penstock import Finished, PenstockError, failure_text

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
