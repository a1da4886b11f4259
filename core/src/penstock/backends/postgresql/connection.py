"""Sessions: their settings, their transactions, and how they are cancelled."""

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
from penstock.backends.postgresql.session.asked_together import AskedTogether, Question
from penstock.backends.shared.in_use import CALL_SECONDS, InUse
from penstock.errors import Interrupted, PenstockError

if TYPE_CHECKING:
    from psycopg.abc import PQGen

T = TypeVar("T")

PLAN, CONTROL = "penstock:plan", "penstock:control"
"""How sessions of catalogs are called."""
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
SET_UP = (
    "SELECT pg_catalog.set_config(name, value, false)"
    " FROM unnest(%s::text[], %s::text[]) AS s (name, value)"
    " WHERE pg_catalog.pg_backend_pid() = %s"
)
# Without a pooler they stay when the transaction is committed.
SET_IN_BATCH = (
    "SELECT pg_catalog.set_config(name, value, pg_catalog.pg_backend_pid() <> %s)"
    " FROM unnest(%s::text[], %s::text[]) AS s (name, value)"
)
SETTINGS_17 = {"transaction_timeout": "0"}
SET_PATH = "SELECT pg_catalog.set_config('search_path', %s, true)"
FULL = "pg_catalog, pg_temp"
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
        set_up: apply the settings to the session, with what it is asked first; else each `begin`
            applies them.

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
    """Watches a session's statements; see `Guard`."""

    run_id: str
    find: Callable[[Connection], int | None] | None

    def watching(self, connection: Connection) -> AbstractContextManager[None]: ...


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that keeps its settings behind a pooler too.

    A pooler may give each transaction another of its server's sessions, so there every
    transaction sets them anew, for itself alone.

    Any thread may close it. One that executes something on it at that moment does so for it. What
    uses its `pgconn` itself, a worker's stream for instance, is on the thread that closes it.
    """

    side = ""
    """Where it is set, a lost connection is a `TransientError`, whatever was asked."""
    guard: Watch | None = None
    """Watches the statements that are executed from now on."""
    _set: Mapping[str, str]
    _is_set = True
    """Whether the session has its settings, or each transaction sets them."""
    _is_named = True
    """Whether the session has the name that it is to have."""
    _opened_on = ""
    _each_time = ""
    _asking: AskedTogether | None = None
    _answered: AskedTogether | None = None
    """Answers to what is asked next."""
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
        """Show the server's monitoring another name, from the next statement on."""
        settings = {**self._set, "application_name": application_name}
        if self._each_time:
            self.set_in_transactions(settings)
        else:
            self._is_named = not self._is_set  # else it is among those that are still to be set
            self._set = settings

    def set_up_later(self, settings: Mapping[str, str], side: str) -> None:
        """Set them together with what is asked first: that is a round trip less."""
        self._set, self._is_set, self._opened_on = settings, False, side

    def set_up(self, settings: Mapping[str, str]) -> None:
        """Set them for the session, where it is one: a pooler shows process ids of its own."""
        if self._asking is not None:
            raise psycopg.OperationalError("settings are not asked for")
        self._set, self._is_set = settings, True
        if self.execute(*self._setting()).rowcount == 0:
            self.set_in_transactions(settings)

    def _setting(self) -> tuple[str, Sequence[Any]]:
        return SET_UP, [list(self._set), list(self._set.values()), self.info.backend_pid]

    def _settle(self) -> None:
        """
        Raises:
            PenstockError: as `connect`. A pooler says only now what it thinks of a session.
        """
        if not self._is_set:
            try:
                self.set_up(self._set)
            except psycopg.Error as error:
                self._is_set = False
                raise from_connecting(error, self._opened_on) from error
        if not self._is_named and not self._is_sending_together:
            with self._translated_loss():
                super().execute(*self._naming())
            self._is_named = True

    def _naming(self) -> tuple[str, Sequence[str]]:
        query = "SELECT pg_catalog.set_config('application_name', %s, false)"
        return query, [self._set["application_name"]]

    def set_in_transactions(self, settings: Mapping[str, str]) -> None:
        """Have each transaction begin with them."""
        self._set, self._is_set = settings, True
        self._each_time = "".join(
            f"; SET LOCAL {SET_IN_TRANSACTION.get(name, name)} = "
            + sql.Literal(value).as_string(self)
            for name, value in settings.items()
            if name not in SET_OUTSIDE
        )

    @property
    def pooled(self) -> bool:
        """Whether a pooler lends its server's sessions: then locks must end with a transaction."""
        if not self._is_set:
            self._settle()
        return bool(self._each_time)

    def begin(self, how: str = "", then: str = "") -> psycopg.Cursor[tuple[Any, ...]]:
        """Begin a transaction by hand, in one round trip.

        Parameters:
            then: its first statements, for a transaction that is not begun `together` with others.

        Returns: the results of all statements.
        """
        self._settle()
        if self._is_sending_together:  # one statement at a time
            self._begun = True
            begun = super().execute(f"BEGIN {how}".encode())
            if self._each_time:
                values = [self.info.backend_pid, list(self._set), list(self._set.values())]
                super().execute(SET_IN_BATCH, values)
            return begun
        also = f"; {then}" if then else ""
        with self._translated_loss():
            begun = super().execute(f"BEGIN {how}{self._each_time}{also}".encode())
            if not how:  # nothing may be asked before a snapshot is imported
                self.note_pid()
        return begun

    def execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if self._asking is not None:
            return self._asking.answer(args)
        if self._answered is not None and (found := self._answered.take(args)) is not None:
            return found
        self._settle()
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

    def ask_together(self, calls: Iterable[Callable[[], object]]) -> None:
        """Make calls that only ask this server, together: see `AskedTogether`.

        Raises nothing but `Interrupted`. A call that cannot be made so is not made, nor one that
        comes after a question that the server refuses: whoever wants its answer makes it alone.
        """
        if psycopg.Pipeline.is_supported():
            self._asking = asking = AskedTogether(self)
            try:
                asking.make(calls, self._send_together)
            except Interrupted:
                raise
            except (psycopg.Error, PenstockError):
                pass
            finally:
                self._asking = None

    @contextmanager
    def asking_full_names(self) -> Iterator[None]:
        """See `full_names`."""
        asking = self._asking
        assert asking is not None
        before, asking.full_names = asking.full_names, True
        try:
            yield
        finally:
            asking.full_names = before

    @property
    def is_asking(self) -> bool:
        """Whether what is executed now is asked together with others."""
        return self._asking is not None

    def _send_together(
        self, questions: Sequence[Question], full: Sequence[Question]
    ) -> Sequence[psycopg.Cursor[tuple[Any, ...]]]:
        """
        Parameters:
            full: those that are asked where names are full.

        Raises:
            psycopg.Error: one is refused. A transaction goes on all the same.
        """
        asking, self._asking = self._asking, None
        within = not self._is_idle
        is_first, self._is_set = not self._is_set, True
        try:
            with self.together():
                own = self.execute(*self._setting()) if is_first else None
                if within:
                    self.execute("SAVEPOINT together")
                answers = [self.execute(*question) for question in questions]
                if full:
                    self.execute(SET_PATH, [FULL])
                    answers += [self.execute(*question) for question in full]
                if within:  # the path is what it was
                    self.execute("ROLLBACK TO together")
                    self.execute("RELEASE together")
        except BaseException:
            self._is_set = not is_first
            if self.info.transaction_status == TransactionStatus.INERROR:
                super().execute("ROLLBACK TO together; RELEASE together")
            raise
        finally:
            self._asking = asking
        if own is not None and own.rowcount == 0:
            self.set_in_transactions(self._set)
            return self._send_together(questions, full)  # the settings were another session's
        return answers

    @contextmanager
    def together(self, *, begin: bool = False, commit: bool = False) -> Iterator[None]:
        """Send all statements of the block before the server has answered the first of them.

        They cost one round trip, and are one transaction where none is open. Their cursors have
        results after the block, not within it. The first that fails raises at its end; the server
        skips those that follow. None may be a COPY. A libpq before 14 sends them one by one.

        Parameters:
            begin, commit: a transaction, in the same round trip. Else, where none is open, they are
                one of their own.
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
        self._begun, self._ends = not self._is_idle, False
        named = self._is_named
        with self._translated_loss(), self._watched():
            try:
                with self.pipeline():
                    try:
                        if not named:
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
                        abandon(self)  # to leave a pipeline is to wait for all answers
                        raise
            except psycopg.OperationalError as error:
                if not self._is_sending_together or error.__context__ is None:
                    raise
                # Something has interrupted that wait, so that the pipeline could not be left.
                abandon(self)
                raise error.__context__ from None
            finally:
                failed = self.info.transaction_status == TransactionStatus.INERROR
                if failed and (self._ends or begin):
                    super().execute("ROLLBACK")
                    self._is_named = named

    @contextmanager
    def transaction_of(
        self, *first: Question, reads: Iterable[Callable[[], object]] = ()
    ) -> Iterator[None]:
        """A transaction that begins with some statements, in one round trip.

        Parameters:
            first: the arguments of `execute` for each.
            reads: calls that are made in the transaction: what they ask first is asked with these
                statements, after them, and answered where it is asked.
        """
        if self._each_time or not psycopg.Pipeline.is_supported():
            # What a pooler has lent is asked before somebody waits.
            with self.transaction():
                for statement in first:
                    self.execute(*statement)
                yield
            return
        self._asking = asking = AskedTogether(self)
        try:
            questions = asking.first_questions(reads)
        finally:
            self._asking = None
        with self.together(begin=True):
            for statement in first:
                self.execute(*statement)
            answers = [self.execute(*question) for question in questions]
        asking.note(answers)
        self._answered = asking
        try:
            yield
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                super().execute("ROLLBACK")
            raise
        finally:
            self._answered = None
        self.execute("COMMIT")

    @contextmanager
    def whole_transaction(self) -> Iterator[None]:
        """Statements that are a transaction, sent as `together` does it."""
        if self._each_time or not psycopg.Pipeline.is_supported():
            with self.transaction():
                yield
            return
        with self.together(begin=True, commit=True):
            yield

    @contextmanager
    def _translated_loss(self) -> Iterator[None]:
        """What a lost connection means does not depend on what was asked when it was lost."""
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
        if self._asking is not None:
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
        """Find out which of its sessions a pooler has lent, where that matters."""
        if self._each_time and self.guard is not None and self.guard.find is None:
            ((self._pid,),) = super().execute("SELECT pg_catalog.pg_backend_pid()").fetchall()


@contextmanager
def full_names(connection: Connection) -> Iterator[None]:
    """A transaction in which the server writes, and reads, names with their schemas."""
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
