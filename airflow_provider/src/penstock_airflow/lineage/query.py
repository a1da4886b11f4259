"""The tables and columns that a query reads, as parsed by OpenLineage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock import Place, TableRef


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """The tables and columns that a query reads."""

    tables: tuple[str, ...] = ()
    """Names of datasets."""
    columns: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """For each column of the query, the dataset and column of each input."""


def read_query(query: str | None, source: Place) -> QueryColumns:
    """Return the tables and columns that a query reads; none if the query cannot be parsed.

    Files are always one dataset, whatever the query calls them. A table without a schema is left
    out unless the URL's database is its schema, because only the server knows its search path.
    """
    if not query:
        return QueryColumns()
    files = QueryColumns((source.dataset(TableRef("", "")),)) if source.located else QueryColumns()
    try:
        from openlineage.common.sql import parse  # noqa: PLC0415 - part of the OpenLineage provider
    except ImportError:
        return files
    usual = source.database if source.schemas_are_databases else None
    parsed = parse([query], dialect=source.scheme, default_schema=usual)
    if parsed is None or parsed.errors:
        return files
    tables = {dataset for table in parsed.in_tables if (dataset := _dataset(table, source))}
    columns = {}
    for column in parsed.column_lineage:
        origins = (
            (_dataset(each.origin, source), each.name)
            for each in column.lineage
            if each.origin is not None
        )
        columns[column.descendant.name] = tuple(
            (dataset, name) for dataset, name in origins if dataset
        )
    return QueryColumns(files.tables or tuple(sorted(tables)), columns)


def _dataset(table: Any, source: Place) -> str:
    """Return a dataset's name; empty if the schema is unknown."""
    if source.located:
        return source.dataset(TableRef("", ""))
    if not table.schema:
        return ""
    return source.dataset(TableRef(table.schema, table.name))
