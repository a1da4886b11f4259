"""Sessions: settings, transactions, and cancellation."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import psycopg
from psycopg import conninfo, sql
from psycopg.pq import PipelineStatus, TransactionStatus

from penstock.backends.postgresql.errors import from_connecting, from_driver, is_loss
from penstock.backends.postgresql.session.shared_round_trips import Question, SharedRoundTrips
from penstock.backends.shared.in_use import CALL_SECONDS, InUse
from penstock.errors import Interrupted, PenstockError

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")

PLAN, CONTROL = "penstock:plan", "penstock:control"
"""The names of catalogs' sessions."""
CONNECT_TIMEOUT = 30
# Seconds to wait for a lock on a catalog, in sessions that only look.
LOOK_LOCK = 10.0
CANCEL_TIMEOUT = 1.5
# Seconds for a canceled statement to end, or to reach the server.
SENT_SECONDS = 0.2

# A value's text must mean the same on both servers, in the plan and years later, and a condition
# must select the same rows on both. Timeouts of the role are meant for its other work; pg_dump
# clears them too. With row_security off, a policy that would hide rows causes an error instead of a
# silent gap.
SETTINGS = {
    # A role's may be one that a standby does not have, or that makes writers fail.
    "default_transaction_isolation": "read committed",
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
    # If this machine vanishes, the server releases the locks, the snapshot and the mark of the
    # active run within two minutes instead of two hours.
    "tcp_keepalives_idle": "60",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "6",
}
SETTINGS_14 = {
    "idle_session_timeout": "0",
    # Lets the server notice a killed worker while it computes, not only when it sends.
    "client_connection_check_interval": "2s",
}
SET_UP = (
    "SELECT pg_catalog.set_config(name, value, false)"
    " FROM unnest(%s::text[], %s::text[]) AS s (name, value)"
    " WHERE pg_catalog.pg_backend_pid() = %s"
)
# Without a pooler, the settings stay after the commit.
SET_IN_BATCH = (
    "SELECT pg_catalog.set_config(name, value, pg_catalog.pg_backend_pid() <> %s)"
    " FROM unnest(%s::text[], %s::text[]) AS s (name, value)"
)
SETTINGS_17 = {"transaction_timeout": "0"}
SET_PATH = "SELECT pg_catalog.set_config('search_path', %s, true)"
FULL = "pg_catalog, pg_temp"
# A user's query, and the functions it calls, may only read.
SETTINGS_SOURCE = {"default_transaction_read_only": "on"}
# For transactions that set their own.
SET_IN_TRANSACTION = {"default_transaction_read_only": "transaction_read_only"}
# These affect a session outside a transaction, where the pooler's own rules apply, or a transaction
# before it begins.
SET_OUTSIDE = ("idle_session_timeout", "default_transaction_isolation")
_READ_COMMITTED = "ISOLATION LEVEL READ COMMITTED"
# Detect a vanished peer within two minutes, not within the system's two hours.
KEEPALIVES = {
    "keepalives_idle": 60,
    "keepalives_interval": 10,
    "keepalives_count": 6,
    "tcp_user_timeout": 120_000,
}


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a warning is worth logging.

    psycopg warns if another error follows the one in a pipeline, which it raises anyway.
    """
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
    """Open a session whose settings make both servers write and compare values in the same way.

    The session is in autocommit mode: transactions are begun explicitly.

    Args:
        url: the URL, with the password.
        side: the side of the server; on the source, transactions are read-only.
        application_name: the name shown in the server's monitoring.
        lock_seconds: how long a statement may wait for a lock; if 0, the guard decides.
        set_up: apply the settings to the session with its first statement; otherwise each `begin`
            applies them.

    Raises:
        TransientError: the server is not reachable now. TooManyConnections: no connection is left.
        PermanentError: the server refused the connection.
    """
    parameters = conninfo.conninfo_to_dict(url)
    added: dict[str, Any] = {"application_name": application_name}
    added |= {name: value for name, value in KEEPALIVES.items() if name not in parameters}
    if "connect_timeout" not in parameters:
        added["connect_timeout"] = CONNECT_TIMEOUT
    try:
        connection = Connection.connect(url, autocommit=True, prepare_threshold=None, **added)
        # psycopg would call Python for each notice of a trigger, where the exception that a signal
        # raises to cancel would be lost.
        connection.pgconn.notice_handler = None
        try:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            settings = _settings(connection.info.server_version, side)
            if lock_seconds:
                settings["lock_timeout"] = f"{round(lock_seconds * 1000)}ms"
            if set_up:
                connection.set_up_later(settings, side)
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


class Watch(Protocol):
    """A watch over a session's statements; see `Guard`."""

    run_id: str
    find: Callable[[Connection], int | None] | None

    def watching(self, connection: Connection) -> AbstractContextManager[None]: ...


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that keeps its settings behind a pooler too.

    A pooler may give each transaction another server session, so behind one every transaction
    applies the settings for itself.

    Any thread may close the connection. If another thread is executing a statement then, that
    thread closes it. Code that uses `pgconn` directly, such as a worker's stream, runs in the
    thread that closes it.
    """

    side = ""
    """If it is set, a lost connection is a `TransientError`, whichever statement was running."""
    guard: Watch | None = None
    """Watches all statements executed from now on."""
    _set: Mapping[str, str]
    _is_set = True
    """Whether the session has its settings, instead of each transaction setting them."""
    _is_named = True
    """Whether the session has its name."""
    _side_of_settings = ""
    _each_time = ""
    _round_trips: SharedRoundTrips | None = None
    _ready_answers: SharedRoundTrips | None = None
    """Answers to the next questions."""
    _pid = 0
    _is_in_transaction = _ends = False
    """Whether statements sent together are in a transaction, and whether that is their own."""

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
        """The process id of the server's session; behind a pooler, of the current transaction's."""
        return self._pid or self.info.backend_pid

    def rename(self, application_name: str) -> None:
        """Change the name shown in the server's monitoring, from the next statement on."""
        settings = {**self._set, "application_name": application_name}
        if self._each_time:
            self.set_in_transactions(settings)
        else:
            self._is_named = not self._is_set  # otherwise it is set with the other settings
            self._set = settings

    def set_up_later(self, settings: Mapping[str, str], side: str) -> None:
        """Apply settings together with the first statement, which saves a round trip."""
        self._set, self._is_set, self._side_of_settings = settings, False, side

    def set_up(self, settings: Mapping[str, str]) -> None:
        """Apply settings to the session.

        Not behind a pooler, which reports process ids of its own.
        """
        if self._round_trips is not None:
            raise psycopg.OperationalError("settings are not asked for")
        self._set, self._is_set = settings, True
        try:
            cursor = self.execute(*self._setting())
        except psycopg.errors.FeatureNotSupported:
            # The role's transactions are serializable, which a standby does not support.
            with super().transaction():
                cursor = super().execute(*self._setting())
        if cursor.rowcount == 0:
            self.set_in_transactions(settings)

    def _setting(self) -> tuple[str, Sequence[Any]]:
        return SET_UP, [list(self._set), list(self._set.values()), self.info.backend_pid]

    def _settle(self) -> None:
        """Apply the settings.

        Raises:
            PenstockError: as for `connect`. A pooler may reject the session only now.
        """
        if not self._is_set:
            try:
                self.set_up(self._set)
            except psycopg.Error as error:
                self._is_set = False
                raise from_connecting(error, self._side_of_settings) from error
        if not self._is_named and not self._is_sending_together:
            with self._translated_loss():
                super().execute(*self._naming())
            self._is_named = True

    def _naming(self) -> tuple[str, Sequence[str]]:
        query = "SELECT pg_catalog.set_config('application_name', %s, false)"
        return query, [self._set["application_name"]]

    def set_in_transactions(self, settings: Mapping[str, str]) -> None:
        """Have each transaction begin with some settings."""
        self._set, self._is_set = settings, True
        self._each_time = "".join(
            f"; SET LOCAL {SET_IN_TRANSACTION.get(name, name)} = "
            + sql.Literal(value).as_string(self)
            for name, value in settings.items()
            if name not in SET_OUTSIDE
        )

    @property
    def pooled(self) -> bool:
        """Whether a pooler lends its server sessions, so that locks must end with a transaction."""
        if not self._is_set:
            self._settle()
        return bool(self._each_time)

    def begin(self, modes: str = "", first_statements: str = "") -> psycopg.Cursor[tuple[Any, ...]]:
        """Begin a transaction explicitly, in one round trip.

        Args:
            modes: the transaction's modes; READ COMMITTED without any.
            first_statements: for a transaction not begun `together` with others.

        Returns:
            The results of all statements.
        """
        self._settle()
        if self._is_sending_together:  # one statement at a time
            self._is_in_transaction = True
            cursor = super().execute(f"BEGIN {modes or _READ_COMMITTED}".encode())
            if self._each_time:
                values = [self.info.backend_pid, list(self._set), list(self._set.values())]
                super().execute(SET_IN_BATCH, values)
            return cursor
        suffix = f"; {first_statements}" if first_statements else ""
        with self._translated_loss():
            begin = f"BEGIN {modes or _READ_COMMITTED}"
            cursor = super().execute(f"{begin}{self._each_time}{suffix}".encode())
            if not modes:  # no statement may precede the import of a snapshot
                self.note_pid()
        return cursor

    def execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._round_trips is not None:
            return self._round_trips.answer(args)
        if (
            self._ready_answers is not None
            and (answer := self._ready_answers.take(args)) is not None
        ):
            return answer
        self._settle()
        if self._is_sending_together:
            return self._execute(*args, **options)
        if self._each_time and self._is_idle:
            with self.transaction():
                return self._execute(*args, **options)
        return self._execute(*args, **options)

    def first(self, *args: Any) -> tuple[Any, ...]:
        """Return the first row of a query that always has one."""
        row = self.execute(*args).fetchone()
        assert row is not None
        return row

    def value(self, *args: Any) -> Any:
        """Return the first column of a query's first row; None if there is no row."""
        row = self.execute(*args).fetchone()
        return None if row is None else row[0]

    def _execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._is_sending_together:
            if self._each_time and not self._is_in_transaction:
                self.begin()
                self._ends = True
            return super().execute(*args, **options)
        with self._translated_loss(), self._watched():
            return super().execute(*args, **options)

    def _watched(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext() if self.guard is None else self.guard.watching(self)

    @property
    def _is_idle(self) -> bool:
        """Whether the session is outside a transaction."""
        return self.info.transaction_status == TransactionStatus.IDLE

    @property
    def _is_sending_together(self) -> bool:
        return self.pgconn.pipeline_status != PipelineStatus.OFF

    def share_round_trips(self, calls: Iterable[Callable[[], object]]) -> None:
        """Make calls that only ask this server, sending their questions together.

        See `SharedRoundTrips`.

        Raises nothing but `Interrupted`. A call is left out if it cannot be made in this way, or
        follows a question that the server rejects; it is then made alone by the code that needs its
        result.
        """
        if psycopg.Pipeline.is_supported():
            self._round_trips = round_trips = SharedRoundTrips(self)
            try:
                round_trips.make(calls, self._send_together)
            except Interrupted:
                raise
            except (psycopg.Error, PenstockError):
                pass
            finally:
                self._round_trips = None

    @contextmanager
    def asking_full_names(self) -> Iterator[None]:
        """See `full_names`."""
        round_trips = self._round_trips
        assert round_trips is not None
        before, round_trips.full_names = round_trips.full_names, True
        try:
            yield
        finally:
            round_trips.full_names = before

    @property
    def is_asking(self) -> bool:
        """Whether the current statement is sent together with those of other calls."""
        return self._round_trips is not None

    def _send_together(
        self, questions: Sequence[Question], full: Sequence[Question]
    ) -> Sequence[psycopg.Cursor[tuple[Any, ...]]]:
        """Send questions in one round trip.

        Args:
            questions: the questions to ask under the user's own search path.
            full: the questions to ask while names are full.

        Raises:
            psycopg.Error: the server rejects one. The transaction continues.
        """
        round_trips, self._round_trips = self._round_trips, None
        within = not self._is_idle
        is_first, self._is_set = not self._is_set, True
        try:
            with self.together():
                setting = self.execute(*self._setting()) if is_first else None
                if within:
                    self.execute("SAVEPOINT together")
                answers = [self.execute(*question) for question in questions]
                if full:
                    self.execute(SET_PATH, [FULL])
                    answers += [self.execute(*question) for question in full]
                if within:  # the search path is restored
                    self.execute("ROLLBACK TO together")
                    self.execute("RELEASE together")
        except BaseException:
            self._is_set = not is_first
            if self.info.transaction_status == TransactionStatus.INERROR:
                super().execute("ROLLBACK TO together; RELEASE together")
            raise
        finally:
            self._round_trips = round_trips
        if setting is not None and setting.rowcount == 0:
            self.set_in_transactions(self._set)
            return self._send_together(questions, full)  # the settings belonged to another session
        return answers

    @contextmanager
    def together(self, *, begin: bool = False, commit: bool = False) -> Iterator[None]:
        """Send all statements of the block without waiting for the answers.

        They cost one round trip, and form one transaction if none is open. Their cursors have
        results after the block, not within it. The first failure is raised at the end of the block;
        the server skips the statements after it. None may be a COPY. A libpq before 14 sends them
        one by one.

        Args:
            begin: whether to begin a transaction in the same round trip. Otherwise, if none is
                open, the statements form one of their own.
            commit: whether to commit the transaction in the same round trip.
        """
        if not psycopg.Pipeline.is_supported():
            if begin:
                self.begin()
            yield
            if commit:
                self.execute("COMMIT")
            return
        if not self._is_set or not (begin or self._is_named):
            self._settle()
        self._is_in_transaction, self._ends = not self._is_idle, False
        was_named = self._is_named
        with self._translated_loss(), self._watched():
            try:
                with self.pipeline():
                    try:
                        if not was_named:
                            super().execute(*self._naming())
                            self._is_named = True
                        if begin:
                            self.begin()
                        yield
                        if self._ends or commit:
                            super().execute("COMMIT")
                    except psycopg.Error:
                        raise
                    except BaseException:
                        abandon(self)  # leaving a pipeline waits for all answers
                        raise
            except psycopg.OperationalError as error:
                if not self._is_sending_together or error.__context__ is None:
                    raise
                # The wait was interrupted, so the pipeline could not be left.
                abandon(self)
                raise error.__context__ from None
            finally:
                failed = self.info.transaction_status == TransactionStatus.INERROR
                if failed and (self._ends or begin):
                    super().execute("ROLLBACK")
                    self._is_named = was_named

    @contextmanager
    def transaction_of(
        self, *first: Question, reads: Iterable[Callable[[], object]] = ()
    ) -> Iterator[None]:
        """Open a transaction that begins with some statements, in one round trip.

        Args:
            first: the arguments of `execute` for each statement.
            reads: calls to be made in the transaction; their first questions are sent right after
                these statements, and answered when the calls ask them.
        """
        if self._each_time or not psycopg.Pipeline.is_supported():
            # Learn which session a pooler has lent before a statement has to wait.
            with self.transaction():
                for statement in first:
                    self.execute(*statement)
                yield
            return
        self._round_trips = round_trips = SharedRoundTrips(self)
        try:
            questions = round_trips.first_questions(reads)
        finally:
            self._round_trips = None
        with self.together(begin=True):
            for statement in first:
                self.execute(*statement)
            answers = [self.execute(*question) for question in questions]
        round_trips.note(answers)
        self._ready_answers = round_trips
        try:
            yield
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                super().execute("ROLLBACK")
            raise
        finally:
            self._ready_answers = None
        self.execute("COMMIT")

    @contextmanager
    def whole_transaction(self) -> Iterator[None]:
        """Send the statements of the block as one transaction, as in `together`."""
        if self._each_time or not psycopg.Pipeline.is_supported():
            with self.transaction():
                yield
            return
        with self.together(begin=True, commit=True):
            yield

    @contextmanager
    def _translated_loss(self) -> Iterator[None]:
        """Report a lost connection in the same way, whichever statement was running."""
        try:
            yield
        except psycopg.OperationalError as error:
            if not (self.side and (self.closed or is_loss(error))):
                raise
            raise from_driver(error, self.side) from error

    @contextmanager
    def transaction(
        self, savepoint_name: str | None = None, force_rollback: bool = False
    ) -> Iterator[psycopg.Transaction]:
        if self._round_trips is not None:
            raise psycopg.OperationalError("a transaction cannot be asked for together with others")
        self._settle()
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
        """Note the process id of the session that a pooler has lent, if it matters."""
        if self._each_time and self.guard is not None and self.guard.find is None:
            ((self._pid,),) = super().execute("SELECT pg_catalog.pg_backend_pid()").fetchall()


@contextmanager
def full_names(connection: Connection) -> Iterator[None]:
    """Open a transaction in which the server reads and writes names with their schemas."""
    if connection.is_asking:
        with connection.asking_full_names():
            yield
        return
    outermost = connection.info.transaction_status == TransactionStatus.IDLE
    with connection.transaction():
        with connection.together():
            before = connection.execute("SELECT pg_catalog.current_setting('search_path')")
            connection.execute(SET_PATH, [FULL])
        yield
        if not outermost:
            connection.execute(SET_PATH, before.fetchall()[0])


def abandon(connection: Connection) -> None:
    """Cancel the running statement and close the session. Never raises, never takes long."""
    in_use = connection.in_use
    in_use.leave()
    # The first attempt comes too early for a statement that is still being sent.
    for seconds in (SENT_SECONDS, CALL_SECONDS):
        try:
            if connection.info.transaction_status == TransactionStatus.ACTIVE:
                connection.cancel_safe(timeout=CANCEL_TIMEOUT)
        except (psycopg.Error, OSError):
            in_use.free(0)  # a thread that waits for the server does not notice either
            return
        if in_use.free(seconds):
            return
