"""Tables that Penstock creates, and what a table needs so that parts can be moved into it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.clickhouse.catalog.table_model import PARTITION_BY
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.clickhouse.source import DIALECT
from penstock.backends.clickhouse.types import ChType
from penstock.backends.clickhouse.writer import LEAST, MOST
from penstock.backends.shared.values.arrow import (
    arrow_type,
    is_bytes,
    kind_of,
    schema_to_text,
    value_kinds,
)
from penstock.backends.shared.values.fitting import carried, fit_column
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.catalog.relations import TYPE, read_relations
from penstock.backends.sql.definitions.definition import omitted_parts
from penstock.backends.sql.definitions.rendering import Rendered, Rendering
from penstock.errors import PlanningError, UsageError
from penstock.model.tables import Column, TableRef
from penstock.spec.modes import Mode, Table

_NULLABLE = re.compile(r"^(LowCardinality\()?Nullable\((.*)\)")
_REFUSED = {
    "Replicated": "replicated tables agree on parts through Keeper, and moves between them were "
    "never tested",
    "Shared": "ClickHouse Cloud keeps parts elsewhere, and moves between its tables were never "
    "tested",
    "": "it has no parts to move",
}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_SECONDS = 86_400


def bare(column: Column) -> Column:
    """Return a column whose type is not Nullable if the column allows no NULL."""
    return column if column.nullable else replace(column, type=_NULLABLE.sub(r"\1\2", column.type))


def rendered(session: ClickHouseSession, request: LoadRequest) -> Rendered:
    """Return the parts of a new table besides its columns, and the source's parts that it lacks."""
    assert request.definition is not None
    columns, definition, target = request.new_columns, request.definition, request.target
    is_native = definition.dialect == DIALECT
    rendering = Rendering(
        session.dialect,
        request.source,
        target,
        value_kinds(columns),
        request.siblings,
        types={column.name: column.type for column in columns},
        at_once=request.mode.table is Table.TARGET,
        same_dialect=is_native,
        missing_columns={column.name for column in definition.model.columns}.difference(
            column.name for column in columns
        ),
    )
    model = definition.model.only([column.name for column in columns])
    result = rendering.of(replace(model, partitioning="") if is_native else model)
    result.omitted[:0] = omitted_parts(session.dialect, definition, target, ())
    return result


def create_statement(
    session: ClickHouseSession, table: TableRef, request: LoadRequest, more: Rendered
) -> str:
    """Return the statement that creates a table if it does not exist.

    Args:
        session: a session with the target.
        table: the table to create.
        request: the load that needs the table.
        more: the parts besides its columns.

    Raises:
        UsageError: a column of its sorting key is specified as nullable.
    """
    assert request.definition is not None
    dialect, definition = session.dialect, request.definition
    plain = {column.name for column in request.new_columns if not column.nullable}
    order_by = request.writing.get("order_by") or ()
    for name in set(order_by) - plain:
        raise UsageError(
            f"--order-by {name}: expected a type that is not Nullable; specify one with --types"
        )
    order, partition = "", ""
    if definition.dialect == DIALECT:
        order = definition.model.sorting
        partition = definition.model.partitioning.removeprefix(PARTITION_BY)
    keys = [
        key.columns
        for key in definition.model.keys
        if key.primary and plain.issuperset(key.columns)
    ]
    if by := order_by or next(iter(keys), ()):
        order = ", ".join(map(dialect.ident, by))
    parts = [
        f"{dialect.ident(each.name)} {each.type} {more.columns.get(each.name, '')}".rstrip()
        for each in request.new_columns
    ]
    listed = ", ".join([*parts, *(check.inline for check in more.checks)])
    by = f" PARTITION BY ({partition})" if partition else ""
    return (
        f"CREATE TABLE IF NOT EXISTS {dialect.table(table)} ({listed}) ENGINE = MergeTree{by}"
        f" ORDER BY ({order}) {' '.join(more.options)}".rstrip()
    )


# Existing tables

_ENGINES = TableQuery(
    "engine, arrayStringConcat(dependencies_table, ', ')", "system.tables", "database", "name"
)


def check_takes_parts(session: ClickHouseSession, table: TableRef, mode: Mode) -> list[str]:
    """Check that parts can be moved into a table.

    Args:
        session: a session with the target.
        table: the table to check.
        mode: the run's load mode.

    Returns:
        Warnings about materialized views that will not see the rows.

    Raises:
        PlanningError: parts cannot be moved between tables of its engine, or other tables depend on
            it.
    """
    ((engine, views),) = session.about(_ENGINES, table)
    why = next(_REFUSED[name] for name in _REFUSED if str(engine).startswith(name))
    if why != _REFUSED[""] or not engine.endswith("MergeTree"):
        raise PlanningError(
            f"target: {table}: expected an engine of the MergeTree family, found {engine}: {why}"
        )
    if not views:
        return []
    if mode.only_adds:
        return [f"materialized views of {table} do not see the rows that are added: {views}"]
    raise PlanningError(
        f"--mode {mode}: {table} would be replaced, but materialized views read it: {views}; drop "
        "them first, or use --mode append"
    )


def check_database(session: ClickHouseSession, name: str, *, may_lack: bool = False) -> None:
    """Check that a database exists, and that its engine renames tables atomically.

    Args:
        session: a session with the target.
        name: the database.
        may_lack: whether the database may be missing.

    Raises:
        PlanningError: the database does not exist, or has an engine whose renames are not atomic.
    """
    engines = session.once(
        f"SELECT engine FROM system.databases WHERE name = {session.dialect.literal(name)}", name
    )
    if not engines and may_lack:
        return
    engine = str(engines[0][0]) if engines else "no such database"
    if engine != "Atomic":
        raise PlanningError(
            f"target: {name}: expected a database with the engine Atomic, found {engine}: "
            "exactly-once needs its atomic creation and renaming of tables"
        )


def is_there(session: ClickHouseSession, table: TableRef) -> bool:
    """Whether a table exists.

    Raises:
        PlanningError: the table is a view.
    """
    relations = read_relations(session)
    if relations.get(table):
        raise PlanningError(f"target: {table}: expected a table, found a view")
    return table in relations


# New rows


def fit(mine: Column, theirs: Column) -> Fit:
    """Return how columns fit; see `TargetCatalog.fit`. A String holds texts and bytes alike."""
    type_ = theirs.traits[TYPE]
    if isinstance(type_, ChType) and type_.name == "String" and is_bytes(arrow_type(mine)):
        return carried(Fit(canonical="bytes"))
    return fit_column(mine, theirs)


def insert_schema(
    session: ClickHouseSession, request: LoadRequest, columns: Sequence[Column]
) -> str:
    """Return the schema of what is sent, with the times that the columns' types can hold.

    Args:
        session: a session with the target.
        request: the load.
        columns: the columns of the target's table.

    Returns:
        The schema as text; fields have the range of their column's type in their metadata.
    """
    by_name = {column.name: column for column in columns}
    ((first, last),) = session.once(
        "SELECT toInt32(toDate32('0001-01-01')), toInt32(toDate32('9999-12-31'))", "dates"
    )
    fields = []
    for pair in request.pairs:
        column = by_name[pair.target]
        kind = arrow_type(column)
        if pair.canonical == "bytes" and kind_of(kind) == "text":
            kind = pa.binary()
        ends = _ends(column.traits[TYPE], kind, int(first), int(last))
        fields.append(pa.field(pair.target, kind, column.nullable, ends))
    return schema_to_text(pa.schema(fields))


def _ends(of: ChType, kind: pa.DataType, first: int, last: int) -> dict[bytes, Any] | None:
    """Return the range of a type, in the units that are sent.

    Values outside would be silently changed.

    Args:
        of: the column's type.
        kind: the type that is sent.
        first: the first day of the server's widest types, counted from 1970-01-01.
        last: their last day.
    """
    if of.name == "Date":
        first, last = 0, 65_535
    if of.name in ("Date", "Date32"):
        least, most = first, last
    elif of.name == "DateTime":
        least, most = 0, 2**32 - 1
    elif of.name == "DateTime64":
        unit = _PER_SECOND[kind.unit]
        widest = 2**63 - 1
        least = max(first * _DAY_SECONDS * unit, -widest)
        most = min((last + 1) * _DAY_SECONDS * unit - 1, widest)
    else:
        return None
    return {LEAST: str(least).encode(), MOST: str(most).encode()}
