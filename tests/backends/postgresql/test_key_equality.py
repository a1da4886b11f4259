"""The list of a key's values uses the same equality as the partitions that select and delete
them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import PlanningError
from penstock_testkit import Server

from ...conftest import fresh_database

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backends.conftest import Pair

PAIR = "CREATE TYPE pair AS (a int, b numeric)"
LETTERS = (
    "CREATE COLLATION letters (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"
)


@pytest.fixture
def icu(older_server: Server, make_pair: Callable[..., Pair]) -> Iterator[Pair]:
    """Databases on a server with ICU, which the one from PyPI lacks."""
    with (
        fresh_database(older_server) as mine,
        fresh_database(older_server) as theirs,
        psycopg.connect(mine, autocommit=True) as source,
        psycopg.connect(theirs, autocommit=True) as target,
    ):
        if not source.execute("SELECT FROM pg_collation WHERE collprovider = 'i'").fetchall():
            pytest.skip("this server has no ICU; postgresql-15 of Debian has it")
        yield make_pair(mine, theirs, source, target)


def test_composite_values_of_nulls_are_values(pair: Pair) -> None:
    pair.both(PAIR, "CREATE DOMAIN named AS pair", "CREATE TABLE t (id int, k pair, d named)")
    values = "('(,)'), ('(1,)'), ('(,1)'), ('(1,1.0)'), ('(1,1.00)'), (NULL)"
    pair.source.run(
        f"INSERT INTO t SELECT n, v::pair, v::pair FROM (VALUES {values}) AS x (v),"
        " generate_series(1, 5) AS n"
    )
    for key in ("k", "d"):
        for mode in ("truncate", "replace", "replace"):
            report = pair.copy(strategy="values", key=key, mode=mode)
            assert report.rows == 30
            pair.assert_same()
    with pytest.raises(PlanningError, match="found a row, whose values no condition can name"):
        pair.plan(strategy="values", key="ROW(id, k)")


def test_a_key_that_the_target_compares_differently(pair: Pair) -> None:
    pair.both("CREATE EXTENSION citext", "CREATE TABLE t (id int, k citext)")
    pair.source.run(
        "INSERT INTO t SELECT n, v FROM unnest('{a,A,b}'::text[]) AS v, generate_series(1, 2) AS n"
    )
    pair.copy(strategy="values", key="k")
    pair.assert_same()
    hashed: dict[str, Any] = {"strategy": "hash", "key": "k", "partitions": 2, "mode": "replace"}
    pair.copy(**hashed)
    pair.assert_same()
    for type_ in ("citext", "text"):
        pair.target.run(f"ALTER TABLE t ALTER k TYPE {type_}")
        with pytest.raises(PlanningError, match="--strategy hash"):
            pair.plan(strategy="values", key="k", mode="replace")
    pair.both("DROP TABLE t")
    pair.source.run("CREATE TABLE t (id int, k interval)", "INSERT INTO t VALUES (1, '1 mon')")
    pair.target.run("CREATE TABLE t (id int, k time)")
    with pytest.raises(PlanningError, match="--key k"):
        pair.plan(strategy="values", key="k", mode="replace")


WORDS = "'a', 'A', 'á', 'a' || chr(769), 'ss', 'ß', '', chr(8203), 'b', 'B'"


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_texts_that_a_collation_considers_equal(icu: Pair, mode: str) -> None:
    icu.both(LETTERS, "CREATE TABLE t (id int, k text COLLATE letters)")
    icu.source.run(
        f"INSERT INTO t SELECT n, v FROM unnest(ARRAY[{WORDS}]) AS v, generate_series(1, 6) AS n",
        "ANALYZE t",
    )
    listed = f"SELECT unnest(ARRAY[{WORDS}])"
    cuts: tuple[dict[str, Any], ...] = (
        {"strategy": "values"},
        {"strategy": "values", "values_query": listed},
        {"strategy": "ntile", "partitions": 5},
        {"strategy": "range", "partitions": 5},
        {"strategy": "hash", "partitions": 3},
    )
    for cut in cuts:
        icu.target.run("TRUNCATE t") if mode == "append" else None
        assert icu.copy(key="k", mode=mode, **cut).rows == 60
        icu.assert_same(columns='t.id, t.k COLLATE "C"')
