"""A table's columns, and which of two columns binary COPY may join unchanged."""

from __future__ import annotations

import re

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import quoted, statement
from penstock.errors import PlanningError
from penstock.model import Column, TableRef

NOT_NATIVE = "(no portable binary form)"
_TYPE = re.compile(r"(?P<head>[^(]*)(?:\((?P<args>[\d,-]+)\))?(?P<tail>.*)")


def read_columns(connection: Connection, ref: TableRef, side: str) -> tuple[Column, ...]:
    """
    Raises:
        PlanningError: no such table.
    """
    name = quoted(ref).as_string(connection)
    with planning(side, f"table {ref}"):
        found = connection.execute("SELECT pg_catalog.to_regclass(%s)", [name]).fetchone()
        if found is None or found[0] is None:
            raise PlanningError(
                f"{side}: table {ref} does not exist in database "
                f"{connection.info.dbname!r} (or its schema may not be used by "
                f"{connection.info.user!r})"
            )
        query = statement("columns").format(table=sql.Literal(name))
        rows = connection.execute(query).fetchall()
    return tuple(
        Column(name, type_ if native else f"{type_} {NOT_NATIVE}", nullable, generated, default)
        for name, type_, nullable, generated, default, native in rows
    )


def refusal(source: Column, target: Column) -> str:
    """Why binary COPY cannot carry this column unchanged; empty where it can.

    Length and precision may differ where a value that does not fit is an error. Where the target
    would round it in silence, they may not.
    """
    if target.generated:
        return "the target computes this column"
    for column in (source, target):
        if column.type.endswith(NOT_NATIVE):
            return "its binary form holds object ids of its own server"
    if source.type == target.type:
        return ""
    from_head, from_args = _split(source.type)
    to_head, to_args = _split(target.type)
    if from_head != to_head:
        return "the types differ"
    if not to_args:
        return ""
    if from_head.startswith("numeric"):
        if not from_args or _scale(from_args) > _scale(to_args):
            return "the target would round"
        return ""
    if from_head.startswith(("time", "interval")):
        if from_args and from_args <= to_args:
            return ""
        return "the target would round"
    return ""  # a text or bit string that is too long is an error


def _split(text: str) -> tuple[str, tuple[int, ...]]:
    found = _TYPE.fullmatch(text)
    assert found is not None
    args = tuple(int(part) for part in (found["args"] or "").split(",") if part)
    return f"{found['head'].strip()}{found['tail']}", args


def _scale(args: tuple[int, ...]) -> int:
    return args[1] if len(args) > 1 else 0
