"""The .sql files of this folder, and quoting by the driver's own tools."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from psycopg import sql

from penstock.model import TableRef


@cache
def statement(name: str) -> sql.SQL:
    """A .sql file as a template: ``{names}`` are filled by `sql.SQL.format`."""
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")
    return sql.SQL(text)


def raw(text: str) -> sql.SQL:
    """SQL that the user wrote, on lines of its own so that a comment ends with it."""
    return sql.SQL(f"(\n{text}\n)")


def quoted(ref: TableRef) -> sql.Identifier:
    return sql.Identifier(ref.schema, ref.name)


def column_list(names: tuple[str, ...]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def type_name(tag: str) -> sql.Composable:
    """A type from its tag: ``int8`` is built in, ``schema.name`` is not."""
    schema, dot, name = tag.partition(".")
    return sql.Identifier(schema, name) if dot else sql.Identifier("pg_catalog", tag)
