"""Sessions: their settings, their transactions, and how they are cancelled."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import conninfo, sql
from psycopg.pq import PipelineStatus, TransactionStatus

from penstock.backends.postgresql.errors import from_connecting, from_driver
from penstock.backends.shared.in_use import CALL_SECONDS, InUse

if TYPE_CHECKING:
    from psycopg.abc import PQGen

    from penstock.backends.postgresql.attempt.older_sessions import Guard

T = TypeVar("T")

CONNECT_TIMEOUT = 30
# Seconds for a lock on a catalog, in sessions that only look.
LOOK_LOCK = 10.0
CANCEL_TIMEOUT = 1.5
# Seconds for a statement that is cancelled to end, or to reach the server.
SENT_SECONDS = 0.2

# The text of a value must mean the same on both servers, in the plan and years later; a condition
# must select the same rows on both. Timeouts of the role are for its other work, as in pg_dump.
# With row_security off a policy that would hide rows is an error, not a silent gap.
SETTINGS = {
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "client_encoding": "UTF8",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "array_nulls": "on",
    "xmloption": "content",
    "row_security": "off",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    # When our machine vanishes, the server lets go of locks, of the snapshot and of
    # the sign that a run is executed, in two minutes instead of two hours.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
SETTINGS_14 = {
    "idle_session_timeout": "0",
    # So that a server notices a killed worker while it computes, not only when it sends.
    "client_connection_check_interval": "2s",
}
# Without a pooler they stay when the transaction is committed.
SET_IN_BATCH = (
    "SELECT pg_catalog.set_config(name, value, pg_catalog.pg_backend_pid() <> %s)"
    " FROM unnest(%s::text[], %s::text[]) AS s (name, value)"
)
SETTINGS_17 = {"transaction_timeout": "0"}
# A user's query, and what it calls, must only read.
SETTINGS_SOURCE = {"default_transaction_read_only": "on"}
# Where a transaction sets its own.
SET_IN_TRANSACTION = {"default_transaction_read_only": "transaction_read_only"}
# These say what a session without a transaction does: there the pooler's own rules hold.
SET_OUTSIDE = ("idle_session_timeout",)
# Notice within two minutes, not the system's two hours, that the peer has vanished.
KEEPALIVES = {
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}


def _is_news(record: logging.LogRecord) -> bool:
    """psycopg warns where an error within a pipeline, which it raises, is followed by another."""
    return not str(record.msg).startswith("error ignored terminating")


logging.getLogger("psycopg").addFilter(_is_news)


def connect(
    url: str,
    side: str,
    application_name: str,
    *,
    lock_seconds: float = 0,
    set_up: bool = True,
) -> Connection:
    """Open a session with settings under which both servers write and compare values alike.

    Autocommit: transactions are begun by hand, where they are meant.

    Parameters:
        lock_seconds: how long a statement may wait for a lock; 0: as long as its guard says.
        set_up: apply the settings now, for a round trip; else each `begin` applies them, for none.

    Raises:
        TransientError: not reachable now. TooManyConnections: no connection left.
        PermanentError: refused.
    """
    given = conninfo.conninfo_to_dict(url)
    added: dict[str, Any] = {"application_name": application_name}
    added |= {name: value for name, value in KEEPALIVES.items() if name not in given}
    if "connect_timeout" not in given:
        added["connect_timeout"] = CONNECT_TIMEOUT
    try:
        connection = Connection.connect(url, autocommit=True, prepare_threshold=None, **added)
        # psycopg would call Python for each notice of a trigger. There a signal's exception, which
        # cancels, would get lost.
        connection.pgconn.notice_handler = None
        try:
            settings = _settings(connection.info.server_version, side)
            if lock_seconds:
                settings["lock_timeout"] = f"{round(lock_seconds * 1000)}ms"
            if set_up:
                connection.set_up(settings)
            else:
                connection.set_in_transactions(settings)
        except BaseException:
            connection.close()
            raise
    except psycopg.Error as error:
        raise from_connecting(error, side) from error
    return connection


def _settings(version: int, side: str) -> dict[str, str]:
    settings = dict(SETTINGS)
    if version >= 140000:
        settings |= SETTINGS_14
    if version >= 170000:
        settings |= SETTINGS_17
    if side == "source":
        settings |= SETTINGS_SOURCE
    return settings


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that keeps its settings behind a pooler too.

    A pooler may give each transaction another of its server's sessions, so there every
    transaction sets them anew, for itself alone.

    Any thread may close it. One that executes something on it at that moment does so for it. What
    uses its `pgconn` itself, a worker's stream for instance, is on the thread that closes it.
    """

    side = ""
    """Where it is set, a lost connection is a `TransientError`, whatever was asked."""
    guard: Guard | None = None
    """Watches the statements that are executed from now on."""
    _set: Mapping[str, str]
    _each_time = ""
    _pid = 0
    _begun = _ends = False
    """Whether there is a transaction where statements are sent together; whether they have it to
    themselves."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.in_use = InUse(self._free)

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        with self.in_use:
            return super().wait(gen, *args, **options)

    def _free(self) -> None:
        super().close()

    def close(self) -> None:
        self.in_use.free()

    @property
    def server_pid(self) -> int:
        """Of the server's session: a pooler's is that of the transaction."""
        return self._pid or self.info.backend_pid

    def rename(self, application_name: str) -> None:
        """Show the server's monitoring another name."""
        self.set_up({**self._set, "application_name": application_name})

    def set_up(self, settings: Mapping[str, str]) -> None:
        """Set them for the session, where it is one: a pooler shows process ids of its own."""
        self._set = settings
        own = self.execute(
            "SELECT pg_catalog.set_config(name, value, false)"
            " FROM unnest(%s::text[], %s::text[]) AS s (name, value)"
            " WHERE pg_catalog.pg_backend_pid() = %s",
            [list(settings), list(settings.values()), self.info.backend_pid],
        )
        if own.rowcount == 0:
            self.set_in_transactions(settings)

    def set_in_transactions(self, settings: Mapping[str, str]) -> None:
        """Have each transaction begin with them."""
        self._set = settings
        self._each_time = "".join(
            f"; SET LOCAL {SET_IN_TRANSACTION.get(name, name)} = "
            + sql.Literal(value).as_string(self)
            for name, value in settings.items()
            if name not in SET_OUTSIDE
        )

    @property
    def pooled(self) -> bool:
        """Whether a pooler lends its server's sessions: then locks must end with a transaction."""
        return bool(self._each_time)

    def begin(self, how: str = "", then: str = "") -> None:
        """Begin a transaction by hand, in one round trip.

        Parameters:
            then: its first statement, for a transaction that is not begun `together` with others.
        """
        if self._is_sending_together:  # one statement at a time
            self._begun = True
            super().execute(f"BEGIN {how}".encode())
            if self._each_time:
                values = [self.info.backend_pid, list(self._set), list(self._set.values())]
                super().execute(SET_IN_BATCH, values)
            return
        also = f"; {then}" if then else ""
        super().execute(f"BEGIN {how}{self._each_time}{also}".encode())
        if not how:  # nothing may be asked before a snapshot is imported
            self.note_pid()

    def execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._is_sending_together:
            return self._execute(*args, **options)
        if self._each_time and self._is_idle:
            with self.transaction():
                return self._execute(*args, **options)
        return self._execute(*args, **options)

    def first(self, *args: Any) -> tuple[Any, ...]:
        """The first row of a query that always has one."""
        row = self.execute(*args).fetchone()
        assert row is not None
        return row

    def value(self, *args: Any) -> Any:
        """The first column of a query's first row; None where there is no row."""
        row = self.execute(*args).fetchone()
        return None if row is None else row[0]

    def _execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._is_sending_together:
            if self._each_time and not self._begun:
                self.begin()
                self._ends = True
            return super().execute(*args, **options)
        with self._translated_loss(), self._watched():
            return super().execute(*args, **options)

    def _watched(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext() if self.guard is None else self.guard.watching(self)

    @property
    def _is_idle(self) -> bool:
        """Outside of a transaction."""
        return self.info.transaction_status == TransactionStatus.IDLE

    @property
    def _is_sending_together(self) -> bool:
        return self.pgconn.pipeline_status != PipelineStatus.OFF

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send all statements of the block before the server has answered the first of them.

        They cost one round trip, and are one transaction where none is open. Their cursors have
        results after the block, not within it. The first that fails raises at its end; the server
        skips those that follow. None may be a COPY. A libpq before 14 sends them one by one.
        """
        if not psycopg.Pipeline.is_supported():
            yield
            return
        self._begun, self._ends = not self._is_idle, False
        with self._translated_loss(), self._watched():
            try:
                with self.pipeline():
                    try:
                        yield
                        if self._ends:
                            super().execute("COMMIT")
                    except psycopg.Error:
                        raise
                    except BaseException:
                        abandon(self)  # to leave a pipeline is to wait for all answers
                        raise
            except psycopg.OperationalError as error:
                if not self._is_sending_together or error.__context__ is None:
                    raise
                # Something has interrupted that wait, so that the pipeline could not be left.
                abandon(self)
                raise error.__context__ from None
            finally:
                if self._ends and self.info.transaction_status == TransactionStatus.INERROR:
                    super().execute("ROLLBACK")

    @contextmanager
    def _translated_loss(self) -> Iterator[None]:
        """What a lost connection means does not depend on what was asked when it was lost."""
        try:
            yield
        except psycopg.OperationalError as error:
            if not (self.side and self.closed):
                raise
            raise from_driver(error, self.side) from error

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        outermost = self._is_idle
        with (
            self._translated_loss(),
            super().transaction(savepoint_name, force_rollback) as transaction,
        ):
            if outermost and self._each_time:
                super().execute(self._each_time.removeprefix("; ").encode())
                self.note_pid()
            yield transaction

    def note_pid(self) -> None:
        """Find out which of its sessions a pooler has lent, where that matters."""
        if self._each_time and self.guard is not None and self.guard.find is None:
            ((self._pid,),) = super().execute("SELECT pg_catalog.pg_backend_pid()").fetchall()


@contextmanager
def full_names(connection: Connection) -> Iterator[None]:
    """A transaction in which the server writes, and reads, names with their schemas."""
    with connection.transaction():
        before = connection.value("SELECT pg_catalog.current_setting('search_path')")
        set_path = "SELECT pg_catalog.set_config('search_path', %s, true)"
        connection.execute(set_path, ["pg_catalog, pg_temp"])
        yield
        connection.execute(set_path, [before])


def abandon(connection: Connection) -> None:
    """Cancel what the session runs and close it. Never raises, never takes long."""
    in_use = connection.in_use
    in_use.leave()
    # The first try is too early for a statement that is just being sent.
    for seconds in (SENT_SECONDS, CALL_SECONDS):
        try:
            if connection.info.transaction_status == TransactionStatus.ACTIVE:
                connection.cancel_safe(timeout=CANCEL_TIMEOUT)
        except (psycopg.Error, OSError):
            in_use.free(0)  # who waits for the server does not hear from it either
            return
        if in_use.free(seconds):
            return
