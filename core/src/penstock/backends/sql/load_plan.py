"""Where the partitions are loaded, and the steps around it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from penstock.backends.api.facts import LoadRequest
from penstock.backends.sql.definition import create_steps, keys_of, left_out
from penstock.backends.sql.relations import read_relations
from penstock.backends.sql.session import Session
from penstock.backends.sql.unique_keys import UniqueKey, choose_key
from penstock.model.plans import LoadPlan, Step
from penstock.model.tables import Column, NotCopied, TableRef

SWAP = "swap"
"""The id of the step that puts a table in another one's place."""


class TargetTables:
    """What the plan asks of the tables that are there; without more, no mode makes one, and none
    finds rows by their keys.

    Parameters:
        definitions: the `TableDefinition.dialect` whose types and statements are the target's own.
    """

    def __init__(self, definitions: str) -> None:
        self.definitions = definitions

    def unique_keys(self, session: Session, table: TableRef) -> Sequence[UniqueKey]:
        """The primary key first."""
        return ()

    def check_replaceable(self, session: Session, table: TableRef, needs: str) -> None:
        """Raises `PlanningError` where no other table can take its place, as an option needs it."""
        return

    def like(self, session: Session, table: TableRef, beside: TableRef) -> tuple[str, list[str]]:
        """The statement that makes an empty table like another one; and those that make, when it
        has that one's name, what could not be there twice."""
        raise NotImplementedError  # there is no mode swap


def plan_load(
    session: Session,
    tables: TargetTables,
    request: LoadRequest,
    columns: Sequence[Column],
    schema: str,
) -> LoadPlan:
    """
    Parameters:
        columns: the target's, those that are made or those that are there.
        schema: see `LoadPlan`.

    Raises:
        PlanningError: see `TargetCatalog.plan_load`.
    """
    dialect = session.dialect
    there = request.target in read_relations(session)
    left: tuple[NotCopied, ...] = ()
    steps: list[Step] = []
    table = request.target
    if request.mode.builds_beside:
        table = _beside(request.run_id, request.target)
    if request.definition is not None:
        alike = request.definition.dialect == tables.definitions
        keys = (
            keys_of(dialect, request.definition, [column.name for column in columns])
            if alike
            else []
        )
        left = left_out(request.definition, request.source, request.target, alike=alike)
        fresh = request.mode.loads_new_table
        steps += create_steps(dialect, table, columns, keys, fresh=fresh)
        if request.mode.recreates and there:
            tables.check_replaceable(session, request.target, "--mode recreate")
    if request.mode.truncates:
        steps.append(Step("truncate", f"truncate {table}", dialect.emptied(table)))
    if request.mode.builds_beside:
        steps += _swap(session, tables, request.target, table, there=there)
    key: tuple[str, ...] = ()
    if request.mode.merges_by_key:
        known = tables.unique_keys(session, request.target)
        key = choose_key(request, known, "primary key or unique constraint of {}").names
    return LoadPlan(
        table,
        tuple(steps),
        conflict_columns=key,
        not_copied=left,
        schema=schema,
    )


def _beside(run_id: str, table: TableRef) -> TableRef:
    return TableRef(table.schema, f"{table.name}~{hashlib.sha256(run_id.encode()).hexdigest()[:8]}")


def _swap(
    session: Session, tables: TargetTables, ref: TableRef, new: TableRef, *, there: bool
) -> list[Step]:
    """The table beside the target, where that is there, and the exchange."""
    dialect = session.dialect
    statements = [dialect.renamed(new, ref.name)]
    steps = []
    if there:
        tables.check_replaceable(session, ref, "--mode swap")
        create, after = tables.like(session, ref, new)
        create = f"DROP TABLE IF EXISTS {dialect.table(new)};\n{create}"
        steps.append(Step("create", f"create {new} beside {ref}", create))
        statements = [*dialect.exchanged(ref, new), *after]
    exchange = ";\n".join(statements)
    steps.append(Step(SWAP, f"swap {new} for {ref}", exchange, after=True, rank=1, urgent=True))
    return steps
