"""Targets that another session replaces while a copy is being planned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock.backends.postgresql.load import target_facts
from penstock.errors import PermanentError, PlanningError, TableReplaced

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

COLUMNS = "id int PRIMARY KEY, word text"
ALL = "SELECT id, word FROM t ORDER BY id"
MODES = ("append", "truncate", "upsert", "swap")

Replace = Callable[[str, int], None]


@pytest.fixture
def words(pair: Pair) -> Pair:
    pair.both(f"CREATE TABLE t ({COLUMNS})")
    pair.source.run("INSERT INTO t SELECT n, 'w' FROM generate_series(1, 10) AS n")
    return pair


@pytest.fixture
def replace(words: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[Replace]:
    """Return a function that makes another session replace the target before some reads."""
    with psycopg.connect(words.target.url, autocommit=True) as other:

        def replaced(name: str, times: int) -> None:
            read: Callable[..., Any] = getattr(target_facts, name)
            calls = count()

            def late_read(connection: Any, keys: Sequence[Any], *more: Any) -> Any:
                if next(calls) < times:
                    other.execute(f"BEGIN; DROP TABLE t; CREATE TABLE t ({COLUMNS}); COMMIT")
                return read(connection, keys, *more)

            monkeypatch.setattr(target_facts, name, late_read)

        yield replaced


@pytest.mark.parametrize("mode", MODES)
def test_a_target_that_was_replaced_is_read_again(words: Pair, replace: Replace, mode: str) -> None:
    replace("columns_of", 1)
    words.copy(mode=mode)
    assert words.target.rows(ALL) == words.source.rows(ALL)


@pytest.mark.parametrize("mode", MODES)
def test_a_target_that_is_replaced_again_and_again_is_a_transient_error(
    words: Pair, replace: Replace, mode: str
) -> None:
    replace("columns_of", 100)
    with pytest.raises(TableReplaced, match=r"public\.t was dropped or recreated") as caught:
        words.plan(mode=mode)
    assert caught.value.transient


def test_columns_that_the_target_lacks_are_still_reported(words: Pair) -> None:
    words.target.run("ALTER TABLE t DROP COLUMN word")
    with pytest.raises(PlanningError, match="the target has no such column"):
        words.plan()


def test_a_table_that_may_not_be_looked_up_is_a_lasting_error(words: Pair) -> None:
    words.target.run(
        "CREATE SCHEMA dw", f"CREATE TABLE dw.t ({COLUMNS})", "CREATE ROLE outsider LOGIN"
    )
    try:
        url = words.target.url.replace("//postgres", "//outsider", 1)
        with pytest.raises(PermanentError, match="permission denied for schema dw"):
            words.plan(target=url, target_table="dw.t")
    finally:
        words.target.run("DROP ROLE outsider")
