"""Streams read without libpq: other messages of the server arrive too."""

from __future__ import annotations

import pytest
from tests.backends.conftest import Pair

from penstock import PenstockError
from penstock.backends.postgresql.session.cancellable import SENT_AT_ONCE

pytestmark = pytest.mark.usefixtures("both_paths")

SAYING = """
    CREATE FUNCTION saying(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN n; END $$
"""
# Not while the query is planned.
STREAMING = "current_setting('application_name') LIKE 'penstock:%:p0001:%'"
QUERY = "SELECT saying(n) AS n, 'x' AS a FROM generate_series(1, 20000) AS n"


@pytest.fixture
def table(pair: Pair) -> Pair:
    pair.target.run("CREATE TABLE t (n int, a text)")
    return pair


def query(pair: Pair, text: str) -> None:
    pair.copy(None, query=text, target_table="public.t")


def test_notices_among_rows_arrive(table: Pair) -> None:
    """More of them than any buffer can take."""
    table.source.run(SAYING.format(body="RAISE NOTICE '%', repeat('n', 1000)"))
    query(table, QUERY)
    assert table.target.count() == 20_000


@pytest.mark.parametrize("row", [1, 15_000])
def test_an_error_of_a_megabyte_arrives(table: Pair, row: int) -> None:
    """With its code, before the first row and in mid-stream."""
    table.source.run(
        SAYING.format(
            body=f"IF n = {row} AND {STREAMING} THEN RAISE EXCEPTION '%', repeat('e', 1000000)"
            " USING ERRCODE = 'P4711', HINT = 'a hint'; END IF"
        )
    )
    with pytest.raises(PenstockError) as caught:
        query(table, QUERY)
    message = str(caught.value) + "".join(caught.value.__notes__)
    assert "source: " + "e" * 1000 in message
    assert "P4711" in message
    assert "a hint" in message
    assert table.target.count() == 0


def test_a_statement_that_is_not_sent_at_once(pair: Pair) -> None:
    names = [f"a_column_with_quite_a_long_name_{number}" for number in range(400)]
    pair.both(f"CREATE TABLE t ({', '.join(f'{name} int' for name in names)})")
    pair.source.run(f"INSERT INTO t ({names[0]}) SELECT generate_series(1, 1000)")
    assert sum(map(len, names)) > SENT_AT_ONCE
    pair.copy()
    pair.assert_same()


def test_rows_of_all_sizes_arrive(pair: Pair) -> None:
    """Around the sizes of single reads and writes."""
    pair.both("CREATE TABLE t (n int, a text)", "ALTER TABLE t ALTER a SET STORAGE external")
    around = (0, 2**13, 2**17, 2**18, 2**19, 2**23)
    sizes = [size + more for size in around for more in range(-9, 9)]
    for number, size in enumerate(sizes):
        pair.source.run(f"INSERT INTO t VALUES ({number}, repeat('é', {max(size, 0)} / 2))")
    pair.copy(partitions=3)
    pair.assert_same(columns="n, length(a), md5(a)")
