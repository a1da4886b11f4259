"""A night: rows are gathered in a stage beside the target, which one transaction merges into it."""

from __future__ import annotations

from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.attempt.stage import Stage
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import steps
from penstock.backends.postgresql.ddl.text import beside
from penstock.backends.postgresql.statements import column_list, name, rows_of, statement
from penstock.backends.shared.step_records import Merged
from penstock.model.plans import MERGE_STEP, LoadPlan, PartitionPlan, Step
from penstock.model.tables import TableRef

# Before whatever else comes after the last partition.
FIRST = -1


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
    before = (
        steps.before(
            "drop", f"drop what is left of {stage}", f"DROP TABLE IF EXISTS {name(stage)}"
        ),
        steps.before("stage", f"create {stage}, in which rows are gathered", made),
    )
    merge = Step(
        MERGE_STEP, f"merge all rows into {ref}, in one transaction", "", after=True, rank=FIRST
    )
    return replace(
        plan, table=replace(stage, only=ref.only), steps=(*plan.before, *before, merge, *plan.after)
    )


def merge(connection: Connection, target: TableRef, plan: PartitionPlan, rows: int) -> Merged:
    """Within a transaction: nothing of a night is seen before all of it.

    Parameters:
        rows: of all partitions.
    """
    ref, load = replace(target, only=plan.load.table.only), plan.load
    night = plan.night
    stage = Stage(
        connection, ref, load.conflict_columns, plan.pairs, replace(load.table, only=False)
    )
    merged = stage.merge(rows, lambda queries: [connection.execute(q).rowcount for q in queries])
    connection.execute(f"DROP TABLE {name(load.table)}".encode())
    inserted, updated = merged.inserted or 0, merged.updated or 0
    known = night.rows if night else None
    if known is not None:
        count: int | None = known + inserted
    elif night:
        count = connection.value(f"SELECT count(*) FROM {rows_of(ref).as_string(connection)}")
    else:
        count = None
    return Merged(inserted, updated, rows=count, target=storage(connection, target))


def storage(connection: Connection, table: TableRef) -> str:
    """What a table is recognised by; empty where it is not there."""
    query = statement("storage")
    return str(connection.value(query, {"table": name(table)}) or "")
