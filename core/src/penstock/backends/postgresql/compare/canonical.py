"""Values in the canonical form that unlike systems share: the kinds of the types page."""

from __future__ import annotations

from psycopg import sql

from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.postgresql.load.losses import numeric_modifier
from penstock.errors import PlanningError

LIST = "list:"
# From 1970-01-01 to 2000-01-01, the server's epoch.
_EPOCH = 946_684_800_000_000
_WHOLE = ("int2", "int4", "int8", "oid", "xid", "cid", "xid8")


def canonical_text(value: sql.Composable, kind: str, type_: DataType) -> sql.Composable:
    """Return an expression for the canonical text of a value; NULL if the value is NULL.

    Args:
        value: an expression for the value.
        kind: the kind of the value, as on the types page; preceded by `list:` for each dimension.
        type_: the type of the value.

    Raises:
        PlanningError: the kind is unknown.
    """
    bare = type_.bare
    if kind.startswith(LIST):
        element = bare.components[0] if bare.kind == "array" else bare
        depth = kind.count(LIST)
        listed = _list(value, kind.removeprefix(LIST * depth), element, depth)
        # An array may have other dimensions than declared, which no list of this depth has.
        return sql.SQL(
            "CASE WHEN pg_catalog.array_ndims({0}) <> {1} THEN {0}::pg_catalog.text ELSE {2} END"
        ).format(value, sql.Literal(depth), listed)
    name = bare.name if bare.schema == "pg_catalog" else ""
    match kind:
        case "integer" | "decimal" if name not in _WHOLE:
            if name == "numeric" and bare.typmod >= 0 and numeric_modifier(bare.typmod)[1] > 0:
                # The text always has a decimal point.
                trim = "pg_catalog.rtrim(pg_catalog.rtrim({}::pg_catalog.text, '0'), '.')"
                return sql.SQL(trim).format(value)
            return sql.SQL(
                "CASE WHEN pg_catalog.scale({0}) OPERATOR(pg_catalog.>) 0"
                " THEN pg_catalog.rtrim(pg_catalog.rtrim({0}::pg_catalog.text, '0'), '.')"
                " ELSE {0}::pg_catalog.text END"
            ).format(_cast(value, "numeric", name))
        case "float":
            return sql.SQL(
                "CASE WHEN {0} OPERATOR(pg_catalog.=) 'NaN'::pg_catalog.float8 THEN 'NaN'"
                " ELSE {1}::pg_catalog.text END"
            ).format(
                _cast(value, "float8", name),
                _bits(sql.SQL("pg_catalog.float8send({})").format(_cast(value, "float8", name))),
            )
        case "bytes":
            return sql.SQL("pg_catalog.encode({}, 'hex')").format(value)
        case "date":
            # Infinite dates have no day number.
            return sql.SQL(
                "CASE WHEN pg_catalog.isfinite({0})"
                " THEN ({0} OPERATOR(pg_catalog.-) '1970-01-01'::pg_catalog.date)::pg_catalog.text"
                " ELSE {0}::pg_catalog.text END"
            ).format(_cast(value, "date", name))
        case "time":
            binary = sql.SQL("pg_catalog.time_send({})").format(_cast(value, "time", name))
            return sql.SQL("{}::pg_catalog.int8::pg_catalog.text").format(_bits(binary))
        case "timestamp":
            type_name = "timestamptz" if name == "timestamptz" else "timestamp"
            binary = sql.SQL("pg_catalog.{}({})").format(
                sql.Identifier(f"{type_name}_send"), _cast(value, type_name, name)
            )
            # Infinite timestamps are the lowest and the highest 64-bit number.
            return sql.SQL(
                "({}::pg_catalog.int8::pg_catalog.numeric OPERATOR(pg_catalog.+) {})"
                "::pg_catalog.text"
            ).format(_bits(binary), sql.Literal(_EPOCH))
        case "boolean" | "integer" | "decimal" | "text" | "uuid":
            return sql.SQL("{}::pg_catalog.text").format(value)
        case _:
            raise PlanningError(f"checksums: expected a known kind of value, found {kind!r}")


def framed(text: sql.Composable) -> sql.Composable:
    """Prefix a text with its length, so that its end is unambiguous whatever it contains."""
    return sql.SQL(
        "coalesce(pg_catalog.octet_length({0})::pg_catalog.text OPERATOR(pg_catalog.||) ':'"
        " OPERATOR(pg_catalog.||) {0}, '-')"
    ).format(text)


def _cast(value: sql.Composable, type_: str, name: str) -> sql.Composable:
    if name == type_:
        return value
    return sql.SQL("({}::{})").format(value, sql.Identifier("pg_catalog", type_))


def _bits(binary: sql.Composable) -> sql.Composable:
    """Return the eight bytes of a value's binary form."""
    return sql.SQL("('x' OPERATOR(pg_catalog.||) pg_catalog.encode({}, 'hex'))::bit(64)").format(
        binary
    )


def _list(value: sql.Composable, kind: str, element: DataType, depth: int) -> sql.Composable:
    if depth == 1:
        if element.bare.kind == "composite":
            # unnest would turn each attribute into a column.
            value = sql.SQL("{}::pg_catalog.text[]").format(value)
        return sql.SQL(
            "CASE WHEN {0} IS NOT NULL THEN (SELECT pg_catalog.concat('{{', pg_catalog.string_agg("
            "{1}, ',' ORDER BY place), '}}') FROM pg_catalog.unnest({0}) WITH ORDINALITY"
            " AS listed (item, place)) END"
        ).format(value, framed(canonical_text(sql.Identifier("item"), kind, element)))
    return sql.SQL("CASE WHEN {} IS NOT NULL THEN {} END").format(
        value, _level(value, kind, element, depth, ())
    )


def _level(
    value: sql.Composable,
    kind: str,
    element: DataType,
    depth: int,
    places: tuple[sql.Composable, ...],
) -> sql.Composable:
    """Return one dimension of an array as a list of its elements or sublists."""
    place = sql.Identifier(f"place{len(places) + 1}")
    within = (*places, place)
    if len(within) == depth:
        subscripts = sql.SQL("").join(sql.SQL("[{}]").format(one) for one in within)
        item = canonical_text(sql.SQL("({}){}").format(value, subscripts), kind, element)
    else:
        item = _level(value, kind, element, depth, within)
    return sql.SQL(
        "(SELECT pg_catalog.concat('{{', pg_catalog.string_agg({item}, ',' ORDER BY {place}), '}}')"
        " FROM pg_catalog.generate_subscripts({value}, {dimension}) AS {place})"
    ).format(item=framed(item), place=place, value=value, dimension=sql.Literal(len(within)))
