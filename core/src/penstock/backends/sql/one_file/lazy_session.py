"""A session that opens its file only for facts that are not known yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from penstock.backends.sql.catalog.catalog_facts import CatalogFacts
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.one_file.database import OneFile
from penstock.backends.sql.session import NamedRelations, Row, Session
from penstock.model.tables import TableRef


class LazySession(NamedRelations):
    """A session opened on demand.

    Once many tables are described, most questions are answered without it.
    """

    side = "target"

    def __init__(self, database: OneFile, catalog_facts: CatalogFacts, stack: ExitStack) -> None:
        self.dialect = database.dialect
        self.catalog_facts = catalog_facts
        self.table = database.table_name  # type: ignore[method-assign]
        self._database = database
        self._stack = stack
        self._session: Session | None = None

    def _opened(self) -> Session:
        if self._session is None:
            self._session = self._stack.enter_context(self._database.reading())
            self._session.catalog_facts = self.catalog_facts
        return self._session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened(), name)

    def fetch(self, query: str, subject: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._opened().fetch(query, subject, values)

    def describe(self, query: str, subject: str) -> list[tuple[str, Type]]:
        return self._opened().describe(query, subject)

    def describe_all(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, Sequence[tuple[str, Type]]]:
        return self._opened().describe_all(tables)

    def facts(self, query: str, table: TableRef) -> list[Row]:
        return self._opened().facts(query, table)
