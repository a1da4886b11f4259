"""The statements that create tables, as a script for a person to run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.engine.schema import SchemaEnd, TableSchema
from penstock.model.tables import NotCopied


def table_lines(table: TableSchema) -> Iterator[str]:
    """Return the statements of a table, except its foreign keys."""
    yield f"-- {table.table} to {table.target_table}"
    if table.error:
        yield from _comment_lines(f"cannot be made: {table.error}")
    for warning in table.warnings:
        yield from _comment_lines(f"warning: {warning}")
    yield from table.statements
    yield from _omitted_comments(table.not_copied)
    yield ""


def end_lines(links: Sequence[str], end: SchemaEnd) -> Iterator[str]:
    """Return the statements that end the script.

    Args:
        links: the foreign keys of all tables.
        end: the end of the tables, with objects that have no statement.
    """
    if links:
        yield "-- foreign keys, and what else links tables"
        yield from links
    yield from _omitted_comments(end.not_copied)


def _omitted_comments(items: Sequence[NotCopied]) -> Iterator[str]:
    for item in items:
        yield from _comment_lines(f"not made: {item.kind}: {item.name}")
        yield from _comment_lines(item.remedy)


def _comment_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield f"-- {line}"
