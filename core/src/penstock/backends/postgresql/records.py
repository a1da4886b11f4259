"""Records of runs in control tables, and the locks under which they are changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus
from psycopg.types.json import Jsonb

from penstock.backends.api.execution.records import Hold, Kind, Row
from penstock.backends.postgresql.attempt.older_sessions import (
    Guard,
    batch_name,
    control_name,
    is_table_run,
)
from penstock.backends.postgresql.capabilities import TARGET
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import DENIED, planning, translated
from penstock.backends.postgresql.session.statements import statement
from penstock.backends.shared.records.sql_records import JSON, SqlRecords
from penstock.errors import Diagnosis, PermanentError, PlanningError
from penstock.spec.worker_spec import Patience

T = TypeVar("T")

# An arbitrary number that is unlikely to be used elsewhere: two runs may create the tables at once.
CREATE_LOCK = 0x50454E53
# How long a transaction of many runs waits for a lock, in milliseconds.
JOINED_LOCK_MS = 2000
# The lock mode in which attempts and steps share a run's row.
_SHARED = "KEY SHARE"


def ddl(control_schema: str) -> str:
    """Return the statements that create the control tables."""
    schema = sql.Identifier(control_schema)
    return statement("control").format(schema=schema).as_string(None)


class PostgresRecords(SqlRecords):
    """Records of runs in a PostgreSQL target.

    Args:
        connection: a session on the target.
        schema: the control schema.
        connect: opens a second session, to look up what the first one waits for.
    """

    steps_with_records = TARGET.steps_with_records
    now = "clock_timestamp()"
    text = "text"
    upserts = True

    def __init__(
        self, connection: Connection, schema: str, connect: Callable[[], Connection]
    ) -> None:
        self.patience = Patience()
        self._connect = connect
        self._connection = connection
        self._name = schema
        self.reads: Callable[[Sequence[str], Hold], list[Callable[[], object]]] = lambda *_: []
        """Calls that transactions on runs begin with, usually."""
        names = (*(kind.value for kind in Kind), "volatile_run")
        self._complete = False
        self._tables = [sql.Identifier(schema, name).as_string(connection) for name in names]

    def table_name(self, table: str) -> str:
        return sql.Identifier(self._name, table).as_string(self._connection)

    def placeholder(self, number: int) -> str:
        return "%s"

    def driver_value(self, column: str, value: Any) -> Any:
        return Jsonb(value) if column in JSON and value is not None else value

    def read_json(self, value: Any) -> Any:
        return value

    @contextlib.contextmanager
    def _permitted(self, *, reading: bool = False) -> Iterator[None]:
        """Translate missing privileges.

        Args:
            reading: whether records are only read.

        Raises:
            PermanentError: the user may not use the control tables; names the GRANTs that would
                help.
        """
        try:
            with translated("target"):
                yield
        except PermanentError as error:
            if error.diagnosis.code != DENIED:
                raise
            user, schema = (
                sql.Identifier(name).as_string(self._connection)
                for name in (self._connection.info.user, self._name)
            )
            on = f"ON ALL TABLES IN SCHEMA {schema} TO {user}"
            needed = f"GRANT SELECT, INSERT, UPDATE, DELETE {on}"
            if reading:
                needed = f"GRANT SELECT {on} to look at runs, or {needed} to copy"
            raise PermanentError(
                f"{error.message}: runs are recorded there; run GRANT USAGE ON SCHEMA {schema} TO "
                f"{user}; {needed}",
                error.diagnosis,
            ) from error

    def execute(self, statement: str, values: Sequence[Any], *, reading: bool) -> list[Any]:
        with self._permitted(reading=reading):
            cursor = self._connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def create(self) -> None:
        # Checked first: CREATE ... IF NOT EXISTS requires the privilege even if the tables exist.
        with planning("target", f"control schema {self._name!r}"):
            missing = [] if self._complete else self._missing()
            if not missing:
                return
            self._connection.guard = Guard("", self.patience, self._connect)
            try:
                with self._connection.transaction():
                    self._connection.execute("SELECT pg_advisory_xact_lock(%s)", [CREATE_LOCK])
                    # A session that did not find the schema caches that until it opens a table, and
                    # would then create what another session has created in the meantime.
                    self._connection.execute("SELECT FROM pg_catalog.pg_namespace LIMIT 0")
                    self._connection.execute(ddl(self._name).encode())
            except Exception as error:
                if getattr(error, "sqlstate", None) != DENIED:
                    raise
                raise PlanningError(
                    f"target: user {self._connection.info.user!r} may not create the control "
                    f"tables in schema {self._name!r}; grant it the privilege, have an "
                    "administrator create the tables with the output of `penstock control-ddl "
                    f"--target postgresql:// --control-schema {self._name}`, or use another "
                    "--control-schema",
                ) from error

    def look(self) -> None:
        """Find out whether the control tables exist."""
        self._complete = self._complete or not self._missing()

    def _missing(self) -> list[str]:
        """Return the control tables that do not exist."""
        rows = self._connection.execute(
            "SELECT name FROM unnest(%s::text[]) AS u (name) WHERE to_regclass(name) IS NULL",
            [self._tables],
        ).fetchall()
        return [name for (name,) in rows]

    def _select(self, kind: Kind, where: Row, columns: Sequence[str], more: str = "") -> list[Row]:
        if self._connection.info.transaction_status == TransactionStatus.IDLE:
            with self._permitted(reading=True):
                if isinstance(where.get("run_id"), str):
                    self.attend(where["run_id"])
                missing = [] if self._complete else self._missing()
            if len(missing) == len(self._tables):
                return []
            self._complete = not missing
            if missing:
                raise PermanentError(
                    f"target: control schema {self._name!r} lacks {', '.join(missing)}, without "
                    "which no run can be read or resumed; restore them, or choose another "
                    "--control-schema for new runs",
                    Diagnosis(side="target"),
                )
        return super()._select(kind, where, columns, more)

    def attend(self, run_id: str) -> None:
        """Register the session as one of this run or its batch, and end older ones in its way."""
        if self.batch_id and is_table_run(run_id, self.batch_id):
            self._attend(self.batch_id, batch_name(self.batch_id))
        else:
            self._attend(run_id, control_name(run_id))

    def _attend(self, run_id: str, session_name: str) -> None:
        guard = self._connection.guard
        if guard is None or guard.run_id != run_id:
            self._connection.rename(session_name)
        self._connection.guard = Guard(run_id, self.patience, self._connect)

    def joins(self, run_ids: Sequence[str]) -> bool:
        batch_id = self.batch_id
        return bool(batch_id) and all(is_table_run(run_id, batch_id) for run_id in run_ids)

    @contextlib.contextmanager
    def changing(self, run_ids: Sequence[str]) -> Iterator[None]:
        """Lock runs, and open a transaction of independent statements that change them."""
        with translated("target"):
            self.attend(run_ids[0])
            with self._connection.whole_transaction():
                for statement in self._locking(run_ids, Hold.CHANGE):
                    self._connection.execute(*statement)
                yield

    def transact_all(self, run_ids: Sequence[str], body: Callable[[], T], hold: Hold) -> T:
        with translated("target"):
            self.attend(run_ids[0])
            reads = self.reads(run_ids, hold)
            with self._connection.transaction_of(*self._locking(run_ids, hold), reads=reads):
                return body()

    def _locking(self, run_ids: Sequence[str], hold: Hold) -> Iterator[tuple[Any, ...]]:
        if len(run_ids) > 1:
            # A table locked by another session is left to its own transaction, which waits longer.
            yield (f"SET LOCAL lock_timeout = {JOINED_LOCK_MS}".encode(),)
        mode = "NO KEY UPDATE" if hold in (Hold.CHANGE, Hold.NOTE) else _SHARED
        # Lock in a fixed order, so that two batches cannot deadlock.
        yield self._lock_all("run", "run_id", run_ids, mode)
        if hold is Hold.STEP:
            # Steps share the commit records; none can be removed until the steps are done.
            yield self._lock_all("commit_record", "run_id, partition_id", run_ids, _SHARED)

    def _lock_all(
        self, table: str, order: str, run_ids: Sequence[str], mode: str
    ) -> tuple[bytes, Sequence[Any]]:
        query = (
            f"SELECT FROM {self.table_name(table)} WHERE run_id = ANY (%s)"
            f" ORDER BY {order} FOR {mode}"
        )
        return query.encode(), [list(run_ids)]

    def transact(
        self,
        run_id: str,
        body: Callable[[], T],
        hold: Hold = Hold.CHANGE,
        partition_ids: Sequence[str] = (),
        patience: float = 0,
    ) -> T:
        with translated("target"):
            self.attend(run_id)
            # The statements that follow see what others have committed in the meantime.
            if hold in (Hold.CHANGE, Hold.NOTE, Hold.STEP):
                reads = () if hold is Hold.NOTE else self.reads([run_id], hold)
                with contextlib.ExitStack() as stack:
                    with self._permitted():
                        opening = self._connection.transaction_of(
                            *self._locking([run_id], hold), reads=reads
                        )
                        stack.enter_context(opening)
                    return body()
            with self._connection.transaction():
                if hold is Hold.ALONE:
                    self._shut_out_attempts(run_id)
                else:
                    self._wait_for_attempts(run_id, partition_ids, patience)
                    # As an attempt does: the run cannot be restarted while the lock is held.
                    self._lock_run(run_id, _SHARED)
                    self._lock_committed(run_id, partition_ids)
                return body()

    def _lock_run(self, run_id: str, mode: str) -> None:
        query = f"SELECT FROM {self.table_name('run')} WHERE run_id = %s FOR {mode}"
        with self._permitted():
            self._connection.execute(query.encode(), [run_id])

    def _lock_committed(self, run_id: str, partition_ids: Sequence[str]) -> None:
        query = (
            f"SELECT FROM {self.table_name('commit_record')} WHERE run_id = %s"
            " AND partition_id = ANY (%s) ORDER BY partition_id FOR UPDATE"
        )
        self._connection.execute(query.encode(), [run_id, list(partition_ids)])

    def _wait_for_attempts(
        self, run_id: str, partition_ids: Sequence[str], patience: float
    ) -> None:
        self._connection.execute(f"SET LOCAL lock_timeout = {round(patience * 1000)}")
        for partition_id in partition_ids:
            self._call("pg_advisory_xact_lock", f"penstock:{run_id}:{partition_id}")
        self._connection.execute("SET LOCAL lock_timeout = 0")

    def _shut_out_attempts(self, run_id: str) -> None:
        """Lock the run's row against its attempts, and end them: their work no longer counts."""

        def end_attempts(session: Connection) -> None:
            for (pid,) in session.execute(
                statement("open_attempts"),
                {"records": self.table_name("commit_record"), "prefix": f"penstock:{run_id}:"},
            ).fetchall():
                session.execute("SELECT pg_catalog.pg_terminate_backend(%s)", [pid])

        self._connection.guard = Guard(run_id, self.patience, self._connect, end_attempts)
        self._lock_run(run_id, "UPDATE")
        self.attend(run_id)

    @contextlib.contextmanager
    def exclusive(self, run_id: str, step_id: str = "") -> Iterator[None]:
        if self.steps_with_records:
            yield
            return
        steps = f"penstock:steps:{run_id}"
        locks = [("_shared", steps), ("", f"{steps}:{step_id}")] if step_id else [("", steps)]
        with translated("target"):
            self.attend(run_id)
            # Session locks, which end with the process or when the session is ended as an older
            # one.
            for mode, key in locks:
                self._call(f"pg_advisory_lock{mode}", key)
        try:
            yield
        finally:
            with contextlib.suppress(psycopg.Error):  # of a session that has ended
                for mode, key in locks:
                    self._call(f"pg_advisory_unlock{mode}", key)

    def _call(self, function: str, key: str) -> None:
        query = f"SELECT pg_catalog.{function}(pg_catalog.hashtextextended(%s, 0))"
        self._connection.execute(query.encode(), [key])
