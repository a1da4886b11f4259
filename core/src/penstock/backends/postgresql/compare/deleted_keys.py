"""Keys of rows deleted from the source: grouped into buckets by their digests, and stored."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.api.optional.nights import Bucket, KeySelection
from penstock.backends.postgresql.compare.checksums import Values, check_encoding
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import (
    built_in,
    column_list,
    ident,
    quoted,
    statement,
)
from penstock.model.tables import TableRef


def read_buckets(
    connection: Connection, side: str, rows: sql.Composable, values: Values, bits: int
) -> dict[int, Bucket]:
    """Return the key digests of rows, summed by bucket.

    Args:
        connection: a session on the server.
        side: the side of the server, for error messages.
        rows: the rows, as an item of FROM.
        values: the values of the key.
        bits: how many of a digest's lowest bits name its bucket.
    """
    check_encoding(connection, side)
    query = statement("key_buckets").format(
        digest=values.digest(), mask=sql.Literal(2**bits - 1), rows=rows
    )
    with planning(side, "digests of keys"), connection.users_path():
        sums = connection.execute(query).fetchall()
    return {number: Bucket(count, int(total)) for number, count, total in sums}


def read_ranges(
    connection: Connection, side: str, rows: sql.Composable, column: str, bits: int
) -> dict[int, int] | None:
    """Count rows by range of a whole-number column; return None if a value is NULL.

    Args:
        connection: a session on the server.
        side: the side of the server, for error messages.
        rows: the rows, as an item of FROM.
        column: the whole-number column.
        bits: the width of a range, as a power of two.

    Returns:
        Row counts by the number of the range.
    """
    query = sql.SQL(
        "SELECT {}::pg_catalog.int8 OPERATOR(pg_catalog.>>) {}, pg_catalog.count(*) FROM {}"
        " GROUP BY 1"
    ).format(sql.Identifier(column), sql.Literal(bits), rows)
    with planning(side, "ranges of keys"), connection.transaction():
        # The planner expects far more groups than there are, and so would not compute them in
        # parallel.
        connection.execute("SELECT pg_catalog.set_config('parallel_tuple_cost', '0', true)")
        with connection.users_path():
            counts = dict(connection.execute(query).fetchall())
    return None if None in counts else counts


def range_bits(connection: Connection, rows: sql.Composable, column: str, count: int) -> int:
    """Return the width of ranges, in bits, for at most twice the requested number of ranges.

    Args:
        connection: a session on the source.
        rows: the rows, as an item of FROM.
        column: the whole-number column.
        count: the requested number of ranges.
    """
    query = sql.SQL(
        "SELECT pg_catalog.min({0})::pg_catalog.int8, pg_catalog.max({0})::pg_catalog.int8 FROM {1}"
    ).format(sql.Identifier(column), rows)
    with planning("source", "ranges of keys"), connection.users_path():
        first, last = connection.first(query)
    return 0 if first is None else int(((last - first) // count).bit_length())


def span_conditions(where: str | None, column: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return conditions, each answerable by an index, that select the spans without overlap.

    Args:
        where: a condition to combine with each; None for none.
        column: the whole-number column.
        spans: the first and the last value of each span.
    """
    name = ident(column)
    at_least, at_most = built_in(">="), built_in("<=")
    tests = [f"{name} {at_least} {first} AND {name} {at_most} {last}" for first, last in spans]
    return [test if where is None else f"({where}) AND {test}" for test in tests]


def bucket_condition(values: Values, selection: KeySelection) -> sql.Composed:
    """Return a condition for the keys in some buckets."""
    return sql.SQL(
        "{digest} OPERATOR(pg_catalog.&) {mask} OPERATOR(pg_catalog.=)"
        " ANY ({buckets}::pg_catalog.int8[])"
    ).format(
        digest=values.digest(),
        mask=sql.Literal(2**selection.bits - 1),
        buckets=sql.Literal(list(selection.buckets)),
    )


def keep_keys(
    connection: Connection,
    keys_table: TableRef,
    key: Sequence[str],
    rows: sql.Composable,
    values: Values,
    digests: Sequence[int],
) -> int:
    """Store keys of the target's rows in a table of their own, and return how many there are.

    Args:
        connection: a session on the target.
        keys_table: the table to store them in.
        key: the columns of the key.
        rows: the rows to search, as an item of FROM.
        values: the values of the key.
        digests: the digests of the keys to store.
    """
    query = statement("keep_keys").format(
        gone=quoted(keys_table),
        key=column_list(key),
        digest=values.digest(),
        rows=rows,
        # A difference that matches no digest: the target lacks a key that it should have.
        digests=sql.Literal([each for each in digests if -(2**63) <= each < 2**63]),
    )
    with connection.users_path():
        return connection.execute(query).rowcount
