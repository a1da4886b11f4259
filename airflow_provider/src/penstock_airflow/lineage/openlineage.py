"""Lineage for OpenLineage: the tables and columns that a task reads and writes, and row counts.

Airflow asks for it only if its OpenLineage provider is installed and enabled. It costs a query of
the target's control tables. A failure here never fails the task.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import penstock
from penstock import PenstockError, Place, RunStatus, TableRef, as_arguments, place_of
from penstock_airflow.arguments.endpoint import Endpoint
from penstock_airflow.lineage.query import QueryColumns, read_query

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import (
        InputDataset,
        OutputDataset,
        SchemaDatasetFacet,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """The facts that an operator knows about its copy."""

    run_id: str | None
    """None if there is no run yet."""
    partitions: Collection[str] | None = None
    """The ids of the partitions that the task copies; None for all."""
    options: Mapping[str, Any] | None = None
    """The options of the copy, if there is no run yet."""


class LineageMixin:
    """A mixin for operators with the methods that the OpenLineage provider looks for."""

    control_schema: str
    log: Any

    def _copy_facts(self) -> CopyFacts:
        raise NotImplementedError

    def _copies(self) -> list[CopyFacts]:
        return [self._copy_facts()]

    def get_openlineage_facets_on_start(self) -> OperatorLineage[Any, Any] | None:
        """Return the lineage without row counts, before the task runs."""
        return self._lineage(counted=False)

    def get_openlineage_facets_on_complete(self, ti: Any) -> OperatorLineage[Any, Any] | None:
        """Return the lineage with row counts, after the task has succeeded."""
        return self._lineage(counted=True)

    def get_openlineage_facets_on_failure(self, ti: Any) -> OperatorLineage[Any, Any] | None:
        """Return the lineage without row counts, after the task has failed."""
        # Without this method, Airflow would call get_openlineage_facets_on_complete.
        return self._lineage(counted=False)

    def _lineage(self, *, counted: bool) -> OperatorLineage[Any, Any] | None:
        try:
            source = Endpoint.of("source", self).connect()
            target = Endpoint.of("target", self).connect()
            copies = [
                CopiedTable(spec, status, facts.partitions if counted else ())
                for facts, status in self._statuses(target, log_errors=counted)
                if (spec := facts.options if status is None else status.run.spec) is not None
            ]
            return lineage_of(place_of(source), place_of(target), copies) if copies else None
        except PenstockError as error:
            self.log.warning("no lineage: %s", as_arguments(error.message))
        except Exception as error:
            # Log only its name: the message of an unknown error may contain part of a URL.
            self.log.warning("no lineage: %s", type(error).__name__)
        return None

    def _statuses(
        self, target: str, *, log_errors: bool
    ) -> Iterable[tuple[CopyFacts, RunStatus | None]]:
        """Return each copy with its run; None if planning failed and there is no run.

        Args:
            target: the target's URL.
            log_errors: whether to log why runs cannot be read; a failed task has logged it already.
        """
        copies = self._copies()
        run_ids = [facts.run_id for facts in copies if facts.run_id is not None]
        by_run_id: dict[str, RunStatus] = {}
        try:
            if run_ids:
                statuses = penstock.statuses(
                    run_ids, target=target, control_schema=self.control_schema, columns=True
                )
                by_run_id = {status.run.run_id: status for status in statuses}
        except PenstockError as error:
            if log_errors:
                self.log.info("lineage lacks columns and rows: %s", as_arguments(error.message))
        return [(facts, by_run_id.get(facts.run_id or "")) for facts in copies]


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """A copy, and the rows of it to count."""

    spec: Mapping[str, Any]
    """The options of the copy."""
    status: RunStatus | None
    """The run's status; None before it exists."""
    partitions: Collection[str] | None
    """The ids of the partitions whose rows are counted; None for all, empty for no count."""


def lineage_of(
    source: Place, target: Place, copies: Sequence[CopiedTable]
) -> OperatorLineage[Any, Any]:
    """Return the lineage of copies.

    Args:
        source: where the copies read.
        target: where the copies write.
        copies: the copied tables.

    Raises:
        ImportError: the OpenLineage provider is not installed.
        UsageError: the name of a table is malformed.
    """
    from airflow.providers.common.compat.openlineage.facet import (  # noqa: PLC0415 - an extra
        SQLJobFacet,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415

    inputs: list[InputDataset] = []
    outputs: list[OutputDataset] = []
    for copied in copies:
        query_columns = read_query(copied.spec.get("query"), source)
        inputs += _inputs(source, copied, query_columns)
        outputs += _outputs(source, target, copied, query_columns)
    queries = [query for copied in copies if (query := copied.spec.get("query"))]
    job = {"sql": SQLJobFacet(query=";\n".join(queries))} if queries else {}
    return OperatorLineage(inputs=inputs, outputs=outputs, job_facets=job)


def _inputs(source: Place, copied: CopiedTable, query_columns: QueryColumns) -> list[InputDataset]:
    from airflow.providers.common.compat.openlineage.facet import InputDataset  # noqa: PLC0415

    table = copied.spec.get("table")
    if table or (source.located and not copied.spec.get("query")):
        columns = [] if copied.status is None else copied.status.run.plan.columns
        # The source has no such columns.
        columns = [each for each in columns if each.name not in _computed(copied)]
        facets: dict[str, Any] = {
            "schema": _schema((column.name, column.type) for column in columns)
        }
        name = _dataset(source, table, "table")
        return [InputDataset(source.namespace, name, facets=facets if columns else {})]
    return [InputDataset(source.namespace, name) for name in query_columns.tables]


def _outputs(
    source: Place, target: Place, copied: CopiedTable, query_columns: QueryColumns
) -> list[OutputDataset]:
    from airflow.providers.common.compat.openlineage.facet import OutputDataset  # noqa: PLC0415

    table = copied.spec.get("target_table") or copied.spec.get("table")
    if not (table or target.located):
        return []
    facets: dict[str, Any] = {}
    if copied.status is not None:
        loaded = {pair.target for pair in copied.status.run.plan.pairs}
        columns = [each for each in copied.status.target_columns if each.name in loaded]
        if columns:
            facets["schema"] = _schema((column.name, column.type) for column in columns)
        if lineage := _column_lineage(source, copied, copied.status, query_columns):
            facets["columnLineage"] = lineage
    return [
        OutputDataset(
            target.namespace,
            _dataset(target, table, "target_table"),
            facets=facets,
            outputFacets=_statistics(copied.status, copied.partitions),
        )
    ]


def _computed(copied: CopiedTable) -> Collection[str]:
    """Return the columns that an expression computes."""
    rules = copied.spec.get("set") or ()
    return {rule.partition("=")[0].strip().strip('"') for rule in rules}


def _dataset(place: Place, table: str | None, option: str) -> str:
    return place.dataset(TableRef.parse(table, option) if table else TableRef("", ""))


def _schema(columns: Iterable[tuple[str, str]]) -> SchemaDatasetFacet:
    from airflow.providers.common.compat.openlineage.facet import (  # noqa: PLC0415
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )

    return SchemaDatasetFacet(
        fields=[SchemaDatasetFacetFields(name=name, type=kind) for name, kind in columns]
    )


def _column_lineage(
    source: Place, copied: CopiedTable, status: RunStatus, query_columns: QueryColumns
) -> Any:
    """Return the source columns that each target column comes from; None if unknown."""
    from airflow.providers.common.compat.openlineage.facet import (  # noqa: PLC0415
        ColumnLineageDatasetFacet,
        Fields,
        InputField,
    )

    table = copied.spec.get("table")
    of_table = table or (source.located and not copied.spec.get("query"))
    statuses: dict[str, Any] = {}
    computed = _computed(copied)
    for pair in status.run.plan.pairs:
        if pair.source in computed:
            continue  # an expression may read any column
        if of_table:
            origins: Iterable[tuple[str, str]] = [(_dataset(source, table, "table"), pair.source)]
            kind = "MASKED" if pair.expression else "DIRECT" if pair.cast else "IDENTITY"
        else:
            origins, kind = query_columns.columns.get(pair.source, ()), "DIRECT"
        fields = [InputField(source.namespace, dataset, column) for dataset, column in origins]
        if fields:
            statuses[pair.target] = Fields(fields, "", kind)
    return ColumnLineageDatasetFacet(fields=statuses) if statuses else None


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
    # An upsert also reads rows that need no change, and writes those that differ.
    rows = sum(
        record.rows if record.inserted is None else record.inserted + (record.updated or 0)
        for record in records
    )
    size = sum(record.bytes for record in records)
    return {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=rows, size=size)}
