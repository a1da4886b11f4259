"""Nights by a column, from each system that supports it, into each that can merge nights."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import psycopg
import pytest
from tests.nights.by_column import by_column, merged
from tests.one_copy import OneCopy

from penstock.backends.api.optional.cursors import ReadsByColumn
from penstock.backends.api.registry import find_backend
from penstock.model.extents import Whole
from penstock.model.nights import Cursor
from penstock.model.tables import TableRef
from penstock_testkit import connect_clickhouse, connect_snowflake
from penstock_testkit.mysql import connect_mysql

Rows = list[tuple[Any, ...]]


@dataclass
class Database(ABC):
    """A database with a table of items."""

    url: str
    schema: str

    changed: ClassVar[str] = "timestamp"
    """The type of the column that shows changes."""
    own: ClassVar[dict[str, Any]] = {}
    """Options that a night from this database needs."""

    @property
    def table(self) -> str:
        return f"{self.schema}.items"

    @abstractmethod
    def run(self, *statements: str) -> None: ...

    @abstractmethod
    def rows(self, query: str) -> Rows: ...

    def make(self) -> None:
        self.run(
            f"CREATE TABLE items (id int PRIMARY KEY, word varchar(20), changed {self.changed},"
            f" made {self.changed})"
        )


class Connected(Database):
    def open(self) -> Any:
        raise NotImplementedError

    def run(self, *statements: str) -> None:
        with closing(self.open()) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, query: str) -> Rows:
        with closing(self.open()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(query)
            return [tuple(row) for row in cursor.fetchall()]


class Postgres(Connected):
    def open(self) -> Any:
        return psycopg.connect(self.url, autocommit=True)


class MariaDB(Connected):
    changed = "datetime(6)"

    def open(self) -> Any:
        return connect_mysql(self.url)


class DuckDB(Connected):
    def open(self) -> Any:
        deadline = time.monotonic() + 30
        while True:
            try:
                return duckdb.connect(self.url.removeprefix("duckdb:///"))
            except duckdb.Error:  # a thread of a copy in this process has not closed it yet
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.1)


class Snowflake(Connected):
    changed = "timestamp_ntz(6)"
    # The emulator does not support time travel.
    own: ClassVar[dict[str, Any]] = {"snapshot": "none"}

    def open(self) -> Any:
        return connect_snowflake(self.url)


class ClickHouse(Database):
    own: ClassVar[dict[str, Any]] = {"snapshot": "none"}

    def make(self) -> None:
        self.run(
            "CREATE TABLE items (id Int32, word Nullable(String), changed Nullable(DateTime64(6,"
            " 'UTC')), made Nullable(DateTime64(6, 'UTC'))) ENGINE = MergeTree ORDER BY id"
        )

    def run(self, *statements: str) -> None:
        with closing(connect_clickhouse(self.url)) as client:
            for statement in statements:
                client.command(_mutation(statement))

    def rows(self, query: str) -> Rows:
        with closing(connect_clickhouse(self.url)) as client:
            return [tuple(row) for row in client.query(query).result_rows]


def _mutation(statement: str) -> str:
    """Rewrite an UPDATE, which ClickHouse lacks, as a mutation."""
    if not statement.startswith("UPDATE "):
        return statement
    of, _, change = statement.removeprefix("UPDATE ").partition(" SET ")
    return f"ALTER TABLE {of} UPDATE {change} SETTINGS mutations_sync = 2"


def schema_of(url: str) -> str:
    return url.rpartition("/")[2].partition("?")[0]


OPENED: dict[str, Callable[[pytest.FixtureRequest, Path], Database]] = {
    "postgresql": lambda request, _: Postgres(request.getfixturevalue("source_url"), "public"),
    "mariadb": lambda request, _: maria(request.getfixturevalue("mysql_url")),
    "duckdb": lambda _, folder: DuckDB(f"duckdb:///{folder}/source.duckdb", "main"),
    "clickhouse": lambda request, _: clickhouse(request.getfixturevalue("clickhouse_url")),
    "snowflake": lambda request, _: Snowflake(request.getfixturevalue("snowflake_url"), "public"),
}


def maria(url: str) -> Database:
    return MariaDB(url, schema_of(url))


def clickhouse(url: str) -> Database:
    return ClickHouse(url, schema_of(url))


@pytest.fixture(params=list(OPENED))
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    opened = OPENED[request.param](request, tmp_path)
    opened.make()
    opened.run(
        "INSERT INTO items VALUES "
        + ", ".join(
            f"({i}, 'w{i}', '2026-01-01 00:00:{i % 60:02}.{i:06}', NULL)" for i in range(100)
        )
    )
    return opened


@pytest.fixture
def target(target_url: str) -> Database:
    return Postgres(target_url, "public")


def night(source: Database, target: Database, **options: Any) -> OneCopy:
    ends = {"table": source.table, "target_table": target.table, **source.own}
    return by_column(source.url, target.url, **{**ends, "conflict_columns": ("id",), **options})


ALL = "SELECT id, word FROM items ORDER BY id"


def check_same(source: Database, target: Database) -> None:
    assert target.rows(ALL) == source.rows(ALL)


def test_only_changed_rows_are_read(source: Database, target: Database) -> None:
    target.make()
    assert merged(night(source, target)).rows == 100
    last = "'2026-01-01 00:00:59.000059'"
    source.run(
        f"UPDATE items SET word = 'tie', changed = {last} WHERE id = 7",
        "UPDATE items SET word = 'new', changed = '2026-01-01 00:00:59.000060' WHERE id = 8",
    )
    second = merged(night(source, target))
    # Rows with the last night's maximum value are read again: the old one, and a new one.
    assert (second.full, second.rows, second.updated) == ("", 3, 2)
    check_same(source, target)
    assert merged(night(source, target)).rows == 1
    assert second.unproven


@pytest.mark.parametrize(("mine", "into"), [("mariadb", "duckdb"), ("duckdb", "mariadb")])
def test_nights_between_systems(
    mine: str, into: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "target").mkdir()
    source = OPENED[mine](request, tmp_path / "source")
    target = OPENED[into](request, tmp_path / "target")
    source.make()
    source.run("INSERT INTO items SELECT 1, 'a', '2026-01-01 00:00:00.000001', NULL")
    source.run("INSERT INTO items SELECT 2, 'b', '2026-01-01 00:00:00.000002', NULL")
    target.make()
    arguments = {"deletes": "hard,100%"}
    assert merged(night(source, target, **arguments)).full == "this is the first night"
    source.run("DELETE FROM items WHERE id = 1")
    source.run("INSERT INTO items SELECT 3, 'c', '2026-01-01 00:00:00.000003', NULL")
    found = merged(night(source, target, **arguments))
    # Row counts agree, so counting alone would not reveal the deleted row.
    assert (found.full, found.rows, found.inserted, found.deleted) == ("", 2, 1, 1)
    check_same(source, target)


TYPES: dict[str, dict[str, tuple[str, str, str]]] = {
    "postgresql": {
        "date": ("'2026-03-01'", "2026-03-01", "2026-02-27"),
        "timestamp": ("'2026-03-01 12:00:00.000001'", "2026-03-01 12:00:00.000001", ""),
        "numeric(30,10)": ("12345678901234567890.0000000001", "", "12345678901234567889"),
        "bigint": ("9223372036854775807", "9223372036854775807", "9223372036854775806"),
    },
    "mariadb": {
        "date": ("'2026-03-01'", "2026-03-01", "2026-02-27"),
        "datetime(6)": ("'2026-03-01 12:00:00.000001'", "2026-03-01 12:00:00.000001", ""),
        "timestamp(3) NULL": ("'2026-03-01 12:00:00.123'", "2026-03-01 12:00:00.123", ""),
        "bigint unsigned": ("18446744073709551615", "18446744073709551615", "18446744073709551614"),
        "decimal(30,10)": ("12345678901234567890.0000000001", "", "12345678901234567889"),
    },
    "duckdb": {
        "date": ("'2026-03-01'", "2026-03-01", "2026-02-27"),
        "timestamp_ns": ("'2026-03-01 12:00:00.000000001'", "2026-03-01 12:00:00.000000001", ""),
        "timestamptz": ("'2026-03-01 12:00:00.000001+02'", "2026-03-01 10:00:00.000001+00", ""),
        "decimal(30,10)": ("12345678901234567890.0000000001", "", "12345678901234567889"),
        "ubigint": ("18446744073709551615", "18446744073709551615", "18446744073709551614"),
    },
    "clickhouse": {
        "Date32": ("'2026-03-01'", "2026-03-01", "2026-02-27"),
        "DateTime64(6, 'UTC')": ("'2026-03-01 12:00:00.000001'", "2026-03-01 12:00:00.000001", ""),
        "UInt64": ("18446744073709551615", "18446744073709551615", "18446744073709551614"),
    },
    "snowflake": {
        "date": ("'2026-03-01'", "2026-03-01", "2026-02-27"),
        "timestamp_ntz(6)": ("'2026-03-01 12:00:00.000001'", "2026-03-01 12:00:00.000001", ""),
        "number(38,0)": ("1234567890123456789", "", "1234567890123456788"),
    },
}
KINDS = [(name, kind) for name, kinds in TYPES.items() for kind in kinds]


@pytest.mark.parametrize(("name", "kind"), KINDS, ids=[f"{name}-{kind}" for name, kind in KINDS])
def test_values_of_a_type_are_compared_exactly(
    name: str, kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The text of the maximum value is exact, and selects its row by the source's own comparison;
    subtracting a lookback gives a value of the same type."""
    database = OPENED[name](request, tmp_path)
    value, text, earlier = TYPES[name][kind]
    engine = " ENGINE = MergeTree ORDER BY id" if name == "clickhouse" else ""
    database.run(f"CREATE TABLE items (id int, changed {kind}){engine}")
    database.run(f"INSERT INTO items SELECT 1, {value}")
    relation = TableRef.parse(database.table, "table")
    with closing(find_backend(database.url, "--source")[0].source(database.url)) as source:
        assert isinstance(source, ReadsByColumn)
        now = source.cursor(relation, None, ["changed"], 0)
        assert now.text.startswith(text)
        cursor = Cursor(now.columns, now.type, now.text, "")
        found = source.cursor_range(relation, cursor, now, "0", nulls=False)
        assert source.checksum(relation, found.condition, Whole(), ()).rows == 1
        assert not found.behind
        lookback = "36h" if not earlier or "-" in earlier else "1"
        back = source.cursor_range(relation, cursor, now, lookback, nulls=False)
        assert back.lower.startswith(earlier)
        assert source.checksum(relation, back.condition, Whole(), ()).rows == 1
        # A slightly greater value does not select it.
        later = replace(now, text=back.lower)
        assert source.cursor_range(relation, cursor, later, "0", nulls=False).behind
