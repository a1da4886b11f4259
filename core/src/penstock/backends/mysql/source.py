"""Tables, views and queries as a source."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import KeyStatistics, TableStatistics, WeightedBound
from penstock.backends.mysql.catalog import bounds
from penstock.backends.mysql.catalog.partitions import partitioning, partitions_of, rows_of_extent
from penstock.backends.mysql.catalog.sequences import omitted_sequences
from penstock.backends.mysql.catalog.statements import read_statement
from penstock.backends.mysql.catalog.table_model import next_number
from penstock.backends.mysql.catalog.tables import (
    explained_rows,
    first_key,
    is_indexed,
    is_table,
    known_creation_time,
    numbered_column,
    order_of,
    read_definition,
    size_of,
    table_columns,
    unique_keys,
)
from penstock.backends.mysql.connection import connect, kill
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.location import URLS
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.snapshot import leave, take
from penstock.backends.mysql.stream.decoding import DATES
from penstock.backends.mysql.types import types_of
from penstock.backends.sql.catalog import keys
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.dialect import BYTES, Type
from penstock.backends.sql.rows.bounds import TEXTS
from penstock.backends.sql.server.source import ServerSource
from penstock.errors import PenstockError
from penstock.model.extents import Extent, Key
from penstock.model.snapshots import Snapshot
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, NotCopied, Query, Relation, SequencePosition, TableRef

# Per row, if the server does not report the size.
ROW_BYTES = 100


class MySqlSource(ServerSource[MySqlSession]):
    """See `ServerSource`."""

    moment = "SELECT CAST(SYSDATE(6) AS char)"

    def __init__(self, url: str) -> None:
        self._url = url
        self._adopted = ""
        options = URLS.parse(url).options
        self.types = types_of(options)
        self._zero_dates_null = options.get("zero_dates") == "null"
        super().__init__(MySqlSession(connect(url, "source"), MYSQL))
        self._session.connection.change("SET SESSION TRANSACTION READ ONLY")

    def close(self) -> None:
        connection = self._session.connection
        busy = connection._result is not None and connection._result.unbuffered_active
        if not busy:
            leave(connection)
            return
        number = connection.number
        connection.abandon()
        with contextlib.suppress(PenstockError):
            kill(self._url, "source", number)

    def adopt(self, snapshot: Snapshot) -> None:
        if snapshot.token != self._adopted:
            joined = take(snapshot.token)
            leave(self._session.connection)
            self._session.connection = joined
            self.forget()
            self._adopted = snapshot.token

    def is_table(self, relation: Relation) -> bool:
        return isinstance(relation, TableRef) and is_table(self._session, relation)

    # Columns

    def table_columns(self, table: TableRef) -> tuple[Column, ...]:
        return table_columns(self._session, table)

    def query_columns(self, query: Query) -> Sequence[tuple[str, Type]]:
        return self._session.describe(query.text, "--query")

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        emptied = self._emptied(relation, columns)
        return tuple(
            replace(column, nullable=column.nullable or column.name in emptied)
            for column in super().in_arrow(relation, columns)
        )

    def _emptied(self, relation: Relation, columns: Sequence[Column]) -> set[str]:
        """Return NOT NULL columns whose zero dates arrive as NULL.

        Columns of the primary key are left out, since no table allows NULL there.
        """
        if not (self._zero_dates_null and isinstance(relation, TableRef)):
            return set()
        keys = unique_keys(self._session, relation)
        primary = {name for key in keys if key.primary for name in key.names}
        return {
            column.name
            for column in columns
            if column.traits[TYPE].name in DATES and not column.nullable
        } - primary

    def table_definition(self, table: TableRef) -> TableDefinition:
        columns = self.columns(table)
        return read_definition(self._session, table, columns, self._emptied(table, columns))

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        if not (isinstance(relation, TableRef) and self.is_table(relation)):
            return {}
        name = numbered_column(self._session, relation)
        if not name:
            return {}
        last = next_number(read_statement(self._session, relation), relation)
        return {name: SequencePosition(last, called=False)}

    def layout(self, table: TableRef) -> tuple[str, str]:
        return known_creation_time(self._session, table), partitioning(self._session, table)

    def other_objects(
        self, include: Sequence[str], exclude: Sequence[str]
    ) -> tuple[NotCopied, ...]:
        objects = super().other_objects(include, exclude)
        if not self._session.connection.is_mariadb:
            return objects
        return (*objects, *omitted_sequences(self._session, include, exclude))

    # Sizes

    def table_statistics(self, table: TableRef) -> TableStatistics:
        rows, size = size_of(self._session, table) or (None, 0)
        if rows is None:
            rows, size = self._expected(table)
        children = partitions_of(self._session, table)
        what = "a table"
        if children:
            what = f"a table in {len(children)} partition{'s' * (len(children) > 1)}"
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=1.0,
            blocks=None,
            storage=f"{what} {_about(rows)}, {size / 1e6:,.1f} MB",
            default_key=None,
            children=children,
            rows_hint=f"ANALYZE TABLE {self._rows(table)}",
        )

    def query_statistics(self, relation: Relation) -> TableStatistics:
        rows, size = self._expected(relation)
        statistics = super().query_statistics(relation)
        return replace(
            statistics, rows=rows, bytes=size, storage=f"a query or a view {_about(rows)}"
        )

    def _expected(self, relation: Relation) -> tuple[int | None, int]:
        """Return rows and bytes, as estimated by the server's planner."""
        rows = explained_rows(self._session, self._rows(relation), "1 = 1")
        return rows, (rows or 0) * ROW_BYTES

    def selected_share(self, relation: Relation, where: str, statistics: TableStatistics) -> float:
        if not statistics.rows:
            return 1.0
        rows = explained_rows(self._session, self._rows(relation), f"(\n{where}\n)")
        return min(1.0, rows / statistics.rows) if rows is not None else 1.0

    def leading_columns(self, table: TableRef) -> Sequence[str]:
        name = first_key(self._session, table)
        return [] if name is None else [name]

    def rows_of(self, relation: Relation, extent: Extent) -> str:
        return rows_of_extent(self._rows(relation), extent)

    # Keys

    def _type_of(self, relation: Relation, key: Key) -> Type:
        if isinstance(relation, TableRef) and not key.expression:
            for column in self.columns(relation):
                if column.name == key.text:
                    return column.traits[TYPE]
        return super()._type_of(relation, key)

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        nullable, _ = super().key_facts(relation, key)
        is_ordered = key.collation != BYTES and not key.expression
        return nullable, is_ordered and self._indexed(relation, key.text)

    def _indexed(self, relation: Relation, name: str) -> bool:
        return (
            isinstance(relation, TableRef)
            and self.is_table(relation)
            and is_indexed(self._session, relation, name)
        )

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        tag = self._ranged(relation, key)
        nullable, indexed = self.key_facts(relation, key)
        ordered = replace(key, collation=self.native_order(relation, key))
        if ordered.collation == BYTES or not self.key_facts(relation, ordered)[1]:
            return KeyStatistics(key, nullable, 0.0, (), keys.NOTHING, indexed)
        rows, origin = self._rows(relation), bounds.ORIGIN
        weighted, nulls = bounds.dive(self._session, rows, ordered, tag, nullable=nullable)
        if key.collation == BYTES:
            weighted, origin = self._by_bytes(relation, key, weighted), f"{origin}; ranged by bytes"
        return KeyStatistics(key, nullable, nulls, weighted, origin, indexed)

    def _by_bytes(
        self, relation: Relation, key: Key, weighted: Sequence[WeightedBound]
    ) -> tuple[WeightedBound, ...]:
        """Return bounds in a different order from the one in which they were weighed.

        Their weights are approximate.
        """
        ranked = self.rank_values(
            relation, key, [each.bound.text for each in weighted], ordered=True
        )
        placed = {place.rank: each for each, place in zip(weighted, ranked, strict=True)}
        return tuple(each for _, each in sorted(placed.items(), key=lambda item: item[0]))

    def native_order(self, relation: Relation, key: Key) -> str:
        type_ = self._type_of(relation, key)
        if MYSQL.tag_of(type_) not in TEXTS:
            return ""
        if type_.name in ("enum", "set"):
            return BYTES  # they are ordered by their numbers
        order = order_of(self._session, self._rows(relation), key)
        # MariaDB: an index sorts 'A\t' before 'A', padded to the column's length; a condition sorts
        # it after.
        return BYTES if type_.name == "char" and "nopad" in order else order

    def shared_order(self, relation: Relation, key: Key) -> str:
        return BYTES if self.key_type(relation, key) in TEXTS else ""


def _about(rows: int | None) -> str:
    return "of unknown size" if rows is None else f"of about {rows:,} rows"


open_source = MySqlSource
