"""What a table needs that is not made with it: whether the target has it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.ddl.text import Json
from penstock.backends.postgresql.statements import ident, statement


def read_needs(connection: Connection, table: Json, types: Sequence[Json]) -> Any:
    """
    Parameters:
        types: those that are made with it.
    """
    return connection.value(
        statement("definition_needs").format(
            table=sql.Literal(table["oid"]),
            types=sql.Literal([type_["oid"] for type_ in types]),
        )
    )


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
