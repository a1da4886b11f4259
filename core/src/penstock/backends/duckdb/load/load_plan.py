"""Where the partitions are loaded, and the steps around it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from duckdb import DuckDBPyConnection

from penstock.backends.api.facts import LoadRequest
from penstock.backends.duckdb.catalog.definition import keys_of, left_out, type_text
from penstock.backends.duckdb.catalog.tables import (
    constraints,
    definition_of,
    relations,
    unique_keys,
)
from penstock.backends.duckdb.control import SWAP
from penstock.backends.duckdb.quoting import ident
from penstock.backends.shared.arrow import schema_of, schema_to_text
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import Column, NotCopied, TableRef

# What DuckDB writes before the columns of a table.
_HEAD = re.compile(r'CREATE TABLE (?:(?:"(?:[^"]|"")*"|[^\s."(]+)\.?)+\s*\(')


def plan_load(
    connection: DuckDBPyConnection, catalog: str, request: LoadRequest, columns: Sequence[Column]
) -> LoadPlan:
    """
    Parameters:
        columns: the target's, those that are made or those that are there.

    Raises:
        PlanningError: see `TargetCatalog.plan_load`.
    """
    request.refuse_writing("DuckDB")
    if request.unlogged:
        raise PlanningError("--unlogged: DuckDB has no unlogged tables: leave --unlogged out")
    if request.indexes == "defer":
        raise PlanningError(
            "--indexes defer: the indexes of a DuckDB table grow with its rows: expected "
            "--indexes keep"
        )
    there = request.target in relations(connection, catalog)
    by_name = {column.name: column for column in columns}
    written = [by_name[pair.target] for pair in request.pairs]
    left: tuple[NotCopied, ...] = ()
    steps: list[Step] = []
    table = request.target
    if request.mode.builds_beside:
        table = _beside(request.run_id, request.target)
    if request.definition is not None:
        keys = keys_of(request.definition, list(by_name))
        left = left_out(request.definition, request.source, request.target)
        steps += _make(table, columns, keys, fresh=request.mode.loads_new_table)
        if request.mode.recreates and there:
            _check_replaceable(connection, catalog, request.target, "--mode recreate")
    if request.mode.truncates:
        steps.append(Step("truncate", f"truncate {table}", f"TRUNCATE {_name(table)}"))
    if request.mode.builds_beside:
        steps += _swap(connection, catalog, request, table, there=there)
    key = _conflict_columns(connection, catalog, request) if request.mode.merges_by_key else ()
    return LoadPlan(
        table,
        tuple(steps),
        conflict_columns=key,
        not_copied=left,
        schema=schema_to_text(schema_of(written)),
    )


def _name(table: TableRef) -> str:
    return f"{ident(table.schema)}.{ident(table.name)}"


def _make(
    table: TableRef, columns: Sequence[Column], keys: Sequence[str], *, fresh: bool
) -> list[Step]:
    listed = [f"{ident(column.name)} {type_text(column)}" for column in columns]
    body = ", ".join([*listed, *keys])
    create = f"CREATE TABLE {'' if fresh else 'IF NOT EXISTS '}{_name(table)} ({body})"
    drop = f"DROP TABLE IF EXISTS {_name(table)};\n" if fresh else ""
    schema = f"CREATE SCHEMA IF NOT EXISTS {ident(table.schema)}"
    return [
        Step("schema", f"create schema {table.schema}", schema),
        Step("create", f"create {table}", f"{drop}{create}"),
    ]


def _beside(run_id: str, table: TableRef) -> TableRef:
    return TableRef(table.schema, f"{table.name}~{hashlib.sha256(run_id.encode()).hexdigest()[:8]}")


def _swap(
    connection: DuckDBPyConnection,
    catalog: str,
    request: LoadRequest,
    new: TableRef,
    *,
    there: bool,
) -> list[Step]:
    """The table beside the target, where that is there, and the exchange."""
    ref = request.target
    rename = f"ALTER TABLE {_name(new)} RENAME TO {ident(ref.name)}"
    steps = []
    if there:
        _check_replaceable(connection, catalog, ref, "--mode swap")
        created = definition_of(connection, catalog, ref)
        body = _HEAD.sub("", created, count=1).rstrip().removesuffix(";")
        steps.append(
            Step(
                "create",
                f"create {new} beside {ref}",
                f"DROP TABLE IF EXISTS {_name(new)};\nCREATE TABLE {_name(new)} ({body}",
            )
        )
        indexes = [
            sql
            for (sql,) in connection.execute(
                "SELECT sql FROM duckdb_indexes() WHERE database_name = $1 AND schema_name = $2"
                " AND table_name = $3 ORDER BY index_name",
                [catalog, ref.schema, ref.name],
            ).fetchall()
            if sql
        ]
        rename = ";\n".join(
            [f"DROP TABLE {_name(ref)}", rename, *(sql.rstrip().rstrip(";") for sql in indexes)]
        )
    steps.append(Step(SWAP, f"swap {new} for {ref}", rename, after=True, rank=1, urgent=True))
    return steps


def _check_replaceable(
    connection: DuckDBPyConnection, catalog: str, ref: TableRef, needs: str
) -> None:
    """
    Raises:
        PlanningError: it is a view, or foreign keys point to it or from it.
    """
    known = relations(connection, catalog)
    if known[ref]:
        raise PlanningError(f"{needs}: expected {ref} to be a table, found a view")
    mine = [c.text for c in constraints(connection, catalog, ref) if c.kind == "FOREIGN KEY"]
    if mine and needs == "--mode swap":
        raise PlanningError(
            f"{needs}: {ref} has foreign keys, with which DuckDB renames no table: "
            f"{'; '.join(mine)}; --mode truncate keeps the table"
        )
    others = connection.execute(
        "SELECT schema_name || '.' || table_name FROM duckdb_constraints()"
        " WHERE database_name = $1 AND constraint_type = 'FOREIGN KEY' AND schema_name = $2"
        " AND referenced_table = $3 AND NOT table_name = $3",
        [catalog, ref.schema, ref.name],
    ).fetchall()
    if others:
        raise PlanningError(
            f"{needs}: foreign keys of other tables point to {ref}: "
            f"{', '.join(name for (name,) in others)}; drop them first"
        )


def _conflict_columns(
    connection: DuckDBPyConnection, catalog: str, request: LoadRequest
) -> tuple[str, ...]:
    """
    Raises:
        PlanningError: there is no such key.
    """
    keys = unique_keys(connection, catalog, request.target)
    there = "; ".join(key.text for key in keys) or "none"
    copied = {pair.target for pair in request.pairs}
    asked = request.conflict_columns
    if asked is not None:
        found = [key for key in keys if set(key.columns) == set(asked)]
        if not found:
            raise PlanningError(
                f"--conflict-columns {','.join(asked)}: expected exactly the columns of a primary "
                f"key or unique constraint of {request.target}; found {there}"
            )
    else:
        found = [key for key in keys if copied.issuperset(key.columns)]
        if not found or (found[0].kind != "PRIMARY KEY" and len(found) > 1):
            raise PlanningError(
                f"--mode upsert: expected a primary key of {request.target}, or "
                f"--conflict-columns to choose a unique constraint; found {there}"
            )
    missing = [name for name in found[0].columns if name not in copied]
    if missing:
        raise PlanningError(
            f"--mode upsert: expected that the key's columns are copied, found "
            f"{', '.join(missing)}, which are not"
        )
    return found[0].columns
