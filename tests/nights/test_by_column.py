"""Nights by a column from PostgreSQL: each rule by itself."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from tests.backends.conftest import Pair, Side
from tests.nights.by_column import by_column, merged
from tests.one_copy import OneCopy

ALL = "SELECT id, word, changed::text FROM items ORDER BY id"


@pytest.fixture
def pair(source_url: str, target_url: str, source: psycopg.Connection[Any], target: Any) -> Pair:
    return Pair(Side(source_url, source), Side(target_url, target))


@pytest.fixture
def items(pair: Pair) -> Pair:
    pair.source.run(
        "CREATE TABLE items (id int PRIMARY KEY, word text, changed timestamptz)",
        "INSERT INTO items SELECT i, 'w' || i, timestamptz '2026-01-01 00:00:00.123456+00'"
        " + i * interval '1 min' FROM generate_series(1, 200) AS i",
        "CREATE INDEX ON items (changed)",
    )
    return pair


def night(pair: Pair, **options: Any) -> OneCopy:
    return by_column(pair.source.url, pair.target.url, **options)


def check_same(pair: Pair) -> None:
    assert pair.target.rows(ALL) == pair.source.rows(ALL)


def test_only_what_has_changed_is_read(items: Pair) -> None:
    first = merged(night(items))
    assert (first.full, first.rows) == ("this is the first night", 200)
    items.source.run("UPDATE items SET word = 'new', changed = now() WHERE id = 5")
    second = merged(night(items))
    # The row of the last night's greatest value is read again.
    assert (second.full, second.rows, second.updated) == ("", 2, 1)
    check_same(items)
