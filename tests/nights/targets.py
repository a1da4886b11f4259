"""The targets of a month's nights: their URLs, how to read them, and their final statements."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pymysql
from tests.faults.cli import PATIENCE
from tests.faults.pair import connect

from penstock_testkit.mysql import connect_mysql
from penstock_testkit.proxy import Direction

Row = tuple[Any, ...]
"""The values of a row without its key."""
State = frozenset[tuple[int, Row, bool]]
"""Key, values, and whether the row is marked as deleted."""

VALUES = "id, email, n, md5(big)"
NO_FUNCTION = 1305


class Target(ABC):
    """A target of nights.

    Args:
        url: the URL of its database.
        deletes: the value of the option.
    """

    shared = True
    """Whether others may read it during a night."""
    swaps = False
    """Whether unique values may be swapped, since they are checked at the end of a transaction."""
    last: Sequence[tuple[bytes, Direction]] = ()
    """Statements of the last transaction, and the answers to them."""

    def __init__(self, url: str, deletes: str) -> None:
        self.url = url
        self._marks = deletes == "soft"

    @property
    @abstractmethod
    def table(self) -> str: ...

    @abstractmethod
    def make(self, *, unique: bool, swaps: bool) -> None:
        """Create the table.

        Args:
            unique: whether a second column is unique.
            swaps: whether that is checked at the end of a transaction.
        """

    @abstractmethod
    def open(self) -> Any: ...

    def run(self, *statements: str) -> None:
        with closing(self.open()) as connection, closing(connection.cursor()) as cursor:
            for statement in statements:
                cursor.execute(statement)

    def read(self, connection: Any) -> State:
        condition = "deleted_at IS NOT NULL" if self._marks else "1 = 0"
        with closing(connection.cursor()) as cursor:
            cursor.execute(f"SELECT {VALUES}, {condition} FROM items")
            rows = cursor.fetchall()
        return frozenset((int(key), tuple(row), bool(mark)) for key, *row, mark in rows)

    def state(self) -> State:
        with closing(self.open()) as connection:
            return self.read(connection)


class PostgresTarget(Target):
    swaps = True
    table = "public.items"
    last = (
        (b'INTO "penstock"."watermark"', "to_server"),
        (b'DELETE FROM ONLY "public"."items"', "to_server"),
        (b'INSERT INTO "public"."items"', "to_server"),
        (b'DROP TABLE "public"."items__penstock', "to_server"),
        (b"DROP TABLE\x00", "to_client"),
    )

    def open(self) -> Any:
        # Columns come and go, which a prepared statement does not survive.
        return connect(self.url, prepare_threshold=None)

    def make(self, *, unique: bool, swaps: bool) -> None:
        mark = ", deleted_at timestamptz" if self._marks else ""
        also = ", UNIQUE (email)" if unique else ""
        also += " DEFERRABLE INITIALLY DEFERRED" if unique and swaps else ""
        self.run(
            f"CREATE TABLE items (id int PRIMARY KEY, email text, n bigint, big text{mark}{also})"
        )
        self._is_made = True


class MariaTarget(Target):
    last = (
        (b"INTO `penstock`.`watermark`", "to_server"),
        (b" STRAIGHT_JOIN ", "to_server"),
        (b"UPDATE `penstock`.`watermark`", "to_server"),
        (b"drop stage", "to_server"),
    )

    @property
    def table(self) -> str:
        return self.url.rpartition("/")[2].partition("?")[0] + ".items"

    def open(self) -> Any:
        return connect_mysql(self.url)

    def _have_md5(self) -> None:
        """Install the component that has MD5(), for `VALUES`: MySQL 9.6 and later."""
        try:
            self.run("SELECT md5('')")
        except pymysql.OperationalError as error:
            if error.args[0] != NO_FUNCTION:
                raise
            self.run("INSTALL COMPONENT 'file://component_classic_hashing'")

    def make(self, *, unique: bool, swaps: bool) -> None:
        mark = ", deleted_at datetime(6)" if self._marks else ""
        self._have_md5()
        self.run(
            "CREATE TABLE items (id int PRIMARY KEY, email varchar(100) COLLATE utf8mb4_bin,"
            f" n bigint, big longtext{mark}{', UNIQUE (email)' if unique else ''})"
        )


class DuckTarget(Target):
    shared = False
    table = "main.items"
    _is_made = False

    def open(self) -> Any:
        path = Path(self.url.removeprefix("duckdb:///"))
        if self._is_made and not path.exists():  # an empty file would be mistaken for a lost table
            raise AssertionError(f"somebody has removed {path}")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return duckdb.connect(path)
            except duckdb.IOException:  # a killed process releases the file in a moment
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.05)

    def make(self, *, unique: bool, swaps: bool) -> None:
        mark = ", deleted_at timestamptz" if self._marks else ""
        also = ", UNIQUE (email)" if unique else ""
        self.run(
            f"CREATE TABLE items (id int PRIMARY KEY, email text, n bigint, big text{mark}{also})"
        )
        self._is_made = True
