"""The sources of a step's copies: their columns and comments, and observations of their assets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from dagster_penstock.connections import location_metadata
from dagster_penstock.metadata_set import PenstockMetadataSet
from penstock import (
    CopySpec,
    FoundTable,
    PenstockError,
    RunStatus,
    TableRef,
    describe_tables,
    place_of,
)

_DATA_VERSION = "dagster/data_version"
_UNOBSERVED = "INITIAL"
_MAX_VERSION = 100


@dataclass(frozen=True, slots=True)
class Upstream:
    """What a copy reads."""

    asset: dg.AssetKey | None = None
    """The asset to observe; None if others report it, or there is none."""
    table: FoundTable | None = None
    """The table, as its catalog describes it; None for queries and files, or if unknown."""

    @property
    def comments(self) -> Mapping[str, str]:
        """The comments of the columns that have one."""
        return {} if self.table is None else self.table.comments

    def observation(self, spec: CopySpec, status: RunStatus) -> Iterator[dg.AssetObservation]:
        """Yield the observation of the source as of the moment that was copied, if it is known.

        Args:
            spec: the copy, with the schemas of its tables.
            status: the status of its run.
        """
        version = source_version(status)
        if self.asset is None or not version:
            return
        schema = {} if self.table is None else {"dagster/column_schema": _schema(self.table)}
        yield dg.AssetObservation(
            asset_key=self.asset,
            metadata={
                **PenstockMetadataSet(
                    as_of=status.run.snapshots[-1].taken_at, run_id=status.run.run_id
                ),
                **location_metadata(place_of(spec.source), spec.table_ref if spec.table else None),
                **schema,
            },
            tags={_DATA_VERSION: version},
        )

    @property
    def provenance(self) -> dict[str, str]:
        """The tag by which Dagster takes the copy for up to date; empty if others report the asset.

        A step records the version last observed before it, but whether a copy is stale is decided
        by the version of assets that nothing materializes or observes on its own: always this one.
        """
        if self.asset is None:
            return {}
        return {f"dagster/input_data_version/{self.asset.to_user_string()}": _UNOBSERVED}


def source_version(status: RunStatus) -> str:
    """Return the data version of a run's source; empty if it was not read as of one moment.

    It differs whenever the source may have other rows. What it consists of depends on the system:
    the transactions that a snapshot sees, the position of a standby, the state of a file, or the
    time.
    """
    if not status.run.snapshots:
        return ""
    moment = status.run.source_state.moment or status.run.snapshots[-1].taken_at
    if len(moment) > _MAX_VERSION:  # with many transactions in progress
        return hashlib.sha256(moment.encode()).hexdigest()
    return moment


def upstreams(
    context: dg.AssetExecutionContext, copies: Sequence[tuple[CopySpec, dg.AssetKey | None]]
) -> list[Upstream]:
    """Return what each copy reads; connects once to each source.

    Args:
        context: the context of the step.
        copies: the copies, each with the asset to observe.
    """
    tables: dict[str, list[TableRef]] = {}
    for spec, _ in copies:
        if spec.table is not None:
            tables.setdefault(spec.source, []).append(spec.table_ref)
    found: dict[tuple[str, TableRef], FoundTable | None] = {}
    for source, refs in tables.items():
        try:
            described = describe_tables(source, refs)
        except PenstockError as error:  # the copy will report it, if it matters
            context.log.debug(f"the comments of the source's columns are unknown: {error.message}")
            continue
        found |= {(source, ref): table for ref, table in zip(refs, described, strict=True)}
    return [
        Upstream(asset, found.get((spec.source, spec.table_ref)) if spec.table else None)
        for spec, asset in copies
    ]


def _schema(table: FoundTable) -> dg.TableSchema:
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=column.name,
                type=column.type,
                description=column.comment or None,
                constraints=dg.TableColumnConstraints(nullable=column.nullable),
            )
            for column in table.columns
        ]
    )
