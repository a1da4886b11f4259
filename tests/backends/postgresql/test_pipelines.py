"""Statements sent together in a pipeline: errors and interruptions."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.pq import PipelineStatus, TransactionStatus

from penstock.backends.postgresql.connection import connect
from penstock.backends.postgresql.session.cancellable import compute_all
from penstock.backends.postgresql.session.statements import raw
from penstock.errors import Interrupted, StallError
from penstock.workers.stream import Meter, Waiter

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

    from penstock.backends.postgresql.connection import Connection

SECONDS = 0.5


@pytest.fixture
def session(pair: Pair) -> Iterator[Connection]:
    pair.target.run("CREATE TABLE t (id int PRIMARY KEY)")
    with connect(pair.target.url, "target", "test", set_up=False) as connection:
        yield connection


@pytest.fixture
def locked(pair: Pair, session: Connection) -> Iterator[Connection]:
    """A session, while another one has locked its table."""
    with psycopg.connect(pair.target.url) as other:
        other.execute("LOCK TABLE t")
        yield session


@contextmanager
def raising(error: BaseException) -> Iterator[None]:
    """Raise the exception soon, from a signal handler, wherever this thread waits."""

    def handle(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _insert_together(
    session: Connection, *numbers: int, then: BaseException | None = None
) -> list[int]:
    """Insert numbers and read a setting in one pipeline; return the row counts.

    Args:
        then: an exception to raise in the block.
    """
    with session.together():
        inserted = [session.execute("INSERT INTO public.t VALUES (%s)", [each]) for each in numbers]
        style = session.execute("SELECT current_setting('DateStyle')")
        if then is not None:
            raise then
    assert style.fetchall() == [("ISO, YMD",)]
    return [cursor.rowcount for cursor in inserted]


def test_without_a_transaction_statements_share_one_with_its_settings(
    pair: Pair, session: Connection
) -> None:
    assert _insert_together(session, 1, 2) == [1, 1]
    assert session.info.transaction_status == TransactionStatus.IDLE
    assert pair.target.count("t") == 2


def test_a_transaction_starts_with_its_settings(session: Connection) -> None:
    with session.together():
        session.begin()
        style = session.execute("SELECT current_setting('DateStyle')")
        inserted = session.execute("INSERT INTO public.t VALUES (%s), (%s)", [1, 2])
    assert style.fetchall() == [("ISO, YMD",)]
    assert inserted.rowcount == 2
    assert session.info.transaction_status == TransactionStatus.INTRANS


def test_the_first_error_is_raised_and_later_statements_are_skipped(session: Connection) -> None:
    session.execute("INSERT INTO public.t VALUES (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        _insert_together(session, 2, 1, 3)
    assert session.info.transaction_status == TransactionStatus.IDLE
    assert session.execute("SELECT id FROM public.t").fetchall() == [(1,)]


@pytest.mark.parametrize("error", [StallError("stalled"), Interrupted("cancelled")], ids=str)
def test_an_interruption_ends_the_wait_for_answers(
    locked: Connection, error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised, raising(error):
        _insert_together(locked, 1, 2)
    assert raised.value is error
    assert locked.closed


def test_an_error_in_the_block_is_raised_despite_missing_answers(
    locked: Connection,
) -> None:
    error = Interrupted("cancelled")
    with pytest.raises(Interrupted):
        _insert_together(locked, 1, then=error)
    assert locked.closed


def test_several_expressions_are_computed_together(session: Connection) -> None:
    wait = Waiter(Meter(), 60)
    insert = sql.SQL("INSERT INTO public.t SELECT generate_series({}, 10)")
    session.execute("BEGIN")
    counts = compute_all(
        session, [insert.format(1), sql.SQL("DELETE FROM public.t")], "target", wait
    )
    assert counts == [10, 10]
    session.execute("COMMIT")
    again: Callable[[], list[int]] = lambda: compute_all(  # noqa: E731
        session,
        [insert.format(1), insert.format(9), sql.SQL("DELETE FROM public.t")],
        "target",
        wait,
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        again()
    assert session.pgconn.pipeline_status == PipelineStatus.OFF
    assert session.execute("SELECT count(*) FROM public.t").fetchall() == [(0,)]


def test_each_expression_is_a_statement_of_its_own(session: Connection) -> None:
    """A condition is the user's, and cannot extend beyond its statement."""
    wait = Waiter(Meter(), 60)
    deletion = sql.SQL("DELETE FROM public.t WHERE {}").format(
        raw("true); DROP TABLE public.t; SELECT (1")
    )
    with pytest.raises(psycopg.errors.SyntaxError, match="multiple commands"):
        compute_all(session, [sql.SQL("SELECT 1"), deletion], "target", wait)
    assert session.execute("SELECT count(*) FROM public.t").fetchall() == [(0,)]
