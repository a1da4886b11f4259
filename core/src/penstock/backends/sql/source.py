"""A source's catalog, as far as it is SQL over an item of FROM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from penstock.backends.api.facts import Checksum, KeyStatistics, RankedBound, WeightedBound
from penstock.backends.api.optional.cursors import CursorRange, CursorState
from penstock.backends.sql.catalog import keys
from penstock.backends.sql.catalog.relations import (
    TYPE,
    find_relation,
    matching_tables,
    read_columns,
    read_relations,
)
from penstock.backends.sql.definitions.definition import definition_of, plain_model
from penstock.backends.sql.dialect import BYTES, Type
from penstock.backends.sql.rows.bounds import check_ranged
from penstock.backends.sql.rows.checksums import canonical_texts, read_checksum, read_digests
from penstock.backends.sql.rows.computed_columns import ALL, computed_rows
from penstock.backends.sql.rows.conditions import condition
from penstock.backends.sql.rows.cursors import CursorSql, tag_of_cursor
from penstock.backends.sql.session import Session, closed, keeping
from penstock.model.extents import Bound, Extent, Key, Whole
from penstock.model.nights import Cursor
from penstock.model.snapshots import SourceState
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

UNPROVEN = (
    "{system} does not show when writing transactions began: one that lasts longer than --lookback "
    "may leave rows below what was read"
)


class SqlSource:
    """The part of a `SourceCatalog` that is SQL.

    Args:
        rows: returns an item of FROM for a relation. Raises `PlanningError` if a query is not
            valid.
    """

    def __init__(self, session: Session, rows: Callable[[Relation], str]) -> None:
        self._session = session
        self._rows = rows
        self._tables: dict[TableRef, bool] = {}

    def describing(self, relations: Sequence[Relation]) -> AbstractContextManager[None]:
        return keeping(self._session, relations)

    def forget(self) -> None:
        """Forget what was read, which may differ from the moment to come."""
        if self._session.catalog_facts is not None:
            self._session.catalog_facts.forget()

    # For subclasses

    def rows_of(self, relation: Relation, extent: Extent) -> str:
        """Return an item of FROM with all rows of the extent; `condition_of` selects among them."""
        return self._rows(relation)

    def condition_of(self, relation: Relation, where: str | None, extent: Extent) -> str:
        """Return the part of a partition's predicate that remains to be tested.

        Args:
            relation: the source's table or query.
            where: the condition of `--where`; None for all rows.
            extent: the rows of one partition, or all.
        """
        return condition(self._session.dialect, where, extent)

    def sample(self, relation: Relation, key: Key) -> tuple[str, str] | None:
        """Return an item of FROM with a small part of the rows, and a description of that part.

        None if that would read all rows.
        """
        return None

    def finds(self, relation: Relation) -> bool:
        """Whether a range of a column can be found without reading everything."""
        return False

    # Tables

    def schemas(self) -> tuple[str, ...]:
        return self._session.search_path()

    def find(self, name: str) -> TableRef | None:
        return find_relation(self._session, name)

    def tables(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[TableRef, ...]:
        relations = read_relations(self._session)
        return matching_tables(
            [table for table in relations if not relations[table]], include, exclude
        )

    def is_table(self, relation: Relation) -> bool:
        """Whether a relation is a base table. Asked once: a database may have many tables."""
        if not isinstance(relation, TableRef):
            return False
        if relation not in self._tables:
            self._tables[relation] = not read_relations(self._session).get(relation, True)
        return self._tables[relation]

    # Columns

    def column_types(self, relation: Relation) -> dict[str, Type]:
        """Return the names and types of the columns."""
        if isinstance(relation, TableRef):
            return dict(self._session.column_types(relation))
        query = f"SELECT * FROM {self._rows(relation)}"
        return dict(self._session.describe(query, str(relation)))

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if isinstance(relation, TableRef):
            return read_columns(self._session, relation)
        return tuple(
            Column(name, str(type_)) for name, type_ in self.column_types(relation).items()
        )

    def castable(self, relation: Relation, column_types: Sequence[tuple[str, str]]) -> list[bool]:
        """Return False for every column: the target casts record batches."""
        return [False for _ in column_types]

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        columns = self.columns(relation)
        return definition_of(self._session.dialect.name.lower(), plain_model(columns))

    def other_objects(
        self, include: Sequence[str], exclude: Sequence[str]
    ) -> tuple[NotCopied, ...]:
        relations = read_relations(self._session)
        views = matching_tables(
            [table for table in relations if relations[table]], include, exclude
        )
        return tuple(NotCopied("views", str(view)) for view in views)

    def heirs(self, relation: Relation) -> tuple[TableRef, ...]:
        return ()

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        return {}

    # Conditions

    def check_where(self, relation: Relation, where: str | None) -> None:
        """Check that a condition can be evaluated.

        Raises:
            PlanningError: the condition cannot be evaluated.
        """
        if where is not None:
            rows = self._rows(relation)
            self._session.check(closed(where, rows, tests=True), "--where")
            tested = condition(self._session.dialect, where, Whole())
            self._session.check(f"SELECT 1 FROM {rows} WHERE {tested}", "--where")

    def may_have_moved(
        self,
        relation: Relation,
        where: str | None,
        extents: Sequence[tuple[Extent, int | None]],
        since: SourceState,
    ) -> bool:
        return False  # every write changes the source's state

    # Keys

    def key_type(self, relation: Relation, key: Key) -> str:
        return self._session.dialect.tag_of(self._type_of(relation, key))

    def _type_of(self, relation: Relation, key: Key) -> Type:
        rows, subject = self._rows(relation), f"--key {key.text}"
        if key.expression:
            self._session.check(closed(key.text, rows), subject)
        name = self._session.dialect.key(key)
        ((_, type_),) = self._session.describe(f"SELECT {name} FROM {rows}", subject)
        return type_

    def _ranged(self, relation: Relation, key: Key) -> str:
        tag = self.key_type(relation, key)
        check_ranged(key, tag, self._session.dialect.ranged)
        return tag

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        if key.expression:
            return True, False
        nullable = {column.name: column.nullable for column in self.columns(relation)}
        return nullable.get(key.text, True), self.finds(relation)

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        tag = self._ranged(relation, key)
        sampled = self.sample(relation, key)
        if sampled is None:
            return self._statistics(relation, key, (), 0.0, keys.NOTHING)
        rows, origin = sampled
        bounds, nulls = keys.tiles(self._session, rows, key, tag, where, keys.MOST_BOUNDS)
        return self._statistics(relation, key, bounds, nulls, origin)

    def ntile(self, relation: Relation, key: Key, where: str | None, count: int) -> KeyStatistics:
        tag, rows = self._ranged(relation, key), self._rows(relation)
        most = count * keys.TILES_PER_PARTITION
        bounds, nulls = keys.tiles(self._session, rows, key, tag, where, most)
        return self._statistics(relation, key, bounds, nulls, "the key of every row, read once")

    def _statistics(
        self,
        relation: Relation,
        key: Key,
        bounds: tuple[WeightedBound, ...],
        nulls: float,
        origin: str,
    ) -> KeyStatistics:
        nullable, indexed = self.key_facts(relation, key)
        return KeyStatistics(key, nullable, nulls, bounds, origin, indexed)

    def native_order(self, relation: Relation, key: Key) -> str:
        return ""

    def shared_order(self, relation: Relation, key: Key) -> str:
        return BYTES if self.key_type(relation, key) == "text" else ""

    def windows(
        self, relation: Relation, key: Key, interval: str, where: str | None, limit: int
    ) -> tuple[tuple[Bound, ...], str]:
        tag, rows = self.key_type(relation, key), self._rows(relation)
        return keys.windows(self._session, rows, key, tag, interval, where, limit)

    def distinct_values(
        self, relation: Relation, key: Key, where: str | None, query: str | None, limit: int
    ) -> tuple[Bound, ...]:
        type_ = self._type_of(relation, key)
        dialect = self._session.dialect
        if query is None:
            subject = f"--key {key.text}"
            listed = (
                f"SELECT {dialect.key(key)} FROM {self._rows(relation)} "
                f"WHERE {condition(dialect, where, Whole())}"
            )
        else:
            subject = "--values-query"
            listed = f"SELECT * FROM {self._rows(Query(query))}"
            keys.check_one_column(len(self._session.describe(listed, subject)))
        tag = dialect.tag_of(type_)
        # A query's column may have another type.
        cast = dialect.cast_type(type_)
        return keys.distinct_values(self._session, key, listed, tag, cast, limit, subject)

    def rank_values(
        self, relation: Relation, key: Key, texts: Sequence[str], *, ordered: bool
    ) -> tuple[RankedBound, ...]:
        tag = self._ranged(relation, key) if ordered else self.key_type(relation, key)
        return keys.rank_values(self._session, key, tag, texts)

    def misplaced_bound(self, relation: Relation, key: Key, bounds: Sequence[Bound]) -> int | None:
        return keys.misplaced_bound(self._session, key, bounds)

    # See `ReadsByColumn`

    def note_open(self) -> None:
        """Do nothing: open transactions are not visible."""

    def cursor(
        self, relation: Relation, where: str | None, columns: Sequence[str], max_ahead: float
    ) -> CursorState:
        self.check_where(relation, where)
        types = self.column_types(relation)
        tags = {
            name: self._session.dialect.tag_of(type_) if name in columns else ""
            for name, type_ in types.items()
        }
        tag = tag_of_cursor(tags, columns, str(relation))
        facts = [self.key_facts(relation, Key(each)) for each in columns]
        nullable = all(nullable for nullable, _ in facts)
        text, nulls, ahead = self._cursor_sql(relation).now(
            where, columns, tag, max_ahead, nullable=nullable
        )
        return CursorState(
            columns=tuple(columns),
            type=tag,
            text=text,
            nulls=nulls,
            ahead=ahead,
            unproven=UNPROVEN.format(system=self._session.dialect.name),
            indexed=all(indexed for _, indexed in facts),
            source=self.identity(relation),
        )

    def cursor_range(
        self, relation: Relation, since: Cursor, state: CursorState, lookback: str, *, nulls: bool
    ) -> CursorRange:
        return self._cursor_sql(relation).range(since, state, lookback, nulls=nulls)

    def keys_at(
        self,
        relation: Relation,
        where: str | None,
        columns: Sequence[str],
        value: Bound,
        key: Sequence[str],
    ) -> str:
        return self._cursor_sql(relation).keys_at(where, columns, value, key)

    def identity(self, relation: Relation) -> Mapping[str, str]:
        """Return what identifies a relation to a later night; see `Cursor.source`."""
        raise NotImplementedError

    @property
    def clock(self) -> str:
        """A query for the current time as text; UTC if it has no zone."""
        dialect = self._session.dialect
        return f"SELECT {dialect.text(dialect.now)}"

    def _cursor_sql(self, relation: Relation) -> CursorSql:
        session = self._session
        return CursorSql(
            session.dialect,
            self._rows(relation),
            session.fetch,
            as_text=session.dialect.bound_text,
            clock=self.clock,
            first=lambda query: session.dialect.limited_query(query, 1),
        )

    # Computed columns

    def check_expression(self, relation: Relation, text: str, subject: str) -> None:
        rows = self._rows(relation)
        # A condition accepts no aggregates, window functions or sets.
        tested = f"CASE WHEN 1 = 1 THEN\n{text}\nEND IS NULL"
        self._session.check(f"SELECT 1 FROM {rows} WHERE {tested}", subject)

    def mask_expression(
        self, relation: Relation, column: Column, mask: Mask, key: MaskingKey | None
    ) -> str:
        dialect = self._session.dialect
        assert dialect.masking is not None
        type_ = self.column_types(relation)[column.name]
        value, tag = dialect.ident(column.name), dialect.mask_tag(type_)
        return dialect.masking.expression(mask, column.name, value, type_, tag, key)

    def computed_columns(
        self, relation: Relation, pairs: Sequence[ColumnPair], *, in_arrow: bool
    ) -> tuple[Column, ...]:
        self._session.hold(session_values(pairs))
        rows, _ = computed_rows(self._session.dialect, self._rows(relation), ALL, pairs)
        described = self._session.describe(f"SELECT * FROM {rows}", "computed columns")
        columns = tuple(Column(name, str(type_), traits={TYPE: type_}) for name, type_ in described)
        return self.computed_in_arrow(rows, columns) if in_arrow else columns

    def computed_in_arrow(self, rows: str, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Return an item of FROM's columns, which have the trait `TYPE`, with the trait `arrow`."""
        raise NotImplementedError

    def _selected_rows(
        self, relation: Relation, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> tuple[str, str]:
        rows, chosen = self.rows_of(relation, extent), self.condition_of(relation, where, extent)
        return computed_rows(self._session.dialect, rows, chosen, pairs)

    # Checksums

    def checksum(
        self, relation: Relation, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        self._session.hold(session_values(pairs))
        texts = canonical_texts(self._session, self._rows(relation), pairs)
        rows, chosen = self._selected_rows(relation, where, extent, pairs)
        return read_checksum(self._session, rows, chosen, texts)

    def row_digests(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
    ) -> Iterator[tuple[str, str]]:
        self._session.hold(session_values(pairs))
        texts = canonical_texts(self._session, self._rows(relation), pairs)
        rows, chosen = self._selected_rows(relation, where, extent, pairs)
        return read_digests(self._session, rows, chosen, texts, key, only_keys)
