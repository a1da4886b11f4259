"""Tables, views and queries of a database file as a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.facts import TableStatistics
from penstock.backends.duckdb.catalog.definition import read_definition, read_other_objects
from penstock.backends.duckdb.catalog.facts import DuckCatalog
from penstock.backends.duckdb.catalog.queries import subselect
from penstock.backends.duckdb.catalog.table_model import positions_of
from penstock.backends.duckdb.catalog.tables import unique_keys
from penstock.backends.duckdb.connection import connect_to_read
from penstock.backends.duckdb.dialect import DUCKDB, GROUP_ROWS, condition
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.duckdb.snapshot import VERSIONS, check
from penstock.backends.shared.database_file import now
from penstock.backends.sql.catalog.relations import TYPE, read_relations
from penstock.errors import PlanningError
from penstock.model.extents import Key, Whole
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, NotCopied, Query, Relation, SequencePosition, TableRef

SAMPLE_ROWS = 200_000
# Operators without input that read from the database, or nothing.
_INSIDE = (
    "SEQ_SCAN", "TABLE_SCAN", "INDEX_SCAN", "DUMMY_SCAN", "EMPTY_RESULT", "COLUMN_DATA_SCAN",
    "CTE_SCAN", "REC_CTE_SCAN", "DELIM_SCAN", "RANGE", "GENERATE_SERIES", "UNNEST", "REPEAT",
)  # fmt: skip


class DuckSource(DuckCatalog):
    """The catalog of a DuckDB source."""

    # Writes are visible in the file at once.
    settle_seconds = 0.0

    def __init__(self, path: str | None) -> None:
        self._path = path
        session = DuckSession(connect_to_read(path, "source"), "source")
        super().__init__(session, session.rows_of)

    def close(self) -> None:
        self._session.close()

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if not isinstance(relation, Query):
            return super().columns(relation)
        # Describe the query itself: inside another query, columns with the same name are renamed.
        text = subselect(relation.text).removesuffix(" AS query")
        names = [name for name, _ in self._session.describe(text, "--query")]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PlanningError(
                f"--query: expected distinct column names, found {', '.join(map(repr, twice))} "
                "more than once; rename columns with AS"
            )
        return super().columns(relation)

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        if self.is_table(relation):
            assert isinstance(relation, TableRef)
            return read_definition(self._session, relation, self.columns(relation))
        return super().definition(relation, partitioning=partitioning)

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        if not self.is_table(relation):
            return {}
        assert isinstance(relation, TableRef)
        return positions_of(self._session, relation)

    def other_objects(
        self, include: Sequence[str], exclude: Sequence[str]
    ) -> tuple[NotCopied, ...]:
        return read_other_objects(self._session, include, exclude)

    def adopt(self, snapshot: Snapshot) -> None:
        check(self._path, snapshot.token)

    def state(self, relation: Relation) -> SourceState:
        if self._path is None or self._reads_elsewhere(relation):
            # Writes to other files are not recorded, so no moment equals another.
            name = VERSIONS.identity(self._path) if self._path else ""
            return SourceState(name, "", now(), "")
        version = VERSIONS.version(self._path)
        return SourceState(VERSIONS.identity(self._path), version, version, version)

    def identity(self, relation: Relation) -> Mapping[str, str]:
        return {"file": VERSIONS.identity(self._path) if self._path else "in memory"}

    def _reads_elsewhere(self, relation: Relation) -> bool:
        if self.is_table(relation):
            return False
        return any(leaf not in _INSIDE for leaf in self.leaves(relation))

    # Sizes

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        if not self.is_table(relation):
            return super().statistics(relation, where)
        assert isinstance(relation, TableRef)
        self.check_where(relation, where)
        rows, last, stored = self._sizes(relation)
        # Data not yet in blocks is in the write-ahead log.
        size = stored or rows * self.row_width(relation)
        # Rows of a small table share a block with others.
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

    def _sizes(self, relation: TableRef) -> tuple[int, int | None, int]:
        """Return the number of rows, the number of the last one, and the bytes of the blocks."""
        facts = self._session.catalog_facts
        if facts is None:
            return self._all_sizes([relation])[relation]
        return facts.about("sizes", relation, self._all_sizes)

    def _all_sizes(self, tables: Sequence[TableRef]) -> dict[TableRef, tuple[int, int | None, int]]:
        subject = f"table {tables[0]}" if len(tables) == 1 else "tables"
        relations = read_relations(self._session)
        existing = [table for table in tables if not relations.get(table, True)]
        names = [self._session.table(table) for table in existing]
        rows = [f"SELECT {n}, count(*), max(rowid) FROM {name}" for n, name in enumerate(names)]
        blocks = [
            f"SELECT {n}, (SELECT block_size FROM pragma_database_size() LIMIT 1) * count(*)"
            " FROM (SELECT DISTINCT unnest(list_prepend(block_id, additional_block_ids)) AS block"
            f" FROM pragma_storage_info({DUCKDB.literal(name)})) WHERE block >= 0"
            for n, name in enumerate(names)
        ]
        counted = self._session.fetch(" UNION ALL ".join(rows), subject)
        stored = [
            size for _, size in sorted(self._session.fetch(" UNION ALL ".join(blocks), subject))
        ]
        return {existing[n]: (count, last, stored[n]) for n, count, last in counted}

    def _selected(self, relation: TableRef, where: str | None, rows: int) -> float:
        if where is None or not rows:
            return 1.0
        tested = condition(where, Whole())
        query = (
            f"SELECT avg(CASE WHEN {tested} THEN 1 ELSE 0 END) FROM {self._sampled(relation, rows)}"
        )
        ((share,),) = self._session.fetch(query, "--where")
        return 1.0 if share is None else float(share)

    def _sampled(self, relation: TableRef, rows: int) -> str:
        percent = min(100.0, max(100.0 * SAMPLE_ROWS / max(rows, 1), 0.0001))
        name = self._session.table(relation)
        if percent == 100.0:
            return name
        return f"{name} TABLESAMPLE SYSTEM ({percent:.4f} PERCENT) REPEATABLE (1)"

    def _default_key(self, relation: TableRef) -> str | None:
        types = {column.name: column.traits[TYPE] for column in self.columns(relation)}
        for constraint in unique_keys(self._session, relation)[:1]:
            first = constraint.names[0]
            if constraint.primary and DUCKDB.tag_of(types[first]) in DUCKDB.ranged:
                return first
        return None

    # Keys

    def sample(self, relation: Relation, key: Key) -> tuple[str, str] | None:
        if not self.is_table(relation):
            return None
        assert isinstance(relation, TableRef)
        ((rows,),) = self._session.fetch(
            f"SELECT count(*) FROM {self._rows(relation)}", f"table {relation}"
        )
        share = f"a sample of about {min(rows, SAMPLE_ROWS):,} rows"
        return self._sampled(relation, rows), share

    def finds(self, relation: Relation) -> bool:
        # Each row group records the lowest and highest value of each column.
        return self.is_table(relation)


open_source = DuckSource
