"""Lineage for OpenLineage: the tables a task reads and writes, their columns, its rows.

Airflow asks for it only if its OpenLineage provider is installed and switched on; it costs a query
of the target's control tables. Nothing here fails a task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import penstock
from penstock import PenstockError, Place, RunStatus, TableRef, place_of
from penstock_airflow.ends import End

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import (
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """What an operator knows of its copy."""

    run_id: str | None
    """None while there is no run."""
    partitions: Collection[str] | None = None
    """Ids of the partitions that the task copies; None: all."""
    options: Mapping[str, Any] | None = None
    """Options of the copy, while there is no run."""


class LineageMixin:
    """For operators: the methods that the OpenLineage provider looks for."""

    control_schema: str
    log: Any

    def _copy_facts(self) -> CopyFacts:
        raise NotImplementedError

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        return self._lineage(counted=False)

    def get_openlineage_facets_on_complete(self, ti: Any) -> OperatorLineage[Any, Any] | None:
        return self._lineage(counted=True)

    def get_openlineage_facets_on_failure(self, ti: Any) -> OperatorLineage[Any, Any] | None:
        # Without this method Airflow would report a failure by get_openlineage_facets_on_complete.
        return self._lineage(counted=False)

    def _lineage(self, *, counted: bool) -> OperatorLineage[Any, Any] | None:
        try:
            facts = self._copy_facts()
            source = End.of("source", self).connect()
            target = End.of("target", self).connect()
            status = self._status(facts.run_id, target)
            spec = facts.options if status is None else status.run.spec
            if spec is None:
                return None
            records = facts.partitions if counted else ()
            return lineage_of(place_of(source), place_of(target), spec, status, records)
        except PenstockError as error:
            self.log.warning("no lineage: %s", error.message)
        except Exception as error:
            # Its name only: the message of an unknown error may contain part of a URL.
            self.log.warning("no lineage: %s", type(error).__name__)
        return None

    def _status(self, run_id: str | None, target: str) -> RunStatus | None:
        if run_id is None:
            return None
        try:
            return penstock.status(run_id, target=target, control_schema=self.control_schema)
        except PenstockError as error:
            # If the run could not be created, the task has said why.
            self.log.info("lineage lacks columns and rows: %s", error.message)
            return None


def lineage_of(
    source: Place,
    target: Place,
    spec: Mapping[str, Any],
    status: RunStatus | None,
    partitions: Collection[str] | None,
) -> OperatorLineage[Any, Any]:
    """
    Parameters:
        spec: the options of the copy.
        status: of the run; None if there is none yet.
        partitions: ids of the partitions whose rows are counted; None: all; empty: no count.

    Raises:
        ImportError: the OpenLineage provider is not installed.
        UsageError: the name of a table is malformed.
    """
    from airflow.providers.common.compat.openlineage.facet import (  # noqa: PLC0415 - an extra
        InputDataset,
        OutputDataset,
        SQLJobFacet,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415

    table, query = spec.get("table"), spec.get("query")
    read, written = _schemas(status)
    written_table = spec.get("target_table") or table
    outputs = []
    if written_table or target.located:
        output = OutputDataset(
            namespace=target.namespace,
            name=_dataset(target, written_table, "target_table"),
            facets={"schema": written} if written else {},
            outputFacets=_statistics(status, partitions),
        )
        outputs.append(output)
    inputs = []
    if table or source.located:
        inputs.append(
            InputDataset(
                namespace=source.namespace,
                name=_dataset(source, table, "table"),
                facets={"schema": read} if read else {},
            )
        )
    # Which tables a query reads is not known here: the event's receiver can parse it.
    job = {"sql": SQLJobFacet(query=query)} if query else {}
    return OperatorLineage(inputs=inputs, outputs=outputs, job_facets=job)


def _dataset(place: Place, table: str | None, option: str) -> str:
    return place.dataset(TableRef.parse(table, option) if table else TableRef("", ""))


def _schemas(
    status: RunStatus | None,
) -> tuple[SchemaDatasetFacet | None, SchemaDatasetFacet | None]:
    """The columns as read, and as written."""
    if status is None:
        return None, None
    from airflow.providers.common.compat.openlineage.facet import (  # noqa: PLC0415
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )

    def facet(columns: list[SchemaDatasetFacetFields]) -> SchemaDatasetFacet:
        return SchemaDatasetFacet(fields=columns)

    plan = status.run.plan
    types = {column.name: column.type for column in plan.columns}
    return (
        facet([SchemaDatasetFacetFields(name=name, type=kind) for name, kind in types.items()]),
        facet(
            [
                SchemaDatasetFacetFields(name=pair.target, type=pair.cast or types[pair.source])
                for pair in plan.pairs
            ]
        ),
    )


def _statistics(status: RunStatus | None, partitions: Collection[str] | None) -> dict[str, Any]:
    if status is None or (partitions is not None and not partitions):
        return {}
    from airflow.providers.common.compat.openlineage.facet import (  # noqa: PLC0415
        OutputStatisticsOutputDatasetFacet,
    )

    records = [
        record
        for record in status.committed
        if partitions is None or record.partition_id in partitions
    ]
    # An upsert also reads rows that need no change; it writes those that differ.
    rows = sum(
        record.rows if record.inserted is None else record.inserted + (record.updated or 0)
        for record in records
    )
    size = sum(record.bytes for record in records)
    return {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size)}
