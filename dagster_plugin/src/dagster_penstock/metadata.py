"""The metadata of materializations: that of a new one, and that of earlier ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg

from dagster_penstock.connections import source_name
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


@dataclass(frozen=True, slots=True)
class Loaded:
    """A committed partition."""

    attempt: int
    rows: int
    bytes: int
    seconds: float
    inserted: int | None
    updated: int | None

    @classmethod
    def of(cls, found: CommitRecord | Committed) -> Loaded:
        seconds = found.seconds if isinstance(found, Committed) else _seconds(found)
        return cls(found.attempt, found.rows, found.bytes, seconds, found.inserted, found.updated)


def partition_metadata(
    spec: CopySpec,
    run_id: str,
    request: str,
    plan: PartitionPlan,
    partition_id: str,
    loaded: Loaded,
) -> dict[str, Any]:
    """Return the metadata of one partition.

    Parameters:
        request: the Dagster run that a retry repeats.
    """
    return {
        "dagster/partition_row_count": loaded.rows,
        **_amounts(loaded.rows, loaded.bytes, loaded.seconds),
        **_changes(loaded.rows, loaded.inserted, loaded.updated),
        "penstock/attempts": loaded.attempt,
        "penstock/bounds": str(plan.partition(partition_id).extent),
        **_common(spec, run_id, request),
        "dagster/column_schema": _schema(plan),
    }


def empty_metadata(spec: CopySpec, run_id: str, request: str) -> dict[str, Any]:
    """Return the metadata of a partition that is empty in the stored plan."""
    return {
        "dagster/partition_row_count": 0,
        "penstock/bounds": "empty: the source has too few distinct values for so many ranges",
        **_common(spec, run_id, request),
    }


def table_metadata(
    spec: CopySpec,
    run_id: str,
    request: str,
    plan: PartitionPlan,
    records: tuple[CommitRecord, ...],
    night: NightStatus | None = None,
) -> dict[str, Any]:
    """Return the metadata of a whole table from the commit records of its run."""
    seconds = 0.0
    if records:
        begun = min(datetime.fromisoformat(record.started_at) for record in records)
        ended = max(datetime.fromisoformat(record.committed_at) for record in records)
        seconds = (ended - begun).total_seconds()
    rows = sum(record.rows for record in records)
    left = None if night is None else night.merged
    return {
        # For a night, the rows of the table, since the night may read only a few.
        "dagster/row_count": rows if left is None or left.rows is None else left.rows,
        **(_night(night, left) if night and left else {}),
        **_amounts(rows, sum(record.bytes for record in records), seconds),
        **_changes(
            rows,
            _sum(record.inserted for record in records),
            _sum(record.updated for record in records),
        ),
        "penstock/attempts": sum(record.attempt for record in records),
        "penstock/partitions": len(plan.partitions),
        **_common(spec, run_id, request),
        "dagster/column_schema": _schema(plan),
    }


def covered_metadata(
    spec: CopySpec, run_id: str, request: str, night: NightStatus, by: Watermark
) -> dict[str, Any]:
    """Return the metadata of a night that was overtaken.

    Parameters:
        by: the result of the night that merged the same changes.
    """
    return {
        "penstock/covered_by": by.run_id,
        "penstock/watermark": night.watermark,
        "penstock/moment": by.moment,
        **_common(spec, run_id, request),
    }


def _night(night: NightStatus, left: Watermark) -> dict[str, Any]:
    """Return a night's figures, which Dagster plots, and the range of time that it read."""
    return {
        "penstock/rows_read": left.read,
        "penstock/rows_deleted": left.deleted,
        "penstock/watermark": night.watermark,
        "penstock/epoch": left.epoch,
        "penstock/moment": left.moment,
        **({"penstock/since": night.since} if night.since else {}),
        **({"penstock/full": night.full} if night.full else {}),
        **({"penstock/read": night.lower} if night.lower else {}),
        **({"penstock/not_proven": night.unproven} if night.unproven else {}),
    }


def _seconds(record: CommitRecord) -> float:
    begun, ended = (datetime.fromisoformat(at) for at in (record.started_at, record.committed_at))
    return (ended - begun).total_seconds()


def _amounts(rows: int, size: int, seconds: float) -> dict[str, Any]:
    divisor = max(seconds, 0.001)
    return {
        "penstock/bytes": size,
        "penstock/seconds": round(seconds, 3),
        "penstock/rows_per_second": round(rows / divisor, 1),
        "penstock/bytes_per_second": round(size / divisor, 1),
    }


def _changes(rows: int, inserted: int | None, updated: int | None) -> dict[str, int]:
    """Return how many rows an upsert inserted, updated and left; empty for other modes."""
    if inserted is None or updated is None:
        return {}
    return {
        "penstock/rows_inserted": inserted,
        "penstock/rows_updated": updated,
        "penstock/rows_unchanged": rows - inserted - updated,
    }


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Return the sum; None if a number is unknown, or there are none."""
    found = [*numbers]
    return sum(number or 0 for number in found) if found and None not in found else None


def _common(spec: CopySpec, run_id: str, request: str) -> dict[str, Any]:
    place = place_of(spec.target)
    uri = place.uri(spec.target_ref)
    common = {
        RUN_ID: run_id,
        REQUEST: request,
        "penstock/source_table": source_name(spec),
        "penstock/target_table": uri if place.located else str(spec.target_ref),
        "dagster/uri": uri,
    }
    return common if place.located else {**common, "dagster/table_name": str(spec.target_ref)}


def _schema(plan: PartitionPlan) -> dg.TableSchema:
    columns = {column.name: column for column in plan.columns}
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=pair.target,
                type=pair.cast or columns[pair.source].type,
                constraints=dg.TableColumnConstraints(nullable=columns[pair.source].nullable),
            )
            for pair in plan.pairs
        ]
    )


def version_tags(version: str) -> dict[str, str]:
    """Return the tags that show Dagster which downstream assets are older than this copy.

    Parameters:
        version: a new value whenever something was copied.
    """
    return {DATA_VERSION: version}


_LOOKED_AT = 20


class MaterializationHistory:
    """Materializations of an asset, looked up on demand."""

    def __init__(self, context: dg.AssetExecutionContext, asset: dg.AssetKey) -> None:
        self._instance = context.instance
        self._asset = asset

    def has_run(self, key: str | None, run_id: str) -> bool:
        """Whether a materialization reports a commit of this run of the core.

        Other runs may have copied the partition again by now, so this looks beyond the newest one.
        """
        return run_id in self._newest(key, RUN_ID, _LOOKED_AT)

    def newest_request(self, key: str | None) -> str | None:
        """Return the request behind the newest materialization; None if there is none."""
        return next(iter(self._newest(key, REQUEST, 1)), None)

    def _newest(self, key: str | None, name: str, most: int) -> list[str]:
        """Return the newest metadata values of a name; a missing value is an empty text."""
        asked = dg.AssetRecordsFilter(
            asset_key=self._asset, asset_partitions=None if key is None else [key]
        )
        found = []
        for record in self._instance.fetch_materializations(asked, limit=most).records:
            materialization = record.asset_materialization
            value = materialization.metadata.get(name) if materialization else None
            found.append("" if value is None else str(value.value))
        return found
