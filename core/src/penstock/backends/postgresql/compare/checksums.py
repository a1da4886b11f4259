"""Checksums of rows, the same on every server, in any order of the rows.

A row's digest is a 64-bit hash over its values as text. Each value is hashed by itself, so a large
one is never copied into a text of the whole row. The text is the value's cast to text under our
session settings, without the trailing blanks of a character(n), which are insignificant. Between
unlike systems, the digest is a function that both have, over texts that both write in the same
form.
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
    column_expression,
    keeps_xmin,
    raw,
    rows_of,
    statement,
)
from penstock.backends.sql.rows.checksums import as_loaded
from penstock.errors import PlanningError
from penstock.model.records import CommitRecord
from penstock.model.tables import Column, ColumnPair, TableRef

# Rows of a stream held at once, and the longest text of a key.
BATCH = 1000
KEY_LENGTH = 300
# Transaction ids have 32 bits: after half a turn an old one could be mistaken for a new one.
OLDEST = 1 << 31
_INTEGERS = ("smallint", "integer", "bigint")
# Machines disagree on shifts by more.
_INT8_BITS = 64


@dataclass(frozen=True, slots=True)
class Values:
    """The values by which rows are compared."""

    texts: Mapping[str, sql.Composable]
    """Expressions, by the names of the target's columns."""
    canonical: bool = False
    """Whether they are canonical texts, which unlike systems write as well."""
    integers: frozenset[str] = frozenset()
    """Columns that are whole numbers on both sides, and are hashed as such, which is cheaper."""

    def digest(self) -> sql.Composable:
        """Return the digest of a row. A single whole number is its own digest."""
        if not self.texts:
            return sql.SQL("0::pg_catalog.int8")
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
            texts = [sql.SQL("coalesce({}, 'NULL')").format(value) for value in values]
            text = sql.SQL("pg_catalog.concat('(', {}, ')')").format(sql.SQL(", ',', ").join(texts))
        else:
            text = sql.SQL("ROW({})::pg_catalog.text").format(sql.SQL(", ").join(values))
        return sql.SQL("pg_catalog.left({}, {})").format(text, sql.Literal(KEY_LENGTH))


def source_values(pairs: Sequence[ColumnPair], columns: Callable[[], Iterable[Column]]) -> Values:
    """Return the source's values as the target stores them.

    Args:
        pairs: the columns to compare.
        columns: the source's columns; called only if their types matter.
    """
    if not any(pair.canonical for pair in pairs):
        return Values({pair.target: column_expression(pair) for pair in pairs})
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
    """Return the target's values as it stores them."""
    return source_values(as_loaded(pairs), columns)


def key_values(
    key: Sequence[ColumnPair], integers: frozenset[str], columns: Callable[[], Iterable[Column]]
) -> Values:
    """Return the values of a key, for digests that both sides compute.

    Equal keys that are spelled differently have different digests, even if they differ in trailing
    blanks alone: those of a character(n) are lost in a cast to text, but not in concat().

    Args:
        key: the columns of the key, in order.
        integers: the target names of the columns that hold whole numbers in the source.
        columns: the columns of the side to read.
    """
    values = source_values(key, columns)
    if values.canonical:
        return values
    here = {column.name for column in columns() if column.type in _INTEGERS}
    written = sql.SQL("CASE WHEN {0} IS NOT NULL THEN pg_catalog.concat({0}) END")
    texts: dict[str, sql.Composable] = {
        name: written.format(value) for name, value in values.texts.items()
    }
    for pair in key:
        if pair.target in integers:
            cast = "{}" if pair.source in here else "{}::pg_catalog.int8"
            texts[pair.target] = sql.SQL(cast).format(sql.Identifier(pair.source))
    return Values(texts, integers=integers)


def integers_of(key: Sequence[ColumnPair], columns: Iterable[Column]) -> frozenset[str]:
    """Return the target names of the key columns that hold whole numbers in the source.

    Args:
        key: the columns of the key.
        columns: the source's columns.
    """
    integers = {column.name for column in columns if column.type in _INTEGERS}
    return frozenset(pair.target for pair in key if pair.source in integers)


def _digest(
    values: Sequence[sql.Composable], integers: Sequence[bool] | None = None
) -> sql.Composable:
    """Combine values into a digest.

    The column's position is the seed, so that exchanged values change the digest.
    """
    text = (
        'coalesce(pg_catalog.hashtextextended(({})::pg_catalog.text COLLATE pg_catalog."C", {}), 0)'
    )
    # The server's hash of a number begins with 32 bits of it, which 1 and 2^32 share.
    number = (
        "coalesce(pg_catalog.hashint8extended({0}::pg_catalog.int8, {1})"
        " OPERATOR(pg_catalog.#) ({0}::pg_catalog.int8 OPERATOR(pg_catalog.<<) {2}), 0)"
    )
    hashes = [
        sql.SQL(number).format(value, sql.Literal(place), sql.Literal(place % _INT8_BITS))
        if is_integer
        else sql.SQL(text).format(value, sql.Literal(place))
        for place, (value, is_integer) in enumerate(
            zip(values, integers or [False] * len(values), strict=True), start=1
        )
    ]
    # Hash the result again: if two rows exchanged one value, some bits of the sums would be equal.
    # As a text, since the hash of a number would keep only 32 bits, and keys would share digests.
    return sql.SQL("pg_catalog.hashtextextended(({})::pg_catalog.text COLLATE {}, 0)").format(
        sql.SQL(" OPERATOR(pg_catalog.#) ").join(hashes), sql.Identifier("C")
    )


def _canonical_digest(values: Sequence[sql.Composable]) -> sql.Composable:
    """Return the digest that every system can compute: 60 bits of the SHA-256 of the whole row."""
    row = sql.SQL(" OPERATOR(pg_catalog.||) ';' OPERATOR(pg_catalog.||) ").join(map(framed, values))
    return sql.SQL(
        "('x' OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.substring("
        "pg_catalog.sha256(pg_catalog.convert_to({}, 'UTF8')), 1, 8), 'hex'))"
        "::bit(60)::pg_catalog.int8"
    ).format(row)


def check_encoding(connection: Connection, side: str) -> None:
    """Check that both servers hash texts in the same encoding.

    Raises:
        PlanningError: the encodings differ, and the hash of a text is that of its bytes.
    """
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise PlanningError(
            f"{side}: checksums: expected a database with encoding UTF8, found {encoding}"
        )


def read_checksum(
    connection: Connection,
    side: str,
    rows: sql.Composable,
    condition: sql.Composable,
    values: Values,
) -> Checksum:
    """Return the checksum of some rows.

    Args:
        connection: a session on the server.
        side: the side of the server, for error messages.
        rows: the rows, as an item of FROM.
        condition: the condition on the rows.
        values: the values to compare.
    """
    if values.texts:
        check_encoding(connection, side)
    query = statement("checksum").format(digest=values.digest(), rows=rows, condition=condition)
    with planning(side, "checksum"), connection.users_path():
        count, digest = connection.first(query)
    return Checksum(int(count), str(digest))


def read_loaded(
    connection: Connection,
    table: TableRef,
    where: str | None,
    records: Sequence[CommitRecord],
    values: Values,
    *,
    digest_others: bool,
) -> Mapping[str, Checksum] | None:
    """Return checksums of loaded rows by partition; see `TargetCatalog.checksums`.

    Args:
        connection: a session on the target.
        table: the table.
        where: the run's condition; None for all rows.
        records: the commit records of the partitions.
        values: the values to digest; without texts, rows are only counted.
        digest_others: whether to digest the rows that none of the records loaded, too.

    Returns:
        The checksums by partition id, those of other rows under the empty id. None if the table
        does not show which transaction wrote a row.
    """
    if values.texts:
        check_encoding(connection, "target")
    with planning("target", f"checksums of {table}"):
        has_xmin, newest = connection.first(keeps_xmin(table))
        old = any(newest - int(record.transaction) >= OLDEST for record in records)
        if not has_xmin or old:
            return None
        partitions = {_xmin(record): record.partition_id for record in records}
        query = statement("checksums").format(
            is_listed=_is_listed(partitions),
            digest_others=sql.SQL("true" if digest_others else "false"),
            digest=values.digest(),
            table=rows_of(table),
            condition=sql.SQL("true") if where is None else raw(where),
        )
        with connection.users_path():
            rows = connection.execute(query).fetchall()
    sums = {partition_id: Checksum(0, "0") for partition_id in ("", *partitions.values())}
    sums.update(
        (partitions[loader] if loader else "", Checksum(int(count), total))
        for loader, count, total in rows
    )
    if any(record.rows for record in records) and not any(sums[p].rows for p in sums if p):
        return None  # rewritten rows, for example by ALTER TABLE, do not keep their transactions
    return sums


def writer_conditions(
    loaded_by: Sequence[CommitRecord], other_than: Sequence[CommitRecord]
) -> Iterator[sql.Composable]:
    """Yield conditions on the transactions that wrote rows."""
    for records, test in ((loaded_by, "{}"), (other_than, "NOT ({})")):
        if records:
            yield sql.SQL(test).format(_is_listed([_xmin(record) for record in records]))


def _xmin(record: CommitRecord) -> str:
    return str(int(record.transaction) % (1 << 32))


def _is_listed(transactions: Sequence[str] | Mapping[str, str]) -> sql.Composed:
    """Return a condition for rows that some transactions wrote."""
    return sql.SQL("xmin OPERATOR(pg_catalog.=) ANY ({}::pg_catalog.xid[])").format(
        _array(transactions)
    )


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
    """Yield the key and the digest of every row, sorted by both. Holds `BATCH` rows at once.

    Args:
        connection: a session on the server.
        side: the side of the server, for error messages.
        rows: the rows, as an item of FROM.
        condition: the condition on the rows.
        values: the values to compare.
        key: the columns of the key, by their names in the target.
        only: the keys to read; all if empty.
    """
    check_encoding(connection, side)
    chosen: sql.Composable = sql.SQL("true")
    if only:
        chosen = sql.SQL("key OPERATOR(pg_catalog.=) ANY (ARRAY[{}]::pg_catalog.text[])").format(
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
        connection.in_users_path(),
        connection.cursor(name="penstock_rows") as cursor,
    ):
        cursor.itersize = BATCH
        cursor.execute(query)
        yield from cursor
