"""Tables, views and queries of a server as a source of record batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from penstock.backends.api.facts import TableStatistics
from penstock.backends.shared.values.type_table import TypeTable
from penstock.backends.sql.catalog.relations import TYPE, read_columns
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.server.session import ServerSession
from penstock.backends.sql.source import SqlSource
from penstock.model.extents import Extent, Key
from penstock.model.snapshots import SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, Query, Relation, TableRef

S = TypeVar("S", bound=ServerSession)


class ServerSource(SqlSource, Generic[S]):
    """A source that asks the server over one session; subclasses write the server's own queries."""

    settle_seconds = 0.0
    types: TypeTable[Any]
    moment: ClassVar[str]
    """A query for the server's time as text."""
    _session: S

    def __init__(self, session: S) -> None:
        super().__init__(session, session.rows_of)

    def close(self) -> None:
        self._session.connection.close()

    # For subclasses

    def table_columns(self, table: TableRef) -> tuple[Column, ...]:
        """Return a table's columns with the trait `TYPE`.

        Raises:
            PlanningError: the table or view does not exist.
        """
        return read_columns(self._session, table)

    def query_columns(self, query: Query) -> Sequence[tuple[str, Type]]:
        """Return the names and types of a query's columns."""
        return list(super().column_types(query).items())

    @abstractmethod
    def table_definition(self, table: TableRef) -> TableDefinition:
        """Return the definition of a table, not a view."""

    @abstractmethod
    def layout(self, table: TableRef) -> tuple[str, str]:
        """Return two texts, see `SourceState`.

        The first changes when the rows are rewritten, the second when the table consists of other
        child tables.
        """

    @abstractmethod
    def table_statistics(self, table: TableRef) -> TableStatistics:
        """Return a table's statistics without reading it, and without its default key."""

    @abstractmethod
    def leading_columns(self, table: TableRef) -> Sequence[str]:
        """Return the columns by which the server finds rows, the best first."""

    def query_statistics(self, relation: Relation) -> TableStatistics:
        """Return the statistics of a query or view, without reading it."""
        return TableStatistics(
            rows=None,
            bytes=0,
            selected=1.0,
            blocks=None,
            storage="a query or a view of unknown size",
            default_key=None,
            sampled=False,
        )

    def selected_share(self, relation: Relation, where: str, statistics: TableStatistics) -> float:
        """Return the share of rows, 0 to 1, that a condition selects by the server's estimate.

        Args:
            relation: the source's table or query.
            where: the condition.
            statistics: statistics of all rows.
        """
        return 1.0

    @property
    def notes(self) -> tuple[str, ...]:
        """See `TableStatistics`."""
        return ()

    # Columns

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if isinstance(relation, TableRef):
            return self.table_columns(relation)
        assert isinstance(relation, Query)
        columns = self.query_columns(relation)
        return tuple(Column(name, str(type_), traits={TYPE: type_}) for name, type_ in columns)

    def column_types(self, relation: Relation) -> dict[str, Type]:
        if isinstance(relation, TableRef):
            return {column.name: column.traits[TYPE] for column in self.columns(relation)}
        return super().column_types(relation)

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        return tuple(self.types.in_arrow(column, column.traits[TYPE]) for column in columns)

    def computed_in_arrow(self, rows: str, columns: Sequence[Column]) -> tuple[Column, ...]:
        return tuple(self.types.in_arrow(column, column.traits[TYPE]) for column in columns)

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        if not self.is_table(relation):
            return super().definition(relation, partitioning=partitioning)
        assert isinstance(relation, TableRef)
        return self.table_definition(relation)

    # Moments

    def state(self, relation: Relation) -> SourceState:
        # Nothing proves that no session has written, so no moment equals another.
        ((now,),) = self._session.once(self.moment, "state")
        server = self._session.server
        if not isinstance(relation, TableRef):
            return SourceState(server, "", now, "")
        stored, partitions = self.layout(relation)
        return SourceState(f"{server}:{relation}", stored, now, "", partitions)

    def may_have_moved(
        self,
        relation: Relation,
        where: str | None,
        extents: Sequence[tuple[Extent, int | None]],
        since: SourceState,
    ) -> bool:
        return True  # there is no evidence

    @property
    def clock(self) -> str:
        return self.moment

    def identity(self, relation: Relation) -> Mapping[str, str]:
        server = {"server": self._session.server}
        if not (isinstance(relation, TableRef) and self.is_table(relation)):
            return server
        return {**server, "table": self.layout(relation)[0]}

    # Sizes

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        self.check_where(relation, where)
        if self.is_table(relation):
            assert isinstance(relation, TableRef)
            statistics = self.table_statistics(relation)
            statistics = replace(statistics, default_key=self._default_key(relation))
        else:
            statistics = self.query_statistics(relation)
        if where is not None:
            statistics = replace(
                statistics, selected=self.selected_share(relation, where, statistics)
            )
        return replace(statistics, notes=self.notes)

    def _default_key(self, table: TableRef) -> str | None:
        ranged = self._session.dialect.ranged
        for name in self.leading_columns(table)[:1]:
            if self.key_type(table, Key(name)) in ranged:
                return name
        return None
