"""The control tables: the sessions, transactions and locks of their records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, TypeVar

import pymysql

from penstock.backends.api.execution.records import Hold, Kind, Row
from penstock.backends.mysql.connection import Connection, wait_for_locks
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.errors import code_of, translated
from penstock.backends.mysql.load.locks import locked, release_all, try_all, try_lock
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.server.records import CONTROL, ControlScripts, ServerRecords
from penstock.errors import Diagnosis, TransientError

T = TypeVar("T")
DUPLICATE = 1062
# The table that is created first.
FIRST = Kind.RUN.value
# How long a transaction of many runs waits for a lock.
JOINED_SECONDS = 2
# Per statement: rows, and characters of their values.
MOST_ROWS, MOST_CHARACTERS = 500, 1 << 20
_JOURNAL = ("run_id", "execution_id", "content")
_DENIED = {1044, 1045, 1142, 1227}


SCRIPTS = ControlScripts(__package__, MYSQL)
ddl = SCRIPTS.control


class MySqlRecords(ServerRecords):
    """See `ServerRecords`."""

    steps_with_records = False
    scheme = "mysql"
    scripts = SCRIPTS
    schema_word = "database"
    listing = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s"
    extra_columns = ("replaced_table",)
    keeps_nights = True

    def __init__(self, session: MySqlSession, schema: str, *, loading: bool = False) -> None:
        super().__init__(session, schema, loading=loading)
        self._session = session
        self.now = "concat(utc_timestamp(6), '+00:00')"
        self.text = "CHAR"

    @property
    def session(self) -> MySqlSession:
        return self._session

    @property
    def connection(self) -> Connection:
        return self._session.connection

    # Locks

    def holding(self, name: str, subject: str) -> AbstractContextManager[None]:
        return locked(self.connection, name, self.patience, subject)

    @translated("target", CONTROL)
    def keep(self, name: str) -> bool:
        return try_lock(self.connection, name)

    @translated("target", CONTROL)
    def release_all(self, names: Sequence[str]) -> None:
        release_all(self.connection, names)

    @translated("target", CONTROL)
    def is_held(self, names: Sequence[str]) -> bool:
        calls = ", ".join(["is_used_lock(%s)"] * len(names))
        ((number,),) = self.connection.rows(f"SELECT coalesce({calls})", names)
        return number is not None

    # The tables, each created by itself

    @contextmanager
    def making(self) -> Iterator[None]:
        with translated("target", CONTROL), self.holding(self.lock("penstock:control"), CONTROL):
            yield

    @translated("target", CONTROL)
    def is_half_created(self, missing: Collection[str]) -> bool:
        if not missing or FIRST in missing:
            return False
        return not self.connection.rows(f"SELECT 1 FROM {self.table_name(FIRST)} LIMIT 1")

    @translated("target", CONTROL)
    def ddl(self) -> str:
        database, *statements = super().ddl().split(";\n")
        ((exists,),) = self.connection.rows(
            "SELECT count(*) FROM information_schema.schemata WHERE schema_name = %s",
            [self._schema],
        )
        # Even with IF NOT EXISTS, MySQL waits for every session that reads from the database, this
        # run's snapshot among them.
        first = [] if exists else [database]
        return ";\n".join([*first, *statements])

    @contextmanager
    def limited_lock_waits(self) -> Iterator[None]:
        wait_for_locks(self.connection, 1)
        yield  # each transaction sets its own timeouts

    grants = "GRANT SELECT, INSERT, UPDATE, DELETE ON {}.* TO the user"

    def denial_message(self, error: Exception) -> str:
        is_denial = isinstance(error, pymysql.Error) and code_of(error) in _DENIED
        return str(error.args[1]) if is_denial else ""

    def add(self, kind: Kind, rows: Sequence[Row]) -> int:
        return sum(self._add(kind, batch) for batch in _portions(rows))

    def _add(self, kind: Kind, rows: Sequence[Row]) -> int:
        added = super().add(kind, rows)
        if added or len(rows) == 1:
            return added
        # If one row of a statement exists already, the statement inserts none.
        return sum(super(MySqlRecords, self).add(kind, [row]) for row in rows)

    def put_journals(self, rows: Sequence[Row]) -> None:
        for batch in _portions(rows):
            values: list[Any] = []
            listed = ", ".join(
                f"({', '.join(self._value(name, row[name], values) for name in _JOURNAL)})"
                for row in batch
            )
            self.update(
                f"INSERT INTO {self.table_name(Kind.JOURNAL.value)} ({', '.join(_JOURNAL)})"
                f" VALUES {listed} ON DUPLICATE KEY UPDATE content = VALUES(content)",
                values,
            )

    # What an attempt's transaction executes, as statements that are sent together

    def begin_record(self, row: Row, generation: int, lock: str) -> tuple[str, Sequence[Any]]:
        """Return the statement that inserts a commit record.

        It inserts none if the session does not hold the lock, or the run has another generation.

        Args:
            row: the commit record.
            generation: the run's generation when the attempt began.
            lock: the name of the partition's lock.
        """
        values: list[Any] = []
        listed = ", ".join(self._value(name, value, values) for name, value in row.items())
        return (
            f"INSERT INTO {self.table_name(Kind.COMMIT.value)} ({', '.join(map(self.ident, row))})"
            f" SELECT {listed} FROM {self.table_name(Kind.RUN.value)}"
            " WHERE run_id = %s AND generation = %s AND is_used_lock(%s) = connection_id()",
            [*values, row["run_id"], generation, lock],
        )

    def complete_record(self, where: Row, changes: Row) -> tuple[str, Sequence[Any]]:
        values: list[Any] = []
        assignments = ", ".join(
            f"{self.ident(name)} = {self._value(name, value, values)}"
            for name, value in changes.items()
        )
        ((condition, all_values),) = self._conditions(where, values)
        return (
            f"UPDATE {self.table_name(Kind.COMMIT.value)} SET {assignments} WHERE {condition}",
            all_values,
        )

    def insert(self, rows: str, values: Sequence[Any]) -> int:
        with translated("target", CONTROL), self.permitted():
            try:
                return self.connection.change(f"INSERT {rows}", values)
            except pymysql.IntegrityError as error:
                if code_of(error) != DUPLICATE:
                    raise
                return 0

    # Transactions

    def joins(self, run_ids: Sequence[str]) -> bool:
        return bool(self.batch_id)

    def transact_all(self, run_ids: Sequence[str], body: Callable[[], T], hold: Hold) -> T:
        with translated("target", f"batch {self.batch_id}"):
            # A run that another session is changing is left to its own transaction, which waits
            # longer.
            wait_for_locks(self.connection, JOINED_SECONDS)
            return self._in_transaction(lambda: self._lock_all(run_ids, hold), body)

    def _lock_all(self, run_ids: Sequence[str], hold: Hold) -> None:
        mode = "FOR UPDATE" if hold is Hold.CHANGE else "LOCK IN SHARE MODE"
        names = ["run"] if hold is Hold.CHANGE else ["run", "commit_record"]
        places = ", ".join(["%s"] * len(run_ids))
        for name in names:
            # Lock in a fixed order, so that two batches cannot deadlock.
            self.connection.rows(
                f"SELECT 1 FROM {self.table_name(name)} WHERE run_id IN ({places})"
                f" ORDER BY run_id {mode}",
                run_ids,
            )

    def _in_transaction(self, lock: Callable[[], None], body: Callable[[], T]) -> T:
        self.connection.change("START TRANSACTION")
        try:
            lock()
            result = body()
            self.connection.change("COMMIT")
        except BaseException:
            with suppress(pymysql.Error):
                self.connection.change("ROLLBACK")
            raise
        return result

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        with translated("target", f"run {run_id}"), self._attempts(run_id, partition_ids, patience):
            if hold is Hold.ALONE:
                self._end_attempts(run_id)
            seconds = round(self.patience.stall_timeout) or 1 << 24
            wait_for_locks(self.connection, seconds)
            return self._in_transaction(lambda: self._lock_rows(run_id, hold, partition_ids), body)

    def _lock_rows(self, run_id: str, hold: Hold, partition_ids: Sequence[str]) -> None:
        exclusive = hold in (Hold.CHANGE, Hold.NOTE, Hold.ALONE)
        # As an attempt does when it commits: the run cannot be restarted while the lock is held.
        mode = "FOR UPDATE" if exclusive else "LOCK IN SHARE MODE"
        run = f"SELECT 1 FROM {self.table_name('run')} WHERE run_id = %s {mode}"
        self.connection.rows(run, [run_id])
        if exclusive:
            return
        query = f"SELECT 1 FROM {self.table_name('commit_record')} WHERE run_id = %s"
        if hold is Hold.STEP:
            self.connection.rows(f"{query} LOCK IN SHARE MODE", [run_id])
        elif partition_ids:
            places = ", ".join(["%s"] * len(partition_ids))
            query = f"{query} AND partition_id IN ({places}) FOR UPDATE"
            self.connection.rows(query, [run_id, *partition_ids])

    @contextmanager
    def _attempts(
        self, run_id: str, partition_ids: Sequence[str], patience: float
    ) -> Iterator[None]:
        """Keep attempts of some partitions from beginning, and wait for open ones."""
        locks: list[str] = []
        try:
            for partition_id in partition_ids:
                name = self.lock(f"penstock:{run_id}:{partition_id}")
                if not try_lock(self.connection, name, patience or 1 << 24):
                    raise TransientError(
                        f"target: run {run_id}: an attempt of partition {partition_id} has been "
                        f"open for more than {patience:g} s; try again after it has ended",
                        Diagnosis(side="target"),
                    )
                locks.append(name)
            yield
        finally:
            with suppress(pymysql.Error):  # the session may have ended
                release_all(self.connection, locks)

    @translated("target", CONTROL)
    def _end_attempts(self, run_id: str) -> None:
        """End the run's open attempts, whose work no longer counts."""
        for number in self.open_attempts(run_id).values():
            self.connection.end_session(number)

    @translated("target", CONTROL)
    def open_attempts(self, run_id: str) -> dict[str, int]:
        """Return locked partitions, and the numbers of the sessions that lock them."""
        rows = self.read(Kind.RUN, {"run_id": run_id}, ("plan",))
        ids = [part["id"] for row in rows for part in row["plan"]["partitions"]]
        sessions: dict[str, int] = {}
        for start in range(0, len(ids), 200):
            batch = ids[start : start + 200]
            names = [self.lock(f"penstock:{run_id}:{name}") for name in batch]
            calls = ", ".join(["is_used_lock(%s)"] * len(names))
            # A proxy may have reported a number of its own, or none.
            ((this_session, *numbers),) = self.connection.rows(
                f"SELECT connection_id(), {calls}", names
            )
            sessions |= {
                name: int(number)
                for name, number in zip(batch, numbers, strict=True)
                if number is not None and number != this_session
            }
        return sessions

    def active_partitions(self, run_id: str) -> dict[str, int]:
        with translated("target", f"run {run_id}"):
            return dict.fromkeys(self.open_attempts(run_id), 0)

    @contextmanager
    def alone_all(self, run_ids: Sequence[str]) -> Iterator[list[str]]:
        """Take `exclusive` for those runs of which no other process is doing a step."""
        names = {run_id: self._steps(run_id) for run_id in run_ids}
        with translated("target", f"batch {self.batch_id}"):
            locks = try_all(self.connection, list(names.values()))
            try:
                yield [run_id for run_id, name in names.items() if name in locks]
            finally:
                with suppress(pymysql.Error):  # the session may have ended
                    release_all(self.connection, sorted(locks))

    def _steps(self, run_id: str) -> str:
        return self.lock(f"penstock:steps:{run_id}")

    @contextmanager
    def exclusive(self, run_id: str, step_id: str = "") -> Iterator[None]:
        # Steps of one run wait for each other: named locks are exclusive.
        name = self._steps(run_id)
        what = f"run {run_id}"
        with translated("target", what), self.holding(name, f"steps of {what}"):
            yield


def _portions(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Divide rows by statement, since servers limit its length."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        length = sum(len(str(value)) for value in row.values())
        if batch and (len(batch) == MOST_ROWS or size + length > MOST_CHARACTERS):
            yield batch
            batch, size = [], 0
        batch.append(row)
        size += length
    if batch:
        yield batch
