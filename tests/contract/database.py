"""The interface between the contract suite and a database, by its own client library.

A page of configuration is a subclass in `databases/`, and `kinds.txt` in `tests/types/`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from penstock.backends.api.backend import Backend
from penstock.backends.api.registry import find_backend
from penstock_testkit import S3Server

from ..plain_rows import plain
from .rows import Row, Rows, Type, read_types


@dataclass(frozen=True)
class Places:
    """The places where tests can create databases."""

    folder: Path
    server: Callable[[], AbstractContextManager[str]]
    """Opens a new database on the shared PostgreSQL server, and yields its URL."""
    mysql: Callable[[], AbstractContextManager[str]]
    """The same on the MySQL server."""
    mssql: Callable[[], AbstractContextManager[str]]
    """The same on the external SQL Server."""
    clickhouse: Callable[[], AbstractContextManager[str]]
    """The same on the shared ClickHouse server."""
    snowflake: Callable[[], AbstractContextManager[str]]
    """The same on a Snowflake account or an emulator."""
    s3: Callable[[], S3Server]
    """The shared server; each test creates its own bucket."""


class Database(ABC):
    """A new database, or a folder, with room for one table."""

    name: ClassVar[str]
    table: str | None
    """The value of Penstock's option; None if the URL leads to rows."""
    needs_table: ClassVar[bool] = True
    """Whether a target's table must exist, with the source's columns."""
    made_type: ClassVar[str]
    """A type for a column of whole numbers that differs from the default."""
    url: str

    @property
    def hashes_texts(self) -> bool:
        """Whether the server can compute checksums of texts."""
        return True

    finds_texts: ClassVar[bool] = True
    """Whether a target finds the rows of a partition by a text key."""

    recopies: ClassVar[bool] = True
    """Whether a target copies single partitions of a run again."""
    starts_over: ClassVar[bool] = True
    """Whether a target can undo a run's load, so that it can begin again."""
    sees_executions: ClassVar[bool] = True
    """Whether a target knows which runs are executing on a table."""

    scarcely: ClassVar[str] = ""
    """What a source's URL ends with so that a batch has as few resources as it may have."""

    statements: ClassVar[Sequence[tuple[float, float]]] = ()
    """The most statements for a batch of tables from here to here, per batch and per table.

    The first pair is for the main process, the second for the workers.
    """
    many: ClassVar[int] = 50
    """Tables of the larger batch."""
    statements_elsewhere: ClassVar[str] = ""
    """The reason why statements are not counted here; empty if they are."""

    @property
    def lacks(self) -> Collection[str]:
        """Return the strategies of the backend that this server lacks."""
        return ()

    @classmethod
    def left_out(cls, test: str) -> str:
        """Return the reason why a test is not worth its time here; empty if it is.

        Args:
            test: the test's name, with its parameters.
        """
        return ""

    @classmethod
    @abstractmethod
    def opened(cls, places: Places) -> AbstractContextManager[Database]:
        """Open a new database, and remove it afterwards."""

    @abstractmethod
    def make(self, rows: Rows, key: str = "") -> None:
        """Create the table without rows.

        Args:
            key: the column of its primary key; by default none.
        """

    @abstractmethod
    def insert(self, rows: Rows) -> None:
        """Add rows to the table."""

    @abstractmethod
    def read(self) -> list[Row]:
        """Return all rows as plain values, sorted, with columns in the table's order."""

    @abstractmethod
    def empty(self, share: int = 1) -> None:
        """Remove the table's rows, as a user would, and not Penstock.

        Args:
            share: leave all rows but every n-th, if the client can tell rows apart.
        """

    @abstractmethod
    def everything(self) -> list[str]:
        """Return everything that exists: tables, files, folders.

        The result also changes if a table is emptied or recreated, even if its rows stay the same.
        """

    def in_sql(self, name: str) -> str:
        """Return an unquoted name as the server reports it."""
        return name

    def with_table(self, name: str) -> Self:
        """Return the same database with another table in the same schema."""
        other = copy(self)
        other.table = f"{(self.table or '').rpartition('.')[0]}.{name}"
        return other

    def make_many(self, count: int, rows: Rows) -> None:
        """Create tables t0, t1, and so on, without rows."""
        for number in range(count):
            self.with_table(f"t{number}").make(rows)

    def fill(self, rows: Rows) -> None:
        self.make(rows)
        self.insert(rows)

    @property
    def backend(self) -> Backend:
        return find_backend(self.url, "--source")[0]

    @property
    def types(self) -> Mapping[str, Type]:
        return read_types(self.name)

    @property
    def source(self) -> Mapping[str, Any]:
        """Return the options of a copy from here."""
        return {"source": self.url, "table": self.table}

    @property
    def target(self) -> Mapping[str, Any]:
        """Return the options of a copy to here."""
        return {"target": self.url, "target_table": self.table}


class SqlDatabase(Database):
    """A database with a Python driver for SQL."""

    table = "main.t"
    quote = '"'
    """The quote around a name."""
    place = "?"
    """The placeholder for a value in a statement."""

    @abstractmethod
    def connected(self) -> AbstractContextManager[Any]:
        """Open a connection that commits at the end."""

    def execute(self, statement: str) -> None:
        with self.connected() as connection:
            connection.cursor().execute(statement)

    def empty(self, share: int = 1) -> None:
        self.execute(f"DELETE FROM {self.table} WHERE id % {share} = 0")

    def make(self, rows: Rows, key: str = "") -> None:
        q = self.quote
        columns = [f"{q}{name}{q} {self.types[kind].name}" for name, kind in rows.columns.items()]
        if key:
            columns.append(f"PRIMARY KEY ({q}{key}{q})")
        self.execute(f"CREATE TABLE {self.table} ({', '.join(columns)})")

    def insert(self, rows: Rows) -> None:
        if not rows.rows:
            return
        places = ", ".join(
            self.place.format(self.types[kind].name) for kind in rows.columns.values()
        )
        with self.connected() as connection:
            self.insert_all(
                connection.cursor(), f"INSERT INTO {self.table} VALUES ({places})", rows
            )

    def insert_all(self, cursor: Any, statement: str, rows: Rows) -> None:
        cursor.executemany(statement, rows.rows)

    def read(self) -> list[Row]:
        with self.connected() as connection:
            cursor = connection.cursor()
            cursor.execute(f"SELECT * FROM {self.table}")
            return sorted(map(plain, cursor.fetchall()), key=repr)


@contextmanager
def in_folder(create: Callable[[Path], Database], places: Places) -> Iterator[Database]:
    """Return a database in a folder of its own."""
    places.folder.mkdir(parents=True)
    yield create(places.folder)
