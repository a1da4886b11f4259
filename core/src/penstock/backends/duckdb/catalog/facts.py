"""Facts about rows that DuckDB can read, whatever they are stored in: a table, a query, files.

Everything here is SQL over an item of FROM, which the caller provides. What depends on where rows
are stored (statistics, state, snapshots) is a subclass's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from duckdb import DuckDBPyConnection

from penstock.backends.api.facts import (
    Checksum,
    KeyStatistics,
    TableStatistics,
    WeightedBound,
)
from penstock.backends.duckdb.catalog import keys
from penstock.backends.duckdb.catalog.conditions import condition, digest_of, key_expression
from penstock.backends.duckdb.catalog.queries import check_expression, subselect
from penstock.backends.duckdb.catalog.values import Type, arrow_types, canonical, row_text
from penstock.backends.duckdb.errors import planning
from penstock.backends.duckdb.quoting import bound_text, ident, literal
from penstock.backends.duckdb.rows import first
from penstock.backends.shared.arrow import TRAIT
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Extent, Key, Whole
from penstock.model.snapshots import SourceState
from penstock.model.tables import Column, ColumnPair, Relation, SequencePosition, TableRef

# Rows of a stream of digests that are held at once, and the longest text of a key.
BATCH = 1000
KEY_LENGTH = 300
# Bytes of a value, where a type has a width; others, such as texts, are guessed.
_WIDTHS = {
    "boolean": 1, "tinyint": 1, "utinyint": 1, "smallint": 2, "usmallint": 2, "integer": 4,
    "uinteger": 4, "float": 4, "date": 4,
}  # fmt: skip
_WIDTH = 8
_TEXT_WIDTH = 16
NOTHING = "nothing: the source has no statistics on it, and it cannot be sampled"


class DuckCatalog:
    """The part of a `SourceCatalog` that is SQL.

    Parameters:
        connection: its session's zone is UTC; see `connection.configure`.
        rows: an item of FROM for a relation.
        side: for errors.
    """

    def __init__(
        self,
        connection: DuckDBPyConnection,
        rows: Callable[[Relation], str],
        side: str = "source",
    ) -> None:
        self._connection = connection
        self._rows = rows
        self._side = side

    # For subclasses

    def rows_of(self, relation: Relation, extent: Extent) -> str:
        """An item of FROM with all the extent's rows; `condition_of` selects among them."""
        return self._rows(relation)

    def condition_of(self, where: str | None, extent: Extent) -> str:
        """What is left to test of a partition's predicate."""
        return condition(where, extent)

    def sample(self, relation: Relation, key: Key) -> tuple[str, str] | None:
        """An item of FROM with a small part of the rows, and what it is, for people.

        None where none can be had without reading them all.
        """
        return None

    # Columns

    def described(self, relation: Relation) -> dict[str, Type]:
        """Names and types of the columns."""
        with planning(self._side, str(relation)):
            found = self._connection.sql(f"SELECT * FROM {self._rows(relation)}")
            return dict(zip(found.columns, found.types, strict=True))

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        return tuple(Column(name, str(kind)) for name, kind in self.described(relation).items())

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        types = self.described(relation)
        with planning(self._side, str(relation)):
            found = arrow_types(
                self._connection,
                self._rows(relation),
                [column.name for column in columns],
                [types[column.name] for column in columns],
            )
        return tuple(
            replace(column, traits={**column.traits, TRAIT: type_})
            for column, type_ in zip(columns, found, strict=True)
        )

    def castable(self, relation: Relation, wanted: Sequence[tuple[str, str]]) -> list[bool]:
        """No pair of record batches is cast by the source."""
        return [False for _ in wanted]

    # Sizes

    def check_where(self, relation: Relation, where: str | None) -> None:
        """
        Raises:
            PlanningError: the condition cannot be evaluated.
        """
        if where is not None:
            rows = self._rows(relation)
            with planning(self._side, "--where"):
                check_expression(self._connection, rows, where)
                tested = condition(where, Whole())
                self._connection.execute(f"EXPLAIN SELECT 1 FROM {rows} WHERE {tested}").fetchall()

    def estimated(self, relation: Relation, where: str | None) -> int | None:
        """How many rows DuckDB's planner expects; None where it does not say."""
        return _cardinality(self._plan(relation, where))

    def leaves(self, relation: Relation) -> list[str]:
        """Names of the operators that the rows come from."""
        return list(_leaves(self._plan(relation, None)))

    def _plan(self, relation: Relation, where: str | None) -> list[Mapping[str, Any]]:
        query = (
            f"EXPLAIN (FORMAT json) SELECT * FROM {self._rows(relation)} "
            f"WHERE {condition(where, Whole())}"
        )
        with planning(self._side, str(relation)):
            found = first(self._connection.execute(query))
        assert found is not None
        return list(json.loads(found[1]))

    def row_width(self, relation: Relation) -> int:
        """Bytes of a row, roughly."""
        return sum(
            _WIDTHS.get(type_.id, _TEXT_WIDTH if _is_long(type_) else _WIDTH)
            for type_ in self.described(relation).values()
        )

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        """What the planner expects of a query or a view."""
        self.check_where(relation, where)
        rows = self.estimated(relation, None)
        chosen = self.estimated(relation, where) if where is not None else rows
        selected = min(1.0, chosen / rows) if rows and chosen is not None else 1.0
        return TableStatistics(
            rows=rows,
            bytes=(rows or 0) * self.row_width(relation),
            selected=selected,
            blocks=None,
            storage=f"a query, of about {rows:,} rows" if rows is not None else "a query",
            default_key=None,
            sampled=False,
        )

    # Keys

    def may_have_moved(
        self,
        relation: Relation,
        where: str | None,
        extents: Sequence[tuple[Extent, int | None]],
        since: SourceState,
    ) -> bool:
        return False  # whatever is written makes another layout

    def key_type(self, relation: Relation, key: Key) -> str:
        return keys.tag_of(self._type_of(relation, key))

    def _type_of(self, relation: Relation, key: Key) -> Type:
        rows = self._rows(relation)
        with planning(self._side, f"--key {key.text}"):
            if key.expression:
                check_expression(self._connection, rows, key.text)
            return self._connection.sql(f"SELECT {key_expression(key)} FROM {rows}").types[0]

    def _ranged(self, relation: Relation, key: Key) -> str:
        tag = self.key_type(relation, key)
        keys.check_ranged(key, tag)
        return tag

    def key_facts(self, relation: Relation, key: Key) -> tuple[bool, bool]:
        if key.expression:
            return True, False
        nullable = {column.name: column.nullable for column in self.columns(relation)}
        return nullable.get(key.text, True), self.finds(relation)

    def finds(self, relation: Relation) -> bool:
        """Whether a range of a column is found without reading everything."""
        return False

    def key_statistics(self, relation: Relation, key: Key, where: str | None) -> KeyStatistics:
        tag = self._ranged(relation, key)
        sampled = self.sample(relation, key)
        if sampled is None:
            return self._known(relation, key, (), 0.0, NOTHING)
        rows, origin = sampled
        bounds, nulls = keys.tiles(self._connection, rows, key, tag, where, keys.MOST_BOUNDS)
        return self._known(relation, key, bounds, nulls, origin)

    def heirs(self, relation: Relation) -> tuple[TableRef, ...]:
        return ()

    def positions(self, relation: Relation) -> Mapping[str, SequencePosition]:
        return {}

    def ntile(self, relation: Relation, key: Key, where: str | None, count: int) -> KeyStatistics:
        tag = self._ranged(relation, key)
        rows = self._rows(relation)
        most = count * keys.TILES_PER_PARTITION
        bounds, nulls = keys.tiles(self._connection, rows, key, tag, where, most)
        return self._known(relation, key, bounds, nulls, "the key of every row, read once")

    def _known(
        self,
        relation: Relation,
        key: Key,
        bounds: tuple[WeightedBound, ...],
        nulls: float,
        origin: str,
    ) -> KeyStatistics:
        nullable, indexed = self.key_facts(relation, key)
        return KeyStatistics(
            key=key,
            nullable=nullable,
            null_fraction=nulls,
            bounds=bounds,
            origin=origin,
            indexed=indexed,
        )

    def shared_order(self, relation: Relation, key: Key) -> str:
        # The order of bytes, which is DuckDB's own.
        return "C" if self.key_type(relation, key) == "text" else ""

    def windows(
        self, relation: Relation, key: Key, interval: str, where: str | None, limit: int
    ) -> tuple[tuple[Bound, ...], str]:
        tag = self.key_type(relation, key)
        rows = self._rows(relation)
        return keys.windows(self._connection, rows, key, tag, interval, where, limit)

    def distinct(
        self, relation: Relation, key: Key, where: str | None, query: str | None, limit: int
    ) -> tuple[Bound, ...]:
        tag = self.key_type(relation, key)
        if query is None:
            subject = f"--key {key.text}"
            listed = (
                f"SELECT {key_expression(key)} FROM {self._rows(relation)} "
                f"WHERE {condition(where, Whole())}"
            )
        else:
            subject = "--values-query"
            listed = f"SELECT * FROM {subselect(query)}"
            with planning(self._side, subject):
                width = len(self._connection.sql(listed).columns)
            if width != 1:
                raise PlanningError(f"--values-query: expected one column, found {width}")
        # Of an unlike query, as values of the key's type; a decimal has a precision of its own.
        type_ = str(self._type_of(relation, key)) if tag != "text" else "VARCHAR"
        value = keys.compared(Key("value"), tag)
        text = (
            f"SELECT {bound_text(tag, 'value')} FROM (SELECT DISTINCT {value} AS value FROM "
            f"(SELECT CAST(value AS {type_}) AS value FROM ({listed}) AS l (value)) AS c "
            f"WHERE value IS NOT NULL LIMIT {limit + 1}) AS d ORDER BY value"
        )
        with planning(self._side, subject):
            values = self._connection.execute(text).fetchall()
        if len(values) > limit:
            raise PlanningError(f"{subject}: more than {limit:,} values; use --strategy range")
        return tuple(Bound(tag, value) for (value,) in values)

    def read_ranges(
        self, relation: Relation, key: Key, ranges: Sequence[tuple[str | None, str | None]]
    ) -> tuple[tuple[Bound | None, Bound | None], ...]:
        return keys.read_ranges(self._connection, key, self._ranged(relation, key), ranges)

    def read_values(self, relation: Relation, key: Key, values: Sequence[str]) -> tuple[Bound, ...]:
        return keys.read_values(self._connection, key, self.key_type(relation, key), values)

    # Values

    def checksum(
        self, relation: Relation, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        texts = self._texts(relation, pairs)
        rows, chosen = self.rows_of(relation, extent), self.condition_of(where, extent)
        return read_checksum(self._connection, self._side, rows, chosen, texts)

    def row_digests(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str] = (),
    ) -> Iterator[tuple[str, str]]:
        texts = self._texts(relation, pairs)
        rows, chosen = self.rows_of(relation, extent), self.condition_of(where, extent)
        return read_digests(self._connection, self._side, rows, chosen, texts, key, only)

    def _texts(self, relation: Relation, pairs: Sequence[ColumnPair]) -> dict[str, str]:
        types = self.described(relation) if pairs else {}
        return {
            pair.target: canonical(ident(pair.source), types[pair.source], pair.canonical)
            for pair in pairs
        }


def read_checksum(
    connection: DuckDBPyConnection, side: str, rows: str, chosen: str, texts: Mapping[str, str]
) -> Checksum:
    """
    Parameters:
        texts: SQL for the canonical texts of columns; empty to count only.
    """
    number = digest_of(row_text(list(texts.values()))) if texts else "0"
    query = (
        f"SELECT count(*), CAST(coalesce(sum({number}), 0) AS VARCHAR) FROM {rows} WHERE {chosen}"
    )
    with planning(side, "checksum"):
        found = first(connection.execute(query))
    assert found is not None
    return Checksum(int(found[0]), found[1])


def read_digests(
    connection: DuckDBPyConnection,
    side: str,
    rows: str,
    chosen: str,
    texts: Mapping[str, str],
    key: Sequence[str],
    only: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """See `session_digests`: the caller may ask the connection other things while it reads."""
    return session_digests(connection.cursor(), side, rows, chosen, texts, key, only)


def session_digests(
    session: DuckDBPyConnection,
    side: str,
    rows: str,
    chosen: str,
    texts: Mapping[str, str],
    key: Sequence[str],
    only: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """Key and digest of every row, sorted by both. Holds `BATCH` rows at once.

    Parameters:
        session: for this alone; it is closed at the end.
        texts: SQL for the canonical texts of columns, by name.
        key: names of some of those.
        only: keys; empty for all.
    """
    number = f"CAST({digest_of(row_text(list(texts.values())))} AS VARCHAR)"
    among = f"key IN ({', '.join(map(literal, only))})" if only else "true"
    query = (
        f"SELECT key, digest FROM (SELECT {_key_text(texts, key)} AS key, {number} AS digest "
        f"FROM {rows} WHERE {chosen}) AS digests WHERE {among} "
        "ORDER BY key COLLATE C, digest COLLATE C"
    )
    try:
        with planning(side, "digests of rows"):
            session.execute("SET TimeZone = 'UTC'")
            session.execute(query)
            while found := session.fetchmany(BATCH):
                yield from found
    finally:
        session.close()


def _key_text(texts: Mapping[str, str], key: Sequence[str]) -> str:
    parts = [f"coalesce({texts[name]}, 'NULL')" for name in key]
    text = parts[0] if len(parts) == 1 else "'(' || " + " || ',' || ".join(parts) + " || ')'"
    return f"left({text}, {KEY_LENGTH})"


def _cardinality(plan: Sequence[Mapping[str, Any]]) -> int | None:
    """What the topmost operator that says so expects."""
    for operator in plan:
        said = operator.get("extra_info", {}).get("Estimated Cardinality")
        if said is not None:
            return int(str(said).lstrip("~"))
        found = _cardinality(operator.get("children", ()))
        if found is not None:
            return found
    return None


def _leaves(plan: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for operator in plan:
        below = operator.get("children", ())
        if below:
            yield from _leaves(below)
        else:
            yield str(operator["name"]).strip()


def _is_long(type_: Type) -> bool:
    return type_.id in ("varchar", "blob", "list", "array", "struct", "map", "union", "decimal")
