"""A target's catalog, as far as it is SQL: it finds tables and compares rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from penstock.backends.api.capabilities import TargetCapabilities
from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.facts import Checksum
from penstock.backends.api.optional.nights import Bucket, KeyDigest, KeyRanges, KeySelection
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.sql.catalog.relations import (
    TYPE,
    check_is_table,
    find_relation,
    read_columns,
    read_relations,
    read_relations_anew,
)
from penstock.backends.sql.loads.deleted_keys import TargetKeys
from penstock.backends.sql.loads.load_plan import TargetTables
from penstock.backends.sql.loads.loaded_table import LoadRecords
from penstock.backends.sql.rows.checksums import (
    as_loaded,
    canonical_texts,
    read_checksum,
    read_digests,
)
from penstock.backends.sql.rows.conditions import condition
from penstock.backends.sql.session import Session
from penstock.model.extents import Extent, Key
from penstock.model.records import CommitRecord
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, TableRef
from penstock.spec.modes import Mode, Table


class SqlTarget(ABC):
    """The part of a `TargetCatalog` that is SQL. Rows do not record who loaded them."""

    capabilities: TargetCapabilities
    control: RecordedRuns
    tables: TargetTables

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Session]:
        """Open a session that changes nothing."""

    def _created_table(self, table: TableRef) -> AbstractContextManager[tuple[Session, TableRef]]:
        """Return a table of the columns defined for a new table, and a session that sees it."""
        raise NotImplementedError  # no mode creates a table

    def expected_columns(
        self,
        table: TableRef,
        columns: Sequence[Column],
        define: Callable[[], TableDefinition],
    ) -> tuple[Column, ...]:
        """See `AltersColumns`."""
        return self.defined_columns(table, define(), columns, {})

    @contextmanager
    def _created_rows(self, table: TableRef) -> Iterator[tuple[Session, str]]:
        """Provide that table as an item of FROM."""
        with self._created_table(table) as (session, created):
            yield session, session.table(created)

    # Tables

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        raise NotImplementedError  # no mode creates a table

    def has_indexes(self, table: TableRef) -> bool:
        """See `WithIndexes`."""
        with self._reading() as session:
            if table not in read_relations(session):
                return False
            return bool(self.tables.deferrable_indexes(session, table)[0])

    def schemas(self) -> tuple[str, ...]:
        with self._reading() as session:
            return session.search_path()

    def schemas_beside(self, table: TableRef) -> tuple[str, ...] | None:
        """See `WithSchemas`."""
        with self._reading() as session:
            if not session.dialect.schema_statements(table.schema):
                return None
            if any(each.schema == table.schema for each in read_relations(session)):
                return None
            rows = session.once(session.dialect.schemas, "schemas", [session.catalog])
        names = tuple(str(name) for (name,) in rows)
        # Whether letters in another case name another schema is for the database to say.
        is_there = table.schema.casefold() in map(str.casefold, names)
        return None if is_there else names

    def find(self, name: str) -> TableRef | None:
        with self._reading() as session:
            return find_relation(session, name)

    def creates_table(self, table: TableRef, mode: Mode) -> bool:
        if mode.table is Table.RECREATED:
            return True
        if mode not in self.capabilities.creating_modes:
            return False
        with self._reading() as session:
            if table in read_relations(session):
                return False
            if session.catalog_facts is None or table not in read_relations_anew(session):
                return True
            session.catalog_facts.forget()  # the table was created in the meantime
            return False

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        with self._reading() as session:
            nullable = {column.name for column in read_columns(session, table) if column.nullable}
            for key in self.tables.unique_keys(session, table):
                if not nullable.intersection(key.names):
                    return key.names
        return ()

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        with self._reading() as session:
            check_is_table(session, table, "target")

    def shares_order(self, table: TableRef, key: Key, collation: str) -> bool:
        return False

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        with self._reading() as session:
            if table in read_relations(session):
                _check(session, session.table(table), table, where, extent)
                return
        with self._created_rows(table) as (made_in, rows):
            _check(made_in, rows, table, where, extent)

    # Rows

    def checksum(
        self, table: TableRef, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        with self._reading() as session:
            rows, chosen = session.table(table), condition(session.dialect, where, extent)
            texts = canonical_texts(session, rows, as_loaded(pairs))
            return read_checksum(session, rows, chosen, texts)

    def checksums(
        self,
        table: TableRef,
        where: str | None,
        records: Sequence[CommitRecord],
        pairs: Sequence[ColumnPair],
        *,
        digest_others: bool,
    ) -> Mapping[str, Checksum] | None:
        return None

    def row_digests(
        self,
        table: TableRef,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        not_loaded_by: Sequence[CommitRecord] = (),
    ) -> Iterator[tuple[str, str]]:
        assert not loaded_by
        assert not not_loaded_by
        with self._reading() as session:
            rows, chosen = session.table(table), condition(session.dialect, where, extent)
            texts = canonical_texts(session, rows, as_loaded(pairs))
            yield from read_digests(session, rows, chosen, texts, key, only_keys)

    # Rows deleted from the source; see `FindsDeletedRows`

    def count_after_merge(self, run: RunRow) -> int:
        with self._reading() as session:
            return TargetKeys(session, run).count_after_merge()

    def respelled_keys(self, run: RunRow) -> Sequence[int]:
        with self._reading() as session:
            return TargetKeys(session, run).respelled

    def buckets_after_merge(
        self, run: RunRow, bits: int, within: KeyRanges | None = None
    ) -> dict[int, Bucket]:
        assert within is None, "it counts no ranges"
        with self._reading() as session:
            return TargetKeys(session, run).buckets_after_merge(bits)

    def target_keys(self, run: RunRow, selection: KeySelection | None) -> Iterator[KeyDigest]:
        with self._reading() as session:
            yield from TargetKeys(session, run).keys(selection)

    def record_deleted_keys(
        self,
        run_id: str,
        digests: Sequence[int],
        check: Callable[[int], None],
        within: KeyRanges | None = None,
    ) -> bool:
        assert within is None, "it counts no ranges"
        records = self.control.records
        assert isinstance(records, LoadRecords), "a target that merges nights has them"

        def keep(run: RunRow) -> None:
            check(TargetKeys(records.session, run).keep(digests) if digests else 0)

        return self.control.nights.record_deleted_keys(run_id, keep)


def no_rows(session: Session, columns: Sequence[Column]) -> str:
    """Return an item of FROM with such columns, if no table has them yet."""
    dialect = session.dialect
    listed = (
        f"{dialect.cast('NULL', str(column.traits[TYPE]))} AS {dialect.ident(column.name)}"
        for column in columns
    )
    return f"(SELECT {', '.join(listed)}) AS made"


def _check(session: Session, rows: str, table: TableRef, where: str | None, extent: Extent) -> None:
    """Check that a condition can be evaluated.

    Args:
        session: the session with the database.
        rows: the target's table as an item of FROM, or one with its columns.
        table: the table.
        where: the condition of `--where`; None for all rows.
        extent: the rows of one partition, or all.

    Raises:
        PlanningError: the condition cannot be evaluated on them.
    """
    session.check(
        f"SELECT 1 FROM {rows} WHERE {condition(session.dialect, where, extent)}",
        f"--mode replace: the partitions' condition on {table}",
    )
