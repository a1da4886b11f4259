"""Objects that a table needs and that are not created with it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import ident, statement

if TYPE_CHECKING:
    from penstock.backends.postgresql.ddl.parts import NeedPart, TablePart, TypePart


def read_needs(
    connection: Connection, tables: Mapping[int, Sequence[TypePart]]
) -> Mapping[int, list[NeedPart]]:
    """Return what tables need, by object id; tables without needs are left out.

    Args:
        connection: a session on the source.
        tables: each table with the types that are created with it.
    """
    pairs = [(oid, type_["oid"]) for oid, types in tables.items() for type_ in types]
    query = statement("definition_needs").format(
        tables=sql.Literal(list(tables)),
        types_of=sql.Literal([oid for oid, _ in pairs]),
        types=sql.Literal([type_ for _, type_ in pairs]),
    )
    needs: Mapping[int, list[NeedPart]] = dict(connection.execute(query).fetchall())
    return needs


def address(need: NeedPart) -> str:
    """Return the expression by which the server finds an object."""
    return json.dumps(need["address"])


def find_addresses(connection: Connection, addresses: Sequence[str]) -> dict[str, bool]:
    """Check that the target has some objects.

    Raises:
        psycopg.Error: an object does not exist.
    """
    connection.execute(statement("addresses"), [f"[{','.join(addresses)}]"])
    return dict.fromkeys(addresses, True)


def needs_of(tables: Iterable[TablePart]) -> list[NeedPart]:
    """Return the needs of all tables, each once."""
    needed = {(need["kind"], need["name"]): need for table in tables for need in table["needs"]}
    return list(needed.values())


def missing_lines(missing: Iterable[NeedPart]) -> list[str]:
    """Return a line for each thing the target lacks, with what would help."""
    return list(dict.fromkeys(_lines(missing)))


def _lines(missing: Iterable[NeedPart]) -> Iterator[str]:
    for need in missing:
        if need["extension"]:
            name = need["extension"]
            yield f"extension {name}: CREATE EXTENSION {ident(name)}"
        else:
            yield f"{need['kind']} {need['name']}"
