"""Where the partitions are loaded, and the steps around it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from penstock.backends.api.facts import LoadRequest
from penstock.backends.duckdb.catalog.definition import DIALECT
from penstock.backends.duckdb.catalog.tables import (
    constraints,
    definition_of,
    index_definitions,
    relations,
    unique_keys,
)
from penstock.backends.duckdb.control import SWAP
from penstock.backends.duckdb.dialect import DUCKDB, ident
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.shared.arrow import schema_of, schema_to_text
from penstock.backends.sql.definition import create_steps, keys_of, left_out
from penstock.backends.sql.unique_keys import choose_key
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import Column, NotCopied, TableRef

# What DuckDB writes before the columns of a table.
_HEAD = re.compile(r'CREATE TABLE (?:(?:"(?:[^"]|"")*"|[^\s."(]+)\.?)+\s*\(')


def plan_load(session: DuckSession, request: LoadRequest, columns: Sequence[Column]) -> LoadPlan:
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
    there = request.target in relations(session.connection, session.catalog)
    by_name = {column.name: column for column in columns}
    written = [by_name[pair.target] for pair in request.pairs]
    left: tuple[NotCopied, ...] = ()
    steps: list[Step] = []
    table = request.target
    if request.mode.builds_beside:
        table = _beside(request.run_id, request.target)
    if request.definition is not None:
        alike = request.definition.dialect == DIALECT
        keys = keys_of(DUCKDB, request.definition, list(by_name)) if alike else []
        left = left_out(request.definition, request.source, request.target, alike=alike)
        fresh = request.mode.loads_new_table
        steps += create_steps(DUCKDB, table, columns, keys, fresh=fresh)
        if request.mode.recreates and there:
            _check_replaceable(session, request.target, "--mode recreate")
    if request.mode.truncates:
        steps.append(Step("truncate", f"truncate {table}", f"TRUNCATE {DUCKDB.table(table)}"))
    if request.mode.builds_beside:
        steps += _swap(session, request, table, there=there)
    key: tuple[str, ...] = ()
    if request.mode.merges_by_key:
        known = unique_keys(session, request.target)
        key = choose_key(request, known, "primary key or unique constraint of {}").names
    return LoadPlan(
        table,
        tuple(steps),
        conflict_columns=key,
        not_copied=left,
        schema=schema_to_text(schema_of(written)),
    )


def _beside(run_id: str, table: TableRef) -> TableRef:
    return TableRef(table.schema, f"{table.name}~{hashlib.sha256(run_id.encode()).hexdigest()[:8]}")


def _swap(session: DuckSession, request: LoadRequest, new: TableRef, *, there: bool) -> list[Step]:
    """The table beside the target, where that is there, and the exchange."""
    ref, beside = request.target, DUCKDB.table(new)
    rename = f"ALTER TABLE {beside} RENAME TO {ident(ref.name)}"
    steps = []
    if there:
        _check_replaceable(session, ref, "--mode swap")
        body = _HEAD.sub("", definition_of(session, ref), count=1).rstrip().removesuffix(";")
        steps.append(
            Step(
                "create",
                f"create {new} beside {ref}",
                f"DROP TABLE IF EXISTS {beside};\nCREATE TABLE {beside} ({body}",
            )
        )
        indexes = [sql.rstrip().rstrip(";") for _, sql in index_definitions(session, ref) if sql]
        rename = ";\n".join([f"DROP TABLE {DUCKDB.table(ref)}", rename, *indexes])
    steps.append(Step(SWAP, f"swap {new} for {ref}", rename, after=True, rank=1, urgent=True))
    return steps


def _check_replaceable(session: DuckSession, ref: TableRef, needs: str) -> None:
    """
    Raises:
        PlanningError: it is a view, or foreign keys point to it or from it.
    """
    if relations(session.connection, session.catalog)[ref]:
        raise PlanningError(f"{needs}: expected {ref} to be a table, found a view")
    mine = [c.text for c in constraints(session, ref) if c.kind == "FOREIGN KEY"]
    if mine and needs == "--mode swap":
        raise PlanningError(
            f"{needs}: {ref} has foreign keys, with which DuckDB renames no table: "
            f"{'; '.join(mine)}; --mode truncate keeps the table"
        )
    others = session.facts(
        "SELECT schema_name || '.' || table_name FROM duckdb_constraints()"
        " WHERE database_name = $1 AND constraint_type = 'FOREIGN KEY' AND schema_name = $2"
        " AND referenced_table = $3 AND NOT table_name = $3",
        ref,
    )
    if others:
        raise PlanningError(
            f"{needs}: foreign keys of other tables point to {ref}: "
            f"{', '.join(name for (name,) in others)}; drop them first"
        )
