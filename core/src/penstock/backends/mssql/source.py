"""Tables, views and queries as a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.facts import ChildTable, KeyStatistics, TableStatistics
from penstock.backends.mssql.catalog.histogram import read_bounds
from penstock.backends.mssql.catalog.links import is_modelled
from penstock.backends.mssql.catalog.native_parts import attached
from penstock.backends.mssql.catalog.partitions import (
    child_of,
    partitioning,
    parts_of,
    rows_of_extent,
    with_partition_test,
)
from penstock.backends.mssql.catalog.table_model import model_of
from penstock.backends.mssql.catalog.tables import (
    COLLATION,
    DIALECT,
    last_numbers,
    layout_mark,
    leading_columns,
    size_of,
    storage_kind,
    table_columns,
)
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.dialect import BLOCKS
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.snapshot import enter
from penstock.backends.mssql.types import TYPES
from penstock.backends.sql.definitions.definition import definition_of
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.server.source import ServerSource
from penstock.errors import PlanningError
from penstock.model.extents import Extent, Key
from penstock.model.snapshots import Snapshot
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, Query, Relation, SequencePosition, TableRef

# Rows sampled for the bounds of ranges.
SAMPLE = 100_000
_COLLATED = "is compared by its collation"
# Types whose values other systems compare differently.
_OTHER_ORDERS = {
    **dict.fromkeys(("char", "varchar", "nchar", "nvarchar"), _COLLATED),
    "datetime": "counts ticks of 1/300 s, which targets round",
    "uniqueidentifier": "has its own sort order",
    "varbinary": "ignores zeros at the end of a value",
}
# Per row, if the server does not report the size.
ROW_BYTES = 100


class MssqlSource(ServerSource[MssqlSession]):
    """The catalog of a SQL Server source."""

    types = TYPES
    moment = "SELECT CONVERT(varchar(40), SYSUTCDATETIME(), 126)"

    def __init__(self, url: str) -> None:
        super().__init__(MssqlSession(connect(url, "source")))

    def adopt(self, snapshot: Snapshot) -> None:
        connection = self._session.connection
        if snapshot.token != connection.snapshot:
            enter(connection, snapshot.token)
            self.forget()

    # Columns

    def table_columns(self, table: TableRef) -> tuple[Column, ...]:
        return table_columns(self._session, table)

    def query_columns(self, query: Query) -> Sequence[tuple[str, Type]]:
        return self._session.describe(query.text, "--query")

    def table_definition(self, table: TableRef) -> TableDefinition:
        model, native = model_of(self._session, table)
        dependents = attached(self._session, table)
        unmodelled = [item for item in dependents if not is_modelled(item)]
        definition = definition_of(DIALECT, model, dependents, unmodelled)
        return replace(definition, native=native)

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        numbers = isinstance(relation, TableRef) and last_numbers(self._session, relation)
        if not numbers:
            return {}
        name, first, _, last = numbers
        return {name: SequencePosition(first if last is None else last, last is not None)}

    def layout(self, table: TableRef) -> tuple[str, str]:
        partitions = partitioning(self._session, table)
        return layout_mark(self._session, table), partitions

    def rows_of(self, relation: Relation, extent: Extent) -> str:
        return rows_of_extent(self._rows(relation), extent)

    def condition_of(self, relation: Relation, where: str | None, extent: Extent) -> str:
        chosen = super().condition_of(relation, where, extent)
        return with_partition_test(self._session, relation, extent, chosen)

    # Sizes

    def table_statistics(self, table: TableRef) -> TableStatistics:
        rows, size = size_of(self._session, table)
        size = size or rows * ROW_BYTES
        what, paged = storage_kind(self._session, table)
        parts = parts_of(self._session, table)
        if parts:
            what += f" in {len(parts)} partition{'s' * (len(parts) > 1)}"
        share = size / max(1, sum(part.rows for part in parts))
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=1.0,
            blocks=BLOCKS if paged else None,
            blocks_scan=paged,
            storage=f"{what} of about {rows:,} rows, {size / 1e6:,.1f} MB",
            default_key=None,
            children=tuple(
                ChildTable(child_of(table, part), part.rows, round(part.rows * share), None)
                for part in parts
            ),
            rows_hint=f"UPDATE STATISTICS {self._rows(table)}",
        )

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"read {note}" for note in self._session.connection.driver.notes)

    def leading_columns(self, table: TableRef) -> Sequence[str]:
        return leading_columns(self._session, table)

    # Keys

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        nullable, _ = super().key_facts(relation, key)
        if key.expression or not self.is_table(relation):
            return nullable, False
        assert isinstance(relation, TableRef)
        return nullable, key.text in leading_columns(self._session, relation)

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        tag = self._ranged(relation, key)
        # For the rows that a condition selects, a sample is better.
        if where is None and not key.expression and self.is_table(relation):
            assert isinstance(relation, TableRef)
            type_, (rows, _) = self._type_of(relation, key), size_of(self._session, relation)
            bounds = read_bounds(self._session, relation, key, tag, type_, rows)
            if bounds is not None:
                return self._statistics(relation, key, *bounds)
        return super().key_statistics(relation, key, where)

    def sample(self, relation: Relation, key: Key) -> tuple[str, str] | None:
        if not self.is_table(relation):
            return None
        rows = f"{self._rows(relation)} TABLESAMPLE ({SAMPLE} ROWS)"
        return rows, f"a sample of about {SAMPLE:,} rows"

    def native_order(self, relation: Relation, key: Key) -> str:
        if key.expression:
            return ""
        return next(
            (
                column.traits[COLLATION]
                for column in self.columns(relation)
                if column.name == key.text and COLLATION in column.traits
            ),
            "",
        )

    def shared_order(self, relation: Relation, key: Key) -> str:
        """Return the collation in which both sides order the key.

        Raises:
            PlanningError: a target would delete other rows than the partition's.
        """
        type_ = self._type_of(relation, key)
        if type_.name in _OTHER_ORDERS:
            raise PlanningError(
                f"--key {key.text}: {type_} {_OTHER_ORDERS[type_.name]}, so the target would "
                "select other rows than the source; use another key, or another --mode"
            )
        return ""


open_source = MssqlSource
