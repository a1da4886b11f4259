"""Rows of the target that the source has no more: counted by ranges, and kept by their keys."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.api.nights import KeyDigest
from penstock.backends.postgresql.compare.checksums import Values
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.statements import column_list, quoted
from penstock.model.tables import TableRef

# Counts of one statement.
AT_ONCE = 200


def count_all(connection: Connection, counts: Sequence[sql.Composable]) -> list[int]:
    """Numbers that expressions have, in few statements."""
    found: list[int] = []
    for first in range(0, len(counts), AT_ONCE):
        some = counts[first : first + AT_ONCE]
        asked = sql.SQL("SELECT ") + sql.SQL(", ").join(some)
        found += map(int, connection.first(asked))
    return found


def keep_keys(
    connection: Connection,
    gone: TableRef,
    key: Sequence[str],
    rows: sql.Composable,
    condition: sql.Composable,
    values: Values,
    found: Sequence[KeyDigest],
) -> None:
    """Put keys of the target's rows into a table of their own.

    Parameters:
        gone: that table.
        rows, condition: which rows they are among.
        found: as `read_rows` gives them.
    """
    texts, digests = [text for text, _ in found], [digest for _, digest in found]
    query = sql.SQL(
        "INSERT INTO {gone} SELECT {key} FROM ("
        "SELECT {key}, {text} AS key_text, {digest}::text AS key_digest"
        " FROM {rows} WHERE {condition}) AS rows"
        " WHERE (key_text, key_digest) IN"
        " (SELECT * FROM unnest({texts}::text[], {digests}::text[]))"
    ).format(
        gone=quoted(gone),
        key=column_list(key),
        text=values.key_text(key),
        digest=values.digest(),
        rows=rows,
        condition=condition,
        texts=sql.Literal(texts),
        digests=sql.Literal(digests),
    )
    connection.execute(query)
