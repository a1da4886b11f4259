"""What the catalog of a server knows of its tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.definition import KINDS, definition_of
from penstock.backends.sql.relations import TYPE, no_such, read_relations
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.tables import Column, NotCopied, TableDefinition, TableRef

DIALECT = "mysql"
# Engines that take part in transactions. https://mariadb.com/kb/en/storage-engines/
TRANSACTIONAL = ("innodb", "rocksdb", "tokudb")
# MariaDB writes how wide numbers are shown; tinyint(1) says that they are truth values.
_WIDTH = re.compile(r"^((?:small|medium|big)?int|year|tinyint(?!\(1\)))\(\d+\)")
_COLUMN = re.compile(r"  `((?:[^`]|``)+)` (.+?),?")
FLAVOUR = "flavour"
OF_TABLE = "WHERE table_catalog = %s AND table_schema = %s AND table_name = %s"
"""For `Session.facts`."""


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A primary key or unique index. Its text is for people."""

    name: str
    names: tuple[str, ...]
    obstacle: str = ""

    @property
    def primary(self) -> bool:
        return self.name == "PRIMARY"

    def __str__(self) -> str:
        return f"{'primary key' if self.primary else 'unique key'} ({', '.join(self.names)})"


def table_columns(session: MySqlSession, table: TableRef) -> tuple[Column, ...]:
    """All columns, those too that `SELECT *` does not show.

    Raises:
        PlanningError: no such table or view.
    """
    rows = session.facts(
        "SELECT column_name, column_type, is_nullable, column_default, extra,"
        f" {MYSQL.computed} FROM information_schema.columns {OF_TABLE} ORDER BY ordinal_position",
        table,
    )
    if not rows:
        raise no_such(table, read_relations(session), session.side)
    listed = ", ".join(MYSQL.ident(name) for name, *_ in rows)
    query = f"SELECT {listed} FROM {session.table(table)}"
    types = [type_ for _, type_ in session.describe(query, f"table {table}")]
    return tuple(
        Column(
            name,
            _WIDTH.sub(r"\1", str(written)),
            nullable=nullable == "YES",
            generated=computed == 1,
            has_default=default is not None or "auto_increment" in extra,
            traits={TYPE: type_},
        )
        for (name, written, nullable, default, extra, computed), type_ in zip(
            rows, types, strict=True
        )
    )


def unique_keys(session: MySqlSession, table: TableRef) -> tuple[UniqueKey, ...]:
    """Those that tell rows apart, the primary key first."""
    found: dict[str, list[tuple[str | None, int | None]]] = {}
    for name, column, part in session.facts(
        "SELECT index_name, column_name, sub_part FROM information_schema.statistics"
        f" {OF_TABLE} AND non_unique = 0"
        " ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index",
        table,
    ):
        found.setdefault(name, []).append((column, part))
    return tuple(
        UniqueKey(name, tuple(column or "" for column, _ in columns))
        for name, columns in found.items()
        # Of whole columns: not of expressions, nor of their beginnings.
        if all(column and part is None for column, part in columns)
    )


def first_key(session: MySqlSession, table: TableRef) -> str | None:
    """The first column of the primary key; where there is none, of a unique key of columns that are
    never NULL, by which InnoDB stores the rows."""
    nullable = {column.name for column in table_columns(session, table) if column.nullable}
    for key in unique_keys(session, table):
        if not nullable.intersection(key.names):
            return key.names[0]
    return None


def made_at(session: Session, table: TableRef) -> str | None:
    """When a table was made, or emptied by TRUNCATE; None where it is not there."""
    found = session.facts(
        f"SELECT CONVERT(create_time USING utf8mb4) FROM information_schema.tables {OF_TABLE}",
        table,
    )
    return (found[0][0] or "") if found else None


def engine_of(session: MySqlSession, table: TableRef) -> str:
    """Empty for a view."""
    found = session.facts(f"SELECT engine FROM information_schema.tables {OF_TABLE}", table)
    return found[0][0] or "" if found else ""


def read_definition(
    session: MySqlSession, table: TableRef, columns: Sequence[Column]
) -> TableDefinition:
    keys = [
        ("PRIMARY KEY" if key.primary else "UNIQUE", key.names)
        for key in unique_keys(session, table)
    ]
    left = [
        NotCopied("indexes", name)
        for (name,) in session.facts(
            f"SELECT DISTINCT index_name FROM information_schema.statistics {OF_TABLE}"
            " AND non_unique = 1 ORDER BY index_name",
            table,
        )
    ]
    left += [
        NotCopied(KINDS[kind], name)
        for name, kind in session.facts(
            "SELECT constraint_name, constraint_type FROM information_schema.table_constraints"
            " AS c WHERE constraint_catalog = %s AND c.table_schema = %s AND c.table_name = %s"
            " AND constraint_type IN ('FOREIGN KEY', 'CHECK') ORDER BY constraint_name",
            table,
        )
    ]
    written = _written_columns(session, table)
    defined = [
        replace(column, type=written.get(column.name, column.type), nullable=True)
        for column in columns
    ]
    definition = definition_of(DIALECT, defined, keys, left)
    return replace(definition, content={**definition.content, FLAVOUR: flavour_of(session)})


def flavour_of(session: MySqlSession) -> str:
    """Whose types, collations and functions a column's definition is written with."""
    return "MariaDB" if session.connection.is_mariadb else "MySQL"


def _written_columns(session: MySqlSession, table: TableRef) -> dict[str, str]:
    """All that the server writes of its columns: NOT NULL, defaults, comments, collations."""
    ((_, statement, *_),) = session.fetch(f"SHOW CREATE TABLE {session.table(table)}", str(table))
    return {
        found[1].replace("``", "`"): found[2]
        for line in statement.splitlines()
        if (found := _COLUMN.fullmatch(line)) and " GENERATED ALWAYS AS " not in found[2]
    }


def explained_rows(session: MySqlSession, rows: str, tested: str) -> int | None:
    """How many rows the server's planner expects; it scans nothing.

    Parameters:
        rows: an item of FROM.
    """
    try:
        plan = session.explain(f"SELECT 1 FROM {rows} WHERE {tested}")
    except PlanningError:
        return None
    known = [int(row["rows"]) for row in plan if row["rows"] is not None]
    return known[0] if known else None
