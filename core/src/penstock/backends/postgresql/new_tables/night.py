"""A night: rows are gathered in a stage beside the target, which one transaction merges into it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import psycopg
from psycopg import sql

from penstock.backends.api.facts import LoadRequest
from penstock.backends.api.worker import Loaded
from penstock.backends.postgresql.attempt.stage import ANY_WAY, BY_INDEX, PostgresStage, Run
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl import steps
from penstock.backends.postgresql.ddl.text import beside, shortened
from penstock.backends.postgresql.load.drift import alterations, check_followed, follow, step_of
from penstock.backends.postgresql.load.ranges import Ranges
from penstock.backends.postgresql.session.statements import (
    column_list,
    ident,
    name,
    rows_of,
    statement,
)
from penstock.backends.shared.records.step_records import MergeCounts
from penstock.errors import PermanentError
from penstock.model.drift import original_names
from penstock.model.plans import (
    GONE_STEP,
    MERGE_STEP,
    LoadPlan,
    PartitionPlan,
    Step,
    changes_of,
)
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
    before_changes = original_names(request.changes)
    now = (before_changes(pair.target) for pair in request.pairs)
    columns = column_list(each for each in now if each is not None).as_string(None)
    made = (
        # With the target's types, and none of its constraints.
        f"CREATE TABLE {name(stage)} AS SELECT {columns} FROM {rows_of(ref).as_string(None)}"
        " WITH NO DATA"
    )
    altered = alterations(stage, request.changes) if request.changes else ()
    before: tuple[Step, ...] = (
        steps.before(
            "drop", f"drop what is left of {stage}", f"DROP TABLE IF EXISTS {name(stage)}"
        ),
        steps.before("stage", f"create {stage}, in which rows are gathered", made, *altered),
    )
    what = f"merge all rows into {ref}, in one transaction"
    if request.changes:
        what = f"alter columns of {ref}, and {what}"
    # It waits for whoever reads the table, and others for it.
    urgent = bool(request.changes)
    after = [Step(MERGE_STEP, what, "", after=True, rank=FIRST, urgent=urgent)]
    changing = [step_of(each, ref) for each in request.changes]
    if request.deletes.found:
        if request.definition is not None and request.deletes.column:
            column = ident(request.deletes.column)
            adds = f"ALTER TABLE {name(ref)} ADD COLUMN IF NOT EXISTS {column} timestamptz"
            what = f"add column {request.deletes.column} to {ref}, where it is missing"
            before = (*before, steps.before("marks", what, adds))
        making, finding_step = finding_gone(ref, stage, plan.conflict_columns)
        before = (*before, making)
        after.insert(0, finding_step)
    *finding, merging = after
    late, table = (merging, *changing, *plan.after), replace(stage, only=ref.only)
    steps_ = (*plan.before, *before, *finding)
    if request.merges_together:
        return replace(plan, table=table, steps=steps_, links=(*late, *plan.links))
    return replace(plan, table=table, steps=(*steps_, *late))


def finding_gone(ref: TableRef, stage: TableRef, key: Sequence[str]) -> tuple[Step, Step]:
    """The steps that make a table for the keys of rows that are gone, and find those."""
    gone, columns = gone_table(stage), column_list(key).as_string(None)
    made = steps.before(
        "gone keys",
        f"create {gone}, for keys that are gone",
        f"DROP TABLE IF EXISTS {name(gone)}",
        f"CREATE TABLE {name(gone)} AS SELECT {columns} FROM {rows_of(ref).as_string(None)}"
        " WITH NO DATA",
    )
    what = f"find rows of {ref} that the source has no more"
    return made, Step(GONE_STEP, what, "", after=True, rank=FIRST - 1)


def take_gone(connection: Connection, stage: TableRef) -> int:
    """Drop the table of keys that are gone, whose rows go with the table that they are in. Returns
    how many there are."""
    gone = gone_table(stage)
    count = int(connection.value(f"SELECT count(*) FROM {name(gone)}"))
    connection.execute(f"DROP TABLE {name(gone)}".encode())
    return count


def gone_table(stage: TableRef) -> TableRef:
    """Holds the keys of rows that are to be deleted."""
    return TableRef(stage.schema, shortened(stage.name, "_gone"))


@dataclass(frozen=True, slots=True)
class NightLoad:
    """What is merged into one table."""

    spec: CopySpec
    plan: PartitionPlan
    rows: int
    """Of all partitions."""


def merge_all(connection: Connection, nights: Sequence[NightLoad]) -> list[MergeCounts]:
    """Within a transaction: nothing of a night is seen before all of it.

    Deletes come first, where foreign keys allow it: a row whose key has changed collides with
    nothing. They begin with the tables that reference others, and what is inserted ends with them.
    """
    tables = [night.spec.target_ref for night in nights]
    # Those of parts of one table take turns, in an order in which none waits for another's.
    connection.execute(statement("merging"), {"tables": list(map(name, tables))})
    for night in nights:
        if changes := changes_of(night.plan.load):
            follow(connection, night.spec.target_ref, changes)
            check_followed(
                connection, night.spec.target_ref, night.plan.load.table, night.plan.pairs
            )
    order = _referenced_first(connection, tables)
    stages = _open_stages(connection, nights)
    deleted = dict.fromkeys(order, 0)
    late = []
    small = False

    def run_for(stage: PostgresStage, place: int) -> Run:
        """As the server finds rows of that table at the least cost."""
        nonlocal small
        if small is not stage.is_small(nights[place].rows):
            small = not small
            connection.execute(BY_INDEX if small else ANY_WAY)
        return partial(_run, connection)

    def delete(place: int) -> None:
        stage = stages[place]
        if isinstance(stage, Ranges):
            stage.delete()
            return
        gone = gone_table(nights[place].plan.load.table)
        (deleted[place],) = run_for(stage, place)(
            [stage.delete(gone, nights[place].spec.gone.column)]
        )
        connection.execute(f"DROP TABLE {name(gone)}".encode())

    for place in reversed(order):
        replaces = isinstance(stages[place], Ranges)
        if not (replaces or nights[place].spec.gone.found):
            continue
        try:
            with connection.transaction():
                delete(place)
        except psycopg.errors.ForeignKeyViolation:
            if replaces:
                raise
            late.append(place)  # rows reference it that are to reference another one
    merged = {}
    for place in order:
        stage, rows = stages[place], nights[place].rows
        merged[place] = (
            stage.insert(rows)
            if isinstance(stage, Ranges)
            else _merged(connection, stage, rows, run_for(stage, place))
        )
    for place in late:
        delete(place)
    merged_ones = ", ".join(name(night.plan.load.table) for night in nights)
    connection.execute(f"DROP TABLE {merged_ones}".encode())
    known = storages(connection, [_loaded(night) for night in nights])
    return [
        _ended(connection, night, merged[place], deleted[place], known[_loaded(night)])
        for place, night in enumerate(nights)
    ]


def _merged(connection: Connection, stage: PostgresStage, rows: int, run: Run) -> Loaded:
    """Values of another unique key that change places collide while rows are updated one after the
    other: such rows are deleted first."""
    if not stage.may_replace:
        return stage.merge(rows, run)
    try:
        with connection.transaction():
            return stage.merge(rows, run)
    except PermanentError as error:
        if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
            raise
        return stage.replace(rows, run)


def _loaded(night: NightLoad) -> TableRef:
    """The table that it is merged into."""
    return replace(night.spec.target_ref, only=night.plan.load.table.only)


def _open_stages(
    connection: Connection, nights: Sequence[NightLoad]
) -> list[PostgresStage | Ranges]:
    """Asked for together."""
    stages: dict[int, PostgresStage | Ranges] = {}

    def open_one(place: int) -> PostgresStage | Ranges:
        if place not in stages:
            stages[place] = _opened(connection, nights[place])
        return stages[place]

    places = range(len(nights))
    if len(nights) > 1:
        connection.ask_together([partial(open_one, place) for place in places])
    return [open_one(place) for place in places]


def _opened(connection: Connection, night: NightLoad) -> PostgresStage | Ranges:
    if not night.spec.load_mode.deletes_by_partition:
        return open_stage(connection, night.spec, night.plan)
    return Ranges(connection, night.spec, night.plan, _loaded(night))


def _ended(
    connection: Connection, night: NightLoad, loaded: Loaded, deleted: int, stored: str
) -> MergeCounts:
    ref = _loaded(night)
    inserted, updated = loaded.inserted or 0, loaded.updated or 0
    known, count = night.plan.night, None
    if known and known.rows is not None:
        count = known.rows + inserted - (0 if night.spec.gone.column else deleted)
    elif known:
        count = connection.value(f"SELECT count(*) FROM {rows_of(ref).as_string(connection)}")
    return MergeCounts(inserted, updated, deleted, count, stored)


def _referenced_first(connection: Connection, tables: Sequence[TableRef]) -> list[int]:
    """The places of the tables, each after those that its foreign keys reference; in circles as
    they come, with checks put off as far as the keys allow it."""
    if len(tables) < 2:
        return list(range(len(tables)))
    connection.execute("SET CONSTRAINTS ALL DEFERRED")
    found = connection.execute(statement("references"), {"tables": list(map(name, tables))})
    needs: dict[int, set[int]] = {place: set() for place in range(len(tables))}
    for child, parent in found.fetchall():
        needs[child].add(parent)
    order: list[int] = []
    while needs:
        free = [place for place, on in needs.items() if not on.difference(order)]
        for place in free or [min(needs)]:
            order.append(place)
            del needs[place]
    return order


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


def open_stage(connection: Connection, spec: CopySpec, plan: PartitionPlan) -> PostgresStage:
    """The stage that the run's partitions are loaded into."""
    table = plan.load.table
    target, into = replace(spec.target_ref, only=table.only), replace(table, only=False)
    key = plan.load.conflict_columns
    return PostgresStage(connection, target, key, plan.pairs, into, mark=spec.gone.column)


def _run(connection: Connection, queries: Sequence[sql.Composed]) -> list[int]:
    return [connection.execute(query).rowcount for query in queries]


def storages(connection: Connection, tables: Sequence[TableRef]) -> dict[TableRef, str]:
    """What tables are recognised by; empty where one is not there."""
    asked = {"tables": list(map(name, tables))}
    found = dict(connection.execute(statement("storage"), asked).fetchall()) if tables else {}
    return {table: found.get(place) or "" for place, table in enumerate(tables, 1)}
