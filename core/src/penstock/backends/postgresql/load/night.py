"""A night: rows are gathered in a stage beside the target, which one transaction merges into it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import psycopg
from psycopg import sql

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.attempt.stage import Stage
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import steps
from penstock.backends.postgresql.ddl.text import beside, shortened
from penstock.backends.postgresql.statements import column_list, ident, name, rows_of, statement
from penstock.backends.shared.step_records import Merged
from penstock.model.plans import GONE_STEP, MERGE_STEP, LoadPlan, PartitionPlan, Step
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec

# Before whatever else comes after the last partition.
FIRST = -1
# How long to wait for a stage that an attempt of an overtaken run may hold.
BRIEFLY_MS = 500


def staged(plan: LoadPlan, request: LoadRequest) -> LoadPlan:
    """The plan of an upsert, with a stage beside the target that all partitions are loaded into."""
    ref = plan.table
    stage = TableRef(ref.schema, beside(request.run_id, ref.name))
    columns = column_list(pair.target for pair in request.pairs).as_string(None)
    made = (
        # With the target's types, and none of its constraints.
        f"CREATE TABLE {name(stage)} AS SELECT {columns} FROM {rows_of(ref).as_string(None)}"
        " WITH NO DATA"
    )
    before: tuple[Step, ...] = (
        steps.before(
            "drop", f"drop what is left of {stage}", f"DROP TABLE IF EXISTS {name(stage)}"
        ),
        steps.before("stage", f"create {stage}, in which rows are gathered", made),
    )
    after = [
        Step(
            MERGE_STEP, f"merge all rows into {ref}, in one transaction", "", after=True, rank=FIRST
        )
    ]
    if request.deletes.found:
        gone, key = gone_table(stage), column_list(plan.conflict_columns).as_string(None)
        if request.definition is not None and request.deletes.column:
            column = ident(request.deletes.column)
            adds = f"ALTER TABLE {name(ref)} ADD COLUMN IF NOT EXISTS {column} timestamptz"
            what = f"add column {request.deletes.column} to {ref}, where it is missing"
            before = (*before, steps.before("marks", what, adds))
        before = (
            *before,
            steps.before(
                "gone keys",
                f"create {gone}, for keys that are gone",
                f"DROP TABLE IF EXISTS {name(gone)}",
                f"CREATE TABLE {name(gone)} AS SELECT {key} FROM {rows_of(ref).as_string(None)}"
                " WITH NO DATA",
            ),
        )
        what = f"find rows of {ref} that the source has no more"
        after.insert(0, Step(GONE_STEP, what, "", after=True, rank=FIRST - 1))
    return replace(
        plan,
        table=replace(stage, only=ref.only),
        steps=(*plan.before, *before, *after, *plan.after),
    )


def gone_table(stage: TableRef) -> TableRef:
    """Holds the keys of rows that are to be deleted."""
    return TableRef(stage.schema, shortened(stage.name, "_gone"))


def merge(connection: Connection, spec: CopySpec, plan: PartitionPlan, rows: int) -> Merged:
    """Within a transaction: nothing of a night is seen before all of it. Deletes come first: a row
    whose key has changed collides with nothing.

    Parameters:
        rows: of all partitions.
    """
    stage, run = open_stage(connection, spec, plan), partial(_run, connection)
    ref, load, night = stage.target, plan.load, plan.night
    deleted = 0
    if spec.gone.found:
        gone = gone_table(load.table)
        (deleted,) = run([stage.delete(gone, spec.gone.column)])
        connection.execute(f"DROP TABLE {name(gone)}".encode())
    merged = stage.merge(rows, run)
    connection.execute(f"DROP TABLE {name(load.table)}".encode())
    inserted, updated = merged.inserted or 0, merged.updated or 0
    count = None
    if night and night.rows is not None:
        count = night.rows + inserted - (0 if spec.gone.column else deleted)
    elif night:
        count = connection.value(f"SELECT count(*) FROM {rows_of(ref).as_string(connection)}")
    return Merged(inserted, updated, deleted, count, storage(connection, ref))


def drop_stages(connection: Connection, stages: Sequence[TableRef]) -> None:
    """Drop what runs have left that merge nothing any more, but for what is locked."""
    tables = [name(table) for stage in stages for table in (stage, gone_table(stage))]
    found = connection.execute(
        "SELECT name FROM unnest(%s::text[]) AS u (name) WHERE to_regclass(name) IS NOT NULL",
        [tables],
    ).fetchall()
    for (table,) in found:
        with suppress(psycopg.Error), connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {BRIEFLY_MS}")
            connection.execute(f"DROP TABLE IF EXISTS {table}".encode())


def open_stage(connection: Connection, spec: CopySpec, plan: PartitionPlan) -> Stage:
    """The stage that the run's partitions are loaded into."""
    table = plan.load.table
    target, into = replace(spec.target_ref, only=table.only), replace(table, only=False)
    key = plan.load.conflict_columns
    return Stage(connection, target, key, plan.pairs, into, mark=spec.gone.column)


def _run(connection: Connection, queries: Sequence[sql.Composed]) -> list[int]:
    return [connection.execute(query).rowcount for query in queries]


def storage(connection: Connection, table: TableRef) -> str:
    """What a table is recognised by; empty where it is not there."""
    query = statement("storage")
    return str(connection.value(query, {"table": name(table)}) or "")
