"""A session for the shared SQL code."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import pymysql

from penstock.backends.mysql.connection import Connection
from penstock.backends.mysql.dialect import MySqlDialect
from penstock.backends.mysql.errors import planning, translated
from penstock.backends.mysql.types import type_of
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.dialect import Type, raw
from penstock.backends.sql.server.session import ServerSession
from penstock.backends.sql.session import Row
from penstock.model.tables import TableRef

T = TypeVar("T")
BATCH = 1000
HURRIED_SECONDS = 2


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """Facts that do not change during a session."""

    id: str
    """Identifies the server."""
    folds: bool
    """Whether table names are accepted in any case."""
    database: str | None
    """The session's current database."""


class MySqlSession(ServerSession):
    """See `Session`."""

    connection: Connection
    catalog = "def"

    def __init__(self, connection: Connection, dialect: MySqlDialect) -> None:
        self.connection = connection
        self.dialect = dialect
        self.side = connection.side
        self._about_server: ServerFacts | None = None

    @property
    def server(self) -> str:
        return self._server_facts().id

    def _server_facts(self) -> ServerFacts:
        if self._about_server is None:
            identity = "@@hostname, @@port" if self.connection.is_mariadb else "@@server_uuid, ''"
            query = f"SELECT {identity}, @@lower_case_table_names, database()"
            ((first, second, folds, database),) = super().fetch(query, "server")
            self._about_server = ServerFacts(f"{first}:{second}", bool(int(folds)), database)
        return self._about_server

    def search_path(self) -> tuple[str, ...]:
        database = self._server_facts().database
        return (database,) if database else ()

    # Facts about tables

    def about_all(self, query: TableQuery, tables: Sequence[TableRef]) -> dict[TableRef, list[Row]]:
        folds = self._server_facts().folds

        def key_of(schema: str, name: str) -> tuple[str, str]:
            return (schema.casefold(), name.casefold()) if folds else (schema, name)

        answers: dict[tuple[str, str], list[Row]] = {key_of(t.schema, t.name): [] for t in tables}
        if tables:
            text, values = query.statement(self.dialect.placeholder, self.catalog, tables)
            subject = f"table {tables[0]}" if len(tables) == 1 else "tables"
            for schema, name, *row in self.fetch(text, subject, values):
                # Some servers match names regardless of case, and still distinguish them.
                answers.get(key_of(schema, name), []).append(tuple(row))
        return {table: answers[key_of(table.schema, table.name)] for table in tables}

    def batched_fact(
        self,
        what: Hashable,
        table: TableRef,
        choose: Callable[[Sequence[TableRef]], Sequence[TableRef]],
        ask: Callable[[Sequence[TableRef]], Mapping[TableRef, T]],
    ) -> T | None:
        """Return a fact that is read for several tables when the first one is needed.

        Args:
            what: names the fact among those that `catalog_facts` keeps.
            table: the table whose fact is needed.
            choose: which of the tables of `catalog_facts` may be asked about with it.
            ask: leaves out tables about which the server reports an error.

        Returns:
            None if the table is left out, or there are no `catalog_facts`; then it must be asked
            about alone.
        """
        if self.catalog_facts is None:
            return None
        facts: dict[TableRef, T] = self.catalog_facts.once(what, dict)
        if table not in facts:
            unknown = [each for each in choose(self.catalog_facts.tables) if each not in facts]
            facts |= ask(unknown if table in unknown else [table])
        return facts.get(table)

    def translated(self, subject: str = "") -> AbstractContextManager[None]:
        return translated(self.side, subject)

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        with (
            planning(self.side, subject),
            self.connection.cursor(pymysql.cursors.SSCursor) as cursor,
        ):
            cursor.execute(query)
            while rows := cursor.fetchmany(BATCH):
                yield from rows

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        return self.columns_of_queries([query], subject)

    def columns_of_queries(self, queries: Sequence[str], subject: str) -> list[tuple[str, Type]]:
        """Return the columns of several queries, concatenated."""
        items = (f"{raw(query)} AS described_{place}" for place, query in enumerate(queries))
        with planning(self.side, subject), self.connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {', '.join(items)} LIMIT 0")
            return [(field.name, type_of(field)) for field in cursor._result.fields]

    def fetch_each(self, queries: Sequence[str]) -> list[list[Row] | None]:
        """Return the rows of each query in few round trips; None for one that is rejected."""
        with planning(self.side, "tables"):
            return self.connection.rows_of_each(queries)

    @contextmanager
    def limited_lock_waits(self) -> Iterator[None]:
        """Wait only briefly for locks on definitions, in questions about many tables."""
        with planning(self.side, "tables"):
            self.connection.change(
                "SET @penstock_waits = @@lock_wait_timeout,"
                f" SESSION lock_wait_timeout = {HURRIED_SECONDS}"
            )
        try:
            yield
        finally:
            with suppress(pymysql.Error):  # the session may have ended
                self.connection.change("SET SESSION lock_wait_timeout = @penstock_waits")

    def explain(self, query: str) -> list[dict[str, Any]]:
        """Return the planner's table, whose columns differ between versions."""
        with (
            planning(self.side, "estimate"),
            self.connection.cursor(pymysql.cursors.DictCursor) as cursor,
        ):
            table = "" if self.connection.is_mariadb else "FORMAT=TRADITIONAL "
            cursor.execute(f"EXPLAIN {table}{query}")
            return list(cursor.fetchall())

    def hold(self, values: Mapping[str, str]) -> None:
        if values:
            listed = (
                f"@penstock_{name} = {self.dialect.literal(text)}" for name, text in values.items()
            )
            self.connection.change(f"SET {', '.join(listed)}")

    def check(self, query: str, subject: str) -> None:
        with planning(self.side, subject):
            self.connection.change(f"PREPARE penstock_check FROM {self.dialect.literal(query)}")
            self.connection.change("DEALLOCATE PREPARE penstock_check")
