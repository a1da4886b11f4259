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
from penstock.backends.shared.tokens import current_password
from penstock.backends.shared.tunnels import MARK, entrance, explained
from penstock.errors import Interrupted, PenstockError
from penstock.model.awaited import awaiting
from penstock.model.values import statement_kind

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")

SERVER = "PostgreSQL"
_WAITS = """
    SELECT
        CASE WHEN a.wait_event_type <> 'Client' THEN a.wait_event END,
        (SELECT pg_catalog.string_agg(pg_catalog.concat_ws(
            ' ', b.pid, 'of user', b.usename, pg_catalog.concat('(', b.state, ')')), ', ')
        FROM pg_catalog.pg_stat_activity AS b
        WHERE b.pid = ANY(pg_catalog.pg_blocking_pids(a.pid))),
        pg_catalog.current_setting('synchronous_standby_names'), pg_catalog.left(a.query, 1000)
    FROM pg_catalog.pg_stat_activity AS a WHERE a.pid = %s
"""
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
    "datestyle": "ISO, YMD",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "timezone": "UTC",
    "client_encoding": "UTF8",
    "bytea_output": "hex",
    "lc_monetary": "C",
    "array_nulls": "on",
    "xmloption": "content",
    # Definitions and names are compared as texts; a user's condition means the same everywhere.
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    # Otherwise an index finds only some rows, at random.
    "gin_fuzzy_search_limit": "0",
    # Each statement sees what others have committed; snapshots have a level of their own. A role's
    # may be one that a standby does not have, or that makes writers fail.
    "default_transaction_isolation": "read committed",
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
# Executed under the user's path. The first setting notes it, the second one leaves it.
_NAMED_VALUES = (
    " FROM ROWS FROM (pg_catalog.unnest(%s::pg_catalog.text[]),"
    " pg_catalog.unnest(%s::pg_catalog.text[])) AS s (name, value)"
)
SET_UP = (
    "SELECT pg_catalog.set_config(name,"
    " coalesce(value, pg_catalog.current_setting('search_path')), false)"
    f"{_NAMED_VALUES} WHERE pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.=) %s::pg_catalog.int4"
)
# Without a pooler, the settings stay after the commit.
SET_IN_BATCH = (
    "SELECT pg_catalog.set_config(name, value,"
    " pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %s::pg_catalog.int4)"
    f"{_NAMED_VALUES}"
)
SETTINGS_17 = {"transaction_timeout": "0"}
# Functions and operators in a schema on the path can be other people's. So statements see only the
# server's own, unless the user's expressions, tables or triggers need the user's path; those name
# the schema of each function, operator and type that is Penstock's choice. A server chooses a
# function by the types of its arguments first, and by the path only among equals.
OWN_PATH = "pg_catalog, pg_temp"
_NOTED_PATH = "penstock.search_path"
_SET_PATH = "pg_catalog.set_config('search_path', {}, true)"
NOTE_PATH = (
    f"pg_catalog.set_config('{_NOTED_PATH}', pg_catalog.current_setting('search_path'), true), "
    + _SET_PATH.format(f"'{OWN_PATH}'")
)
"""Notes the user's path and leaves it, as the select list of a query."""
LEAVE_USERS_PATH = f"SELECT {NOTE_PATH}"
TAKE_USERS_PATH = "SELECT " + _SET_PATH.format(f"pg_catalog.current_setting('{_NOTED_PATH}')")
FIRE_DEFERRED = "SET CONSTRAINTS ALL IMMEDIATE"
"""Fires deferred triggers, which otherwise fire at the commit, under the path of that moment."""
LEAVE_AGAIN = "SELECT " + _SET_PATH.format(f"'{OWN_PATH}'")
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


def _has_pipelines() -> bool:
    return psycopg.Pipeline.is_supported()


def connect(
    url: str,
    side: str,
    application_name: str,
    *,
    lock_seconds: float = 0,
    set_up: bool = True,
    users_path: bool = False,
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
        users_path: keep the user's search path, for a session that streams rows.

    Raises:
        TransientError: the server is not reachable now. TooManyConnections: no connection is left.
        PermanentError: the server refused the connection.
    """
    parameters = conninfo.conninfo_to_dict(url)
    added: dict[str, Any] = {"application_name": application_name}
    added |= {name: value for name, value in KEEPALIVES.items() if name not in parameters}
    if "connect_timeout" not in parameters:
        added["connect_timeout"] = CONNECT_TIMEOUT
    if written := parameters.get("password"):
        added["password"] = current_password(str(written), side)
    if (mark := str(parameters.get("hostaddr") or "")).startswith(MARK):
        added["hostaddr"], added["port"] = entrance(mark, side)
    try:
        with awaiting(f"{side}: connecting"):
            connection = Connection.connect(url, autocommit=True, prepare_threshold=None, **added)
        # psycopg would call Python for each notice of a trigger, where the exception that a signal
        # raises to cancel would be lost.
        connection.pgconn.notice_handler = None
        try:
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            settings = _settings(connection.info.server_version, side)
            if lock_seconds:
                settings["lock_timeout"] = f"{round(lock_seconds * 1000)}ms"
            if users_path:
                connection.keep_users_path()
            if set_up:
                connection.set_up_later(settings, side)
            else:
                connection.set_in_transactions(settings)
        except BaseException:
            connection.close()
            raise
    except psycopg.Error as error:
        raise explained(from_connecting(error, side), mark, side) from error
    return connection


def reason_of_wait(looker: psycopg.Connection[Any], pid: int) -> str:
    """Return what a session waits for, in words; empty if it has ended.

    Args:
        looker: another session.
        pid: the process id of the session.
    """
    row = looker.execute(_WAITS, [pid]).fetchone()
    if row is None:
        return ""
    event, blockers, standbys, query = row
    statement = statement_kind(query or "")
    if event == "SyncRep":
        return (
            f"{statement} waits for a synchronous standby (synchronous_standby_names is "
            f"{standbys!r}): start it, or change that setting"
        )
    if blockers:
        return f"{statement} waits for a lock of session {blockers}"
    return f"{statement} waits for {event}" if event else f"{statement} is running"


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
    has_users_path = False
    """Whether statements are executed under the user's search path."""
    _set: Mapping[str, str]
    _is_set = True
    """Whether the session has its settings, instead of each transaction setting them."""
    _is_named = True
    """Whether the session has its name."""
    _side_of_settings = ""
    _each_time = ""
    _keeps_users_path = False
    """Whether a transaction begins with the user's path."""
    _is_scoped = False
    """Whether each statement changes the path for itself."""
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
        with self.in_use, awaiting(self.side or self._side_of_settings or SERVER, self._reason):
            return super().wait(gen, *args, **options)

    def _reason(self) -> str:
        """Ask the server, in another session, what this one waits for."""
        options: dict[str, Any] = {
            **self.info.get_parameters(),
            "password": self.info.password,
            "connect_timeout": 2,
        }
        with psycopg.connect(**options, autocommit=True) as looker:
            return reason_of_wait(looker, self.server_pid)

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

    def keep_users_path(self) -> None:
        """Have the session, and each transaction, begin with the user's search path."""
        self.has_users_path = self._keeps_users_path = True

    def set_up(self, settings: Mapping[str, str]) -> None:
        """Apply settings to the session.

        Not behind a pooler, which reports process ids of its own.
        """
        if self._round_trips is not None:
            raise psycopg.OperationalError("settings are not asked for")
        self._set, self._is_set = settings, True
        is_scoped, self._is_scoped = self._is_scoped, False
        try:
            try:
                cursor = self.execute(*self._setting())
            except psycopg.errors.FeatureNotSupported:
                # The role's transactions are serializable, which a standby does not support.
                with super().transaction():
                    cursor = super().execute(*self._setting())
            if cursor.rowcount == 0:
                self.set_in_transactions(settings)
        finally:
            self._is_scoped = is_scoped

    def _setting(self) -> tuple[str, Sequence[Any]]:
        path = {} if self._keeps_users_path else {_NOTED_PATH: None, "search_path": OWN_PATH}
        values: dict[str, str | None] = {**self._set, **path}
        return SET_UP, [list(values), list(values.values()), self.info.backend_pid]

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
    def leaving_path(self) -> str:
        """The statements, if any, with which a transaction leaves the user's path.

        They follow the import of a snapshot, which no query may precede.
        """
        needed = not self._keeps_users_path and self.pooled
        return f"; {LEAVE_USERS_PATH}" if needed else ""

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
            if self.leaving_path:
                super().execute(LEAVE_USERS_PATH)
            return cursor
        suffix = f"; {first_statements}" if first_statements else ""
        if not modes:
            suffix = f"{self.leaving_path}{suffix}"
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
        if self._is_idle and (self._each_time or (self._is_scoped and not _has_pipelines())):
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
            return self._execute_scoped(*args, **options)
        if self._is_scoped:
            with self.together():
                return self._execute_scoped(*args, **options)
        with self._translated_loss(), self._watched():
            return super().execute(*args, **options)

    def _execute_scoped(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if not self._is_scoped:
            return super().execute(*args, **options)
        taking, leaving = TAKE_USERS_PATH, LEAVE_AGAIN
        if not self.has_users_path:
            taking, leaving = LEAVE_USERS_PATH, TAKE_USERS_PATH
        super().execute(taking)
        cursor = super().execute(*args, **options)
        super().execute(leaving)
        return cursor

    @contextmanager
    def users_path(self) -> Iterator[None]:
        """Execute the statements of the block, each a single one, under the user's search path."""
        with self._under(users_path=True):
            yield

    @contextmanager
    def in_users_path(self) -> Iterator[None]:
        """Take the user's search path until the end of the block, within a transaction."""
        if self.has_users_path:
            yield
            return
        self.execute(TAKE_USERS_PATH)
        self.has_users_path = True
        try:
            yield
        finally:
            self.has_users_path = False
        self.execute(LEAVE_AGAIN)

    @contextmanager
    def in_own_path(self) -> Iterator[None]:
        """Leave the user's search path until the end of the block, within a transaction."""
        if not self.has_users_path:
            yield
            return
        self.execute(LEAVE_USERS_PATH)
        self.has_users_path = False
        try:
            yield
        finally:
            self.has_users_path = True
        self.execute(TAKE_USERS_PATH)

    @contextmanager
    def own_path(self) -> Iterator[None]:
        """Execute the statements of the block, each a single one, without the user's path."""
        with self._under(users_path=False):
            yield

    @contextmanager
    def _under(self, *, users_path: bool) -> Iterator[None]:
        if (round_trips := self._round_trips) is not None:
            of_question, round_trips.users_path = round_trips.users_path, users_path
            try:
                yield
            finally:
                round_trips.users_path = of_question
            return
        before = self.has_users_path, self._is_scoped
        if self.has_users_path != users_path:
            self.has_users_path, self._is_scoped = users_path, not self._is_scoped
        try:
            yield
        finally:
            self.has_users_path, self._is_scoped = before

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
        if _has_pipelines():
            self._round_trips = round_trips = SharedRoundTrips(self)
            try:
                round_trips.make(calls, self._send_together)
            except Interrupted:
                raise
            except (psycopg.Error, PenstockError):
                pass
            finally:
                self._round_trips = None

    @property
    def is_asking(self) -> bool:
        """Whether the current statement is sent together with those of other calls."""
        return self._round_trips is not None

    def _send_together(
        self, questions: Sequence[Question], under_users_path: Sequence[Question]
    ) -> Sequence[psycopg.Cursor[tuple[Any, ...]]]:
        """Send questions in one round trip.

        Args:
            questions: the questions to ask without the user's search path.
            under_users_path: the questions to ask under it.

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
                if under_users_path:
                    self.execute(TAKE_USERS_PATH)
                    answers += [self.execute(*question) for question in under_users_path]
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
            return self._send_together(
                questions, under_users_path
            )  # the settings belonged to another session
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
        if not _has_pipelines():
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
        if self._each_time or not _has_pipelines():
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
        if self._each_time or not _has_pipelines():
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
                super().execute(f"{self._each_time}{self.leaving_path}".removeprefix("; ").encode())
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
        with connection.own_path():
            yield
        return
    with connection.transaction(), connection.in_own_path():
        yield


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
