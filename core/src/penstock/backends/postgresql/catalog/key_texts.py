"""Bounds and values of a key as somebody wrote them: read by the source, as the key's type."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from penstock.backends.postgresql.catalog.keys import collation_of, key_type, ranged_type
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import statement, type_name
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key
from penstock.model.tables import Relation

# A cast to a date cuts the time of day off without a word.
_EXACT = "({text}::timestamp = {value}::timestamp)"


def read_ranges(
    connection: Connection,
    read: Relation,
    key: Key,
    ranges: Sequence[tuple[str | None, str | None]],
) -> tuple[tuple[Bound | None, Bound | None], ...]:
    type_ = ranged_type(connection, read, key)
    exact = _EXACT if type_ == "date" else "true"
    query = statement("read_ranges").format(
        type=type_name(type_),
        collate=_collate(connection, read, key),
        exact_lower=sql.SQL(exact.format(text="lower_text", value="lower")),
        exact_upper=sql.SQL(exact.format(text="upper_text", value="upper")),
    )
    lowers, uppers = [lower for lower, _ in ranges], [upper for _, upper in ranges]
    with planning("source", f"--key {key.text}: bounds"):
        rows = connection.execute(query, {"lowers": lowers, "uppers": uppers}).fetchall()
    found = []
    for position, (lower, upper, ascends, overlapped, is_exact) in enumerate(rows):
        shown = _shown(*ranges[position])
        if not is_exact:
            raise PlanningError(
                f"--key {key.text}: expected bounds of type {type_}, found {shown}, which has a "
                "time of day"
            )
        if not ascends:
            raise PlanningError(f"--key {key.text}: expected bounds that ascend, found {shown}")
        if overlapped is not None:
            raise PlanningError(
                f"--key {key.text}: expected ranges that are apart, found {shown} and "
                f"{_shown(*ranges[overlapped - 1])}"
            )
        found.append(
            (
                None if lower is None else Bound(type_, lower),
                None if upper is None else Bound(type_, upper),
            )
        )
    return tuple(found)


def read_values(
    connection: Connection, read: Relation, key: Key, values: Sequence[str]
) -> tuple[Bound, ...]:
    type_ = key_type(connection, read, key)
    query = statement("read_values").format(
        type=type_name(type_), collate=_collate(connection, read, key)
    )
    with planning("source", f"--key {key.text}: values"):
        rows = connection.execute(query, {"values": list(values)}).fetchall()
    for position, (text, repeated) in enumerate(rows):
        if repeated is not None:
            raise PlanningError(
                f"--key {key.text}: expected each value once, found {values[repeated - 1]!r} and "
                f"{values[position]!r}, which are {text!r} both"
            )
    return tuple(Bound(type_, text) for text, _ in rows)


def _collate(connection: Connection, read: Relation, key: Key) -> sql.Composable:
    """The collation by which the partitions' conditions compare."""
    if key.collation:
        return sql.SQL("COLLATE {}").format(sql.Identifier(key.collation))
    collation = collation_of(connection, read, key)
    return sql.SQL("") if collation is None else sql.SQL("COLLATE {}").format(collation)


def _shown(lower: str | None, upper: str | None) -> str:
    return f"[{'' if lower is None else lower}, {'' if upper is None else upper})"
