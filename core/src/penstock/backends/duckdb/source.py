"""Tables, views and queries of a database file, as a source."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.facts import TableStatistics
from penstock.backends.duckdb.background import interrupting
from penstock.backends.duckdb.catalog.conditions import GROUP_ROWS, condition
from penstock.backends.duckdb.catalog.definition import read_definition, read_others
from penstock.backends.duckdb.catalog.facts import DuckCatalog
from penstock.backends.duckdb.catalog.keys import RANGED, tag_of
from penstock.backends.duckdb.catalog.queries import subselect
from penstock.backends.duckdb.catalog.tables import (
    TYPE,
    find_by_name,
    matching,
    read_columns,
    relations,
    search_path,
    unique_keys,
)
from penstock.backends.duckdb.connection import catalog_name, connect_to_read, full_name
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.location import path_of
from penstock.backends.duckdb.rows import first
from penstock.backends.duckdb.snapshot import check, identity, now, version
from penstock.errors import PlanningError
from penstock.model.extents import Key, Whole
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import (
    Column,
    NotCopied,
    Query,
    Relation,
    TableDefinition,
    TableRef,
)

SAMPLE_ROWS = 200_000
# Operators without input that read what is in the database, or nothing.
_INSIDE = (
    "SEQ_SCAN", "TABLE_SCAN", "INDEX_SCAN", "DUMMY_SCAN", "EMPTY_RESULT", "COLUMN_DATA_SCAN",
    "CTE_SCAN", "REC_CTE_SCAN", "DELIM_SCAN", "RANGE", "GENERATE_SERIES", "UNNEST", "REPEAT",
)  # fmt: skip


class DuckSource(DuckCatalog):
    # A write shows in the file at once.
    settle_seconds = 0.0

    def __init__(self, url: str) -> None:
        self._path = path_of(url)
        connection = connect_to_read(self._path, "source")
        super().__init__(connection, self._item)
        self._catalog = catalog_name(connection, "source")

    def _item(self, relation: Relation) -> str:
        if isinstance(relation, Query):
            return subselect(relation.text)
        assert isinstance(relation, TableRef)
        return full_name(self._catalog, relation)

    def close(self) -> None:
        interrupting(self._connection)()
        self._connection.close()

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if isinstance(relation, TableRef):
            return read_columns(self._connection, self._catalog, relation, "source")
        assert isinstance(relation, Query)
        # Of the query itself: as a part of another one its columns would be told apart.
        with planning("source", "--query"):
            text = subselect(relation.text).removesuffix(" AS query")
            names = self._connection.sql(text).columns
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PlanningError(
                f"--query: expected each column name once, found {', '.join(map(repr, twice))} "
                "more than once; write AS name"
            )
        return super().columns(relation)

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        if partitioning:
            raise PlanningError(
                f"--partitioning: expected a table that consists of tables, found {relation}"
            )
        return read_definition(
            self._connection, self._catalog, relation, self.columns(relation), self._is_table
        )

    def _is_table(self, relation: Relation) -> bool:
        """A base table, not a view."""
        known = relations(self._connection, self._catalog)
        return isinstance(relation, TableRef) and known.get(relation) is False

    def tables(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[TableRef, ...]:
        known = relations(self._connection, self._catalog)
        base = [table for table, is_view in known.items() if not is_view]
        return matching(base, include, exclude)

    def schemas(self) -> tuple[str, ...]:
        return search_path(self._connection)

    def find(self, name: str) -> TableRef | None:
        return find_by_name(self._connection, self._catalog, name)

    def others(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[NotCopied, ...]:
        return read_others(self._connection, self._catalog, include, exclude)

    def adopt(self, snapshot: Snapshot) -> None:
        check(self._path, snapshot.token)

    def state(self, relation: Relation) -> SourceState:
        if self._path is None or self._reads_elsewhere(relation):
            # Nobody says who writes to files: no moment is ever equal to another.
            name = identity(self._path) if self._path else ""
            return SourceState(name, "", now(), "")
        seen = version(self._path)
        return SourceState(identity(self._path), seen, seen, seen)

    def _reads_elsewhere(self, relation: Relation) -> bool:
        if self._is_table(relation):
            return False
        with planning("source", str(relation)):
            leaves = self.leaves(relation)
        return any(leaf not in _INSIDE for leaf in leaves)

    # Sizes

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        if not self._is_table(relation):
            return super().statistics(relation, where)
        assert isinstance(relation, TableRef)
        self.check_where(relation, where)
        name = full_name(self._catalog, relation)
        with planning("source", f"table {relation}"):
            found = first(
                self._connection.execute(
                    f"SELECT (SELECT count(*) FROM {name}), (SELECT max(rowid) FROM {name}),"
                    " (SELECT block_size FROM pragma_database_size() LIMIT 1)"
                )
            )
            assert found is not None
            rows, last, block_size = found
            stored = first(
                self._connection.execute(
                    "SELECT count(*) FROM (SELECT DISTINCT unnest(list_prepend(block_id,"
                    " additional_block_ids)) AS block FROM pragma_storage_info($1))"
                    " WHERE block >= 0",
                    [name],
                )
            )
        assert stored is not None
        # What is not in blocks yet is in the write-ahead log.
        size = stored[0] * block_size or rows * self.row_width(relation)
        # Rows of one small table share a block with others.
        size = min(size, max(rows, 1) * self.row_width(relation) * 4)
        groups = 0 if last is None else last // GROUP_ROWS + 1
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=self._selected(relation, where, rows),
            blocks=groups,
            storage=f"a table of {rows:,} rows in {groups:,} row groups, {size / 1e6:,.1f} MB",
            default_key=self._default_key(relation),
        )

    def _selected(self, relation: TableRef, where: str | None, rows: int) -> float:
        if where is None or not rows:
            return 1.0
        tested = condition(where, Whole())
        query = (
            f"SELECT avg(CASE WHEN {tested} THEN 1 ELSE 0 END) FROM {self._sampled(relation, rows)}"
        )
        with planning("source", "--where"):
            found = first(self._connection.execute(query))
        return float(found[0]) if found and found[0] is not None else 1.0

    def _sampled(self, relation: TableRef, rows: int) -> str:
        percent = min(100.0, max(100.0 * SAMPLE_ROWS / max(rows, 1), 0.0001))
        name = full_name(self._catalog, relation)
        if percent == 100.0:
            return name
        return f"{name} TABLESAMPLE SYSTEM ({percent:.4f} PERCENT) REPEATABLE (1)"

    def _default_key(self, relation: TableRef) -> str | None:
        keys = unique_keys(self._connection, self._catalog, relation)
        types = {column.name: column.traits[TYPE] for column in self.columns(relation)}
        for constraint in keys[:1]:
            first = constraint.columns[0]
            if constraint.kind == "PRIMARY KEY" and tag_of(types[first]) in RANGED:
                return first
        return None

    # Keys

    def sample(self, relation: Relation, key: Key) -> tuple[str, str] | None:
        if not self._is_table(relation):
            return None
        assert isinstance(relation, TableRef)
        with planning("source", f"table {relation}"):
            found = self._connection.execute(f"SELECT count(*) FROM {self._item(relation)}")
            rows = found.fetchall()[0][0]
        share = f"a sample of about {min(rows, SAMPLE_ROWS):,} rows"
        return self._sampled(relation, rows), share

    def finds(self, relation: Relation) -> bool:
        # Each row group knows the least and the greatest value of each column.
        return self._is_table(relation)
