"""Tables, views and queries of a server as a source, planned from the catalog and index marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import KeyStatistics, TableStatistics
from penstock.backends.clickhouse.catalog.table_model import model_of, other_objects
from penstock.backends.clickhouse.connection import connect
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.clickhouse.types import TYPES
from penstock.backends.sql.catalog import keys
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.definitions.definition import definition_of
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.server.source import ServerSource
from penstock.backends.sql.source import SqlSource
from penstock.errors import PlanningError
from penstock.model.extents import Key
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Relation, TableRef

DIALECT = "clickhouse"
MARKS = "the marks of the primary key, about one per 8,192 rows"
SMALL_ROWS = 100_000
"""Tables up to this many rows have their keys read at once: their marks are too few for bounds."""
_FACTS = TableQuery(
    "engine, sorting_key, partition_key, primary_key, toString(uuid)",
    "system.tables",
    "database",
    "name",
)


def _of_parts(columns: str) -> TableQuery:
    """Return a query about tables' parts.

    Args:
        columns: expressions over all parts of a table; each has an alias.
    """
    parts = f"SELECT database, table, {columns} FROM system.parts WHERE active"
    return TableQuery(
        "* EXCEPT (database, table)", f"({parts} GROUP BY database, table)", "database", "table"
    )


_PARTS = _of_parts(
    "toString(count()) AS parts, toString(sum(cityHash64(name))) AS names,"
    " toString(max(data_version)) AS version"
)
_SIZES = _of_parts(
    "toInt64(sum(rows)) AS held, toInt64(sum(bytes_on_disk)) AS size, toInt64(count()) AS parts"
)


class ClickHouseSource(ServerSource[ClickHouseSession]):
    """The catalog of a ClickHouse source."""

    types = TYPES
    moment = "SELECT toString(now64(6))"
    # The server's description of a type is complete; and every write shows in the parts.
    column_types = SqlSource.column_types
    may_have_moved = SqlSource.may_have_moved

    def __init__(self, url: str) -> None:
        super().__init__(ClickHouseSession(connect(url, "source")))

    def adopt(self, snapshot: Snapshot) -> None:
        raise PlanningError("source: ClickHouse has no snapshots; pass --snapshot none")

    # Tables

    def table_definition(self, table: TableRef) -> TableDefinition:
        columns = self.columns(table)
        _, sorting, partition, _, _ = self._facts(table)
        model = model_of(self._session, table, columns, self.column_types(table), partition)
        omitted = list(other_objects(self._session, table, columns))
        return definition_of(DIALECT, replace(model, sorting=sorting), system_objects=omitted)

    def _facts(self, relation: Relation) -> tuple[str, str, str, str, str]:
        """Return a table's engine, sorting key, partition key, primary key and UUID."""
        assert isinstance(relation, TableRef)
        facts = self._session.about(_FACTS, relation)
        return tuple(map(str, facts[0]))  # type: ignore[return-value]

    def _has_parts(self, relation: Relation) -> bool:
        return self.is_table(relation) and self._facts(relation)[0].endswith("MergeTree")

    def layout(self, table: TableRef) -> tuple[str, str]:
        return "", ""

    def identity(self, relation: Relation) -> Mapping[str, str]:
        assert isinstance(relation, TableRef), "checked with the options"
        return {"table": self._facts(relation)[4]}

    def state(self, relation: Relation) -> SourceState:
        state = super().state(relation)
        if not self._has_parts(relation):
            return state
        assert isinstance(relation, TableRef)
        # Current facts, asked about this table alone.
        (parts,) = self._session.about_all(_PARTS, [relation])[relation] or [("0", "0", "0")]
        return replace(state, identity=self._facts(relation)[4], writes=":".join(parts))

    # Sizes

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        statistics = super().statistics(relation, where)
        return replace(statistics, sampled=statistics.sampled or statistics.default_key is not None)

    def table_statistics(self, table: TableRef) -> TableStatistics:
        rows, size, what = None, 0, f"a table with the engine {self._facts(table)[0]}"
        if self._has_parts(table):
            rows, size, parts = self._size(table)
            what = f"a table of {rows:,} rows in {parts:,} parts, {size / 1e6:,.1f} MB"
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=1.0,
            blocks=None,
            storage=what,
            default_key=None,
            sampled=self._is_small(table),
        )

    def _is_small(self, relation: Relation) -> bool:
        if not self._has_parts(relation):
            return False
        assert isinstance(relation, TableRef)
        return self._size(relation)[0] <= SMALL_ROWS

    def _size(self, table: TableRef) -> tuple[int, int, int]:
        """Return rows, bytes and parts."""
        (sums,) = self._session.about(_SIZES, table) or [(0, 0, 0)]
        rows, size, parts = sums
        return int(rows), int(size), int(parts)

    # Keys

    def _primary(self, relation: Relation) -> list[str]:
        """Return the plain columns of the primary key."""
        if not self._has_parts(relation):
            return []
        names = {column.name for column in self.columns(relation)}
        parts = self._facts(relation)[3].split(", ")
        return [name for name in (part.strip("`") for part in parts) if name in names]

    def leading_columns(self, table: TableRef) -> Sequence[str]:
        types = self.column_types(table)
        return [name for name in self._primary(table)[:1] if not types[name].nullable]

    def _type_of(self, relation: Relation, key: Key) -> Type:
        type_ = None if key.expression else self.column_types(relation).get(key.text)
        return type_ or super()._type_of(relation, key)

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        if key.expression:
            return True, False
        type_ = self.column_types(relation).get(key.text)
        return type_ is None or type_.nullable, key.text in self._primary(relation)[:1]

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        tag = self._ranged(relation, key)
        if self._is_small(relation):
            bounds, nulls = keys.tiles(
                self._session, self._rows(relation), key, tag, None, keys.MOST_BOUNDS
            )
            return self._statistics(relation, key, bounds, nulls, "the whole table, which is small")
        if key.expression or key.text not in self._primary(relation):
            return self._statistics(relation, key, (), 0.0, keys.NOTHING)
        assert isinstance(relation, TableRef)
        literal = self._session.dialect.literal
        marks = f"mergeTreeIndex({literal(relation.schema)}, {literal(relation.name)})"
        # Some of the condition's columns are missing.
        bounds, nulls = keys.tiles(self._session, marks, key, tag, None, keys.MOST_BOUNDS)
        return self._statistics(relation, key, bounds, nulls, MARKS)


open_source = ClickHouseSource
