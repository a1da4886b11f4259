"""What the contract suite asks of a database: how its own client library fills and reads a table.

A page of configuration is a subclass in `databases/`, and `usual.txt` in `tests/types/`.
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
    """Where databases of the tests can be made."""

    folder: Path
    server: Callable[[], AbstractContextManager[str]]
    """The URL of a new database on the PostgreSQL server that all tests share."""
    mysql: Callable[[], AbstractContextManager[str]]
    """The same on the MySQL server."""
    mssql: Callable[[], AbstractContextManager[str]]
    """The same on the SQL Server that somebody names."""
    clickhouse: Callable[[], AbstractContextManager[str]]
    """The same on the ClickHouse server that all tests share."""
    snowflake: Callable[[], AbstractContextManager[str]]
    """The same on a Snowflake account, or on what emulates one."""
    s3: Callable[[], S3Server]
    """The one that all tests share: each makes a bucket of its own."""


class Database(ABC):
    """A new database, or a folder, with room for one table."""

    name: ClassVar[str]
    table: str | None
    """As Penstock is told it; None where the URL leads to rows."""
    needs_table: ClassVar[bool] = True
    """A target's table is to be there, and have the columns that come."""
    made_type: ClassVar[str]
    """Of a column that is made for whole numbers, another type than would be made."""
    url: str

    @property
    def hashes_texts(self) -> bool:
        """It can compute checksums of texts."""
        return True

    finds_texts: ClassVar[bool] = True
    """A target finds the rows that a partition by a key of texts has here."""

    recopies: ClassVar[bool] = True
    """A target copies single partitions of a run again."""
    starts_over: ClassVar[bool] = True
    """A target takes back what a run has loaded, so that it can begin again."""
    sees_executions: ClassVar[bool] = True
    """A target tells which runs are executed on a table at this moment."""

    statements: ClassVar[Sequence[tuple[float, float]]] = ()
    """Of a batch of tables from here to here: how many the main process needs at most, once and for
    each table, and how many the workers do."""
    many: ClassVar[int] = 50
    """Tables of the larger batch."""
    statements_elsewhere: ClassVar[str] = ""
    """Why they are not counted here; empty where they are."""

    @property
    def lacks(self) -> Collection[str]:
        """Strategies of the backend that this server does not have."""
        return ()

    @classmethod
    def left_out(cls, test: str) -> str:
        """Why a test is not worth its time here; empty where it is.

        Parameters:
            test: its name, with its parameters.
        """
        return ""

    @classmethod
    @abstractmethod
    def opened(cls, places: Places) -> AbstractContextManager[Database]:
        """A new one, gone afterwards."""

    @abstractmethod
    def make(self, rows: Rows, key: str = "") -> None:
        """Make the table, with no rows.

        Parameters:
            key: the column of its primary key; none by default.
        """

    @abstractmethod
    def insert(self, rows: Rows) -> None:
        """Add rows to the table."""

    @abstractmethod
    def read(self) -> list[Row]:
        """All rows, plain and sorted; columns in the table's order."""

    @abstractmethod
    def everything(self) -> list[str]:
        """All that is there: tables, files, folders. Not the same after a table was emptied or made
        anew, where rows do not show it."""

    def in_sql(self, name: str) -> str:
        """A name as the server says it, where somebody has written it in SQL without quotes."""
        return name

    def named(self, name: str) -> Self:
        """The same database, with room for another table, in the same schema."""
        other = copy(self)
        other.table = f"{(self.table or '').rpartition('.')[0]}.{name}"
        return other

    def make_many(self, count: int, rows: Rows) -> None:
        """Make tables t0, t1, and so on, with no rows."""
        for number in range(count):
            self.named(f"t{number}").make(rows)

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
        """Options of a copy from here."""
        return {"source": self.url, "table": self.table}

    @property
    def target(self) -> Mapping[str, Any]:
        """Options of a copy to here."""
        return {"target": self.url, "target_table": self.table}


class SqlDatabase(Database):
    """One that a driver of Python's speaks SQL with."""

    table = "main.t"
    quote = '"'
    """Around a name."""
    place = "?"
    """What stands for a value in a statement."""

    @abstractmethod
    def connected(self) -> AbstractContextManager[Any]:
        """A connection whose changes are kept at the end."""

    def execute(self, statement: str) -> None:
        with self.connected() as connection:
            connection.cursor().execute(statement)

    def make(self, rows: Rows, key: str = "") -> None:
        q = self.quote
        columns = [
            f"{q}{name}{q} {self.types[kind].written}" for name, kind in rows.columns.items()
        ]
        if key:
            columns.append(f"PRIMARY KEY ({q}{key}{q})")
        self.execute(f"CREATE TABLE {self.table} ({', '.join(columns)})")

    def insert(self, rows: Rows) -> None:
        if not rows.rows:
            return
        places = ", ".join(
            self.place.format(self.types[kind].written) for kind in rows.columns.values()
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
def in_folder(made: Callable[[Path], Database], places: Places) -> Iterator[Database]:
    """One that lives in a folder of its own."""
    places.folder.mkdir(parents=True)
    yield made(places.folder)
