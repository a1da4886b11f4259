"""Checksums of rows over canonical texts: every database computes the same ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.backends.api.facts import Checksum
from penstock.backends.sql.dialect import BYTES, CatalogDialect
from penstock.backends.sql.rows.computed_columns import ALL, computed_rows
from penstock.backends.sql.session import Row, Session
from penstock.model.extents import Key
from penstock.model.tables import ColumnPair

# The maximum length of a key's text.
KEY_LENGTH = 300
_BYTES = Key("", collation=BYTES)


def as_loaded(pairs: Sequence[ColumnPair]) -> list[ColumnPair]:
    """Return the pairs with the column names of the target."""
    return [ColumnPair(pair.target, pair.target, "", pair.canonical) for pair in pairs]


def canonical_texts(session: Session, rows: str, pairs: Sequence[ColumnPair]) -> dict[str, str]:
    """Return the canonical texts of columns, by the target's names.

    Args:
        session: the session with the database.
        rows: an item of FROM.
        pairs: the copied columns.
    """
    if not pairs:
        return {}
    dialect = session.dialect
    rows, _ = computed_rows(dialect, rows, ALL, pairs)
    # Named explicitly: a table does not show all of its columns.
    names = ", ".join(dialect.ident(name) for name in {pair.source: None for pair in pairs})
    types = dict(session.describe(f"SELECT {names} FROM {rows}", "checksum"))
    return {
        pair.target: dialect.canonical(
            dialect.ident(pair.source), types[pair.source], pair.canonical
        )
        for pair in pairs
    }


def row_text(dialect: CatalogDialect, texts: Sequence[str]) -> str:
    """Return the text of a row, from the canonical texts of its columns."""
    parts: list[str] = []
    for text in texts:
        parts += ["';'", dialect.framed_text(text)]
    return dialect.joined_all(parts[1:]) or "''"


def read_checksum(
    session: Session, rows: str, selection: str, texts: Mapping[str, str]
) -> Checksum:
    """Compute the checksum of some rows.

    Args:
        session: the session with the database.
        rows: an item of FROM.
        selection: a condition that selects rows.
        texts: the canonical texts of the columns; if empty, rows are only counted.
    """
    dialect = session.dialect
    number = dialect.digest(row_text(dialect, list(texts.values()))) if texts else "0"
    total = dialect.total(number)
    ((count, digest),) = session.fetch(
        f"SELECT {dialect.counted}, {total} FROM {rows} WHERE {selection}", "checksum"
    )
    return Checksum(int(count), str(digest))


def read_digests(
    session: Session,
    rows: str,
    selection: str,
    texts: Mapping[str, str],
    key: Sequence[str],
    only_keys: Sequence[str],
) -> Iterator[Row]:
    """Yield the key and the digest of every row, sorted by both as bytes.

    Args:
        session: the session with the database.
        rows: the item of FROM with the table's rows.
        selection: the condition for the rows to read.
        texts: the canonical texts of columns, by name.
        key: the names of the key columns among them.
        only_keys: the keys to read; all if empty.
    """
    dialect = session.dialect
    number = dialect.text(dialect.digest(row_text(dialect, list(texts.values()))))
    compared, order = (
        dialect.collated_value(_BYTES, "text", name) for name in ("row_key", "digest")
    )
    key_literals = (
        dialect.collated_value(_BYTES, "text", dialect.literal(text)) for text in only_keys
    )
    among = f"{compared} IN ({', '.join(key_literals)})" if only_keys else "1 = 1"
    rows = f"SELECT {_key_text(dialect, texts, key)} AS row_key, {number} AS digest FROM {rows}"
    query = (
        f"SELECT row_key, digest FROM ({rows} WHERE {selection}) AS digests WHERE {among} "
        f"ORDER BY {compared}, {order}"
    )
    return session.stream(query, "digests of rows")


def _key_text(dialect: CatalogDialect, texts: Mapping[str, str], key: Sequence[str]) -> str:
    parts: list[str] = []
    for name in key:
        parts += ["','", f"coalesce({texts[name]}, 'NULL')"]
    text = parts[1] if len(key) == 1 else dialect.joined(["'('", *parts[1:], "')'"])
    return dialect.beginning(text, KEY_LENGTH)
