"""`PenstockMetadataSet`: all metadata in the namespace `penstock`, with their types."""

from __future__ import annotations

import dagster as dg
from dagster._core.definitions.metadata.metadata_set import NamespacedMetadataSet


class PenstockMetadataSet(NamespacedMetadataSet):
    """Metadata that Penstock reports; each is None where it does not apply.

    Read those of a materialization, an observation or a check:

        PenstockMetadataSet.extract(materialization.metadata).rows_per_second
    """

    # A materialization
    run_id: str | None = None
    request: str | None = None
    source_table: str | None = None
    target_table: str | None = None
    bytes: int | None = None
    seconds: float | None = None
    rows_per_second: float | None = None
    bytes_per_second: float | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_unchanged: int | None = None
    attempts: int | None = None
    bounds: str | None = None
    partitions: int | None = None
    report: dg.MarkdownMetadataValue | None = None

    # The output of a worker's step
    worker: int | None = None
    host: str | None = None
    pid: int | None = None
    rows: int | None = None

    # A night
    rows_read: int | None = None
    rows_deleted: int | None = None
    watermark: str | None = None
    epoch: int | None = None
    since: str | None = None
    full_read_reason: str | None = None
    selection: str | None = None
    not_proven: str | None = None
    covered_by: str | None = None

    # A night, or an observation of a source
    as_of: str | None = None

    # A check
    verify: str | None = None
    source_rows: int | None = None
    target_rows: int | None = None
    source_checksum: str | None = None
    target_checksum: str | None = None
    difference: str | None = None
    rows_committed: int | None = None
    differences: dg.MarkdownMetadataValue | None = None

    # The failure of a step
    failed: dg.JsonMetadataValue | None = None
    errors: dg.MarkdownMetadataValue | None = None

    # The definition of an asset
    options: dg.JsonMetadataValue | None = None
    source: bool | None = None

    @classmethod
    def namespace(cls) -> str:
        """Return the prefix of the keys."""
        return "penstock"
