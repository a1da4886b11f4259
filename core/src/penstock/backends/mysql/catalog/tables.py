"""What the catalog of a server knows of its tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from penstock.backends.mysql.catalog.written import parse, read_statement
from penstock.backends.mysql.dialect import MYSQL, order_name
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.definition import KINDS, definition_of
from penstock.backends.sql.relations import TYPE, no_such, read_relations
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.extents import Key
from penstock.model.tables import Column, NotCopied, TableDefinition, TableRef

DIALECT = "mysql"
# Engines that take part in transactions. https://mariadb.com/kb/en/storage-engines/
TRANSACTIONAL = ("innodb", "rocksdb", "tokudb")
# MariaDB writes how wide numbers are shown; tinyint(1) says that they are truth values.
_WIDTH = re.compile(r"^((?:small|medium|big)?int|year|tinyint(?!\(1\)))\(\d+\)")
# The type comes first.
_NOT_NULL = re.compile(r"^(.+?) NOT NULL\b")
FLAVOUR, WRITTEN = "flavour", "written"
"""What a definition's content has besides."""
GENERATED = "generated columns"
"""What they are called, for people."""
CHARSET = "character set"
"""The trait of a column whose values are texts."""
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
        f" {MYSQL.computed}, character_set_name"
        f" FROM information_schema.columns {OF_TABLE} ORDER BY ordinal_position",
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
            traits={TYPE: type_, CHARSET: charset or ""},
        )
        for (name, written, nullable, default, extra, computed, charset), type_ in zip(
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
    session: MySqlSession, table: TableRef, columns: Sequence[Column], emptied: Collection[str]
) -> TableDefinition:
    """
    Parameters:
        emptied: columns that may be NULL in a table of the definition, whatever this one says.
    """
    keys = [
        ("PRIMARY KEY" if key.primary else "UNIQUE", key.names)
        for key in unique_keys(session, table)
    ]
    statement = read_statement(session, table)
    written = parse(statement)
    whole = {key.name for key in unique_keys(session, table)}
    left = [
        NotCopied(KINDS.get(key.kind, "indexes"), key.name)
        for key in written.keys
        if key.name not in whole
    ]
    left += [NotCopied(KINDS[each.kind], each.name) for each in written.constraints]
    generated = written.generated
    left += [NotCopied(GENERATED, f"{name}: {text}") for name, text in generated.items()]
    texts = {name: text for name, text in written.columns.items() if name not in generated}
    for name in texts.keys() & set(emptied):
        texts[name] = _NOT_NULL.sub(r"\1 NULL", texts[name])
    defined = [
        replace(column, type=texts.get(column.name, column.type), nullable=True)
        for column in columns
    ]
    definition = definition_of(DIALECT, defined, keys, left)
    own = {FLAVOUR: flavour_of(session), WRITTEN: statement}
    return replace(definition, content={**definition.content, **own})


def flavour_of(session: MySqlSession) -> str:
    """Whose types, collations and functions a column's definition is written with."""
    return "MariaDB" if session.connection.is_mariadb else "MySQL"


def order_of(session: MySqlSession, rows: str, key: Key) -> str:
    """What `Key.collation` calls the collation by which the server compares a key; empty for one
    that is no text.

    Parameters:
        rows: an item of FROM.
    """
    value = MYSQL.key(key)
    ((found,),) = session.fetch(
        f"SELECT collation((SELECT {value} FROM {rows} LIMIT 0))", f"--key {key.text}"
    )
    return "" if found == "binary" else order_name(flavour_of(session), found)


def explained_rows(session: MySqlSession, rows: str, tested: str) -> int | None:
    """How many rows the server's planner expects; it scans nothing.

    Parameters:
        rows: an item of FROM.
    """
    return rows_of_each(session, rows, [tested])[0]


def rows_of_each(session: MySqlSession, rows: str, tests: Sequence[str]) -> list[int | None]:
    """The same for many conditions at once."""
    queries = [f"SELECT 1 FROM {rows} WHERE {tested}" for tested in tests]
    try:
        plan = session.explain(" UNION ALL ".join(queries))
    except PlanningError:
        return [None] * len(tests)
    known: dict[int, int] = {}
    for step in plan:
        if step["id"] is not None and step["rows"] is not None:
            known.setdefault(step["id"], int(step["rows"]))
    return [known.get(place) for place in range(1, len(tests) + 1)]
