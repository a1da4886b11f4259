"""Facts about a source's tables, for planning and verification. Reads catalogs, not rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from penstock.backends.api.facts import Checksum, KeyStatistics, RankedBound, TableStatistics
from penstock.backends.postgresql.attempt.older_sessions import Guard
from penstock.backends.postgresql.catalog import sequences
from penstock.backends.postgresql.catalog.casting import castable
from penstock.backends.postgresql.catalog.columns import read_columns
from penstock.backends.postgresql.catalog.keys import SourceKey, column_facts
from penstock.backends.postgresql.catalog.queries import query_columns
from penstock.backends.postgresql.catalog.relations import (
    check_readable,
    find_by_name,
    list_heirs,
    list_others,
    list_tables,
    search_path,
)
from penstock.backends.postgresql.catalog.sizes import read_statistics
from penstock.backends.postgresql.catalog.source_state import may_have_moved, read_state
from penstock.backends.postgresql.compare.checksums import (
    read_checksum,
    read_rows,
    source_values,
)
from penstock.backends.postgresql.compare.conditions import select
from penstock.backends.postgresql.connection import Connection, abandon, connect
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.snapshot import (
    AT_ONCE,
    import_snapshot,
    join_locks,
    watcher,
)
from penstock.backends.postgresql.statements import column_list
from penstock.errors import PenstockError
from penstock.model.extents import Bound, Extent, Key
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import (
    Column,
    ColumnPair,
    NotCopied,
    Query,
    Relation,
    SequencePosition,
    TableDefinition,
    TableRef,
)
from penstock.spec.worker_spec import Patience


class PostgresSource:
    # A session that has become idle reports what it wrote after 10 s at the latest
    # (PGSTAT_IDLE_INTERVAL in pgstat.c).
    settle_seconds = 11.0

    def __init__(self, url: str) -> None:
        connection = connect(url, "source", "penstock:plan")
        connection.side = "source"
        what = "planning or verification"
        guard = Guard("", Patience(), partial(watcher, url), side="source", what=what)
        self._begin(connection, guard)

    def _begin(self, connection: Connection, guard: Guard) -> None:
        self._connection = connection
        self._connection.guard = guard
        self._adopted = ""
        self._locked: Sequence[Relation] = ()
        self._queries: dict[Query, tuple[Column, ...]] = {}

    def close(self) -> None:
        abandon(self._connection)

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if isinstance(relation, Query):
            if relation not in self._queries:
                self._queries[relation] = query_columns(self._connection, relation)
            return self._queries[relation]
        assert isinstance(relation, TableRef)
        columns = read_columns(self._connection, relation, "source")
        check_readable(self._connection, relation)
        return columns

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        from penstock.backends.postgresql.arrow.types import travels_as  # noqa: PLC0415

        return tuple(
            replace(column, traits={**column.traits, "arrow": travels_as(column)})
            for column in columns
        )

    def castable(self, relation: Relation, wanted: Sequence[tuple[str, str]]) -> list[bool]:
        return castable(self._connection, self.columns(relation), wanted)

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        from penstock.backends.postgresql.ddl.definition import read_definition  # noqa: PLC0415 - seldom

        return read_definition(self._connection, relation, partitioning=partitioning)

    def heirs(self, relation: Relation) -> tuple[TableRef, ...]:
        return list_heirs(self._connection, relation) if isinstance(relation, TableRef) else ()

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        if not isinstance(relation, TableRef):
            return {}
        return sequences.positions(self._connection, relation)

    def tables(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[TableRef, ...]:
        return list_tables(self._connection, include, exclude)

    def schemas(self) -> tuple[str, ...]:
        return search_path(self._connection, "source")

    def find(self, name: str) -> TableRef | None:
        return find_by_name(self._connection, name, "source")

    def others(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[NotCopied, ...]:
        return list_others(self._connection, include, exclude)

    def adopt(self, snapshot: Snapshot) -> None:
        status = self._connection.info.transaction_status
        if self._adopted == snapshot.token and status == TransactionStatus.INTRANS:
            return
        if status != TransactionStatus.IDLE:
            # A question that the server refused has ended the transaction for all others.
            with translated("source"):
                self._connection.execute("ROLLBACK")
            self._locked = self._locked if self._adopted == snapshot.token else ()
        import_snapshot(self._connection, snapshot.token)
        self._adopted = snapshot.token
        self.lock(self._locked)

    def lock(self, relations: Sequence[Relation]) -> None:
        try:
            for first in range(0, len(relations), AT_ONCE):
                some = relations[first : first + AT_ONCE]
                join_locks(self._connection, some, Patience().stall_timeout)
        except PenstockError:
            with contextlib.suppress(psycopg.Error):
                self._connection.execute("ROLLBACK")
            raise
        self._locked = relations

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        return read_statistics(self._connection, relation, where)

    def state(self, relation: Relation) -> SourceState:
        return read_state(self._connection, relation)

    def may_have_moved(
        self,
        relation: Relation,
        where: str | None,
        extents: Sequence[tuple[Extent, int | None]],
        since: SourceState,
    ) -> bool:
        return may_have_moved(self._connection, relation, where, extents, since)

    def _key(self, relation: Relation, key: Key) -> SourceKey:
        return SourceKey(self._connection, relation, key)

    def key_type(self, relation: Relation, key: Key) -> str:
        return self._key(relation, key).type

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        if key.expression:
            return True, False
        return column_facts(self._connection, relation, key)

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        return self._key(relation, key).statistics(where)

    def finer_statistics(
        self, relation: Relation, where: str | None, known: KeyStatistics, count: int
    ) -> KeyStatistics:
        return SourceKey(self._connection, relation, known.key).finer(where, known, count)

    def ntile(self, relation: Relation, key: Key, where: str | None, count: int) -> KeyStatistics:
        return self._key(relation, key).ntile(where, count)

    def own_order(self, relation: Relation, key: Key) -> str:
        return ""

    def shared_order(self, relation: Relation, key: Key) -> str:
        return self._key(relation, key).shared_order()

    def windows(
        self, relation: Relation, key: Key, interval: str, where: str | None, limit: int
    ) -> tuple[tuple[Bound, ...], str]:
        return self._key(relation, key).windows(interval, where, limit)

    def distinct(
        self, relation: Relation, key: Key, where: str | None, query: str | None, limit: int
    ) -> tuple[Bound, ...]:
        return self._key(relation, key).distinct(where, query, limit)

    def ranked(
        self, relation: Relation, key: Key, texts: Sequence[str], *, ordered: bool
    ) -> tuple[RankedBound, ...]:
        found = self._key(relation, key)
        if ordered:
            found.check_ranged()
        return found.ranked(texts)

    def misplaced(self, relation: Relation, key: Key, bounds: Sequence[Bound]) -> int | None:
        return self._key(relation, key).misplaced(bounds)

    def checksum(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
    ) -> Checksum:
        return read_checksum(
            self._connection,
            "source",
            _rows(relation, extent, where, pairs),
            sql.SQL("true"),
            source_values(pairs, lambda: self.columns(relation)),
        )

    def row_digests(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str] = (),
    ) -> Iterator[tuple[str, str]]:
        return read_rows(
            self._connection,
            "source",
            _rows(relation, extent, where, pairs),
            sql.SQL("true"),
            source_values(pairs, lambda: self.columns(relation)),
            key,
            only,
        )


class HolderSource(PostgresSource):
    """A catalog in the session that holds the snapshot, with the locks of that.

    To close it does not let go of the snapshot.
    """

    def __init__(self, connection: Connection, snapshot: Snapshot, guard: Guard) -> None:
        self._begin(connection, guard)
        connection.side = "source"
        self._adopted = snapshot.token

    def close(self) -> None:
        self._connection.guard = None
        self._connection.side = ""

    def checksum(
        self, relation: Relation, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        # A question that the server refuses must not end the snapshot for all others.
        with self._connection.transaction():
            return super().checksum(relation, where, extent, pairs)


def _rows(
    relation: Relation, extent: Extent, where: str | None, pairs: Sequence[ColumnPair]
) -> sql.Composable:
    """What a partition is read from, as one relation, whatever tables it consists of."""
    columns = column_list(pair.source for pair in pairs)
    return sql.SQL("({}) AS rows").format(select(relation, extent, where, columns))
