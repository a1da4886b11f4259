"""The control tables: runs, and the commit records that say what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from penstock.backends.api.control import Outlook, RunningAttempt, RunRow, reading_run
from penstock.backends.postgresql.attempt.older_sessions import (
    Guard,
    control_name,
    progress_of_copy,
)
from penstock.backends.postgresql.attempt.presence import enter
from penstock.backends.postgresql.attempt.recopy import check_in_place, forget
from penstock.backends.postgresql.attempt.target_identity import (
    check_loaded_since,
    check_not_replaced,
    check_target,
    find_change,
    note_rewritten,
    note_target,
    set_target,
    target_changed,
)
from penstock.backends.postgresql.compare.checksums import read_loaded, target_values
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import load_lost, planning, translated
from penstock.backends.postgresql.load.indexes import SET_LOGGED
from penstock.backends.postgresql.load.swap import SWAP
from penstock.backends.postgresql.statements import quoted, statement
from penstock.errors import Diagnosis, PermanentError, PlanningError, Superseded, TransientError
from penstock.model.codec import from_json, to_json
from penstock.model.plans import LoadPlan, PartitionPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES
from penstock.spec.worker_spec import Patience

# Any number that nobody else is likely to use: two runs may create the tables at once.
CREATE_LOCK = 0x50454E53
# A swap that cannot have its lock within this lets readers and writers go on, and tries again.
URGENT_LOCK_MS = 2000


def ddl(control_schema: str) -> str:
    return statement("control").format(schema=sql.Identifier(control_schema)).as_string(None)


class ControlTables:
    """
    Parameters:
        connect: opens another session, to look at what the first one waits for.
    """

    def __init__(
        self, connection: Connection, schema: str, connect: Callable[[], Connection]
    ) -> None:
        self.patience = Patience()
        self._connect = connect
        self._connection = connection
        self._schema = schema
        self._run = sql.Identifier(schema, "run")
        self._commit_record = sql.Identifier(schema, "commit_record")
        self._step_record = sql.Identifier(schema, "step_record")
        self._recopy_record = sql.Identifier(schema, "recopy_record")
        self._volatile_run = sql.Identifier(schema, "volatile_run")
        self._tables = (
            self._run,
            self._commit_record,
            self._step_record,
            self._recopy_record,
            self._volatile_run,
        )

    def _statement(self, name: str) -> sql.Composed:
        return statement(name).format(schema=sql.Identifier(self._schema))

    def _attend(self, run_id: str) -> None:
        """Be known as a session of this run, and end older ones that are in the way."""
        guard = self._connection.guard
        if guard is None or guard.run_id != run_id:
            self._connection.rename(control_name(run_id))
        self._connection.guard = Guard(run_id, self.patience, self._connect)

    @contextmanager
    def _changing(self, run_id: str) -> Iterator[None]:
        with translated("target"):
            self._attend(run_id)
            with self._connection.transaction():
                yield

    def _missing(self) -> list[str]:
        """Those of the control tables that are not there."""
        found = self._connection.execute(
            "SELECT name FROM unnest(%s::text[]) AS u (name) WHERE to_regclass(name) IS NULL",
            [[table.as_string(self._connection) for table in self._tables]],
        ).fetchall()
        return [name for (name,) in found]

    def _exist(self) -> bool:
        return not self._missing()

    def create(self) -> None:
        # Looked for first: CREATE ... IF NOT EXISTS asks for the privilege even if they do.
        with planning("target", f"control schema {self._schema!r}"):
            if self._exist():
                return
            self._connection.guard = Guard("", self.patience, self._connect)
            try:
                with self._connection.transaction():
                    self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [CREATE_LOCK])
                    self._connection.execute(self._statement("control"))
            except Exception as error:
                if getattr(error, "sqlstate", None) != "42501":
                    raise
                raise PlanningError(
                    f"target: user {self._connection.info.user!r} may not create the control "
                    f"tables in schema {self._schema!r}; expected that privilege, or tables that "
                    "an administrator created with the output of `penstock control-ddl"
                    f" --control-schema {self._schema}`, or another --control-schema",
                ) from error

    def create_run(
        self,
        run_id: str,
        spec: Mapping[str, Any],
        plan: PartitionPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> bool:
        with translated("target"):
            created = self._connection.execute(
                self._statement("create_run"),
                {
                    "run_id": run_id,
                    "spec": Jsonb(dict(spec)),
                    "plan": Jsonb(to_json(plan)),
                    "fingerprint": plan.fingerprint,
                    "source_state": Jsonb(to_json(state)),
                    "snapshots": Jsonb([to_json(snapshot)] if snapshot else []),
                },
            )
            return created.rowcount == 1

    def load_run(self, run_id: str) -> RunRow | None:
        with translated("target"):
            self._attend(run_id)
            missing = self._missing()
            if len(missing) == len(self._tables):
                return None
            if missing:
                raise PermanentError(
                    f"target: control schema {self._schema!r} lacks {', '.join(missing)}, without "
                    "which no run can be read or go on; restore what was there, or choose another "
                    "--control-schema for new runs",
                    Diagnosis(side="target"),
                )
            row = self._connection.execute(self._statement("load_run"), [run_id]).fetchone()
        if row is None:
            return None
        with reading_run(run_id):
            return RunRow(
                run_id=row[0],
                generation=row[1],
                spec=dict(row[2]),
                plan=from_json(PartitionPlan, row[3]),
                source_state=from_json(SourceState, row[4]),
                snapshots=from_json(tuple[Snapshot, ...], row[5]),
                status=row[6],
                created_at=row[7],
                prepared_at=row[8],
                finished_at=row[9],
                failures=tuple(dict(failure) for failure in row[10]),
                released_at=row[11],
            )

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        with translated("target"):
            self._attend(run_id)
            enter(self._connection, self._schema, run_id, table, check)

    def prepare(self, run_id: str, load: LoadPlan) -> bool:
        with translated("target"):
            self._attend(run_id)
            query = sql.SQL("SELECT prepared_at FROM {} WHERE run_id = %s").format(self._run)
            # Looked at without a lock first: the attempts that are open hold one.
            found = self._connection.execute(query, [run_id]).fetchone()
            if found is None or found[0] is not None:
                return False
            with self._connection.transaction():
                # The row lock makes a second call wait for the first, and then find it done.
                locked = sql.SQL("{} FOR UPDATE").format(query)
                found = self._connection.execute(locked, [run_id]).fetchone()
                if found is None or found[0] is not None:
                    return False
                self._prepare(run_id, load)
        return True

    def _prepare(self, run_id: str, load: LoadPlan) -> None:
        for step in load.before:
            self._connection.execute(step.statement.encode())
        if load.volatile:
            self._connection.execute(self._statement("mark_volatile"), [run_id])
        note_target(self._connection, self._schema, run_id, load.table)
        self._connection.execute(
            sql.SQL(
                "UPDATE {} SET prepared_at = clock_timestamp(), status = 'running'"
                " WHERE run_id = %s"
            ).format(self._run),
            [run_id],
        )

    def check_target(self, run_id: str) -> None:
        run = self.load_run(run_id)
        assert run is not None
        with translated("target"):
            found = find_change(self._connection, self._schema, run_id)
            if MODES[run.spec["mode"]].inserts_in_place:
                check_not_replaced(self._connection, self._schema, run_id)
        if found is None:
            return
        what, same_table = found
        if not same_table or not self._holds_rows(run):
            raise target_changed(self._connection, self._schema, run_id, what)
        with translated("target"):  # VACUUM FULL and its like move rows, and lose none
            note_target(self._connection, self._schema, run_id, run.plan.load.table)

    def _holds_rows(self, run: RunRow) -> bool:
        """Whether all rows that the run has committed are there, and no others where it has emptied
        the table and committed none yet; False where nobody can tell."""
        table, records = run.plan.load.table, self.committed(run.run_id)
        if not any(record.rows for record in records):
            return not MODES[run.spec["mode"]].starts_empty or self._is_empty(table)
        try:
            counts = read_loaded(
                self._connection, table, None, records, target_values((), tuple), others=False
            )
        except PlanningError:  # they may be written, but not read
            return False
        return counts is not None and all(
            record.inserted is None and counts[record.partition_id].rows == record.rows
            for record in records
        )

    def _is_empty(self, table: TableRef) -> bool:
        try:
            query = sql.SQL("SELECT FROM {} LIMIT 1").format(quoted(table))
            return self._connection.execute(query).rowcount == 0
        except psycopg.errors.InsufficientPrivilege:
            return False

    def finish(self, run_id: str, step: Step) -> bool:
        with self._changing(run_id):
            # Before the record: that of a table set logged would vouch for itself.
            self._check_finishing(run_id)
            # A second call waits for the first one's record, and then finds it.
            recorded = self._connection.execute(
                self._statement("record_step"), {"run_id": run_id, "step_id": step.id}
            ).rowcount
            if not recorded:
                return False
            if step.urgent:
                self._connection.execute(f"SET LOCAL lock_timeout = {URGENT_LOCK_MS}")
            check_target(self._connection, self._schema, run_id)
            if step.id == SWAP:
                check_loaded_since(self._connection, self._schema, run_id)
            self._connection.execute(step.statement.encode(), _parameters(step))
            if step.id == SWAP:  # what was loaded has the name of the old table from here on
                set_target(self._connection, self._schema, run_id, None)
            elif step.id.startswith(SET_LOGGED):
                note_rewritten(self._connection, self._schema, run_id)
        return True

    def _check_finishing(self, run_id: str) -> None:
        """Nobody starts the run over until this transaction ends, and nobody has.

        Raises:
            LoadLost: a crash has emptied the table. TransientError: the run was started over.
        """
        locked = sql.SQL("SELECT FROM {} WHERE run_id = %s FOR KEY SHARE").format(self._run)
        self._connection.execute(locked, [run_id])
        # A statement of its own: it sees what was committed while the lock was waited for.
        found = self._connection.execute(self._statement("may_finish"), [run_id]).fetchone()
        if found is None or not found[0]:
            raise TransientError(
                f"target: another process has started run {run_id} over: some partitions are not "
                "committed any more",
                Diagnosis(side="target"),
            )
        if found[1] and not self.intact(run_id):
            raise load_lost(run_id)

    def steps_done(self, run_id: str) -> frozenset[str]:
        with translated("target"):
            rows = self._connection.execute(
                sql.SQL("SELECT step_id FROM {} WHERE run_id = %s").format(self._step_record),
                [run_id],
            ).fetchall()
        return frozenset(step_id for (step_id,) in rows)

    def intact(self, run_id: str) -> bool:
        with translated("target"):
            found = self._connection.execute(
                self._statement("intact"), {"run_id": run_id, "set_logged": SET_LOGGED}
            ).fetchone()
        return bool(found and found[0])

    def start_over(
        self,
        run_id: str,
        generation: int,
        load: LoadPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> int:
        with self._changing(run_id):
            self._shut_out_attempts(run_id)
            query = sql.SQL("SELECT generation FROM {} WHERE run_id = %s").format(self._run)
            if self._connection.execute(query, [run_id]).fetchone() != (generation,):
                raise _superseded(run_id)
            # From here on no attempt of an older generation is open, and none can begin.
            if load.before and not load.volatile:
                check_loaded_since(self._connection, self._schema, run_id)
            self._prepare(run_id, load)
            for records in (self._commit_record, self._step_record):
                self._connection.execute(
                    sql.SQL("DELETE FROM {} WHERE run_id = %s").format(records), [run_id]
                )
            self._connection.execute(
                sql.SQL(
                    "UPDATE {} SET source_state = %s, snapshots = %s, generation = %s"
                    " WHERE run_id = %s"
                ).format(self._run),
                [
                    Jsonb(to_json(state)),
                    Jsonb([to_json(snapshot)] if snapshot else []),
                    generation + 1,
                    run_id,
                ],
            )
        return generation + 1

    def _shut_out_attempts(self, run_id: str) -> None:
        """Lock the run's row against its attempts; what they do is void, so they are ended."""

        def end_attempts(session: Connection) -> None:
            records = self._commit_record.as_string(session)
            for (pid,) in session.execute(
                statement("open_attempts"),
                {"records": records, "prefix": f"penstock:{run_id}:"},
            ).fetchall():
                session.execute("SELECT pg_catalog.pg_terminate_backend(%s)", [pid])

        self._connection.guard = Guard(run_id, self.patience, self._connect, end_attempts)
        query = sql.SQL("SELECT FROM {} WHERE run_id = %s FOR UPDATE").format(self._run)
        self._connection.execute(query, [run_id])
        self._attend(run_id)

    def set_view(
        self,
        run_id: str,
        generation: int,
        before: Sequence[Snapshot],
        state: SourceState,
        snapshots: Sequence[Snapshot],
        *,
        nothing_committed: bool,
    ) -> int:
        following = generation + nothing_committed
        with self._changing(run_id):
            if nothing_committed:
                self._shut_out_attempts(run_id)
                self._check_nothing_committed(run_id)
            changed = self._connection.execute(
                sql.SQL(
                    "UPDATE {} SET source_state = %s, snapshots = %s, generation = %s"
                    " WHERE run_id = %s AND generation = %s AND snapshots = %s"
                ).format(self._run),
                [
                    Jsonb(to_json(state)),
                    Jsonb(to_json(snapshots)),
                    following,
                    run_id,
                    generation,
                    Jsonb(to_json(before)),
                ],
            ).rowcount
            if changed != 1:
                raise _superseded(run_id)
        return following

    def _check_nothing_committed(self, run_id: str) -> None:
        """
        Raises:
            Superseded: something is, and no crash has taken it since.
        """
        query = sql.SQL(
            "SELECT (plan -> 'load' ->> 'volatile')::boolean FROM {} AS r WHERE run_id = %s"
            " AND EXISTS (SELECT FROM {} AS c WHERE c.run_id = r.run_id)"
        ).format(self._run, self._commit_record)
        found = self._connection.execute(query, [run_id]).fetchone()
        if found is not None and (not found[0] or self.intact(run_id)):
            raise _superseded(run_id)

    def release(self, run_id: str) -> bool:
        with translated("target"):
            self._attend(run_id)
            if not self._exist():
                return False
            query = (
                "UPDATE {} SET snapshot_released_at = coalesce(snapshot_released_at,"
                " clock_timestamp()) WHERE run_id = %s"
            )
            return self._connection.execute(sql.SQL(query).format(self._run), [run_id]).rowcount > 0

    def take_up(self, run_id: str) -> bool:
        with translated("target"):
            self._attend(run_id)
            if not self._exist():
                return False
            query = "UPDATE {} SET snapshot_released_at = NULL WHERE run_id = %s"
            return self._connection.execute(sql.SQL(query).format(self._run), [run_id]).rowcount > 0

    def outlook(self, run_id: str) -> Outlook | None:
        with translated("target"):
            row = self._connection.execute(self._statement("outlook"), [run_id]).fetchone()
        if row is None:
            return None
        status, generation, snapshot, pending, released = row
        newest = from_json(Snapshot, snapshot) if snapshot else None
        return Outlook(status, generation, newest, pending, released)

    def recopied(self, run_id: str, request: str) -> frozenset[str]:
        with translated("target"):
            rows = self._connection.execute(
                sql.SQL("SELECT partition_id FROM {} WHERE run_id = %s AND request = %s").format(
                    self._recopy_record
                ),
                [run_id, request],
            ).fetchall()
        return frozenset(partition_id for (partition_id,) in rows)

    def check_recopy(self, run_id: str) -> None:
        with translated("target"):
            check_in_place(self._connection, self._step_record, run_id)

    def forget(
        self,
        run_id: str,
        partition_ids: Sequence[str],
        request: str,
        *,
        rows_of: TableRef | None,
        patience: float,
    ) -> frozenset[str]:
        with self._changing(run_id):
            return forget(
                self._connection,
                self._schema,
                run_id,
                sorted(set(partition_ids)),
                request,
                rows_of=rows_of,
                patience=patience,
            )

    def set_status(self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]) -> None:
        ended = status not in ("running", "created")
        with translated("target"):
            self._attend(run_id)
            self._connection.execute(
                sql.SQL(
                    "UPDATE {} SET status = %s, failures = %s,"
                    " finished_at = CASE WHEN %s THEN clock_timestamp() END,"
                    " snapshot_released_at = CASE WHEN %s THEN"
                    " coalesce(snapshot_released_at, clock_timestamp())"
                    " ELSE snapshot_released_at END WHERE run_id = %s"
                ).format(self._run),
                [
                    status,
                    Jsonb([dict(failure) for failure in failures]),
                    ended,
                    status == "done",
                    run_id,
                ],
            )

    def committed(self, run_id: str) -> tuple[CommitRecord, ...]:
        with translated("target"):
            self._attend(run_id)
            rows = self._connection.execute(self._statement("committed"), [run_id]).fetchall()
        return tuple(_record(row) for row in rows)

    def loaded(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        with translated("target"):
            if not self._exist():
                return {}
            rows = self._connection.execute(self._statement("loaded"), [series]).fetchall()
        return {row[1]: (row[0], _record(row[1:])) for row in rows}

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        progress = progress_of_copy(self._connection.info.server_version)
        with translated("target"):
            rows = self._connection.execute(
                statement("running").format(progress=progress),
                {"prefix": f"penstock:{run_id}:"},
            ).fetchall()
        attempts = []
        for name, state, since, size in rows:
            partition_id, attempt = name.rsplit(":", 2)[1:]
            attempts.append(RunningAttempt(partition_id, int(attempt), state, since, size))
        return tuple(attempts)


def _record(row: tuple[Any, ...]) -> CommitRecord:
    return replace(CommitRecord(*row[:-1]), read_at=row[-1])


def _parameters(step: Step) -> dict[str, Any] | None:
    if not step.sequence_of:
        return None
    found = step.position
    return {"last": found and found.last, "called": found and found.called}


def _superseded(run_id: str) -> Superseded:
    return Superseded(
        f"target: another process has replaced the snapshot of run {run_id}, or started the "
        "run over, "
        "at this moment",
        Diagnosis(side="target"),
    )
