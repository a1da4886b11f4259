"""An attempt's transaction on a server: locks, commit record, rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from psycopg import sql
from psycopg.errors import InvalidTextRepresentation
from psycopg.types.json import Jsonb

from penstock.backends.api.execution.attempt import Attempt, BeginResult, LoadStream, Standing
from penstock.backends.api.worker import LoadResult, Wait
from penstock.backends.postgresql.attempt.older_sessions import (
    Guard,
    batch_name,
    batch_of,
    end_session,
)
from penstock.backends.postgresql.attempt.replacement import ReplacedRows
from penstock.backends.postgresql.connection import LOOK_LOCK, Connection, abandon, connect
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.load.copy_stream import CopyStream
from penstock.backends.postgresql.load.loaded_table import LoadedTable, question_about_runs
from penstock.backends.postgresql.session.cancellable import compute_all
from penstock.backends.postgresql.session.statements import for_server, quoted, statement
from penstock.backends.shared.attempts.joined import JoinedWriter
from penstock.backends.shared.attempts.refusals import load_lost
from penstock.model.codec import to_json
from penstock.model.extents import selects_all
from penstock.spec.modes import Entry
from penstock.spec.worker_spec import Patience, WorkerSpec

if TYPE_CHECKING:
    from penstock.backends.postgresql.attempt.child import AttachedChild, Parent
    from penstock.backends.postgresql.attempt.stage import PostgresStage


REFUSAL = "penstock: not committed: "
"""The beginning of a text that is no number, in the errors of statements that complete records."""
# How long a group waits for a lock; an attempt of its own waits as long as it takes.
GROUP_LOCK_SECONDS = 2


def postgres_writer(spec: WorkerSpec) -> JoinedWriter:
    """Return a writer for a worker; it connects with its first attempt."""
    return JoinedWriter(spec, PostgresTransaction(spec))


class PostgresTransaction:
    """See `JoiningHooks`."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._connection: Connection | None = None
        schema = sql.Identifier(spec.control_schema)
        self._begin_record = statement("begin_record").format(schema=schema)
        changed = statement("changed").format(schema=schema)
        self._complete_record = _refusing("complete_record", schema, changed)
        self.switch_run(spec)

    def switch_run(self, spec: WorkerSpec) -> None:
        self._table = str(spec.target_table)
        self._stage: PostgresStage | None = None
        self._parent: Parent | None = None
        self._child: AttachedChild
        self._stream = CopyStream(spec)

    @property
    def _open(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def translated(self) -> AbstractContextManager[None]:
        return translated("target", table=self._table)

    def connect(self, attempt: Attempt) -> None:
        if self._connection is None:
            url = attempt.spec.target
            self._connection = connect(url, "target", attempt.name, set_up=False, users_path=True)

    def begin(self, attempt: Attempt) -> BeginResult:
        """Begin the attempt.

        An older attempt is recognized by this partition's lock and by its session name.
        """
        connection, spec = self._open, attempt.spec
        lock = {"partition": attempt.lock}
        # The run's row may be held by a session that was stopped while restarting the run.
        connection.guard = Guard(
            spec.run_id,
            Patience(spec.grace, 0),
            lambda: connect(spec.target, "target", "penstock:watch", lock_seconds=LOOK_LOCK),
            find=lambda looker: looker.value(
                for_server(looker, "lock_holders"), {**lock, "prefix": ""}
            ),
        )
        with connection.together():
            connection.begin()
            with connection.in_own_path():
                locked = connection.execute(
                    statement("lock_partition"),
                    {
                        **lock,
                        "lock_timeout": f"{round(spec.stall_timeout * 1000)}ms",
                        "application_name": attempt.name,
                    },
                )
                inserted = connection.execute(
                    self._begin_record,
                    {
                        **lock,
                        "run_id": spec.run_id,
                        "generation": spec.generation,
                        "partition_id": attempt.partition.id,
                        "attempt": attempt.number,
                        "volatile": spec.volatile,
                        "series": spec.series,
                        "read_at": spec.read_at,
                    },
                )
                table = self._loaded_table(attempt)
                change = table.look()
        if inserted.rowcount:
            table.check_answer(change)
            return BeginResult()
        ((*_, is_locked),) = locked.fetchall()
        if is_locked:
            standing = self._standing(connection, attempt)
            connection.execute("ROLLBACK")
            return BeginResult(standing=standing)
        connection.execute("ROLLBACK")
        connection.guard = None
        if spec.leaves_taken:
            return BeginResult(older_attempts={})  # which session has it does not matter
        query = for_server(connection, "lock_holders")
        # An attempt's own name, or that of a group.
        parameters = {**lock, "prefix": "penstock:"}
        with connection.own_path():
            holders = connection.execute(query, parameters).fetchall()
        return BeginResult(older_attempts=dict(holders))

    def end_older(self, attempt: Attempt, older: int) -> None:
        end_session(self._open, older, f"attempt of partition {attempt.partition.id}")

    @staticmethod
    def _standing(connection: Connection, attempt: Attempt) -> Standing:
        spec = attempt.spec
        schema = sql.Identifier(spec.control_schema)
        with connection.own_path():
            run = connection.execute(
                statement("standing").format(schema=schema),
                {
                    "run_id": spec.run_id,
                    "partition_id": attempt.partition.id,
                    "series": spec.series,
                },
            ).fetchone()
        generation, marked, loader, at = run or (None, True, None, None)
        return Standing(
            generation,
            committed=True,
            loaded_by=(loader, at) if loader else None,
            # A commit record from before the crash says nothing about the table.
            loss=load_lost(spec.run_id) if spec.volatile and not marked else None,
        )

    def _loaded_table(self, attempt: Attempt) -> LoadedTable:
        return LoadedTable(self._open, attempt.spec.control_schema, attempt.spec.run_id)

    def delete(self, attempt: Attempt, wait: Wait) -> None:
        self._replaced = ReplacedRows(attempt.spec, attempt.partition)
        self._replaced.delete(self._open, wait)

    def open_stream(self, attempt: Attempt, wait: Wait) -> LoadStream:
        connection, spec = self._open, attempt.spec
        table: sql.Composable = quoted(spec.target_table)
        if spec.load_mode.entry is Entry.ATTACH:
            with wait.answering("target"):
                from penstock.backends.postgresql.attempt.child import (  # noqa: PLC0415 - seldom
                    AttachedChild,
                    Parent,
                )

                self._parent = self._parent or Parent(connection, spec)
                self._child = AttachedChild(connection, spec, attempt.partition, self._parent)
            self._stream.start(connection, self._child.identifier, wait, freeze=True)
            return self._stream
        if spec.load_mode.entry is Entry.BY_KEY:
            with wait.answering("target"):
                if self._stage is None:
                    from penstock.backends.postgresql.attempt.stage import PostgresStage  # noqa: PLC0415 - seldom

                    self._stage = PostgresStage(
                        connection, spec.target_table, spec.conflict_columns, spec.pairs
                    )
                self._stage.create(connection)
            table = self._stage.identifier
        self._stream.start(connection, table, wait)
        return self._stream

    def delete_other_rows(self, attempt: Attempt, rows: int, wait: Wait) -> int:
        return self._replaced.delete_other_rows(self._open, rows, wait)

    def merge(self, attempt: Attempt, rows: int, wait: Wait) -> LoadResult:
        if attempt.spec.load_mode.entry is Entry.ATTACH:
            return self._child.attach(rows, wait)
        assert self._stage is not None
        connection = self._open
        return self._stage.merge(
            rows,
            lambda queries: compute_all(connection, queries, "target", wait),
            holds_equal_keys=selects_all(attempt.partition.extent, attempt.spec.key_sources),
        )

    def commit(self, attempt: Attempt, result: LoadResult, bytes: int) -> bool:
        connection = self._open
        record = {
            "spent": Jsonb(to_json(result.spent)),
            "run_id": attempt.spec.run_id,
            "partition_id": attempt.partition.id,
            "rows": result.rows,
            "bytes": bytes,
            "inserted": result.inserted,
            "updated": result.updated,
        }
        try:
            # Deferred triggers are fired under the user's path.
            with connection.together(commit=True), connection.in_own_path():
                connection.execute(self._complete_record, record)
        except InvalidTextRepresentation as error:
            if REFUSAL not in str(error):
                raise
            connection.execute("ROLLBACK")
            self._loaded_table(attempt).check()
            return False
        return True

    # Groups

    def begin_all(self, attempts: Sequence[Attempt]) -> bool:
        connection, first = self._open, attempts[0].spec
        schema = sql.Identifier(first.control_schema)
        connection.guard = None
        names = [attempt.lock for attempt in attempts]
        with connection.together():
            connection.begin()
            with connection.in_own_path():
                locked = connection.execute(
                    statement("lock_partitions"),
                    {
                        "application_name": batch_name(batch_of(first.run_id)),
                        "lock_timeout": f"{GROUP_LOCK_SECONDS}s",
                        "partitions": names,
                    },
                )
                inserted = connection.execute(
                    statement("begin_records").format(schema=schema),
                    {
                        "runs": [each.spec.run_id for each in attempts],
                        "generations": [each.spec.generation for each in attempts],
                        "partitions": [each.partition.id for each in attempts],
                        "attempts": [each.number for each in attempts],
                        "series": [each.spec.series for each in attempts],
                        "read_at": [each.spec.read_at for each in attempts],
                        "names": names,
                    },
                )
                changed = connection.execute(
                    *question_about_runs(first.control_schema, [a.spec.run_id for a in attempts])
                )
        ((*_, is_locked),) = locked.fetchall()
        if is_locked and inserted.rowcount == len(attempts) and not changed.fetchall():
            return True
        connection.execute("ROLLBACK")
        return False

    def commit_all(
        self, attempts: Sequence[Attempt], results: Sequence[tuple[LoadResult, int]]
    ) -> bool:
        connection, schema = self._open, attempts[0].spec.control_schema
        text, parameters = question_about_runs(schema, [each.spec.run_id for each in attempts])
        records = {
            **parameters,
            "partitions": [each.partition.id for each in attempts],
            "rows": [result.rows for result, _ in results],
            "bytes": [size for _, size in results],
            "spent": [Jsonb(to_json(result.spent)) for result, _ in results],
        }
        complete = _refusing("complete_records", sql.Identifier(schema), text)
        try:
            with connection.together(commit=True), connection.in_own_path():
                connection.execute(complete, records)
        except InvalidTextRepresentation as error:
            if REFUSAL not in str(error):
                raise
            connection.execute("ROLLBACK")
            return False
        return True

    def abandon(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            abandon(connection)


def _refusing(query: str, schema: sql.Identifier, changed: sql.Composed) -> sql.Composed:
    """Return a statement that completes records, or fails if another one returns a row.

    Args:
        query: the name of the statement.
        schema: the control schema.
        changed: the other statement, whose parameters are among those of the first.
    """
    return statement(query).format(
        schema=schema, changed=sql.SQL("{}\n").format(changed), refusal=sql.Literal(REFUSAL)
    )
