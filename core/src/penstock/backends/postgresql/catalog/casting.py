"""Assignments between types that the server allows, by the rules of its parser.

https://www.postgresql.org/docs/current/typeconv-query.html and `find_coercion_pathway` in
parse_coerce.c.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.postgresql.catalog.columns import data_type
from penstock.backends.postgresql.catalog.datatypes import DataType, Types
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import statement
from penstock.model.tables import Column

Casts = Mapping[tuple[int, int], bool]


def castable(
    connection: Connection,
    columns: Sequence[Column],
    pairs: Sequence[tuple[str, str]],
    type_cache: Types | None = None,
) -> list[bool]:
    """Return whether the server can assign each column to the type beside its name.

    Args:
        connection: a session on the source.
        columns: with their traits, as described by this server.
        pairs: pairs of a column's name and the name of a type.
        type_cache: the types read so far; read again if None.
    """
    types = {column.name: data_type(column) for column in columns}
    with planning("source", "casts"):
        with connection.users_path():
            rows = connection.execute(
                "SELECT name, pg_catalog.to_regtype(name)::pg_catalog.oid::pg_catalog.int8"
                " FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS asked (name)",
                [sorted({name for _, name in pairs})],
            ).fetchall()
        oids = {name: oid for name, oid in rows if oid is not None}
        read = (type_cache or Types(connection)).read((oid, -1) for oid in oids.values())
        by_name = {name: kind for name, (kind, _) in zip(oids, read, strict=True)}
        casts = {
            (source, target): by_assignment
            for source, target, by_assignment in connection.execute(statement("casts"))
        }
    return [
        target in by_name and _assignable(types[name], by_name[target], casts)
        for name, target in pairs
    ]


def _assignable(source: DataType, target: DataType, casts: Casts) -> bool:
    source, target = source.bare, target.bare
    if source.oid == target.oid:
        return True
    if (source.oid, target.oid) in casts:
        return casts[source.oid, target.oid]
    # A vector can be assigned to an array, but not the reverse.
    elements = target.kind == "array" and source.kind in ("array", "base") and source.components
    if elements and _assignable(source.components[0], target.components[0], casts):
        return True
    # Every type can be assigned to a string through its text.
    return target.category == "S"
