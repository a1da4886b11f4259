"""Columns of a target's table that follow those of the source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.api.optional.drift import PermittedDifferences
from penstock.backends.mysql.catalog.statements import read_statement
from penstock.backends.mysql.catalog.table_model import read_table
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.shared.values.widths import (
    BYTES,
    DECIMAL,
    FLOAT,
    LABELS,
    MOMENT,
    TEXT,
    Sized,
    Width,
    whole,
    width_of,
)
from penstock.backends.sql.definitions.column_changes import needed_changes, with_statements
from penstock.model.drift import ColumnChange
from penstock.model.tables import Column, TableRef

# Sizes of texts are in bytes of utf8mb4.
_CHARACTER = 4
_BITS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_LONGEST = {"tiny": 2**8 - 1, "": 2**16 - 1, "medium": 2**24 - 1, "long": 2**32 - 1}
_TYPES: Mapping[str, Sized] = {
    **{name: whole(bits) for name, bits in _BITS.items()},
    **{f"{name} unsigned": whole(bits, signed=False) for name, bits in _BITS.items()},
    "decimal": Sized(DECIMAL, (10, 0)),
    "float": Sized(FLOAT, (24,)),
    "double": Sized(FLOAT, (53,)),
    "varchar": Sized(TEXT, (0,), _CHARACTER),
    **{f"{size}text": Sized(TEXT, (most,)) for size, most in _LONGEST.items()},
    "varbinary": Sized(BYTES, (0,)),
    **{f"{size}blob": Sized(BYTES, (most,)) for size, most in _LONGEST.items()},
    "datetime": Sized(MOMENT, (0,)),
    "timestamp": Sized("timestamp", (0,)),
    "time": Sized("time", (0,)),
    "bit": Sized("bits", (1,)),
}
_TEXT = r"'(?:[^'\\]|''|\\.)*'"
_TYPE = re.compile(rf"\w+(?:\((?:{_TEXT}|[^')])*\))?(?: unsigned)?")
_SET = re.compile(r" CHARACTER SET \w+| COLLATE \w+")
_NULL = re.compile(r"(?<![\w'])(?:NOT )?NULL\b")
# MariaDB includes the display width of numbers.
_SHOWN = re.compile(r"^((?:small|medium|big)?int|tinyint(?!\(1\)))\(\d+\)")
_SHORT = 255
"""The maximum bytes of a text with a one-byte length."""


def _width(text: str) -> Width | None:
    head = _TYPE.match(text)
    return width_of(head[0], _TYPES) if head else None


def _bare(text: str) -> str:
    """Return a column's type, with its collation, from its definition."""
    head = _TYPE.match(text)
    assert head is not None
    options = text[head.end() :]
    clauses, place = [], 0
    while clause := _SET.match(options, place):
        clauses.append(clause[0])
        place = clause.end()
    return _SHOWN.sub(r"\1", head[0]) + "".join(clauses)


def column_changes(
    session: MySqlSession, table: TableRef, differences: PermittedDifferences
) -> tuple[ColumnChange, ...]:
    """Return the changes that a table needs; see `AltersColumns.column_changes`.

    Args:
        session: a session on the target.
        table: the table to change.
        differences: what follows the source: columns to add, rename, alter, and allow NULL in.
    """
    key = _key(session, table)
    request = replace(
        differences,
        added=[replace(each, type=_bare(each.type)) for each in differences.added],
        type_pairs=[
            (existing, replace(each, type=_bare(each.type)))
            for existing, each in differences.type_pairs
        ],
        newly_nullable=[each for each in differences.newly_nullable if each.name not in key],
    )
    if not (request.type_pairs or request.newly_nullable):
        changes: Sequence[ColumnChange] = list(
            needed_changes(request, _width, _type_alone, _rewrites)
        )
    else:
        model = read_table(read_statement(session, table), table).model
        texts = {each.name: each.definition for each in model.columns}

        def definition(column: Column, type_: str, *, nullable: bool) -> str:
            """Return the column's definition, with its default, comment and so on."""
            text = texts[column.name]
            head = _TYPE.match(text)
            assert head is not None
            options = text[head.end() :]
            if " COLLATE " in type_ or " CHARACTER SET " in type_:
                options = _SET.sub("", options)
            if nullable:
                options = _NULL.sub("NULL", options, count=1)
            return f"{type_ if type_ != column.type else head[0]}{options}"

        changes = [
            _collated(each, texts)
            for each in needed_changes(request, _width, definition, _rewrites)
        ]
    changes = [replace(each, text=f"{each.text} NULL") if each.kind == "add" else each
               for each in changes]  # fmt: skip
    if any(each.cost for each in changes):
        cost = _cost(session, table)
        changes = [replace(each, cost=cost) if each.cost else each for each in changes]
    return with_statements(session.dialect, table, changes)


def _collated(change: ColumnChange, texts: Mapping[str, str]) -> ColumnChange:
    """Return a change with the column's current collation in its type."""
    if change.kind != "widen" or not change.type or " COLLATE " in change.type:
        return change
    clauses = "".join(_SET.findall(texts.get(change.column, "")))
    return replace(change, type=change.type + clauses)


def _type_alone(column: Column, type_: str, *, nullable: bool) -> str:
    return type_


def _rewrites(mine: Width, theirs: Width) -> bool:
    """Whether the server copies the table.

    If it can, it changes only its catalog.

    https://dev.mysql.com/doc/refman/8.4/en/innodb-online-ddl-operations.html
    """
    if mine.kind == theirs.kind == LABELS:
        return theirs.labels[: len(mine.labels)] != mine.labels
    if mine.kind != theirs.kind or mine.kind not in (TEXT, BYTES):
        return True
    texts = set(_LONGEST.values())
    are_varchar = not texts.intersection((mine.sizes[0], theirs.sizes[0]))
    return not are_varchar or (mine.sizes[0] <= _SHORT) != (theirs.sizes[0] <= _SHORT)


def _cost(session: MySqlSession, table: TableRef) -> str:
    ((rows, size),) = session.fetch(
        "SELECT table_rows, data_length + index_length FROM information_schema.tables"
        " WHERE table_schema = %s AND table_name = %s",
        f"table {table}",
        [table.schema, table.name],
    )
    extent = f"about {int(rows or 0):,} rows and {int(size or 0) / 2**20:,.0f} MiB"
    return f"copies the table, {extent}: writers wait"


def _key(session: MySqlSession, table: TableRef) -> set[str]:
    """Return the columns of the primary key, which never allow NULL."""
    rows = session.fetch(
        "SELECT column_name FROM information_schema.key_column_usage WHERE table_schema = %s"
        " AND table_name = %s AND constraint_name = 'PRIMARY'",
        f"table {table}",
        [table.schema, table.name],
    )
    return {str(name) for (name,) in rows}
