"""What a table needs that is not made with it: whether the target has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl.text import Json
from penstock.backends.postgresql.session.statements import ident, statement


def read_needs(
    connection: Connection, tables: Mapping[int, Sequence[Json]]
) -> Mapping[int, Sequence[Json]]:
    """What tables need, by their object ids, as far as they need anything.

    Parameters:
        tables: each with the types that are made with it.
    """
    pairs = [(oid, type_["oid"]) for oid, types in tables.items() for type_ in types]
    query = statement("definition_needs").format(
        tables=sql.Literal(list(tables)),
        types_of=sql.Literal([oid for oid, _ in pairs]),
        types=sql.Literal([type_ for _, type_ in pairs]),
    )
    found: Mapping[int, Sequence[Json]] = dict(connection.execute(query).fetchall())
    return found


def address(need: Json) -> str:
    """By which the server finds it."""
    return json.dumps(need["address"])


def find_addresses(connection: Connection, addresses: Sequence[str]) -> dict[str, bool]:
    """
    Raises:
        psycopg.Error: one of them is not there.
    """
    connection.execute(statement("addresses"), [f"[{','.join(addresses)}]"])
    return dict.fromkeys(addresses, True)


def needs_of(tables: Iterable[Json]) -> list[Json]:
    needed = {(need["kind"], need["name"]): need for table in tables for need in table["needs"]}
    return list(needed.values())


def missing_lines(missing: Iterable[Json]) -> list[str]:
    """What the target lacks, a line for each, with what would help."""
    return list(dict.fromkeys(_lines(missing)))


def _lines(missing: Iterable[Json]) -> Iterator[str]:
    for need in missing:
        if need["extension"]:
            name = need["extension"]
            yield f"extension {name}: CREATE EXTENSION {ident(name)}"
        else:
            yield f"{need['kind']} {need['name']}: recreate does not create it"
