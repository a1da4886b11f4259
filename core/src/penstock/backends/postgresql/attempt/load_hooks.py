"""The tables that runs load on PostgreSQL, whose files and rows show what changed them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import Kind, Row
from penstock.backends.postgresql.attempt.recopy import check_in_place, delete_rows
from penstock.backends.postgresql.compare.checksums import read_loaded, target_values
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl.steps import (
    GROUP_LOCK_MS,
    LINKED,
    SET_LOGGED,
    SWAP,
    URGENT_LOCK_MS,
    logged_by,
)
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.load.lasting_rows import see_again
from penstock.backends.postgresql.load.loaded_table import LoadedTable, changed_runs, note_tables
from penstock.backends.postgresql.load.sequences import ADVANCE
from penstock.backends.postgresql.new_tables.night import (
    NightLoad,
    drop_stages,
    merge_all,
    storages,
    take_deleted,
)
from penstock.backends.postgresql.records import PostgresRecords
from penstock.backends.postgresql.session.statements import name, quoted, statement
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.backends.shared.records.ledger import Ledger
from penstock.backends.shared.records.load_hooks import LoadHooks, MergeCounts, NightHooks
from penstock.backends.shared.records.step_records import done_by_another
from penstock.errors import Interrupted, PenstockError, PlanningError, TransientError
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import CopySpec, stored_target
from penstock.spec.modes import MODES, Entry, mode_names, mode_of


class PostgresLoadHooks(LoadHooks[PostgresRecords]):
    """See `LoadHooks`.

    Args:
        ledger: the target's records.
        connection: a session on the target.
        schema: the control schema.
    """

    exchanges_together = True

    def __init__(
        self, ledger: Ledger[PostgresRecords], connection: Connection, schema: str
    ) -> None:
        super().__init__(ledger)
        self._connection = connection
        self._schema = schema

    def _statement(self, name: str) -> sql.Composed:
        return statement(name).format(schema=sql.Identifier(self._schema))

    def is_intact(self, run_id: str) -> bool:
        run = self.ledger.runs.find(run_id)
        parameters = {"run_id": run_id, "set_logged": logged_by(run.plan.load) if run else []}
        with translated("target"):
            return bool(self._connection.value(self._statement("intact"), parameters))

    # The table that is loaded

    def _loaded_table(self, run_id: str) -> LoadedTable:
        return LoadedTable(self._connection, self._schema, run_id)

    def check_target(self, run_id: str) -> None:
        run = self.ledger.runs.find(run_id)
        assert run is not None
        loaded, table = self._loaded_table(run_id), self._table_of(run)
        with translated("target"):
            change = loaded.find_change()
            if any(step.id == SWAP for step in run.plan.load.after):
                if table == run.plan.load.table:
                    loaded.check_none_loaded()
            elif mode_of(run.spec).inserts_in_place:
                loaded.check_not_replaced()
        if change is None:
            return
        what, same_table, _ = change
        if not same_table or not self._holds_rows(run):
            raise loaded.change_error(what)
        with translated("target"):  # VACUUM FULL and the like move rows but lose none
            if mode_of(run.spec).entry is Entry.ATTACH:
                loaded.note_rewritten()
            else:
                loaded.note(table)

    def doubtful(self, run_ids: Sequence[str]) -> Collection[str]:
        in_place = mode_names(lambda mode: mode.inserts_in_place)
        replacing = mode_names(lambda mode: mode.replaces_table)
        with translated("target"):
            return changed_runs(self._connection, self._schema, run_ids, in_place, replacing)

    def see_again(self, runs: Sequence[Lasting]) -> Mapping[str, Seen]:
        return see_again(self._connection, self._schema, runs)

    def _table_of(self, run: RunRow) -> TableRef:
        """Return the table that has the rows which the run has committed."""
        swaps = any(step.id == SWAP for step in run.plan.load.after)
        if swaps and SWAP in self.ledger.steps_done([run.run_id])[run.run_id]:
            return stored_target(run.spec)
        return run.plan.load.table

    def _holds_rows(self, run: RunRow) -> bool:
        """Whether the table holds all rows that the run has committed.

        If the run emptied the table and has committed nothing yet, the table must be empty. False
        if it cannot be determined.
        """
        table, records = self._table_of(run), self.ledger.commits.of([run.run_id])[run.run_id]
        if not any(record.rows for record in records):
            mode = mode_of(run.spec)
            if mode.empties_before and self._loaded_table(run.run_id).last_emptying_run():
                return False  # that run has loaded nothing either, and continues from here
            return not mode.starts_empty or self._is_empty(table)
        try:
            counts = read_loaded(
                self._connection,
                table,
                None,
                records,
                target_values((), tuple),
                digest_others=False,
            )
        except PlanningError:  # the user may write them, but not read them
            return False
        return counts is not None and all(
            record.inserted is None and counts[record.partition_id].rows == record.rows
            for record in records
        )

    def _is_empty(self, table: TableRef) -> bool:
        try:
            query = sql.SQL("SELECT FROM {} LIMIT 1").format(quoted(table))
            with self._connection.users_path():
                return self._connection.execute(query).rowcount == 0
        except psycopg.errors.InsufficientPrivilege:
            return False

    def prepare_at_once(self, loads: Mapping[str, LoadPlan]) -> frozenset[str]:
        if len(loads) == 1:
            ((run_id, load),) = loads.items()
            if not load.before and not load.volatile and self._prepare_at_once(run_id, load):
                return frozenset(loads)
        return frozenset()

    def _prepare_at_once(self, run_id: str, load: LoadPlan) -> bool:
        """Prepare a run in one round trip if the table needs no change; else return False.

        False also if the run is already prepared.
        """
        try:
            with self.store.changing([run_id]):
                # Its mode determines whether it loads existing children.
                tables = [(run_id, load.table, None)]
                noted = note_tables(self._connection, self._schema, tables, prepared=True)
        except Interrupted:
            raise
        except PenstockError:
            return False  # the step-by-step path reports what is wrong
        return noted.rowcount == 1

    # Steps

    def drop_stages(self, stages: Sequence[TableRef]) -> None:
        with translated("target"):
            drop_stages(self._connection, stages)

    def check_emptying(self, run: RunRow) -> None:
        if run.plan.load.before and not run.plan.load.volatile:
            self._loaded_table(run.run_id).check_loaded_since(run.plan.load.table)

    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        if load.volatile:
            self._connection.execute(self._statement("mark_volatile"), [run.run_id])
        # Mode attach adds children, and records each.
        children = mode_of(run.spec).entry is not Entry.ATTACH
        self._loaded_table(run.run_id).note(load.table, children=children)
        return {}

    def check_rows(self, run: RunRow) -> None:
        self._loaded_table(run.run_id).check()

    def do(self, run: RunRow, step: Step) -> None:
        if step.after:
            if step.urgent:
                self._connection.execute(f"SET LOCAL lock_timeout = {URGENT_LOCK_MS}")
            if step.kind == LINKED:  # two that lock the other's table would wait for each other
                self._connection.execute(self._statement("lock_making"))
            self._loaded_table(run.run_id).check()
            if step.id == SWAP:
                target = stored_target(run.spec)
                self._loaded_table(run.run_id).check_loaded_since(target)
            elif (
                step.done
                and self.is_done(run, step)
                and (step.left_by or done_by_another(self.ledger, run))
            ):
                return
        elif step.done:
            # Runs create tables one at a time: a run that waited finds what the previous one
            # created.
            self._connection.execute(self._statement("lock_making"))
            if self.is_done(run, step):
                return
        self._connection.execute(step.statement.encode(), _parameters(step))

    def do_all(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        """Do steps in one statement, except those that must be checked one by one."""
        texts: list[bytes] = []
        last = [step for _, step in steps if step.after]
        if last:
            self.check_all(list(dict.fromkeys(run.run_id for run, step in steps if step.after)))
            if any(step.urgent for step in last):
                self._connection.execute(f"SET LOCAL lock_timeout = {GROUP_LOCK_MS}")
            if any(step.kind == LINKED for step in last):
                self._connection.execute(self._statement("lock_making"))
            self._check_exchanges([run for run, step in steps if step.id == SWAP])
            undone = [step.done for step in last if step.done]
            if undone and any(self._connection.first(_all_of(undone))):
                raise TransientError("target: some steps are done but not recorded")
        composer = psycopg.ClientCursor(self._connection)
        for _, step in steps:
            values = _parameters(step)
            statement = step.statement
            texts.append(
                (composer.mogrify(statement.encode(), values) if values else statement).encode()
            )
        if texts:
            self._connection.execute(b";\n".join(texts))
        if last:
            # Everything done so far holds its locks by now. Exchanged tables have other names.
            exchanged = {run.run_id for run, step in steps if step.id == SWAP}
            run_ids = dict.fromkeys(run.run_id for run, step in steps if step.after)
            self.check_all([run_id for run_id in run_ids if run_id not in exchanged])

    def _check_exchanges(self, runs: Sequence[RunRow]) -> None:
        """Lock the tables that runs are about to replace, and look for rows of other runs in them.

        Raises:
            TargetChanged: see `LoadedTable.check_none_loaded`.
        """
        if not runs:
            return
        quoted = [name(stored_target(run.spec)) for run in runs]
        existing = self._connection.value(
            "SELECT pg_catalog.array_agg(t) FROM pg_catalog.unnest(%s::text[]) AS t"
            " WHERE pg_catalog.to_regclass(t) IS NOT NULL",
            [quoted],
        )
        if existing:
            listed = ", ".join(f"ONLY {each}" for each in existing)
            self._connection.execute(f"LOCK TABLE {listed} IN ACCESS EXCLUSIVE MODE".encode())
        run_ids = [run.run_id for run in runs]
        changed = changed_runs(self._connection, self._schema, run_ids, replacing=tuple(MODES))
        for run_id in sorted(changed):
            table = self._loaded_table(run_id)
            table.check()
            table.check_none_loaded()

    def check_all(self, run_ids: Sequence[str]) -> None:
        """Check the tables of runs.

        Raises:
            TargetChanged: a table is no longer its run's.
        """
        for run_id in changed_runs(self._connection, self._schema, run_ids):
            self._loaded_table(run_id).check()

    def note_prepared(self, prepared: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        if len(prepared) < 2:
            super().note_prepared(prepared)
            return
        volatile = [run.run_id for run, load in prepared if load.volatile]
        for run_id in volatile:
            self._connection.execute(self._statement("mark_volatile"), [run_id])
        # Mode attach adds children, and records each.
        tables = [
            (run.run_id, load.table, mode_of(run.spec).entry is not Entry.ATTACH)
            for run, load in prepared
        ]
        note_tables(self._connection, self._schema, tables, prepared=True)

    def is_done(self, run: RunRow, step: Step) -> bool:
        with translated("target"):
            if step.id == SWAP:
                ref = stored_target(run.spec)
                return self._loaded_table(run.run_id).has_replaced(ref)
            return bool(step.done and self._connection.value(step.done))

    def after_step(self, run: RunRow, step: Step) -> None:
        if step.id == SWAP:  # from here on the loaded table has the old table's name
            self._loaded_table(run.run_id).note(stored_target(run.spec))
        elif step.kind == SET_LOGGED:
            self._loaded_table(run.run_id).note_rewritten()

    def after_steps(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        exchanged = [
            (run.run_id, stored_target(run.spec), True) for run, step in steps if step.id == SWAP
        ]
        if exchanged:
            note_tables(self._connection, self._schema, exchanged)
        super().after_steps([each for each in steps if each[1].id != SWAP])

    # Partitions that are copied again

    def check_recopy(self, run_id: str) -> None:
        run = self.ledger.runs.find(run_id)
        assert run is not None
        check_in_place(run, self.ledger.steps_done([run_id])[run_id])

    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        if rows_of is not None:
            delete_rows(self._connection, rows_of, records)
        # Rows read later may have newer values.
        advances = tuple(step.id for step in run.plan.load.after if step.kind == ADVANCE)
        self.store.delete(Kind.STEP, {"run_id": run.run_id, "step_id": advances})


class PostgresNightHooks(NightHooks):
    """See `NightHooks`."""

    merges_together = True

    def __init__(self, loads: PostgresLoadHooks, connection: Connection) -> None:
        self._loads = loads
        self._connection = connection

    def take_deleted(self, run: RunRow) -> int:
        return take_deleted(self._connection, run.plan.load.table)

    def storages(self, tables: Sequence[TableRef]) -> Mapping[TableRef, str]:
        with translated("target"):
            return storages(self._connection, tables)

    def merge(self, nights: Sequence[tuple[RunRow, Sequence[CommitRecord]]]) -> list[MergeCounts]:
        run_ids = [run.run_id for run, _ in nights]
        self._loads.check_all(run_ids)
        merged = merge_all(
            self._connection,
            [
                NightLoad(
                    CopySpec.from_stored(run.spec, "", ""),
                    run.plan,
                    sum(record.rows for record in records),
                )
                for run, records in nights
            ],
        )
        # From here on the tables no longer exist.
        self._loads.store.change(Kind.RUN, {"run_id": tuple(run_ids)}, {"target_state": None})
        return merged


def _all_of(queries: Sequence[str]) -> bytes:
    """Combine queries into one, which returns each answer as a column."""
    return f"SELECT {', '.join(f'({query})' for query in queries)}".encode()


def _parameters(step: Step) -> dict[str, Any] | None:
    if not step.sequence_of:
        return None
    position = step.position
    return {"last": position and position.last, "called": position and position.called}
