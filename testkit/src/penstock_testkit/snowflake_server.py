"""`python -m penstock_testkit.snowflake_server PORT [LOG]`: an emulator, not Snowflake itself.

It needs a temporary directory of its own, which it removes when its parent is gone.

It is fakesnow, which translates to DuckDB, behind a front that matches Snowflake where Penstock
relies on it: transactions that change something take turns, as with Snowflake's table locks,
instead of failing; a transaction whose client is gone is rolled back; DDL commits an open
transaction; errors are SQL errors rather than server errors; and some functions and statements that
fakesnow lacks are added.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import uvicorn
from fakesnow import arrow, copy_into, transforms
from fakesnow.cursor import FakeSnowflakeCursor
from fakesnow.transforms import stage
from snowflake.connector.errors import ProgrammingError
from sqlglot import Expr, exp, parse_one

from penstock_testkit.waiting import end_when_orphaned

HOST = "127.0.0.1"
# Snowflake itself waits for five minutes: https://docs.snowflake.com/en/sql-reference/transactions
IDLE_SECONDS = 2.0
_READING = {"SELECT", "SHOW", "DESCRIBE", "DESC", "WITH", "PUT", "LIST", "LS", "USE", "("}
_DDL = {"CREATE", "ALTER", "DROP"}
LOG = sys.argv[2] if len(sys.argv) > 2 else ""
_COPY = re.compile(r"\s*COPY\s+INTO\s", re.I)
_REMOVE = re.compile(r"\s*REMOVE\s+@(\S+)\s*", re.I)


_client: ContextVar[int] = ContextVar("_client")
"""The port of the client that sent the request."""


class Asked:
    """The application, with the port of each request's client."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if client := scope.get("client"):
            _client.set(client[1])
        await self._app(scope, receive, send)


def is_gone(port: int) -> bool:
    """Whether a client has closed its connection or was killed."""
    established = f"0100007F:{port:04X} 0100007F:{int(sys.argv[1]):04X} 01"
    return established not in Path("/proc/net/tcp").read_text(encoding="ascii")


class Turns:
    """The turn to change data, which one connection has at a time."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._owner: Any = None
        self._busy = 0
        self._idle_since = 0.0

    def take(self, connection: Any) -> None:
        with self._condition:
            while self._owner is not None and self._owner is not connection:
                if not self._busy and (
                    time.monotonic() - self._idle_since > IDLE_SECONDS
                    or is_gone(self._owner._client)
                ):
                    self._roll_back()
                    break
                self._condition.wait(0.05)
            self._owner = connection

    def _roll_back(self) -> None:
        with suppress(duckdb.Error):
            self._owner._duck_conn.rollback()
        self._owner._aborted = True
        self._owner = None

    def has(self, connection: Any) -> bool:
        return self._owner is connection

    @contextmanager
    def working(self, connection: Any) -> Iterator[None]:
        """Mark the owner as busy while it runs a statement."""
        mine = self.has(connection)
        self._busy += mine
        try:
            yield
        finally:
            with self._condition:
                self._busy -= mine
                self._idle_since = time.monotonic()

    def give(self, connection: Any) -> None:
        with self._condition:
            if self._owner is connection:
                self._owner, self._busy = None, 0
                self._condition.notify_all()

    def disconnect(self, connection: Any) -> None:
        with self._condition:
            if self._owner is connection:
                self._roll_back()
                self._condition.notify_all()


TURNS = Turns()
_CURSOR: Any = FakeSnowflakeCursor
_ARROW: Any = arrow
_COPYING: Any = copy_into
_TRANSFORMS: Any = transforms
_execute = _CURSOR.execute
_SWAP = re.compile(r"\s*ALTER\s+TABLE\s+(\S+)\s+SWAP\s+WITH\s+(\S+)\s*", re.I)


def execute(cursor: Any, command: str, *arguments: Any, **keywords: Any) -> Any:
    """Replace `FakeSnowflakeCursor.execute`, so that a session runs one statement at a time."""
    lock = cursor._conn.__dict__.setdefault("_lock", threading.RLock())
    with lock:
        cursor._conn._client = _client.get()
        if swapped := _SWAP.fullmatch(command):
            mine, theirs = swapped.groups()
            aside = f'{mine.rpartition(".")[0]}."swapped aside"'
            for old, new in ((mine, aside), (theirs, mine), (aside, theirs)):
                _turning(cursor, f"ALTER TABLE {old} RENAME TO {new}")
            return cursor
        started = time.time()
        try:
            return _turning(cursor, command, *arguments, **keywords)
        finally:
            if LOG and _COPY.match(command):
                with open(LOG, "a", encoding="ascii") as log:
                    log.write(f"{started} {time.time()}\n")


def _turning(cursor: Any, command: str, *arguments: Any, **keywords: Any) -> Any:
    connection = cursor._conn
    removed = _REMOVE.fullmatch(command)
    if removed:
        _remove(connection, removed[1])
        command = "SELECT 'removed' AS name"
    text = re.sub(r"\A(\s|/\*.*?\*/|--[^\n]*\n)+", "", command, flags=re.S)
    word = (re.match(r"\(|\w+", text) or [""])[0].upper()
    mine = TURNS.has(connection)
    if word in ("COMMIT", "ROLLBACK"):
        if connection.__dict__.pop("_aborted", False) and word == "COMMIT":
            raise ProgrammingError("the transaction was aborted", errno=604, sqlstate="57014")
        try:
            return _translated(lambda: _execute(cursor, command, *arguments, **keywords))
        finally:
            TURNS.give(connection)
    if mine and word in _DDL:
        _translated(lambda: _execute(cursor, "COMMIT"))
        TURNS.give(connection)
        mine = False
    if not mine and word not in _READING:
        TURNS.take(connection)
    try:
        with TURNS.working(connection):
            result = _translated(lambda: _execute(cursor, command, *arguments, **keywords))
        if word == "MERGE":
            cursor._last_sql = (
                "SELECT 0"  # a statement to describe instead, since DuckDB cannot describe MERGE
            )
        return result
    finally:
        if not mine and word not in _READING and word != "BEGIN":
            TURNS.give(connection)


def describe_last(cursor: Any) -> Any:
    """Replace `_describe_last_sql`, which parses and rewrites SQL that DuckDB has already run."""
    return cursor._duck_conn.execute(f"DESCRIBE {cursor._last_sql}", cursor._last_params).fetchall()


def _translated(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except duckdb.Error as error:
        raise ProgrammingError(str(error), errno=100132, sqlstate="P0000") from error
    except (AssertionError, NotImplementedError, AttributeError) as error:
        words = f"the emulator cannot do that: {type(error).__name__}: {error}"
        raise ProgrammingError(words, errno=9999, sqlstate="99999") from error


def _remove(connection: Any, path: str) -> None:
    name, _, below = path.partition("/")
    database, schema, stage_name = stage.parts_from_var(
        name, connection.database, connection._schema
    )
    folder = f"{stage.internal_dir(f'{database}.{schema}.{stage_name}')}/{below}".removeprefix(
        "file://"
    )
    shutil.rmtree(folder, ignore_errors=True)


_to_decimal, _upper = transforms.to_decimal, transforms.upper_case_unquoted_identifiers


def _is_hexadecimal(expression: Expr) -> bool:
    return set(str(expression.args.get("format"))) == set("X'")


def to_decimal(expression: Expr) -> Expr:
    """Translate TO_NUMBER of hexadecimal digits, which fakesnow cannot."""
    if isinstance(expression, exp.ToNumber) and set(str(expression.args.get("format"))) == set(
        "X'"
    ):
        number = parse_one("CAST('0x' || x AS UBIGINT)", read="duckdb")
        number.find(exp.Column).replace(expression.this)  # type: ignore[union-attr] # it is there
        return number
    return _to_decimal(expression)


def to_text(expression: Expr) -> Expr:
    """Translate TO_CHAR to hexadecimal digits; hooks into the first transformation."""
    if isinstance(expression, exp.ToChar) and set(str(expression.args.get("format"))) == set("X'"):
        return exp.Anonymous(
            this="hex", expressions=[exp.cast(expression.this, exp.DataType.Type.UBIGINT)]
        )
    return _upper(expression)


def described(table: exp.Table, duck: Any, database: str, schema: str) -> list[tuple[str, str]]:
    """Return names and types of a table's columns, whatever the table's name.

    Args:
        table: the table, as the statement names it.
        duck: a cursor of the database in which the emulator keeps its tables.
        database: the current database, for a name without one.
        schema: the current schema, for a name without one.
    """
    names = [table.catalog or database, table.db or schema, table.name]
    quoted = ".".join(f'"{name}"' for name in names)
    return [(row[0], row[1]) for row in duck.execute(f"DESCRIBE {quoted}").fetchall()]


_to_struct = arrow.timestamp_to_sf_struct


def to_struct(array: Any) -> pa.StructArray:
    """Replace `timestamp_to_sf_struct`, which turns NULL into 1970."""
    struct = _to_struct(array)
    parts = [struct.field(place).fill_null(0) for place in range(struct.type.num_fields)]
    missing = array.combine_chunks().is_null() if isinstance(array, pa.ChunkedArray) else None
    return pa.StructArray.from_arrays(parts, fields=list(struct.type), mask=missing)


class Sessions(dict[str, Any]):
    """Sessions that roll back an open transaction when they end."""

    def __delitem__(self, token: str) -> None:
        connection = self[token]
        super().__delitem__(token)
        TURNS.disconnect(connection)
        connection.close()


def main() -> None:
    end_when_orphaned(tempfile.gettempdir())
    server: Any = import_module(
        "fakesnow.server"
    )  # the package has a function with the module's name
    _CURSOR.execute = execute
    _CURSOR._describe_last_sql = describe_last
    # Recursive functions parse long expressions.
    sys.setrecursionlimit(20_000)
    threading.stack_size(256 << 20)
    _COPYING._describe_table = described
    _ARROW.timestamp_to_sf_struct = to_struct
    _TRANSFORMS.merge = lambda expression: [expression]  # DuckDB has its own MERGE
    _TRANSFORMS.to_decimal = to_decimal
    _TRANSFORMS.upper_case_unquoted_identifiers = to_text
    server.sessions = Sessions()
    uvicorn.run(Asked(server.app), host=HOST, port=int(sys.argv[1]), log_level="error")


if __name__ == "__main__":
    main()
