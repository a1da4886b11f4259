"""Control tables, which MySQL creates one by one: partly created, and created by two at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

import penstock
from penstock.backends.mysql.connection import connect
from penstock.backends.mysql.dialect import BY_BYTES
from penstock.backends.mysql.records import MySqlRecords, ddl
from penstock.backends.mysql.session import MySqlSession
from penstock.errors import PermanentError, StallError

from .mysql_pair import RUN_ID, Pair, execute, rows

pytestmark = pytest.mark.both_servers

TABLES = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'penstock'"
STATEMENTS = ddl("penstock").split(";\n")


@pytest.fixture
def without(pair: Pair) -> Iterator[Pair]:
    """A pair without control tables."""
    execute(pair.target, "DROP DATABASE IF EXISTS penstock")
    yield pair
    execute(pair.target, "DROP DATABASE IF EXISTS penstock")


@pytest.mark.parametrize("executed", range(1, len(STATEMENTS)))
def test_creation_that_was_killed_is_completed(without: Pair, executed: int) -> None:
    """Whichever statement was the last: the next run creates the rest, and readers find no runs."""
    execute(without.target, *STATEMENTS[:executed])
    assert not penstock.runs(target=without.target)
    without.copy().ended(0)
    without.check_done()
    assert rows(without.target, TABLES) == [(len(STATEMENTS) - 1,)]


def test_a_missing_table_is_not_created_again(without: Pair) -> None:
    without.copy().ended(0)
    execute(without.target, "DROP TABLE penstock.commit_record")
    with pytest.raises(PermanentError, match="lacks commit_record"):
        penstock.status(RUN_ID, target=without.target)


def test_two_runs_create_them_at_once(without: Pair) -> None:
    """The second waits for the first, however long that takes, or says that it does."""
    with (
        closing(connect(without.target, "target")) as first,
        closing(connect(without.target, "target")) as second,
    ):
        maker, waiter = (
            MySqlRecords(MySqlSession(session, BY_BYTES), "penstock") for session in (first, second)
        )
        waiter.patience = replace(waiter.patience, grace=600, stall_timeout=2)
        with maker.making(), pytest.raises(StallError, match="held by session"):
            waiter.create()
        assert rows(without.target, TABLES) == [(0,)]
        waiter.create()
        maker.create()
    assert rows(without.target, TABLES) == [(len(STATEMENTS) - 1,)]
