"""An attempt's transaction on a server: lock, commit record, rows."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import pymysql

from penstock.backends.api.execution.attempt import Attempt, BeginResult, LoadStream
from penstock.backends.api.execution.records import NOW
from penstock.backends.api.worker import LINES, Block, LoadResult, Wait
from penstock.backends.mysql.catalog.tables import (
    COLUMNS,
    columns_of,
    dialect_for_key,
    order_of,
    table_columns,
)
from penstock.backends.mysql.connection import Answer, Connection, connect, wait_for_locks
from penstock.backends.mysql.dialect import BY_BYTES, MYSQL
from penstock.backends.mysql.errors import code_of, translated
from penstock.backends.mysql.load.loaded_table import Statements, check_loaded, is_sound, look
from penstock.backends.mysql.load.loading import load_stream, read_settings
from penstock.backends.mysql.load.locks import holder
from penstock.backends.mysql.records import DUPLICATE, MySqlRecords
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.stream.lines import check_line_columns
from penstock.backends.mysql.types import MyType, is_text
from penstock.backends.shared.attempts.refusals import started_over
from penstock.backends.shared.attempts.transactional import TransactionalWriter
from penstock.backends.shared.values.arrow import Caster, schema_from_text
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.loads.loading import (
    STAGE,
    SqlLoading,
    final_fields,
    initial_record,
)
from penstock.backends.sql.loads.loading import (
    standing as standing_of,
)
from penstock.backends.sql.rows.conditions import condition
from penstock.errors import Diagnosis, TransientError
from penstock.model.extents import Key
from penstock.spec.modes import Entry
from penstock.spec.worker_spec import WorkerSpec

# During LOAD DATA LOCAL, in MySQL and in MariaDB.
WAITING_FOR_ROWS = ("Receiving from client", "Reading from net")


# How often within the grace time an older attempt is checked. If many sessions asked ten times a
# second, all would get the first one's answer: InnoDB refreshes it only after 0.1 s without a
# question. https://dev.mysql.com/doc/refman/8.4/en/innodb-information-schema-internal-data.html
LOOKS = 5


def open_writer(spec: WorkerSpec) -> TransactionalWriter:
    """Return a writer for a worker; it connects with its first attempt."""
    return TransactionalWriter(spec, MySqlTransaction(spec))


class StagedLoading(SqlLoading[int]):
    """Mode `upsert`: the rows of a temporary table of the session, and their number."""

    def insert_staged(self, stage: int, table: str) -> int:
        raise NotImplementedError  # they are loaded there

    @contextmanager
    def staged_table(self, stage: int) -> Iterator[tuple[str, int]]:
        yield STAGE, stage

    def merge(self, attempt: Attempt, stage: int) -> LoadResult:
        assert isinstance(self._session, MySqlSession)
        self._target = attempt.spec.target_table
        self._dialect = dialect_for_key(self._session, self._target, attempt.spec.conflict_columns)
        return super().merge(attempt, stage)

    def orders(self, key: Sequence[str]) -> Mapping[str, str]:
        assert isinstance(self._session, MySqlSession)
        columns = table_columns(self._session, self._target)
        texts = {column.name for column in columns if is_text(column.traits[TYPE])}
        return {
            name: order_of(self._session, self._table, Key(name)) if name in texts else ""
            for name in key
        }


class CastStream:
    """A stream of values in the types of the table's columns."""

    def __init__(self, stream: LoadStream, caster: Caster) -> None:
        self._write, self._caster = stream.write, caster
        self.fileno, self.check, self.end = stream.fileno, stream.check, stream.end

    def write(self, block: Block, wait: Wait) -> None:
        with translated("target"):
            self._write(self._caster.cast(block), wait)


class MySqlTransaction:
    """See `TransactionalHooks`."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._connection: Connection | None = None
        self._lock = ""
        self._columns: list[tuple[Any, ...]] = []
        self._last_look: tuple[int, float, object] | None = None

    def switch_run(self, spec: WorkerSpec) -> None:
        self._spec = spec

    def translated(self) -> AbstractContextManager[None]:
        return translated("target")

    @property
    def _open(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def connect(self, attempt: Attempt) -> None:
        if self._connection is not None:
            return
        spec = attempt.spec
        self._connection = connection = connect(spec.target, "target", loads=True)
        self._session = MySqlSession(connection, BY_BYTES)
        self._records = MySqlRecords(self._session, spec.control_schema, loading=True)
        self._types: dict[tuple[str, str], MyType] = {}
        seconds = round(spec.stall_timeout) or 1 << 24
        with translated("target"):
            wait_for_locks(connection, seconds)
            self._settings = read_settings(connection)

    def begin(self, attempt: Attempt) -> BeginResult:
        spec, table = attempt.spec, attempt.spec.target_table
        connection, records = self._open, self._records
        name = records.lock(attempt.lock)
        row = {**initial_record(attempt), "rows": 0, "bytes": 0, "committed_at": NOW}
        statements: Statements = [
            ("SELECT get_lock(%s, 0)", [name]),
            ("START TRANSACTION", ()),
            records.begin_record(row, spec.generation, name),
            *look(records, spec.run_id, table),
            COLUMNS.statement(MYSQL.placeholder, MySqlSession.catalog, [table]),
        ]
        answers: list[Answer] = []
        with translated("target"):
            self._look_by_condition(by_condition=spec.load_mode.entry is Entry.REPLACE)
            if spec.load_mode.entry is Entry.REPLACE:
                # Whose turn it is, is recorded outside the transaction.
                connection.together(statements[:1], answers)
                if answers[0].rows == [(1,)]:
                    self._take_turn(attempt)
                del statements[0]
            with records.permitted():
                standing = self._run(statements, answers)
        if answers[0].rows != [(1,)]:
            with translated("target"):
                connection.change("ROLLBACK")
                number = holder(connection, name)
                return BeginResult(
                    older_attempts={} if number is None else {number: self._signs(attempt, number)}
                )
        self._lock = name
        if not standing:
            state = standing_of(records, attempt)
            self._end("ROLLBACK")
            return BeginResult(standing=state)
        _, _, _, run_rows, table_rows, columns = answers
        if not is_sound(run_rows.rows, table_rows.rows):
            self._check_target(attempt)
        self._columns = [tuple(each) for _, _, *each in columns.rows]
        return BeginResult()

    def _look_by_condition(self, *, by_condition: bool) -> None:
        """Send each statement by itself if it contains a user's text."""
        self._open.accept_scripts(not by_condition)

    def _run(self, statements: Statements, answers: list[Answer]) -> bool:
        """Run statements; return whether the record was inserted."""
        try:
            self._open.together(statements, answers)
        except pymysql.IntegrityError as error:
            if code_of(error) != DUPLICATE:
                raise
            return False
        return answers[2].count == 1

    def _signs(self, attempt: Attempt, number: int) -> object:
        """Return what changes while a session loads; a recent answer is reused."""
        now = time.monotonic()
        if self._last_look is None or self._last_look[0] != number or now >= self._last_look[1]:
            self._last_look = number, now + attempt.spec.grace / LOOKS, self._looked_at(number)
        return self._last_look[2]

    def _looked_at(self, number: int) -> object:
        """Return the number of rows changed in a session's transaction.

        If the user may not see it (PROCESS), return whether the session runs anything except
        waiting for rows.
        """
        with suppress(pymysql.Error):
            return self._open.rows(
                "SELECT trx_rows_modified FROM information_schema.innodb_trx"
                " WHERE trx_mysql_thread_id = %s",
                [number],
            )
        return self._open.rows(
            "SELECT state, if(command = 'Sleep' OR state IN %s, 0, time)"
            " FROM information_schema.processlist WHERE id = %s",
            [WAITING_FOR_ROWS, number],
        )

    def end_older(self, attempt: Attempt, older: int) -> None:
        with translated("target"):
            self._open.end_session(older)

    def _end(self, statement: str) -> None:
        with translated("target"):
            self._open.together([(statement, ()), ("SELECT release_lock(%s)", [self._lock])], [])
        self._lock = ""

    def _check_target(self, attempt: Attempt) -> None:
        spec = attempt.spec
        check_loaded(self._records, spec.run_id, spec.target_table, spec.mode)

    def delete(self, attempt: Attempt, wait: Wait) -> None:
        self._check_turn(attempt)
        loaded = LoadedTable(self._records, attempt.spec.target_table)
        loaded.replace(attempt.spec.run_id, self._selected_by(attempt))

    # Attempts of one run replace rows at the same time; those of other runs wait until none of them
    # is open. A row that they share records whose turn it is.

    def _take_turn(self, attempt: Attempt) -> None:
        """Before the transaction, wait for open attempts of other runs."""
        run_id = attempt.spec.run_id
        if self._turn(attempt, "") != run_id:
            self._open.change(
                f"INSERT INTO {self._records.table_name('replaced_table')} VALUES (%s, %s)"
                " ON DUPLICATE KEY UPDATE run_id = %s",
                [LoadedTable(self._records, attempt.spec.target_table).id, run_id, run_id],
            )

    def _turn(self, attempt: Attempt, mode: str) -> str:
        table = LoadedTable(self._records, attempt.spec.target_table)
        rows = self._open.rows(
            f"SELECT run_id FROM {self._records.table_name('replaced_table')} WHERE id = %s {mode}",
            [table.id],
        )
        return str(rows[0][0]) if rows else ""

    def _check_turn(self, attempt: Attempt) -> None:
        """Check that it is still the run's turn.

        Raises:
            TransientError: another run has taken its turn since.
        """
        with translated("target"):
            run_id = self._turn(attempt, "LOCK IN SHARE MODE")
        if run_id != attempt.spec.run_id:
            raise TransientError(
                f"target: run {run_id} has begun to replace rows of "
                f"{attempt.spec.target_table}, so this attempt was rolled back; a retry waits for "
                "its turn",
                Diagnosis(side="target"),
            )

    def _selected_by(self, attempt: Attempt) -> str:
        return condition(BY_BYTES, attempt.spec.where, attempt.partition.extent)

    def open_stream(self, attempt: Attempt, wait: Wait) -> LoadStream:
        spec = attempt.spec
        table = self._session.table(spec.target_table)
        all_columns = columns_of(self._columns, self._types_of(attempt))
        by_name = {column.name: column for column in all_columns}
        columns = [by_name[pair.target] for pair in spec.pairs]
        listed = ", ".join(BY_BYTES.ident(column.name) for column in columns)
        if spec.load_mode.entry is Entry.BY_KEY:
            empty = f"SELECT {listed} FROM {table} LIMIT 0"
            with translated("target"):
                self._open.change(f"DROP TEMPORARY TABLE IF EXISTS {STAGE}")
                own = f"({key})" if (key := self._open.own_key()) else ""
                created = f"CREATE TEMPORARY TABLE {STAGE} {own} ENGINE = InnoDB"
                self._open.change(f"{created} AS {empty}")
            table, all_columns = STAGE, tuple(columns)
        lines, schema = spec.format == LINES, schema_from_text(spec.schema)
        if lines:
            check_line_columns(columns, schema, table)
        with translated("target"):
            stream = load_stream(
                self._open, table, columns, all_columns, self._settings, wait, lines=lines
            )
        return (
            stream
            if lines
            else CastStream(stream, Caster(schema, f"partition {attempt.partition.id}"))
        )

    def _types_of(self, attempt: Attempt) -> list[MyType]:
        """Return the types of the table's columns.

        Those of other tables' columns with the same text are known.
        """
        type_texts = [(str(type_), charset or "") for _, type_, *_, charset in self._columns]
        if not self._types.keys() >= set(type_texts):
            listed = ", ".join(BY_BYTES.ident(name) for name, *_ in self._columns)
            table = attempt.spec.target_table
            query = f"SELECT {listed} FROM {self._session.table(table)}"
            types = [type_ for _, type_ in self._session.describe(query, f"table {table}")]
            self._types.update(zip(type_texts, types, strict=True))
        return [self._types[each] for each in type_texts]

    def delete_other_rows(self, attempt: Attempt, rows: int, wait: Wait) -> int:
        table = LoadedTable(self._records, attempt.spec.target_table)
        return table.count(self._selected_by(attempt)) - rows

    def merge(self, attempt: Attempt, rows: int, wait: Wait) -> LoadResult:
        return StagedLoading(self._records, attempt).merge(attempt, rows)

    def commit(self, attempt: Attempt, result: LoadResult, bytes: int) -> bool:
        # From here on the run cannot be changed until the transaction ends. Not earlier: a process
        # that resumes a run must not wait for an attempt that was stopped.
        spec, records = attempt.spec, self._records
        record = {"run_id": spec.run_id, "partition_id": attempt.partition.id}
        answers: list[Answer] = []
        with translated("target"), records.permitted():
            self._open.together(
                [
                    *look(records, spec.run_id, spec.target_table, "LOCK IN SHARE MODE"),
                    records.complete_record(record, final_fields(result, bytes)),
                ],
                answers,
            )
        run_rows, table_rows, completed = answers
        generation = int(run_rows.rows[0][0]) if run_rows.rows else None
        if generation != spec.generation:
            raise started_over(attempt, generation)
        if not is_sound(run_rows.rows, table_rows.rows):
            self._check_target(attempt)
        if completed.count != 1:
            return False
        self._end("COMMIT")
        return True

    def abandon(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abandon()
