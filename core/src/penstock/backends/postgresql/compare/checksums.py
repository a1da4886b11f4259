"""Checksums of rows, the same on every server, whatever the order of the rows.

A row's digest is a 64-bit hash over its values as text, each hashed by itself: a large value is
never copied into a text of the whole row. The text is what a cast to text makes of a value under
our session settings; blanks at the end of a character(n), which mean nothing, are no part of it.
Between unlike systems the digest is one that both have, over texts that both write alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.api.facts import Checksum
from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.compare.canonical import canonical_text, framed
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import (
    keeps_xmin,
    raw,
    rows_of,
    selected_column,
    statement,
)
from penstock.backends.sql.rows.checksums import as_loaded
from penstock.errors import PlanningError
from penstock.model.records import CommitRecord
from penstock.model.tables import Column, ColumnPair, TableRef

# Rows of a stream that are held at once, and the longest text of a key.
BATCH = 1000
KEY_LENGTH = 300
# 32 bits tell transactions apart: after half a turn an old one may be taken for a new one.
OLDEST = 1 << 31
_INTEGERS = ("smallint", "integer", "bigint")


@dataclass(frozen=True, slots=True)
class Values:
    """What rows are compared by."""

    texts: Mapping[str, sql.Composable]
    """Expressions, by the names of the target's columns."""
    canonical: bool = False
    """They are texts as an unlike system writes them, too."""
    integers: frozenset[str] = frozenset()
    """Those that are whole numbers on both sides, and are hashed as such: that costs less."""

    def digest(self) -> sql.Composable:
        """Of one row. A single whole number is its own."""
        if not self.texts:
            return sql.SQL("0::bigint")
        if self.integers and not self.canonical:
            if len(self.texts) == 1:
                (value,) = self.texts.values()
                return value
            return _digest(list(self.texts.values()), [n in self.integers for n in self.texts])
        return (_canonical_digest if self.canonical else _digest)(list(self.texts.values()))

    def key_text(self, key: Sequence[str]) -> sql.Composable:
        values = [self.texts[column] for column in key]
        if len(key) == 1:
            text = sql.SQL("coalesce(({})::pg_catalog.text, 'NULL')").format(values[0])
        elif self.canonical:
            known = [sql.SQL("coalesce({}, 'NULL')").format(value) for value in values]
            text = sql.SQL("'(' || {} || ')'").format(sql.SQL(" || ',' || ").join(known))
        else:
            text = sql.SQL("ROW({})::pg_catalog.text").format(sql.SQL(", ").join(values))
        return sql.SQL("pg_catalog.left({}, {})").format(text, sql.Literal(KEY_LENGTH))


def source_values(pairs: Sequence[ColumnPair], columns: Callable[[], Iterable[Column]]) -> Values:
    """The values as the target has them.

    Parameters:
        columns: asked for the types of the columns where they matter.
    """
    if not any(pair.canonical for pair in pairs):
        return Values({pair.target: selected_column(pair) for pair in pairs})
    types = {column.name: data_type(column) for column in columns()}
    return Values(
        {
            pair.target: canonical_text(
                sql.Identifier(pair.source), pair.canonical, types[pair.source]
            )
            for pair in pairs
        },
        canonical=True,
    )


def target_values(pairs: Sequence[ColumnPair], columns: Callable[[], Iterable[Column]]) -> Values:
    return source_values(as_loaded(pairs), columns)


def key_values(
    key: Sequence[ColumnPair], integers: frozenset[str], mine: Callable[[], Iterable[Column]]
) -> Values:
    """Of a key whose digests both sides compute.

    Parameters:
        integers: names in the target of the columns that are whole numbers in the source.
        mine: the columns of the side that is read.
    """
    values = source_values(key, mine)
    if values.canonical:
        return values
    here = {column.name for column in mine() if column.type in _INTEGERS}
    texts = dict(values.texts)
    for pair in key:
        if pair.target in integers:
            cast = "{}" if pair.source in here else "{}::pg_catalog.int8"
            texts[pair.target] = sql.SQL(cast).format(sql.Identifier(pair.source))
    return Values(texts, integers=integers)


def integers_of(key: Sequence[ColumnPair], columns: Iterable[Column]) -> frozenset[str]:
    """Names in the target of the columns of a key that are whole numbers in the source.

    Parameters:
        columns: of the source.
    """
    whole = {column.name for column in columns if column.type in _INTEGERS}
    return frozenset(pair.target for pair in key if pair.source in whole)


def _digest(
    values: Sequence[sql.Composable], integers: Sequence[bool] | None = None
) -> sql.Composable:
    """The column's place is the seed, so that two values that change places show."""
    text = "coalesce(pg_catalog.hashtextextended(({})::pg_catalog.text COLLATE {}, {}), 0)"
    number = "coalesce(pg_catalog.hashint8extended({}::pg_catalog.int8, {}), 0)"
    hashes = [
        sql.SQL(number).format(value, sql.Literal(place))
        if is_integer
        else sql.SQL(text).format(value, sql.Identifier("C"), sql.Literal(place))
        for place, (value, is_integer) in enumerate(
            zip(values, integers or [False] * len(values), strict=True), start=1
        )
    ]
    # Hashed once more: of two rows that have changed one value between them, the sums would be
    # alike in some bits.
    return sql.SQL("pg_catalog.hashint8extended({}, 0)").format(
        sql.SQL(" OPERATOR(pg_catalog.#) ").join(hashes)
    )


def _canonical_digest(values: Sequence[sql.Composable]) -> sql.Composable:
    """What any system can compute: 60 bits of an MD5 of the whole row."""
    row = sql.SQL(" || ';' || ").join(map(framed, values))
    return sql.SQL("('x' || pg_catalog.left(pg_catalog.md5({}), 15))::bit(60)::bigint").format(row)


def check_encoding(connection: Connection, side: str) -> None:
    """
    Raises:
        PlanningError: the hash of a text is that of its bytes, which differ between encodings.
    """
    found = connection.info.parameter_status("server_encoding")
    if found != "UTF8":
        raise PlanningError(
            f"{side}: checksums: expected a database in the encoding UTF8, found {found}"
        )


def read_checksum(
    connection: Connection,
    side: str,
    rows: sql.Composable,
    condition: sql.Composable,
    values: Values,
) -> Checksum:
    if values.texts:
        check_encoding(connection, side)
    query = statement("checksum").format(digest=values.digest(), rows=rows, condition=condition)
    with planning(side, "checksum"):
        count, digest = connection.first(query)
    return Checksum(int(count), str(digest))


def read_loaded(
    connection: Connection,
    table: TableRef,
    where: str | None,
    records: Sequence[CommitRecord],
    values: Values,
    *,
    others: bool,
) -> Mapping[str, Checksum] | None:
    """See `TargetCatalog.checksums`."""
    if values.texts:
        check_encoding(connection, "target")
    with planning("target", f"checksums of {table}"):
        kept, newest = connection.first(keeps_xmin(table))
        old = any(newest - int(record.transaction) >= OLDEST for record in records)
        if not kept or old:
            return None
        partitions = {_xmin(record): record.partition_id for record in records}
        query = statement("checksums").format(
            transactions=_array(partitions),
            others=sql.SQL("true" if others else "false"),
            digest=values.digest(),
            table=rows_of(table),
            condition=sql.SQL("true") if where is None else raw(where),
        )
        rows = connection.execute(query).fetchall()
    known = {partition_id: Checksum(0, "0") for partition_id in ("", *partitions.values())}
    known.update(
        (partitions[loader] if loader else "", Checksum(int(count), total))
        for loader, count, total in rows
    )
    if any(record.rows for record in records) and not any(known[p].rows for p in known if p):
        return None  # the rows were rewritten: ALTER TABLE does that
    return known


def written_by(
    loaded_by: Sequence[CommitRecord], other_than: Sequence[CommitRecord]
) -> Iterator[sql.Composable]:
    """Conditions on the transactions that have written rows."""
    for records, test in ((loaded_by, "xmin = ANY"), (other_than, "xmin <> ALL")):
        if records:
            yield sql.SQL("{} ({}::xid[])").format(
                sql.SQL(test), _array([_xmin(record) for record in records])
            )


def _xmin(record: CommitRecord) -> str:
    return str(int(record.transaction) % (1 << 32))


def _array(numbers: Sequence[str] | Mapping[str, str]) -> sql.Literal:
    return sql.Literal("{" + ",".join(numbers) + "}")


def read_rows(
    connection: Connection,
    side: str,
    rows: sql.Composable,
    condition: sql.Composable,
    values: Values,
    key: Sequence[str],
    only: Sequence[str],
) -> Iterator[tuple[str, str]]:
    """Key and digest of every row, sorted by both. Holds `BATCH` rows at once.

    Parameters:
        only: keys; empty for all.
    """
    check_encoding(connection, side)
    chosen: sql.Composable = sql.SQL("true")
    if only:
        chosen = sql.SQL("key = ANY (ARRAY[{}])").format(
            sql.SQL(", ").join(sql.Literal(text) for text in only)
        )
    query = statement("row_digests").format(
        key=values.key_text(key),
        digest=values.digest(),
        rows=rows,
        condition=condition,
        chosen=chosen,
    )
    with (
        planning(side, "digests of rows"),
        connection.transaction(),
        connection.cursor(name="penstock_rows") as cursor,
    ):
        cursor.itersize = BATCH
        cursor.execute(query)
        yield from cursor
