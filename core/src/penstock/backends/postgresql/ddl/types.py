"""Types that are not built in: read, compared, and created."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from psycopg import sql

from penstock.backends.postgresql.connection import Connection, full_names
from penstock.backends.postgresql.ddl.text import comment
from penstock.backends.postgresql.session.statements import for_server, ident, literal

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import RangePart, TablePart, TypeCheck, TypePart


def types_of(tables: Sequence[TablePart], all_types: Mapping[int, TypePart]) -> list[TypePart]:
    """Return the types that are not built in, each after its components.

    Args:
        tables: the tables that use the types.
        all_types: see `read_types`.
    """
    chosen: dict[int, TypePart | None] = {}
    for oid in _column_types(tables):
        _add_type(all_types, oid, chosen)
    return [type_ for type_ in chosen.values() if type_ is not None]


def _add_type(
    all_types: Mapping[int, TypePart], oid: int, chosen: dict[int, TypePart | None]
) -> None:
    if oid in chosen:
        return
    chosen[oid] = None
    type_ = all_types[oid]
    if _comes_with_server(type_):
        return
    for part in _components(type_):
        _add_type(all_types, part, chosen)
    del chosen[oid]
    chosen[oid] = None if type_["element"] or type_["kind"] == "m" else type_


def read_types(connection: Connection, tables: Iterable[TablePart]) -> dict[int, TypePart]:
    """Return the types of columns and their components, by object id."""
    types: dict[int, TypePart] = {}
    oids = set(_column_types(tables))
    while oids := oids.difference(types):
        read = _read(connection, oids)
        types |= read
        oids = {
            part
            for type_ in read.values()
            if not _comes_with_server(type_)
            for part in _components(type_)
        }
    return types


def _read(connection: Connection, oids: Iterable[int]) -> dict[int, TypePart]:
    query = for_server(connection, "definition_type", types=sql.Literal(sorted(oids)))
    return dict(connection.execute(query).fetchall())


def _column_types(tables: Iterable[TablePart]) -> Iterator[int]:
    for table in tables:
        for column in table["columns"]:
            if column["type_oid"] is not None:
                yield column["type_oid"]


def _comes_with_server(type_: TypePart) -> bool:
    return type_["schema"] in ("pg_catalog", "information_schema")


def _components(type_: TypePart) -> Iterator[int]:
    parts = [type_["element"], type_["base_oid"], type_["range_oid"]]
    parts += (attribute["type_oid"] for attribute in type_["attributes"] or ())
    if type_["range"]:
        parts.append(type_["range"]["subtype_oid"])
    return (part for part in parts if part is not None)


def enum_type(schema: str, name: str, labels: Sequence[str]) -> TypePart:
    """Return a new enum type for a column, in the form in which the catalog would be read.

    Args:
        schema: the schema of the type.
        name: the name of the type.
        labels: the labels, in order.
    """
    return {
        "oid": 0, "array_oid": 0, "schema": schema, "name": name, "kind": "e", "element": None,
        "relation": None, "extension": None, "comment": None, "schema_comment": None,
        "labels": list(labels), "base": None, "base_oid": None, "not_null": False,
        "default": None, "collation": None,
        "checks": None, "attributes": None, "range": None, "range_oid": None,
    }  # fmt: skip


def type_name(type_: TypePart) -> str:
    """Return a type's name, quoted, with its schema."""
    return ident(type_["schema"], type_["name"])


def read_namesakes(connection: Connection, names: Sequence[str]) -> dict[str, TypePart | None]:
    """Return the target's types with these quoted names; None where there is no such type."""
    types: dict[str, TypePart | None] = dict.fromkeys(names)
    query = (
        "SELECT asked.name, pg_catalog.to_regtype(asked.name)::oid::bigint"
        " FROM pg_catalog.unnest(%s::text[]) AS asked (name)"
        " WHERE pg_catalog.to_regtype(asked.name) IS NOT NULL"
    )
    oids = dict(connection.execute(query, [list(names)]).fetchall())
    if oids:
        with full_names(connection):
            definitions = _read(connection, oids.values())
        types |= {
            quoted_name: definitions[oid] for quoted_name, oid in oids.items() if oid in definitions
        }
    return types


def missing_types(
    types: Sequence[TypePart], look_up: Callable[[str], TypePart | None]
) -> tuple[list[TypePart], list[str]]:
    """Return the types to create, and a line for each that differs or cannot be created.

    Args:
        types: the source's types, each after its components.
        look_up: looks up the target's types by name, as `read_namesakes` does.
    """
    missing = []
    lines = []
    for type_ in types:
        quoted_name = type_name(type_)
        existing = look_up(quoted_name)
        if existing is not None:
            if _essence(type_) != _essence(existing):
                lines.append(
                    f"type {quoted_name} differs: the source has {_description(type_)}, the target "
                    f"{_description(existing)}"
                )
        elif type_["extension"]:
            lines.append(
                f"type {quoted_name} comes with an extension: run CREATE EXTENSION "
                f"{ident(type_['extension'])} in the target first"
            )
        elif type_["relation"]:
            lines.append(
                f"type {quoted_name} is the row type of {type_['relation']}: create that table "
                "first"
            )
        elif type_["kind"] not in "edcr" or (type_["range"] and type_["range"]["canonical"]):
            lines.append(f"type {quoted_name} is written in C: install it in the target first")
        else:
            missing.append(type_)
    return missing, lines


def _essence(type_: TypePart) -> tuple[Any, ...]:
    """Return the properties in which an existing type must be equal."""
    if type_["kind"] == "b":
        return ("b",)
    return (
        type_["kind"],
        type_["labels"],
        type_["base"],
        type_["not_null"],
        type_["collation"],
        sorted(c["definition"] for c in type_["checks"] or ()),
        [(a["name"], a["type"]) for a in type_["attributes"] or ()],
        _range_parts(type_["range"])[:2] if type_["range"] else None,
    )


def _description(type_: TypePart) -> str:
    if type_["kind"] == "e":
        return f"enum ({', '.join(type_['labels'] or ())})"
    if type_["kind"] == "d":
        checks = [c["definition"] for c in type_["checks"] or ()]
        not_null = ["NOT NULL"] if type_["not_null"] else []
        return " ".join(["domain over", type_["base"] or "", *not_null, *checks])
    if type_["range"] is not None:
        return f"range of {type_['range']['subtype']}"
    attributes = [f"{a['name']} {a['type']}" for a in type_["attributes"] or ()]
    return f"composite ({', '.join(attributes)})" if attributes else f"kind {type_['kind']!r}"


def create_type(type_: TypePart) -> str:
    """Return a statement that creates a type unless it exists.

    A restarted run finds its own.
    """
    quoted_name = ident(type_["schema"], type_["name"])
    statements = [_type_statement(type_, quoted_name)]
    if type_["kind"] == "d":
        statements += _unchecked(type_, quoted_name)
        statements += comment("DOMAIN", quoted_name, type_["comment"])
        for check in type_["checks"] or ():
            of = f"{ident(check['name'])} ON DOMAIN {quoted_name}"
            statements += comment("CONSTRAINT", of, check["comment"])
    else:
        statements += comment("TYPE", quoted_name, type_["comment"])
        for attribute in type_["attributes"] or ():
            of = f"{quoted_name}.{ident(attribute['name'])}"
            statements += comment("COLUMN", of, attribute["comment"])
    body = (
        f"BEGIN IF pg_catalog.to_regtype({literal(quoted_name)}) IS NULL THEN\n"
        + "".join(f"{one};\n" for one in statements)
        + "END IF; END"
    )
    return f"DO {literal(body)}"


def _unchecked(type_: TypePart, quoted_name: str) -> list[str]:
    """Return statements that add a domain's checks that existing values may violate.

    CREATE DOMAIN does not accept them.
    """
    return [
        f"ALTER DOMAIN {quoted_name} ADD CONSTRAINT {ident(check['name'])} {check['definition']}"
        for check in type_["checks"] or ()
        if _is_unchecked(check)
    ]


def _is_unchecked(check: TypeCheck) -> bool:
    return bool(check["definition"].endswith(" NOT VALID"))


def _type_statement(type_: TypePart, quoted_name: str) -> str:
    if type_["kind"] == "e":
        labels = ", ".join(literal(label) for label in type_["labels"] or ())
        return f"CREATE TYPE {quoted_name} AS ENUM ({labels})"
    if type_["kind"] == "d":
        words = [f"CREATE DOMAIN {quoted_name} AS {type_['base']}"]
        if type_["collation"]:
            words.append(f"COLLATE {type_['collation']}")
        if type_["default"] is not None:
            words.append(f"DEFAULT {type_['default']}")
        if type_["not_null"]:
            words.append("NOT NULL")
        words += [
            f"CONSTRAINT {ident(check['name'])} {check['definition']}"
            for check in type_["checks"] or ()
            if not _is_unchecked(check)
        ]
        return " ".join(words)
    if type_["range"] is not None:
        parts = _range_parts(type_["range"])
        return f"CREATE TYPE {quoted_name} AS RANGE ({', '.join(parts)})"
    attributes = [
        f"{ident(a['name'])} {a['type']}" + (f" COLLATE {a['collation']}" if a["collation"] else "")
        for a in type_["attributes"] or ()
    ]
    return f"CREATE TYPE {quoted_name} AS ({', '.join(attributes)})"


def _range_parts(range_: RangePart) -> list[str]:
    parts = [f"subtype = {range_['subtype']}", f"subtype_opclass = {range_['class']}"]
    if range_["collation"]:
        parts.append(f"collation = {range_['collation']}")
    if range_["subdiff"]:
        parts.append(f"subtype_diff = {range_['subdiff']}")
    if range_["multirange"]:
        parts.append(f"multirange_type_name = {range_['multirange']}")
    return parts
