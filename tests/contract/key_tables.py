"""Tables of hard keys: a row number, and a column for each key."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import duckdb

from penstock_testkit import connect_clickhouse

from .database import Database, SqlDatabase
from .keys import Keys

NULLS = 0.1


class KeyTable:
    def __init__(self, database: Database, keys: Keys) -> None:
        self._database = database
        self._keys = keys

    def fill(self, rows: int, chance: random.Random) -> None:
        """Create the table, with random values for each column."""
        new_rows = [self._row(number, chance) for number in range(rows)]
        if self._database.name == "parquet":
            self._write_files(new_rows)
        else:
            self.make()
            self._execute(f"INSERT INTO {self._database.table} VALUES {', '.join(new_rows)}")

    def make(self) -> None:
        """Create the table without rows."""
        for statement in self._keys.before:
            self._execute(statement)
        self._execute(f"CREATE TABLE {self._database.table} ({self._columns}){self._keys.ends}")

    def ids(self) -> list[int]:
        """Return the row numbers, sorted."""
        database, query = self._database, f"SELECT id FROM {self._database.table}"
        if isinstance(database, SqlDatabase):
            with database.connected() as connection:
                cursor = connection.cursor()
                cursor.execute(query)
                found = cursor.fetchall()
        elif database.name == "parquet":
            with duckdb.connect() as connection:
                found = connection.sql(f"SELECT id FROM '{self._folder}/**/*.parquet'").fetchall()
        else:
            with closing(connect_clickhouse(database.url)) as client:
                found = client.query(query).result_rows
        return sorted(number for (number,) in found)

    @property
    def _folder(self) -> Path:
        return Path(urlsplit(self._database.url).path)

    @property
    def _columns(self) -> str:
        q = '"' if self._database.name != "mysql" else "`"
        named = [f"{q}{name}{q} {type_}" for name, (type_, _) in self._keys.columns.items()]
        return ", ".join([f"{q}id{q} {'Int64' if self._keys.ends else 'bigint'}", *named])

    def _row(self, number: int, chance: random.Random) -> str:
        values = [
            "NULL"
            if chance.random() < NULLS and not type_.startswith(("Array", "Tuple"))
            else chance.choice(values)
            for type_, values in self._keys.columns.values()
        ]
        return f"({', '.join([str(number), *values])})"

    def _execute(self, statement: str) -> None:
        if isinstance(self._database, SqlDatabase):
            self._database.execute(statement)
        else:
            with closing(connect_clickhouse(self._database.url)) as client:
                client.command(statement)

    def _write_files(self, rows: list[str]) -> None:
        folder = self._folder
        folder.mkdir(parents=True)
        with duckdb.connect() as connection:
            for statement in self._keys.before:
                connection.execute(statement)
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"CREATE TABLE t ({self._columns})")
            connection.execute(f"INSERT INTO t VALUES {', '.join(rows)}")
            for part in range(2):
                connection.execute(
                    f"COPY (FROM t WHERE id % 2 = {part}) TO '{folder}/{part}.parquet'"
                    " (FORMAT parquet)"
                )
