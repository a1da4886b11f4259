"""Facts about a source's tables, for planning and verification. Reads catalogs, not rows."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import sql
from psycopg.pq import TransactionStatus

from penstock.backends.api.facts import (
    Checksum,
    HashStatistics,
    KeyStatistics,
    RankedBound,
    TableStatistics,
)
from penstock.backends.api.optional.cursors import CursorRange, CursorState
from penstock.backends.api.optional.writes import TableWrites
from penstock.backends.api.worker import ROWS
from penstock.backends.postgresql.attempt.older_sessions import Guard
from penstock.backends.postgresql.catalog.casting import castable
from penstock.backends.postgresql.catalog.columns import columns_of
from penstock.backends.postgresql.catalog.queries import described_columns, query_columns
from penstock.backends.postgresql.catalog.relation_facts import RelationFacts
from penstock.backends.postgresql.catalog.relations import (
    check_readable,
    find_by_name,
    heirs_of,
    match_other_objects,
    match_tables,
    natures_of,
    read_other_objects,
    read_tables,
    search_path,
)
from penstock.backends.postgresql.catalog.sequences import positions_of
from penstock.backends.postgresql.catalog.sizes import read_statistics, sizes_of
from penstock.backends.postgresql.catalog.source_state import (
    may_have_moved,
    read_states,
    settled_state,
)
from penstock.backends.postgresql.catalog.versions import (
    FIRST_NORMAL,
    FURTHEST,
    changed_rows_condition,
    check_fixed,
    check_versioned,
    horizon_holder,
    or_in_tables,
    versions_of,
)
from penstock.backends.postgresql.compare.checksums import (
    Values,
    integers_of,
    key_values,
    read_checksum,
    read_rows,
    source_values,
)
from penstock.backends.postgresql.compare.conditions import select
from penstock.backends.postgresql.connection import PLAN, Connection, abandon, connect
from penstock.backends.postgresql.errors import planning, translated
from penstock.backends.postgresql.keys.keys import SourceKey, column_facts
from penstock.backends.postgresql.session.masking import (
    MASKING,
    mask_tag,
    mask_type,
    secret_statements,
)
from penstock.backends.postgresql.session.statements import column_list, ident, named_columns
from penstock.backends.postgresql.session.statements import relation as read_from
from penstock.backends.postgresql.session.waiting import watcher
from penstock.backends.postgresql.snapshot.importing import REACHED, import_locked, import_snapshot
from penstock.backends.postgresql.snapshot.locks import AT_ONCE, join_locks
from penstock.backends.postgresql.snapshot.writes import read_writes, was_all_read
from penstock.errors import PenstockError
from penstock.model.extents import Bound, Extent, Key, Whole
from penstock.model.nights import Cursor, Horizon, SourceVersions
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import (
    Column,
    ColumnPair,
    MaskingKey,
    NotCopied,
    Query,
    Relation,
    SequencePosition,
    TableRef,
)
from penstock.spec.masking_keys import session_values
from penstock.spec.masks import Mask
from penstock.spec.worker_spec import Patience

if TYPE_CHECKING:
    from penstock.backends.api.optional.nights import Bucket, KeyDigest, KeyRanges, KeySelection
    from penstock.backends.postgresql.catalog.cursors import OpenSince

T = TypeVar("T")


class PostgresSource:
    """The catalog of a PostgreSQL source.

    Args:
        url: the URL of the source, for the session that watches this one.
        connection: a session opened for it.
    """

    # An idle session reports its writes within 10 s (PGSTAT_IDLE_INTERVAL in pgstat.c).
    settle_seconds = 11.0

    def __init__(self, url: str, connection: Connection | None = None) -> None:
        connection = connection or connect(url, "source", PLAN)
        connection.side = "source"
        what = "planning or verification"
        guard = Guard("", Patience(), partial(watcher, url), side="source", what=what)
        self._begin(connection, guard)

    def _begin(self, connection: Connection, guard: Guard) -> None:
        self._connection = connection
        self._connection.guard = guard
        self._adopted = ""
        self._open_since: OpenSince | None = None
        self._horizon: Horizon | None = None
        self._locked: Sequence[Relation] = ()
        self._oids: Mapping[TableRef, int] = {}
        """The object ids of locked tables."""
        self._queries: dict[Query, tuple[Column, ...]] = {}
        self._computed: dict[Relation, tuple[Column, ...]] = {}
        """The computed columns from the last question about each relation."""
        self._sets: list[RelationFacts] = []

    def close(self) -> None:
        abandon(self._connection)

    @contextlib.contextmanager
    def describing(self, relations: Sequence[Relation]) -> Iterator[None]:
        self._sets.append(RelationFacts(self._connection, relations, self._oids))
        try:
            yield
        finally:
            self._sets.pop()

    def prefetch(self, definitions: Collection[bool] = ()) -> None:
        if not self._sets:
            return
        facts, connection = self._sets[-1], self._connection
        if facts.is_empty:
            # The caller is about to look some up.
            listed = (("tables", read_tables), ("others", read_other_objects))
            connection.share_round_trips(
                partial(self._read_once, what, partial(read, connection)) for what, read in listed
            )
            return
        kinds: list[tuple[Hashable, Callable[[Sequence[int]], Mapping[int, object]]]] = [
            ("columns", partial(columns_of, connection, types=facts.types)),
            ("nature", partial(natures_of, connection)),
            ("state", partial(read_states, connection)),
        ]
        if self._adopted:
            kinds += [
                ("heirs", partial(heirs_of, connection)),
                ("positions", partial(positions_of, connection)),
                ("size", partial(sizes_of, connection)),
            ]
        if self._adopted and definitions:
            from penstock.backends.postgresql.ddl.definition import definitions_of  # noqa: PLC0415

            kinds += [
                (
                    ("definition", partitioning),
                    partial(definitions_of, connection, partitioning=partitioning),
                )
                for partitioning in definitions
            ]

        def look(kind: Hashable, read: Callable[[Sequence[int]], Mapping[int, object]]) -> None:
            if (ref := facts.first()) is not None:
                facts.get(kind, ref, read)

        connection.share_round_trips([partial(look, *each) for each in kinds])

    def _about(self, relation: Relation) -> RelationFacts:
        """Return the known facts about a relation; empty outside `describing`."""
        return self._sets[-1] if self._sets else RelationFacts(self._connection, [relation])

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if isinstance(relation, Query):
            if relation not in self._queries:
                self._queries[relation] = query_columns(self._connection, relation)
            return self._queries[relation]
        assert isinstance(relation, TableRef)
        facts, connection = self._about(relation), self._connection
        with planning("source", f"table {relation}"):
            read = partial(columns_of, connection, types=facts.types)
            columns = facts.get("columns", relation, read)
            nature = facts.get("nature", relation, partial(natures_of, connection))
        check_readable(relation, nature, connection.info.user)
        return columns

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        from penstock.backends.postgresql.arrow.csv_rows import why_not  # noqa: PLC0415
        from penstock.backends.postgresql.arrow.types import arrow_type_of  # noqa: PLC0415

        return tuple(
            replace(
                column,
                traits={**column.traits, "arrow": arrow_type_of(column), ROWS: why_not(column)},
            )
            for column in columns
        )

    def castable(self, relation: Relation, column_types: Sequence[tuple[str, str]]) -> list[bool]:
        types = self._about(relation).types
        columns = (*self.columns(relation), *self._computed.get(relation, ()))
        return castable(self._connection, columns, column_types, types)

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        from penstock.backends.postgresql.ddl.definition import (  # noqa: PLC0415 - seldom
            definitions_of,
            query_definition,
        )

        if isinstance(relation, Query):
            return query_definition(self._connection, relation)
        assert isinstance(relation, TableRef)
        read = partial(definitions_of, self._connection, partitioning=partitioning)
        with planning("source", f"{relation}"):
            return self._about(relation).get(("definition", partitioning), relation, read)

    def heirs(self, relation: Relation) -> tuple[TableRef, ...]:
        if not isinstance(relation, TableRef):
            return ()
        with planning("source", f"table {relation}"):
            read = partial(heirs_of, self._connection)
            return self._about(relation).get("heirs", relation, read)

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        if not isinstance(relation, TableRef):
            return {}
        facts = self._about(relation)
        with planning("source", f"sequences of {relation}"):
            if facts.find(relation) is None:
                return {}
            return facts.get("positions", relation, partial(positions_of, self._connection))

    def tables(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[TableRef, ...]:
        with translated("source"):
            rows = self._read_once("tables", partial(read_tables, self._connection))
        return match_tables(rows, include, exclude)

    def _read_once(self, what: str, read: Callable[[], T]) -> T:
        """Return a fact about the whole database, read once."""
        return self._sets[0].once(what, read) if self._sets else read()

    def schemas(self) -> tuple[str, ...]:
        return search_path(self._connection, "source")

    def find(self, name: str) -> TableRef | None:
        return find_by_name(self._connection, name, "source")

    def other_objects(
        self, include: Sequence[str], exclude: Sequence[str]
    ) -> tuple[NotCopied, ...]:
        with translated("source"):
            rows = self._read_once("others", partial(read_other_objects, self._connection))
        return match_other_objects(rows, include, exclude)

    @property
    def _is_idle(self) -> bool:
        return self._connection.info.transaction_status == TransactionStatus.IDLE

    def adopt(self, snapshot: Snapshot) -> None:
        status = self._connection.info.transaction_status
        if self._adopted == snapshot.token and status == TransactionStatus.INTRANS:
            return
        if status != TransactionStatus.IDLE:
            # A rejected question has ended the transaction for all others.
            with translated("source"):
                self._connection.execute("ROLLBACK")
        if self._adopted != snapshot.token:
            self._locked = ()
            self._forget()
        import_snapshot(self._connection, snapshot.token)
        self._adopted = snapshot.token
        self._horizon = Horizon.parse(snapshot.horizon)
        self._lock(self._locked)

    def adopt_locked(self, snapshot: Snapshot, relations: Sequence[Relation]) -> None:
        if self._adopted != snapshot.token and self._is_idle and not self._locked:
            seconds = Patience().stall_timeout
            with translated("source"):
                oids = import_locked(self._connection, snapshot.token, relations, seconds)
            if oids is not None:
                self._oids = oids
                for each in self._sets:
                    each.forget(oids)
                self._adopted, self._locked = snapshot.token, tuple(relations)
                self._horizon = Horizon.parse(snapshot.horizon)
                return
        self.adopt(snapshot)
        locked = set(self._locked)
        if added := [each for each in relations if each not in locked]:
            self._lock(added)
            self._locked = (*self._locked, *added)

    def _lock(self, relations: Sequence[Relation]) -> None:
        try:
            for first in range(0, len(relations), AT_ONCE):
                batch = relations[first : first + AT_ONCE]
                join_locks(self._connection, batch, Patience().stall_timeout)
        except PenstockError:
            with contextlib.suppress(psycopg.Error):
                self._connection.execute("ROLLBACK")
            self._forget()
            raise
        # Rolling back to an earlier savepoint would release the locks.
        for each in self._sets:
            each.forget_savepoint()

    def _forget(self) -> None:
        """Forget facts read in another transaction, which may be of another moment."""
        self._oids = {}
        for each in self._sets:
            each.forget()

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        return read_statistics(self._about(relation), relation, where)

    def state(self, relation: Relation) -> SourceState:
        state = SourceState("", "", "", "")
        with planning("source", f"table {relation}"):
            if isinstance(relation, TableRef):
                read = partial(read_states, self._connection)
                state = self._about(relation).get("state", relation, read)
            return settled_state(self._connection, relation, state)

    def writes(self, table: TableRef) -> TableWrites:
        with planning("source", f"writes to {table}"):
            return read_writes(self._connection, table, self._about(table).oid(table))

    def was_all_read(self, table: TableRef, planned: SourceState, read: Horizon) -> bool:
        return was_all_read(planned, self.state(table), read)

    max_transaction_distance = FURTHEST

    def versions(self, relation: TableRef) -> SourceVersions:
        facts, children = self._about(relation), not relation.only
        read = partial(versions_of, self._connection, children=children)
        with planning("source", f"row versions of {relation}"):
            versions, storage = facts.get(("versions", children), relation, read)
            check_versioned(relation, storage)
            oldest = facts.once("oldest", partial(horizon_holder, self._connection))
        return replace(versions, oldest=oldest)

    def horizon(self) -> Horizon:
        if self._adopted and self._horizon:
            return self._horizon
        with planning("source", "horizon"):
            reached = int(self._connection.value(REACHED) or 0)
            xmin, xmax = self._connection.first(
                "SELECT pg_catalog.txid_snapshot_xmin(s), pg_catalog.txid_snapshot_xmax(s)"
                " FROM pg_catalog.txid_current_snapshot() AS s"
            )
            return Horizon(xmin, xmax, reached)

    def check_fixed(self, where: str) -> None:
        self._read_once(f"functions of {where}", partial(check_fixed, self._connection, where))

    def has_reached(self, horizon: Horizon) -> bool:
        # Counted from the server's next id, whatever the transaction's own snapshot sees.
        with planning("source", "horizon"):
            latest = str(max(horizon.xmax % 2**32, FIRST_NORMAL))
            return int(self._connection.value("SELECT pg_catalog.age(%s::xid)", [latest])) >= 0

    def changed_rows_condition(self, since: Horizon, new_tables: Sequence[int]) -> str:
        return changed_rows_condition(since, new_tables)

    def or_in_tables(self, condition: str, tables: Sequence[int]) -> str:
        return or_in_tables(condition, tables)

    # See `ReadsByColumn`

    def note_open(self) -> None:
        # Transactions noted before an earlier snapshot also count for this one.
        if self._open_since is None and not self._adopted:
            from penstock.backends.postgresql.catalog.cursors import open_since  # noqa: PLC0415 - seldom

            self._open_since = open_since(self._connection)

    def cursor(
        self, relation: Relation, where: str | None, columns: Sequence[str], max_ahead: float
    ) -> CursorState:
        from penstock.backends.postgresql.catalog import cursors  # noqa: PLC0415 - seldom
        from penstock.backends.sql.rows.cursors import tag_of_cursor  # noqa: PLC0415 - seldom

        assert isinstance(relation, TableRef), "checked with the options"
        tags = self._cursor_tags(relation, columns)
        tag = tag_of_cursor(tags, columns, str(relation))
        facts = [self.key_facts(relation, Key(each)) for each in columns]
        self.note_open()
        before = self._open_since
        proof = cursors.prove(self._connection, relation, columns, before)
        text, nulls, ahead = cursors.cursor_sql(self._connection, relation).now(
            where,
            columns,
            tag,
            max_ahead,
            nullable=all(nullable for nullable, _ in facts),
            upper_limit="" if proof.unproven or before is None else cursors.least_open(before),
        )
        versions = self._about(relation).get(
            ("versions", not relation.only),
            relation,
            partial(versions_of, self._connection, children=not relation.only),
        )
        return CursorState(
            columns=tuple(columns),
            type=tag,
            text=text,
            nulls=nulls,
            ahead=ahead,
            unproven=proof.unproven,
            indexed=all(indexed for _, indexed in facts),
            source=cursors.identity_of(self._connection, relation) if versions[1] else {},
            proof=proof.proof,
            assumed=proof.assumed,
        )

    def _cursor_tags(self, relation: TableRef, columns: Sequence[str]) -> dict[str, str]:
        """Return the tags of all columns; columns not asked for may have any tag."""
        tags = {column.name: "" for column in self.columns(relation)}
        existing = [each for each in columns if each in tags]
        return tags | {each: self._key(relation, Key(each)).type for each in existing}

    def cursor_range(
        self, relation: Relation, since: Cursor, state: CursorState, lookback: str, *, nulls: bool
    ) -> CursorRange:
        from penstock.backends.postgresql.catalog import cursors  # noqa: PLC0415 - seldom

        assert isinstance(relation, TableRef), "checked with the options"
        found = cursors.cursor_sql(self._connection, relation).range(
            since, state, lookback, nulls=nulls
        )
        return replace(found, broken=cursors.broken_reason(self._connection, since, state))

    def keys_at(
        self,
        relation: Relation,
        where: str | None,
        columns: Sequence[str],
        value: Bound,
        key: Sequence[str],
    ) -> str:
        from penstock.backends.postgresql.catalog import cursors  # noqa: PLC0415 - seldom

        assert isinstance(relation, TableRef), "checked with the options"
        return cursors.cursor_sql(self._connection, relation).keys_at(where, columns, value, key)

    def may_have_moved(
        self,
        relation: Relation,
        where: str | None,
        extents: Sequence[tuple[Extent, int | None]],
        since: SourceState,
    ) -> bool:
        return may_have_moved(self._connection, relation, where, extents, since)

    def _key(self, relation: Relation, key: Key) -> SourceKey:
        # Two references to one table are equal, whichever of its rows they select.
        only = isinstance(relation, TableRef) and relation.only
        return self._about(relation).once(
            ("key", relation, only, key), lambda: SourceKey(self._connection, relation, key)
        )

    def key_type(self, relation: Relation, key: Key) -> str:
        return self._key(relation, key).type

    def hash_statistics(self, relation: Relation, key: Key) -> HashStatistics:
        only = isinstance(relation, TableRef) and relation.only
        return self._about(relation).once(
            ("hashes", relation, only, key),
            lambda: SourceKey(self._connection, relation, key, with_hashes=True).hashes,
        )

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        if key.expression:
            return True, False
        return self._about(relation).once(
            ("key facts", relation, key), lambda: column_facts(self._connection, relation, key)
        )

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        return self._key(relation, key).statistics(where)

    def finer_statistics(
        self, relation: Relation, where: str | None, statistics: KeyStatistics, count: int
    ) -> KeyStatistics:
        return self._key(relation, statistics.key).finer_statistics(where, statistics, count)

    def ntile(self, relation: Relation, key: Key, where: str | None, count: int) -> KeyStatistics:
        return self._key(relation, key).ntile(where, count)

    def native_order(self, relation: Relation, key: Key) -> str:
        return ""

    def shared_order(self, relation: Relation, key: Key) -> str:
        return self._key(relation, key).shared_order()

    def windows(
        self, relation: Relation, key: Key, interval: str, where: str | None, limit: int
    ) -> tuple[tuple[Bound, ...], str]:
        return self._key(relation, key).windows(interval, where, limit)

    def distinct_values(
        self, relation: Relation, key: Key, where: str | None, query: str | None, limit: int
    ) -> tuple[Bound, ...]:
        return self._key(relation, key).distinct_values(where, query, limit)

    def rank_values(
        self, relation: Relation, key: Key, texts: Sequence[str], *, ordered: bool
    ) -> tuple[RankedBound, ...]:
        source_key = self._key(relation, key)
        if ordered:
            source_key.check_ranged()
        return source_key.rank_values(texts)

    def misplaced_bound(self, relation: Relation, key: Key, bounds: Sequence[Bound]) -> int | None:
        return self._key(relation, key).misplaced_bound(bounds)

    def checksum(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
    ) -> Checksum:
        with self._holding(pairs):
            return read_checksum(
                self._connection,
                "source",
                _rows(relation, extent, where, pairs),
                sql.SQL("true"),
                source_values(pairs, lambda: self._columns_of(relation, pairs)),
            )

    # See `ComputesColumns`

    def check_expression(self, relation: Relation, text: str, subject: str) -> None:
        # A condition accepts no aggregates, window functions or sets; CASE accepts no bracket
        # closed without being opened.
        query = sql.SQL("EXPLAIN SELECT 1 FROM {} WHERE CASE WHEN true THEN\n{}\nEND IS NULL")
        with planning("source", subject), self._connection.users_path():
            self._connection.execute(query.format(read_from(relation), sql.SQL(text)))

    def mask_expression(
        self, relation: Relation, column: Column, mask: Mask, key: MaskingKey | None
    ) -> str:
        name, type_ = ident(column.name), mask_type(column)
        return MASKING.expression(mask, column.name, name, type_, mask_tag(column), key)

    def computed_columns(
        self, relation: Relation, pairs: Sequence[ColumnPair], *, in_arrow: bool
    ) -> tuple[Column, ...]:
        with planning("source", "computed columns"):
            columns = described_columns(self._connection, relation, pairs)
        self._computed[relation] = columns
        return self.in_arrow(relation, columns) if in_arrow else columns

    def with_columns(
        self, definition: TableDefinition, columns: tuple[Column, ...]
    ) -> TableDefinition:
        from penstock.backends.postgresql.ddl.computed_columns import with_columns  # noqa: PLC0415 - seldom

        return with_columns(self._connection, definition, columns)

    def _columns_of(self, relation: Relation, pairs: Sequence[ColumnPair]) -> tuple[Column, ...]:
        """Return the columns that pairs read."""
        if not any(pair.expression for pair in pairs):
            return self.columns(relation)
        with planning("source", "computed columns"):
            return described_columns(self._connection, relation, pairs)

    @contextlib.contextmanager
    def _holding(self, pairs: Sequence[ColumnPair]) -> Iterator[None]:
        """Open a transaction in which the session has what the expressions need."""
        values = session_values(pairs)
        if not values:
            yield
            return
        with self._connection.transaction():
            with planning("source", "--mask"):
                for question in secret_statements(values, local=True):
                    self._connection.execute(*question)
            yield

    # See `GroupsKeys`

    def key_buckets(
        self,
        relation: Relation,
        where: str | None,
        key: Sequence[ColumnPair],
        bits: int,
        within: KeyRanges | None = None,
    ) -> dict[int, Bucket]:
        from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom

        rows, values = self._keys(relation, where, key, within)
        return deleted_keys.read_buckets(self._connection, "source", rows, values, bits)

    def key_ranges(
        self, relation: Relation, where: str | None, key: Sequence[ColumnPair], count: int
    ) -> tuple[int, dict[int, int]] | None:
        from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom

        first = key[0]
        if not integers_of([first], self.columns(relation)):
            return None
        rows = _rows(relation, Whole(), where, [first])
        bits = deleted_keys.range_bits(self._connection, rows, first.source, count)
        counts = deleted_keys.read_ranges(self._connection, "source", rows, first.source, bits)
        return None if counts is None else (bits, counts)

    def chosen_keys(
        self,
        relation: Relation,
        where: str | None,
        key: Sequence[ColumnPair],
        selection: KeySelection,
    ) -> Iterator[KeyDigest]:
        from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom

        rows, values = self._keys(relation, where, key, selection.within)
        names = [pair.target for pair in key]
        picked = deleted_keys.bucket_condition(values, selection)
        return read_rows(self._connection, "source", rows, picked, values, names, ())

    def _keys(
        self,
        relation: Relation,
        where: str | None,
        key: Sequence[ColumnPair],
        within: KeyRanges | None,
    ) -> tuple[sql.Composable, Values]:
        from penstock.backends.postgresql.compare import deleted_keys  # noqa: PLC0415 - seldom

        columns = self.columns(relation)
        values = key_values(key, integers_of(key, columns), lambda: columns)
        if within is None:
            return _rows(relation, Whole(), where, key), values
        listed = column_list(pair.source for pair in key)
        parts = [
            select(relation, Whole(), part, listed)
            for part in deleted_keys.span_conditions(where, key[0].source, within.spans())
        ]
        return sql.SQL("({}) AS rows").format(sql.SQL(" UNION ALL ").join(parts)), values

    def row_digests(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
    ) -> Iterator[tuple[str, str]]:
        with self._holding(pairs):
            yield from read_rows(
                self._connection,
                "source",
                _rows(relation, extent, where, pairs),
                sql.SQL("true"),
                source_values(pairs, lambda: self._columns_of(relation, pairs)),
                key,
                only_keys,
            )


class HolderSource(PostgresSource):
    """A catalog in the session that holds the snapshot, and under its locks.

    Closing it does not release the snapshot.

    Args:
        connection: the session that holds the snapshot.
        snapshot: the snapshot.
        guard: watches the statements of the session.
    """

    def __init__(self, connection: Connection, snapshot: Snapshot, guard: Guard) -> None:
        self._begin(connection, guard)
        self._adopted = snapshot.token

    def close(self) -> None:
        self._connection.guard = None

    def checksum(
        self, relation: Relation, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        # A rejected question must not end the snapshot for all others.
        with self._connection.transaction():
            return super().checksum(relation, where, extent, pairs)


def _rows(
    relation: Relation, extent: Extent, where: str | None, pairs: Sequence[ColumnPair]
) -> sql.Composable:
    """Return a partition's rows as one relation, whichever tables they come from."""
    columns = named_columns(pairs)
    return sql.SQL("({}) AS rows").format(select(relation, extent, where, columns))
