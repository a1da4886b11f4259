"""The metadata of materializations: of new ones, and of those that earlier tries reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg

from dagster_penstock.connections import location_metadata, source_name
from dagster_penstock.metadata_set import PenstockMetadataSet
from penstock import (
    CommitRecord,
    Committed,
    CopySpec,
    NightStatus,
    PartitionPlan,
    Watermark,
    place_of,
)

RUN_ID = "penstock/run_id"
REQUEST = "penstock/request"
DATA_VERSION = "dagster/data_version"
_MAX_MATERIALIZATIONS = 20


@dataclass(frozen=True, slots=True)
class Loaded:
    """A committed partition."""

    attempt: int
    rows: int
    bytes: int
    seconds: float
    """The duration of the attempt that committed it."""
    inserted: int | None
    """Rows inserted in mode upsert; None in other modes."""
    updated: int | None
    """Rows updated in mode upsert; None in other modes."""

    @classmethod
    def of(cls, commit: CommitRecord | Committed) -> Loaded:
        """Return the partition of a commit record, or of the event of a commit."""
        seconds = commit.seconds if isinstance(commit, Committed) else _seconds(commit)
        return cls(
            commit.attempt, commit.rows, commit.bytes, seconds, commit.inserted, commit.updated
        )


def partition_metadata(
    spec: CopySpec,
    run_id: str,
    request: str,
    plan: PartitionPlan,
    partition_id: str,
    loaded: Loaded,
    comments: Mapping[str, str],
) -> dict[str, Any]:
    """Return the metadata of one partition.

    Args:
        spec: the copy.
        run_id: the id of the run in the target.
        request: the id of the Dagster run that retries continue.
        plan: the plan of the run.
        partition_id: the core's id of the partition.
        loaded: the committed partition.
        comments: the comments of the source's columns.
    """
    return {
        "dagster/partition_row_count": loaded.rows,
        **_amounts(loaded.rows, loaded.bytes, loaded.seconds),
        **_changes(loaded.rows, loaded.inserted, loaded.updated),
        **PenstockMetadataSet(
            attempts=loaded.attempt, bounds=str(plan.partition(partition_id).extent)
        ),
        **_common(spec, run_id, request),
        "dagster/column_schema": _schema(spec, plan, comments),
    }


def empty_metadata(spec: CopySpec, run_id: str, request: str) -> dict[str, Any]:
    """Return the metadata of a partition that is empty in the stored plan of `ranges`.

    Args:
        spec: the copy.
        run_id: the id of the run in the target.
        request: the id of the Dagster run that retries continue.
    """
    return {
        "dagster/partition_row_count": 0,
        **PenstockMetadataSet(
            bounds="empty: the source had fewer distinct values than there are ranges"
        ),
        **_common(spec, run_id, request),
    }


def table_metadata(
    spec: CopySpec,
    run_id: str,
    request: str,
    plan: PartitionPlan,
    records: tuple[CommitRecord, ...],
    comments: Mapping[str, str],
    night: NightStatus | None = None,
) -> dict[str, Any]:
    """Return the metadata of a whole table.

    Args:
        spec: the copy.
        run_id: the id of the run in the target.
        request: the id of the Dagster run that retries continue.
        plan: the plan of the run.
        records: the commit records of the run.
        comments: the comments of the source's columns.
        night: the status of the night; None if the run is not a night.
    """
    seconds = 0.0
    if records:
        start = min(datetime.fromisoformat(record.started_at) for record in records)
        end = max(datetime.fromisoformat(record.committed_at) for record in records)
        seconds = (end - start).total_seconds()
    rows = sum(record.rows for record in records)
    merged = None if night is None else night.merged
    return {
        # For a night, the rows of the table, since the night may read only a few.
        "dagster/row_count": rows if merged is None or merged.rows is None else merged.rows,
        **(_night(night, merged) if night and merged else {}),
        **_amounts(rows, sum(record.bytes for record in records), seconds),
        **_changes(
            rows,
            _sum(record.inserted for record in records),
            _sum(record.updated for record in records),
        ),
        **PenstockMetadataSet(
            attempts=sum(record.attempt for record in records), partitions=len(plan.partitions)
        ),
        **_common(spec, run_id, request),
        "dagster/column_schema": _schema(spec, plan, comments),
    }


def covered_metadata(
    spec: CopySpec, run_id: str, request: str, night: NightStatus, by: Watermark
) -> dict[str, Any]:
    """Return the metadata of a night whose changes another night has merged.

    Args:
        spec: the copy.
        run_id: the id of the run in the target.
        request: the id of the Dagster run that retries continue.
        night: the status of the night.
        by: the watermark of the other night.
    """
    return {
        **PenstockMetadataSet(covered_by=by.run_id, watermark=night.watermark, as_of=by.moment),
        **_common(spec, run_id, request),
    }


def _night(night: NightStatus, merged: Watermark) -> PenstockMetadataSet:
    """Return a night's figures, which Dagster plots, and what it read."""
    return PenstockMetadataSet(
        rows_read=merged.read,
        rows_deleted=merged.deleted,
        watermark=night.watermark,
        epoch=merged.epoch,
        as_of=merged.moment,
        since=night.since or None,
        full_read_reason=night.full or None,
        selection=night.lower or None,
        not_proven=night.unproven or None,
    )


def _seconds(record: CommitRecord) -> float:
    start, end = (datetime.fromisoformat(at) for at in (record.started_at, record.committed_at))
    return (end - start).total_seconds()


def _amounts(rows: int, size: int, seconds: float) -> PenstockMetadataSet:
    divisor = max(seconds, 0.001)
    return PenstockMetadataSet(
        bytes=size,
        seconds=round(seconds, 3),
        rows_per_second=round(rows / divisor, 1),
        bytes_per_second=round(size / divisor, 1),
    )


def _changes(rows: int, inserted: int | None, updated: int | None) -> PenstockMetadataSet:
    """Return the rows that an upsert inserted, updated and left unchanged; empty in other modes."""
    if inserted is None or updated is None:
        return PenstockMetadataSet()
    return PenstockMetadataSet(
        rows_inserted=inserted, rows_updated=updated, rows_unchanged=rows - inserted - updated
    )


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum; None if a number is unknown, or there are none."""
    values = [*numbers]
    return sum(number or 0 for number in values) if values and None not in values else None


def _common(spec: CopySpec, run_id: str, request: str) -> dict[str, Any]:
    place = place_of(spec.target)
    location = location_metadata(place, spec.target_ref)
    table = location["dagster/uri"] if place.located else str(spec.target_ref)
    names = PenstockMetadataSet(
        run_id=run_id, request=request, source_table=source_name(spec), target_table=table
    )
    return {**names, **location}


def _schema(spec: CopySpec, plan: PartitionPlan, comments: Mapping[str, str]) -> dg.TableSchema:
    """Return the columns of the target; an expression is not what the column's comment says."""
    columns = {column.name: column for column in plan.columns}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=pair.target,
                type=pair.cast or columns[pair.source].type,
                description=None if pair.source in spec.expressions else comments.get(pair.source),
                constraints=dg.TableColumnConstraints(nullable=columns[pair.source].nullable),
            )
            for pair in plan.pairs
        ]
    )


def column_lineage(
    spec: CopySpec, plan: PartitionPlan, source: dg.AssetKey | None
) -> dict[str, Any]:
    """Return the metadata that names the source's column of each column; empty if unknown.

    A query has columns of any table, and an expression may read any column.

    Args:
        spec: the copy.
        plan: the plan of the run.
        source: the key of the source's asset; None if the asset depends on none.
    """
    if source is None or spec.query is not None:
        return {}
    lineage = {
        pair.target: [dg.TableColumnDep(asset_key=source, column_name=pair.source)]
        for pair in plan.pairs
        if pair.source not in spec.expressions
    }
    return {"dagster/column_lineage": dg.TableColumnLineage(lineage)} if lineage else {}


def version_tags(version: str) -> dict[str, str]:
    """Return the tags by which Dagster finds downstream assets that are older than this copy.

    Args:
        version: a value that changes with every copy.
    """
    return {DATA_VERSION: version}


class MaterializationHistory:
    """Materializations of an asset, looked up on demand."""

    def __init__(self, context: dg.AssetExecutionContext, asset: dg.AssetKey) -> None:
        self._instance = context.instance
        self._asset = asset

    def has_run(self, key: str | None, run_id: str) -> bool:
        """Whether a materialization reports a commit of a run in the target.

        Other runs may have copied the partition since, so this checks several materializations.

        Args:
            key: the partition key; None for a whole table.
            run_id: the id of the run.
        """
        return run_id in self._newest(key, RUN_ID, _MAX_MATERIALIZATIONS)

    def newest_request(self, key: str | None) -> str | None:
        """Return the request of the newest materialization; None if there is no materialization.

        Args:
            key: the partition key; None for a whole table.
        """
        return next(iter(self._newest(key, REQUEST, 1)), None)

    def _newest(self, key: str | None, name: str, limit: int) -> list[str]:
        """Return the newest metadata values of a name; a missing value is an empty text."""
        records_filter = dg.AssetRecordsFilter(
            asset_key=self._asset, asset_partitions=None if key is None else [key]
        )
        values = []
        for record in self._instance.fetch_materializations(records_filter, limit=limit).records:
            materialization = record.asset_materialization
            value = materialization.metadata.get(name) if materialization else None
            values.append("" if value is None else str(value.value))
        return values
