"""Bounds and values of a key as somebody wrote them: read by the source, as the key's type."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.api.facts import RankedBound
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import statement, type_name
from penstock.model.extents import Bound, Key

# A cast to a date cuts the time of day off without a word. Not every date is a timestamp.
_EXACT = (
    "CASE WHEN value BETWEEN '4713-01-01 BC' AND '294276-12-31'"
    " THEN value_text::timestamp = value::timestamp ELSE true END"
)


def ranked(
    connection: Connection, key: Key, type_: str, collate: sql.Composable, texts: Sequence[str]
) -> tuple[RankedBound, ...]:
    """See `SourceCatalog.ranked`.

    Parameters:
        collate: by which the partitions' conditions compare.
    """
    query = statement("ranked").format(
        type=type_name(type_),
        collate=collate,
        exact=sql.SQL(_EXACT if type_ == "date" else "true"),
    )
    with planning("source", f"--key {key.text}: bounds"):
        rows = connection.execute(query, {"texts": list(texts)}).fetchall()
    return tuple(RankedBound(Bound(type_, text), rank, exact) for text, rank, exact in rows)
