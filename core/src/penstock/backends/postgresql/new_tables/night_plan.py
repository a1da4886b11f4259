"""The stage of a night, created beside the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.facts import LoadRequest
from penstock.backends.postgresql.ddl import steps
from penstock.backends.postgresql.ddl.text import temporary_name
from penstock.backends.postgresql.load.drift import alterations
from penstock.backends.postgresql.new_tables.night import deleted_keys_table
from penstock.backends.postgresql.session.statements import column_list, ident, name, rows_of
from penstock.backends.sql.loads.night_plan import StageSteps
from penstock.model.plans import Step
from penstock.model.tables import TableRef


class PostgresStageSteps(StageSteps):
    """The steps of a night in PostgreSQL.

    Args:
        request: the request for the load.
        table: the target's table.
    """

    def __init__(self, request: LoadRequest, table: TableRef) -> None:
        stage = TableRef(table.schema, temporary_name(request.run_id, table.name))
        super().__init__(request, table, replace(stage, only=table.only))

    def create_stage(self, columns: Sequence[str]) -> Sequence[Step]:
        stage, changes = replace(self.stage, only=False), self.request.changes
        altered = alterations(stage, changes) if changes else ()
        drop = f"DROP TABLE IF EXISTS {name(stage)}"
        create = empty_copy(stage, self.table, columns)
        return [
            steps.before("drop", f"drop {stage} if it exists", drop),
            steps.before("stage", f"create {stage}, the stage", create, *altered),
        ]

    def create_keys_table(self, key: Sequence[str]) -> Sequence[Step]:
        marks: list[Step] = []
        if self.request.definition is not None and (column := self.request.deletes.column):
            adds = (
                f"ALTER TABLE {name(self.table)} ADD COLUMN IF NOT EXISTS {ident(column)} "
                "timestamptz"
            )
            what = f"add column {column} to {self.table} if it is missing"
            marks.append(steps.before("marks", what, adds))
        return [*marks, keys_table_step(self.table, self.stage, key)]


def keys_table_step(ref: TableRef, stage: TableRef, key: Sequence[str]) -> Step:
    """Return the step that creates a table for the keys of deleted rows.

    Args:
        ref: the target.
        stage: the stage of the night, or the table that replaces the target.
        key: the columns of the key that identifies rows.
    """
    keys_table = deleted_keys_table(stage)
    return steps.before(
        "gone keys",
        f"create {keys_table}, for the keys of deleted rows",
        f"DROP TABLE IF EXISTS {name(keys_table)}",
        empty_copy(keys_table, ref, key),
    )


def empty_copy(new: TableRef, like: TableRef, columns: Sequence[str]) -> str:
    """Return a statement that creates a table with another one's types, but no constraints."""
    listed = column_list(columns).as_string(None)
    rows = rows_of(like).as_string(None)
    return f"CREATE TABLE {name(new)} AS SELECT {listed} FROM {rows} WITH NO DATA"
