"""A key of a relation: its type and order, its bounds, windows and values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import psycopg
from psycopg import sql

from penstock.backends.api.facts import (
    CommonValue,
    HashStatistics,
    KeyStatistics,
    RankedBound,
    WeightedBound,
)
from penstock.backends.postgresql.compare.conditions import DIALECT, key_expression, select
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import (
    for_server,
    name,
    name_of_type,
    raw,
    relation,
    statement,
    tag_of,
    type_name,
)
from penstock.backends.sql.catalog.keys import (
    NOTHING,
    TILES_PER_PARTITION,
    check_distinct,
    check_one_column,
    check_positive,
    check_timed,
    check_windows,
)
from penstock.backends.sql.rows.bounds import check_ranged
from penstock.backends.sql.session import closed
from penstock.errors import PlanningError, UsageError
from penstock.model.extents import Bound, Extent, Key, KeyOther, KeyRange, KeyValues, Whole
from penstock.model.tables import Query, Relation, TableRef

# Types whose text form is exact and whose order is total.
RANGED = (
    "int2", "int4", "int8", "numeric", "float4", "float8", "date", "timestamp", "timestamptz",
    "uuid", "text", "varchar", "bpchar",
)  # fmt: skip
_BY_BYTES = ("text", "varchar", "name")
# Types that compare and sort across each other as they do within themselves.
_COMPARABLE_TYPES = (
    ("int2", "int4", "int8", "numeric"),
    ("float4", "float8"),
    ("date", "timestamp"),
)
# Enough for a thousand even partitions, read in well under half a second.
SAMPLE_BLOCKS = 300
# Neighboring rows often have neighboring keys: a block tells about few of the partitions.
BLOCKS_PER_PARTITION = 2
# Fewer sampled rows say nothing about how common a value is.
FEW_ROWS = 100
MOST_BLOCKS = 20_000

# A condition evaluated on bounds, which are not rows of the table, may fail in either way.
UNUSABLE = (psycopg.errors.ProgrammingError, psycopg.errors.DataError, psycopg.NotSupportedError)
# A cast to a date silently drops the time of day, and not every date is a timestamp.
_EXACT = (
    "CASE WHEN value OPERATOR(pg_catalog.>=) '4713-01-01 BC'::pg_catalog.date"
    " AND value OPERATOR(pg_catalog.<=) '294276-12-31'::pg_catalog.date"
    " THEN value_text::pg_catalog.timestamp OPERATOR(pg_catalog.=) value::pg_catalog.timestamp"
    " ELSE true END"
)

Rows = list[tuple[Any, ...]]


def column_facts(connection: Connection, read: Relation, key: Key) -> tuple[bool, bool]:
    """Return whether a column may be NULL, and whether an index covers it.

    Args:
        connection: a session on the source.
        read: the relation.
        key: the column.

    Raises:
        PlanningError: the column does not exist.
    """
    if isinstance(read, Query):
        SourceKey(connection, read, key)
        return True, False
    assert isinstance(read, TableRef)
    parameters = {"table": name(read), "column": key.text}
    with planning("source", f"--key {key.text}"):
        row = connection.execute(statement("key"), parameters).fetchone()
    if row is None:
        raise PlanningError(f"--key {key.text}: no such column in {read}")
    nullable, indexed = row
    return nullable, indexed


def check_same_rows(connection: Connection, table: TableRef, extent: Extent) -> None:
    """Reject a partition that may hold different rows in the target's table than in the source's.

    Args:
        connection: a session on the target.
        table: the target's table.
        extent: the partition's extent.

    Raises:
        PlanningError: the target's column compares values differently from the bounds.
    """
    match extent:
        case KeyRange(key, lower, upper):
            bounds = [bound for bound in (lower, upper) if bound is not None]
        case KeyValues(key, values) | KeyOther(key, values):
            bounds = list(values)
        case _:
            return
    types = {bound.type for bound in bounds}
    column_type = SourceKey(connection, table, key).type if types else ""
    differing = [
        tag for tag in types if column_type != tag and not _have_same_order(tag, column_type)
    ]
    if differing:
        raise PlanningError(
            f"--mode replace deletes by --key {key.text}, which compares values of type "
            f"{', '.join(map(name_of_type, differing))} in the source, and of type "
            f"{name_of_type(column_type)} in {table}; expected "
            "the same type on both sides, or --strategy hash"
        )


def _have_same_order(bound_type: str, column_type: str) -> bool:
    # Texts compare by their bytes with every type that has a text form.
    return bound_type in _BY_BYTES or any(
        bound_type in family and column_type in family for family in _COMPARABLE_TYPES
    )


def check_closed(connection: Connection, read: Relation, text: str) -> None:
    """Have the server reject SQL that closes a bracket it did not open.

    Args:
        connection: a session on the source.
        read: the relation that the SQL refers to.
        text: the user's SQL.
    """
    query = closed(text, relation(read).as_string(connection))
    with connection.users_path():
        connection.execute(sql.SQL(f"EXPLAIN {query}"))


class SourceKey:
    """The key of a source relation.

    Args:
        connection: a session on the source.
        read: the relation.
        key: the key.
        with_hashes: whether to ask for the hashes of common values, in the same round trips.

    Raises:
        PlanningError: the server cannot parse the key.
    """

    def __init__(
        self, connection: Connection, read: Relation, key: Key, *, with_hashes: bool = False
    ) -> None:
        self._connection = connection
        self._read = read
        self._key = key
        self._subject = f"--key {key.text}"
        self._expression = key_expression(key)
        with planning("source", self._subject):
            if key.expression:
                check_closed(connection, read, key.text)
            query = sql.SQL("SELECT {} FROM {} LIMIT 0").format(self._expression, relation(read))
            with connection.users_path():
                cursor = connection.execute(query)
            assert cursor.description is not None
            oid = cursor.description[0].type_code
            question = statement("base_type"), {"oid": oid}
            hashes = self._common_values(oid) if with_hashes else None
            if hashes is None:
                (described,), common = connection.execute(*question).fetchall(), []
            else:
                with connection.together():
                    types, values = connection.execute(*question), connection.execute(hashes)
                (described,), common = types.fetchall(), values.fetchall()
        schema, kind, collatable, equals = described
        self.type: str = tag_of(schema, kind, equals)
        """The tag that its bounds have."""
        self.collatable: bool = collatable
        self.hashes = HashStatistics(
            common[0][0] if common else 0.0,
            tuple(
                CommonValue(Bound(self.type, text), share, number)
                for _, text, share, number in common
                if text is not None
            ),
        )
        """What is known of its hashes, if they were asked for."""

    def _common_values(self, oid: int) -> sql.Composed | None:
        """Return a query for the hashes of common values; None if they cannot be known.

        Args:
            oid: the object id of the key's type.
        """
        read, type_ = self._read, self._connection.adapters.types.get(oid)
        if isinstance(read, Query) or self._key.expression or type_ is None or type_.oid != oid:
            return None
        assert isinstance(read, TableRef)
        return statement("common_values").format(
            type=sql.Identifier("pg_catalog", type_.name),
            schema=sql.Literal(read.schema),
            table=sql.Literal(read.name),
            column=sql.Literal(self._key.text),
            only=sql.Literal(read.only),
            number=sql.SQL(DIALECT.hash_number("c.value")),
        )

    def shared_order(self) -> str:
        """See `SourceCatalog.shared_order`."""
        if not self.collatable:
            return ""
        if "." in self.type:
            # Like citext, whose comparison depends on the database's locale.
            raise PlanningError(
                f"{self._subject}: --mode replace deletes the target's rows with equal keys, and "
                f"{name_of_type(self.type)} may compare differently there; use --strategy hash, "
                "which compares no values"
            )
        # The order of bytes is the only one that does not depend on a library's version.
        return "C"

    def check_ranged(self) -> None:
        """Check that the key can be partitioned into ranges.

        Raises:
            PlanningError: values of the type have no exact text or no total order.
        """
        check_ranged(self._key, name_of_type(self.type), RANGED)

    @cached_property
    def _collate(self) -> sql.Composable:
        """Return the collation in which the partitions' conditions compare."""
        if self._key.collation:
            return sql.SQL("COLLATE pg_catalog.{}").format(sql.Identifier(self._key.collation))
        collation = None
        if self.collatable:
            query = sql.SQL("SELECT pg_catalog.pg_collation_for((SELECT {} FROM {} LIMIT 0))")
            with planning("source", self._subject), self._connection.users_path():
                collation = self._connection.value(
                    query.format(self._expression, relation(self._read))
                )
        # The server quotes it. Mixed collations have no common one, and cannot be compared.
        return sql.SQL(f"COLLATE {collation}" if collation else "")

    @cached_property
    def _facts(self) -> tuple[bool, bool]:
        return column_facts(self._connection, self._read, self._key)

    def statistics(self, where: str | None) -> KeyStatistics:
        """See `SourceCatalog.key_statistics`."""
        self.check_ranged()
        rows, origin = self._histogram(where)
        null_fraction = float(rows[0][2]) if rows else 0.0
        common = {row[0]: float(row[5]) for row in rows}
        if not rows:
            rows, origin = self._sample(where)
            common = _sampled_values(rows)
        return self._weighted(rows, null_fraction, origin, common)

    def finer_statistics(
        self, where: str | None, statistics: KeyStatistics, count: int
    ) -> KeyStatistics:
        """Return more bounds, if there are too few; see `WithFinerStatistics.finer_statistics`.

        Args:
            where: the run's condition; None for all rows.
            statistics: the bounds so far.
            count: the number of partitions to aim for.
        """
        from penstock.backends.postgresql.keys.interpolation import (  # noqa: PLC0415 - seldom
            PER_PARTITION,
            finer,
        )

        if isinstance(self._read, Query) or len(statistics.bounds) >= PER_PARTITION * count:
            return statistics
        weights = {each.bound.text: each.weight for each in statistics.bounds}
        common = {each.bound.text: each.value_share for each in statistics.bounds}
        steps = self._histogram_bounds()
        weighted, pieces = finer(self.type, steps, weights, count)
        if len(weighted) > len(statistics.bounds):
            origin = (
                f"{statistics.origin}, each step divided into {pieces:,} as if its values were even"
            )
            merged = self._merged(weighted)
            return self._weighted(merged, statistics.null_fraction, origin, common)
        # While there are enough of them, bounds from the statistics are better.
        if len(statistics.bounds) > count:
            return statistics
        blocks = min(max(SAMPLE_BLOCKS, BLOCKS_PER_PARTITION * count), MOST_BLOCKS)
        sampled, origin = self._sample(where, blocks)
        if len(sampled) <= len(statistics.bounds):
            return statistics
        each = max(1.0, float(sampled[0][2]) / count)
        origin = origin.partition(" (")[0] + (
            f", {int(sampled[0][2]):,} rows: most partitions are within {100 / each**0.5:.0f} % of "
            "the intended size"
        )
        common = _sampled_values(sampled)
        return self._weighted(sampled, statistics.null_fraction, origin, common)

    def _histogram_bounds(self) -> list[str]:
        read = self._read
        assert isinstance(read, TableRef)
        with planning("source", self._subject):
            rows = self._connection.execute(
                statement("histogram_bounds").format(
                    type=type_name(self.type),
                    schema=sql.Literal(read.schema),
                    table=sql.Literal(read.name),
                    only=sql.Literal(read.only),
                    column=sql.Literal(self._key.text),
                )
            ).fetchall()
        return [text for (text,) in rows]

    def _merged(self, weights: Mapping[str, float]) -> Rows:
        """Return bounds in the source's order and spelling, with equal ones merged."""
        by_rank: dict[int, tuple[str, float]] = {}
        for each, weight in zip(self.rank_values(list(weights)), weights.values(), strict=True):
            text, before = by_rank.get(each.rank, (each.bound.text, 0.0))
            by_rank[each.rank] = text, before + weight
        return [by_rank[rank] for rank in sorted(by_rank)]

    def ntile(self, where: str | None, count: int) -> KeyStatistics:
        """See `SourceCatalog.ntile`."""
        self.check_ranged()
        subject = f"--strategy ntile: {self._subject}"
        with planning("source", subject), self._connection.users_path():
            rows = self._connection.execute(
                statement("ntile").format(
                    key=self._expression,
                    rows=relation(self._read),
                    condition=_condition(where),
                    count=sql.Literal(count * TILES_PER_PARTITION),
                )
            ).fetchall()
        null_fraction = float(rows[0][2]) if rows else 0.0
        return self._weighted(rows, null_fraction, "the key of every row, read once", {})

    def _weighted(
        self, rows: Rows, null_fraction: float, origin: str, common: Mapping[str, float]
    ) -> KeyStatistics:
        nullable, indexed = self._facts
        bounds = tuple(
            WeightedBound(Bound(self.type, row[0]), float(row[1]), common.get(row[0], 0.0))
            for row in rows
        )
        return KeyStatistics(self._key, nullable, null_fraction, bounds, origin, indexed)

    def rank_values(self, texts: Sequence[str]) -> tuple[RankedBound, ...]:
        """See `SourceCatalog.rank_values`."""
        query = statement("ranked").format(
            type=type_name(self.type),
            collate=self._collate,
            exact=sql.SQL(_EXACT if self.type == "date" else "true"),
        )
        with planning("source", f"{self._subject}: bounds"), self._connection.users_path():
            rows = self._connection.execute(query, {"texts": list(texts)}).fetchall()
        return tuple(RankedBound(Bound(self.type, text), rank, exact) for text, rank, exact in rows)

    def misplaced_bound(self, bounds: Sequence[Bound]) -> int | None:
        """See `SourceCatalog.misplaced_bound`."""
        ranks = [ranked.rank for ranked in self.rank_values([bound.text for bound in bounds])]
        pairs = enumerate(pairwise(ranks), 1)
        return next((place for place, (low, high) in pairs if low >= high), None)

    def _histogram(self, where: str | None) -> tuple[Rows, str]:
        """Return weighted bounds from pg_stats, without those that the run's condition excludes."""
        read = self._read
        if isinstance(read, Query):
            return [], ""
        assert isinstance(read, TableRef)
        rows, within = self._tried_on_bounds(
            self._subject,
            where,
            lambda condition: statement("histogram").format(
                type=type_name(self.type),
                schema=sql.Literal(read.schema),
                table=sql.Literal(read.name),
                only=sql.Literal(read.only),
                column=sql.Literal(self._key.text),
                column_name=sql.Identifier(self._key.text),
                key=self._expression,
                collate=self._collate,
                condition=condition,
            ),
        )
        if not rows:
            return [], ""
        origin = f"the source's statistics: {rows[0][3]} histogram bounds"
        if rows[0][4]:
            origin += f", {rows[0][4]} common values"
        return rows, origin + (", those within --where" if within else "")

    def _tried_on_bounds(
        self, subject: str, where: str | None, query: Callable[[sql.Composable], sql.Composed]
    ) -> tuple[Rows, bool]:
        """Return a query's rows with the run's condition, and True; or without it, and False.

        The condition is evaluated on the bounds alone, which works if it refers only to the key.
        """
        connection = self._connection
        if where is not None:
            with (
                contextlib.suppress(*UNUSABLE),
                connection.transaction(),
                connection.users_path(),
            ):
                return connection.execute(query(raw(where))).fetchall(), True
        with planning("source", subject), connection.transaction(), connection.users_path():
            return connection.execute(query(_condition(None))).fetchall(), False

    def _sample(self, where: str | None, most: int = SAMPLE_BLOCKS) -> tuple[Rows, str]:
        if isinstance(self._read, Query):
            return [], NOTHING
        assert isinstance(self._read, TableRef)
        with planning("source", f"table {self._read}"):
            query = for_server(self._connection, "blocks")
            sampled, blocks = self._connection.first(query, {"table": name(self._read)})
            if not sampled:
                return [], NOTHING
            sample = statement("sample").format(
                key=self._expression,
                table=relation(self._read),
                percent=sql.Literal(min(100.0, 100.0 * most / blocks)),
                condition=_condition(where),
            )
            with self._connection.users_path():
                rows = self._connection.execute(sample).fetchall()
        return rows, f"a sample of {min(int(blocks), most):,} blocks (never analyzed)"

    def windows(
        self, interval: str, where: str | None, limit: int
    ) -> tuple[tuple[Bound, ...], str]:
        """Return the starts of windows; see `SourceCatalog.windows`.

        Args:
            interval: the width of a window, such as `1 day`.
            where: the run's condition; None for all rows.
            limit: the maximum number of windows; more are an error.
        """
        check_timed(self._key, name_of_type(self.type))
        subject = f"--interval {interval!r}"
        with planning("source", subject):
            try:
                positive = self._connection.value("SELECT %s::interval > interval '0'", [interval])
            except psycopg.DataError as error:
                raise UsageError(
                    f"--interval: expected an interval such as '1 day' or '3 months', found "
                    f"{interval!r}"
                ) from error
        check_positive(interval, positive=bool(positive))
        low, high, origin = self._first_and_last()
        if low is None or high is None:
            return (), origin
        rows, _ = self._tried_on_bounds(
            subject,
            where,
            lambda condition: statement("windows").format(
                interval=sql.Literal(interval),
                type=type_name(self.type),
                low=sql.Literal(low),
                high=sql.Literal(high),
                limit=sql.Literal(limit + 1),
                column_name=sql.Identifier(self._key.text),
                condition=condition,
            ),
        )
        check_windows(interval, len(rows), limit, low, high)
        return tuple(Bound(self.type, text) for (text,) in rows), origin

    def _first_and_last(self) -> tuple[str | None, str | None, str]:
        """Return the lowest and the highest finite value, if they can be had without a scan."""
        _, indexed = self._facts
        finite = (
            sql.SQL("pg_catalog.isfinite({})").format(self._expression).as_string(self._connection)
        )
        if not indexed:
            rows, origin = self._histogram(finite)
            if not rows:
                rows, origin = self._sample(finite)
            if rows:
                return rows[0][0], rows[-1][0], origin.replace(", those within --where", "")
        query = sql.SQL(
            "SELECT pg_catalog.min({0})::pg_catalog.text, pg_catalog.max({0})::pg_catalog.text"
            " FROM {1} WHERE {2}"
        ).format(self._expression, relation(self._read), sql.SQL(finite))
        with planning("source", self._subject), self._connection.users_path():
            low, high = self._connection.first(query)
        return low, high, "the index on the key" if indexed else "a scan of the key"

    def distinct_values(
        self, where: str | None, query: str | None, limit: int
    ) -> tuple[Bound, ...]:
        """Return the distinct values of the key; see `SourceCatalog.distinct_values`.

        Args:
            where: the run's condition; None for all rows.
            query: lists the values, instead of a scan; None for a scan.
            limit: the maximum number of values; more are an error.
        """
        if self.type == "record":
            raise PlanningError(
                f"{self._subject}: expected a column or an expression with one value, found a row, "
                "whose values no condition can name"
            )
        if query is None:
            selection = select(self._read, Whole(), where, self._expression)
            values: sql.Composable = sql.SQL("({})").format(selection)
            subject = self._subject
        else:
            values, subject = raw(query), "--values-query"
            with planning("source", subject), self._connection.users_path():
                self._connection.execute(sql.SQL(f"EXPLAIN {query}"))
                described = self._connection.execute(
                    sql.SQL("SELECT * FROM {} AS q LIMIT 0").format(values)
                ).description
            check_one_column(len(described or ()))
        with planning("source", subject), self._connection.users_path():
            rows = self._connection.execute(
                statement("distinct").format(
                    values=values,
                    type=type_name(self.type),
                    collate=self._collate,
                    limit=sql.Literal(limit + 1),
                )
            ).fetchall()
        check_distinct(subject, len(rows), limit)
        return tuple(Bound(self.type, text) for (text,) in rows if text is not None)


def _sampled_values(rows: Rows) -> dict[str, float]:
    """Return the share of each value of a sample, if it is large enough to tell."""
    if rows and int(rows[0][2]) < FEW_ROWS:
        return {}
    return {row[0]: float(row[1]) for row in rows}


def _condition(where: str | None) -> sql.Composable:
    return sql.SQL("true") if where is None else raw(where)
