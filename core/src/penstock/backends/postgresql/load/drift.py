"""Columns of a target's table that follow those of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from psycopg import sql

from penstock.backends.api.optional.drift import PermittedDifferences
from penstock.backends.postgresql.catalog.privileges import check_owned
from penstock.backends.postgresql.catalog.queries import result_columns
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl.steps import FULL_NAMES, URGENT_LOCK_MS
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.load.target_facts import TargetFacts
from penstock.backends.postgresql.session.statements import ident, literal, name, statement
from penstock.backends.shared.values.widths import (
    DECIMAL,
    FLOAT,
    MOMENT,
    TEXT,
    UNBOUND,
    Sized,
    Width,
    whole,
    width_of,
)
from penstock.backends.sql.definitions.column_changes import (
    change_step,
    check_types,
    needed_changes,
)
from penstock.errors import PlanningError
from penstock.model.drift import ADD, RENAME, WIDEN, ColumnChange
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import Column, ColumnPair, TableRef

_TYPES = {
    "smallint": whole(16),
    "integer": whole(32),
    "bigint": whole(64),
    "numeric": Sized(DECIMAL, (UNBOUND, UNBOUND)),
    "real": Sized(FLOAT, (24,)),
    "double precision": Sized(FLOAT, (53,)),
    "character varying": Sized(TEXT, (UNBOUND,)),
    "text": Sized(TEXT, (UNBOUND,)),
    "character": Sized("blank-padded text", (1,)),
    "bit varying": Sized("bits", (UNBOUND,)),
    "timestamp without time zone": Sized(MOMENT, (6,)),
    "timestamp with time zone": Sized("moment with time zone", (6,)),
    "time without time zone": Sized("time", (6,)),
    "time with time zone": Sized("time with time zone", (6,)),
}
# Widening the length or precision of other types changes only the catalog.
# https://www.postgresql.org/docs/current/sql-altertable.html#SQL-ALTERTABLE-NOTES
_REWRITTEN = ("whole", FLOAT, "blank-padded text")


def describe_columns(connection: Connection, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return columns with another server's types as this server describes them.

    Raises:
        PlanningError: the server has no such type.
    """
    listed = ", ".join(f"NULL::{each.type} AS {ident(each.name)}" for each in columns)
    with planning("target", "types of columns"):
        result = connection.execute(f"SELECT {listed} LIMIT 0".encode()).pgresult
    assert result is not None
    return result_columns(connection, result)


def column_changes(
    facts: TargetFacts, table: TableRef, differences: PermittedDifferences
) -> tuple[ColumnChange, ...]:
    """Return the changes that a table needs; see `AltersColumns.column_changes`.

    Args:
        facts: the facts about the target.
        table: the table to change.
        differences: what follows the source: columns to add, rename, alter, and allow NULL in.
    """
    with planning("target", f"table {table}"):
        tree = facts.tree(table)
        key = {column for each in facts.unique_keys(table)[:1] for column in each.names}
    loose = [each for each in differences.newly_nullable if each.name not in key]
    needed = needed_changes(
        replace(differences, newly_nullable=tuple(loose)),
        lambda type_: width_of(type_, _TYPES),
        _text,
        _rewrites,
    )
    changes = [replace(each, statement=statement_of(table, each)) for each in needed]
    if changes:
        check_owned(facts.connection, tree[:1], "--on-drift")
    if any(each.type and each.kind == WIDEN for each in changes):
        former = {new: old for old, new in differences.renamed}
        with planning("target", f"table {table}"):
            rows = facts.connection.execute(statement("fixed_columns"), {"table": name(table)})
        fixed: dict[str, str] = dict(rows.fetchall())
        changes = [
            replace(each, refused=f"{dependents} depends on it")
            if each.kind == WIDEN
            and each.type
            and (dependents := fixed.get(former.get(each.column, each.column)))
            else each
            for each in changes
        ]
    if not any(each.cost for each in changes):
        return tuple(changes)
    count, size = _size(facts.connection, table)
    cost = (
        f"rewrites the table, about {count:,} rows and {size}, and its indexes: readers wait"
        if count >= 0
        else f"rewrites the table, {size}, and its indexes: readers wait"
    )
    return tuple(replace(each, cost=cost) if each.cost else each for each in changes)


def _text(current: Column, type_: str, *, nullable: bool) -> str:
    """Return the new type of a column; empty if it keeps its own."""
    return "" if type_ == current.type else type_


def _rewrites(mine: Width, theirs: Width) -> bool:
    if mine.kind != theirs.kind or mine.kind in _REWRITTEN:
        return True
    return mine.kind == DECIMAL and theirs.sizes[1] not in (mine.sizes[1], UNBOUND)


def _size(connection: Connection, table: TableRef) -> tuple[int, str]:
    with planning("target", f"size of {table}"):
        rows, size = connection.first(
            sql.SQL(
                "SELECT pg_catalog.sum(c.reltuples)::bigint, pg_catalog.pg_size_pretty("
                "pg_catalog.sum(pg_catalog.pg_total_relation_size(c.oid)))"
                " FROM pg_catalog.pg_class AS c WHERE c.oid = {table}::regclass OR c.oid IN ("
                "SELECT relid FROM pg_catalog.pg_partition_tree({table}::regclass) WHERE isleaf)"
            ).format(table=sql.Literal(name(table)))
        )
    return int(rows), str(size)


def statement_of(table: TableRef, change: ColumnChange) -> str:
    """Return the statement for a change, which can be repeated unless it is a rename."""
    column = ident(change.column)
    if change.kind == ADD:
        action = f"ADD COLUMN IF NOT EXISTS {column} {change.text}"
    elif change.kind == RENAME:
        action = f"RENAME COLUMN {ident(change.was)} TO {column}"
    else:
        actions = [f"ALTER COLUMN {column} TYPE {change.text}"] if change.text else []
        actions += [f"ALTER COLUMN {column} DROP NOT NULL"] if change.nullable else []
        action = ", ".join(actions)
    return f"ALTER TABLE {name(table)} {action}"


def alterations(table: TableRef, changes: Sequence[ColumnChange]) -> list[str]:
    """Return the statements that change a table that is not in use yet."""
    return [statement_of(table, each) for each in changes if each.text or each.kind == RENAME]


def make_changes(connection: Connection, table: TableRef, changes: Sequence[ColumnChange]) -> None:
    """Make the changes that have not been made yet, in the open transaction.

    Args:
        connection: a session in the transaction that merges.
        table: the table to change.
        changes: the changes of the plan.

    Raises:
        TransientError: another session's transaction has locked the table.
    """
    before = connection.value("SELECT pg_catalog.current_setting('lock_timeout')")
    connection.execute(f"SET LOCAL lock_timeout = {URGENT_LOCK_MS}".encode())
    connection.execute(f"LOCK TABLE {name(table)} IN ACCESS EXCLUSIVE MODE".encode())
    types = _types(connection, table)
    for change in changes:
        if change.kind == RENAME and change.was not in types and change.column in types:
            continue  # by a night of another part of the table
        connection.execute(statement_of(table, change).encode())
    connection.execute("SELECT pg_catalog.set_config('lock_timeout', %s, true)", [before])


def check_columns(
    connection: Connection, table: TableRef, stage: TableRef, pairs: Sequence[ColumnPair]
) -> None:
    """Check the table's columns before the merge.

    Args:
        connection: a session in the transaction that merges.
        table: the table to merge into.
        stage: the stage.
        pairs: the columns to merge.

    Raises:
        TargetChanged: they differ from those that the stage was created for.
    """
    check_types(table, _types(connection, stage), _types(connection, table), pairs)


def _types(connection: Connection, table: TableRef) -> dict[str, str]:
    rows = connection.execute(
        "SELECT attname, pg_catalog.format_type(atttypid, atttypmod)"
        " FROM pg_catalog.pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        " AND NOT attisdropped",
        [name(table)],
    )
    return dict(rows.fetchall())


def scripts(table: TableRef, changes: Sequence[ColumnChange]) -> list[Step]:
    """Return the steps that make the changes before the first partition."""
    return [
        replace(
            change_step(table, each),
            statement=";\n".join(
                (FULL_NAMES, f"SET LOCAL lock_timeout = {URGENT_LOCK_MS}", _repeatable(table, each))
            ),
        )
        for each in changes
    ]


def _repeatable(table: TableRef, change: ColumnChange) -> str:
    if change.kind != RENAME:
        return change.statement
    # Another run may have made it.
    condition = (
        "EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid ="
        f" {literal(name(table))}::regclass AND NOT attisdropped AND attname = "
        f"{literal(change.was)})"
    )
    body = f"BEGIN IF {condition} THEN {change.statement}; END IF; END"
    return f"DO {literal(body)}"


def check_no_rename(table: TableRef, changes: Sequence[ColumnChange]) -> None:
    """Check that no change renames a column.

    Raises:
        PlanningError: one does, and indexes and constraints use the old name.
    """
    if renames := [each.statement for each in changes if each.kind == RENAME]:
        raise PlanningError(
            f"{table} is rebuilt with its current indexes, so no column can be renamed at the same "
            f"time; run first: {'; '.join(renames)}"
        )


def plan_with_changes(plan: LoadPlan, table: TableRef, changes: Sequence[ColumnChange]) -> LoadPlan:
    """Return the plan of a replacement table whose columns are changed while it is empty.

    Args:
        plan: the plan, which creates the replacement table.
        table: the table to be replaced.
        changes: the changes to its columns.

    Raises:
        PlanningError: as for `check_no_rename`.
    """
    check_no_rename(table, changes)
    planned: list[Step] = []
    for step in plan.steps:
        planned.append(step)
        if step.id == "create":
            altered = [replace(each, statement=statement_of(plan.table, each)) for each in changes]
            planned += scripts(plan.table, altered)
    return replace(plan, steps=tuple(planned))
