"""The end of nights: one transaction merges the stages of one or more tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import psycopg
from psycopg import sql

from penstock.backends.api.worker import LoadResult
from penstock.backends.postgresql.attempt.stage import ANY_WAY, BY_INDEX, PostgresStage, Run
from penstock.backends.postgresql.connection import FIRE_DEFERRED, Connection
from penstock.backends.postgresql.ddl.text import shorten
from penstock.backends.postgresql.load.drift import check_columns, make_changes
from penstock.backends.postgresql.load.ranges import Ranges
from penstock.backends.postgresql.session.statements import name, rows_of, statement
from penstock.backends.shared.attempts.refusals import OF_ANOTHER_ROW
from penstock.backends.shared.records.load_hooks import MergeCounts
from penstock.errors import PermanentError
from penstock.model.plans import PartitionPlan, changes_of
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec
from penstock.spec.modes import Entry

# How long to wait for a stage that an attempt of an overtaken run may have locked.
BRIEFLY_MS = 500


def take_deleted(connection: Connection, stage: TableRef) -> int:
    """Drop the table of keys of deleted rows, and return how many there were."""
    keys_table = deleted_keys_table(stage)
    count = int(connection.value(f"SELECT count(*) FROM {name(keys_table)}"))
    connection.execute(f"DROP TABLE {name(keys_table)}".encode())
    return count


def deleted_keys_table(stage: TableRef) -> TableRef:
    """Return the table for the keys of rows to be deleted."""
    return TableRef(stage.schema, shorten(stage.name, "_gone"))


@dataclass(frozen=True, slots=True)
class NightLoad:
    """A night's rows for one table, to be merged."""

    spec: CopySpec
    plan: PartitionPlan
    rows: int
    """The row count of all partitions."""

    @property
    def loads_ranges(self) -> bool:
        """Whether its rows replace those of whole ranges, of which some may be empty now."""
        return self.spec.load_mode.entry is Entry.REPLACE


def merge_all(connection: Connection, nights: Sequence[NightLoad]) -> list[MergeCounts]:
    """Merge several nights in the current transaction, so that none is visible in part.

    Deletes come first, as far as foreign keys allow, so that a row with a new key collides with
    nothing. They begin with the tables that reference others; inserts end with these.
    """
    tables = [night.spec.target_ref for night in nights]
    # Parts of one table take turns, in an order in which none waits for another.
    connection.execute(statement("merging"), {"tables": list(map(name, tables))})
    for night in nights:
        if changes := changes_of(night.plan.load):
            make_changes(connection, night.spec.target_ref, changes)
            check_columns(
                connection, night.spec.target_ref, night.plan.load.table, night.plan.pairs
            )
    order = _referenced_first(connection, tables)
    # Where nothing has changed, there is nothing to look up about the table either.
    places = [place for place, night in enumerate(nights) if night.rows or night.loads_ranges]
    deleting = [place for place, night in enumerate(nights) if night.spec.deletion.is_enabled]
    stages = _open_stages(connection, nights, dict.fromkeys((*places, *deleting)))
    deleted = dict.fromkeys(order, 0)
    late = []
    small = False

    def run_for(stage: PostgresStage, place: int) -> Run:
        """Return the way in which the server finds rows of a table at the lowest cost."""
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
        keys_table = deleted_keys_table(nights[place].plan.load.table)
        (deleted[place],) = run_for(stage, place)(
            [stage.delete(keys_table, nights[place].spec.deletion.column)]
        )
        connection.execute(f"DROP TABLE {name(keys_table)}".encode())

    for place in reversed(order):
        replaces = nights[place].loads_ranges
        if not (replaces or place in deleting):
            continue
        try:
            with connection.transaction():
                delete(place)
        except psycopg.errors.ForeignKeyViolation:
            if replaces:
                raise
            late.append(place)  # rows that still reference it are about to reference another row
    merged = {}
    for place in order:
        rows = nights[place].rows
        if place not in places:
            merged[place] = LoadResult(0, 0, 0)
            continue
        stage = stages[place]
        merged[place] = (
            stage.insert(rows)
            if isinstance(stage, Ranges)
            else _merge(connection, stage, nights[place], run_for(stage, place))
        )
    for place in late:
        delete(place)
    table_list = ", ".join(name(night.plan.load.table) for night in nights)
    with connection.together(), connection.users_path():
        connection.execute(FIRE_DEFERRED)
        connection.execute(f"DROP TABLE {table_list}".encode())
    stored = storages(connection, [_merge_target(night) for night in nights])
    return [
        _merge_counts(
            connection, night, merged[place], deleted[place], stored[_merge_target(night)]
        )
        for place, night in enumerate(nights)
    ]


def _merge(connection: Connection, stage: PostgresStage, night: NightLoad, run: Run) -> LoadResult:
    """Merge a stage.

    If values of another unique key change places, updating rows one by one would collide, so such
    rows are deleted first.
    """
    plan, rows = night.plan, night.rows
    # See `penstock.backends.sql.loads.night.merge`.
    is_checked = night.spec.deletion.is_enabled or not (plan.selection or plan.has_given_partitions)
    merge = partial(stage.merge, rows, run, holds_equal_keys=is_checked, advice=OF_ANOTHER_ROW)
    if not stage.may_replace:
        return merge()
    try:
        with connection.transaction():
            return merge()
    except PermanentError as error:
        if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
            raise
        return stage.replace(rows, run)


def _merge_target(night: NightLoad) -> TableRef:
    """Return the table to merge into."""
    return replace(night.spec.target_ref, only=night.plan.load.table.only)


def _open_stages(
    connection: Connection, nights: Sequence[NightLoad], places: Collection[int]
) -> Mapping[int, PostgresStage | Ranges]:
    """Open the stages of some nights together, and return them by the nights' places."""
    stages: dict[int, PostgresStage | Ranges] = {}

    def open_one(place: int) -> PostgresStage | Ranges:
        if place not in stages:
            stages[place] = _open(connection, nights[place])
        return stages[place]

    if len(places) > 1:
        connection.share_round_trips([partial(open_one, place) for place in places])
    for place in places:
        open_one(place)
    return stages


def _open(connection: Connection, night: NightLoad) -> PostgresStage | Ranges:
    if not night.loads_ranges:
        return open_stage(connection, night.spec, night.plan)
    return Ranges(connection, night.spec, night.plan, _merge_target(night))


def _merge_counts(
    connection: Connection, night: NightLoad, loaded: LoadResult, deleted: int, stored: str
) -> MergeCounts:
    ref = _merge_target(night)
    inserted, updated = loaded.inserted or 0, loaded.updated or 0
    planned, count = night.plan.night, None
    if planned and planned.rows is not None:
        count = planned.rows + inserted - (0 if night.spec.deletion.column else deleted)
    elif planned:
        query = f"SELECT pg_catalog.count(*) FROM {rows_of(ref).as_string(connection)}"
        with connection.users_path():
            count = connection.value(query)
    return MergeCounts(inserted, updated, deleted, count, stored)


def _referenced_first(connection: Connection, tables: Sequence[TableRef]) -> list[int]:
    """Return the positions of the tables, referenced tables first.

    Cycles stay in their order, with checks deferred as far as the keys allow.
    """
    if len(tables) < 2:
        return list(range(len(tables)))
    connection.execute("SET CONSTRAINTS ALL DEFERRED")
    rows = connection.execute(statement("references"), {"tables": list(map(name, tables))})
    needs: dict[int, set[int]] = {place: set() for place in range(len(tables))}
    for child, parent in rows.fetchall():
        needs[child].add(parent)
    order: list[int] = []
    while needs:
        free = [place for place, on in needs.items() if not on.difference(order)]
        for place in free or [min(needs)]:
            order.append(place)
            del needs[place]
    return order


def drop_stages(connection: Connection, stages: Sequence[TableRef]) -> None:
    """Drop stages that no run will merge any more, except locked ones."""
    tables = [name(table) for stage in stages for table in (stage, deleted_keys_table(stage))]
    rows = connection.execute(
        "SELECT name FROM unnest(%s::text[]) AS u (name) WHERE to_regclass(name) IS NOT NULL",
        [tables],
    ).fetchall()
    for (table,) in rows:
        with suppress(psycopg.Error), connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {BRIEFLY_MS}")
            connection.execute(f"DROP TABLE IF EXISTS {table}".encode())


def open_stage(connection: Connection, spec: CopySpec, plan: PartitionPlan) -> PostgresStage:
    """Return the stage that the run's partitions are loaded into.

    Args:
        connection: a session on the target.
        spec: the run's specification.
        plan: the run's plan.
    """
    table = plan.load.table
    target, into = replace(spec.target_ref, only=table.only), replace(table, only=False)
    key = plan.load.conflict_columns
    return PostgresStage(connection, target, key, plan.pairs, into, mark=spec.deletion.column)


def _run(connection: Connection, queries: Sequence[sql.Composed]) -> list[int]:
    with connection.users_path():
        return [connection.execute(query).rowcount for query in queries]


def storages(connection: Connection, tables: Sequence[TableRef]) -> dict[TableRef, str]:
    """Return each table's identity; empty for one that does not exist."""
    parameters = {"tables": list(map(name, tables))}
    texts = dict(connection.execute(statement("storage"), parameters).fetchall()) if tables else {}
    return {table: texts.get(place) or "" for place, table in enumerate(tables, 1)}
